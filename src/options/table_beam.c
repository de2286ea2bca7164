/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Options of primary beams: the model, and images corrected by it; and options of facets and their solutions. */
#include "src/options/option_table.h"

static const msi_option beam_rows[] = {
    {.name = "pb",
     .arguments = "MODEL",
     .fallback_words = "auto for the options below; off with -predict",
     .help = "Model of the primary beam, for the options below; by itself it writes nothing. With -predict, the model "
             "images are the true sky, and visibilities as seen through the beam are written. auto (by telescope and "
             "band), meerkat, vla, atca, gmrt, alma, askap, ska-mid, mwa-analytic, lofar[:FOLDER] with the "
             "coefficients of dipoles, airy:DIAMETER[,BLOCKAGE] in "
             "metres, gauss:FWHM@FREQUENCY such as gauss:60amin@1.4GHz, poly:A,B,.. with the coefficients of "
             "(arcmin GHz)^2, ^4 and so on; FILE.fits with a cube of power, or a pattern such as "
             "'beam_$(corr)_$(reim).fits' of eight cubes of a Jones matrix; off.",
     .read = msi_read_text,
     AT(pb.model)},
    {.name = "apply-primary-beam",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Also write images that are corrected for the primary beam, PREFIX-image-pb.fits and, after cleaning, "
             "PREFIX-model-pb.fits, and the power of the two feeds, PREFIX-beam-0.fits and PREFIX-beam-15.fits, or for "
             "I, Q, U and V the 16 elements of the mean Mueller matrix.",
     .read = msi_read_flag,
     AT(pb.apply),
     .high = 1},
    {.name = "grid-with-beam",
     .arguments = "",
     .help =
         "Clean through the primary beam: in major cycles and in MODEL_DATA each baseline sees the model through its "
         "own beam at each time and frequency. PREFIX-image.fits keeps flat noise, PREFIX-image-pb.fits and "
         "PREFIX-model-pb.fits are in true flux. It implies -apply-primary-beam, and is the same without -niter. With "
         "-predict it is -pb auto, and with -aterm-config it adds the beam to the a-terms. The stations "
         "of LOFAR have different beams, so there the beam is an a-term, with its facets.",
     .read = msi_read_flag,
     AT(pb.grid),
     .high = 1},
    {.name = "use-pointing",
     .arguments = "",
     .help = "Place the beam where the table POINTING says that the dishes point, as tclean with usepointing: the "
             "median over some antennas and times of each field. Without it dishes point to the phase centre of their "
             "field, and a warning says where POINTING differs.",
     .read = msi_read_flag,
     AT(pb.by_table),
     .high = 1},
    {.name = "mosaic",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help =
         "Join all fields of all sets, or those of -field, to one image about their mean direction or that of -shift. "
         "Each field is imaged on its own small part of the image, multiplied by its primary beam and added. "
         "PREFIX-image.fits has flat noise; PREFIX-pb.fits has the response, and PREFIX-pbcor.fits is divided by "
         "it, as with -pbcor, or -image-pb.fits with -apply-primary-beam. With -niter fields are cleaned together.",
     .read = msi_read_flag,
     AT(pb.mosaic),
     .high = 1},
    {.name = "mosweight",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "With -mosaic, compute the densities for uniform and briggs weights separately for each field (the "
             "default).",
     .read = msi_read_flag,
     AT(pb.weighs_fields),
     .fallback = "1",
     .high = 1},
    {.name = "no-mosweight",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "With -mosaic, compute one density for all fields.",
     .read = msi_read_flag,
     AT(pb.weighs_fields),
     .high = 0},
    {.name = "primary-beam-limit",
     .use = MSI_USE_IMAGING,
     .arguments = "LEVEL",
     .fallback = "0.005",
     .help = "Pixels of the images of -apply-primary-beam are NaN where the beam is at or below LEVEL.",
     .read = msi_read_real,
     AT(pb.limit),
     .low = 0,
     .high = 1},
    {.name = "use-differential-lofar-beam",
     .arguments = "",
     .help =
         "Assume that visibilities of LOFAR are corrected for the beam in the direction that the data column names, or "
         "else where the stations point. Without it, the keyword LOFAR_APPLIED_BEAM_MODE of the "
         "column decides.",
     .read = msi_read_flag,
     AT(pb.is_differential),
     .high = 1},
    {.name = "reuse-primary-beam",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "Read the beam from the files PREFIX-beam-0.fits to PREFIX-beam-15.fits of an earlier run or of another "
             "program, instead of computing it; only 0 and 15 are required. With -apply-primary-beam.",
     .read = msi_read_flag,
     AT(pb.reuse),
     .high = 1},
    {.name = "save-psf-pb",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "With -apply-primary-beam, also write the point spread function divided by the beam, PREFIX-psf-pb.fits.",
     .read = msi_read_flag,
     AT(pb.save_psf),
     .high = 1},
    {.name = "pbcor",
     .use = MSI_USE_IMAGING,
     .arguments = "",
     .help = "As in tclean, also write the primary beam, PREFIX-pb.fits, and the image divided by it, "
             "PREFIX-pbcor.fits.",
     .read = msi_read_flag,
     AT(pb.correct),
     .high = 1},
    {.name = "pblimit",
     .use = MSI_USE_IMAGING,
     .arguments = "LEVEL",
     .fallback = "0.2",
     .help = "Pixels of the images of -pbcor are NaN where the beam is at or below LEVEL. A negative LEVEL keeps all "
             "pixels within the range of the model.",
     .read = msi_read_real,
     AT(pb.pblimit),
     .low = -1,
     .high = 1},
    {.name = "pbmask",
     .use = MSI_USE_IMAGING,
     .arguments = "LEVEL",
     .fallback_words = "none",
     .help = "Clean only where the primary beam is above LEVEL, within other masks.",
     .read = msi_read_real,
     AT(pb.mask),
     .low = 0,
     .high = 1},
};

const msi_option_table msi_table_beam = {MSI_GROUP_BEAM, beam_rows, sizeof beam_rows / sizeof *beam_rows};

/* ---- Facets ---- */

/* Options of facets and of the solutions that are applied to them. */

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
