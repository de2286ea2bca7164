/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The gains of facets: for each facet, antenna, time and frequency a Jones matrix J = G B of solutions G in H5Parm files
 * and the primary beam B in the facet's direction. The model is V_pq = J_p S J_q^H for the baseline of antennas p and q
 * and the sky S of the facet. Gains of a-terms change within a facet: their phases are linear in l and m, with slopes
 * from the middle of its box.
 *
 * Times are numbered in slots as they come, and each row of samples has a tag: its antennas and its slot.
 */
#ifndef MSI_FACET_GAINS_H
#define MSI_FACET_GAINS_H

#include "core/types.h"
#include "io/ms/ms_reader.h"
#include "kernels/sample_gains.h"
#include "src/pb/pb_array.h"
#include "src/facets/facet_regions.h"

typedef struct msi_facet_gains msi_facet_gains;

/* Options of facets. */
typedef struct msi_facet_options {
    const char *regions, *automatic; /* -facet-regions, -facet-auto; NULL: not given; at most one is */
    const char *aterms;              /* -aterm-config (aterms.h), which makes facets by itself; NULL: none */
    const char *files, *tables;      /* -apply-facet-solutions: H5Parm files, one or one for each set; NULL: none */
    enum { MSI_SOLUTION_NEAREST, MSI_SOLUTION_LINEAR } is_linear;
    int beam;              /* -apply-facet-beam, or -grid-with-beam with a-terms */
    double update_s;       /* -facet-beam-update: the beam is constant for this time; 0: computed for each time */
    double aterm_update_s; /* -beam-aterm-update: the same with a-terms */
    int any_direction;     /* -no-solution-directions-check; otherwise a facet whose nearest solutions are for a
                              direction in another facet is refused */
    double feather_pixel;  /* -feather-size; negative: chosen */
    int scalar, diagonal;  /* -scalar-visibilities, -diagonal-visibilities */
} msi_facet_options;

/*
 * msi_facet_gains_open - read the solutions and a-terms. Call it before any thread starts: it forks.
 * Given:    o      needed only for the call
 *           n_set  sets
 * Returned: *out   freed by msi_facet_gains_free; NULL if there are no gains, and on failure
 * Returns:  0, MSI_EINPUT (as msi_h5parm_read, msi_aterms_open; amplitudes and phases of other polarisations; another
 *           number of files), MSI_EUSAGE, MSI_ENOMEM
 */
int msi_facet_gains_open(msi_facet_gains **out, const msi_facet_options *o, int n_set);

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

/* msi_facet_gains_check - compare the a-terms with the sets. Returns: 0, MSI_EINPUT (another number of antennas) */
int msi_facet_gains_check(const msi_facet_gains *g, const msi_ms_reader *reader);

/* msi_facet_feeds - find whether the feeds of all sets are circular. Returns: 0, MSI_EINPUT (there are both kinds) */
int msi_facet_feeds(const msi_ms_reader *reader, int *is_circular);

/* msi_facet_gains_form - return the form of the gains, which is known after msi_facet_gains_assign. */
msi_gain_form msi_facet_gains_form(const msi_facet_gains *g);

/* msi_facet_gains_has_beam - return 1 if a primary beam is part of the gains. */
int msi_facet_gains_has_beam(const msi_facet_gains *g);

/* msi_facet_gains_has_slopes - return 1 if gains change within a facet, as those of a-terms. */
int msi_facet_gains_has_slopes(const msi_facet_gains *g);

/*
 * msi_facet_gains_tag - make the tags of the rows of a block.
 * Returned: tag [block->n_row]
 * Returns:  0, MSI_ENOMEM, MSI_EINPUT (an antenna or slot that a tag cannot hold)
 */
int msi_facet_gains_tag(msi_facet_gains *g, const msi_ms_block *block, uint64_t *tag);

/* msi_facet_gains_n_slot - return the number of slots so far; msi_facet_gains_n_antenna - return the number of antennas of
 * the set of a slot. */
int64_t msi_facet_gains_n_slot(const msi_facet_gains *g);
int64_t msi_facet_gains_n_antenna(const msi_facet_gains *g, int64_t slot);

/*
 * msi_facet_gains_make - make the gains of a facet in a slot. Several threads may call it.
 * Given:    only_beam  without solutions
 * Returned: jones [antennas][n_chan][form]  0: no solution. In the middle of the facet's box if they have slopes
 *           slope [antennas][n_chan][2]     change of the phase by l and m; not used if they have none
 */
void msi_facet_gains_make(const msi_facet_gains *g, int facet, int64_t slot, int only_beam, int32_t n_chan,
                          const double *freq_hz, msi_c64 *jones, double (*slope)[2]);

/* msi_facet_gains_shift - compute how far a-terms shift sources in the middle of a facet's box. Returned: shift  l, m,
 * n; its change by l; by m */
void msi_facet_gains_shift(const msi_facet_gains *g, int facet, int64_t slot, double shift[3][3]);

/* msi_facet_gains_slot - return the slot of a time of a set and the pointing of its first field, for trials. Returns: 0,
 * MSI_ENOMEM, MSI_EINPUT */
int msi_facet_gains_slot(msi_facet_gains *g, int set, double time_s, int64_t *slot);

void msi_facet_gains_free(msi_facet_gains *g); /* NULL-safe */

#endif
