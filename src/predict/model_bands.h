/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Bands assign channel images of the models to the channels of the sets. */
#ifndef MSI_MODEL_BANDS_H
#define MSI_MODEL_BANDS_H

#include "io/ms/ms_reader.h"
#include "src/options/options.h"
#include "src/sky/model_images.h"
#include "src/sky/output_channels.h"

/* A range of frequencies that are predicted from one channel image, from the interpolation of two, or from Taylor
 * terms. */
typedef struct msi_model_band {
    int64_t first;          /* index of the first channel image */
    int n_image;            /* 1 or 2 images from `first` on, or the number of terms */
    double low_hz, high_hz; /* frequencies of the two images; high_hz is 0 if there is no second image */
    double reference_hz;    /* reference frequency of Taylor terms; 0: none */
    int64_t n_sample;       /* selected rows times channels; 0: the band is not used */
} msi_model_band;

typedef struct msi_model_bands {
    msi_output_channels channels; /* n and edge_hz: band i holds the frequencies in [edge_hz[i], edge_hz[i + 1]) */
    msi_model_band *band;         /* [channels.n] owned */
} msi_model_bands;

/*
 * msi_model_bands_make - divide all frequencies among the channel images.
 *
 * Nearest: the boundary between two neighbours is midway between the upper edge of the one and the lower edge of the
 * other, so each frequency in the band of an image is predicted from this image. Linear: frequencies between two
 * neighbours are interpolated; frequencies below the first or above the last image are predicted from this image only.
 * Taylor terms form one band of all frequencies.
 * Returned: *out  freed by msi_model_bands_free; empty on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_model_bands_make(msi_model_bands *out, const msi_model_images *models, const msi_ms_reader *reader,
                         msi_model_interpolation interpolation);
void msi_model_bands_free(msi_model_bands *b);

/* msi_model_bands_count - count the images and samples of each band. Call it again after bands were divided. */
void msi_model_bands_count(msi_model_bands *bands, const msi_ms_reader *reader);

/*
 * msi_model_band_blend - interpolate visibilities of two images linearly in frequency, or sum the Taylor terms. Those
 * of a band with one image are not changed.
 * Given:              freq_hz [n_chan]
 * Given and returned: vis [n_image][n_plane][n_row][n_chan]  Jy; those of the first image become the result
 */
void msi_model_band_blend(const msi_model_band *band, int n_plane, int64_t n_row, int32_t n_chan, const double *freq_hz,
                          msi_c64 *vis);

#endif
