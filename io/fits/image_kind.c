/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/image_kind.h"

#include <stddef.h>

#define BEAM  "Jy/beam"
#define PIXEL "Jy/pixel"

/* A row of the matrix of a primary beam. */
#define BEAM_ELEMENT(n)                                                                                                \
    [MSI_FITS_BEAM_0 + (n)] = {"beam-" #n, MSI_CONTENT_OTHER, NULL, "Primary Beam", NULL, NULL, 0, 1}

/* name, content, BUNIT, BTYPE, title, scale, is_of_term, is_of_channel */
static const msi_fits_kind_row rows[] = {
    [MSI_FITS_DIRTY] = {"dirty", MSI_CONTENT_BRIGHTNESS, BEAM, "Intensity", "dirty image", NULL, 1, 0},
    [MSI_FITS_PSF] = {"psf", MSI_CONTENT_PSF, BEAM, "Beam", "point spread function", NULL, 1, 1},
    [MSI_FITS_MODEL] = {"model", MSI_CONTENT_MODEL, PIXEL, "Intensity", "model as seen with half a beam", NULL, 1, 0},
    [MSI_FITS_RESIDUAL] = {"residual", MSI_CONTENT_BRIGHTNESS, BEAM, "Intensity", "residual", NULL, 1, 0},
    [MSI_FITS_FIRST_RESIDUAL] = {"first-residual", MSI_CONTENT_BRIGHTNESS, BEAM, "Intensity",
                                 "residual of the first cycle", NULL, 1, 0},
    [MSI_FITS_IMAGE] = {"image", MSI_CONTENT_BRIGHTNESS, BEAM, "Intensity", "restored image", NULL, 1, 0},
    [MSI_FITS_MASK] = {"mask", MSI_CONTENT_OTHER, NULL, "Mask", "mask", "mask", 0, 0},
    [MSI_FITS_INDEX] = {"spectral-index", MSI_CONTENT_INDEX, NULL, "Spectral Index", "spectral index", "index", 0, 0},
    [MSI_FITS_ALPHA] = {"alpha", MSI_CONTENT_INDEX, NULL, "Spectral Index", "spectral index", "index", 0, 0},
    [MSI_FITS_ALPHA_ERROR] = {"alpha-error", MSI_CONTENT_INDEX, NULL, "Uncertainty",
                              "standard deviation of the spectral index", "index", 0, 0},
    [MSI_FITS_BETA] = {"beta", MSI_CONTENT_INDEX, NULL, "Spectral Curvature", "spectral curvature", "curvature", 0, 0},
    [MSI_FITS_IMAGE_PB] = {"image-pb", MSI_CONTENT_BRIGHTNESS, BEAM, "Intensity", "corrected for the primary beam",
                           NULL, 1, 0},
    [MSI_FITS_MODEL_PB] = {"model-pb", MSI_CONTENT_MODEL, PIXEL, "Intensity", "model corrected for the primary beam",
                           NULL, 1, 0},
    [MSI_FITS_PSF_PB] = {"psf-pb", MSI_CONTENT_PSF, BEAM, "Beam", "point spread function over the primary beam", NULL,
                         0, 1},
    [MSI_FITS_PBCOR] = {"pbcor", MSI_CONTENT_BRIGHTNESS, BEAM, "Intensity", "corrected for the primary beam", NULL, 1,
                        0},
    [MSI_FITS_PB] = {"pb", MSI_CONTENT_OTHER, NULL, "Primary Beam", "primary beam", "response", 1, 0},
    [MSI_FITS_BEAM_0] = {"beam-0", MSI_CONTENT_OTHER, NULL, "Primary Beam", "primary beam of the first feed",
                         "response", 0, 1},
    BEAM_ELEMENT(1),
    BEAM_ELEMENT(2),
    BEAM_ELEMENT(3),
    BEAM_ELEMENT(4),
    BEAM_ELEMENT(5),
    BEAM_ELEMENT(6),
    BEAM_ELEMENT(7),
    BEAM_ELEMENT(8),
    BEAM_ELEMENT(9),
    BEAM_ELEMENT(10),
    BEAM_ELEMENT(11),
    BEAM_ELEMENT(12),
    BEAM_ELEMENT(13),
    BEAM_ELEMENT(14),
    [MSI_FITS_BEAM_15] = {"beam-15", MSI_CONTENT_OTHER, NULL, "Primary Beam", "primary beam of the second feed",
                          "response", 0, 1},
    [MSI_FITS_WEIGHT] = {"weight", MSI_CONTENT_OTHER, NULL, "Weight", "weight of a mosaic", "weight", 0, 1},
    [MSI_FITS_SUM_WEIGHT] = {"sumwt", MSI_CONTENT_OTHER, NULL, "Weight", NULL, NULL, 0, 1},
    [MSI_FITS_NOISE] = {"noise", MSI_CONTENT_OTHER, BEAM, "Noise", "noise of a mosaic", "noise", 0, 0},
    [MSI_FITS_HORIZON] = {"horizon-mask", MSI_CONTENT_OTHER, NULL, "Mask", NULL, NULL, 0, 0},
    [MSI_FITS_WEIGHTS] = {"weights", MSI_CONTENT_OTHER, NULL, "Weight", "weights in the uv plane", "weight", 0, 1},
    [MSI_FITS_UV_REAL] = {"uv-real", MSI_CONTENT_OTHER, "Jy", "Visibility", NULL, NULL, 0, 0},
    [MSI_FITS_UV_IMAG] = {"uv-imag", MSI_CONTENT_OTHER, "Jy", "Visibility", NULL, NULL, 0, 0}};

const msi_fits_kind_row *msi_fits_kind_about(msi_fits_kind kind)
{
    return &rows[kind];
}

int msi_fits_is_on_sky(msi_fits_kind kind)
{
    return kind < MSI_FITS_WEIGHTS;
}

int msi_fits_is_index(msi_fits_kind kind)
{
    return rows[kind].content == MSI_CONTENT_INDEX;
}

int msi_fits_is_brightness(msi_fits_kind kind)
{
    return rows[kind].content == MSI_CONTENT_BRIGHTNESS || rows[kind].content == MSI_CONTENT_MODEL;
}

int msi_fits_is_model(msi_fits_kind kind)
{
    return rows[kind].content == MSI_CONTENT_MODEL;
}

int msi_fits_is_psf(msi_fits_kind kind)
{
    return rows[kind].content == MSI_CONTENT_PSF;
}

int msi_fits_has_beam(msi_fits_kind kind)
{
    return rows[kind].content != MSI_CONTENT_OTHER && rows[kind].content != MSI_CONTENT_MODEL;
}
