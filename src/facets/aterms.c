/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/facets/aterms.h"

#include <complex.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/fits/fits_image.h"
#include "src/pb/pb_file.h"
#include "src/pb/pb_mean.h"
#include "src/sky/phase_shift.h"

/* ---- The file of a-terms ---- */

enum { MOST_BYTES = 1 << 20, MOST_KEYS = 256 };

/* A line of the file. */
typedef struct entry {
    char *key, *value;
    int is_used;
} entry;

typedef struct parser {
    const char *path;
    int n;
    entry entry[MOST_KEYS];
} parser;

static int load_config(const char *path, char **text)
{
    int64_t n;
    MSI_TRY(msi_text_file_read(text, &n, path, "a configuration of a-terms"));
    if (n > MOST_BYTES)
        return msi_error_set(MSI_EINPUT, "%s: longer than %d bytes; it is no configuration of a-terms", path,
                             MOST_BYTES);
    if (memchr(*text, 0, (size_t)n))
        return msi_error_set(MSI_EINPUT, "%s: has bytes of 0; it is no configuration of a-terms", path);
    return MSI_OK;
}

static char *trim(char *s)
{
    while (isspace((unsigned char)*s)) s++;
    for (size_t n = strlen(s); n && isspace((unsigned char)s[n - 1]); n--) s[n - 1] = 0;
    return s;
}

/* Replace comments, and line breaks inside of lists, by blanks. Text between quotes is left as it is. */
static void join_lines(char *text)
{
    int depth = 0, is_comment = 0;
    char quote = 0;
    for (char *c = text; *c; c++) {
        if (*c == '\n') {
            is_comment = quote = 0;
            if (depth) *c = ' ';
        } else if (quote) {
            if (*c == quote) quote = 0;
        } else if (is_comment || *c == '#') {
            is_comment = 1;
            *c = ' ';
        } else if (*c == '"' || *c == '\'') {
            quote = *c;
        } else {
            depth += (*c == '[') - (*c == ']');
        }
    }
}

static int split_lines(parser *p, char *text)
{
    int number = 0;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        number++;
        line = trim(line);
        if (!*line) continue;
        char *equals = strchr(line, '=');
        if (!equals) return msi_error_set(MSI_EINPUT, "%s, line %d: '%.40s' is not KEY = VALUE", p->path, number, line);
        if (p->n == MOST_KEYS) return msi_error_set(MSI_EINPUT, "%s: more than %d keys", p->path, MOST_KEYS);
        *equals = 0;
        p->entry[p->n++] = (entry){trim(line), trim(equals + 1), 0};
    }
    return MSI_OK;
}

/* Return the value of NAME.KEY, or of KEY; NULL without it. */
static char *find(parser *p, const char *name, const char *key)
{
    const size_t n = strlen(name);
    for (int i = p->n - 1; i >= 0; i--) {
        entry *e = &p->entry[i];
        if (n ? strncmp(e->key, name, n) != 0 || e->key[n] != '.' || strcmp(e->key + n + 1, key) != 0
              : strcmp(e->key, key) != 0)
            continue;
        e->is_used = 1;
        return e->value;
    }
    return NULL;
}

/* Split a list [A, 'B C'], or one value, in place. Returned: word [most]. Returns the number of words */
static int split_list(char *value, const char **word, int most)
{
    static const char SEPARATORS[] = "[], \t";
    int n = 0;
    for (char *c = value + strspn(value, SEPARATORS); *c && n < most; c += strspn(c, SEPARATORS)) {
        const char end[2] = {*c, 0}, *stop = *c == '"' || *c == '\'' ? end : SEPARATORS;
        c += stop == end;
        word[n] = c;
        c += strcspn(c, stop);
        if (*c) *c++ = 0;
        n += *word[n] != 0;
    }
    return n;
}

static int read_interval(parser *p, const char *name, double *seconds)
{
    const char *value = find(p, name, "update_interval");
    char *end;
    *seconds = -1;
    if (!value) return MSI_OK;
    *seconds = strtod(value, &end);
    if (end > value && !*end && *seconds > 0 && isfinite(*seconds)) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: %s.update_interval is '%.40s'; give seconds", p->path, name, value);
}

static int find_kind(parser *p, const char *name, const char *word, msi_aterm_kind *kind)
{
    static const char *const known[] = {"tec", "dldm", "diagonal", "beam"};
    static const char *const refused[] = {"paf", "fourierfit", "klfit", "h5parm"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(word, known[i]) == 0) {
            *kind = (msi_aterm_kind)i;
            return MSI_OK;
        }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(word, refused[i]) == 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s: the a-term %s is of kind %s, which is not supported; give images of tec, dldm or "
                                 "diagonal, or facets with -apply-facet-solutions",
                                 p->path, name, word);
    return msi_error_set(MSI_EINPUT,
                         "%s: the a-term %s is of the unknown kind '%.40s'; known are tec, dldm, diagonal and beam",
                         p->path, name, word);
}

/* Check the name of a window. WSClean smooths screens with it; here screens are interpolated, so it has no effect. */
static int check_window(parser *p, const char *name)
{
    static const char *const known[] = {"tukey", "hann", "raised_hann", "raised-hann", "rectangular", "gaussian"};
    const char *word = find(p, name, "window");
    (void)find(p, name, "downsample");
    for (size_t i = 0; word && i < sizeof known / sizeof *known; i++)
        if (strcmp(word, known[i]) == 0) return MSI_OK;
    return word
               ? msi_error_set(MSI_EINPUT,
                               "%s: %s.window is '%.40s'; known are tukey, hann, raised_hann, rectangular and gaussian",
                               p->path, name, word)
               : MSI_OK;
}

static int read_term(parser *p, const char *name, msi_aterm_config *c)
{
    static const char *const of_beam[] = {
        "differential",           "usechannelfreq", "frequency_interpolation", "beam_normalisation_mode",
        "element_response_model", "beam_mode"};
    const char *type = find(p, name, "type");
    msi_aterm *t = &c->term[c->n++];
    double seconds;
    *t = (msi_aterm){.name = name};
    MSI_TRY(find_kind(p, name, type ? type : name, &t->kind));
    MSI_TRY(read_interval(p, name, &seconds));
    MSI_TRY(check_window(p, name));
    if (t->kind == MSI_ATERM_BEAM) {
        c->has_beam = 1;
        c->beam_update_s = seconds;
        for (size_t i = 0; i < sizeof of_beam / sizeof *of_beam; i++) (void)find(p, name, of_beam[i]);
        return MSI_OK;
    }
    char *list = find(p, name, "images");
    const int64_t most = list ? (int64_t)strlen(list) / 2 + 1 : 0;
    MSI_TRY(msi_alloc(&t->image, most + 1, sizeof *t->image, "the configuration of a-terms"));
    t->n_image = list ? split_list(list, t->image, (int)most) : 0;
    if (!t->n_image)
        return msi_error_set(MSI_EINPUT, "%s: the a-term %s has no images; give %s.images = [FILE, ..]", p->path, name,
                             name);
    return MSI_OK;
}

const char MSI_ATERMS_BEAM[] = "the beam";

int msi_aterm_config_read(msi_aterm_config *c, const char *path)
{
    parser p = {.path = path};
    const char *name[MSI_ATERM_MOST + 1];
    *c = (msi_aterm_config){.beam_update_s = -1};
    if (path == MSI_ATERMS_BEAM) {
        c->n = c->has_beam = 1;
        c->term[0] = (msi_aterm){.kind = MSI_ATERM_BEAM, .name = "beam"};
        return MSI_OK;
    }
    int rc = load_config(path, &c->text);
    if (!rc) join_lines(c->text);
    if (!rc) rc = split_lines(&p, c->text);
    char *list = rc ? NULL : find(&p, "", "aterms");
    const int n = list ? split_list(list, name, MSI_ATERM_MOST + 1) : 0;
    if (!rc && !n) rc = msi_error_set(MSI_EINPUT, "%s: no a-terms; give aterms = [tec], or other kinds", path);
    if (!rc && n > MSI_ATERM_MOST) rc = msi_error_set(MSI_EINPUT, "%s: more than %d a-terms", path, MSI_ATERM_MOST);
    for (int i = 0; !rc && i < n; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(name[i], name[k]) == 0)
                rc = msi_error_set(MSI_EINPUT, "%s: the a-term %s is listed twice", path, name[i]);
    for (int i = 0; !rc && i < n; i++) rc = read_term(&p, name[i], c);
    for (int i = 0; !rc && i < p.n; i++)
        if (!p.entry[i].is_used) msi_log_detail("%s: %s has no effect", path, p.entry[i].key);
    if (rc) msi_aterm_config_free(c);
    return rc;
}

void msi_aterm_config_free(msi_aterm_config *c)
{
    for (int i = 0; i < c->n; i++) msi_free(c->term[i].image);
    msi_free(c->text);
    *c = (msi_aterm_config){0};
}

/* Phase of a total electron content of 1 TECU, times the frequency. */
#define TEC_RAD_HZ (-8.44797245e9)

/* Positions of a screen that are read for a value and its slopes: the direction, and a point on each side of it. */
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

/* Number of planes along the axis MATRIX, for each kind of screen. */
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

/* Compute the pixel of a direction in a screen. Given: axes, of_screen  axes of the l, m, n of the image and the
 * screen */
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

/* Compute the weights of the four pixels around a position. Returns the first of these pixels */
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

/* A screen, and the positions of a direction in it. */
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

/* Interpolate a value. Returned: out  the value, its change with l, and its change with m */
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

/* Compute the gains of both feeds of an antenna. Returned: slope  change of their mean phase with l and m */
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
