/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/join/join_input.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "src/pb/pb_file.h"

static const double RAD = MSI_PI / 180;

/* ---- Lists on the command line ---- */

/* Copy word i of a list that is separated by commas. Returned: *out  owned; NULL past the last */
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
        rc =
            msi_error_set(MSI_EUSAGE, "-rms %s: the unit of %s is '%s'; give a number without a unit, which is in that",
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

/* Find the pixels at the reference position. */
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

/* Find the position of the middle of the image, and of the pointing: that of the header, or the reference position. */
static int find_directions(msi_join_input *in)
{
    const msi_fits_view *v = &in->header;
    const double middle[2] = {(double)(v->nx / 2), (double)(v->ny / 2)};
    if (!msi_sky_wcs_pixel_to_sky(v->wcs, middle, in->centre_deg))
        return msi_error_set(MSI_EINPUT, "%s: its middle is not on the sky", in->path);
    /* The cards are right ascension and declination. */
    in->has_pointing =
        msi_sky_wcs_axes(v->wcs)->is_equatorial && isfinite(v->pointing_deg[0]) && fabs(v->pointing_deg[1]) <= 90;
    for (int k = 0; k < 2; k++)
        in->pointing_deg[k] = in->has_pointing ? v->pointing_deg[k] : msi_sky_wcs_axes(v->wcs)->crval_deg[k];
    return MSI_OK;
}

/* ---- The beam ---- */

/* Return the power of a row of a Jones matrix, or of a sum of two. Given: turn  of the second: 1 is by i */
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

/* Return whether feeds are R and L: those of the image, or of the telescope. */
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
                             "%lld plane%s, or others on the sky",
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
    msi_join_map_free(&in->map);
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
