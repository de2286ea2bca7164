/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Make the facets of a run from its options: from regions, at automatic positions, or for a-terms.
 *
 * The facets of a-terms are the nodes of a grid. Products of gains are interpolated between the nodes. A gradient of
 * the phase is taken into account at each node, so only the second derivative c of the phase limits the distance h of
 * nodes. Interpolation between six nodes has an error of about 0.07 (h^2 c)^3. The coarsest grid is used whose error is
 * at most half of the accuracy. The error is measured between nodes, for pairs of antennas at several times and
 * frequencies.
 */
#ifndef MSI_FACET_SETUP_H
#define MSI_FACET_SETUP_H

#include "src/facets/facet_gridding.h"

/* The images for which facets are made, and the data that determine their gains. */
typedef struct msi_facet_subject {
    msi_facet_target target; /* feather_pixel is taken from the options */
    const msi_ms_reader *reader;
    const msi_pb_array *pb; /* NULL: no beam */
    const msi_plane *planes;
    int n_plane;
    double accuracy; /* largest relative error of the interpolation of a-terms */
    int is_quiet;    /* 1: do not log */
} msi_facet_subject;

/*
 * msi_facet_setup_make - make facets, assign gains to them, and choose the planes of samples.
 * Given:    gains    NULL: none
 * Returned: *facets  emptied by msi_facets_free
 *           *work    refers to facets and gains; its spec is empty
 * Returns:  0, or any code of msi_facets_read, msi_facet_gains_assign, msi_facet_planes_choose
 */
int msi_facet_setup_make(const msi_facet_options *o, const msi_facet_subject *subject, msi_facet_gains *gains,
                         msi_facets *facets, msi_facet_work *work);

#endif
