/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The facets of a run from its options: those of the user with solutions and beams, or those of a-terms, whose number
 * follows from the screens.
 *
 * The facets of a-terms are the nodes of a grid, between which products of gains are interpolated. Phases of gains are
 * linear about each node, so that only their curvature c limits the distance of nodes h: interpolation between six nodes
 * leaves an error of about 0.07 (h^2 c)^3. The grid is the coarsest with half of the accuracy, as found between the nodes
 * for pairs of antennas at several times and frequencies.
 */
#ifndef MSI_FACET_SETUP_H
#define MSI_FACET_SETUP_H

#include "src/facets/facet_gridding.h"

/* The images that facets are made for. */
typedef struct msi_facet_subject {
    msi_facet_target target; /* feather_pixel is taken from the options */
    const msi_ms_reader *reader;
    const msi_pb_array *pb; /* NULL: no beam */
    const msi_plane *planes;
    int n_plane;
    double accuracy; /* for the number of a-terms' facets */
    int is_quiet;    /* no line for the log */
} msi_facet_subject;

/*
 * msi_facet_setup_make - make facets, give them their gains, and choose the planes of samples.
 * Returned: *facets  emptied by msi_facets_free
 *           *work    of both; spec is empty
 * Returns:  0, or any code of msi_facets_read, msi_facet_gains_assign, msi_facet_planes_choose
 */
int msi_facet_setup_make(const msi_facet_options *o, const msi_facet_subject *subject, msi_facet_gains *gains,
                         msi_facets *facets, msi_facet_work *work);

#endif
