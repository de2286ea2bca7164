/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Visibilities are predicted from models. */
#include "src/options/option_table.h"

static const msi_option rows[] = {
    {.name = "predict",
     .arguments = "",
     .help =
         "Make no image: read model images, PREFIX-model.fits or one for each Stokes parameter (PREFIX-Q-model.fits) "
         "or channel (PREFIX-0000-model.fits), and write their visibilities into the sets. Size, pixels, centre and "
         "frequency are those of the models' headers. Flagged rows are predicted too; what is not selected stays as "
         "it is.",
     .read = msi_read_flag,
     AT(predict),
     .high = 1},
    {.name = "model-column",
     .use = MSI_USE_PREDICT,
     .arguments = "NAME",
     .fallback_words = "MODEL_DATA",
     .help = "The column that the visibilities replace, whoever wrote it; it is made where it is missing. DATA, a "
             "CORRECTED_DATA that msimage did not write, and columns that are not for visibilities are refused.",
     .read = msi_read_text,
     AT(model_column)},
    {.name = "predict-op",
     .use = MSI_USE_PREDICT,
     .arguments = "OPERATION",
     .fallback = "replace",
     .choices = "replace|add|subtract",
     .help = "What becomes of the visibilities: they replace -model-column, or -output-column is -data-column plus or "
             "minus them.",
     .read = msi_read_choice,
     AT(predict_op)},
    {.name = "output-column",
     .use = MSI_USE_PREDICT,
     .arguments = "NAME",
     .help = "Where -predict-op add or subtract puts the sum or the difference; another column than -data-column, made "
             "where it is missing.",
     .read = msi_read_text,
     AT(output_column)},
    {.name = "drop-old",
     .use = MSI_USE_PREDICT,
     .arguments = "",
     .help = "When the prediction is complete, remove the columns that this one and earlier ones put aside, such as "
             "MODEL_DATA_OLD_1. Columns that shared their files move to new ones, as a file does not shrink.",
     .read = msi_read_flag,
     AT(drop_old),
     .high = 1},
    {.name = "model-interpolation",
     .use = MSI_USE_PREDICT,
     .arguments = "METHOD",
     .fallback = "nearest",
     .choices = "nearest|linear",
     .help = "With several channel images, a channel takes the one in whose band it lies or that is nearest, or is "
             "interpolated between the two beside it.",
     .read = msi_read_choice,
     AT(model_interpolation)},
    {.name = "force",
     .use = MSI_USE_PREDICT,
     .arguments = "",
     .help = "Predict although the model seems not to belong to the set: its centre 30 degrees off or more, its "
             "frequency outside the selected band, its frame or unit another. Also complete a set that a run with "
             "another selection left incomplete.",
     .read = msi_read_flag,
     AT(force),
     .high = 1},
};

const msi_option_table msi_table_predict = {MSI_GROUP_PREDICT, rows, sizeof rows / sizeof *rows};
