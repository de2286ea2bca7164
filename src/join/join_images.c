/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/join/join_images.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/cube_file.h"
#include "io/fits/publish.h"
#include "src/join/join_input.h"
#include "src/sky/common_beam.h"

/* ---- The pixels of the mosaic ---- */

/* The pixels of a mosaic on the sky. */

typedef struct msi_join_grid {
    msi_image_geometry geometry;
    double centre_deg[2];
    msi_sky_wcs *wcs;
} msi_join_grid;

static const double RAD = MSI_PI / 180, DEG = 180 / MSI_PI;

enum { MOST_PIXELS = 1 << 17 }; /* along a side */

/* Return whether all inputs are SIN projections about one point. */
static int have_one_tangent(const msi_join_input *in, int n)
{
    const msi_sky_axes *a = msi_sky_wcs_axes(in[0].header.wcs);
    for (int i = 0; i < n; i++) {
        const msi_sky_axes *b = msi_sky_wcs_axes(in[i].header.wcs);
        if (strcmp(b->ctype[0] + 4, "-SIN") != 0 || fabs(remainder(a->crval_deg[0] - b->crval_deg[0], 360)) > 1e-9 ||
            fabs(a->crval_deg[1] - b->crval_deg[1]) > 1e-9)
            return 0;
    }
    return 1;
}

static void choose_centre(msi_join_grid *g, const msi_join_spec *spec, const msi_join_input *in)
{
    double sum[3] = {0, 0, 0};
    if (isfinite(spec->centre_rad[0])) {
        for (int k = 0; k < 2; k++) g->centre_deg[k] = spec->centre_rad[k] * DEG;
        return;
    }
    if (have_one_tangent(in, spec->n_file)) {
        for (int k = 0; k < 2; k++) g->centre_deg[k] = msi_sky_wcs_axes(in[0].header.wcs)->crval_deg[k];
        return;
    }
    for (int i = 0; i < spec->n_file; i++) {
        const double ra = in[i].centre_deg[0] * RAD, dec = in[i].centre_deg[1] * RAD;
        sum[0] += cos(dec) * cos(ra);
        sum[1] += cos(dec) * sin(ra);
        sum[2] += sin(dec);
    }
    g->centre_deg[0] = atan2(sum[1], sum[0]) * DEG;
    g->centre_deg[1] = atan2(sum[2], hypot(sum[0], sum[1])) * DEG;
}

static int make_wcs(msi_join_grid *g, const msi_join_input *in)
{
    msi_sky_wcs_free(g->wcs);
    return msi_sky_wcs_create(&g->wcs, &g->geometry, g->centre_deg[0] * RAD, g->centre_deg[1] * RAD, in->frame, 0);
}

/* Find the largest distance of the edge of an input from the centre, in pixels of the mosaic. Returns 0 if part of the
 * edge is beyond the horizon. */
static int find_extent(const msi_join_grid *g, const msi_join_input *in, double far[2])
{
    enum { SIDE = 32 };
    const msi_fits_view *v = &in->header;
    for (int i = 0; i <= SIDE; i++)
        for (int k = 0; k <= SIDE; k++) {
            const double at[2] = {(double)(v->nx - 1) * i / SIDE, (double)(v->ny - 1) * k / SIDE};
            double sky[2], p[2];
            if (i % SIDE && k % SIDE) continue;
            if (!msi_sky_wcs_pixel_to_sky(v->wcs, at, sky) || !msi_sky_wcs_sky_to_pixel(g->wcs, sky, p)) return 0;
            const double d[2] = {p[0] - (double)(g->geometry.nx / 2), p[1] - (double)(g->geometry.ny / 2)};
            /* There is one pixel more below the centre than above. */
            for (int a = 0; a < 2; a++) far[a] = fmax(far[a], fmax(-d[a], d[a] + 1));
        }
    return 1;
}

static int choose_size(msi_join_grid *g, const msi_join_spec *spec, const msi_join_input *in)
{
    double far[2] = {0, 0};
    for (int i = 0; i < spec->n_file; i++)
        if (!find_extent(g, &in[i], far))
            return msi_error_set(MSI_EINPUT, "%s: part of it is beyond the horizon of the mosaic: give -size",
                                 in[i].path);
    for (int k = 0; k < 2; k++) {
        /* The tolerance ignores rounding for inputs on the pixel grid of the mosaic. */
        const double half = ceil(far[k] - 1e-3);
        if (!(half < MOST_PIXELS / 2))
            return msi_error_set(MSI_EINPUT,
                                 "a mosaic of all images has more than %d pixels on a side: give -size, or -scale",
                                 MOST_PIXELS);
        *(k ? &g->geometry.ny : &g->geometry.nx) = 2 * ((int64_t)half + (half < 1));
    }
    return MSI_OK;
}

/*
 * join_grid_choose - choose the centre, pixel size and size of the mosaic that the options do not give. If all images
 * have one tangent point, the mosaic has it too, and also their pixel size if they have only one. Otherwise the centre
 * is the mean of the images' middles, and the pixels are the smallest ones. The mosaic contains all images.
 * Returned: *out  emptied by join_grid_free
 * Returns:  0, MSI_EINPUT (too large), MSI_ERANGE, MSI_ENOMEM
 */
static int join_grid_choose(msi_join_grid *out, const msi_join_spec *spec, const msi_join_input *in)
{
    msi_join_grid *g = out;
    *g = (msi_join_grid){.geometry = {2, 2, INFINITY, INFINITY}};
    choose_centre(g, spec, in);
    for (int i = 0; i < spec->n_file; i++) {
        const msi_fits_view *v = &in[i].header;
        g->geometry.cell_x_rad = fmin(g->geometry.cell_x_rad, fabs(v->cdelt[0]) * v->cell_rad / fabs(v->cdelt[1]));
        g->geometry.cell_y_rad = fmin(g->geometry.cell_y_rad, v->cell_rad);
    }
    if (spec->cell_rad > 0) g->geometry.cell_x_rad = g->geometry.cell_y_rad = spec->cell_rad;
    MSI_TRY(make_wcs(g, in));
    if (spec->nx) {
        g->geometry.nx = spec->nx;
        g->geometry.ny = spec->ny;
    } else {
        MSI_TRY(choose_size(g, spec, in));
    }
    return make_wcs(g, in);
}

static void join_grid_free(msi_join_grid *g)
{
    msi_sky_wcs_free(g->wcs);
    *g = (msi_join_grid){0};
}

/* join_grid_place - compute the map from the mosaic to an input, and the angle of its north. Returns: 0, MSI_EINPUT
 * (the input is outside of the mosaic), MSI_ENOMEM, MSI_EINTERRUPTED */
static int join_grid_place(const msi_join_grid *g, msi_join_input *in)
{
    const msi_fits_view *v = &in->header;
    const int64_t n[2] = {v->nx, v->ny};
    const double middle[2] = {(double)(v->nx / 2), (double)(v->ny / 2)}, above[2] = {middle[0], middle[1] + 1};
    double sky[2], p[2], q[2];
    MSI_TRY(msi_join_map_make(&in->map, &g->geometry, g->wcs, v->wcs, n, in->pointing_deg));
    if (in->map.x1 <= in->map.x0) return msi_error_set(MSI_EINPUT, "%s: no part of it lies in the mosaic", in->path);
    if (msi_sky_wcs_pixel_to_sky(v->wcs, middle, sky) && msi_sky_wcs_sky_to_pixel(g->wcs, sky, p) &&
        msi_sky_wcs_pixel_to_sky(v->wcs, above, sky) && msi_sky_wcs_sky_to_pixel(g->wcs, sky, q))
        in->turn_rad =
            atan2((p[0] - q[0]) * g->geometry.cell_x_rad, (q[1] - p[1]) * g->geometry.cell_y_rad) - in->column_rad;
    return MSI_OK;
}

enum { OUT_IMAGE, OUT_WEIGHT, OUT_NOISE, N_OUT };

static const msi_fits_kind out_kind[N_OUT] = {MSI_FITS_IMAGE, MSI_FITS_WEIGHT, MSI_FITS_NOISE};

static const double ASEC = 648000 / MSI_PI;

typedef struct joining {
    const msi_join_spec *spec;
    msi_join_input *in; /* [spec->n_file] */
    msi_join_grid grid;
    msi_beam common; /* unknown: images keep their beams */
    int beams_differ;
    int64_t n_pixel;
    double *sum, *weight; /* [n_pixel] sums of w P D and w P^2 */
    float *out;           /* [n_pixel] */
    msi_publish *publish;
    msi_cube_file *cube[N_OUT];
    msi_observation observation;
} joining;

/* ---- The noise of an image ---- */

static int compare(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static float median(float *value, int64_t n)
{
    qsort(value, (size_t)n, sizeof *value, compare);
    return n % 2 ? value[n / 2] : 0.5f * (value[n / 2 - 1] + value[n / 2]);
}

/* Return the response at a pixel of an input. Given: pb  image of its beam; NULL: use the model */
static double response_at(const msi_join_input *in, const float *pb, int64_t k)
{
    const double at[2] = {(double)(k % in->header.nx), (double)(k / in->header.nx)};
    double sky[2], off[2];
    if (pb) return (double)pb[k];
    if (!in->model) return 1;
    if (!msi_sky_wcs_pixel_to_sky(in->header.wcs, at, sky)) return NAN;
    msi_join_offset(sky, in->pointing_deg, off);
    return msi_join_input_response(in, off);
}

/* Measure the noise of an image before division by the beam, from the median absolute deviation. */
static int measure_noise(const joining *j, const msi_join_input *in, const float *pixel, const float *pb, double *rms)
{
    static const int64_t MOST = 1 << 18; /* number of pixels that determines the noise to 0.2 % */
    const int64_t n = in->header.nx * in->header.ny, stride = n <= MOST ? 1 : n / MOST | 1;
    float *value;
    int64_t n_value = 0;
    *rms = NAN;
    MSI_TRY(msi_alloc(&value, n / stride + 1, sizeof *value, "a sample of an image"));
    for (int64_t k = 0; k < n; k += stride) {
        if (!isfinite(pixel[k])) continue;
        const double response = j->spec->is_corrected ? response_at(in, pb, k) : 1, v = (double)pixel[k] * response;
        /* Where the response is 0, the noise cannot be computed from a corrected image. */
        if (response > 0 && isfinite(v)) value[n_value++] = (float)v;
    }
    if (n_value) {
        const float middle = median(value, n_value);
        for (int64_t k = 0; k < n_value; k++) value[k] = fabsf(value[k] - middle);
        *rms = 1.482602218505602 * (double)median(value, n_value);
    }
    msi_free(value);
    if (isnan(*rms))
        return msi_error_set(MSI_EINPUT, "%s: too few pixels have values to measure its noise: give -rms", in->path);
    if (*rms == 0)
        return msi_error_set(
            MSI_EINPUT, "%s: more than half of its pixels are equal, so its noise is unknown: give -rms", in->path);
    return MSI_OK;
}

/* ---- One beam ---- */

static msi_beam turned(const msi_beam *b, double by_rad)
{
    /* A rotation by a rounding error could change an angle of 0 to 180 degrees. */
    const double pa = fmod(b->pa_rad + (fabs(by_rad) > 1e-6 ? by_rad : 0), MSI_PI);
    return (msi_beam){b->major_rad, b->minor_rad, pa < 0 ? pa + MSI_PI : pa};
}

/* Convolve an image to the common beam. */
static int convolve(const joining *j, const msi_join_input *in, int64_t plane, float *pixel)
{
    const msi_fits_view *v = &in->header;
    /* Angles relative to the columns of the image. */
    const msi_beam from = turned(&in->beam[plane], -in->column_rad),
                   to = turned(&j->common, -in->turn_rad - in->column_rad);
    const msi_image_geometry g = {v->nx, v->ny, in->cell_rad[0], in->cell_rad[1]};
    if (!msi_beam_known(&from))
        return msi_error_set(MSI_EINPUT,
                             "%s: plane %lld has no beam (BMAJ, BMIN, BPA) that could be convolved to another",
                             in->path, (long long)plane);
    const double grown = to.major_rad * to.minor_rad / (from.major_rad * from.minor_rad);
    return msi_beam_convolve(pixel, &g, &from, &to, msi_join_is_per(in, "beam") ? grown : 1);
}

/* Check that the common beam contains all others. Given: what  name of the common beam for the message */
static int check_contains(const joining *j, const msi_beam *all, int64_t n, const char *what)
{
    msi_beam unused;
    for (int64_t i = 0; i < n; i++)
        if (msi_beam_known(&all[i]) && !msi_beam_kernel(&unused, &all[i], &j->common))
            return msi_error_set(MSI_EINPUT,
                                 "%s, %.4g x %.4g arcsec, does not contain that of %s, %.4g x %.4g arcsec: give "
                                 "-restoring-beam common",
                                 what, j->common.major_rad * ASEC, j->common.minor_rad * ASEC,
                                 j->in[i / j->in->n_plane].path, all[i].major_rad * ASEC, all[i].minor_rad * ASEC);
    return MSI_OK;
}

static int find_common(joining *j, const msi_beam *all, int64_t n)
{
    const msi_join_spec *s = j->spec;
    int has_one = 0;
    for (int64_t i = 0; i < n; i++) has_one |= msi_beam_known(&all[i]);
    if (!has_one)
        return msi_error_set(MSI_EINPUT, "%s: no image has a beam (BMAJ, BMIN, BPA) that could be convolved to another",
                             j->in->path);
    if (msi_beam_known(&s->beam)) {
        j->common = s->beam;
        MSI_TRY(check_contains(j, all, n, "-beam-shape"));
    } else if (s->beams == MSI_JOIN_LARGEST) {
        j->common = msi_largest_beam(all, n);
        MSI_TRY(check_contains(j, all, n, "the largest beam"));
    } else {
        MSI_TRY(msi_common_beam(&j->common, all, n));
    }
    msi_log_info("beam: %.4g x %.4g arcsec, position angle %.1f deg, of all images", j->common.major_rad * ASEC,
                 j->common.minor_rad * ASEC, j->common.pa_rad * 180 / MSI_PI);
    return MSI_OK;
}

static int choose_beam(joining *j)
{
    const msi_join_spec *s = j->spec;
    const int64_t n_plane = j->in->n_plane;
    msi_beam *all;
    if (s->beams == MSI_JOIN_EACH && !msi_beam_known(&s->beam)) return MSI_OK;
    for (int i = 0; i < s->n_file; i++)
        if (!j->in[i].is_plain)
            return msi_error_set(
                MSI_EINPUT,
                "%s: its columns and rows are mirrored or not at right angles on the sky, so it cannot "
                "be convolved to another beam: leave out -restoring-beam and -beam-shape",
                j->in[i].path);
    if (s->rms && !msi_join_rms_is_equal(s))
        msi_log_warning("-rms: each value is used as the noise after the image is convolved to the common beam");
    MSI_TRY(msi_alloc(&all, n_plane * s->n_file, sizeof *all, "beams"));
    for (int i = 0; i < s->n_file; i++)
        for (int64_t k = 0; k < n_plane; k++) all[i * n_plane + k] = turned(&j->in[i].beam[k], j->in[i].turn_rad);
    const int rc = find_common(j, all, n_plane * s->n_file);
    msi_free(all);
    return rc;
}

static int are_alike(const msi_beam *a, const msi_beam *b)
{
    const double most = 1e-3 * a->major_rad;
    return fabs(b->major_rad - a->major_rad) <= most && fabs(b->minor_rad - a->minor_rad) <= most &&
           fabs(sin(b->pa_rad - a->pa_rad)) * (a->major_rad - a->minor_rad) <= most;
}

/* Return the beam of a plane of the mosaic; unknown if those of the images differ there. */
static msi_beam beam_of(joining *j, int64_t plane)
{
    const msi_beam first = turned(&j->in->beam[plane], j->in->turn_rad);
    if (msi_beam_known(&j->common)) return j->common;
    for (int i = 1; i < j->spec->n_file; i++) {
        const msi_beam b = turned(&j->in[i].beam[plane], j->in[i].turn_rad);
        if (are_alike(&first, &b)) continue;
        if (!j->beams_differ)
            msi_log_warning(
                "the beams of the images differ, so the mosaic has no beam in its header, and its unit is not "
                "the same everywhere: -restoring-beam common convolves all to one");
        j->beams_differ = 1;
        return (msi_beam){0};
    }
    return first;
}

/* ---- Sums ---- */

/* Return the area of a pixel of the mosaic divided by that of a pixel of the image. Given: next  places of the next
 * row */
static double pixel_ratio(const msi_join_place *place, const msi_join_place *next)
{
    const double *o = place->at, *x = place[1].at, *y = next->at;
    return fabs((x[0] - o[0]) * (y[1] - o[1]) - (x[1] - o[1]) * (y[0] - o[0]));
}

/* 1 if an image has values in the mosaic, and 1 if the response is above 0 at one of them. */
typedef struct seen {
    int has_value, has_response;
} seen;

/* Add a row of an image. Given: place, next  its places and those of the next row; next is NULL unless the unit is per
 * pixel */
static seen add_row(joining *j, const msi_join_input *in, const float *pixel, const float *pb, double w, int64_t y,
                    const msi_join_place *place, const msi_join_place *next)
{
    seen is = {0, 0};
    const int64_t n[2] = {in->header.nx, in->header.ny};
    const msi_join_map *m = &in->map;
    for (int64_t x = m->x0; x < m->x1; x++) {
        const msi_join_place *p = &place[x - m->x0];
        const double v = msi_join_sample(pixel, n, p->at);
        if (!isfinite(v)) continue;
        const double response = pb ? msi_join_sample(pb, n, p->at) : msi_join_input_response(in, p->off);
        if (!isfinite(response)) continue;
        is.has_value = 1;
        is.has_response |= response > 0;
        /* The value and its noise refer to a pixel of the mosaic. */
        const double ratio = next ? pixel_ratio(p, next + (x - m->x0)) : 1;
        if (!(ratio > 0)) continue;
        const double flat = ratio * (j->spec->is_corrected ? v * response : v);
        const double weight = msi_join_rms_is_equal(j->spec) ? w : w / (ratio * ratio);
        const int64_t k = y * j->grid.geometry.nx + x;
        j->sum[k] += weight * response * flat;
        j->weight[k] += weight * response * response;
    }
    return is;
}

static int add_image(joining *j, msi_join_input *in, const float *pixel, const float *pb, double w)
{
    const msi_join_map *m = &in->map;
    /* Values per pixel must be scaled by the area of the mosaic's pixels. */
    const int is_of_pixel = msi_join_is_per(in, "pixel");
    int has_value = 0, has_response = 0;
    const int64_t width = m->x1 - m->x0 + 1;
    msi_join_place *buffer;
    const int n_thread = omp_get_max_threads();
    MSI_TRY(msi_alloc(&buffer, n_thread * (m->nx + 2 * width), sizeof *buffer, "coordinates"));
#pragma omp parallel for schedule(dynamic, 16) reduction(| : has_value, has_response)
    for (int64_t y = m->y0; y < m->y1; y++) {
        msi_join_place *scratch = buffer + omp_get_thread_num() * (m->nx + 2 * width);
        msi_join_place *place = scratch + m->nx, *next = place + width;
        if (msi_interrupt_signal()) continue;
        msi_join_map_row(m, y, scratch, place);
        if (is_of_pixel) msi_join_map_row(m, y + 1, scratch, next);
        const seen is = add_row(j, in, pixel, pb, w, y, place, is_of_pixel ? next : NULL);
        has_value |= is.has_value;
        has_response |= is.has_response;
    }
    msi_free(buffer);
    if (has_value && !has_response && !in->is_unseen && !msi_interrupt_signal())
        msi_log_warning("%s: the primary beam at %.4f %.4f deg sees no pixel of it that has a value", in->path,
                        in->pointing_deg[0], in->pointing_deg[1]);
    in->is_unseen |= has_value && !has_response;
    return msi_interrupt_check();
}

static void log_image(const joining *j, const msi_join_input *in, double rms)
{
    char noise[128] = "";
    if (!msi_join_rms_is_equal(j->spec)) snprintf(noise, sizeof noise, "noise %.4g %s, ", rms, in->header.unit);
    msi_log_info("%s: %spointing %.4f %.4f deg", in->path, noise, in->pointing_deg[0], in->pointing_deg[1]);
}

/* Add a plane of an input. */
static int join_one(joining *j, msi_join_input *in, int64_t plane)
{
    msi_fits_view v, pb = {0};
    double rms = in->rms;
    MSI_TRY(msi_fits_view_read(&v, in->path, plane));
    int rc = v.nx != in->header.nx || v.ny != in->header.ny
                 ? msi_error_set(MSI_EINPUT, "%s: changed while it was read", in->path)
                 : MSI_OK;
    if (!rc && in->pb_path) rc = msi_fits_view_read(&pb, in->pb_path, in->n_pb_plane > 1 ? plane : 0);
    if (!rc && pb.pixel && (pb.nx != v.nx || pb.ny != v.ny))
        rc = msi_error_set(MSI_EINPUT, "%s: changed while it was read", in->pb_path);
    if (!rc) msi_join_input_profile(in, plane);
    int is_empty = 1;
    for (int64_t k = 0; !rc && k < v.nx * v.ny && is_empty; k++) is_empty = !isfinite(v.pixel[k]);
    if (!rc && !is_empty && msi_beam_known(&j->common)) rc = convolve(j, in, plane, v.pixel);
    if (!rc && !is_empty && isnan(rms)) rc = measure_noise(j, in, v.pixel, pb.pixel, &rms);
    if (!rc && !is_empty && in->n_plane == 1) log_image(j, in, rms);
    if (!rc && !is_empty) rc = add_image(j, in, v.pixel, pb.pixel, 1 / (rms * rms));
    msi_fits_view_free(&v);
    msi_fits_view_free(&pb);
    return rc;
}

/* ---- Files ---- */

static msi_fits_spec spec_of(const joining *j, int out, int64_t plane, const msi_fits_cube *cube)
{
    const msi_join_input *in = j->in;
    /* The weight, and a noise of 1 for each image, have no unit. */
    const int has_unit = out == OUT_IMAGE || (out == OUT_NOISE && !msi_join_rms_is_equal(j->spec));
    return (msi_fits_spec){.kind = out_kind[out],
                           .geometry = j->grid.geometry,
                           .observation = &j->observation,
                           .ra_rad = j->observation.ra_rad,
                           .dec_rad = j->observation.dec_rad,
                           .freq_hz = msi_join_input_freq(in, plane),
                           /* An axis of step 0 cannot be read. */
                           .bandwidth_hz = in->step_hz != 0 ? fabs(in->step_hz) : 1,
                           .cube = cube,
                           .channel = -1,
                           .pol = in->header.has_pol ? in->header.pol : MSI_POL_I,
                           .unit = has_unit ? in->header.unit : "",
                           .primary_beam = in->model ? msi_pb_model_name(in->model) : NULL,
                           .command_line = j->spec->command_line};
}

static int begin_files(joining *j)
{
    const msi_join_input *in = j->in;
    const msi_fits_cube axis = {.n = in->n_plane, .first_hz = in->freq_hz, .step_hz = in->step_hz};
    for (int o = 0; o < N_OUT && in->n_plane > 1; o++) {
        const msi_fits_spec spec = spec_of(j, o, 0, &axis);
        MSI_TRY(msi_cube_file_begin(&j->cube[o], j->publish, o, &spec));
    }
    return MSI_OK;
}

/* Compute output o from the sums. Given: least  pixels with a smaller weight become NaN */
static void compute_output(const joining *j, int o, double least)
{
#pragma omp parallel for schedule(static)
    for (int64_t k = 0; k < j->n_pixel; k++) {
        const double w = j->weight[k];
        const int is_seen = w > 0 && w >= least;
        j->out[k] = o == OUT_WEIGHT  ? (float)w
                    : !is_seen       ? NAN
                    : o == OUT_IMAGE ? (float)(j->sum[k] / w)
                                     : (float)(1 / sqrt(w));
    }
}

static int write_plane(joining *j, int64_t plane)
{
    const double limit = j->spec->pblimit;
    const msi_beam beam = beam_of(j, plane);
    double most = 0;
    for (int64_t k = 0; k < j->n_pixel; k++) most = fmax(most, j->weight[k]);
    for (int o = 0; o < N_OUT; o++) {
        msi_fits_spec spec = spec_of(j, o, plane, NULL);
        int is_last;
        spec.beam = beam;
        compute_output(j, o, limit * limit * most);
        if (!j->cube[o]) {
            MSI_TRY(msi_fits_write(j->publish, o, &spec, j->out, MSI_FP32));
            continue;
        }
        if (!(most > 0)) spec.beam = (msi_beam){0};
        MSI_TRY(msi_cube_file_put(j->cube[o], plane, &spec, j->out, MSI_FP32, &is_last));
        if (is_last) MSI_TRY(msi_cube_file_finish(j->cube[o]));
    }
    return MSI_OK;
}

/* ---- The run ---- */

/* Warn if two images without a pointing have the same reference position. Images on one tangent plane share the
 * reference position, although their pointings differ. */
static void warn_of_pointings(const joining *j)
{
    for (int i = 1; i < j->spec->n_file; i++)
        for (int k = 0; k < i; k++) {
            const msi_join_input *a = &j->in[k], *b = &j->in[i];
            if (!a->model || a->has_pointing || b->has_pointing) continue;
            if (fabs(remainder(a->pointing_deg[0] - b->pointing_deg[0], 360)) > 1e-9 ||
                fabs(a->pointing_deg[1] - b->pointing_deg[1]) > 1e-9)
                continue;
            msi_log_warning(
                "%s and %s have no OBSRA and OBSDEC%s, so the primary beams of both are put at their reference "
                "position, %.4f %.4f deg: if that is not where the dishes pointed, give -pb-images",
                a->path, b->path, msi_sky_wcs_axes(a->header.wcs)->is_equatorial ? "" : " in their frame",
                a->pointing_deg[0], a->pointing_deg[1]);
            return;
        }
}

static int open_inputs(joining *j)
{
    const msi_join_spec *s = j->spec;
    MSI_TRY(msi_alloc(&j->in, s->n_file, sizeof *j->in, "images"));
    for (int i = 0; i < s->n_file; i++) {
        MSI_TRY(msi_join_input_open(&j->in[i], s, i));
        MSI_TRY(msi_join_input_alike(&j->in[i], &j->in[0]));
    }
    MSI_TRY(join_grid_choose(&j->grid, s, j->in));
    for (int i = 0; i < s->n_file; i++) MSI_TRY(join_grid_place(&j->grid, &j->in[i]));
    warn_of_pointings(j);
    return choose_beam(j);
}

static int prepare(joining *j)
{
    const msi_image_geometry *g = &j->grid.geometry;
    const msi_join_input *in = j->in;
    const double bytes = (double)msi_image_n_pixel(g) * (2 * sizeof *j->sum + sizeof *j->out);
    j->n_pixel = msi_image_n_pixel(g);
    msi_log_info("mosaic: %d image%s of %lld plane%s on %lld x %lld pixels of %.4g arcsec, centre %.5f %.5f deg, %.3g "
                 "GB of memory",
                 j->spec->n_file, msi_plural(j->spec->n_file), (long long)in->n_plane, msi_plural(in->n_plane),
                 (long long)g->nx, (long long)g->ny, g->cell_y_rad * ASEC, j->grid.centre_deg[0], j->grid.centre_deg[1],
                 1e-9 * bytes);
    if (in->model) msi_log_info("beam: %s", msi_pb_model_name(in->model));
    MSI_TRY(msi_alloc(&j->sum, j->n_pixel, sizeof *j->sum, "a mosaic of this size"));
    MSI_TRY(msi_alloc(&j->weight, j->n_pixel, sizeof *j->weight, "a mosaic of this size"));
    MSI_TRY(msi_alloc(&j->out, j->n_pixel, sizeof *j->out, "a mosaic of this size"));
    j->observation = (msi_observation){.ra_rad = j->grid.centre_deg[0] * MSI_PI / 180,
                                       .dec_rad = j->grid.centre_deg[1] * MSI_PI / 180,
                                       .rest_freq_hz = in->header.rest_freq_hz};
    snprintf(j->observation.telescope, sizeof j->observation.telescope, "%.63s", in->header.telescope);
    snprintf(j->observation.object, sizeof j->observation.object, "%.63s", in->header.object);
    snprintf(j->observation.dir_frame, sizeof j->observation.dir_frame, "%s", in->frame);
    snprintf(j->observation.spec_frame, sizeof j->observation.spec_frame, "%s", in->header.spec_frame);
    return begin_files(j);
}

static int join_planes(joining *j)
{
    const int64_t n_plane = j->in->n_plane;
    const int n = j->spec->n_file;
    msi_progress_begin("joining");
    for (int64_t plane = 0; plane < n_plane; plane++) {
        memset(j->sum, 0, (size_t)j->n_pixel * sizeof *j->sum);
        memset(j->weight, 0, (size_t)j->n_pixel * sizeof *j->weight);
        for (int i = 0; i < n; i++) {
            const msi_progress_share all = msi_progress_enter(plane * n + i, plane * n + i + 1, n_plane * n);
            const int rc = join_one(j, &j->in[i], plane);
            msi_progress_leave(all);
            MSI_TRY(rc);
        }
        MSI_TRY(write_plane(j, plane));
    }
    msi_progress_end();
    return MSI_OK;
}

static int is_one_file(const char *path, const char *other)
{
    struct stat a, b;
    return path && other && stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Check that no output replaces an input. Inputs must be open, because images of beams are known only then. */
static int check_outputs(const joining *j, char *const *name)
{
    for (int o = 0; o < N_OUT; o++)
        for (int i = 0; i < j->spec->n_file; i++)
            if (is_one_file(name[o], j->spec->file[i]) || (j->in && is_one_file(name[o], j->in[i].pb_path)))
                return msi_error_set(MSI_EUSAGE, "-name %s: %s is also an input; give another name", j->spec->name,
                                     name[o]);
    return MSI_OK;
}

static int join(joining *j, char *const *name)
{
    MSI_TRY(check_outputs(j, name));
    int rc = msi_publish_plan(&j->publish, (const char *const *)name, N_OUT, j->spec->overwrite);
    if (rc && strcmp(msi_error_about_get(), "overwrite") == 0) return msi_error_append(rc, "; -overwrite replaces it");
    MSI_TRY(rc);
    MSI_TRY(open_inputs(j));
    MSI_TRY(check_outputs(j, name));
    MSI_TRY(prepare(j));
    MSI_TRY(join_planes(j));
    MSI_TRY(msi_publish_commit(j->publish));
    msi_log_info("wrote %s, %s and %s in %.2f s", name[0], name[1], name[2], msi_wall_s());
    return MSI_OK;
}

int msi_join_run(const msi_join_spec *spec)
{
    joining j = {.spec = spec};
    char *name[N_OUT] = {NULL};
    const size_t size = strlen(spec->name) + 32;
    int rc = MSI_OK;
    for (int o = 0; o < N_OUT && !rc; o++) {
        rc = msi_alloc(&name[o], (int64_t)size, 1, "file names");
        if (!rc) snprintf(name[o], size, "%s-%s.fits", spec->name, msi_fits_kind_about(out_kind[o])->name);
    }
    if (!rc) rc = join(&j, name);
    for (int o = 0; o < N_OUT; o++) {
        msi_cube_file_free(j.cube[o]);
        msi_free(name[o]);
    }
    msi_publish_free(j.publish);
    for (int i = 0; j.in && i < spec->n_file; i++) msi_join_input_free(&j.in[i]);
    msi_free(j.in);
    join_grid_free(&j.grid);
    msi_free(j.sum);
    msi_free(j.weight);
    msi_free(j.out);
    return rc;
}
