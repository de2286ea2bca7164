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
 * msi_source_list_add - add components recorded by msi_cleaner_minor. They are pending until msi_source_list_keep or
 * msi_source_list_drop.
 * Given:   component [n]
 *          value     [n][n_channel][n_pol], Jy, of the given precision; only the first polarisation is used
 * Returns: 0, MSI_ENOMEM
 */
int msi_source_list_add(msi_source_list *l, const msi_clean_component *component, const void *value,
                        msi_precision precision, int n_pol, int64_t n);

/* msi_source_list_keep - keep the pending components. Components of the same pixel and scale are summed. Returns: 0,
 * MSI_ENOMEM */
int msi_source_list_keep(msi_source_list *l);

/* msi_source_list_drop - discard the pending components. */
void msi_source_list_drop(msi_source_list *l);

/* msi_source_list_n - return the number of kept sources. */
int64_t msi_source_list_n(const msi_source_list *l);

/* msi_source_list_bytes, _save, _load - convert the kept sources to bytes for a checkpoint, and back.
 * Returned by save: to [msi_source_list_bytes]. Returns by load: 0, MSI_ENOMEM, MSI_EINPUT (the list has
 *                   another number of channels)
 */
int64_t msi_source_list_bytes(const msi_source_list *l);
void msi_source_list_save(const msi_source_list *l, void *to);
int msi_source_list_load(msi_source_list *l, const void *from, int64_t bytes);

/* The coordinates and spectra of the sources. */
typedef struct msi_source_sky {
    const msi_image_geometry *geometry;
    double ra_rad, dec_rad; /* direction of the image's centre */
    const char *frame;      /* J2000 .. */
    const double *scale;    /* [n_scale] full widths in pixels; the first is 0 */
    int n_scale;
    /* Fits n_term terms to the values of the channels. The first is the value at the reference frequency. NULL: one
     * term, the weighted mean over channels. */
    int (*terms)(const void *fit, const double *value, double *term);
    /* Alternative to `terms`: fits terms to the values of the images at a pixel, which are not divided by response. */
    int (*terms_at)(const void *fit, int64_t pixel, const double *value, double *term);
    const void *fit; /* the argument of both */
    int n_term;
    int is_logarithmic; /* 1: a_0 10^(a_1 x + a_2 x^2 ..), x = log10(frequency / reference); 0: a_0 + a_1 x + .., x =
                           frequency / reference - 1 */
    double reference_hz;
    const double *weight; /* [n_channel]; NULL: equal weights */
    /* [ny][nx] The values are divided by it, and sources where it is not positive are left out; NULL: 1. */
    const float *response;
} msi_source_sky;

/*
 * msi_source_list_write - write output i of a plan, up to and including msi_publish_seal. A scale above 0 is a gaussian
 * whose full width at half maximum is 2.3548 x 3/16 of the scale's width. Sources are ordered by scale and, within a
 * scale, by decreasing brightness.
 * Returns: 0, MSI_EOUTPUT, MSI_ENOMEM, MSI_ERANGE (a source is not on the sky)
 */
int msi_source_list_write(msi_publish *p, int i, const msi_source_list *l, const msi_source_sky *sky);

/* ---- A list with buffers for the components that a cleaner records ---- */

/* The shape of the components. */
typedef struct msi_clean_sources_spec {
    int n_channel, n_pol; /* numbers of channels and polarisations of the cleaner */
    int pol;              /* the polarisation whose values are kept */
    msi_precision precision;
} msi_clean_sources_spec;

typedef struct msi_clean_sources {
    msi_clean_sources_spec spec;
    msi_source_list *list;
    msi_clean_component *component; /* [capacity] components of a call of msi_cleaner_minor */
    void *value;                    /* [capacity][n_channel][n_pol] */
    int64_t capacity;
} msi_clean_sources;

/* msi_clean_sources_bytes - return the bytes of the buffers. They limit the components of a major cycle. */
int64_t msi_clean_sources_bytes(void);

/*
 * msi_clean_sources_create - make an empty list and buffers for the components of a call.
 * Returned: *out  freed by msi_clean_sources_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_clean_sources_create(msi_clean_sources **out, const msi_clean_sources_spec *spec);

/* msi_clean_sources_free - NULL is fine. */
void msi_clean_sources_free(msi_clean_sources *s);

/* msi_clean_sources_limit - make a call of msi_cleaner_minor record its components, and limit their number to the
 * capacity. */
void msi_clean_sources_limit(const msi_clean_sources *s, msi_clean_limits *limits);

/* msi_clean_sources_add - add the recorded components of a call (msi_source_list_add). Returns: 0, MSI_ENOMEM */
int msi_clean_sources_add(msi_clean_sources *s, const msi_clean_report *report);

/*
 * msi_clean_sources_model - keep every non-zero pixel of a model as a point source.
 * Given:   model  [n_channel][n_pol] planes
 * Returns: 0, MSI_ENOMEM, MSI_EGPU
 */
int msi_clean_sources_model(msi_clean_sources *s, const msi_planes *model);

#endif
