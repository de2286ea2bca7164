/* SPDX-License-Identifier: GPL-3.0-or-later */
/* msimage-png: draws pictures of FITS images. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/picture.h"
#include "io/fits/publish.h"
#include "src/png_channels.h"
#include "src/png_moments.h"

typedef struct options {
    const char *const *file; /* [n_file] borrowed from argv */
    int n_file;
    const char *name, *contour;
    int64_t plane;
    msi_picture_style style;
    int moments, channel_maps;
    double above; /* for moments; NaN: not given */
    msi_png_place place[MSI_PNG_MOST_PLACES];
    int n_place; /* not 0: spectra are drawn */
    int overwrite, quiet, version, help;
} options;

static int read_name(void *of, const char *const *argument)
{
    options *o = of;
    o->name = argument[0];
    return *o->name ? MSI_OK : msi_error_set(MSI_EUSAGE, "-name: the argument is empty");
}

static int read_contour(void *of, const char *const *argument)
{
    options *o = of;
    o->contour = argument[0];
    return MSI_OK;
}

static int read_plane(void *of, const char *const *argument)
{
    options *o = of;
    MSI_TRY(msi_parse_integer(&o->plane, "-plane", argument[0]));
    return o->plane >= 0 ? MSI_OK : msi_error_set(MSI_EUSAGE, "-plane %s: planes count from 0", argument[0]);
}

static int read_range(void *of, const char *const *argument)
{
    options *o = of;
    msi_picture_style *s = &o->style;
    MSI_TRY(msi_parse_real(&s->low, "-range", argument[0]));
    MSI_TRY(msi_parse_real(&s->high, "-range", argument[1]));
    s->has_range = 1;
    if (s->low < s->high) return MSI_OK;
    return msi_error_set(MSI_EUSAGE, "-range %s %s: the first value must be less than the second", argument[0],
                         argument[1]);
}

static int read_above(void *of, const char *const *argument)
{
    options *o = of;
    return msi_parse_real(&o->above, "-above", argument[0]);
}

static int read_place(void *of, const char *const *argument)
{
    options *o = of;
    if (o->n_place == MSI_PNG_MOST_PLACES)
        return msi_error_set(MSI_EUSAGE, "-spectrum: at most %d places can be given", MSI_PNG_MOST_PLACES);
    msi_png_place *p = &o->place[o->n_place++];
    p->name = argument[0];
    MSI_TRY(msi_parse_ra(&p->ra_rad, "-spectrum", argument[1]));
    return msi_parse_dec(&p->dec_rad, "-spectrum", argument[2]);
}

static const msi_small_option option_table[] = {
    {"name", 1, "FILE.png", "name of the picture, if there is one image (name of the image, with .png)", read_name, 0},
    {"plane", 1, "N", "plane of an image with several planes, counted from 0 (0)", read_plane, 0},
    {"range", 2, "LOW HIGH", "linear colours from LOW to HIGH, in the unit of the pixels (chosen from the image)",
     read_range, 0},
    {"contour", 1, "FILE.fits",
     "draw the line where this image, such as a primary beam NAME-pb.fits, is half of its peak", read_contour, 0},
    {"moments", 0, "",
     "draw and write moments 0, 1 and 2 and the peak of each cube: FILE-moment0.png, FILE-moment0.fits .. "
     "FILE-peak.fits",
     NULL, offsetof(options, moments)},
    {"above", 1, "LEVEL",
     "moments 1 and 2 are of values above LEVEL, in the unit of the pixels (three times the noise)", read_above, 0},
    {"channel-maps", 0, "", "draw all planes of each cube on one page: FILE-channels.png", NULL,
     offsetof(options, channel_maps)},
    {"spectrum", 3, "NAME RA DEC",
     "draw the spectrum of each cube at a place, such as core 8h24m07s -42d59m48s, which has this name in the legend: "
     "FILE-spectra.png; may be repeated",
     read_place, 0},
    {"overwrite", 0, "", "replace pictures that exist", NULL, offsetof(options, overwrite)},
    {"quiet", 0, "", "print errors only", NULL, offsetof(options, quiet)},
    {"version", 0, "", "print the version", NULL, offsetof(options, version)},
    {"help", 0, "", "print this", NULL, offsetof(options, help)},
};
enum { N_OPTION = sizeof option_table / sizeof *option_table };

static void print_help(void)
{
    puts("usage: msimage-png [options] FILE.fits [FILE.fits ..]\n"
         "Draws a picture of each FITS image: FILE.png, with axes, colour bar and beam.\n");
    msi_small_options_print(option_table, N_OPTION);
    puts("\nStokes Q, U and V are blue and red around a white zero. Weights of the uv plane have a logarithmic scale. "
         "Other\n"
         "images have an asinh scale, which is linear within a few times the noise. NaN are grey. Any pixels and any\n"
         "projection are accepted; axes that are not sky coordinates are linear.\n"
         "\nExamples:\n"
         "  msimage-png -overwrite puppis-dirty.fits puppis-psf.fits\n"
         "  msimage-png -plane 2 -range -0.001 0.01 -name stokes-u.png cube.fits");
}

static int read_options(options *o, int argc, const char *const *argv)
{
    int i;
    MSI_TRY(msi_small_options_read(option_table, N_OPTION, o, argc, argv, &i));
    o->file = argv + i;
    o->n_file = argc - i;
    if (o->help || o->version) return MSI_OK;
    if (!o->n_file) return msi_error_set(MSI_EUSAGE, "no image given; usage: msimage-png [options] FILE.fits ..");
    const char *cube = o->moments ? "moments" : o->channel_maps ? "channel-maps" : o->n_place ? "spectrum" : NULL;
    if ((o->moments != 0) + (o->channel_maps != 0) + (o->n_place > 0) > 1)
        return msi_error_set(MSI_EUSAGE, "-moments, -channel-maps, -spectrum: give one of them");
    if (cube && ((o->name && o->moments) || o->plane))
        return msi_error_set(MSI_EUSAGE, "-%s: it cannot be used with -%s", o->plane ? "plane" : "name", cube);
    if (cube && o->contour) return msi_error_set(MSI_EUSAGE, "-contour: it cannot be used with -%s", cube);
    if (!o->moments && !isnan(o->above)) return msi_error_set(MSI_EUSAGE, "-above: it needs -moments");
    if (o->name && o->n_file > 1) return msi_error_set(MSI_EUSAGE, "-name %s: it needs exactly one image", o->name);
    return MSI_OK;
}

/* Return the name of the picture: FILE.png instead of FILE.fits, FILE.fit or FILE.fts, with `-end` before its end unless
 * that is NULL; owned by the caller. */
static char *picture_name(const char *file, const char *end, const char *extension)
{
    static const char *const endings[] = {".fits", ".fit", ".fts"};
    const size_t length = strlen(file);
    size_t keep = length;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t n = strlen(endings[i]);
        if (length > n && strcasecmp(file + length - n, endings[i]) == 0) keep = length - n;
    }
    char *name = malloc(keep + 16 + sizeof ".fits");
    if (name) sprintf(name, "%.*s%s%s%s", (int)keep, file, end ? "-" : "", end ? end : "", extension);
    return name;
}

/* Make a contour of an image with the pixels of a view. Returned: *out  owned */
static int make_contour(msi_fits_contour **out, const char *file, const msi_fits_view *of)
{
    enum { N = MSI_CONTOUR_POINTS };
    msi_fits_view view;
    float largest = 0;
    MSI_TRY(msi_fits_view_read(&view, file, 0));
    int rc = MSI_OK;
    if (view.nx != of->nx || view.ny != of->ny)
        rc = msi_error_set(MSI_EINPUT, "-contour %s: it has %lld x %lld pixels, but the image has %lld x %lld", file,
                           (long long)view.nx, (long long)view.ny, (long long)of->nx, (long long)of->ny);
    if (!rc) rc = msi_alloc(out, 1, sizeof **out, "a contour");
    for (int i = 0; !rc && i < N * N; i++) {
        const float v = view.pixel[llround(msi_fits_contour_pixel(i / N, view.ny)) * view.nx +
                                   llround(msi_fits_contour_pixel(i % N, view.nx))];
        (*out)->value[i / N][i % N] = v;
        largest = fmaxf(largest, v);
    }
    if (!rc) (*out)->level = 0.5 * (double)largest;
    msi_fits_view_free(&view);
    return rc;
}

static int draw_one(msi_publish *p, int i, const options *o)
{
    const char *file = o->file[i], *slash = strrchr(file, '/');
    msi_fits_view view;
    const msi_progress_share all = msi_progress_enter(i, i + 1, o->n_file);
    MSI_TRY(msi_fits_view_read(&view, file, o->plane));
    msi_fits_contour *contour = NULL;
    int rc = o->contour ? make_contour(&contour, o->contour, &view) : MSI_OK;
    if (!rc) rc = msi_picture_write_view(p, i, &view, slash ? slash + 1 : file, &o->style, contour);
    msi_free(contour);
    msi_fits_view_free(&view);
    msi_progress_leave(all);
    return rc;
}

/* Draw and write the moments of cube i. */
static int draw_moments(msi_publish *p, int i, const options *o)
{
    msi_fits_view view[MSI_N_MOMENT];
    const char *file = o->file[i], *slash = strrchr(file, '/');
    const msi_progress_share all = msi_progress_enter(i, i + 1, o->n_file);
    char name[256];
    MSI_TRY(msi_moments_make(view, file, o->above));
    int rc = MSI_OK;
    for (int m = 0; m < MSI_N_MOMENT; m++) {
        const int at = 2 * (MSI_N_MOMENT * i + m);
        const msi_fits_change change = {
            .unit = view[m].unit, .type = view[m].type, .one_plane = 1, .beam = view[m].beam};
        snprintf(name, sizeof name, "%s of %.200s", view[m].type, slash ? slash + 1 : file);
        if (!rc) rc = msi_picture_write_view(p, at, &view[m], name, &o->style, NULL);
        if (!rc) rc = msi_fits_write_like(p, at + 1, file, &change, view[m].pixel);
        msi_fits_view_free(&view[m]);
    }
    msi_progress_leave(all);
    return rc;
}

/* Draw the channel maps or the spectra of cube i. */
static int draw_channels(msi_publish *p, int i, const options *o)
{
    msi_fits_view view;
    char title[320];
    const msi_progress_share all = msi_progress_enter(i, i + 1, o->n_file);
    int rc;
    if (o->n_place) {
        rc = msi_channel_spectra_draw(p, i, o->file[i], o->place, o->n_place);
    } else {
        MSI_TRY(msi_channel_maps_make(&view, o->file[i], title, sizeof title));
        rc = msi_picture_write_view(p, i, &view, title, &o->style, NULL);
        msi_fits_view_free(&view);
    }
    msi_progress_leave(all);
    return rc;
}

static int n_picture(const options *o)
{
    return o->moments ? 2 * MSI_N_MOMENT * o->n_file : o->n_file;
}

/* Draw all pictures or none. */
static int draw_all(const options *o, const char *const *name)
{
    msi_publish *p;
    int rc = msi_publish_plan(&p, name, n_picture(o), o->overwrite);
    if (rc && strcmp(msi_error_about_get(), "overwrite") == 0) return msi_error_append(rc, "; -overwrite replaces it");
    MSI_TRY(rc);
    msi_progress_begin("drawing");
    for (int i = 0; !rc && i < o->n_file; i++)
        rc = o->moments                      ? draw_moments(p, i, o)
             : o->channel_maps || o->n_place ? draw_channels(p, i, o)
                                             : draw_one(p, i, o);
    if (!rc) msi_progress_end();
    if (!rc) rc = msi_publish_commit(p);
    msi_publish_free(p);
    for (int i = 0; !rc && i < n_picture(o); i++) msi_log_info("wrote %s", name[i]);
    return rc;
}

static int draw(const options *o)
{
    char **name;
    const int n = n_picture(o), each = o->moments ? 2 * MSI_N_MOMENT : 1;
    MSI_TRY(msi_alloc(&name, n, sizeof *name, "file names"));
    int rc = MSI_OK;
    for (int i = 0; !rc && i < n; i++)
        if (!(name[i] = o->name ? strdup(o->name)
                                : picture_name(o->file[i / each],
                                               o->moments        ? msi_moment_names[i % each / 2]
                                               : o->channel_maps ? "channels"
                                               : o->n_place      ? "spectra"
                                                                 : NULL,
                                               o->moments && i % 2 ? ".fits" : ".png")))
            rc = msi_error_set(MSI_ENOMEM, "no memory for file names");
    if (!rc) rc = draw_all(o, (const char *const *)name);
    for (int i = 0; i < n; i++) free(name[i]);
    msi_free(name);
    return rc;
}

static int run_program(int argc, char **argv)
{
    options o = {.above = NAN};
    int is_raised;
    MSI_TRY(msi_process_limits_stack(&is_raised));
    MSI_TRY(read_options(&o, argc, (const char *const *)argv));
    msi_log_setup(o.quiet ? MSI_LOG_QUIET : MSI_LOG_NORMAL, 0);
    if (o.help)
        print_help();
    else if (o.version)
        puts("msimage-png " MSIMAGE_VERSION);
    else {
        msi_interrupt_install();
        return draw(&o);
    }
    if (fflush(stdout) != 0 || ferror(stdout)) return msi_error_set(MSI_EOUTPUT, "stdout: write error");
    return MSI_OK;
}

int main(int argc, char **argv)
{
    msi_process_hold_standard_files();
    msi_log_program("msimage-png");
    msi_wall_s();
    const int rc = run_program(argc, argv);
    if (rc) msi_log_error(msi_error_get());
    return msi_exit_code(rc);
}
