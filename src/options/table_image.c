/* SPDX-License-Identifier: GPL-3.0-or-later */
/* An image has a size, pixels and polarisations; band and time may be cut into several images. */
#include "src/options/table_rows.h"

static const msi_option rows[] = {
    {.name = "size",
     .use = MSI_USE_IMAGING,
     .arguments = "WIDTH HEIGHT",
     .help = "Size of the image in pixels. Both even, at least 16. Always needed, but not with -predict.",
     .read = msi_read_size},
    {.name = "scale",
     .use = MSI_USE_IMAGING,
     .arguments = "ANGLE",
     .help = "Size of a pixel, with its unit: masec, asec, amin, deg or rad, such as 1.5asec. Always needed, but not "
             "with -predict.",
     .read = msi_read_scale},
    {.name = "pol",
     .use = MSI_USE_IMAGING,
     .arguments = "LIST",
     .fallback = "I",
     .help = "Stokes parameters or correlations to image: any of I Q U V, XX XY YX YY, RR RL LR LL, with or without "
             "commas, such as IQUV or XX,YY. The PSF, and the density of uniform and briggs weights, are those of the "
             "first; in cells where it has no sample the others make the density.",
     .read = msi_read_pol},
    {.name = "make-psf",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Make the point spread function too, and write the beam fitted to it into the images' headers.",
     .read = msi_read_flag,
     AT(make_psf),
     .high = 1},
    {.name = "make-psf-only",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Make the point spread function and nothing else.",
     .read = msi_read_flag,
     AT(make_psf_only),
     .high = 1},
    {.name = "channels-out",
     .use = MSI_USE_IMAGING,
     .arguments = "COUNT",
     .fallback = "1",
     .help = "Cut the band into this many images, and make one of all of it (MFS) besides.",
     .read = msi_read_count,
     AT(channels_out),
     .low = 1,
     .high = 1e6},
    {.name = "intervals-out",
     .use = MSI_USE_IMAGING,
     .arguments = "COUNT",
     .fallback = "1",
     .help = "Cut the time steps into this many images.",
     .read = msi_read_count,
     AT(intervals_out),
     .low = 1,
     .high = 1e6},
    {.name = "shift",
     .use = MSI_USE_IMAGING,
     .arguments = "RA DEC",
     .fallback_words = "the phase centre of the field",
     .help = "Put the image's centre here, uvw and phases rotated to it: 08h24m07.0s -42d59m48.0s or 126.03deg "
             "-42.9967deg, in the frame of the fields (J2000 ..). Needed where fields or sets with several phase "
             "centres are imaged together.",
     .read = msi_read_shift},
};

const msi_option_table msi_table_image = {MSI_GROUP_IMAGE, rows, sizeof rows / sizeof *rows};
