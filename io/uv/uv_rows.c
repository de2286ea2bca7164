/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/uv/uv_state.h"

enum {
    XYZ = 3,
    BY_2048 = 65536,     /* codes 2048 ANTENNA1 + ANTENNA2 begin above this */
    LOOK_EACH = 16384,   /* number of groups between two calls of interrupt */
    COMPARED = 4096,     /* number of groups whose u, v, w are compared with antenna positions */
    LARGE_GROUP = 32768, /* in bytes; from a larger group, only the needed bytes are read */
    AHEAD = 1 << 20
};

/* ---- One group ---- */

/* Find the part that has a group, and its row there. */
static const msi_uv_part *find_part(const struct msi_uv_state *t, int64_t group, int64_t *row)
{
    const msi_uv_part *p = t->part;
    while (group >= p->first_group + p->n_group) p++;
    *row = group - p->first_group;
    return p;
}

/* Sum the columns of a parameter without their zeros (TZERO, PZERO). *zero is the sum of the zeros. */
static double read_sum(const msi_uv_part *p, msi_uv_parameter which, const unsigned char *bytes, double *zero)
{
    const msi_uv_sum *sum = &p->parameter[which];
    double value = 0;
    *zero = 0;
    for (int i = 0; i < sum->n; i++) {
        const msi_uv_column *c = &p->h->column[sum->column[i]];
        value += msi_uv_value(c->kind, bytes + c->offset) * c->scale;
        *zero += c->zero;
    }
    return value;
}

static double read_parameter(const msi_uv_part *p, msi_uv_parameter which, const unsigned char *bytes)
{
    double zero;
    const double value = read_sum(p, which, bytes, &zero);
    return value + zero;
}

/* The antennas of a group, with their numbers in the file. */
typedef struct pair {
    int64_t subarray, first, second;
} pair;

/*
 * Decode a code of two antennas: 256 ANTENNA1 + ANTENNA2 + (SUBARRAY - 1) / 100 (AIPS Memo 117, section 3.1.2). For
 * numbers above 255, Miriad and other programs write 2048 ANTENNA1 + ANTENNA2 + 65536.
 */
static int decode(double baseline, pair *a)
{
    if (!(baseline >= 0 && baseline < INT32_MAX)) return 0;
    const int64_t hundredths = llrint(100 * baseline), code = hundredths / 100;
    a->subarray = 1 + hundredths % 100;
    a->first = code < BY_2048 ? code / 256 : (code - BY_2048) / 2048;
    a->second = code < BY_2048 ? code % 256 : (code - BY_2048) % 2048;
    return 1;
}

static int read_pair(const msi_uv_set *s, const msi_uv_part *p, int64_t group, const unsigned char *bytes, pair *a)
{
    const char *path = s->state->bytes.path;
    *a = (pair){.subarray = 1};
    if (p->parameter[MSI_UV_BASELINE].n) {
        const double baseline = read_parameter(p, MSI_UV_BASELINE, bytes);
        if (!decode(baseline, a) || a->subarray >= MSI_UV_MOST_NUMBERS)
            return msi_error_set(MSI_EINPUT,
                                 "truncated or corrupt: %s: group %lld: BASELINE = %g is not a code of two antennas",
                                 path, (long long)group, baseline);
    }
    if (p->parameter[MSI_UV_SUBARRAY].n) {
        const double subarray = read_parameter(p, MSI_UV_SUBARRAY, bytes);
        if (subarray >= 1 && subarray < MSI_UV_MOST_NUMBERS) a->subarray = (int64_t)subarray;
    }
    if (!p->parameter[MSI_UV_ANTENNA1].n || !p->parameter[MSI_UV_ANTENNA2].n) return MSI_OK;
    /* Single precision cannot represent every code, so a file may have the antennas in separate parameters. */
    const double value[] = {read_parameter(p, MSI_UV_ANTENNA1, bytes), read_parameter(p, MSI_UV_ANTENNA2, bytes)};
    for (int k = 0; k < 2; k++)
        if (!(value[k] >= 0 && value[k] < MSI_UV_MOST_STATIONS))
            return msi_error_set(MSI_EINPUT,
                                 "truncated or corrupt: %s: group %lld: ANTENNA1, ANTENNA2 = %g, %g are not valid",
                                 path, (long long)group, value[0], value[1]);
    a->first = (int64_t)value[0];
    a->second = (int64_t)value[1];
    return MSI_OK;
}

static int find_antennas(const msi_uv_set *s, const msi_uv_part *p, int64_t group, const unsigned char *bytes,
                         msi_uv_row *to)
{
    pair a;
    MSI_TRY(read_pair(s, p, group, bytes, &a));
    to->antenna1 = msi_uv_tables_antenna(s, a.subarray, a.first);
    to->antenna2 = msi_uv_tables_antenna(s, a.subarray, a.second);
    to->subarray = (int32_t)(a.subarray - 1);
    if (to->antenna1 >= 0 && to->antenna2 >= 0) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "truncated or corrupt: %s: group %lld has antenna %lld, which is not in a table %s (subarray "
                         "%lld): invalid BASELINE",
                         s->state->bytes.path, (long long)group, (long long)(to->antenna1 < 0 ? a.first : a.second),
                         msi_uv_is_idi(s) ? "ARRAY_GEOMETRY" : "AIPS AN", (long long)a.subarray);
}

/* Read a date as two sums, of values and of zeros. One double is too imprecise for a Julian date. */
static double read_time_s(const msi_uv_part *p, const unsigned char *bytes)
{
    static const double MJD_0 = 2400000.5;
    const msi_uv_sum *sum = &p->parameter[MSI_UV_DATE];
    double day = 0, zero = -MJD_0;
    for (int i = 0; i < sum->n; i++) {
        const msi_uv_column *c = &p->h->column[sum->column[i]];
        const double value = msi_uv_value(c->kind, bytes + c->offset) * c->scale;
        zero += c->zero;
        /* A part without a zero has the day in its value. */
        if (fabs(value) >= 1e5)
            zero += value;
        else
            day += value;
    }
    return (day + zero) * 86400;
}

/* Get the bytes of a group that have its parameters. */
static int get_group(msi_uv_set *s, int64_t group, const msi_uv_part **part, const unsigned char **bytes)
{
    struct msi_uv_state *t = s->state;
    int64_t row;
    const msi_uv_part *p = *part = find_part(t, group, &row);
    t->bytes.ahead = p->h->row_bytes > LARGE_GROUP ? 0 : AHEAD;
    return msi_uv_bytes_get(&t->bytes, p->h->begin + row * p->h->row_bytes, p->head_bytes, bytes);
}

/* ---- Rows ---- */

const double *msi_uv_set_times(const msi_uv_set *s)
{
    return s->state->time_s;
}

const int32_t *msi_uv_set_sources(const msi_uv_set *s)
{
    return s->state->source;
}

const int32_t *msi_uv_set_settings(const msi_uv_set *s)
{
    return s->state->setting;
}

static int parse_group(const msi_uv_set *s, const msi_uv_part *p, int64_t group, const unsigned char *bytes,
                       msi_uv_row *to)
{
    static const msi_uv_parameter of_uvw[] = {MSI_UV_U, MSI_UV_V, MSI_UV_W};
    for (int k = 0; k < XYZ; k++) to->uvw_m[k] = MSI_SPEED_OF_LIGHT * read_parameter(p, of_uvw[k], bytes);
    to->time_s = read_time_s(p, bytes);
    const double interval_s = p->parameter[MSI_UV_INTTIM].n ? read_parameter(p, MSI_UV_INTTIM, bytes) : NAN;
    to->interval_s = interval_s >= 0 && interval_s < 1e9 ? interval_s : s->state->interval_s;
    return find_antennas(s, p, group, bytes, to);
}

int msi_uv_set_row(msi_uv_set *s, int64_t row, msi_uv_row *out)
{
    const int64_t group = row / s->n_if;
    const msi_uv_part *p;
    const unsigned char *bytes;
    MSI_TRY(get_group(s, group, &p, &bytes));
    MSI_TRY(parse_group(s, p, group, bytes, out));
    out->time_s = s->state->time_s[group];
    out->source = s->state->source[group];
    out->scan = s->state->scan[group];
    out->window = s->state->setting[group] + (int32_t)(row % s->n_if);
    return MSI_OK;
}

/* ---- Samples ---- */

/*
 * Return the factor that corrects visibilities of DiFX and VLBA correlators for the digital levels of both antennas, as
 * FITLD of AIPS does. Sources: casacore, FitsIDItoMS.cc; VLBA Scientific Memo 12. Autocorrelations are not corrected,
 * because this would need their lags.
 */
static double digital_factor(const msi_uv_set *s, const msi_uv_row *r)
{
    static const double A = 5.36, H = 0.87890625, PI_HALF_INVERSE = 2 / MSI_PI;
    const struct msi_uv_state *t = s->state;
    if (!t->level || r->antenna1 == r->antenna2) return 1;
    const double first = t->level[r->antenna1], second = t->level[r->antenna2];
    double mean_square = 1 / (A * H), correlation = 1, gain = 1;
    if (first == 4 && second == 4) {
        mean_square = 4.3048;
        correlation = 0.882518;
        gain = 3.335875 * 64 / 63;
    } else if (first == 2 && second == 2) {
        mean_square = 1;
        correlation = PI_HALF_INVERSE;
        gain = 64.0 / 63;
    } else if ((first == 2 && second == 4) || (first == 4 && second == 2)) {
        mean_square = 5.8784;
        correlation = 1;
        gain = 1;
    }
    if (t->has_van_vleck) correlation = 1;
    return gain * gain / (A * mean_square * correlation * H);
}

/* Factors for the weights and visibilities of a row. */
typedef struct scaling {
    double data, weight;
    double normalise; /* visibilities are divided by the stored weight times this; 0: they are not divided */
} scaling;

/* The weights of FITS-IDI are fractions of a full integration of a channel. The weights of a set are
 * 2 x bandwidth x time, as in casacore. */
static int find_scaling(msi_uv_set *s, int64_t row, scaling *to)
{
    const struct msi_uv_state *t = s->state;
    msi_uv_row r;
    *to = (scaling){1, 1, 0};
    if (!msi_uv_is_idi(s)) return MSI_OK;
    MSI_TRY(msi_uv_set_row(s, row, &r));
    const double time_s = r.interval_s > 0 ? r.interval_s : 1, width_hz = s->window[r.window].width_hz[0];
    to->weight = t->visibility_scale * (r.antenna1 == r.antenna2 ? 1 : 2) * time_s * (width_hz > 0 ? width_hz : 1);
    to->data = digital_factor(s, &r);
    if (t->is_normalised) to->normalise = t->visibility_scale * (t->normalises_by_time ? time_s : 1);
    return MSI_OK;
}

/* Values from the array of a group. */
typedef struct array {
    const unsigned char *bytes; /* bytes of value number `first` */
    int64_t first;
    char kind;
    int size;
    double scale, zero;
} array;

static inline float float_at(const unsigned char *p)
{
    const uint32_t bits = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double array_value(const array *a, int64_t i)
{
    const unsigned char *p = a->bytes + (i - a->first) * a->size;
    if (a->kind == 'E') return (double)float_at(p) * a->scale + a->zero;
    return msi_uv_value(a->kind, p) * a->scale + a->zero;
}

/* Store a sample. It is flagged if its weight is not positive and finite. */
static inline void put_sample(const scaling *f, double re, double im, double weight, msi_c32 *data, float *to_weight,
                              uint8_t *flag)
{
    double factor = f->data;
    if (f->normalise > 0) factor = weight > 0 ? factor / (f->normalise * weight) : 0;
    *flag = !(weight > 0 && weight <= 3e38);
    const double size = fabs(weight) * f->weight;
    *to_weight = size <= 3e38 ? (float)size : 0;
    *data = (msi_c32){(float)(re * factor), (float)(im * factor)};
}

/* The real and the imaginary part of a compressed sample have half of its bits each. A sample is flagged if both halves
 * have this number. Sources: AIPS; Obit, ObitIOUVFITS.c. */
enum { BLANK_HALF = -32767 };

static void put_compressed(const unsigned char *p, double scale, double weight, msi_c32 *data, float *to_weight,
                           uint8_t *flag)
{
    const double re = msi_uv_value('I', p), im = msi_uv_value('I', p + 2);
    const scaling plain = {1, 1, 0};
    if (re == BLANK_HALF)
        put_sample(&plain, 0, 0, 0, data, to_weight, flag);
    else
        put_sample(&plain, re * scale, im * scale, weight, data, to_weight, flag);
}

/* Read the weights of a window of a row, if they are in a separate column, to the buffer. */
static int read_weights(msi_uv_set *s, const msi_uv_part *p, int64_t row, int64_t window)
{
    struct msi_uv_state *t = s->state;
    const int64_t n = p->weight_chan ? p->weight_if : s->n_corr;
    const msi_uv_column *c = &p->h->column[p->weight];
    const int size = msi_uv_value_bytes(c->kind);
    const unsigned char *bytes;
    const int64_t at = p->h->begin + row * p->h->row_bytes + c->offset + window * p->weight_if * size;
    if (t->n_weight_allocated < n) {
        t->n_weight_allocated = 0;
        MSI_TRY(msi_grow(&t->weight, 0, n, sizeof *t->weight, "weights of a row"));
        t->n_weight_allocated = n;
    }
    MSI_TRY(msi_uv_bytes_get(&t->bytes, at, n * size, &bytes));
    for (int64_t i = 0; i < n; i++) t->weight[i] = msi_uv_value(c->kind, bytes + i * size) * c->scale + c->zero;
    return MSI_OK;
}

/* Find the values of the array that are needed for a window of a row. */
static int get_array(msi_uv_set *s, const msi_uv_part *p, int64_t row, int64_t window, const msi_uv_samples *to,
                     array *a)
{
    const msi_uv_column *c = &p->h->column[p->data];
    int32_t first = to->chan[0], last = first;
    for (int32_t i = 1; i < to->n_chan; i++) {
        if (to->chan[i] < first) first = to->chan[i];
        if (to->chan[i] > last) last = to->chan[i];
    }
    *a = (array){.kind = c->kind, .size = msi_uv_value_bytes(c->kind), .scale = c->scale, .zero = c->zero};
    a->first = window * p->stride_if + first * p->stride_chan;
    const int64_t end = window * p->stride_if + last * p->stride_chan + (s->n_corr - 1) * p->stride_corr +
                        (p->n_complex - 1) * p->stride_complex + 1;
    return msi_uv_bytes_get(&s->state->bytes, p->h->begin + row * p->h->row_bytes + c->offset + a->first * a->size,
                            (end - a->first) * a->size, &a->bytes);
}

static void put_samples(const msi_uv_set *s, const msi_uv_part *p, int64_t window, const array *a, const scaling *f,
                        const msi_uv_samples *to)
{
    const struct msi_uv_state *t = s->state;
    const double sign = t->are_conjugate ? -1 : 1;
    int64_t k = 0;
    for (int32_t c = 0; c < to->n_chan; c++)
        for (int32_t q = 0; q < s->n_corr; q++, k++) {
            const int64_t at = window * p->stride_if + to->chan[c] * p->stride_chan + t->corr_place[q] * p->stride_corr;
            const double re = array_value(a, at), im = sign * array_value(a, at + p->stride_complex);
            const double weight = p->n_complex == 3 ? array_value(a, at + 2 * p->stride_complex)
                                  : p->weight >= 0  ? t->weight[to->chan[c] * p->weight_chan + t->corr_place[q]]
                                                    : 1;
            put_sample(f, re, im, weight, &to->data[k], &to->weight[k], &to->flag[k]);
        }
}

static int read_compressed(msi_uv_set *s, const msi_uv_part *p, int64_t row, int64_t window, const msi_uv_samples *to)
{
    const unsigned char *bytes;
    const struct msi_uv_state *t = s->state;
    array a;
    int64_t k = 0;
    MSI_TRY(
        msi_uv_bytes_get(&s->state->bytes, p->h->begin + row * p->h->row_bytes, p->h->column[p->data].offset, &bytes));
    const double weight = read_parameter(p, MSI_UV_WEIGHT, bytes), scale = read_parameter(p, MSI_UV_SCALE, bytes);
    MSI_TRY(get_array(s, p, row, window, to, &a));
    for (int32_t c = 0; c < to->n_chan; c++)
        for (int32_t q = 0; q < s->n_corr; q++, k++) {
            const int64_t at = window * p->stride_if + to->chan[c] * p->stride_chan + t->corr_place[q] * p->stride_corr;
            put_compressed(a.bytes + (at - a.first) * a.size, scale, weight, &to->data[k], &to->weight[k],
                           &to->flag[k]);
        }
    return MSI_OK;
}

int msi_uv_set_samples(msi_uv_set *s, int64_t row, const msi_uv_samples *to)
{
    struct msi_uv_state *t = s->state;
    int64_t in_part;
    const msi_uv_part *p = find_part(t, row / s->n_if, &in_part);
    const int64_t window = row % s->n_if;
    scaling f;
    array a;
    if (to->n_chan < 1) return MSI_OK;
    t->bytes.ahead = p->h->row_bytes > LARGE_GROUP ? 0 : AHEAD;
    if (p->n_complex == 1) return read_compressed(s, p, in_part, window, to);
    MSI_TRY(find_scaling(s, row, &f));
    if (p->weight >= 0) MSI_TRY(read_weights(s, p, in_part, window));
    MSI_TRY(get_array(s, p, in_part, window, to, &a));
    put_samples(s, p, window, &a, &f, to);
    return MSI_OK;
}

/* ---- All groups ---- */

/* The comparison of u, v, w with the positions of antennas: as they are in the file, and rotated back by the longitude
 * of the array's centre. */
typedef struct comparison {
    double product[2], computed[2], stored; /* sums over groups */
    double turn_rad;
} comparison;

/* Rotate a position relative to the centre about the axis of the Earth. */
static void rotate(const double centre_m[XYZ], double angle_rad, double itrf_m[XYZ])
{
    const double x = itrf_m[0] - centre_m[0], y = itrf_m[1] - centre_m[1];
    itrf_m[0] = centre_m[0] + cos(angle_rad) * x - sin(angle_rad) * y;
    itrf_m[1] = centre_m[1] + sin(angle_rad) * x + cos(angle_rad) * y;
}

/* Add a group to the comparison. UTC - UT1, precession and nutation are too small to matter. */
static void compare_group(const msi_uv_set *s, comparison *c, const msi_uv_row *r, const msi_uv_source *source)
{
    const double hour_rad = 2 * MSI_PI * msi_sidereal_turns(r->time_s / 86400) - source->ra_rad;
    double stored = 0, product[2], computed[2];
    for (int way = 0; way < 2; way++) {
        double p[XYZ], q[XYZ];
        memcpy(p, s->antenna[r->antenna1].itrf_m, sizeof p);
        memcpy(q, s->antenna[r->antenna2].itrf_m, sizeof q);
        if (way) rotate(s->state->centre_m, c->turn_rad, p);
        if (way) rotate(s->state->centre_m, c->turn_rad, q);
        const double x = q[0] - p[0], y = q[1] - p[1], z = q[2] - p[2];
        const double u = sin(hour_rad) * x + cos(hour_rad) * y, toward = cos(hour_rad) * x - sin(hour_rad) * y;
        const double v = cos(source->dec_rad) * z - sin(source->dec_rad) * toward;
        const double w = sin(source->dec_rad) * z + cos(source->dec_rad) * toward;
        product[way] = u * r->uvw_m[0] + v * r->uvw_m[1] + w * r->uvw_m[2];
        computed[way] = u * u + v * v + w * w;
    }
    for (int k = 0; k < XYZ; k++) stored += r->uvw_m[k] * r->uvw_m[k];
    if (!isfinite(stored) || !isfinite(product[0]) || !isfinite(computed[0])) return;
    c->stored += stored;
    for (int way = 0; way < 2; way++) {
        c->product[way] += product[way];
        c->computed[way] += computed[way];
    }
}

/*
 * Rotate the positions of antennas to geocentric ones, if u, v, w agree with these only then. Positions are in the
 * frame of the array's meridian in AIPS files of the VLA, and in all files that pyuvdata writes.
 */
static void correct_positions(msi_uv_set *s, const comparison *c)
{
    static const double NEAR = 0.9;
    double cosine[2];
    for (int way = 0; way < 2; way++) {
        const double length = sqrt(c->stored) * sqrt(c->computed[way]);
        cosine[way] = length > 0 && isfinite(length) ? fabs(c->product[way]) / length : 0;
    }
    if (!(c->turn_rad != 0 && cosine[1] > NEAR && 1 - cosine[1] < 0.1 * (1 - cosine[0]))) return;
    for (int64_t i = 0; i < s->n_antenna; i++)
        if (*s->antenna[i].station) rotate(s->state->centre_m, c->turn_rad, s->antenna[i].itrf_m);
    msi_uv_note(
        s,
        "the positions of antennas are in the frame of the array's meridian, by u, v, w: they are turned by its "
        "longitude of %.4f degrees (cosine %.6f; %.6f without)",
        c->turn_rad * 180 / MSI_PI, cosine[1], cosine[0]);
}

/* Read the number by which a group refers to its source or setting. */
static int64_t read_id(const msi_uv_part *p, msi_uv_parameter which, const unsigned char *bytes)
{
    if (!p->parameter[which].n) return 1;
    const double value = read_parameter(p, which, bytes);
    return value >= 0 && value < MSI_UV_MOST_NUMBERS ? (int64_t)value : value > -2 && value < 0 ? 0 : -1;
}

static int find_source(const msi_uv_set *s, const msi_uv_part *p, int64_t group, const unsigned char *bytes,
                       int64_t *only, int32_t *source)
{
    const char *path = s->state->bytes.path, *table = msi_uv_is_idi(s) ? "SOURCE" : "AIPS SU";
    const int64_t id = read_id(p, MSI_UV_SOURCE, bytes);
    if (id < 0)
        return msi_error_set(MSI_EINPUT,
                             "truncated or corrupt: %s: group %lld: SOURCE is not the number of a row of a table", path,
                             (long long)group);
    /* If groups have no such parameter, they are of the first source. */
    *source = p->parameter[MSI_UV_SOURCE].n ? msi_uv_tables_source(s, id) : 0;
    if (*source < 0)
        return msi_error_set(MSI_EINPUT, "%s: group %lld has SOURCE = %lld, which is not in table %s", path,
                             (long long)group, (long long)id, table);
    if (*only < 0) *only = id;
    if (s->state->has_source_table || id == *only) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: groups have sources %lld and %lld, but the file has no table %s", path,
                         (long long)*only, (long long)id, table);
}

static int find_setting(const msi_uv_set *s, const msi_uv_part *p, int64_t group, const unsigned char *bytes,
                        int32_t *setting)
{
    const struct msi_uv_state *t = s->state;
    const char *name = msi_uv_is_idi(s) ? "FREQID" : "FREQSEL";
    const int64_t id = read_id(p, MSI_UV_SETTING, bytes);
    const int is_one = !t->settings || t->settings->length[1] == 1;
    if (id < 0)
        return msi_error_set(MSI_EINPUT,
                             "truncated or corrupt: %s: group %lld: %s is not the number of a row of a table",
                             t->bytes.path, (long long)group, name);
    *setting = (int32_t)id;
    if (!t->settings || t->setting_row[id] >= 0) return MSI_OK;
    /* If the table has one row, groups need no number for it. */
    if (is_one && (!p->parameter[MSI_UV_SETTING].n || id == 0)) {
        *setting = 0;
        return MSI_OK;
    }
    return msi_error_set(MSI_EINPUT, "%s: group %lld has %s = %lld, which is not in table %s", t->bytes.path,
                         (long long)group, name, (long long)id, t->settings->name);
}

typedef struct scan {
    msi_uv_set *s;
    uint8_t *is_source;  /* [n_source] 1: a group refers to it */
    uint8_t *is_setting; /* [MSI_UV_MOST_NUMBERS] */
    int64_t only_source;
    comparison comparison;
} scan;

static int scan_group(scan *c, int64_t group)
{
    msi_uv_set *s = c->s;
    struct msi_uv_state *t = s->state;
    const msi_uv_part *p;
    const unsigned char *bytes;
    msi_uv_row r;
    const int64_t step = s->n_group / COMPARED + 1;
    MSI_TRY(get_group(s, group, &p, &bytes));
    MSI_TRY(parse_group(s, p, group, bytes, &r));
    MSI_TRY(find_source(s, p, group, bytes, &c->only_source, &t->source[group]));
    MSI_TRY(find_setting(s, p, group, bytes, &t->setting[group]));
    if (!isfinite(r.time_s))
        return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: group %lld: its date is not finite", t->bytes.path,
                             (long long)group);
    t->time_s[group] = r.time_s;
    const int is_new =
        group > 0 && (t->source[group] != t->source[group - 1] || t->setting[group] != t->setting[group - 1]);
    t->scan[group] = group > 0 ? t->scan[group - 1] + is_new : 1;
    c->is_source[t->source[group]] = 1;
    c->is_setting[t->setting[group]] = 1;
    if (r.time_s < s->start_mjd_s) s->start_mjd_s = r.time_s;
    if (r.time_s > s->end_mjd_s) s->end_mjd_s = r.time_s;
    if (group % step == 0) compare_group(s, &c->comparison, &r, &s->source[t->source[group]]);
    return MSI_OK;
}

static int scan_groups(scan *c)
{
    msi_uv_set *s = c->s;
    const double *centre = s->state->centre_m;
    const double radius_m = sqrt(centre[0] * centre[0] + centre[1] * centre[1] + centre[2] * centre[2]);
    if (radius_m > 1e6) c->comparison.turn_rad = atan2(centre[1], centre[0]);
    for (int64_t i = 0; i < s->n_group; i++) {
        if (i % LOOK_EACH == 0 && s->state->interrupt) MSI_TRY(s->state->interrupt());
        MSI_TRY(scan_group(c, i));
    }
    for (int64_t k = 0; k < s->n_source; k++)
        if (c->is_source[k]) MSI_TRY(msi_uv_tables_check_source(s, (int32_t)k));
    MSI_TRY(msi_uv_tables_windows(s, c->is_setting));
    for (int64_t i = 0; i < s->n_group; i++) s->state->setting[i] = s->state->setting_of[s->state->setting[i]];
    correct_positions(s, &c->comparison);
    return MSI_OK;
}

static int compare_numbers(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* If groups have no INTTIM, assume the shortest step between their times. */
static int find_interval(msi_uv_set *s)
{
    struct msi_uv_state *t = s->state;
    double *time_s, shortest_s = INFINITY;
    int has_length = 1;
    for (int i = 0; i < t->n_part; i++) has_length &= t->part[i].parameter[MSI_UV_INTTIM].n > 0;
    if (has_length) return MSI_OK;
    MSI_TRY(msi_alloc(&time_s, s->n_group, sizeof *time_s, "times of groups"));
    memcpy(time_s, t->time_s, (size_t)s->n_group * sizeof *time_s);
    qsort(time_s, (size_t)s->n_group, sizeof *time_s, compare_numbers);
    /* Fractions of a day in single precision have errors up to 2.6 ms, so steps are rounded to 0.01 s, as in
     * casacore. */
    for (int64_t i = 1; i < s->n_group; i++)
        if (time_s[i] - time_s[i - 1] > 0.01) shortest_s = fmin(shortest_s, time_s[i] - time_s[i - 1]);
    msi_free(time_s);
    t->interval_s = isfinite(shortest_s) ? rint(100 * shortest_s) / 100 : 0;
    if (isfinite(shortest_s))
        msi_uv_note(s, "the length of its integrations is missing (INTTIM): the shortest step of %.6g s is taken",
                    t->interval_s);
    else
        msi_uv_note(s, "the length of its integrations is missing: INTERVAL and EXPOSURE are 0");
    return MSI_OK;
}

int msi_uv_rows_scan(msi_uv_set *s)
{
    struct msi_uv_state *t = s->state;
    scan c = {.s = s, .only_source = -1};
    s->start_mjd_s = INFINITY;
    s->end_mjd_s = -INFINITY;
    MSI_TRY(msi_alloc(&t->time_s, s->n_group, sizeof *t->time_s, "times of groups"));
    MSI_TRY(msi_alloc(&t->source, s->n_group, sizeof *t->source, "sources of groups"));
    MSI_TRY(msi_alloc(&t->setting, s->n_group, sizeof *t->setting, "settings of groups"));
    MSI_TRY(msi_alloc(&t->scan, s->n_group, sizeof *t->scan, "scans of groups"));
    int status = msi_alloc(&c.is_source, s->n_source, 1, "sources");
    if (!status) status = msi_alloc(&c.is_setting, MSI_UV_MOST_NUMBERS, 1, "settings");
    if (!status) status = scan_groups(&c);
    if (!status) status = find_interval(s);
    msi_free(c.is_source);
    msi_free(c.is_setting);
    return status;
}
