/* SPDX-License-Identifier: GPL-3.0-or-later */
/* How runs that deconvolve begin, are kept, and what they write beside their images. */
#include "src/options/table_rows.h"

static const msi_option rows[] = {
    {.name = "continue",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Begin with the models PREFIX-model.fits of an earlier run, which are subtracted from the "
             "visibilities; its images are replaced.",
     .read = msi_read_flag,
     AT(clean.continues),
     .high = 1},
    {.name = "resume",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Go on from the checkpoint that a run of the same options and sets left when it was ended; "
             "without one begin anew.",
     .read = msi_read_flag,
     AT(clean.resume),
     .high = 1},
    {.name = "checkpoint",
     .use = MSI_USE_IMAGING,
     .arguments = "SECONDS",
     .fallback = "30",
     .help = "Keep a checkpoint beside the images, PREFIX.clean, after a major cycle that ends so long "
             "after the last one; it is removed when the images are complete.",
     .read = msi_read_real,
     AT(clean.checkpoint_s),
     .low = 0,
     .high = 1e9},
    {.name = "update-model-required",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Write the model's visibilities into MODEL_DATA once the images are complete; the default "
             "where -mgain is given and below 1.",
     .read = msi_read_flag,
     AT(clean.update_model),
     .high = 1},
    {.name = "no-update-model-required",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Change no set.",
     .read = msi_read_flag,
     AT(clean.keep_model),
     .high = 1},
    {.name = "no-dirty",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Write no dirty image where there is a cleaned one.",
     .read = msi_read_flag,
     AT(clean.no_dirty),
     .high = 1},
    {.name = "save-first-residual",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Write the residual of the first major cycle, PREFIX-first-residual.fits.",
     .read = msi_read_flag,
     AT(clean.save_first_residual),
     .high = 1},
};

const msi_option_table msi_table_clean_run = {MSI_GROUP_CLEAN, rows, sizeof rows / sizeof *rows};
