/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/run/outputs.h"

#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/image.h"
#include "core/status.h"
#include "io/fits/cube_file.h"
#include "io/fits/picture.h"
#include "io/fits/picture_apart.h"
#include "io/ms/ms_paths.h"

typedef struct entry {
    msi_output_id id;
    int picture;
    msi_output_text text; /* 0: an image */
    int links;            /* 1: a second name of the file before it */
    int is_inline;        /* the picture is embedded in the report and has no file */
    char *name;
    msi_cube_file *cube; /* file of an image of -cube; created with its first plane */
    unsigned char *png;  /* the picture, to be embedded in the report */
    int64_t n_png;
    msi_output_shown shown;
} entry;

struct msi_outputs {
    const msi_options *options;
    const msi_plane *planes;
    int n_plane;
    int n, capacity;
    entry *list;
    msi_publish *publish;
    msi_fits_cube axis;   /* spectral axis of -cube */
    pthread_mutex_t gate; /* protects entry.cube until it is created */
};

/* Return 1 if an image is a plane of a cube. */
static int is_cube(const msi_outputs *o, const msi_output_id *id)
{
    return o->options->cube.is_cube && id->channel != MSI_OUTPUT_MFS;
}

/* Make the name of a file: NAME[-tNNNN][-NNNN|-MFS][-ttK][-POL]-KIND.fits, NAME[-tNNNN][-NNNN]-sources.txt,
 * NAME-clean.csv, NAME-report.html. An embedded picture has a file of a similar name until the report has read it. */
static int make_name(const msi_outputs *o, const char *prefix, entry *e)
{
    const msi_options *opt = o->options;
    const msi_fits_kind_row *about = msi_fits_kind_about(e->id.kind);
    size_t size = strlen(prefix) + 96;
    MSI_TRY(msi_alloc(&e->name, (int64_t)size, 1, "file name"));
    int at = snprintf(e->name, size, "%s%s", prefix, e->is_inline ? "-report" : "");
    if (e->text == MSI_OUTPUT_REPORT || e->text == MSI_OUTPUT_HISTORY || e->text == MSI_OUTPUT_CURVES) {
        snprintf(e->name + at, size - (size_t)at, "%s",
                 e->text == MSI_OUTPUT_REPORT   ? "-report.html"
                 : e->text == MSI_OUTPUT_CURVES ? "-clean.png"
                                                : "-clean.csv");
        return MSI_OK;
    }
    if (e->id.kind == MSI_FITS_HORIZON && !e->text) {
        snprintf(e->name + at, size - (size_t)at, "-%s.fits", about->name);
        return MSI_OK;
    }
    if (opt->intervals_out > 1) at += snprintf(e->name + at, size - (size_t)at, "-t%04lld", (long long)e->id.interval);
    const int is_one =
        opt->channels_out < 2 || (e->text && opt->clean.join_channels) || (is_cube(o, &e->id) && !e->text);
    if (!is_one && e->id.channel == MSI_OUTPUT_MFS)
        at += snprintf(e->name + at, size - (size_t)at, "-MFS");
    else if (!is_one)
        at += snprintf(e->name + at, size - (size_t)at, "-%04lld", (long long)e->id.channel);
    if (e->text) {
        snprintf(e->name + at, size - (size_t)at, "-sources%s.txt", e->text == MSI_OUTPUT_SOURCES_PB ? "-pb" : "");
        return MSI_OK;
    }
    if (opt->clean.n_taylor && about->is_of_term) at += snprintf(e->name + at, size - (size_t)at, "-tt%d", e->id.term);
    if (o->n_plane > 1 && !about->is_of_channel)
        at += snprintf(e->name + at, size - (size_t)at, "-%s%s", msi_pol_name(o->planes[e->id.plane].pol),
                       o->planes[e->id.plane].imaginary ? "i" : "");
    snprintf(e->name + at, size - (size_t)at, "-%s.%s", about->name, e->picture ? "png" : "fits");
    return MSI_OK;
}

static int add_entry(msi_outputs *o, entry added)
{
    if (o->n == o->capacity) {
        int capacity = o->capacity ? 2 * o->capacity : 64;
        MSI_TRY(msi_grow(&o->list, o->n, capacity, sizeof *o->list, "list of outputs"));
        o->capacity = capacity;
    }
    entry *e = &o->list[o->n];
    *e = added;
    MSI_TRY(make_name(o, o->options->name, e));
    o->n++;
    return MSI_OK;
}

static int add_image(msi_outputs *o, msi_output_id id, int picture)
{
    return add_entry(o, (entry){.id = id, .picture = picture});
}

enum { MOST_SHOWN_INTERVALS = 3 };

/* Return whether the report shows the picture of an image: those of the first intervals and of combined channels. */
static int is_shown(const msi_outputs *o, const msi_output_id *id)
{
    const int64_t channel = o->options->channels_out > 1 ? MSI_OUTPUT_MFS : 0;
    return o->options->report && id->channel == channel && id->interval < MOST_SHOWN_INTERVALS;
}

static int add_picture(msi_outputs *o, msi_output_id id)
{
    if (is_cube(o, &id)) return MSI_OK;
    if (o->options->png) return add_image(o, id, 1);
    return is_shown(o, &id) ? add_entry(o, (entry){.id = id, .picture = 1, .is_inline = 1}) : MSI_OK;
}

static int add_with_picture(msi_outputs *o, msi_output_id id)
{
    MSI_TRY(add_image(o, id, 0));
    return add_picture(o, id);
}

/* Return the number of Taylor terms; 1 without. */
static int n_term(const msi_outputs *o)
{
    return o->options->clean.n_taylor > 1 ? (int)o->options->clean.n_taylor : 1;
}

int msi_outputs_has_mask(const msi_options *o)
{
    return o->clean.niter && (o->clean.multithresh || msi_clean_options_makes_mask(&o->clean));
}

/* Return the plane of Stokes I; -1 if there is none. */
static int plane_of_stokes_i(const msi_options *o)
{
    msi_plane planes[MSI_MAX_PLANES];
    const int n = msi_options_planes(o, planes);
    for (int p = 0; p < n; p++)
        if (planes[p].pol == MSI_POL_I) return p;
    return -1;
}

int msi_outputs_index_plane(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    if (!c->niter || !c->join_channels || (c->fit_terms < 2 && c->log_fit_terms < 2)) return -1;
    return plane_of_stokes_i(o);
}

int msi_outputs_taylor_plane(const msi_options *o)
{
    return o->clean.n_taylor > 1 ? plane_of_stokes_i(o) : -1;
}

/* Add the maps of the spectra of Taylor terms. */
static int add_taylor_maps(msi_outputs *o, msi_output_id id)
{
    if (id.plane != msi_outputs_taylor_plane(o->options)) return MSI_OK;
    id.kind = MSI_FITS_ALPHA;
    MSI_TRY(add_with_picture(o, id));
    id.kind = MSI_FITS_ALPHA_ERROR;
    MSI_TRY(add_with_picture(o, id));
    id.kind = MSI_FITS_BETA;
    return o->options->clean.n_taylor > 2 ? add_with_picture(o, id) : MSI_OK;
}

/* Add the images that deconvolution makes for a plane. */
static int add_cleaned(msi_outputs *o, msi_output_id id)
{
    static const msi_fits_kind kind[] = {MSI_FITS_IMAGE, MSI_FITS_MODEL, MSI_FITS_RESIDUAL, MSI_FITS_FIRST_RESIDUAL};
    const int n = o->options->clean.save_first_residual ? 4 : 3;
    for (int i = 0; i < n; i++)
        for (int t = 0; t < n_term(o); t++) {
            id.kind = kind[i];
            id.term = t;
            MSI_TRY(add_with_picture(o, id));
        }
    id.term = 0;
    MSI_TRY(add_taylor_maps(o, id));
    id.kind = MSI_FITS_MASK;
    if (msi_outputs_has_mask(o->options) && id.channel != MSI_OUTPUT_MFS) MSI_TRY(add_image(o, id, 0));
    id.kind = MSI_FITS_INDEX;
    return id.channel == MSI_OUTPUT_MFS && id.plane == msi_outputs_index_plane(o->options) ? add_with_picture(o, id)
                                                                                           : MSI_OK;
}

/* Add the images of a kind, for all planes or one, and for all Taylor terms. */
static int add_planes(msi_outputs *o, msi_output_id id, msi_fits_kind kind)
{
    id.kind = kind;
    const msi_fits_kind_row *about = msi_fits_kind_about(kind);
    for (id.term = 0; id.term < (about->is_of_term ? n_term(o) : 1); id.term++)
        for (int p = 0; p < (about->is_of_channel ? 1 : o->n_plane); p++) {
            id.plane = p;
            MSI_TRY(add_with_picture(o, id));
        }
    return MSI_OK;
}

int msi_outputs_beam_is_matrix(const msi_options *o)
{
    msi_plane planes[MSI_MAX_PLANES];
    const int n = msi_options_planes(o, planes);
    int n_stokes = 0;
    for (int p = 0; p < n; p++) n_stokes += planes[p].pol >= MSI_POL_I && planes[p].pol <= MSI_POL_V;
    return n_stokes == 4 && !o->pb.mosaic && !msi_options_has_gains(o);
}

/* Add the primary beam of a channel, and the images that are corrected for it. */
static int add_primary_beam(msi_outputs *o, msi_output_id id)
{
    const msi_options *opt = o->options;
    if (opt->pb.apply && !opt->pb.reuse) {
        MSI_TRY(add_planes(o, id, MSI_FITS_BEAM_0));
        for (int k = 1; k < 15 && msi_outputs_beam_is_matrix(opt); k++) {
            id.kind = MSI_FITS_BEAM_0 + k;
            MSI_TRY(add_image(o, id, 0));
        }
        MSI_TRY(add_planes(o, id, MSI_FITS_BEAM_15));
    }
    if (opt->pb.apply && opt->make_psf && opt->pb.save_psf) MSI_TRY(add_planes(o, id, MSI_FITS_PSF_PB));
    const int corrects = opt->pb.apply || msi_options_has_gains(opt);
    if (corrects && !opt->make_psf_only) MSI_TRY(add_planes(o, id, MSI_FITS_IMAGE_PB));
    if ((corrects || opt->pb.mosaic) && opt->clean.niter) MSI_TRY(add_planes(o, id, MSI_FITS_MODEL_PB));
    if (opt->pb.correct) MSI_TRY(add_planes(o, id, MSI_FITS_PB));
    if (opt->pb.mosaic && !opt->clean.n_taylor) {
        MSI_TRY(add_planes(o, id, MSI_FITS_WEIGHT));
        MSI_TRY(add_planes(o, id, MSI_FITS_SUM_WEIGHT));
    }
    return opt->pb.correct && !opt->make_psf_only ? add_planes(o, id, MSI_FITS_PBCOR) : MSI_OK;
}

/* Add the files of one interval and channel. */
static int add_channel(msi_outputs *o, int64_t interval, int64_t channel)
{
    const msi_options *opt = o->options;
    msi_output_id id = {interval, channel, 0, MSI_FITS_PSF, 0};
    for (id.term = 0; opt->make_psf && id.term < 2 * n_term(o) - 1; id.term++) MSI_TRY(add_with_picture(o, id));
    id.term = 0;
    id.kind = MSI_FITS_WEIGHTS;
    if (opt->save_weights)
        MSI_TRY(add_with_picture(o, id));
    else if (msi_outputs_has_weights(opt, channel))
        MSI_TRY(add_picture(o, id));
    MSI_TRY(add_primary_beam(o, id));
    for (int p = 0; p < o->n_plane && !opt->make_psf_only; p++) {
        id.plane = p;
        if (opt->clean.niter) MSI_TRY(add_cleaned(o, id));
        if (opt->clean.niter && opt->clean.no_dirty) continue;
        id.kind = MSI_FITS_DIRTY;
        for (id.term = 1; id.term < n_term(o); id.term++) MSI_TRY(add_with_picture(o, id));
        id.term = 0;
        MSI_TRY(add_image(o, id, 0));
        /* Without cleaning, a dirty image is also linked under the name of a restored image, as WSClean does. Other
         * programs look for this name. */
        const msi_output_id image = {interval, channel, p, MSI_FITS_IMAGE, 0};
        const int is_other = is_cube(o, &id) && opt->cube.restoring_beam;
        if (!opt->clean.niter) MSI_TRY(add_entry(o, (entry){.id = image, .links = !is_other}));
        MSI_TRY(add_picture(o, id));
        if (!opt->save_uv) continue;
        id.kind = MSI_FITS_UV_REAL;
        MSI_TRY(add_image(o, id, 0));
        id.kind = MSI_FITS_UV_IMAG;
        MSI_TRY(add_image(o, id, 0));
    }
    return MSI_OK;
}

/* Add a list of sources for each deconvolution of an interval. */
static int add_sources(msi_outputs *o, int64_t interval)
{
    const msi_options *opt = o->options;
    const int64_t n = opt->clean.join_channels ? 1 : opt->channels_out;
    for (int64_t c = 0; c < n; c++) {
        MSI_TRY(add_entry(o, (entry){.id = {interval, c, 0, 0, 0}, .text = MSI_OUTPUT_SOURCES}));
        if (opt->pb.apply || msi_options_has_gains(opt))
            MSI_TRY(add_entry(o, (entry){.id = {interval, c, 0, 0, 0}, .text = MSI_OUTPUT_SOURCES_PB}));
    }
    return MSI_OK;
}

static int add_all(msi_outputs *o)
{
    for (int64_t t = 0; t < o->options->intervals_out; t++) {
        /* All planes of a cube are in one file, which belongs to channel 0. */
        const int64_t n = o->options->cube.is_cube ? 1 : o->options->channels_out;
        for (int64_t c = 0; c < n; c++) MSI_TRY(add_channel(o, t, c));
        if (o->options->channels_out > 1) MSI_TRY(add_channel(o, t, MSI_OUTPUT_MFS));
        if (o->options->clean.niter && o->options->clean.save_sources) MSI_TRY(add_sources(o, t));
    }
    if (o->options->clean.niter && o->options->clean.has_horizon)
        MSI_TRY(add_image(o, (msi_output_id){0, MSI_OUTPUT_MFS, 0, MSI_FITS_HORIZON, 0}, 0));
    if (o->options->clean.niter) MSI_TRY(add_entry(o, (entry){.text = MSI_OUTPUT_HISTORY}));
    const int is_inline = !o->options->png;
    if (o->options->clean.niter && (o->options->png || o->options->report))
        MSI_TRY(add_entry(o, (entry){.text = MSI_OUTPUT_CURVES, .is_inline = is_inline}));
    if (o->options->report) MSI_TRY(add_entry(o, (entry){.text = MSI_OUTPUT_REPORT}));
    return MSI_OK;
}

static int is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Refuse to write inside the directory of a set, also through another path to it. A missing directory is reported when
 * the files are created. */
static int check_outside(const msi_options *o, const char *const *paths, int n_path)
{
    struct stat set, here, above;
    const char *slash = strrchr(o->name, '/');
    char *folder = slash ? strndup(o->name, (size_t)(slash - o->name) + 1) : strdup(".");
    if (!folder) return msi_error_set(MSI_ENOMEM, "no memory for a file name");
    int rc = MSI_OK, fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    free(folder);
    while (!rc && fd >= 0 && fstat(fd, &here) == 0) {
        for (int i = 0; !rc && i < n_path; i++)
            if (msi_ms_path_is_table(paths[i]) && stat(paths[i], &set) == 0 && is_same(&set, &here))
                rc = msi_error_set(MSI_EUSAGE, "-name %s: lies inside the Measurement Set %s; give another directory",
                                   o->name, paths[i]);
        const int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(fd);
        fd = up;
        if (fd >= 0 && fstat(fd, &above) == 0 && is_same(&above, &here)) break; /* the root */
    }
    if (fd >= 0) close(fd);
    return rc;
}

int msi_outputs_plan(msi_outputs **out, const msi_options *options, const msi_plane *planes, int n_plane)
{
    *out = NULL;
    MSI_TRY(check_outside(options, options->ms_paths, options->n_ms));
    MSI_TRY(check_outside(options, options->given_paths, options->n_given));
    msi_outputs *o;
    MSI_TRY(msi_alloc(&o, 1, sizeof *o, "list of outputs"));
    pthread_mutex_init(&o->gate, NULL);
    o->options = options;
    o->planes = planes;
    o->n_plane = n_plane;
    const char **names = NULL;
    int rc = add_all(o);
    if (!rc) rc = msi_alloc(&names, o->n, sizeof *names, "list of outputs");
    if (!rc) {
        for (int i = 0; i < o->n; i++) names[i] = o->list[i].name;
        rc = msi_publish_plan(&o->publish, names, o->n, options->overwrite || options->clean.continues);
    }
    msi_free(names);
    if (rc)
        msi_outputs_free(o);
    else
        *out = o;
    return rc;
}

int msi_outputs_n(const msi_outputs *o)
{
    return o->n;
}

int msi_outputs_has_weights(const msi_options *o, int64_t channel)
{
    return o->save_weights || (o->report && ((o->channels_out < 2 && !o->cube.is_cube) || channel == MSI_OUTPUT_MFS));
}

void msi_outputs_shown(const msi_outputs *o, int i, msi_output_shown *shown)
{
    const entry *e = &o->list[i];
    *shown = e->shown;
    shown->name = e->name;
    shown->id = e->id;
    shown->text = e->text;
    shown->png = e->png;
    shown->n_png = e->n_png;
    shown->is_picture = e->picture || e->text == MSI_OUTPUT_CURVES;
}

int msi_outputs_keep_picture(msi_outputs *o, int i)
{
    entry *e = &o->list[i];
    if (msi_publish_is_dropped(o->publish, i)) return MSI_OK;
    if (!o->options->report || (!e->text && !is_shown(o, &e->id))) return MSI_OK;
    MSI_TRY(msi_publish_read(o->publish, i, &e->png, &e->n_png));
    if (e->is_inline) msi_publish_drop(o->publish, i);
    return MSI_OK;
}

/* Measure the range and the rms of an image's pixels for the report. */
static void measure(msi_output_shown *s, const msi_fits_spec *spec, const void *pixel, msi_precision precision)
{
    const int64_t n_pixel = msi_image_n_pixel(&spec->geometry);
    double sum = 0, low = INFINITY, high = -INFINITY;
    int64_t n = 0;
    for (int64_t i = 0; i < n_pixel; i++) {
        const double v = msi_image_value(pixel, precision, i);
        if (!isfinite(v)) continue;
        sum += v * v;
        low = fmin(low, v);
        high = fmax(high, v);
        n++;
    }
    s->freq_hz = spec->freq_hz;
    s->bandwidth_hz = spec->bandwidth_hz;
    s->beam = spec->beam;
    s->pol = spec->pol;
    s->n_vis = spec->n_vis;
    s->low = n ? low : NAN;
    s->high = n ? high : NAN;
    s->rms = n ? sqrt(sum / (double)n) : NAN;
}

int64_t msi_outputs_bytes(const msi_outputs *o)
{
    const msi_density_grid weights = msi_density_grid_of(&o->options->geometry, &o->options->weighting);
    const int64_t n_pixel = msi_image_n_pixel(&o->options->geometry);
    int64_t bytes = 0;
    for (int i = 0; i < o->n; i++) {
        if (o->list[i].picture || o->list[i].text) continue;
        if (o->list[i].links && msi_publish_links(o->publish)) continue;
        const int64_t n_plane = is_cube(o, &o->list[i].id) ? o->options->channels_out : 1;
        bytes += (o->list[i].id.kind == MSI_FITS_WEIGHTS ? weights.nu * weights.nv : n_pixel) * n_plane * 4 + 4 * 2880;
    }
    return bytes;
}

void msi_outputs_set_axis(msi_outputs *o, const msi_fits_cube *axis)
{
    o->axis = *axis;
}

/* Create the file of a cube before its first plane is written. Several threads may write planes. */
static int begin_cube(msi_outputs *o, int i, const msi_fits_spec *spec)
{
    pthread_mutex_lock(&o->gate);
    const int rc = o->list[i].cube ? MSI_OK : msi_cube_file_begin(&o->list[i].cube, o->publish, i, spec);
    pthread_mutex_unlock(&o->gate);
    return rc;
}

/* Return the plane of a cube for an output channel. Planes are in the order of frequency. */
static int64_t plane_of(const msi_outputs *o, int64_t channel)
{
    return o->axis.step_hz < 0 ? o->axis.n - 1 - channel : channel;
}

/* Return 1 if the cubes of a kind stay open, because the restored cube is computed from them. */
static int is_read_back(const msi_outputs *o, msi_fits_kind kind)
{
    return o->options->cube.restoring_beam &&
           (kind == MSI_FITS_DIRTY || kind == MSI_FITS_RESIDUAL || kind == MSI_FITS_MODEL);
}

/* Write a plane of the cube that is output i. */
static int write_plane(msi_outputs *o, int i, int64_t channel, const msi_fits_spec *spec, const void *pixel,
                       msi_precision precision)
{
    msi_fits_spec of_cube = *spec;
    int is_last;
    of_cube.cube = &o->axis;
    MSI_TRY(begin_cube(o, i, &of_cube));
    MSI_TRY(msi_cube_file_put(o->list[i].cube, plane_of(o, channel), spec, pixel, precision, &is_last));
    if (!is_last || is_read_back(o, spec->kind)) return MSI_OK;
    MSI_TRY(msi_cube_file_finish(o->list[i].cube));
    return i + 1 < o->n && o->list[i + 1].links ? msi_publish_link(o->publish, i + 1, i) : MSI_OK;
}

int msi_outputs_write(msi_outputs *o, const msi_output_id *id, const msi_fits_spec *spec, const void *pixel,
                      msi_precision precision)
{
    msi_fits_spec full = *spec;
    full.kind = id->kind;
    /* A cross hand is two planes, real and imaginary, of one polarisation. The PSF gets the weights and the
     * polarisation of the first plane. Saved weights belong to all polarisations. */
    const int has_several_pols = o->planes[o->n_plane - 1].pol != o->planes[0].pol;
    full.pol = id->kind == MSI_FITS_WEIGHTS && has_several_pols ? (msi_pol)0 : o->planes[id->plane].pol;
    const int64_t channel = is_cube(o, id) ? 0 : id->channel;
    msi_output_shown shown = {0};
    int written = 0;
    if (o->options->report && !is_cube(o, id)) measure(&shown, &full, pixel, precision);
    for (int i = 0; i < o->n; i++) {
        const msi_output_id *e = &o->list[i].id;
        if (o->list[i].text || o->list[i].links || e->interval != id->interval || e->channel != channel ||
            e->plane != id->plane || e->kind != id->kind || e->term != id->term)
            continue;
        if (is_cube(o, id)) return write_plane(o, i, id->channel, &full, pixel, precision);
        if (o->list[i].picture) {
            MSI_TRY(msi_picture_spare(o->publish, i,
                                      msi_picture_write(o->publish, i, &full, &o->options->picture, pixel, precision)));
            MSI_TRY(msi_outputs_keep_picture(o, i));
        } else {
            MSI_TRY(msi_fits_write(o->publish, i, &full, pixel, precision));
        }
        o->list[i].shown = shown;
        if (i + 1 < o->n && o->list[i + 1].links) MSI_TRY(msi_publish_link(o->publish, i + 1, i));
        written++;
    }
    return written ? MSI_OK : msi_error_set(MSI_EINTERNAL, "an image was not planned: kind %d", (int)id->kind);
}

/* Return the number of the cube of an image; -1 if it is not created yet. */
static int find_cube(const msi_outputs *o, const msi_output_id *id)
{
    for (int i = 0; i < o->n; i++) {
        const entry *e = &o->list[i];
        if (e->cube && e->id.interval == id->interval && e->id.plane == id->plane && e->id.kind == id->kind) return i;
    }
    return -1;
}

const msi_beam *msi_outputs_cube_beams(const msi_outputs *o, const msi_output_id *id)
{
    const int i = find_cube(o, id);
    return i < 0 ? NULL : msi_cube_file_beams(o->list[i].cube);
}

int msi_outputs_read_back(const msi_outputs *o, const msi_output_id *id, msi_fits_spec *facts, float *pixel)
{
    const int i = find_cube(o, id);
    if (i < 0) return msi_error_set(MSI_EINTERNAL, "a cube was not written: kind %d", (int)id->kind);
    return msi_cube_file_get(o->list[i].cube, plane_of(o, id->channel), facts, pixel);
}

int msi_outputs_finish_cubes(msi_outputs *o, int64_t interval)
{
    for (int i = 0; i < o->n; i++)
        if (o->list[i].cube && o->list[i].id.interval == interval && is_read_back(o, o->list[i].id.kind))
            MSI_TRY(msi_cube_file_finish(o->list[i].cube));
    return MSI_OK;
}

int msi_outputs_path(char **path, const msi_outputs *o, const char *prefix, const msi_output_id *id)
{
    entry e = {.id = *id};
    const int rc = make_name(o, prefix, &e);
    *path = e.name;
    return rc;
}

int msi_outputs_text(const msi_outputs *o, msi_output_text text, msi_publish **publish)
{
    *publish = o->publish;
    for (int i = 0; i < o->n; i++)
        if (o->list[i].text == text) return i;
    return -1;
}

int msi_outputs_sources(const msi_outputs *o, int64_t interval, int64_t channel, int is_true, msi_publish **publish)
{
    const msi_output_text text = is_true ? MSI_OUTPUT_SOURCES_PB : MSI_OUTPUT_SOURCES;
    *publish = o->publish;
    for (int i = 0; i < o->n; i++) {
        const entry *e = &o->list[i];
        if (e->text == text && e->id.interval == interval && e->id.channel == channel) return i;
    }
    return -1;
}

/* Write the extensions of all files as a shell pattern, such as "{fits,png}". */
static const char *suffixes(const msi_outputs *o, int n_picture, char text[40])
{
    const msi_clean_options *c = &o->options->clean;
    const char *const csv = c->niter ? ",csv" : "", *const png = n_picture ? ",png" : "",
                      *const html = o->options->report ? ",html" : "",
                      *const txt = c->niter && c->save_sources ? ",txt" : "";
    if (!*csv && !*html && !*png && !*txt) return "fits";
    snprintf(text, 40, "{fits%s%s%s%s}", csv, html, png, txt);
    return text;
}

/* Log the names of the files, as a pattern if there are many. */
static void log_written(const msi_outputs *o)
{
    enum { MOST = 4, WIDTH = 72 };
    size_t length = 0;
    int n_picture = 0;
    for (int i = 0; i < o->n; i++) {
        n_picture += o->list[i].picture;
        if (i < MOST) length += strlen(o->list[i].name) + 2;
    }
    if (o->n == 1) {
        msi_log_info("wrote %s in %.2f s", o->list[0].name, msi_wall_s());
    } else if (o->n <= MOST && length <= WIDTH) {
        char text[WIDTH + 1] = "";
        for (int i = 0; i < o->n; i++) strcat(strcat(text, i ? ", " : ""), o->list[i].name);
        msi_log_info("wrote %d files in %.2f s: %s", o->n, msi_wall_s(), text);
    } else {
        char text[40];
        msi_log_info("wrote %d files in %.2f s: %s-*.%s", o->n, msi_wall_s(), o->options->name,
                     suffixes(o, n_picture, text));
        for (int i = 0; i < o->n; i++) msi_log_detail("wrote %s", o->list[i].name);
    }
}

static void entry_free(entry *e)
{
    msi_free(e->name);
    msi_free(e->png);
    msi_cube_file_free(e->cube);
}

/* Remove pictures from the list that could not be drawn, or are embedded in the report. */
static void forget_dropped(msi_outputs *o)
{
    int n = 0;
    for (int i = 0; i < o->n; i++)
        if (msi_publish_is_dropped(o->publish, i))
            entry_free(&o->list[i]);
        else
            o->list[n++] = o->list[i];
    o->n = n;
}

int msi_outputs_commit(msi_outputs *o)
{
    const double begin_s = msi_wall_s();
    MSI_TRY(msi_publish_commit(o->publish));
    const double taken_s = msi_wall_s() - begin_s;
    if (taken_s >= 0.1) msi_log_info("waited %.2f s for the disk to complete the files", taken_s);
    forget_dropped(o);
    log_written(o);
    return MSI_OK;
}

void msi_outputs_free(msi_outputs *o)
{
    if (!o) return;
    msi_publish_free(o->publish);
    for (int i = 0; i < o->n; i++) entry_free(&o->list[i]);
    pthread_mutex_destroy(&o->gate);
    msi_free(o->list);
    msi_free(o);
}
