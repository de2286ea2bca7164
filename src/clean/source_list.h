/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The components of a deconvolution as a list of sources, in the format of WSClean and DP3. */
#ifndef MSI_SOURCE_LIST_H
#define MSI_SOURCE_LIST_H

#include "core/image.h"
#include "io/fits/publish.h"
#include "kernels/cleaner.h"

typedef struct msi_source_list msi_source_list;

/*
 * msi_source_list_create - make an empty list of components with a value for each channel.
 * Returned: *out  freed by msi_source_list_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_source_list_create(msi_source_list **out, int n_channel);

/* msi_source_list_free - NULL is fine. */
void msi_source_list_free(msi_source_list *l);

/*
 * msi_source_list_add - add components, as msi_cleaner_minor records them. They are not kept until
 * msi_source_list_keep.
 * Given:   component [n]
 *          value     [n][n_channel][n_pol], Jy, of a precision; those of the first polarisation are taken
 * Returns: 0, MSI_ENOMEM
 */
int msi_source_list_add(msi_source_list *l, const msi_clean_component *component, const void *value,
                        msi_precision precision, int n_pol, int64_t n);

/* msi_source_list_keep - keep what was added: components of one pixel and scale become one. Returns: 0, MSI_ENOMEM */
int msi_source_list_keep(msi_source_list *l);

/* msi_source_list_drop - forget what was added since the last msi_source_list_keep. */
void msi_source_list_drop(msi_source_list *l);

/* msi_source_list_n - count the sources kept. */
int64_t msi_source_list_n(const msi_source_list *l);

/* msi_source_list_bytes, _save, _load - pass what is kept as bytes for a checkpoint.
 * Returned by save: to [msi_source_list_bytes]. Returns by load: 0, MSI_ENOMEM, MSI_EINPUT (no list of so many
 *                   channels)
 */
int64_t msi_source_list_bytes(const msi_source_list *l);
void msi_source_list_save(const msi_source_list *l, void *to);
int msi_source_list_load(msi_source_list *l, const void *from, int64_t bytes);

/* Sources have places on this sky, and spectra. */
typedef struct msi_source_sky {
    const msi_image_geometry *geometry;
    double ra_rad, dec_rad; /* of the image's centre */
    const char *frame;      /* J2000 .. */
    const double *scale;    /* [n_scale] full widths in pixels; the first is 0 */
    int n_scale;
    /* terms makes terms of the values of channels: the value at the reference frequency and what follows it, n_term in
     * all; NULL: the mean over channels by weight, and no more. */
    int (*terms)(const void *fit, const double *value, double *term);
    const void *fit; /* handed to it */
    int n_term;
    int is_logarithmic; /* a_0 10^(a_1 x + a_2 x^2 ..), x = log10(frequency / reference); else a_0 + a_1 x + .., x =
                           frequency / reference - 1 */
    double reference_hz;
    const double *weight; /* [n_channel]; NULL: alike */
} msi_source_sky;

/*
 * msi_source_list_write - write output i of a plan, up to and including msi_publish_seal. Scales above 0 are gaussians
 * with a full width at half maximum of 2.3548 x 3/16 of theirs. Sources of the brightest come first in each scale.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_ERANGE (no such place on the sky)
 */
int msi_source_list_write(msi_publish *p, int i, const msi_source_list *l, const msi_source_sky *sky);

/* Components of a cleaner on their way into a list of sources. */

/* Tells whose components they are. */
typedef struct msi_clean_sources_spec {
    int n_channel, n_pol; /* of the cleaner */
    int pol;              /* the one of n_pol whose values are kept */
    msi_precision precision;
} msi_clean_sources_spec;

typedef struct msi_clean_sources {
    msi_clean_sources_spec spec;
    msi_source_list *list;
    msi_clean_component *component; /* [room] of a call */
    void *value;                    /* [room][n_channel][n_pol] */
    int64_t room;
} msi_clean_sources;

/* msi_clean_sources_bytes - count what a call's components take: as many as one major cycle may have. */
int64_t msi_clean_sources_bytes(void);

/*
 * msi_clean_sources_create - make an empty list, with room for the components of a call.
 * Returned: *out  freed by msi_clean_sources_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_clean_sources_create(msi_clean_sources **out, const msi_clean_sources_spec *spec);

/* msi_clean_sources_free - NULL is fine. */
void msi_clean_sources_free(msi_clean_sources *s);

/* msi_clean_sources_limit - let a call of msi_cleaner_minor record its components: no more than there is room for. */
void msi_clean_sources_limit(const msi_clean_sources *s, msi_clean_limits *limits);

/* msi_clean_sources_add - add what a call recorded; msi_source_list_keep keeps it. Returns: 0, MSI_ENOMEM */
int msi_clean_sources_add(msi_clean_sources *s, const msi_clean_report *report);

/*
 * msi_clean_sources_model - keep every pixel of a model that is not zero as a point.
 * Given:   model  [n_channel][n_pol] planes
 * Returns: 0, MSI_ENOMEM, MSI_EGPU
 */
int msi_clean_sources_model(msi_clean_sources *s, const msi_planes *model);

#endif
