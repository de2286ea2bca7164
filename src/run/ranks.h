/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The ranks of a run: processes on one or several hosts. Each rank reads a part of the samples, and all get the same
 * result. Sums are computed in the order of ranks, so that results repeat bit for bit.
 *
 * A rank that fails goes on to its next msi_ranks_agree, before which the other ranks wait. Then all ranks fail, with
 * the status and message of the lowest rank that failed. This happens before outputs get their names. Therefore a rank
 * must not fail between an agreement and the exchanges that follow it. Ranks that allocate memory agree on it first.
 * Signals are not agreed on: a rank that receives one stops at once, and the launcher ends the other ranks.
 */
#ifndef MSI_RANKS_H
#define MSI_RANKS_H

#include <stdint.h>

#include "core/image.h"
#include "core/types.h"
#include "kernels/gridder.h"

typedef struct msi_ranks msi_ranks;
typedef struct msi_ranks_windows msi_ranks_windows;

/* Functions for communication between ranks. Every rank calls gather, exchange and broadcast in the same order. These
 * return 0, or MSI_EINTERRUPTED after a signal, when the ranks cannot communicate any more. */
typedef struct msi_ranks_link {
    /* join - connect to the other ranks, and set rank and size. Call it after the last fork of this process. */
    void (*join)(msi_ranks *ranks);

    /* gather - send own [n_byte] of every rank to every rank: all [size][n_byte]. */
    int (*gather)(msi_ranks *ranks, const void *own, int64_t n_byte, void *all);

    /* exchange - send part k of own [size][n_byte] to rank k. received [size][n_byte] gets the parts for this rank. */
    int (*exchange)(msi_ranks *ranks, const void *own, int64_t n_byte, void *received);

    /* broadcast - send data [n_byte] of rank 0 to every rank. */
    int (*broadcast)(msi_ranks *ranks, void *data, int64_t n_byte);

    /* alarm_send - make the other ranks stop at their next msi_interrupt_check.
     * alarm_receive - receive the alarm of a rank.
     * alarm_watch - 1: this thread stops at msi_interrupt_check after an alarm; 0: it does not. */
    void (*alarm_send)(msi_ranks *ranks);
    void (*alarm_receive)(msi_ranks *ranks, int rank);
    void (*alarm_watch)(msi_ranks *ranks, int is_on);

    /* end - disconnect from the other ranks. The process must exit afterwards. */
    void (*end)(msi_ranks *ranks);
} msi_ranks_link;

struct msi_ranks {
    int rank, size;         /* 0 and 1 before join */
    int env_rank, env_size; /* from the launcher's environment, known before join; 0 and 1 if it has no numbers */
    /* rank among, and number of, the ranks of this host that see the same GPUs; 0 and 1 before join */
    int gpu_rank, gpu_size;
    const msi_ranks_link *link; /* NULL: there is only one rank */
    int is_failed;              /* 1: the ranks have agreed on a failure, and all of them stop */
    int is_cut_off;             /* 1: after a signal, this rank does not communicate any more */
    msi_ranks_windows *windows; /* memory that all ranks map; NULL before its first use */
    int is_done;                /* 1: the outputs have their names, and a signal does not fail the run any more */
};

#define MSI_RANKS_ALONE ((msi_ranks){.size = 1, .env_size = 1, .gpu_size = 1})

/*
 * msi_ranks_begin - initialise the ranks of the program before it reads its command line. msimage has one rank
 * (main.c), msimage-mp has those of its MPI job (ranks_mpi.c).
 * Notes: if the environment gives this process a rank above 0, the log becomes silent. The host's processors and memory
 *        are divided among its ranks, as far as the environment has their number.
 */
void msi_ranks_begin(msi_ranks *ranks);

/* msi_ranks_join - join of msi_ranks_link. */
void msi_ranks_join(msi_ranks *ranks);

/* msi_ranks_end - end of msi_ranks_link. */
void msi_ranks_end(msi_ranks *ranks);

/*
 * msi_ranks_agree - wait for all ranks, and return a failure of any of them.
 * Given:   status  this rank's status
 * Returns: 0 if all ranks have 0; else the status and message of the lowest rank that failed
 */
int msi_ranks_agree(msi_ranks *ranks, int status);

/*
 * msi_ranks_same - fail if a rank has another value than rank 0.
 * Given:   value
 *          what  verb and object of the message, such as "reads other sets"
 * Returns: 0, MSI_EINPUT on every rank
 */
int msi_ranks_same(msi_ranks *ranks, uint64_t value, const char *what);

/*
 * msi_ranks_sum - add the arrays of all ranks.
 * Given and returned: array [n]  of this precision; the sum on return, computed in double precision
 * Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_ranks_sum(msi_ranks *ranks, void *array, int64_t n, msi_precision precision);

/* msi_ranks_count - replace each of n counts by its sum over all ranks. Returns as msi_ranks_sum. */
int msi_ranks_count(msi_ranks *ranks, int64_t *count, int n);

/* msi_ranks_largest - replace each of n values by its largest over all ranks. Returns as msi_ranks_sum. */
int msi_ranks_largest(msi_ranks *ranks, double *value, int64_t n);

/*
 * msi_ranks_gather - gather the bytes of every rank.
 * Returned: *all [size][n_byte]  freed by msi_free; NULL on failure
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_ranks_gather(msi_ranks *ranks, const void *own, int64_t n_byte, void **all);

/*
 * msi_ranks_broadcast - send the bytes of rank 0 to every rank.
 * Given and returned: data [n_byte]
 * Returns: 0, MSI_EINTERRUPTED
 * Notes:   does not agree first, unlike the other exchanges. The caller ensures that no rank has failed.
 */
int msi_ranks_broadcast(msi_ranks *ranks, void *data, int64_t n_byte);

/*
 * msi_ranks_check_environment - fail if the launcher did not give each rank its number in the environment. Some work is
 * assigned by this number before the ranks join.
 * Returns: 0, MSI_EUSAGE on every rank
 */
int msi_ranks_check_environment(msi_ranks *ranks);

/*
 * msi_ranks_image - combine the images of all ranks. Pixels are weighted means over samples.
 * Given and returned: image  of this rank's samples; of all samples on return, as are its weights and counts
 * Returns: 0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_ranks_image(msi_ranks *ranks, msi_image *image);

/*
 * msi_ranks_sum_density - add the density weights of all ranks, in rank order.
 * Given and returned: d  of this rank's samples; of all samples on return, when no more samples may be added
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_ranks_sum_density(msi_ranks *ranks, msi_density *d);

/*
 * msi_ranks_assign_devices - choose this rank's devices, at least one. The ranks that see the same devices take them in
 * turn. If there are more ranks than devices, ranks share devices.
 * Given:    device [n]  at least one
 * Returned: own [n]     whose first elements are this rank's devices
 * Returns:  the number of this rank's devices
 */
int msi_ranks_assign_devices(const int *device, int n, const msi_ranks *ranks, int *own);

/* msi_ranks_window_close - unmap the memory that the ranks of one host share. */
void msi_ranks_window_close(msi_ranks *ranks);

#endif
