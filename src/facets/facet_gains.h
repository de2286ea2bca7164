/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The gains of facets. Each facet, antenna, time and frequency has a Jones matrix J = G B: solutions G from H5Parm
 * files, and the primary beam B in the facet's direction. The model of the baseline of antennas p and q is
 * V_pq = J_p S J_q^H, with the sky S of the facet. Gains of a-terms change within a facet: their phases are linear in
 * l and m around the middle of its box.
 *
 * Each new time gets the next slot. Each row of samples has a tag: its antennas and its slot.
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
    double update_s;       /* -facet-beam-update: time for which the beam is constant; 0: computed for each time */
    double aterm_update_s; /* -beam-aterm-update: the same with a-terms */
    int any_direction;     /* -no-solution-directions-check. 0: refuse a facet whose nearest solutions are for a
                              direction in another facet */
    double feather_pixel;  /* -feather-size; negative: 1 % of the image */
    int scalar, diagonal;  /* -scalar-visibilities, -diagonal-visibilities */
} msi_facet_options;

/*
 * msi_facet_gains_open - read the solutions and a-terms. It forks, so call it before any thread starts.
 * Given:    o      needed only for the call
 *           n_set  number of sets
 * Returned: *out   freed by msi_facet_gains_free; NULL if there are no gains, and on failure
 * Returns:  0, MSI_EINPUT (as msi_h5parm_read, msi_aterms_open; amplitudes and phases have different polarisations; the
 *           number of files is neither 1 nor n_set), MSI_EUSAGE, MSI_ENOMEM
 */
int msi_facet_gains_open(msi_facet_gains **out, const msi_facet_options *o, int n_set);

/*
 * msi_facet_gains_assign - find the solutions of the facets and of the antennas of the sets. Antennas without solutions
 * have the gain 1.
 * Given:    facets, reader  needed only for the call
 *           pb  beam models of the sets, borrowed until the next call; NULL: no beam. The beam of a facet beyond the
 *               range of a model is 1
 * Returns:  0, MSI_EINPUT (no antenna has solutions; the nearest solutions of a facet are for a direction in another
 *           facet), MSI_ENOMEM
 */
int msi_facet_gains_assign(msi_facet_gains *g, const msi_facets *facets, const msi_ms_reader *reader,
                           const msi_pb_array *pb);

/* msi_facet_gains_check - compare the a-terms with the sets. Returns: 0, MSI_EINPUT (different numbers of antennas) */
int msi_facet_gains_check(const msi_facet_gains *g, const msi_ms_reader *reader);

/* msi_facet_feeds - find whether the feeds of all sets are circular. Returns: 0, MSI_EINPUT (there are both kinds) */
int msi_facet_feeds(const msi_ms_reader *reader, int *is_circular);

/* msi_facet_gains_form - return the form of the gains, which is known after msi_facet_gains_assign. */
msi_gain_form msi_facet_gains_form(const msi_facet_gains *g);

/* msi_facet_gains_has_beam - return 1 if a primary beam is part of the gains. */
int msi_facet_gains_has_beam(const msi_facet_gains *g);

/* msi_facet_gains_has_slopes - return 1 if gains change within a facet, as gains of a-terms do. */
int msi_facet_gains_has_slopes(const msi_facet_gains *g);

/*
 * msi_facet_gains_tag - make the tags of the rows of a block.
 * Returned: tag [block->n_row]
 * Returns:  0, MSI_ENOMEM, MSI_EINPUT (an antenna or slot that a tag cannot hold)
 */
int msi_facet_gains_tag(msi_facet_gains *g, const msi_ms_block *block, uint64_t *tag);

/* msi_facet_gains_n_slot - return the number of slots so far; msi_facet_gains_n_antenna - return the number of antennas
 * of the set of a slot. */
int64_t msi_facet_gains_n_slot(const msi_facet_gains *g);
int64_t msi_facet_gains_n_antenna(const msi_facet_gains *g, int64_t slot);

/*
 * msi_facet_gains_make - make the gains of a facet in a slot. Several threads may call it.
 * Given:    only_beam  1: leave the solutions out
 * Returned: jones [antennas][n_chan][form]  0: no solution. Gains with slopes are for the middle of the facet's box
 *           slope [antennas][n_chan][2]     change of the phase with l and m; not used if gains have no slopes
 */
void msi_facet_gains_make(const msi_facet_gains *g, int facet, int64_t slot, int only_beam, int32_t n_chan,
                          const double *freq_hz, msi_c64 *jones, double (*slope)[2]);

/* msi_facet_gains_shift - compute the shift of sources by a-terms in the middle of a facet's box. Returned: shift  in
 * l, m, n; its change with l; with m */
void msi_facet_gains_shift(const msi_facet_gains *g, int facet, int64_t slot, double shift[3][3]);

/* msi_facet_gains_slot - find the slot of a time of a set, with the pointing of its first field. Returns: 0,
 * MSI_ENOMEM, MSI_EINPUT */
int msi_facet_gains_slot(msi_facet_gains *g, int set, double time_s, int64_t *slot);

void msi_facet_gains_free(msi_facet_gains *g); /* NULL-safe */

#endif
