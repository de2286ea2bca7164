/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/uv/uv_set.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/uv/uv_state.h"

enum { MOST_HEADERS = 1024, AHEAD_BYTES = 1 << 20 };

static const char UV_DATA[] = "UV_DATA";

int msi_uv_set_is_file(const char *path)
{
    unsigned char begin[9] = {0};
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    const ssize_t n = fd >= 0 ? pread(fd, begin, sizeof begin, 0) : -1;
    if (fd >= 0) close(fd);
    return n == sizeof begin &&
           (memcmp(begin, "SIMPLE  =", sizeof begin) == 0 || (begin[0] == 0x1f && begin[1] == 0x8b));
}

/* ---- The headers of the file ---- */

static int check_table(const msi_uv_header *h, const char *path)
{
    int64_t row_bytes = 0;
    if (strcmp(h->extension, "BINTABLE") != 0 && strcmp(h->extension, "A3DTABLE") != 0) return MSI_OK;
    if (h->bitpix != 8 || h->n_axis != 2 || h->n_group != 1 || h->n_column > MSI_UV_MOST_COLUMNS)
        return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: table %s has an invalid header", path, h->name);
    for (int64_t i = 0; i < h->n_column; i++) {
        const msi_uv_column *c = &h->column[i];
        if (!c->kind)
            return msi_error_set(MSI_EINPUT,
                                 "truncated or corrupt: %s: table %s: TFORM%lld is missing, or not a valid format",
                                 path, h->name, (long long)i + 1);
        const int64_t end = i + 1 < h->n_column ? c[1].offset : -1;
        row_bytes = end;
    }
    /* The end of the last column. */
    if (h->n_column > 0) {
        const msi_uv_column *last = &h->column[h->n_column - 1];
        const int64_t size = last->kind == 'X'                        ? (last->repeat + 7) / 8
                             : last->kind == 'A'                      ? last->repeat
                             : last->kind == 'C' || last->kind == 'P' ? 8 * last->repeat
                             : last->kind == 'M' || last->kind == 'Q' ? 16 * last->repeat
                                                                      : last->repeat * msi_uv_value_bytes(last->kind);
        row_bytes = last->offset + size;
    }
    if (row_bytes == h->length[0]) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "truncated or corrupt: %s: table %s: its rows have %lld bytes, but its columns %lld", path,
                         h->name, (long long)h->length[0], (long long)row_bytes);
}

/* Return 1 if the rest of the file is zeros or blanks, with which tapes were filled. */
static int is_filling(msi_uv_bytes *b, int64_t at)
{
    const unsigned char *bytes;
    for (int64_t n; at < b->size; at += n) {
        n = b->size - at < AHEAD_BYTES ? b->size - at : AHEAD_BYTES;
        if (msi_uv_bytes_get(b, at, n, &bytes)) return 0;
        for (int64_t i = 0; i < n; i++)
            if (bytes[i] != 0 && bytes[i] != ' ') return 0;
    }
    return 1;
}

static int add_header(struct msi_uv_state *t, const msi_uv_header *h)
{
    if ((t->n_header & (t->n_header - 1)) == 0)
        MSI_TRY(msi_grow(&t->header, t->n_header, t->n_header ? 2 * t->n_header : 1, sizeof *t->header, "headers"));
    t->header[t->n_header++] = *h;
    return MSI_OK;
}

static int read_extensions(msi_uv_set *s, int64_t at)
{
    struct msi_uv_state *t = s->state;
    const char *path = t->bytes.path;
    for (int i = 0; i < MOST_HEADERS; i++) {
        msi_uv_header h;
        msi_uv_found found;
        int status = msi_uv_header_read(&t->bytes, at, &h, &found);
        if (status || found == MSI_UV_END || (found == MSI_UV_NO_HEADER && is_filling(&t->bytes, at))) {
            msi_uv_header_free(&h);
            return status;
        }
        if (found == MSI_UV_NO_HEADER)
            status =
                msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: no complete header of an extension at byte %lld",
                              path, (long long)at);
        else if (!*h.extension)
            status = msi_error_set(MSI_EINPUT, "%s: another FITS file begins at byte %lld; give each file separately",
                                   path, (long long)at);
        else
            status = check_table(&h, path);
        if (!status && (h.bytes < 0 || h.bytes > t->bytes.size - h.begin))
            status =
                msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: table %s is longer than the file", path, h.name);
        if (!status) status = add_header(t, &h);
        if (status) {
            msi_uv_header_free(&h);
            return status;
        }
        at = msi_uv_in_whole_blocks(h.begin + h.bytes);
    }
    return msi_error_set(MSI_EINPUT, "%s: it has more than %d extensions", path, MOST_HEADERS);
}

/* ---- The axes of visibilities ---- */

typedef enum axis_kind { AXIS_COMPLEX, AXIS_STOKES, AXIS_FREQ, AXIS_IF, AXIS_RA, AXIS_DEC, N_AXIS } axis_kind;

typedef struct axes {
    const char *path;
    int n;
    msi_uv_axis axis[MSI_UV_MOST_AXES];
    int at[N_AXIS]; /* -1: missing */
} axes;

static int is_axis(const char *name, axis_kind kind, int is_idi)
{
    static const char *const names[N_AXIS] = {"COMPLEX", "STOKES", "FREQ", "IF", "RA", "DEC"};
    if (kind == AXIS_RA) return strcmp(name, "RA") == 0 || strncmp(name, "RA---", 5) == 0;
    if (kind == AXIS_DEC) return strcmp(name, "DEC") == 0 || strncmp(name, "DEC--", 5) == 0;
    return strcmp(name, kind == AXIS_IF && is_idi ? "BAND" : names[kind]) == 0;
}

static int find_axes(axes *a, const msi_uv_header *h, const char *path, int is_idi)
{
    static const char *const names[N_AXIS] = {"COMPLEX", "STOKES", "FREQ", "IF", "RA", "DEC"};
    *a = (axes){.path = path};
    if (is_idi) {
        const double n = msi_uv_header_number(h, "MAXIS", 0);
        a->n = n >= 0 && n <= MSI_UV_MOST_AXES ? (int)n : MSI_UV_MOST_AXES;
        memcpy(a->axis, h->axis, sizeof a->axis);
    } else {
        /* The length of the first axis is 0. */
        a->n = h->n_axis - 1;
        for (int i = 0; i < a->n; i++) a->axis[i] = h->axis[i + 1];
        for (int i = 0; i < a->n; i++) a->axis[i].n = h->length[i + 1];
    }
    for (int k = 0; k < N_AXIS; k++) a->at[k] = -1;
    for (int i = a->n - 1; i >= 0; i--)
        for (int k = 0; k < N_AXIS; k++)
            if (is_axis(a->axis[i].name, (axis_kind)k, is_idi)) a->at[k] = i;
    for (int k = 0; k < N_AXIS; k++)
        if (a->at[k] < 0 && k != AXIS_IF)
            return msi_error_set(MSI_EINPUT, "%s: its visibilities have no axis %s", path, names[k]);
    for (int i = 0; i < a->n; i++) {
        int is_known = 0;
        for (int k = 0; k < AXIS_RA; k++) is_known |= a->at[k] == i;
        if (a->axis[i].n < 1 || (!is_known && a->axis[i].n != 1))
            return msi_error_set(MSI_EINPUT, "%s: its axis %d, '%s', has %lld elements instead of one", path,
                                 i + 1 + !is_idi, a->axis[i].name, (long long)a->axis[i].n);
    }
    return MSI_OK;
}

static int64_t axis_length(const axes *a, axis_kind kind)
{
    return a->at[kind] < 0 ? 1 : a->axis[a->at[kind]].n;
}

/* Compute the strides of the array, whose first axis varies fastest. Returned: *n  number of all values */
static int number_values(const axes *a, msi_uv_part *p, int64_t *n)
{
    int64_t stride[MSI_UV_MOST_AXES];
    *n = 1;
    for (int i = 0; i < a->n; i++) {
        stride[i] = *n;
        if (__builtin_mul_overflow(*n, a->axis[i].n, n))
            return msi_error_set(MSI_EINPUT, "%s: invalid header: the axes of its visibilities are too long", a->path);
    }
    p->stride_complex = stride[a->at[AXIS_COMPLEX]];
    p->stride_corr = stride[a->at[AXIS_STOKES]];
    p->stride_chan = stride[a->at[AXIS_FREQ]];
    p->stride_if = a->at[AXIS_IF] < 0 ? 0 : stride[a->at[AXIS_IF]];
    return MSI_OK;
}

/* Read the codes of the axis STOKES, and sort the correlations. */
static int read_correlations(msi_uv_set *s, const axes *a)
{
    static const msi_pol negative[] = {MSI_POL_RR, MSI_POL_LL, MSI_POL_RL, MSI_POL_LR,
                                       MSI_POL_XX, MSI_POL_YY, MSI_POL_XY, MSI_POL_YX};
    const int at = a->at[AXIS_STOKES];
    const msi_uv_axis *axis = &a->axis[at];
    if (axis->n > MSI_MAX_CORR)
        return msi_error_set(MSI_EINPUT, "%s: its axis STOKES has %lld elements; at most %d are supported", a->path,
                             (long long)axis->n, MSI_MAX_CORR);
    s->n_corr = (int32_t)axis->n;
    for (int k = 0; k < s->n_corr; k++) {
        const double code = floor(axis->value + (k + 1 - axis->pixel) * axis->step + 0.5);
        const msi_pol pol = code >= 1 && code <= 4     ? (msi_pol)(MSI_POL_I + (int)code - 1)
                            : code >= -8 && code <= -1 ? negative[-(int)code - 1]
                                                       : (msi_pol)0;
        int i = k, is_again = 0;
        for (int j = 0; j < k; j++) is_again |= s->corr[j] == pol;
        if (!pol || is_again)
            return msi_error_set(MSI_EINPUT,
                                 "%s: element %d of its axis STOKES is %g%s (CRVAL = %g, CDELT = %g, CRPIX = %g); "
                                 "correlations are -1 to -8, Stokes parameters 1 to 4",
                                 a->path, k + 1, code, is_again ? " again" : "", axis->value, axis->step, axis->pixel);
        for (; i > 0 && s->corr[i - 1] > pol; i--) {
            s->corr[i] = s->corr[i - 1];
            s->state->corr_place[i] = s->state->corr_place[i - 1];
        }
        s->corr[i] = pol;
        s->state->corr_place[i] = k;
    }
    return MSI_OK;
}

static int take_shape(msi_uv_set *s, const axes *a)
{
    const int64_t n_chan = axis_length(a, AXIS_FREQ), n_if = axis_length(a, AXIS_IF);
    if (n_chan > INT32_MAX || n_if > INT32_MAX)
        return msi_error_set(MSI_EINPUT, "%s: invalid header: %lld channels of %lld windows", a->path,
                             (long long)n_chan, (long long)n_if);
    s->n_chan = (int32_t)n_chan;
    s->n_if = (int32_t)n_if;
    return read_correlations(s, a);
}

/* ---- The parameters of groups ---- */

typedef struct parameter_name {
    const char *name;
    msi_uv_parameter parameter;
    int is_prefix; /* more may follow, as in UU---SIN */
} parameter_name;

static const parameter_name of_groups[] = {{"UU", MSI_UV_U, 1},
                                           {"VV", MSI_UV_V, 1},
                                           {"WW", MSI_UV_W, 1},
                                           {"DATE", MSI_UV_DATE, 0},
                                           {"_DATE", MSI_UV_DATE, 0},
                                           {"BASELINE", MSI_UV_BASELINE, 0},
                                           {"ANTENNA1", MSI_UV_ANTENNA1, 0},
                                           {"ANTENNA2", MSI_UV_ANTENNA2, 0},
                                           {"SUBARRAY", MSI_UV_SUBARRAY, 0},
                                           {"SOURCE", MSI_UV_SOURCE, 0},
                                           {"FREQSEL", MSI_UV_SETTING, 0},
                                           {"INTTIM", MSI_UV_INTTIM, 0},
                                           {"WEIGHT", MSI_UV_WEIGHT, 0},
                                           {"SCALE", MSI_UV_SCALE, 0},
                                           {NULL}};
static const parameter_name of_rows[] = {
    {"UU", MSI_UV_U, 1},           {"VV", MSI_UV_V, 1},          {"WW", MSI_UV_W, 1},
    {"DATE", MSI_UV_DATE, 0},      {"TIME", MSI_UV_DATE, 0},     {"BASELINE", MSI_UV_BASELINE, 0},
    {"ARRAY", MSI_UV_SUBARRAY, 0}, {"SOURCE", MSI_UV_SOURCE, 0}, {"SOURCE_ID", MSI_UV_SOURCE, 0},
    {"FREQID", MSI_UV_SETTING, 0}, {"INTTIM", MSI_UV_INTTIM, 0}, {NULL}};

static int find_parameters(msi_uv_part *p, const char *path, int is_idi)
{
    static const char *const needed[] = {"UU", "VV", "WW"};
    const char *what = is_idi ? "its table UV_DATA has no column" : "its groups have no parameter";
    for (int64_t i = 0; i < p->h->n_column; i++)
        for (const parameter_name *n = is_idi ? of_rows : of_groups; n->name; n++) {
            const char *name = p->h->column[i].name;
            msi_uv_sum *sum = &p->parameter[n->parameter];
            if (n->is_prefix ? strncmp(name, n->name, strlen(n->name)) != 0 : strcmp(name, n->name) != 0) continue;
            if (sum->n == MSI_UV_MOST_PARTS || (sum->n > 0 && n->parameter > MSI_UV_DATE))
                return msi_error_set(MSI_EINPUT, "%s: its groups have a parameter %s %s", path, n->name,
                                     sum->n > 1 ? "too often" : "twice");
            sum->column[sum->n++] = (int)i;
        }
    for (int k = 0; k < 3; k++)
        if (!p->parameter[k].n) return msi_error_set(MSI_EINPUT, "%s: %s %s", path, what, needed[k]);
    if (p->parameter[MSI_UV_DATE].n < 1 || p->parameter[MSI_UV_DATE].n > 2)
        return msi_error_set(MSI_EINPUT, "%s: its groups have %d parameters DATE, not 1 or 2", path,
                             p->parameter[MSI_UV_DATE].n);
    if (!p->parameter[MSI_UV_BASELINE].n && (!p->parameter[MSI_UV_ANTENNA1].n || !p->parameter[MSI_UV_ANTENNA2].n))
        return msi_error_set(MSI_EINPUT, "%s: %s BASELINE%s", path, what, is_idi ? "" : ", nor ANTENNA1 and ANTENNA2");
    for (int k = 0; k < MSI_UV_N_PARAMETER; k++)
        for (int i = 0; i < p->parameter[k].n; i++) {
            const msi_uv_column *c = &p->h->column[p->parameter[k].column[i]];
            if (!msi_uv_value_bytes(c->kind) || c->repeat != 1 || !isfinite(c->scale) || !isfinite(c->zero))
                return msi_error_set(MSI_EINPUT, "%s: column %s of its table UV_DATA has no number in a row", path,
                                     c->name);
            const int64_t end = c->offset + msi_uv_value_bytes(c->kind);
            if (end > p->head_bytes) p->head_bytes = end;
        }
    return MSI_OK;
}

static int add_part(msi_uv_set *s, const msi_uv_part *p)
{
    struct msi_uv_state *t = s->state;
    MSI_TRY(msi_grow(&t->part, t->n_part, t->n_part + 1, sizeof *t->part, "visibilities"));
    t->part[t->n_part] = *p;
    t->part[t->n_part].first_group = s->n_group;
    s->n_group += p->n_group;
    t->n_part++;
    return MSI_OK;
}

/* ---- UVFITS ---- */

/* Return the TFORM letter for a BITPIX; 0 if there is none. */
static char kind_of_bits(int bitpix)
{
    return bitpix == 8     ? 'B'
           : bitpix == 16  ? 'I'
           : bitpix == 32  ? 'J'
           : bitpix == 64  ? 'K'
           : bitpix == -32 ? 'E'
           : bitpix == -64 ? 'D'
                           : 0;
}

/* Describe the parameters and the array of a group as columns of a table. */
static int describe_groups(msi_uv_set *s, msi_uv_header *h, msi_uv_part *p)
{
    const char *path = s->state->bytes.path, kind = kind_of_bits(h->bitpix);
    if (!kind) return msi_error_set(MSI_EINPUT, "%s: BITPIX = %d is not a type of FITS", path, h->bitpix);
    if (h->bytes <= 0 || h->n_group < 1 || h->n_parameter < 1 || h->n_parameter >= h->n_described)
        return msi_error_set(MSI_EINPUT, "%s: invalid header: %lld groups with %lld parameters", path,
                             (long long)h->n_group, (long long)h->n_parameter);
    if (h->bytes > s->state->bytes.size - h->begin)
        return msi_error_set(MSI_EINPUT,
                             "truncated or corrupt: %s: it has %lld bytes of groups, but its header requires %lld",
                             path, (long long)(s->state->bytes.size - h->begin), (long long)h->bytes);
    const int size = msi_uv_value_bytes(kind);
    h->n_column = h->n_parameter + 1;
    for (int64_t i = 0; i < h->n_column; i++) {
        h->column[i].kind = kind;
        h->column[i].repeat = 1;
        h->column[i].offset = i * size;
    }
    msi_uv_column *data = &h->column[h->n_parameter];
    data->name[0] = 0;
    data->repeat = h->row_bytes / size - h->n_parameter;
    data->scale = msi_uv_header_number(h, "BSCALE", 1);
    data->zero = msi_uv_header_number(h, "BZERO", 0);
    *p = (msi_uv_part){.h = h, .n_group = h->n_group, .data = (int)h->n_parameter, .weight = -1};
    return MSI_OK;
}

/* Check the axis COMPLEX. It has 1 element for compressed data of AIPS: half of the bits of a float are the real part,
 * half the imaginary part. */
static int check_complex(const axes *a, const msi_uv_part *p, int least)
{
    const int64_t n = axis_length(a, AXIS_COMPLEX);
    const int is_compressed = least == 3 && n == 1 && p->parameter[MSI_UV_WEIGHT].n && p->parameter[MSI_UV_SCALE].n &&
                              p->h->column[p->data].kind == 'E';
    if ((n >= least && n <= 3) || is_compressed) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: its axis COMPLEX has %lld elements, not %s", a->path, (long long)n,
                         least == 3 ? "3: real part, imaginary part, weight" : "2 or 3");
}

static int describe_uvfits(msi_uv_set *s)
{
    struct msi_uv_state *t = s->state;
    axes a;
    msi_uv_part p = {0};
    int64_t n;
    MSI_TRY(describe_groups(s, &t->header[0], &p));
    MSI_TRY(find_axes(&a, p.h, t->bytes.path, 0));
    MSI_TRY(find_parameters(&p, t->bytes.path, 0));
    MSI_TRY(check_complex(&a, &p, 3));
    MSI_TRY(number_values(&a, &p, &n));
    p.n_complex = (int)axis_length(&a, AXIS_COMPLEX);
    s->has_channel_weights = p.n_complex == 3;
    MSI_TRY(take_shape(s, &a));
    return add_part(s, &p);
}

/* ---- FITS-IDI ---- */

/* Find the strides of the column WEIGHT, which has a weight for each band and correlation, or also for each channel. */
static int describe_weights(const msi_uv_set *s, const axes *a, msi_uv_part *p)
{
    p->weight = msi_uv_header_column(p->h, "WEIGHT");
    if (p->n_complex == 3 || p->weight < 0) {
        p->weight = -1;
        return MSI_OK;
    }
    const msi_uv_column *c = &p->h->column[p->weight];
    const int64_t n = axis_length(a, AXIS_STOKES) * axis_length(a, AXIS_IF);
    p->weight_if = axis_length(a, AXIS_STOKES);
    p->weight_chan = 0;
    if (c->repeat == n * axis_length(a, AXIS_FREQ) && axis_length(a, AXIS_FREQ) > 1) {
        p->weight_chan = p->weight_if;
        p->weight_if *= axis_length(a, AXIS_FREQ);
    } else if (c->repeat != n)
        return msi_error_set(MSI_EINPUT, "%s: column WEIGHT of its table UV_DATA has %lld values in a row, not %lld",
                             s->state->bytes.path, (long long)c->repeat, (long long)n);
    return MSI_OK;
}

/* Warn if a file contradicts itself. The axis STOKES is used, because it describes the visibilities and other programs
 * read it. */
static int check_first_stokes(msi_uv_set *s, const msi_uv_header *h, double first)
{
    const double stated = msi_uv_header_number(h, "STK_1", 0);
    if (stated == 0 || stated == first) return MSI_OK;
    if (stated > 0 && first < 0)
        return msi_error_set(MSI_EINPUT,
                             "%s: its table UV_DATA holds Stokes parameters by STK_1 = %g, but correlations by its "
                             "axis STOKES, which begins with %g",
                             s->state->bytes.path, stated, first);
    msi_uv_note(s, "STK_1 = %g, but the axis STOKES of its visibilities begins with %g, which is used", stated, first);
    return MSI_OK;
}

static int describe_rows(msi_uv_set *s, const msi_uv_header *h)
{
    const char *path = s->state->bytes.path;
    axes a;
    int64_t n;
    msi_uv_part p = {.h = h, .n_group = h->length[1], .data = msi_uv_header_column(h, "FLUX")};
    if (p.data < 0) return msi_error_set(MSI_EINPUT, "%s: its table UV_DATA has no column FLUX", path);
    MSI_TRY(find_axes(&a, h, path, 1));
    MSI_TRY(find_parameters(&p, path, 1));
    MSI_TRY(check_complex(&a, &p, 2));
    MSI_TRY(number_values(&a, &p, &n));
    p.n_complex = (int)axis_length(&a, AXIS_COMPLEX);
    const msi_uv_column *data = &h->column[p.data];
    if (data->repeat != n || !msi_uv_value_bytes(data->kind))
        return msi_error_set(MSI_EINPUT,
                             "%s: column FLUX of its table UV_DATA has %lld values in a row, but its axes have %lld",
                             path, (long long)data->repeat, (long long)n);
    const msi_uv_set before = *s;
    MSI_TRY(take_shape(s, &a));
    if (s->state->n_part && (before.n_chan != s->n_chan || before.n_if != s->n_if || before.n_corr != s->n_corr ||
                             memcmp(before.corr, s->corr, sizeof s->corr) != 0))
        return msi_error_set(MSI_EINPUT, "%s: its tables UV_DATA have visibilities of different shape", path);
    MSI_TRY(describe_weights(s, &a, &p));
    MSI_TRY(check_first_stokes(s, h, a.axis[a.at[AXIS_STOKES]].value));
    s->has_channel_weights |= p.n_complex == 3 || p.weight_chan > 0;
    return add_part(s, &p);
}

/* Visibilities of DiFX and VLBA correlators are weighted, unless WEIGHTYP has another value. Source: casacore,
 * FitsIDItoMS.cc. */
static void read_normalisation(msi_uv_set *s, const msi_uv_header *h)
{
    struct msi_uv_state *t = s->state;
    char kind[16], correlator[16];
    msi_uv_header_text(&t->header[0], "CORRELAT", correlator, sizeof correlator);
    const int is_vlba = strcmp(correlator, "VLBA") == 0 || (!*correlator && strcmp(s->telescope, "VLBA") == 0);
    const int is_known = msi_uv_header_text(h, "WEIGHTYP", kind, sizeof kind);
    t->visibility_scale = msi_uv_header_number(h, "VIS_SCAL", 1);
    t->needs_levels = is_vlba || strcmp(correlator, "DIFX") == 0;
    t->is_normalised = is_known ? strcmp(kind, "CORRELAT") == 0 : t->needs_levels;
    t->normalises_by_time = is_vlba && msi_uv_header_number(&t->header[0], "FXCORVER", 0) >= 4.17;
    t->has_van_vleck = msi_uv_header_number(&t->header[0], "VANVLECK", 0) != 0;
}

static int describe_idi(msi_uv_set *s)
{
    struct msi_uv_state *t = s->state;
    t->are_conjugate = 1;
    for (int i = 1; i < t->n_header; i++)
        if (strcmp(t->header[i].name, UV_DATA) == 0) {
            if (!t->n_part) read_normalisation(s, &t->header[i]);
            if (t->header[i].length[1] > 0) MSI_TRY(describe_rows(s, &t->header[i]));
        }
    return MSI_OK;
}

/* ---- The whole file ---- */

/* Return 1 if AIPS has written visibilities as a table, which it marks by NAXIS1 = 777777701 and NAXIS2 = 0. */
static int is_aips_table(const msi_uv_header *h)
{
    enum { SIGNATURE = 777777701 };
    return h->n_axis == 2 && h->length[0] == SIGNATURE && h->length[1] == 0;
}

static int not_fits(msi_uv_bytes *b)
{
    const unsigned char *bytes;
    if (b->size > 2 && msi_uv_bytes_get(b, 0, 2, &bytes) == MSI_OK && bytes[0] == 0x1f && bytes[1] == 0x8b)
        return msi_error_set(MSI_EINPUT, "%s: it is compressed by gzip; decompress it with gunzip first", b->path);
    return msi_error_set(MSI_EINPUT, "%s: neither a Measurement Set nor a FITS file with a complete header", b->path);
}

static int read_file(msi_uv_set *s)
{
    struct msi_uv_state *t = s->state;
    msi_uv_header primary;
    msi_uv_found found;
    int has_data = 0;
    int status = msi_uv_header_read(&t->bytes, 0, &primary, &found);
    if (!status && found != MSI_UV_HEADER) status = not_fits(&t->bytes);
    if (!status) status = add_header(t, &primary);
    if (status) {
        msi_uv_header_free(&primary);
        return status;
    }
    const msi_uv_header *h = &t->header[0];
    const int is_groups = h->is_groups && h->n_axis > 1 && h->length[0] == 0;
    if (is_aips_table(h))
        return msi_error_set(
            MSI_EINPUT,
            "%s: it holds visibilities in a table 'AIPS UV', as written by FITAB of AIPS and by the VLA "
            "archive; read it with FITLD of AIPS, and write UVFITS with FITTP",
            t->bytes.path);
    msi_uv_header_text(h, "TELESCOP", s->telescope, sizeof s->telescope);
    msi_uv_header_text(h, "OBSERVER", s->observer, sizeof s->observer);
    if (is_groups) {
        s->format = MSI_UV_UVFITS;
        MSI_TRY(describe_uvfits(s));
    } else if (h->n_axis > 0 && h->bytes > 0)
        return msi_error_set(
            MSI_EINPUT,
            "%s: a FITS file, but neither UVFITS (random groups) nor FITS-IDI; name a file or set of visibilities",
            t->bytes.path);
    MSI_TRY(read_extensions(s, msi_uv_in_whole_blocks(h->begin + (h->bytes > 0 ? h->bytes : 0))));
    for (int k = 0; is_groups && k < t->n_part; k++) t->part[k].h = &t->header[0];
    if (is_groups) return MSI_OK;
    for (int i = 1; i < t->n_header; i++) has_data |= strcmp(t->header[i].name, UV_DATA) == 0;
    if (!has_data)
        return msi_error_set(
            MSI_EINPUT,
            "%s: a FITS file, but neither UVFITS (random groups) nor FITS-IDI; name a file or set of visibilities",
            t->bytes.path);
    s->format = MSI_UV_FITSIDI;
    return describe_idi(s);
}

static int open_set(msi_uv_set *s, const char *path)
{
    struct msi_uv_state *t = s->state;
    t->visibility_scale = 1;
    MSI_TRY(msi_uv_bytes_open(&t->bytes, path));
    MSI_TRY(read_file(s));
    if (s->n_group < 1) return msi_error_set(MSI_EINPUT, "%s: has no visibilities", path);
    if (__builtin_mul_overflow(s->n_group, (int64_t)s->n_if, &s->n_row))
        return msi_error_set(MSI_EINPUT, "%s: invalid header: %lld groups of %d windows", path, (long long)s->n_group,
                             s->n_if);
    t->bytes.ahead = AHEAD_BYTES;
    MSI_TRY(msi_uv_tables_read(s));
    return msi_uv_rows_scan(s);
}

int msi_uv_set_open(msi_uv_set **out, const char *path, int (*interrupt)(void))
{
    msi_uv_set *s;
    *out = NULL;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "a file of visibilities"));
    int status = msi_alloc(&s->state, 1, sizeof *s->state, "a file of visibilities");
    if (!status) {
        s->state->bytes.fd = -1;
        s->state->interrupt = interrupt;
        status = open_set(s, path);
    }
    if (status)
        msi_uv_set_free(s);
    else
        *out = s;
    return status;
}

static void free_state(struct msi_uv_state *t)
{
    msi_uv_bytes_close(&t->bytes);
    for (int i = 0; i < t->n_header; i++) msi_uv_header_free(&t->header[i]);
    for (int64_t i = 0; i < t->n_station_table; i++) msi_free(t->station_table[i].antenna);
    void *const all[] = {t->header,     t->part,        t->station_table, t->level,  t->source_of,
                         t->source_row, t->setting_row, t->setting_of,    t->weight, t->time_s,
                         t->source,     t->setting,     t->scan};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) msi_free(all[i]);
    msi_free(t);
}

void msi_uv_set_free(msi_uv_set *s)
{
    if (!s) return;
    if (s->state) free_state(s->state);
    for (int64_t i = 0; s->window && i < s->n_window; i++) {
        msi_free(s->window[i].freq_hz);
        msi_free(s->window[i].width_hz);
    }
    msi_free(s->antenna);
    msi_free(s->source);
    msi_free(s->window);
    msi_free(s);
}
