/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Files are written of these names and kinds. */
#include "src/options/table_rows.h"

static const msi_option rows[] = {
    {.name = "name",
     .arguments = "PREFIX",
     .fallback = "msimage",
     .completion = MSI_COMPLETE_PATH,
     .help = "Begins the names of the output files: PREFIX-dirty.fits, PREFIX-psf.fits; with -predict, of the models: "
             "PREFIX-model.fits. It may hold a directory, which must exist.",
     .read = msi_read_name},
    {.name = "overwrite",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Replace output files that exist. Without this they are refused before any computing.",
     .read = msi_read_flag,
     AT(overwrite),
     .high = 1},
    {.name = "png",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Write a picture of each image besides, with axes, colour bar and beam; with -make-psf also of the PSF's "
             "inner beams, with -save-weights of the uv plane.",
     .read = msi_read_flag,
     AT(png),
     .high = 1},
    {.name = "png-range",
     .use = MSI_USE_IMAGING,
     .arguments = "LOW HIGH",
     .fallback_words = "chosen for each picture, bent so that noise and bright sources are both seen",
     .help = "With the pictures of -png, which this asks for too: let their colours run evenly from LOW to HIGH, in "
             "Jy/beam, such as -0.001 0.01; for Q, U and V as far below zero as above.",
     .read = msi_read_png_range},
    {.name = "save-weights",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Write the gridded weights, PREFIX-weights.fits.",
     .read = msi_read_flag,
     AT(save_weights),
     .high = 1},
    {.name = "save-uv",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Write the uv plane of the image, PREFIX-uv-real.fits and PREFIX-uv-imag.fits.",
     .read = msi_read_flag,
     AT(save_uv),
     .high = 1},
    {.name = "dry-run",
     .arguments = "",
     .help = "Tell what would be done and stop: rows kept and dropped, w-planes, memory, disk, time. Writes nothing.",
     .read = msi_read_flag,
     AT(dry_run),
     .high = 1},
};

const msi_option_table msi_table_output = {MSI_GROUP_OUTPUT, rows, sizeof rows / sizeof *rows};
