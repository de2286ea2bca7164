/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/facets/aterms.h"

#include <complex.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/fits/fits_screen.h"
#include "src/facets/aterm_config.h"
#include "src/pb/pb_mean.h"
#include "src/sky/phase_shift.h"

/* Phase of a total electron content of 1 TECU, times the frequency. */
#define TEC_RAD_HZ (-8.44797245e9)

/* Positions at which a screen is looked up for a value and its slopes. */
enum { HERE, EAST, WEST, NORTH, SOUTH, N_PLACE };

/* A time of a term. */
typedef struct time_step {
    double time_s;
    int screen; /* number among all screens */
    int64_t index;
} time_step;

typedef struct aterm {
    msi_aterm_kind kind;
    int first, n_screen;
    int64_t n_step;
    time_step *step; /* [n_step] ascending */
} aterm;

struct msi_aterms {
    msi_aterm_config config;
    int n, n_screen;
    aterm term[MSI_ATERM_MOST];
    msi_fits_screen *screen; /* [n_screen] */
    const char **path;       /* [n_screen] */
};

/* ---- Open ---- */

/* The planes that a screen of a kind has along MATRIX. */
static const int n_matrix_of[] = {[MSI_ATERM_TEC] = 1, [MSI_ATERM_DLDM] = 2, [MSI_ATERM_DIAGONAL] = 4};

static int check_screen(const msi_aterms *a, const aterm *t, int i)
{
    const msi_fits_screen *s = &a->screen[i], *first = &a->screen[t->first];
    if (s->n_matrix != n_matrix_of[t->kind])
        return msi_error_set(MSI_EINPUT, "%s: its axis MATRIX has %lld planes; this kind of screen has %d", a->path[i],
                             (long long)s->n_matrix, n_matrix_of[t->kind]);
    if (t->kind != MSI_ATERM_DIAGONAL && s->n_freq != 1)
        return msi_error_set(MSI_EINPUT, "%s: has %lld frequencies; a screen of this kind has one", a->path[i],
                             (long long)s->n_freq);
    if (t->kind == MSI_ATERM_DLDM && s->n_antenna != 1)
        return msi_error_set(MSI_EINPUT, "%s: has %lld antennas; shifts of sources are the same for all", a->path[i],
                             (long long)s->n_antenna);
    if (s->n_antenna != first->n_antenna || s->n_freq != first->n_freq)
        return msi_error_set(MSI_EINPUT, "%s: has other numbers of antennas or frequencies than %s", a->path[i],
                             a->path[t->first]);
    if (s->n_freq > 1 && s->freq_step_hz == 0)
        return msi_error_set(MSI_EINPUT, "%s: its axis FREQ has a step of 0", a->path[i]);
    return MSI_OK;
}

static int by_time(const void *x, const void *y)
{
    const time_step *a = x, *b = y;
    return a->time_s < b->time_s ? -1 : a->time_s > b->time_s ? 1 : a->screen - b->screen;
}

static int list_times(const msi_aterms *a, aterm *t)
{
    int64_t n = 0;
    for (int i = t->first; i < t->first + t->n_screen; i++) n += a->screen[i].n_time;
    MSI_TRY(msi_alloc(&t->step, n, sizeof *t->step, "times of screens"));
    for (int i = t->first; i < t->first + t->n_screen; i++)
        for (int64_t k = 0; k < a->screen[i].n_time; k++)
            t->step[t->n_step++] = (time_step){a->screen[i].time_s + (double)k * a->screen[i].time_step_s, i, k};
    qsort(t->step, (size_t)n, sizeof *t->step, by_time);
    for (int64_t k = 1; k < n; k++)
        if (t->step[k].screen != t->step[k - 1].screen && t->step[k].index > 0)
            return msi_error_set(MSI_EINPUT, "%s and %s: their times overlap; give each time once",
                                 a->path[t->step[k - 1].screen], a->path[t->step[k].screen]);
    return MSI_OK;
}

static int read_screens(msi_aterms *a)
{
    for (int i = 0; i < a->config.n; i++) a->n_screen += a->config.term[i].n_image;
    MSI_TRY(msi_alloc(&a->screen, a->n_screen, sizeof *a->screen, "screens"));
    MSI_TRY(msi_alloc(&a->path, a->n_screen, sizeof *a->path, "screens"));
    int at = 0;
    for (int i = 0; i < a->config.n; i++) {
        const msi_aterm *from = &a->config.term[i];
        if (from->kind == MSI_ATERM_BEAM) continue;
        aterm *t = &a->term[a->n++];
        *t = (aterm){.kind = from->kind, .first = at, .n_screen = from->n_image};
        for (int k = 0; k < from->n_image; k++, at++) {
            a->path[at] = from->image[k];
            MSI_TRY(msi_fits_screen_read(&a->screen[at], a->path[at]));
            MSI_TRY(check_screen(a, t, at));
        }
        MSI_TRY(list_times(a, t));
    }
    return MSI_OK;
}

int msi_aterms_open(msi_aterms **out, const char *path)
{
    MSI_TRY(msi_alloc(out, 1, sizeof **out, "a-terms"));
    int rc = msi_aterm_config_read(&(*out)->config, path);
    if (!rc) rc = read_screens(*out);
    if (!rc) return MSI_OK;
    msi_aterms_free(*out);
    *out = NULL;
    return rc;
}

void msi_aterms_free(msi_aterms *a)
{
    if (!a) return;
    for (int i = 0; i < a->n; i++) msi_free(a->term[i].step);
    for (int i = 0; a->screen && i < a->n_screen; i++) msi_fits_screen_free(&a->screen[i]);
    msi_free(a->screen);
    msi_free(a->path);
    msi_aterm_config_free(&a->config);
    msi_free(a);
}

int msi_aterms_is_diagonal(const msi_aterms *a)
{
    for (int i = 0; i < a->n; i++)
        if (a->term[i].kind == MSI_ATERM_DIAGONAL) return 1;
    return 0;
}

double msi_aterms_beam_update(const msi_aterms *a)
{
    return a->config.beam_update_s;
}

int msi_aterms_check(const msi_aterms *a, const msi_ms_reader *reader, int set)
{
    const msi_observation *o = msi_ms_reader_observation(reader);
    int64_t n;
    (void)msi_ms_reader_antenna_names(reader, set, &n);
    for (int i = 0; i < a->n; i++) {
        const aterm *t = &a->term[i];
        const int64_t n_antenna = a->screen[t->first].n_antenna;
        if (n_antenna != 1 && n_antenna != n)
            return msi_error_set(MSI_EINPUT, "%s: has %lld antennas, the set %lld; give screens of this set",
                                 a->path[t->first], (long long)n_antenna, (long long)n);
        const double first = t->step[0].time_s, last = t->step[t->n_step - 1].time_s,
                     around = t->n_step > 1 ? (last - first) / (double)(t->n_step - 1) : INFINITY;
        if (o->start_mjd_s < first - around || o->end_mjd_s > last + around)
            msi_log_warning(
                "%s: its times are MJD %.4f to %.4f, those of the set %.4f to %.4f; the nearest screens are "
                "used",
                a->path[t->first], first / 86400, last / 86400, o->start_mjd_s / 86400, o->end_mjd_s / 86400);
    }
    return MSI_OK;
}

/* ---- Directions ---- */

/* Return the pixel of a direction in a screen. Given: axes  of the image's l, m, n and of the screen's */
static void find_pixel(const msi_fits_screen *s, double axes[3][3], double of_screen[3][3], const double lm[2],
                       double pixel[2])
{
    const double shrink = fmin(1, 1 / hypot(lm[0], lm[1])), l = lm[0] * shrink, m = lm[1] * shrink;
    const double lmn[3] = {l, m, sqrt(fmax(0, 1 - l * l - m * m))};
    for (int k = 0; k < 2; k++) {
        double sum = 0;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++) sum += lmn[i] * axes[i][j] * of_screen[k][j];
        pixel[k] = fmin(fmax(s->centre[k] + sum / s->step_rad[k], 0), (double)((k ? s->ny : s->nx) - 1));
    }
}

int msi_aterms_look(const msi_aterms *a, const double centre[2], int64_t n, const double (*lm)[2], double reach,
                    msi_aterm_view *view)
{
    static const double side[N_PLACE][2] = {[EAST] = {1, 0}, [WEST] = {-1, 0}, [NORTH] = {0, 1}, [SOUTH] = {0, -1}};
    double axes[3][3], of_screen[3][3];
    *view = (msi_aterm_view){.n = n, .reach = reach};
    MSI_TRY(msi_alloc(&view->lm, n, sizeof *view->lm, "directions of screens"));
    const int rc = msi_alloc(&view->pixel, n * N_PLACE * a->n_screen, sizeof *view->pixel, "directions of screens");
    if (rc) {
        msi_aterm_view_free(view);
        return rc;
    }
    memcpy(view->lm, lm, sizeof *lm * (size_t)n);
    msi_phase_shift_axes(centre[0], centre[1], axes);
    for (int s = 0; s < a->n_screen; s++) {
        msi_phase_shift_axes(a->screen[s].ra_rad, a->screen[s].dec_rad, of_screen);
        for (int64_t i = 0; i < n; i++)
            for (int k = 0; k < N_PLACE; k++) {
                const double at[2] = {lm[i][0] + reach * side[k][0], lm[i][1] + reach * side[k][1]};
                find_pixel(&a->screen[s], axes, of_screen, at, view->pixel[(i * N_PLACE + k) * a->n_screen + s]);
            }
    }
    return MSI_OK;
}

void msi_aterm_view_free(msi_aterm_view *view)
{
    msi_free(view->lm);
    msi_free(view->pixel);
    *view = (msi_aterm_view){0};
}

/* ---- Values ---- */

/* Choose four pixels around a position, and their weights. */
static int64_t four_around(double x, int64_t n, double w[4])
{
    int64_t first = (int64_t)floor(x) - 1;
    first = first < 0 ? 0 : first > n - 4 ? n - 4 : first;
    msi_pb_cubic(x - (double)(first + 1), w);
    return first;
}

static double value_at(const msi_fits_screen *s, int64_t plane, const double at[2])
{
    double wx[4], wy[4], sum = 0;
    const int64_t x = four_around(at[0], s->nx, wx), y = four_around(at[1], s->ny, wy);
    const float *row = s->pixel + (plane * s->ny + y) * s->nx + x;
    for (int i = 0; i < 4; i++, row += s->nx)
        sum +=
            wy[i] * (wx[0] * (double)row[0] + wx[1] * (double)row[1] + wx[2] * (double)row[2] + wx[3] * (double)row[3]);
    return sum;
}

static const time_step *step_at(const aterm *t, double time_s)
{
    int64_t low = 0, high = t->n_step - 1;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        *(t->step[middle].time_s <= time_s ? &low : &high) = middle;
    }
    return fabs(t->step[high].time_s - time_s) < fabs(t->step[low].time_s - time_s) ? &t->step[high] : &t->step[low];
}

/* A screen at a direction and time. */
typedef struct lookup {
    const msi_fits_screen *screen;
    const double (*pixel)[2]; /* place k is at k * stride */
    int stride;
    int64_t time;
    double reach;
} lookup;

static lookup look_up(const msi_aterms *a, const msi_aterm_view *v, int64_t point, const aterm *t, double time_s)
{
    const time_step *step = step_at(t, time_s);
    return (lookup){.screen = &a->screen[step->screen],
                    .pixel = (const double(*)[2])v->pixel + point * N_PLACE * a->n_screen + step->screen,
                    .stride = a->n_screen,
                    .time = step->index,
                    .reach = v->reach};
}

/* Compute a value and its change by l and by m. */
static void values_of(const lookup *u, int64_t freq, int64_t antenna, int matrix, double out[3])
{
    const msi_fits_screen *s = u->screen;
    const int64_t ant = s->n_antenna > 1 ? antenna : 0,
                  plane = ((u->time * s->n_freq + freq) * s->n_antenna + ant) * s->n_matrix + matrix;
    double v[N_PLACE];
    for (int k = 0; k < N_PLACE; k++) v[k] = value_at(s, plane, u->pixel[k * u->stride]);
    out[0] = v[HERE];
    out[1] = (v[EAST] - v[WEST]) / (2 * u->reach);
    out[2] = (v[NORTH] - v[SOUTH]) / (2 * u->reach);
}

static int64_t nearest_plane(const msi_fits_screen *s, double freq_hz)
{
    if (s->n_freq == 1) return 0;
    return (int64_t)fmin(fmax(round((freq_hz - s->freq_hz) / s->freq_step_hz), 0), (double)(s->n_freq - 1));
}

/* Multiply a matrix by the gains of feeds. */
static void multiply(msi_c64 *jones, int form, const double complex gain[2])
{
    for (int e = 0; e < form; e++) {
        const double complex g = (jones[e].re + jones[e].im * I) * gain[form == 4 ? e / 2 : e];
        jones[e] = (msi_c64){creal(g), cimag(g)};
    }
}

/* Compute the gains of feeds of an antenna. Returned: slope  of the mean phase */
static void diagonal_gains(const lookup *u, int64_t freq, int64_t antenna, double complex gain[2], double slope[2])
{
    double turn[2] = {0}, power = 0;
    for (int feed = 0; feed < 2; feed++) {
        double re[3], im[3];
        values_of(u, freq, antenna, 2 * feed, re);
        values_of(u, freq, antenna, 2 * feed + 1, im);
        gain[feed] = re[0] + im[0] * I;
        power += re[0] * re[0] + im[0] * im[0];
        for (int k = 0; k < 2; k++) turn[k] += re[0] * im[k + 1] - im[0] * re[k + 1];
    }
    for (int k = 0; k < 2; k++) slope[k] = power > 0 ? turn[k] / power : 0;
}

void msi_aterms_gains(const msi_aterms *a, const msi_aterm_view *view, int64_t point, double time_s, int64_t n_antenna,
                      int32_t n_chan, const double *freq_hz, int form, msi_c64 *jones, double (*slope)[2])
{
    memset(slope, 0, sizeof *slope * (size_t)(n_antenna * n_chan));
    for (int i = 0; i < a->n; i++) {
        const aterm *t = &a->term[i];
        const lookup u = look_up(a, view, point, t, time_s);
        for (int64_t antenna = 0; t->kind != MSI_ATERM_DLDM && antenna < n_antenna; antenna++) {
            double tec[3], by_lm[2] = {0};
            double complex gain[2];
            int64_t plane = -1;
            if (t->kind == MSI_ATERM_TEC) values_of(&u, 0, antenna, 0, tec);
            for (int32_t c = 0; c < n_chan; c++) {
                const int64_t at = antenna * n_chan + c, want = nearest_plane(u.screen, freq_hz[c]);
                if (t->kind == MSI_ATERM_TEC) {
                    const double rad = TEC_RAD_HZ / freq_hz[c];
                    gain[0] = gain[1] = cexp(I * rad * tec[0]);
                    for (int k = 0; k < 2; k++) by_lm[k] = rad * tec[k + 1];
                } else if (want != plane) {
                    diagonal_gains(&u, want, antenna, gain, by_lm);
                    plane = want;
                }
                multiply(jones + at * form, form, gain);
                for (int k = 0; k < 2; k++) slope[at][k] += by_lm[k];
            }
        }
    }
}

void msi_aterms_shift(const msi_aterms *a, const msi_aterm_view *view, int64_t point, double time_s, double shift[3][3])
{
    memset(shift, 0, 9 * sizeof(double));
    for (int i = 0; i < a->n; i++) {
        double by[2][3];
        if (a->term[i].kind != MSI_ATERM_DLDM) continue;
        const lookup u = look_up(a, view, point, &a->term[i], time_s);
        for (int k = 0; k < 2; k++) {
            values_of(&u, 0, 0, k, by[k]);
            for (int j = 0; j < 3; j++) shift[j][k] += by[k][j];
        }
    }
    /* The third coordinate follows from the first two: n = sqrt(1 - l^2 - m^2). */
    const double l = view->lm[point][0], m = view->lm[point][1], x = l + shift[0][0], y = m + shift[0][1];
    const double n0 = sqrt(fmax(1e-12, 1 - l * l - m * m)), n1 = sqrt(fmax(1e-12, 1 - x * x - y * y));
    if (shift[0][0] == 0 && shift[0][1] == 0) return;
    shift[0][2] = n1 - n0;
    shift[1][2] = -(x * (1 + shift[1][0]) + y * shift[1][1]) / n1 + l / n0;
    shift[2][2] = -(x * shift[2][0] + y * (1 + shift[2][1])) / n1 + m / n0;
}
