/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/clean/clean_mask.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "io/fits/fits_image.h"
#include "io/fits/sky_wcs.h"
#include "io/ms/casa_image.h"

/* Positions on the mask are computed at the nodes of a lattice of STEP image pixels and interpolated between them. In a
 * cell whose middle is off by more than NEAR_ENOUGH, the positions of all pixels are computed. */
enum { STEP = 32 };
static const double NEAR_ENOUGH = 0.02; /* pixels of the mask */

/* A plane of the mask in its file. */
typedef struct source {
    const char *path;
    int64_t nx, ny;
    const float *pixel; /* [ny][nx]; NaN or Inf: no value */
    const msi_sky_wcs *wcs;
} source;

/* The resampling of a plane, with counts of bad pixels. */
typedef struct resampling {
    const source *from;
    const msi_sky_wcs *to;
    const msi_image_geometry *geometry;
    uint8_t *mask;
    uint16_t *scales;              /* scales of the image's pixels instead of mask; NULL: not wanted */
    int64_t n_beyond, n_unknown;   /* image pixels outside the mask; mask pixels without a value, or a wrong one */
    int64_t beyond[2], unknown[2]; /* the first pixel of each kind */
} resampling;

/* A position on the mask, in pixels; NaN if the image pixel is not on the sky. */
typedef struct place {
    double x, y;
    int on_sky;
} place;

static place find_place(const resampling *f, double x, double y)
{
    double sky[2], at[2];
    const double pixel[2] = {x, y};
    place p = {NAN, NAN, msi_sky_wcs_pixel_to_sky(f->to, pixel, sky)};
    if (!p.on_sky || !msi_sky_wcs_sky_to_pixel(f->from->wcs, sky, at)) return p;
    p.x = at[0];
    p.y = at[1];
    return p;
}

/* Count a bad pixel, and store the position of the first one. */
static void count_pixel(int64_t *n, int64_t first[2], int64_t x, int64_t y)
{
    if ((*n)++) return;
    first[0] = x;
    first[1] = y;
}

static void set_pixel(resampling *f, int64_t x, int64_t y, const place *p)
{
    const source *s = f->from;
    if (!p->on_sky) return;
    const double px = floor(p->x + 0.5), py = floor(p->y + 0.5);
    if (!(px >= 0 && px < (double)s->nx && py >= 0 && py < (double)s->ny)) {
        count_pixel(&f->n_beyond, f->beyond, x, y);
        return;
    }
    const float value = s->pixel[(int64_t)py * s->nx + (int64_t)px];
    const int is_bits = value >= 0 && value <= UINT16_MAX && value == floorf(value);
    if (!isfinite(value) || (f->scales && !is_bits)) count_pixel(&f->n_unknown, f->unknown, x, y);
    if (f->scales)
        f->scales[y * f->geometry->nx + x] = is_bits ? (uint16_t)value : 0;
    else
        f->mask[y * f->geometry->nx + x] = value != 0;
}

/* Interpolate between the corners of a cell. Given: fx, fy  0 to 1 */
static place interpolate(const place corner[4], double fx, double fy)
{
    const double a = (1 - fx) * (1 - fy), b = fx * (1 - fy), c = (1 - fx) * fy, d = fx * fy;
    return (place){a * corner[0].x + b * corner[1].x + c * corner[2].x + d * corner[3].x,
                   a * corner[0].y + b * corner[1].y + c * corner[2].y + d * corner[3].y, 1};
}

/* Set the pixels of a cell of the lattice. Given: corner  positions of its corners */
static void fill_cell(resampling *f, int64_t x0, int64_t y0, const place corner[4])
{
    const place guess = interpolate(corner, 0.5, 0.5),
                middle = find_place(f, (double)x0 + 0.5 * STEP, (double)y0 + 0.5 * STEP);
    const int flat = corner[0].on_sky && corner[1].on_sky && corner[2].on_sky && corner[3].on_sky && middle.on_sky &&
                     hypot(guess.x - middle.x, guess.y - middle.y) < NEAR_ENOUGH;
    for (int64_t y = y0; y < y0 + STEP && y < f->geometry->ny; y++)
        for (int64_t x = x0; x < x0 + STEP && x < f->geometry->nx; x++) {
            const place p = flat ? interpolate(corner, (double)(x - x0) / STEP, (double)(y - y0) / STEP)
                                 : find_place(f, (double)x, (double)y);
            set_pixel(f, x, y, &p);
        }
}

static int resample_plane(resampling *f)
{
    const int64_t n = (f->geometry->nx + STEP - 1) / STEP + 1;
    place *row[2];
    MSI_TRY(msi_alloc(&row[0], 2 * n, sizeof *row[0], "a mask"));
    row[1] = row[0] + n;
    place *all = row[0];
    int rc = MSI_OK;
    for (int64_t i = 0; i < n; i++) row[0][i] = find_place(f, (double)(i * STEP), 0);
    for (int64_t y = 0; y < f->geometry->ny && !rc; y += STEP) {
        for (int64_t i = 0; i < n; i++) row[1][i] = find_place(f, (double)(i * STEP), (double)(y + STEP));
        for (int64_t i = 0; i + 1 < n; i++) {
            const place corner[4] = {row[0][i], row[0][i + 1], row[1][i], row[1][i + 1]};
            fill_cell(f, i * STEP, y, corner);
        }
        place *last = row[0];
        row[0] = row[1];
        row[1] = last;
        rc = msi_interrupt_check();
    }
    msi_free(all);
    return rc;
}

/* FK5 and ICRS differ by some hundredths of an arcsecond, less than the accuracy of any mask. */
static int is_j2000(const char *frame)
{
    return !frame[0] || strcasecmp(frame, "J2000") == 0 || strcasecmp(frame, "ICRS") == 0;
}

static int check_frame(const source *s, const msi_sky_wcs *to)
{
    const msi_sky_axes *a = msi_sky_wcs_axes(s->wcs), *b = msi_sky_wcs_axes(to);
    const int same_axes = strncmp(a->ctype[0], b->ctype[0], 4) == 0;
    if (same_axes &&
        (!b->is_equatorial || strcasecmp(a->frame, b->frame) == 0 || (is_j2000(a->frame) && is_j2000(b->frame))))
        return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: the coordinates of the mask are %.4s %s, but those of the image are %.4s %s",
                         s->path, a->ctype[0], a->frame, b->ctype[0], b->frame);
}

static int check_pixels(const resampling *f)
{
    const int64_t n = msi_image_n_pixel(f->geometry);
    if (f->n_beyond)
        return msi_error_set(
            MSI_EINPUT,
            "%s: the mask of %lld x %lld pixels does not cover the image of %lld x %lld: %lld image "
            "pixels (%.3g %%) are outside the mask, for example %lld, %lld; make a mask that covers the image",
            f->from->path, (long long)f->from->nx, (long long)f->from->ny, (long long)f->geometry->nx,
            (long long)f->geometry->ny, (long long)f->n_beyond, 100 * (double)f->n_beyond / (double)n,
            (long long)f->beyond[0], (long long)f->beyond[1]);
    if (f->n_unknown && f->scales)
        return msi_error_set(MSI_EINPUT,
                             "%s: %lld image pixels, for example %lld, %lld, have a value that is not a sum of bits; "
                             "every pixel of a mask of scales must be a whole number from 0 to 65535",
                             f->from->path, (long long)f->n_unknown, (long long)f->unknown[0],
                             (long long)f->unknown[1]);
    if (f->n_unknown)
        return msi_error_set(MSI_EINPUT,
                             "%s: the mask has no value at %lld image pixels, for example %lld, %lld; every pixel of a "
                             "mask must be a number",
                             f->from->path, (long long)f->n_unknown, (long long)f->unknown[0],
                             (long long)f->unknown[1]);
    return MSI_OK;
}

/* Resample a plane of the mask to the pixels of the image. Returned: mask or scales */
static int resample(const source *s, const msi_mask_target *t, uint8_t *mask, uint16_t *scales)
{
    msi_sky_wcs *to;
    MSI_TRY(msi_sky_wcs_create(&to, t->geometry, t->ra_rad, t->dec_rad, t->frame, 0));
    resampling f = {.from = s, .to = to, .geometry = t->geometry, .mask = mask, .scales = scales};
    int rc = check_frame(s, to);
    if (!rc) rc = resample_plane(&f);
    if (!rc) rc = check_pixels(&f);
    msi_sky_wcs_free(to);
    return rc;
}

static int read_plane(msi_clean_mask *mask, int plane, const source *s, const msi_mask_target *t)
{
    return resample(s, t, mask->pixel + plane * mask->nx * mask->ny, NULL);
}

static int alloc_mask(msi_clean_mask *mask, const char *path, int64_t n_plane, const msi_mask_target *t)
{
    if (n_plane != 1 && n_plane != t->n_channel)
        return msi_error_set(MSI_EINPUT,
                             "%s: the mask has %lld planes; it must have 1, or one for each of %lld output channels",
                             path, (long long)n_plane, (long long)t->n_channel);
    mask->nx = t->geometry->nx;
    mask->ny = t->geometry->ny;
    mask->n_plane = (int)n_plane;
    return msi_alloc(&mask->pixel, n_plane * mask->nx * mask->ny, 1, "a mask");
}

static int check_on_sky(const msi_fits_view *view, const char *path)
{
    if (view->wcs) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: the first two axes, %s and %s, are not sky coordinates, which a mask needs",
                         path, view->ctype[0], view->ctype[1]);
}

static int read_fits_plane(msi_clean_mask *mask, const char *path, int plane, const msi_mask_target *t,
                           int64_t *n_plane)
{
    msi_fits_view view;
    MSI_TRY(msi_fits_view_read(&view, path, plane));
    int rc = check_on_sky(&view, path);
    *n_plane = view.n_plane;
    if (!rc && plane == 0) rc = alloc_mask(mask, path, view.n_plane, t);
    const source s = {path, view.nx, view.ny, view.pixel, view.wcs};
    if (!rc) rc = read_plane(mask, plane, &s, t);
    msi_fits_view_free(&view);
    return rc;
}

int msi_clean_mask_fits(msi_clean_mask *mask, const char *path, const msi_mask_target *target)
{
    int64_t n_plane = 1;
    int rc = MSI_OK;
    *mask = (msi_clean_mask){0};
    for (int64_t i = 0; i < n_plane && !rc; i++) rc = read_fits_plane(mask, path, (int)i, target, &n_plane);
    if (rc) msi_clean_mask_free(mask);
    return rc;
}

int msi_clean_mask_scales(uint16_t **scales, const char *path, const msi_mask_target *t)
{
    const int64_t n = msi_image_n_pixel(t->geometry);
    msi_fits_view view;
    int any = 0;
    *scales = NULL;
    MSI_TRY(msi_fits_view_read(&view, path, 0));
    int rc = check_on_sky(&view, path);
    if (!rc && view.n_plane != 1)
        rc = msi_error_set(MSI_EINPUT, "%s: a mask of scales must have one plane, not %lld", path,
                           (long long)view.n_plane);
    if (!rc) rc = msi_alloc(scales, n, sizeof **scales, "a mask");
    const source s = {path, view.nx, view.ny, view.pixel, view.wcs};
    if (!rc) rc = resample(&s, t, NULL, *scales);
    msi_fits_view_free(&view);
    for (int64_t i = 0; !rc && i < n; i++) any |= (*scales)[i];
    if (!rc && !any)
        rc = msi_error_set(MSI_EINPUT,
                           "%s: the mask is 0 everywhere in the image, so nothing would be cleaned; give another mask",
                           path);
    if (!rc) return MSI_OK;
    msi_free(*scales);
    *scales = NULL;
    return rc;
}

/* ---- CASA's masks ---- */

/* Write coordinates as the cards of a FITS header. */
static int make_cards(const msi_casa_image *image, const char *path, msi_sky_cards *c)
{
    static const struct {
        const char *system, *lng, *lat, *radesys;
        double equinox;
    } known[] = {{"J2000", "RA--", "DEC-", "FK5", 2000},
                 {"ICRS", "RA--", "DEC-", "ICRS", 2000},
                 {"B1950", "RA--", "DEC-", "FK4", 1950},
                 {"GALACTIC", "GLON", "GLAT", "", 0}};
    const int n = sizeof known / sizeof *known;
    int k = 0;
    while (k < n && strcasecmp(known[k].system, image->system) != 0) k++;
    if (k == n || strlen(image->projection) != 3)
        return msi_error_set(MSI_EINPUT, "%s: the coordinates of the mask, %s %s, are not supported", path,
                             image->system, image->projection);
    *c = (msi_sky_cards){.lonpole_deg = image->lonpole_deg, .latpole_deg = image->latpole_deg};
    snprintf(c->ctype[0], sizeof c->ctype[0], "%s-%.3s", known[k].lng, image->projection);
    snprintf(c->ctype[1], sizeof c->ctype[1], "%s-%.3s", known[k].lat, image->projection);
    snprintf(c->radesys, sizeof c->radesys, "%s", known[k].radesys);
    c->equinox = known[k].equinox;
    memcpy(c->crval_deg, image->crval_deg, sizeof c->crval_deg);
    memcpy(c->cdelt_deg, image->cdelt_deg, sizeof c->cdelt_deg);
    memcpy(c->pc, image->pc, sizeof c->pc);
    for (int i = 0; i < 2; i++) c->crpix[i] = image->crpix[i] + 1;
    for (int i = 0; i < image->n_parameter; i++) {
        if (image->parameter[i] == 0) continue;
        c->pv[c->n_pv].axis = 2;
        c->pv[c->n_pv].m = i + 1;
        c->pv[c->n_pv++].value = image->parameter[i];
    }
    return MSI_OK;
}

static int read_casa_planes(msi_clean_mask *mask, const char *path, const msi_casa_image *image,
                            const msi_mask_target *t)
{
    msi_sky_cards cards;
    msi_sky_wcs *wcs;
    MSI_TRY(make_cards(image, path, &cards));
    MSI_TRY(msi_sky_wcs_from_cards(&wcs, &cards));
    if (!wcs) return msi_error_set(MSI_EINPUT, "%s: the coordinates of the mask are not on the sky", path);
    int rc = alloc_mask(mask, path, image->n_plane, t);
    for (int64_t i = 0; !rc && i < image->n_plane; i++) {
        const source s = {path, image->nx, image->ny, image->pixel + i * image->nx * image->ny, wcs};
        rc = read_plane(mask, (int)i, &s, t);
    }
    msi_sky_wcs_free(wcs);
    return rc;
}

int msi_clean_mask_casa(msi_clean_mask *mask, const char *path, const msi_mask_target *target)
{
    msi_casa_image image;
    *mask = (msi_clean_mask){0};
    MSI_TRY(msi_casa_image_read(&image, path));
    const int rc = read_casa_planes(mask, path, &image, target);
    msi_casa_image_free(&image);
    if (rc) msi_clean_mask_free(mask);
    return rc;
}

/* ---- Masks of any kind, and of the horizon ---- */

int msi_clean_mask_any(msi_clean_mask *mask, const char *path, const msi_mask_target *target)
{
    struct stat st;
    char head[6] = "";
    *mask = (msi_clean_mask){0};
    FILE *f = NULL;
    const int is_there = stat(path, &st) == 0;
    if (is_there && S_ISDIR(st.st_mode)) return msi_clean_mask_casa(mask, path, target);
    if (is_there && S_ISREG(st.st_mode)) MSI_TRY(msi_text_file_open(&f, path));
    const int is_fits = f && fread(head, 1, sizeof head, f) == sizeof head && memcmp(head, "SIMPLE", sizeof head) == 0;
    /* A compressed FITS file is refused with the reason. */
    const int is_packed = (unsigned char)head[0] == 0x1f && (unsigned char)head[1] == 0x8b;
    if (f) fclose(f);
    return is_fits || is_packed ? msi_clean_mask_fits(mask, path, target) : msi_clean_mask_region(mask, path, target);
}

int msi_clean_mask_horizon(msi_clean_mask *mask, double angle_rad, const msi_mask_target *t)
{
    const msi_image_geometry *g = t->geometry;
    const double from_centre = fmax(MSI_PI / 2 - angle_rad, 0);
    const double radius = angle_rad < 0 ? 1 - angle_rad : sin(from_centre);
    if (!mask->pixel) {
        *mask = (msi_clean_mask){.nx = g->nx, .ny = g->ny, .n_plane = 1};
        MSI_TRY(msi_alloc(&mask->pixel, g->nx * g->ny, 1, "a mask"));
        memset(mask->pixel, 1, (size_t)(g->nx * g->ny));
    }
    for (int64_t y = 0; y < g->ny; y++)
        for (int64_t x = 0; x < g->nx; x++) {
            const double l = (double)(g->nx / 2 - x) * g->cell_x_rad, m = (double)(y - g->ny / 2) * g->cell_y_rad;
            const int is_above = l * l + m * m < radius * radius;
            for (int64_t i = 0; !is_above && i < mask->n_plane; i++) mask->pixel[(i * g->ny + y) * g->nx + x] = 0;
        }
    return MSI_OK;
}

const uint8_t *msi_clean_mask_plane(const msi_clean_mask *mask, int64_t channel)
{
    return mask->pixel ? mask->pixel + (mask->n_plane > 1 ? channel : 0) * mask->nx * mask->ny : NULL;
}

double msi_clean_mask_fraction(const msi_clean_mask *mask, int64_t channel)
{
    const uint8_t *pixel = msi_clean_mask_plane(mask, channel);
    const int64_t n = mask->nx * mask->ny;
    int64_t sum = 0;
    for (int64_t i = 0; i < n && pixel; i++) sum += pixel[i];
    return pixel ? (double)sum / (double)n : 1;
}

void msi_clean_mask_free(msi_clean_mask *mask)
{
    if (!mask) return;
    msi_free(mask->pixel);
    *mask = (msi_clean_mask){0};
}
