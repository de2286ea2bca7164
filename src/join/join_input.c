/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/join/join_input.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "core/units.h"
#include "src/pb/pb_file.h"
#include "src/pb/pb_mean.h"

static void join_map_free(msi_join_map *m);

/* ---- Places of pixels ---- */

static const double RAD = MSI_PI / 180;

enum { STEP = 8 }; /* pixels from node to node */

/* ---- Places ---- */

void msi_join_offset(const double sky_deg[2], const double pointing_deg[2], double off[2])
{
    const double d = (sky_deg[0] - pointing_deg[0]) * RAD, dec = sky_deg[1] * RAD, dec0 = pointing_deg[1] * RAD;
    const double l = cos(dec) * sin(d), m = sin(dec) * cos(dec0) - cos(dec) * sin(dec0) * cos(d),
                 n = sin(dec) * sin(dec0) + cos(dec) * cos(dec0) * cos(d);
    const double chord = hypot(l, m), grow = chord > 1e-9 ? atan2(chord, n) / chord : 1;
    off[0] = l * grow;
    off[1] = m * grow;
}

/* Return 1 if a position is in the image, or at most `margin` pixels outside. */
static int is_near(const double at[2], const int64_t n[2], double margin)
{
    return at[0] > -margin && at[0] < (double)n[0] + margin && at[1] > -margin && at[1] < (double)n[1] + margin;
}

/* Find the pixels of the mosaic that can be in the image, from the positions of its edge. If a part of the image is
 * beyond the horizon of the mosaic, all pixels are used. */
static void find_extent(msi_join_map *m, const msi_image_geometry *g, const msi_sky_wcs *wcs, const msi_sky_wcs *image,
                        const int64_t n[2])
{
    enum { SIDE = 64 };
    double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
    const int64_t most[2] = {g->nx, g->ny};
    int64_t first[2] = {0, 0}, end[2] = {g->nx, g->ny};
    int is_seen = 1;
    for (int j = 0; j <= SIDE && is_seen; j++)
        for (int i = 0; i <= SIDE && is_seen; i += j % SIDE ? SIDE : 1) {
            const double at[2] = {(double)(n[0] - 1) * i / SIDE, (double)(n[1] - 1) * j / SIDE};
            double sky[2], p[2];
            is_seen = msi_sky_wcs_pixel_to_sky(image, at, sky) && msi_sky_wcs_sky_to_pixel(wcs, sky, p);
            for (int k = 0; k < 2 && is_seen; k++) {
                low[k] = fmin(low[k], p[k]);
                high[k] = fmax(high[k], p[k]);
            }
        }
    for (int k = 0; k < 2 && is_seen; k++) {
        /* The edge may be curved between the points. */
        const double margin = 2 * STEP + 0.02 * (high[k] - low[k]);
        first[k] = (int64_t)fmin(fmax(floor(low[k] - margin), 0), (double)most[k]);
        end[k] = (int64_t)fmax(fmin(ceil(high[k] + margin), (double)most[k]), (double)first[k]);
    }
    m->x0 = first[0];
    m->y0 = first[1];
    m->x1 = end[0];
    m->y1 = end[1];
}

/* Compute a node. Returns 1 if it is at most `margin` pixels of the image outside of it */
static int find_node(msi_join_place *p, const double at[2], const msi_sky_wcs *wcs, const msi_sky_wcs *image,
                     const int64_t n[2], const double pointing_deg[2], double margin)
{
    double sky[2];
    *p = (msi_join_place){{NAN, NAN}, {NAN, NAN}};
    if (!msi_sky_wcs_pixel_to_sky(wcs, at, sky)) return 0;
    msi_join_offset(sky, pointing_deg, p->off);
    return msi_sky_wcs_sky_to_pixel(image, sky, p->at) && is_near(p->at, n, margin);
}

int msi_join_map_make(msi_join_map *out, const msi_image_geometry *geometry, const msi_sky_wcs *wcs,
                      const msi_sky_wcs *image, const int64_t n[2], const double pointing_deg[2])
{
    msi_join_map m = {0};
    const msi_sky_axes *fine = msi_sky_wcs_axes(image);
    const double ratio = geometry->cell_y_rad / (fabs(fine->cdelt_deg[1]) * RAD);
    const double margin = 2 * STEP * fmax(1, isfinite(ratio) ? ratio : 1) + 2;
    int is_in = 0;
    *out = m;
    find_extent(&m, geometry, wcs, image, n);
    m.first_x = m.x0 / STEP;
    m.first_y = m.y0 / STEP;
    m.nx = m.x1 / STEP - m.first_x + 4;
    m.ny = m.y1 / STEP - m.first_y + 4;
    MSI_TRY(msi_alloc(&m.node, m.nx * m.ny, sizeof *m.node, "coordinates"));
    /* wcslib does not change coordinates that are set. */
#pragma omp parallel for schedule(dynamic, 4) reduction(| : is_in)
    for (int64_t j = 0; j < m.ny; j++)
        for (int64_t i = 0; i < m.nx && !msi_interrupt_signal(); i++) {
            const double at[2] = {(double)((m.first_x + i - 1) * STEP), (double)((m.first_y + j - 1) * STEP)};
            is_in |= find_node(&m.node[j * m.nx + i], at, wcs, image, n, pointing_deg, margin);
        }
    if (!is_in || m.y1 <= m.y0) m.x1 = m.x0;
    const int rc = msi_interrupt_check();
    if (rc)
        join_map_free(&m);
    else
        *out = m;
    return rc;
}

static void join_map_free(msi_join_map *m)
{
    msi_free(m->node);
    *m = (msi_join_map){0};
}

/* Return the weighted sum of four places. */
static msi_join_place blend(const msi_join_place *p, int64_t stride, const double w[4])
{
    msi_join_place sum = {{0, 0}, {0, 0}};
    for (int k = 0; k < 4; k++)
        for (int c = 0; c < 2; c++) {
            sum.at[c] += w[k] * p[k * stride].at[c];
            sum.off[c] += w[k] * p[k * stride].off[c];
        }
    return sum;
}

void msi_join_map_row(const msi_join_map *m, int64_t y, msi_join_place *scratch, msi_join_place *place)
{
    double w[4];
    msi_pb_cubic((double)(y % STEP) / STEP, w);
    for (int64_t i = 0; i < m->nx; i++) scratch[i] = blend(m->node + (y / STEP - m->first_y) * m->nx + i, m->nx, w);
    for (int64_t x = m->x0; x <= m->x1; x++) {
        msi_pb_cubic((double)(x % STEP) / STEP, w);
        place[x - m->x0] = blend(scratch + x / STEP - m->first_x, 1, w);
    }
}

/* ---- Values ---- */

enum { ORDER = 4, TAPS = 2 * ORDER, FRACTIONS = 1024 };

static double tap_table[FRACTIONS + 1][TAPS];
static pthread_once_t tap_once = PTHREAD_ONCE_INIT;

static double sinc(double x)
{
    return fabs(x) < 1e-12 ? 1 : sin(MSI_PI * x) / (MSI_PI * x);
}

/* The modified Bessel function of order 0. */
static double bessel_i0(double x)
{
    double sum = 1, term = 1;
    for (int k = 1; term > 1e-17 * sum; k++) sum += term *= x * x / (4.0 * k * k);
    return sum;
}

/* Parameter of the Kaiser window. Interpolation of a Gaussian with a FWHM of three pixels has an error of 1e-3 of its
 * peak; four pixels, 5e-4. */
static const double KAISER = 5.5;

static void make_taps(void)
{
    for (int i = 0; i <= FRACTIONS; i++)
        for (int k = 0; k < TAPS; k++) {
            const double x = (double)i / FRACTIONS - (k - ORDER + 1), r = x / ORDER;
            tap_table[i][k] = r * r < 1 ? sinc(x) * bessel_i0(KAISER * sqrt(1 - r * r)) : 0;
        }
}

/* Find the pixels along an axis and their weights. Returned: [*first, *end) taps that are not 0. Returns the first
 * pixel */
static int64_t find_taps(double at, double tap[TAPS], int *first, int *end)
{
    /* A position this close to a pixel gets its value, so images on the mosaic's grid are not interpolated. */
    static const double SAME = 1e-5;
    double whole = floor(at), t = at - whole;
    if (t > 1 - SAME) whole += 1, t = 0;
    const int is_same = t < SAME;
    const double place = is_same ? 0 : t * FRACTIONS;
    const int i = place < FRACTIONS ? (int)place : FRACTIONS - 1;
    for (int k = 0; k < TAPS; k++) tap[k] = tap_table[i][k] + (place - i) * (tap_table[i + 1][k] - tap_table[i][k]);
    *first = is_same ? ORDER - 1 : 0;
    *end = is_same ? ORDER : TAPS;
    return (int64_t)whole - ORDER + 1;
}

double msi_join_sample(const float *pixel, const int64_t n[2], const double at[2])
{
    static const double EDGE = 1e-5;
    double tx[TAPS], ty[TAPS], sum = 0, weight = 0;
    int x0, x1, y0, y1;
    if (!(at[0] >= -EDGE && at[1] >= -EDGE && at[0] <= (double)(n[0] - 1) + EDGE && at[1] <= (double)(n[1] - 1) + EDGE))
        return NAN;
    pthread_once(&tap_once, make_taps);
    const int64_t first_x = find_taps(at[0], tx, &x0, &x1), first_y = find_taps(at[1], ty, &y0, &y1);
    for (int k = y0; k < y1; k++)
        for (int i = x0; i < x1; i++) {
            const int64_t x = first_x + i, y = first_y + k;
            const int is_next = (i == ORDER - 1 || i == ORDER) && (k == ORDER - 1 || k == ORDER);
            if (x < 0 || y < 0 || x >= n[0] || y >= n[1]) continue;
            const double v = (double)pixel[y * n[0] + x], w = tx[i] * ty[k];
            if (isfinite(v)) {
                sum += w * v;
                weight += w;
            } else if (is_next) {
                return NAN;
            }
        }
    return weight > 0.5 ? sum / weight : NAN;
}

/* ---- Lists on the command line ---- */

/* Copy word i of a list that is separated by commas. Returned: *out  owned; NULL after the last word */
static int list_word(char **out, const char *list, int i)
{
    *out = NULL;
    while (i > 0 && *list)
        if (*list++ == ',') i--;
    const size_t n = strcspn(list, ",");
    if (i || !n) return MSI_OK;
    MSI_TRY(msi_alloc(out, (int64_t)n + 1, 1, "a list"));
    memcpy(*out, list, n);
    return MSI_OK;
}

static int list_length(const char *list)
{
    int n = 1;
    for (; *list; list++) n += *list == ',';
    return n;
}

/* Find the image of the beam of input i. */
static int find_pb_image(msi_join_input *in, const msi_join_spec *spec, int i)
{
    const char *star = strchr(spec->pb_images, '*'), *end = strrchr(in->path, '-'), *slash = strrchr(in->path, '/');
    if (!star) {
        if (list_length(spec->pb_images) != spec->n_file)
            return msi_error_set(MSI_EUSAGE,
                                 "-pb-images: give one name for each image, %d, or a pattern such as '*-pb.fits'",
                                 spec->n_file);
        return list_word(&in->pb_path, spec->pb_images, i);
    }
    if (!end || (slash && end < slash))
        return msi_error_set(MSI_EUSAGE,
                             "-pb-images %s: * stands for the name of an image up to its last dash, but %s has none",
                             spec->pb_images, in->path);
    const size_t before = (size_t)(star - spec->pb_images), length = (size_t)(end - in->path);
    const size_t size = strlen(spec->pb_images) + length + 1;
    MSI_TRY(msi_alloc(&in->pb_path, (int64_t)size, 1, "a file name"));
    snprintf(in->pb_path, size, "%.*s%.*s%s", (int)before, spec->pb_images, (int)length, in->path, star + 1);
    return MSI_OK;
}

int msi_join_rms_is_equal(const msi_join_spec *spec)
{
    return spec->rms && strcmp(spec->rms, "equal") == 0;
}

static int find_rms(msi_join_input *in, const msi_join_spec *spec, int i)
{
    char *word;
    in->rms = NAN;
    if (!spec->rms) return MSI_OK;
    if (msi_join_rms_is_equal(spec)) {
        in->rms = 1;
        return MSI_OK;
    }
    if (list_length(spec->rms) != spec->n_file)
        return msi_error_set(MSI_EUSAGE, "-rms %s: give one noise for each image, %d, or equal", spec->rms,
                             spec->n_file);
    MSI_TRY(list_word(&word, spec->rms, i));
    int rc = msi_parse_flux(&in->rms, "-rms", word ? word : "");
    if (!rc && !(in->rms > 0)) rc = msi_error_set(MSI_EUSAGE, "-rms %s: a noise must be positive", word);
    if (!rc && strstr(word, "Jy") && strncasecmp(in->header.unit, "Jy", 2) != 0)
        rc = msi_error_set(MSI_EUSAGE, "-rms %s: the unit of %s is '%s'; give a number in this unit, without its name",
                           word, in->path, in->header.unit);
    msi_free(word);
    return rc;
}

/* ---- The header ---- */

static int find_frame(msi_join_input *in)
{
    const msi_fits_view *v = &in->header;
    const char *type = v->ctype[0];
    static const char *const projections[] = {"-SIN", "-TAN", "-ARC", "-STG", "-ZEA", "-NCP"};
    int is_known = 0;
    if (!v->wcs)
        return msi_error_set(MSI_EINPUT, "%s: the first two axes, %s and %s, are not sky coordinates", in->path,
                             v->ctype[0], v->ctype[1]);
    for (size_t i = 0; i < sizeof projections / sizeof *projections; i++)
        is_known |= strlen(type) == 8 && strcmp(type + 4, projections[i]) == 0;
    if (!is_known)
        return msi_error_set(MSI_EINPUT, "%s: projection %s; SIN, TAN, ARC, STG and ZEA can be joined", in->path, type);
    const msi_sky_axes *axes = msi_sky_wcs_axes(v->wcs);
    snprintf(in->frame, sizeof in->frame, "%s",
             strncmp(type, "GLON", 4) == 0 ? "GALACTIC"
             : axes->frame[0]              ? axes->frame
                                           : "ICRS");
    return MSI_OK;
}

static int find_planes(msi_join_input *in)
{
    msi_fits_view next;
    in->n_plane = in->header.n_plane;
    in->freq_hz = in->header.freq_hz;
    in->step_hz = in->header.bandwidth_hz;
    if (in->n_plane < 2) return MSI_OK;
    MSI_TRY(msi_fits_view_read(&next, in->path, 1));
    in->step_hz = next.freq_hz - in->freq_hz;
    const int has_pols = next.has_pol && in->header.has_pol && next.pol != in->header.pol;
    msi_fits_view_free(&next);
    if (has_pols || in->step_hz == 0 || in->header.n_freq != in->n_plane)
        return msi_error_set(
            MSI_EINPUT,
            "%s: %lld planes; an image must have one plane, or several along FREQ, its third axis, and "
            "one polarisation",
            in->path, (long long)in->n_plane);
    return MSI_OK;
}

/* Find the size and orientation of the pixels at the reference position. */
static void find_pixels(msi_join_input *in)
{
    const msi_sky_axes *a = msi_sky_wcs_axes(in->header.wcs);
    const double at[2] = {a->crpix[0] - 1, a->crpix[1] - 1};
    double edge[2][2] = {{NAN, NAN}, {NAN, NAN}};
    for (int k = 0; k < 2; k++) {
        const double next[2] = {at[0] + !k, at[1] + k};
        double sky[2];
        if (msi_sky_wcs_pixel_to_sky(in->header.wcs, next, sky)) msi_join_offset(sky, a->crval_deg, edge[k]);
        in->cell_rad[k] = hypot(edge[k][0], edge[k][1]);
    }
    const double area = in->cell_rad[0] * in->cell_rad[1], cross = edge[0][0] * edge[1][1] - edge[0][1] * edge[1][0];
    in->column_rad = isfinite(area) ? atan2(edge[1][0], edge[1][1]) : 0;
    in->is_plain = cross < -0.999999 * area;
}

/* Find the direction of the middle of the image, and the pointing in its header; without one, the reference
 * position. */
static int find_directions(msi_join_input *in)
{
    const msi_fits_view *v = &in->header;
    const double middle[2] = {(double)(v->nx / 2), (double)(v->ny / 2)};
    if (!msi_sky_wcs_pixel_to_sky(v->wcs, middle, in->centre_deg))
        return msi_error_set(MSI_EINPUT, "%s: its middle is not on the sky", in->path);
    /* OBSRA and OBSDEC are equatorial, so they are used only with equatorial axes. */
    in->has_pointing =
        msi_sky_wcs_axes(v->wcs)->is_equatorial && isfinite(v->pointing_deg[0]) && fabs(v->pointing_deg[1]) <= 90;
    for (int k = 0; k < 2; k++)
        in->pointing_deg[k] = in->has_pointing ? v->pointing_deg[k] : msi_sky_wcs_axes(v->wcs)->crval_deg[k];
    return MSI_OK;
}

/* ---- The beam ---- */

/* Return the power of the sum of two rows of a Jones matrix. Given: turn  factor of i by which the second is
 * multiplied */
static double power_of(const msi_c64 *x, const msi_c64 *y, double turn)
{
    double sum = 0;
    for (int k = 0; k < 2; k++) {
        const double re = x[k].re - turn * y[k].im, im = x[k].im + turn * y[k].re;
        sum += re * re + im * im;
    }
    return sum;
}

static double power(const msi_join_input *in, double x, double y)
{
    msi_c64 j[4];
    const msi_pb_direction d = {.x_rad = x, .y_rad = y};
    msi_pb_model_jones(in->model, 0, in->profile_hz, &d, j);
    switch (in->header.has_pol ? in->header.pol : MSI_POL_I) {
    case MSI_POL_XX:
        return power_of(j, j + 2, 0);
    case MSI_POL_YY:
        return power_of(j + 2, j, 0);
    /* R = (X + i Y) / sqrt(2) */
    case MSI_POL_RR:
        return 0.5 * power_of(j, j + 2, 1);
    case MSI_POL_LL:
        return 0.5 * power_of(j, j + 2, -1);
    default:
        return 0.5 * (power_of(j, j + 2, 0) + power_of(j + 2, j, 0));
    }
}

void msi_join_input_profile(msi_join_input *in, int64_t plane)
{
    enum { TURNS = 16 };
    const double hz = msi_join_input_freq(in, plane);
    if (!in->model) return;
    in->profile_hz = hz;
    in->reach_rad = msi_pb_model_limit(in->model, 0, hz);
    if (in->is_fixed) return;
    in->reach_rad = fmin(in->reach_rad, 2 * msi_pb_model_width(in->model, 0, hz));
    const int n = msi_pb_model_is_scalar(in->model) ? 1 : TURNS;
#pragma omp parallel for schedule(static)
    for (int i = 0; i <= MSI_JOIN_RADII; i++) {
        const double r = in->reach_rad * i / MSI_JOIN_RADII;
        double sum = 0;
        for (int k = 0; k < n; k++) sum += power(in, r * cos(2 * MSI_PI * k / n), r * sin(2 * MSI_PI * k / n));
        in->profile[i] = sum / n;
    }
}

double msi_join_input_response(const msi_join_input *in, const double off[2])
{
    if (!in->model) return 1;
    const double at = hypot(off[0], off[1]) / in->reach_rad * MSI_JOIN_RADII;
    if (!(at < MSI_JOIN_RADII)) return 0;
    if (in->is_fixed) return power(in, off[0], off[1]);
    const int i = (int)at;
    return in->profile[i] + (at - i) * (in->profile[i + 1] - in->profile[i]);
}

/* Return 1 if the feeds are R and L, by the polarisation of the image or by the telescope. */
static int has_circular_feeds(const msi_fits_view *v)
{
    if (v->has_pol && v->pol >= MSI_POL_RR) return v->pol <= MSI_POL_LL;
    return strcasecmp(v->telescope, "VLA") == 0 || strcasecmp(v->telescope, "EVLA") == 0 ||
           strcasecmp(v->telescope, "JVLA") == 0;
}

static int make_model(msi_join_input *in, const msi_join_spec *spec)
{
    const double last = msi_join_input_freq(in, in->n_plane - 1);
    const double diameter_m[1] = {0};
    const char *name[1] = {""};
    char note[MSI_PB_NOTE];
    const msi_pb_set set = {.telescope = in->header.telescope,
                            .low_hz = fmin(in->freq_hz, last),
                            .high_hz = fmax(in->freq_hz, last),
                            .n_antenna = 1,
                            .is_circular = has_circular_feeds(&in->header),
                            .diameter_m = diameter_m,
                            .name = name,
                            .first_s = INFINITY, /* no times: a beam that changes with them is refused below */
                            .last_s = -INFINITY};
    if (strncmp(spec->pb, "lofar", 5) == 0 || strcasecmp(in->header.telescope, "LOFAR") == 0)
        return msi_error_set(MSI_EINPUT,
                             "%s: the beams of LOFAR's stations change with time: give their images by -pb-images",
                             in->path);
    if (msi_pb_file_is_config(spec->pb))
        return msi_error_set(MSI_EUSAGE,
                             "-pb %s: it has beams by the names of antennas, which images do not have: give FILE.fits, "
                             "or images by -pb-images",
                             spec->pb);
    if (!(in->freq_hz > 0) || !(last > 0))
        return msi_error_set(
            MSI_EINPUT, "%s: has no axis FREQ, so its primary beam is unknown: give -pb-images or -pb off", in->path);
    MSI_TRY(msi_pb_model_make(&in->model, spec->pb, &set, note));
    if (msi_pb_model_mount(in->model) == MSI_PB_FIXED)
        return msi_error_set(MSI_EINPUT, "%s: the beam of %s changes with time: give its image by -pb-images", in->path,
                             msi_pb_model_name(in->model));
    in->is_fixed = msi_pb_model_mount(in->model) == MSI_PB_EQUATORIAL && !msi_pb_model_is_scalar(in->model);
    msi_log_detail("%s: %s", in->path, note);
    return msi_alloc(&in->profile, MSI_JOIN_RADII + 1, sizeof *in->profile, "a primary beam");
}

/* Check that the image of the beam has the pixels of the input. */
static int check_pb_image(msi_join_input *in)
{
    msi_fits_view v;
    MSI_TRY(msi_fits_view_read(&v, in->pb_path, -1));
    in->n_pb_plane = v.n_plane;
    const int is_alike =
        v.nx == in->header.nx && v.ny == in->header.ny && v.wcs && (v.n_plane == 1 || v.n_plane == in->n_plane);
    double most = is_alike ? 0 : INFINITY;
    for (int i = 0; i < 4 && is_alike; i++) {
        const double at[2] = {(double)(v.nx / 2 + (i % 2) * v.nx / 4), (double)(v.ny / 2 + (i / 2) * v.ny / 4)};
        double p[2] = {0, 0}, q[2] = {0, 0};
        const int is_here = msi_sky_wcs_pixel_to_sky(in->header.wcs, at, p),
                  is_there = msi_sky_wcs_pixel_to_sky(v.wcs, at, q);
        if (is_here != is_there) most = INFINITY;
        if (!is_here || !is_there) continue;
        most = fmax(most, hypot(remainder(p[0] - q[0], 360) * cos(p[1] * RAD), p[1] - q[1]) * RAD / v.cell_rad);
    }
    const long long n[3] = {(long long)v.nx, (long long)v.ny, (long long)v.n_plane};
    msi_fits_view_free(&v);
    if (!(most < 0.01))
        return msi_error_set(MSI_EINPUT,
                             "%s: the image of a beam must have the pixels of %s, %lld x %lld; it has %lld x %lld in "
                             "%lld plane%s, or different coordinates",
                             in->pb_path, in->path, (long long)in->header.nx, (long long)in->header.ny, n[0], n[1],
                             n[2], msi_plural(n[2]));
    return MSI_OK;
}

/* ---- Inputs ---- */

int msi_join_input_open(msi_join_input *in, const msi_join_spec *spec, int i)
{
    *in = (msi_join_input){.path = spec->file[i]};
    MSI_TRY(msi_fits_view_read(&in->header, in->path, -1));
    MSI_TRY(find_frame(in));
    MSI_TRY(find_planes(in));
    MSI_TRY(find_directions(in));
    find_pixels(in);
    MSI_TRY(find_rms(in, spec, i));
    MSI_TRY(msi_alloc(&in->beam, in->n_plane, sizeof *in->beam, "beams"));
    MSI_TRY(msi_fits_view_beams(in->beam, in->n_plane, in->path));
    if (spec->pb_images) {
        MSI_TRY(find_pb_image(in, spec, i));
        return check_pb_image(in);
    }
    return strcmp(spec->pb, "off") == 0 ? MSI_OK : make_model(in, spec);
}

void msi_join_input_free(msi_join_input *in)
{
    msi_free(in->pb_path);
    msi_free(in->beam);
    msi_free(in->profile);
    msi_pb_model_free(in->model);
    join_map_free(&in->map);
    msi_fits_view_free(&in->header);
    *in = (msi_join_input){0};
}

int msi_join_input_alike(const msi_join_input *in, const msi_join_input *first)
{
    const msi_fits_view *a = &in->header, *b = &first->header;
    if (strcmp(in->frame, first->frame) != 0 || strncmp(a->ctype[0], b->ctype[0], 4) != 0)
        return msi_error_set(MSI_EINPUT, "%s: directions are in %s %s, those of %s in %s %s", in->path, in->frame,
                             a->ctype[0], first->path, first->frame, b->ctype[0]);
    if (strcasecmp(a->unit, b->unit) != 0)
        return msi_error_set(MSI_EINPUT, "%s: the unit is '%s', that of %s is '%s'", in->path, a->unit, first->path,
                             b->unit);
    if (a->has_pol && b->has_pol && a->pol != b->pol)
        return msi_error_set(MSI_EINPUT, "%s: the polarisation is %s, that of %s is %s", in->path, msi_pol_name(a->pol),
                             first->path, msi_pol_name(b->pol));
    if (in->n_plane != first->n_plane)
        return msi_error_set(MSI_EINPUT, "%s: has %lld planes, %s has %lld", in->path, (long long)in->n_plane,
                             first->path, (long long)first->n_plane);
    if (in->n_plane > 1 && a->spec_frame[0] && b->spec_frame[0] && strcmp(a->spec_frame, b->spec_frame) != 0)
        return msi_error_set(MSI_EINPUT, "%s: frequencies are in the frame %s, those of %s in %s", in->path,
                             a->spec_frame, first->path, b->spec_frame);
    for (int k = 0; k < 2; k++) {
        const int64_t plane = k ? in->n_plane - 1 : 0;
        const double p = msi_join_input_freq(in, plane), q = msi_join_input_freq(first, plane);
        const double most = in->n_plane > 1 ? 0.05 * fabs(first->step_hz) : fmax(0.5 * fabs(first->step_hz), 0.01 * q);
        if (p > 0 && q > 0 && fabs(p - q) > most)
            return msi_error_set(MSI_EINPUT, "%s: plane %lld is at %.9g MHz, that of %s at %.9g MHz", in->path,
                                 (long long)plane, 1e-6 * p, first->path, 1e-6 * q);
    }
    return MSI_OK;
}

double msi_join_input_freq(const msi_join_input *in, int64_t plane)
{
    return in->n_plane > 1 ? in->freq_hz + (double)plane * in->step_hz : in->freq_hz;
}

int msi_join_is_per(const msi_join_input *in, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = in->header.unit; *p; p++)
        if (strncasecmp(p, word, n) == 0) return 1;
    return 0;
}
