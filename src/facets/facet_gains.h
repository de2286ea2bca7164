/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The gains of facets: for each facet, antenna, time and frequency a Jones matrix J = G B of solutions G in H5Parm files
 * and the primary beam B in the facet's direction. The model is V_pq = J_p S J_q^H for the baseline of antennas p and q
 * and the sky S of the facet.
 *
 * Times are numbered in slots as they come, and each row of samples has a tag: its antennas and its slot.
 */
#ifndef MSI_FACET_GAINS_H
#define MSI_FACET_GAINS_H

#include "core/types.h"
#include "io/ms/ms_reader.h"
#include "src/pb/pb_array.h"
#include "src/facets/facet_regions.h"

typedef struct msi_facet_gains msi_facet_gains;

/* Forms of a Jones matrix: a number for both feeds, a number for each, or all four elements XX, XY, YX, YY. */
typedef enum msi_gain_form { MSI_GAIN_SCALAR = 1, MSI_GAIN_DIAGONAL = 2, MSI_GAIN_FULL = 4 } msi_gain_form;

typedef struct msi_facet_gains_spec {
    const char *files;  /* H5Parm files separated by commas: one, or one for each set; NULL: no solutions */
    const char *tables; /* names of solution tables separated by commas */
    int n_set;
    int is_linear;         /* interpolate between solutions; otherwise use the nearest */
    int checks_directions; /* refuse a facet whose nearest solutions are for a direction in another facet */
    double update_s;       /* the beam is constant for this time; 0: computed for each time */
} msi_facet_gains_spec;

/*
 * msi_facet_gains_open - read the solutions. Call it before any thread starts: it forks.
 * Given:    spec  needed only for the call
 * Returned: *out  freed by msi_facet_gains_free; NULL on failure
 * Returns:  0, MSI_EINPUT (as msi_h5parm_read; amplitudes and phases of other polarisations; another number of files),
 *           MSI_EUSAGE, MSI_ENOMEM
 */
int msi_facet_gains_open(msi_facet_gains **out, const msi_facet_gains_spec *spec);

/*
 * msi_facet_gains_assign - find the solutions of the facets and of the antennas of the sets. Antennas without solutions
 * have the gain 1.
 * Given:    facets, reader  needed only for the call
 *           pb  models of the sets, borrowed until the next call; NULL: no beam. Beyond the range of a model the beam
 *               of a facet is 1
 * Returns:  0, MSI_EINPUT (no antenna has solutions; the solutions of a facet are for a direction in another one),
 *           MSI_ENOMEM
 */
int msi_facet_gains_assign(msi_facet_gains *g, const msi_facets *facets, const msi_ms_reader *reader,
                           const msi_pb_array *pb);

/* msi_facet_feeds - find whether the feeds of all sets are circular. Returns: 0, MSI_EINPUT (there are both kinds) */
int msi_facet_feeds(const msi_ms_reader *reader, int *is_circular);

/* msi_facet_gains_form - return the form of the gains, which is known after msi_facet_gains_assign. */
msi_gain_form msi_facet_gains_form(const msi_facet_gains *g);

/* msi_facet_gains_has_beam - return 1 if a primary beam is part of the gains. */
int msi_facet_gains_has_beam(const msi_facet_gains *g);

/*
 * msi_facet_gains_tag - make the tags of the rows of a block.
 * Returned: tag [block->n_row]
 * Returns:  0, MSI_ENOMEM, MSI_EINPUT (an antenna or slot that a tag cannot hold)
 */
int msi_facet_gains_tag(msi_facet_gains *g, const msi_ms_block *block, uint64_t *tag);

/* The parts of a tag. */
static inline int msi_tag_first(uint64_t tag)
{
    return (int)(tag & 0xffff);
}

static inline int msi_tag_second(uint64_t tag)
{
    return (int)(tag >> 16 & 0xffff);
}

static inline int64_t msi_tag_slot(uint64_t tag)
{
    return (int64_t)(tag >> 32);
}

/* msi_facet_gains_n_antenna - return the number of antennas of the set of a slot. */
int64_t msi_facet_gains_n_antenna(const msi_facet_gains *g, int64_t slot);

/*
 * msi_facet_gains_make - make the gains of a facet in a slot. Several threads may call it.
 * Given:    only_beam  without solutions
 * Returned: jones [antennas][n_chan][form]  0: no solution
 */
void msi_facet_gains_make(const msi_facet_gains *g, int facet, int64_t slot, int only_beam, int32_t n_chan,
                          const double *freq_hz, msi_c64 *jones);

void msi_facet_gains_free(msi_facet_gains *g); /* NULL-safe */

#endif
