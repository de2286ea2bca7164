/* SPDX-License-Identifier: GPL-3.0-or-later */
/* msimage-mosaic: joins finished images of any program by beam and noise. */
#include <math.h>
#include <omp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "core/units.h"
#include "src/join/join_images.h"
#include "src/pb/pb_model.h"

typedef struct options {
    msi_join_spec join;
    int64_t n_thread; /* 0: all */
    double memory_gb; /* 0: no limit */
    int quiet, verbose, version, help;
} options;

static int read_name(void *of, const char *const *argument)
{
    options *o = of;
    o->join.name = argument[0];
    return *argument[0] ? MSI_OK : msi_error_set(MSI_EUSAGE, "-name: the argument is empty");
}

static int read_pb(void *of, const char *const *argument)
{
    options *o = of;
    o->join.pb = argument[0];
    return MSI_OK;
}

static int read_pb_images(void *of, const char *const *argument)
{
    options *o = of;
    o->join.pb_images = argument[0];
    return MSI_OK;
}

static int read_rms(void *of, const char *const *argument)
{
    options *o = of;
    o->join.rms = argument[0];
    return MSI_OK;
}

static int read_pblimit(void *of, const char *const *argument)
{
    options *o = of;
    MSI_TRY(msi_parse_real(&o->join.pblimit, "-pblimit", argument[0]));
    return o->join.pblimit >= 0 && o->join.pblimit < 1
               ? MSI_OK
               : msi_error_set(MSI_EUSAGE, "-pblimit %s: give a response from 0 to below 1", argument[0]);
}

static int read_size(void *of, const char *const *argument)
{
    options *o = of;
    int64_t n[2];
    for (int k = 0; k < 2; k++) {
        MSI_TRY(msi_parse_integer(&n[k], "-size", argument[k]));
        if (n[k] < 2 || n[k] > 1 << 17 || n[k] % 2)
            return msi_error_set(MSI_EUSAGE, "-size %s: give an even number of pixels from 2 to 131072", argument[k]);
    }
    o->join.nx = n[0];
    o->join.ny = n[1];
    return MSI_OK;
}

static int read_scale(void *of, const char *const *argument)
{
    options *o = of;
    MSI_TRY(msi_parse_angle(&o->join.cell_rad, "-scale", argument[0]));
    return o->join.cell_rad > 0 && o->join.cell_rad < 0.1
               ? MSI_OK
               : msi_error_set(MSI_EUSAGE, "-scale %s: give a positive angle, such as 2asec", argument[0]);
}

static int read_shift(void *of, const char *const *argument)
{
    options *o = of;
    MSI_TRY(msi_parse_ra(&o->join.centre_rad[0], "-shift", argument[0]));
    return msi_parse_dec(&o->join.centre_rad[1], "-shift", argument[1]);
}

static int read_restoring_beam(void *of, const char *const *argument)
{
    options *o = of;
    static const char *const words[] = {
        [MSI_JOIN_EACH] = "each", [MSI_JOIN_COMMON] = "common", [MSI_JOIN_LARGEST] = "largest"};
    for (int i = 0; i < 3; i++)
        if (strcmp(argument[0], words[i]) == 0) {
            o->join.beams = (msi_join_beams)i;
            return MSI_OK;
        }
    return msi_error_set(MSI_EUSAGE, "-restoring-beam %s: give each, common or largest", argument[0]);
}

static int read_beam_shape(void *of, const char *const *argument)
{
    options *o = of;
    msi_beam *b = &o->join.beam;
    MSI_TRY(msi_parse_angle(&b->major_rad, "-beam-shape", argument[0]));
    MSI_TRY(msi_parse_angle(&b->minor_rad, "-beam-shape", argument[1]));
    MSI_TRY(msi_parse_angle(&b->pa_rad, "-beam-shape", argument[2]));
    if (!(b->minor_rad > 0 && b->major_rad >= b->minor_rad && b->major_rad < 1))
        return msi_error_set(MSI_EUSAGE, "-beam-shape %s %s: give the major and the minor axis, both positive",
                             argument[0], argument[1]);
    b->pa_rad = fmod(b->pa_rad, MSI_PI);
    if (b->pa_rad < 0) b->pa_rad += MSI_PI;
    return MSI_OK;
}

static int read_threads(void *of, const char *const *argument)
{
    options *o = of;
    MSI_TRY(msi_parse_integer(&o->n_thread, "-j", argument[0]));
    return o->n_thread > 0 && o->n_thread <= 1024
               ? MSI_OK
               : msi_error_set(MSI_EUSAGE, "-j %s: give a number of threads from 1 to 1024", argument[0]);
}

static int read_memory(void *of, const char *const *argument)
{
    options *o = of;
    MSI_TRY(msi_parse_real(&o->memory_gb, "-abs-mem", argument[0]));
    return o->memory_gb > 0 && o->memory_gb < 1e9
               ? MSI_OK
               : msi_error_set(MSI_EUSAGE, "-abs-mem %s: give a size in GB", argument[0]);
}

static const msi_small_option option_table[] = {
    {"name", 1, "NAME", "the outputs are NAME-image.fits, NAME-weight.fits and NAME-noise.fits (mosaic)", read_name, 0},
    {"pb", 1, "MODEL",
     "primary beam of the images: auto (by TELESCOP and frequency), meerkat, vla, atca, gmrt, alma, askap, ska-mid, "
     "airy:DIAMETER[,BLOCKAGE] in metres, gauss:FWHM@FREQUENCY, poly:A,B,.., or off: images of response 1 (auto)",
     read_pb, 0},
    {"pb-images", 1, "NAMES",
     "images of the primary beams, with the pixels of the inputs, in their order and separated by commas; or a name in "
     "which * stands for the input's name up to its last dash, such as '*-pb.fits'",
     read_pb_images, 0},
    {"corrected", 0, "", "the images are divided by their primary beams already, as -pbcor.fits", NULL,
     offsetof(options, join.is_corrected)},
    {"rms", 1, "LIST",
     "noise of the images before the division by their beams, and after the convolution to one beam, such as "
     "12uJy,15uJy, or in the unit of the images; or equal (measured in each plane by the median)",
     read_rms, 0},
    {"pblimit", 1, "LIMIT", "the mosaic ends where its response, 1 at the most sensitive place, is less (0.2)",
     read_pblimit, 0},
    {"size", 2, "WIDTH HEIGHT", "pixels of the mosaic (as many as hold all images)", read_size, 0},
    {"scale", 1, "ANGLE", "size of a pixel (that of the images, or the smallest)", read_scale, 0},
    {"shift", 2, "RA DEC",
     "centre of the mosaic, such as 10h2m30s -30d15m or 150deg -30deg; longitude and latitude if those are the axes of "
     "the images (their tangent point, or the mean of their middles)",
     read_shift, 0},
    {"restoring-beam", 1, "WHICH",
     "each (images keep their beams), common (all are convolved to the smallest beam that contains all), or largest "
     "(each)",
     read_restoring_beam, 0},
    {"beam-shape", 3, "MAJOR MINOR PA", "convolve all images to this beam, such as 12asec 10asec 45deg",
     read_beam_shape, 0},
    {"overwrite", 0, "", "replace outputs that exist", NULL, offsetof(options, join.overwrite)},
    {"j", 1, "THREADS", "number of threads (all cores)", read_threads, 0},
    {"abs-mem", 1, "GB", "maximum memory to use, in 1e9 bytes (all)", read_memory, 0},
    {"quiet", 0, "", "print warnings and errors only", NULL, offsetof(options, quiet)},
    {"verbose", 0, "", "print details", NULL, offsetof(options, verbose)},
    {"version", 0, "", "print the version", NULL, offsetof(options, version)},
    {"help", 0, "", "print this", NULL, offsetof(options, help)},
};
enum { N_OPTION = sizeof option_table / sizeof *option_table };

static void print_help(void)
{
    puts("usage: msimage-mosaic [options] IMAGE.fits IMAGE.fits ..\n"
         "Joins finished images of any program by beam and noise.\n");
    msi_small_options_print(option_table, N_OPTION);
    puts("\nAn image D of flat noise has the response P of its primary beam and the weight w = 1 / rms^2. The mosaic "
         "is the "
         "sum\n"
         "of w P D over that of w P^2, in true flux; the sum of w P^2 is its weight, and one over its root its noise.\n"
         "A beam points at OBSRA and OBSDEC of the header, or at the reference position, and is turned to all angles\n"
         "where its dishes turn on the sky. Images are interpolated to the pixels of the mosaic by a windowed sinc "
         "over\n"
         "8 x 8 pixels; images that have its pixels already are not. Cubes are joined plane by plane.\n"
         "\nExamples:\n"
         "  msimage-mosaic -name all field0-image.fits field1-image.fits field2-image.fits\n"
         "  msimage-mosaic -pb-images '*-pb.fits' -corrected -restoring-beam common -name all f?-pbcor.fits");
}

static int read_options(options *o, int argc, const char *const *argv)
{
    int i;
    MSI_TRY(msi_small_options_read(option_table, N_OPTION, o, argc, argv, &i));
    o->join.file = argv + i;
    o->join.n_file = argc - i;
    if (o->help || o->version) return MSI_OK;
    if (!o->join.n_file)
        return msi_error_set(MSI_EUSAGE, "no image given; usage: msimage-mosaic [options] IMAGE.fits IMAGE.fits ..");
    if (o->join.pb && o->join.pb_images) return msi_error_set(MSI_EUSAGE, "-pb, -pb-images: give one of them");
    if (!o->join.pb) o->join.pb = "auto";
    if (o->join.beams != MSI_JOIN_EACH && msi_beam_known(&o->join.beam))
        return msi_error_set(MSI_EUSAGE, "-restoring-beam, -beam-shape: give one of them");
    return strcmp(o->join.pb, "off") == 0 ? MSI_OK : msi_pb_model_check(o->join.pb);
}

/* Copy the command line into one string. Returned: *out  owned */
static int keep_command_line(char **out, int argc, char **argv)
{
    size_t size = 1;
    for (int i = 0; i < argc; i++) size += strlen(argv[i]) + 1;
    MSI_TRY(msi_alloc(out, (int64_t)size, 1, "the command line"));
    for (int i = 0; i < argc; i++) {
        if (i) strcat(*out, " ");
        strcat(*out, argv[i]);
    }
    return MSI_OK;
}

static int run_program(int argc, char **argv)
{
    options o = {.join = {.name = "mosaic", .pblimit = 0.2, .centre_rad = {NAN, NAN}}};
    int is_raised;
    char *command_line;
    MSI_TRY(msi_process_limits_stack(&is_raised));
    MSI_TRY(read_options(&o, argc, (const char *const *)argv));
    msi_log_setup(o.quiet ? MSI_LOG_QUIET : o.verbose ? MSI_LOG_VERBOSE : MSI_LOG_NORMAL, 0);
    if (o.help)
        print_help();
    else if (o.version)
        puts("msimage-mosaic " MSIMAGE_VERSION);
    else {
        msi_interrupt_install();
        if (o.n_thread) omp_set_num_threads((int)o.n_thread);
        MSI_TRY(msi_process_limits_threads(omp_get_max_threads()));
        if (o.memory_gb > 0) msi_memory_limit_set((int64_t)(1e9 * o.memory_gb));
        MSI_TRY(keep_command_line(&command_line, argc, argv));
        o.join.command_line = command_line;
        const int rc = msi_join_run(&o.join);
        msi_free(command_line);
        return rc;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) return msi_error_set(MSI_EOUTPUT, "stdout: write error");
    return MSI_OK;
}

MSI_PREFER_PASSIVE_THREADS;

int main(int argc, char **argv)
{
    msi_process_hold_standard_files();
    msi_log_program("msimage-mosaic");
    msi_wall_s();
    const int rc = run_program(argc, argv);
    if (rc) msi_log_error(msi_error_get());
    return msi_exit_code(rc);
}
