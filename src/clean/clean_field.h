/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A field is the subject of one sequence of major cycles: one output channel, or all of them if they are joined, in
 * every polarisation. Its images are cleaned in groups. The images of a group are searched together: one polarisation
 * or all of them. Groups share only the samples.
 */
#ifndef MSI_SRC_CLEAN_FIELD_H
#define MSI_SRC_CLEAN_FIELD_H

#include <stdint.h>

#include "core/image.h"
#include "kernels/cleaner.h"
#include "kernels/gridder.h"
#include "src/clean/clean_samples.h"
#include "src/clean/source_list.h"
#include "src/options/options.h"
#include "src/sky/stokes.h"

/*
 * Fitted spectra can depend on the position, for two reasons. With a primary beam, the images show the sky multiplied
 * by the beam; the spectrum of the beam must not become part of the fitted spectrum of the sky. And an image can give
 * the spectral index of each pixel.
 */

/* How the images of a field show the sky at each pixel, and which spectral terms are given there. */
typedef struct msi_clean_sight {
    /*
     * respond - compute the responses at a pixel. Threads call it concurrently. NULL: the images show the sky itself.
     * Returned: response  [n_channel][n_pol][n_pol] of the imaged channels: element [c][to][from] is the response of
     *                     image `to` to the sky in `from`; NaN or 0: not known
     */
    void (*respond)(const void *user, int64_t pixel, double *response);
    const void *user;
    int n_channel, n_pol;
    /* [n_forced][n_pixel] given terms of the log-polynomial, without the first. At pixels where a term is not finite,
     * all terms are fitted. NULL: all terms are fitted everywhere. */
    const float *forced;
    int n_forced;
    int64_t n_pixel;
} msi_clean_sight;

/* msi_seen_spectra_work - return the number of doubles in the work array of msi_seen_spectra_terms. */
int64_t msi_seen_spectra_work(const msi_clean_sight *sight);

/*
 * msi_seen_spectra_terms - fit the spectrum of the sky at a pixel in one polarisation.
 * Given:    value  [n_value] the pixel in the images of the cleaned channels
 * Returned: term   [msi_cleaner_n_term] terms of the spectrum
 *           seen   [n_value] the fitted spectrum as the images show it; NULL: not wanted
 *           work   [msi_seen_spectra_work] overwritten; each thread needs its own
 */
void msi_seen_spectra_terms(const msi_clean_sight *sight, const msi_cleaner *cleaner, int pol, int64_t pixel,
                            int n_value, const double *value, double *term, double *seen, double *work);

/* The input of a field. Everything is borrowed. */
typedef struct msi_clean_field_spec {
    const msi_clean_options *options; /* options of deconvolution */
    msi_image_geometry geometry;
    double accuracy;      /* accuracy of residuals at the start */
    int accuracy_follows; /* use a better accuracy when the residuals become deep */
    int n_thread;
    int grid_x, grid_y;         /* number of cells along x and y; each has its own PSF */
    msi_clean_samples *samples; /* counted; of n_pol planes */
    int64_t first;              /* the field has the channels [first, first + n_channel) of the samples */
    int n_channel, n_pol;
    const msi_plane *planes; /* [n_pol] */
    unsigned searched;       /* bits of the planes that are searched if they are joined; 0: all */
    const double *freq_hz;   /* [n_channel] */
    /* NULL: none. With Taylor terms the samples have one channel, first. The images of the field are the terms,
     * n_channel of them, and the cleaned channels are the nodes. */
    const msi_clean_taylor *taylor;
    /* If set, fitted spectra describe the true flux of the sky; NULL: they describe the flux in the images. */
    const msi_clean_sight *sight;
    /* GPUs that share minor iterations, [n_device], the first that of the planes. 0: only that one */
    const int *devices;
    int n_device;
    int n_parallel; /* channels that may be gridded at the same time, each on its own device; 0 means 1 */
} msi_clean_field_spec;

enum { MSI_CLEAN_STOP_TEXT = 32 };

/* A group, its progress, and why it stopped. */
typedef struct msi_clean_group {
    int pol;                               /* its polarisation; -1: all */
    msi_cleaner *cleaner;                  /* NULL: no channel has a sample, and nothing is cleaned */
    msi_planes *residual, *model, *before; /* [n_cleaned][polarisations] views of the field's planes; before: the model
                                              at the start of a cycle, restored if the cycle is undone */
    /* [n_channel][polarisations] views; NULL if the imaged channels are cleaned directly */
    msi_planes *part_residual, *part_model;
    msi_auto_mask *auto_mask;            /* mask of -auto-multithresh; NULL: none */
    msi_clean_sources *sources;          /* sources of -save-source-list, if the group has Stokes I; NULL: none */
    const char *stop;                    /* why it stopped; NULL: cleaning continues */
    char stop_text[MSI_CLEAN_STOP_TEXT]; /* storage of stop after a checkpoint was loaded */
    int in_mask;                      /* -auto-mask is reached: only pixels are searched where components were found */
    int mask_major;                   /* n_major when it was reached */
    double mgain;                     /* that of -mgain, halved by each undone cycle */
    double noise, threshold, peak;    /* Jy/beam, of the last measurement; peak with its sign */
    double peak_before, noise_before; /* at the start of the last cycle */
    double first_peak;                /* at the start of cleaning */
    double dirty_peak, dirty_noise;   /* peak and noise of the dirty image: a checkpoint recognises its data by these */
    double best_peak;                 /* the lowest |peak| since the start, or since in_mask was set */
    int at_threshold;                 /* minor iterations of the last cycle ended at the threshold, not by -mgain */
    int n_back, n_idle;               /* undone and idle cycles in a row */
    int64_t n_minor;
    int n_major, n_logged; /* cycles made, and cycles logged */
    int n_recorded;        /* cycles recorded in the history; the start counts as one */
    double flux_jy, flux_before;
    msi_clean_report report; /* report of the minor iterations of the last cycle */
} msi_clean_group;

typedef struct msi_clean_field {
    msi_clean_field_spec spec;
    double accuracy;   /* accuracy of the residuals: that of spec, or a better one that a deep residual needed */
    int cannot_refine; /* a better accuracy could not be planned */
    double edge_level; /* the largest absolute value of all PSFs near their edges; 0: unknown */
    int n_cleaned;     /* channels that are cleaned: n_channel, or fewer means of them (-deconvolution-channels) */
    int by_pol;        /* planes are [n_pol][n_channel], for groups of several channels and one polarisation; otherwise
                      [n_channel][n_pol] */
    msi_planes *residual, *model;                 /* planes of the imaged channels */
    msi_planes *cleaned_residual, *cleaned_model; /* planes of the cleaned channels; NULL if they are the imaged ones */
    msi_planes *before;                           /* state before the cycle, for undoing it, of the cleaned channels */
    msi_planes **channel_residual, **channel_model; /* [n_channel] views for the gridders; by_pol: [n_parallel] buffers
                                                       to which planes are copied */
    void *first_residual;     /* [planes of residual] pixels after the first cycle; NULL: not stored */
    const double *sum_weight; /* [n_channel][n_pol], borrowed from the samples, or own_.. */
    const int64_t *n_vis;
    double *own_sum_weight; /* with Taylor terms: the weights of their channel, for each term; NULL without */
    int64_t *own_n_vis;
    int n_group;
    msi_clean_group *group;
} msi_clean_field;

/*
 * msi_clean_field_make - make planes, all zero.
 * Returned: *field  always freed by msi_clean_field_free
 * Returns:  0, MSI_ENOMEM, MSI_EGPU
 */
int msi_clean_field_make(msi_clean_field *field, const msi_clean_field_spec *spec);

/*
 * msi_clean_field_cleaners - make a cleaner for each group.
 * Given:   psf         [n_channel] planes, with Taylor terms those of 2 n_channel - 1 powers; not needed afterwards
 *          beam_pixel  width of the beam, in pixels
 * Returns: 0, MSI_EUSAGE, MSI_ENOMEM, MSI_EGPU, MSI_EINPUT (a PSF without a peak)
 */
int msi_clean_field_cleaners(msi_clean_field *field, const msi_planes *psf, double beam_pixel);

/*
 * msi_clean_field_cell_psfs - replace the PSF of each cell of a grid by that of a source in the middle of the cell. A
 * grid of one cell keeps its PSF.
 * Returns: as msi_clean_field_cleaners and msi_clean_samples_source_psf
 */
int msi_clean_field_cell_psfs(msi_clean_field *field);

/*
 * msi_clean_field_subtract - make the residuals of all channels: subtract the models from the visibilities and image
 * the rest.
 * Given:   with_model  0: subtract nothing
 * Returns: as msi_clean_samples_residual
 */
int msi_clean_field_subtract(msi_clean_field *field, int with_model);

/*
 * msi_clean_field_refine - use a better accuracy for all later residuals, and set field->accuracy.
 * Returns: as msi_clean_samples_refine
 */
int msi_clean_field_refine(msi_clean_field *field, double accuracy);

/*
 * msi_clean_field_average - make the planes of the cleaned channels as weighted means of those of the imaged channels,
 * after the latter were read from files. msi_clean_field_subtract calls it.
 * Given:   models  1: models; 0: residuals
 * Returns: 0, MSI_EGPU, MSI_ENOMEM
 */
int msi_clean_field_average(msi_clean_field *field, int models);

/*
 * msi_clean_field_terms - with Taylor terms, make their planes from those of the nodes: the terms of the models, or the
 * principal solution of the residuals, H^-1 R.
 * Given:   models  1: models; 0: residuals
 * Returns: 0, MSI_EGPU, MSI_ENOMEM
 */
int msi_clean_field_terms(msi_clean_field *field, int models);

/* msi_clean_field_model - return the models of the cleaned channels, from which those of the imaged channels follow. */
msi_planes *msi_clean_field_model(const msi_clean_field *field);

/* msi_clean_field_keep_first - store the present residual as the first one, for checkpoints. Returns: 0, MSI_ENOMEM,
 * MSI_EGPU */
int msi_clean_field_keep_first(msi_clean_field *field);

/*
 * msi_clean_field_masks - make a mask for each group, to be updated from the residual in each cycle
 * (-auto-multithresh).
 * Given:   beam, sidelobe  of the PSF; the beam is known
 * Returns: 0, MSI_ENOMEM, MSI_EGPU, MSI_EARGUMENT
 */
int msi_clean_field_masks(msi_clean_field *field, const msi_beam *beam, double sidelobe);

/*
 * msi_clean_group_mask - get the present mask of a group: that of -auto-multithresh, otherwise where components were
 * found.
 * Given:    buffer [ny][nx] words
 * Returned: mask   [ny][nx], 0 or 1
 */
int msi_clean_group_mask(msi_clean_group *group, int64_t n_pixel, uint16_t *buffer, uint8_t *mask);

/* msi_clean_field_plane - return the index of an image in the planes of the field. */
int msi_clean_field_plane(const msi_clean_field *field, int channel, int pol);

/* msi_clean_field_group - return the group of a polarisation. */
msi_clean_group *msi_clean_field_group(const msi_clean_field *field, int pol);

/* Memory of a field and its cleaners. Only `host` is needed while gridders work. */
typedef struct msi_clean_field_bytes {
    int64_t host, device;
    int64_t least_device;     /* part of device: planes and cleaners */
    int64_t restoring_device; /* part of device that is needed only while images are restored */
    int64_t psfs;             /* in addition while cleaners are made */
    int64_t measuring;        /* in addition while masks and noise are measured */
    int64_t restoring;        /* in addition while images are restored */
    int64_t paged;            /* in files after msi_memory_page_to; not in the others */
} msi_clean_field_bytes;

/*
 * msi_clean_field_estimate - estimate the memory of a field: planes, PSFs, cleaners, and buffers of restoring.
 * Given:   spec      samples is not used
 *          gridder   backend and precision of the work
 *          is_paged  1: msi_memory_page_to has been or will be called; 2: it pages work arrays too
 * Returns: 0, MSI_EUSAGE, MSI_EARGUMENT (it cannot be cleaned)
 */
int msi_clean_field_estimate(const msi_clean_field_spec *spec, const msi_gridder_report *gridder, int is_paged,
                             msi_clean_field_bytes *bytes);

/* msi_clean_field_free - an empty field is fine. */
void msi_clean_field_free(msi_clean_field *field);

#endif
