/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Options of predictions from models, and of drawing models from lists of sources. */
#include "src/options/option_table.h"
#include "src/sky/sky_list.h"

static const msi_option rows[] = {
    {.name = "predict",
     .arguments = "",
     .help = "Write the visibilities of model images into the sets, as for self-calibration, and make no image. The "
             "models are PREFIX-model.fits, or one for each Stokes parameter (PREFIX-Q-model.fits) or channel "
             "(PREFIX-0000-model.fits); their headers give size, pixels, centre and frequency. Flagged rows are "
             "predicted too. Data that are not selected stay unchanged.",
     .read = msi_read_flag,
     AT(predict),
     .high = 1},
    {.name = "model-column",
     .arguments = "NAME",
     .fallback_words = "MODEL_DATA",
     .help =
         "Column for the predicted visibilities, which replace its contents; it is made if missing. DATA, a "
         "CORRECTED_DATA not written by msimage, and columns that are not for visibilities are refused. Imaging uses "
         "it where it would use MODEL_DATA.",
     .read = msi_read_text,
     AT(model_column)},
    {.name = "predict-op",
     .use = MSI_USE_PREDICT,
     .arguments = "OPERATION",
     .fallback = "replace",
     .choices = "replace|add|subtract",
     .help = "replace writes the visibilities to -model-column; add and subtract write -data-column plus or minus the "
             "visibilities to -output-column.",
     .read = msi_read_choice,
     AT(predict_op)},
    {.name = "output-column",
     .use = MSI_USE_PREDICT,
     .arguments = "NAME",
     .help =
         "Column for the result of -predict-op add or subtract; it must not be -data-column, and is made if missing.",
     .read = msi_read_text,
     AT(output_column)},
    {.name = "drop-old",
     .use = MSI_USE_PREDICT,
     .arguments = "",
     .help =
         "After a complete prediction, remove the old columns that it and earlier predictions kept, such as "
         "MODEL_DATA_OLD_1. Columns stored in the same files are moved to new files, because a file does not shrink.",
     .read = msi_read_flag,
     AT(drop_old),
     .high = 1},
    {.name = "model-interpolation",
     .use = MSI_USE_PREDICT,
     .arguments = "METHOD",
     .fallback = "nearest",
     .choices = "nearest|linear",
     .help = "With model images of several channels, use the one whose band contains the frequency, or the nearest; or "
             "interpolate linearly between the two neighbouring ones.",
     .read = msi_read_choice,
     AT(model_interpolation)},
    {.name = "force",
     .use = MSI_USE_PREDICT,
     .arguments = "",
     .help = "Predict even if the model does not seem to belong to the set: its centre is 30 degrees off or more, its "
             "frequency is outside the selected band, or its frame or unit is different. Also complete a set that a "
             "run with another selection left incomplete.",
     .read = msi_read_flag,
     AT(force),
     .high = 1},
    {.name = "draw-model",
     .arguments = "LIST",
     .completion = MSI_COMPLETE_PATH,
     .help = "Draw the sources of a list, in the format of WSClean, DP3 and makesourcedb, as model images in Jy/pixel, "
             "and read no visibilities. The files are PREFIX-term-0.fits and so on, the coefficients of a polynomial "
             "of frequency / centre - 1. Needs -size, -scale, -draw-frequencies, and -draw-centre or a set, whose "
             "phase centre is taken then.",
     .read = msi_read_text,
     AT(draw.list)},
    {.name = "draw-centre",
     .use = MSI_USE_DRAW,
     .arguments = "RA DEC",
     .help = "Centre of the images of -draw-model in J2000, such as 08h24m07.0s -42d59m48.0s.",
     .read = msi_read_draw_centre},
    {.name = "draw-frequencies",
     .use = MSI_USE_DRAW,
     .arguments = "CENTRE WIDTH",
     .help = "Centre and width of the band of -draw-model, in Hz or with a unit. Logarithmic spectra become "
             "polynomials that agree with them at equidistant frequencies, the band's ends included.",
     .read = msi_read_draw_band},
    {.name = "draw-spectral-terms",
     .use = MSI_USE_DRAW,
     .arguments = "N",
     .fallback = "1",
     .help = "Number of terms of the polynomials of -draw-model, with an image for each.",
     .read = msi_read_count,
     AT(draw.n_term),
     .low = 1,
     .high = MSI_SKY_MAX_TERMS + 1},
    {.name = "sinc-window-size",
     .use = MSI_USE_DRAW,
     .arguments = "PIXELS",
     .fallback = "127",
     .help = "Width of the kernel of points of -draw-model, a sinc function with a Hann window; 0 is a sinc function "
             "without a window.",
     .read = msi_read_count,
     AT(draw.window),
     .low = 0,
     .high = MSI_SKY_MAX_WINDOW},
};

const msi_option_table msi_table_predict = {MSI_GROUP_PREDICT, rows, sizeof rows / sizeof *rows};
