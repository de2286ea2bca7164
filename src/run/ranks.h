/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The ranks of one run: processes on one or several hosts that read a part of the samples each and share the result.
 * Sums are made in the order of ranks, so that they repeat bit for bit.
 *
 * A rank that fails goes up to the next msi_team_agree, whichever that is, and every other rank comes to one before
 * anything gets its name: there all take over the failure of the lowest rank that has one. So no rank may fail by
 * itself between an agreement and the exchanges behind it; those that need memory agree on having it. A signal is not
 * waited with: a rank that it reaches stops at once, and the launcher ends the others.
 */
#ifndef MSI_RANKS_H
#define MSI_RANKS_H

#include <stdint.h>

#include "core/image.h"
#include "core/types.h"
#include "kernels/gridder.h"

typedef struct msi_team msi_team;

/* Ranks reach each other by these. gather, swap and broadcast are called by every rank, in the same order; they return
 * 0, or MSI_EINTERRUPTED where a signal came first, after which nothing can be exchanged. */
typedef struct msi_team_link {
    /* join - after the last fork of this process: from now on team->rank and team->size are known. */
    void (*join)(msi_team *team);

    /* gather - own [n_byte] of every rank to every rank: all [size][n_byte]. */
    int (*gather)(msi_team *team, const void *own, int64_t n_byte, void *all);

    /* swap - part k of own [size][n_byte] to rank k; received [size][n_byte] has what each rank had for this one. */
    int (*swap)(msi_team *team, const void *own, int64_t n_byte, void *received);

    /* broadcast - data [n_byte] of rank 0 to every rank. */
    int (*broadcast)(msi_team *team, void *data, int64_t n_byte);

    /* alarm - have the other ranks stop where they look at msi_interrupt_check. calm - take the alarm that a rank has
     * given. heed - non-zero: from now on this thread does so, too. */
    void (*alarm)(msi_team *team);
    void (*calm)(msi_team *team, int rank);
    void (*heed)(msi_team *team, int is_heeded);

    /* end - leave the others, as the last thing that this process does. */
    void (*end)(msi_team *team);
} msi_team_link;

struct msi_team {
    int rank, size;            /* 0 and 1 before join */
    int env_rank, env_size;    /* what the environment tells of them before join: 0 and 1 where it tells nothing */
    int gpu_rank, gpu_size;    /* likewise among the ranks of its host that see the same GPUs */
    const msi_team_link *link; /* NULL: there is one rank for ever */
    int is_settled;            /* a failure is agreed on: every rank is on its way out */
    int is_cut_off;            /* a signal has come: nothing is exchanged any more */
    int is_done;               /* the results have their names: a signal comes too late */
};

#define MSI_TEAM_ALONE ((msi_team){.size = 1, .env_size = 1, .gpu_size = 1})

/*
 * msi_team_begin - make the team of the program, before it looks at its command line. Of msimage it has one rank, of
 * msimage-mp those of the job (two files, of which each program has one).
 * Notes: where another than the first rank can be told by the environment, the log is silent from here on; the host's
 *        processors and memory are shared out among the ranks that the environment tells of.
 */
void msi_team_begin(msi_team *team);

/* msi_team_join - see msi_team_link. */
void msi_team_join(msi_team *team);

/* msi_team_end - see msi_team_link. */
void msi_team_end(msi_team *team);

/*
 * msi_team_agree - wait for all ranks, and learn whether any has failed.
 * Given:   status  of this rank
 * Returns: 0 where all have 0; else the status of the lowest rank that has failed by itself, with its message
 */
int msi_team_agree(msi_team *team, int status);

/*
 * msi_team_same - fail where a rank has another value than rank 0.
 * Given:   value; what  "reads other sets", what is said of that rank
 * Returns: 0, MSI_EINPUT on every rank
 */
int msi_team_same(msi_team *team, uint64_t value, const char *what);

/*
 * msi_team_sum - add the arrays of all ranks.
 * Given and returned: array [n]  of this precision; the sum on every rank, added up in double precision
 * Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_team_sum(msi_team *team, void *array, int64_t n, msi_precision precision);

/* msi_team_count - likewise of whole numbers, a few. */
int msi_team_count(msi_team *team, int64_t *count, int n);

/* msi_team_largest - find the largest of all ranks for each of n values, likewise. */
int msi_team_largest(msi_team *team, double *value, int64_t n);

/*
 * msi_team_gather - gather the bytes of every rank.
 * Returned: *all [size][n_byte]  freed by msi_free; NULL on failure
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_team_gather(msi_team *team, const void *own, int64_t n_byte, void **all);

/*
 * msi_team_broadcast - give every rank the bytes of rank 0.
 * Given and returned: data [n_byte]
 * Returns: 0, MSI_EINTERRUPTED
 * Notes:   the only exchange before which ranks do not agree: whoever calls sees to it that none has failed.
 */
int msi_team_broadcast(msi_team *team, void *data, int64_t n_byte);

/*
 * msi_team_check_environment - fail where the launcher did not tell each rank its number by the environment,
 * by which some of its work was chosen before it joined the others.
 * Returns: 0, MSI_EUSAGE on every rank
 */
int msi_team_check_environment(msi_team *team);

/*
 * msi_team_image - make one image of the images of all ranks: pixels are means over samples, each with its weight.
 * Given and returned: image  on every rank that of all samples, with their sums of weights and numbers
 * Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_team_image(msi_team *team, msi_image *image);

/* Whole sets are assigned to ranks, and the devices of a host. */

/*
 * msi_assign_sets - assign sets to ranks, the largest first, each to the rank that has the fewest bytes so far, the
 * lowest of equal ones.
 * Given:    bytes [n]
 * Returned: rank [n]
 * Returns:  0, MSI_ENOMEM
 * Notes:    the same on every rank. The first rank has a set as long as there is one.
 */
int msi_assign_sets(const int64_t *bytes, int n, int n_rank, int *rank);

/*
 * msi_assign_devices - choose the devices of this rank: in turns among the ranks that see the same ones, one at least.
 * Ranks that are more than devices share some.
 * Given:    device [n]  at least one
 * Returned: own [n]     those of this rank come first
 * Returns:  their number
 */
int msi_assign_devices(const int *device, int n, const msi_team *team, int *own);

/* Density weights of all ranks of a team. */

/*
 * msi_shared_density - make of this rank's sums of weights those of all ranks, in rank order.
 * Given and returned: d  of this rank's samples; of all, and no more to be added to
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_shared_density(msi_team *team, msi_density *d);

#endif
