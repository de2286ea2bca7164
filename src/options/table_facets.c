/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Options of facets and of the solutions that are applied to them. */
#include "src/options/option_table.h"

static const msi_option facet_rows[] = {
    {.name = "facet-regions",
     .arguments = "FILE",
     .completion = MSI_COMPLETE_PATH,
     .help = "Image by facets, the polygons of a DS9 region file in fk5. They must cover the image without overlap. A "
             "point(..) after a polygon is the direction of its solutions; otherwise its centroid is.",
     .read = msi_read_text,
     AT(facets.regions)},
    {.name = "facet-auto",
     .arguments = "N|FILE",
     .completion = MSI_COMPLETE_PATH,
     .help = "Image by facets that are made of directions: each pixel belongs to the nearest one. N directions are "
             "spread evenly over the image; FILE has a direction in each line, RA DEC and optionally a name.",
     .read = msi_read_text,
     AT(facets.automatic)},
    {.name = "apply-facet-solutions",
     .arguments = "FILES TABLES",
     .completion = MSI_COMPLETE_PATH,
     .help = "Apply the solutions of H5Parm files to facets: one file, or one for each set, separated by commas, and "
             "the names of their tables, such as amplitude000,phase000. Each facet has the solutions of the nearest "
             "direction. Images with flat noise are cleaned; PREFIX-image-pb.fits and PREFIX-model-pb.fits have true "
             "fluxes.",
     .read = msi_read_solutions},
    {.name = "apply-facet-beam",
     .arguments = "",
     .help =
         "Apply the primary beam (-pb) in the direction of each facet to its samples, also in predictions. Images are "
         "written as with solutions, and those of true flux follow the beam within a facet.",
     .read = msi_read_flag,
     AT(facets.beam),
     .high = 1},
    {.name = "facet-beam-update",
     .arguments = "SECONDS",
     .fallback = "120",
     .help = "The beam of a facet is constant for this time; 0: it is computed for each time step.",
     .read = msi_read_real,
     AT(facets.update_s),
     .low = 0,
     .high = 1e6},
    {.name = "aterm-config",
     .arguments = "FILE",
     .completion = MSI_COMPLETE_PATH,
     .help =
         "Apply a-terms: screens of gains for each antenna and time, which a file in WSClean's format names: tec, dldm "
         "and diagonal, FITS files with axes RA---SIN, DEC--SIN, MATRIX, ANTENNA, FREQ, TIME, and beam. Images, "
         "cleaning and predictions are made by facets, whose number follows from the screens and -accuracy. Images of "
         "true flux are written as with -apply-facet-solutions. -grid-with-beam applies the beam (-pb) too.",
     .read = msi_read_text,
     AT(facets.aterms)},
    {.name = "beam-aterm-update",
     .arguments = "SECONDS",
     .fallback = "300",
     .help = "With -aterm-config the beam is constant for this time; 0: it is computed for each time step.",
     .read = msi_read_real,
     AT(facets.aterm_update_s),
     .low = 0,
     .high = 1e6},
    {.name = "solution-interpolation",
     .arguments = "METHOD",
     .fallback = "nearest",
     .choices = "nearest|linear",
     .help = "Solutions at times and frequencies between those of the file.",
     .read = msi_read_choice,
     AT(facets.is_linear)},
    {.name = "no-solution-directions-check",
     .arguments = "",
     .help = "Accept solutions for a direction that lies in another facet.",
     .read = msi_read_flag,
     AT(facets.any_direction),
     .high = 1},
    {.name = "feather-size",
     .arguments = "PIXELS",
     .fallback = "-1",
     .fallback_words = "1 % of the image",
     .help = "Width of the band along the borders of facets in which these blend.",
     .read = msi_read_real,
     AT(facets.feather_pixel),
     .low = -1,
     .high = 1e6},
    {.name = "scalar-visibilities",
     .arguments = "",
     .help =
         "Apply solutions of two feeds to Stokes I by their mean, so that only Stokes I is stored. It has no effect "
         "without facets.",
     .read = msi_read_flag,
     AT(facets.scalar),
     .high = 1},
    {.name = "diagonal-visibilities",
     .arguments = "",
     .help = "Apply solutions to both parallel hands of Stokes I, without the cross-hands. It has no effect without "
             "facets.",
     .read = msi_read_flag,
     AT(facets.diagonal),
     .high = 1},
};

const msi_option_table msi_table_facets = {MSI_GROUP_FACETS, facet_rows, sizeof facet_rows / sizeof *facet_rows};
