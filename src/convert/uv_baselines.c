/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/uv_baselines.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "io/ms/ms_child.h"

enum {
    BY_2048 = 65536,  /* codes by 2048 begin above it */
    N_SPLIT = 3,      /* parameters in the place of BASELINE */
    LOOK_EACH = 65536 /* groups between looks at the signal flag, and steps of the process's CPU time */
};

typedef struct antennas {
    int64_t subarray, first, second; /* counted from 1 */
} antennas;

/* ---- One group ---- */

static int element_bytes(const msi_uv_file *h)
{
    return abs(h->primary.bitpix) / 8;
}

static double parameter_value(const msi_uv_file *h, int i, const unsigned char *group)
{
    const int size = element_bytes(h);
    const unsigned char *p = group + i * size;
    uint32_t bits = 0;
    for (int k = 0; k < size; k++) bits = bits << 8 | p[k];
    float value;
    memcpy(&value, &bits, sizeof value);
    const double stored = h->primary.bitpix == -32 ? (double)value
                          : size == 4              ? (double)(int32_t)bits
                          : size == 2              ? (double)(int16_t)bits
                                                   : (double)bits;
    return stored * h->primary.scale[i] + h->primary.zero[i];
}

/* Take a code apart; 1 where it is one, else 0. */
static int decode(double baseline, antennas *a)
{
    if (!(baseline >= 0 && baseline < INT32_MAX)) return 0;
    const int64_t code = (int64_t)baseline;
    a->subarray = 1 + llrint(100 * (baseline - (double)code));
    a->first = code < BY_2048 ? code / 256 : (code - BY_2048) / 2048;
    a->second = code < BY_2048 ? code % 256 : (code - BY_2048) % 2048;
    return 1;
}

static int find_parameter(const msi_uv_file *h, const char *name)
{
    for (int i = 0; i < h->primary.n_parameter; i++)
        if (strcmp(h->primary.parameter[i], name) == 0) return i;
    return -1;
}

static int find_baseline(const msi_uv_file *h)
{
    return find_parameter(h, "BASELINE");
}

static int no_antennas(const char *path, int64_t group, double baseline)
{
    return msi_error_set(MSI_EINPUT,
                         "truncated or corrupt: %s: group %lld: BASELINE = %g is not a code of two antennas", path,
                         (long long)group, baseline);
}

static int read_failed(const char *path, int64_t group)
{
    return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: group %lld cannot be read", path, (long long)group);
}

static int has_antennas(const msi_uv_file *h)
{
    return find_parameter(h, "ANTENNA1") >= 0 && find_parameter(h, "ANTENNA2") >= 0 &&
           find_parameter(h, "SUBARRAY") >= 0;
}

/* Tell a group's antennas, by their code or by parameters of their own. */
static int antennas_of(const msi_uv_file *h, const char *path, int64_t i, const unsigned char *group, antennas *a)
{
    const int at = find_baseline(h);
    if (at >= 0) {
        const double baseline = parameter_value(h, at, group);
        return decode(baseline, a) && a->subarray < MSI_UV_MOST_IDS ? MSI_OK : no_antennas(path, i, baseline);
    }
    const double value[] = {parameter_value(h, find_parameter(h, "SUBARRAY"), group),
                            parameter_value(h, find_parameter(h, "ANTENNA1"), group),
                            parameter_value(h, find_parameter(h, "ANTENNA2"), group)};
    for (int k = 0; k < N_SPLIT; k++)
        if (!(value[k] >= 0 && value[k] < MSI_UV_MOST_IDS))
            return msi_error_set(
                MSI_EINPUT,
                "truncated or corrupt: %s: group %lld: SUBARRAY, ANTENNA1, ANTENNA2 = %g, %g, %g are not valid", path,
                (long long)i, value[0], value[1], value[2]);
    *a = (antennas){(int64_t)value[0], (int64_t)value[1], (int64_t)value[2]};
    return MSI_OK;
}

/* ---- Check ---- */

/* Add the number that a group names, if it has that parameter; 0 is no number, but some write it where there is one
 * source alone. */
static int add_id(const msi_uv_file *h, const char *name, int64_t least, const unsigned char *group, msi_uv_ids *ids)
{
    const int at = find_parameter(h, name);
    if (at < 0) return MSI_OK;
    const double value = parameter_value(h, at, group);
    if (!(value >= (double)least && value < MSI_UV_MOST_IDS)) return MSI_EINPUT;
    msi_uv_ids_add(ids, (int64_t)value);
    return MSI_OK;
}

/* Look at the parameters of one group. Given: of  what look() was given */
typedef int look_at_group(void *of, int64_t i, const unsigned char *group);

/* Look at all groups in turn. */
static int look(const msi_uv_file *h, const char *path, look_at_group *at_group, void *of)
{
    const int64_t head = h->primary.n_parameter * element_bytes(h);
    unsigned char *group;
    FILE *f = fopen(path, "rbe");
    if (!f) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    int status = msi_alloc(&group, head, 1, "parameters of a group");
    for (int64_t i = 0; !status && i < h->primary.n_group; i++) {
        if (i % LOOK_EACH == 0) {
            if ((status = msi_interrupt_check())) break;
            msi_child_progress(MSI_CHILD_STEP_S);
        }
        if (fseeko(f, h->data_begin + i * h->group_bytes, SEEK_SET) != 0 || fread(group, (size_t)head, 1, f) != 1)
            status = read_failed(path, i);
        else
            status = at_group(of, i, group);
    }
    msi_free(group);
    fclose(f);
    return status;
}

typedef struct group_check {
    msi_uv_file *h;
    const char *path;
    int baseline; /* which parameter; -1: none */
} group_check;

static int check_group(void *of, int64_t i, const unsigned char *group)
{
    const group_check *c = of;
    msi_uv_file *h = c->h;
    antennas a;
    MSI_TRY(antennas_of(h, c->path, i, group, &a));
    h->has_wide_codes |= c->baseline >= 0 && parameter_value(h, c->baseline, group) >= BY_2048;
    h->has_zero |= a.first == 0 || a.second == 0;
    msi_uv_ids_add(&h->subarray, a.subarray);
    if (add_id(h, "FREQSEL", 1, group, &h->freqsel))
        return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: group %lld: FREQSEL is not a row of a table",
                             c->path, (long long)i);
    if (add_id(h, "SOURCE", 0, group, &h->source))
        return msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: group %lld: SOURCE is not a row of a table",
                             c->path, (long long)i);
    return MSI_OK;
}

int msi_uv_baselines_check(msi_uv_file *h, const char *path)
{
    h->has_wide_codes = 0;
    if (find_baseline(h) < 0 && !has_antennas(h))
        return msi_error_set(MSI_EINPUT, "%s: its groups have no parameter BASELINE, nor SUBARRAY, ANTENNA1, ANTENNA2",
                             path);
    group_check c = {h, path, find_baseline(h)};
    return look(h, path, check_group, &c);
}

/* ---- Coordinates ---- */

enum { COORDINATES = 3 };
static const char *const coordinate[COORDINATES] = {"UU", "VV", "WW"};

int msi_uv_baselines_has_sums(const msi_uv_file *h)
{
    int n = 0;
    for (int k = 0; k < COORDINATES; k++)
        for (int i = 0; i < h->primary.n_parameter; i++) n += strncmp(h->primary.parameter[i], coordinate[k], 2) == 0;
    return n > COORDINATES;
}

typedef struct coordinates {
    const msi_uv_file *h;
    double *uvw_m; /* [n_group][n_if][3] */
} coordinates;

static int sum_coordinates(void *of, int64_t i, const unsigned char *group)
{
    const coordinates *c = of;
    double *first = c->uvw_m + i * c->h->n_if * COORDINATES;
    for (int k = 0; k < COORDINATES; k++) {
        first[k] = 0;
        for (int p = 0; p < c->h->primary.n_parameter; p++)
            if (strncmp(c->h->primary.parameter[p], coordinate[k], 2) == 0)
                first[k] += MSI_SPEED_OF_LIGHT * parameter_value(c->h, p, group);
    }
    for (int64_t n = 1; n < c->h->n_if; n++) memcpy(first + n * COORDINATES, first, COORDINATES * sizeof *first);
    return MSI_OK;
}

int msi_uv_baselines_coordinates(const msi_uv_file *h, const char *path, double *uvw_m)
{
    coordinates c = {h, uvw_m};
    return look(h, path, sum_coordinates, &c);
}

/* ---- Copy ---- */

/* A copy under way. */
typedef struct copy {
    const msi_uv_file *h;
    const char *path;
    const msi_uv_stations *stations; /* NULL: numbers stay */
    FILE *from, *to;
    int64_t n_put; /* bytes */
} copy;

static int put(copy *c, const void *bytes, size_t n)
{
    if (n && fwrite(bytes, n, 1, c->to) != 1)
        return msi_error_set(MSI_EOUTPUT, "a copy of %s cannot be written: %s", c->path, strerror(errno));
    c->n_put += (int64_t)n;
    return MSI_OK;
}

/* Fill the last block up. */
static int fill(copy *c, char with)
{
    char block[MSI_UV_BLOCK];
    memset(block, with, sizeof block);
    return put(c, block, (size_t)((MSI_UV_BLOCK - c->n_put % MSI_UV_BLOCK) % MSI_UV_BLOCK));
}

static int put_stretch(copy *c, int64_t at, int64_t end)
{
    char bytes[16 * MSI_UV_BLOCK];
    if (fseeko(c->from, at, SEEK_SET) != 0) return msi_error_set(MSI_EINPUT, "%s: %s", c->path, strerror(errno));
    for (size_t n = 0; at < end; at += (int64_t)n) {
        const size_t wanted = end - at < (int64_t)sizeof bytes ? (size_t)(end - at) : sizeof bytes;
        n = fread(bytes, 1, wanted, c->from);
        if (n == 0) break; /* files without the filling of their last block are common */
        MSI_TRY(put(c, bytes, n));
    }
    return fill(c, 0);
}

static int put_card(copy *c, const char *key, int number, const char *value)
{
    char card[MSI_UV_CARD + 1], name[16];
    snprintf(name, sizeof name, number ? "%s%d" : "%s", key, number);
    snprintf(card, sizeof card, "%-8.8s= %-70.70s", name, value);
    return put(c, card, MSI_UV_CARD);
}

/* Describe the parameters that take the place of BASELINE: the first in its place, the others behind all. */
static int put_split_cards(copy *c, int at)
{
    static const char *const names[N_SPLIT] = {"'SUBARRAY'", "'ANTENNA1'", "'ANTENNA2'"};
    for (int i = 0; i < N_SPLIT; i++) {
        const int number = i ? (int)c->h->primary.n_parameter + i : at + 1;
        MSI_TRY(put_card(c, "PTYPE", number, names[i]));
        MSI_TRY(put_card(c, "PSCAL", number, "                 1.0"));
        MSI_TRY(put_card(c, "PZERO", number, "                 0.0"));
    }
    return MSI_OK;
}

/* Tell whether a card scales a parameter. */
static int is_scaling(const char *card, int parameter)
{
    return msi_uv_hdu_indexed(card, "PSCAL", MSI_UV_MAX_PARAMETERS) == parameter ||
           msi_uv_hdu_indexed(card, "PZERO", MSI_UV_MAX_PARAMETERS) == parameter;
}

static int put_split_header(copy *c, int at)
{
    static const char *const of_parameter[] = {"PTYPE", "PSCAL", "PZERO"};
    char card[MSI_UV_CARD + 1] = {0}, count[24];
    snprintf(count, sizeof count, "%20lld", (long long)c->h->primary.n_parameter + N_SPLIT - 1);
    rewind(c->from);
    while (fread(card, MSI_UV_CARD, 1, c->from) == 1 && strncmp(card, "END     ", 8) != 0) {
        int is_replaced = strncmp(card, "PCOUNT  =", 9) == 0;
        if (is_replaced) MSI_TRY(put_card(c, "PCOUNT", 0, count));
        for (int i = 0; i < 3; i++)
            is_replaced |= msi_uv_hdu_indexed(card, of_parameter[i], MSI_UV_MAX_PARAMETERS) == at + 1;
        if (!is_replaced) MSI_TRY(put(c, card, MSI_UV_CARD));
    }
    MSI_TRY(put_split_cards(c, at));
    MSI_TRY(put(c, "END     ", 8));
    return fill(c, ' ');
}

/* A file that has both its antennas and their code keeps them, unscaled: casacore, which would read the code, finds
 * none. */
static int put_uncoded_header(copy *c, int at)
{
    char card[MSI_UV_CARD + 1] = {0};
    const int first = find_parameter(c->h, "ANTENNA1") + 1, second = find_parameter(c->h, "ANTENNA2") + 1;
    rewind(c->from);
    while (fread(card, MSI_UV_CARD, 1, c->from) == 1 && strncmp(card, "END     ", 8) != 0) {
        if (at >= 0 && msi_uv_hdu_indexed(card, "PTYPE", MSI_UV_MAX_PARAMETERS) == at + 1)
            MSI_TRY(put_card(c, "PTYPE", at + 1, "'CODE    '"));
        else if (!is_scaling(card, first) && !is_scaling(card, second))
            MSI_TRY(put(c, card, MSI_UV_CARD));
    }
    MSI_TRY(put(c, "END     ", 8));
    return fill(c, ' ');
}

/* Put a number in the file's form. */
static void put_number(const msi_uv_file *h, int64_t value, unsigned char *to)
{
    const int size = element_bytes(h);
    const float as_float = (float)value;
    uint32_t bits = (uint32_t)value;
    if (h->primary.bitpix == -32) memcpy(&bits, &as_float, sizeof bits);
    for (int k = 0; k < size; k++) to[k] = (unsigned char)(bits >> 8 * (size - 1 - k));
}

/* Give a group's antennas their numbers in the one table. */
static int renumber_antennas(const copy *c, int64_t i, antennas *a)
{
    if (!c->stations) return a->first && a->second ? MSI_OK : no_antennas(c->path, i, (double)a->second);
    const int64_t first = msi_uv_stations_number(c->stations, a->subarray, a->first),
                  second = msi_uv_stations_number(c->stations, a->subarray, a->second);
    if (!first || !second)
        return msi_error_set(MSI_EINPUT,
                             "%s: group %lld: antenna %lld of subarray %lld is not in the file's tables AIPS AN",
                             c->path, (long long)i, (long long)(first ? a->second : a->first), (long long)a->subarray);
    a->first = first;
    a->second = second;
    return MSI_OK;
}

static int put_split_group(copy *c, int at, int64_t i, unsigned char *group)
{
    const msi_uv_file *h = c->h;
    const int size = element_bytes(h);
    const size_t head = (size_t)(h->primary.n_parameter * size);
    unsigned char more[2 * sizeof(uint32_t)];
    antennas a;
    if (fread(group, (size_t)h->group_bytes, 1, c->from) != 1) return read_failed(c->path, i);
    MSI_TRY(antennas_of(h, c->path, i, group, &a));
    MSI_TRY(renumber_antennas(c, i, &a));
    if (has_antennas(h)) {
        put_number(h, a.first, group + find_parameter(h, "ANTENNA1") * size);
        put_number(h, a.second, group + find_parameter(h, "ANTENNA2") * size);
        return put(c, group, (size_t)h->group_bytes);
    }
    /* casacore makes ARRAY_ID of it, which is counted from 0. */
    put_number(h, a.subarray - 1, group + at * size);
    put_number(h, a.first, more);
    put_number(h, a.second, more + size);
    MSI_TRY(put(c, group, head));
    MSI_TRY(put(c, more, 2 * (size_t)size));
    return put(c, group + head, (size_t)h->group_bytes - head);
}

static int put_split(copy *c)
{
    const msi_uv_file *h = c->h;
    const int at = find_baseline(h);
    const int64_t groups_end = h->data_begin + h->group_bytes * h->primary.n_group;
    unsigned char *group;
    int status = MSI_OK;
    MSI_TRY(has_antennas(h) ? put_uncoded_header(c, at) : put_split_header(c, at));
    if (fseeko(c->from, h->data_begin, SEEK_SET) != 0) return read_failed(c->path, 0);
    MSI_TRY(msi_alloc(&group, h->group_bytes, 1, "a group"));
    for (int64_t i = 0; !status && i < h->primary.n_group; i++) status = put_split_group(c, at, i, group);
    msi_free(group);
    if (!status) status = fill(c, 0);
    return status ? status : put_stretch(c, msi_uv_in_blocks(groups_end), h->end);
}

static int put_all(copy *c)
{
    return put_stretch(c, 0, c->h->end);
}

static int make_copy(const msi_uv_file *h, const char *path, const char *to, const msi_uv_stations *stations,
                     int (*work)(copy *))
{
    copy c = {.h = h, .path = path, .stations = stations, .from = fopen(path, "rbe")};
    if (!c.from) return msi_error_set(MSI_EINPUT, "%s: %s", path, strerror(errno));
    c.to = fopen(to, "wbxe");
    int status = c.to ? work(&c) : msi_error_set(MSI_EOUTPUT, "%s: %s", to, strerror(errno));
    if (c.to && fclose(c.to) != 0 && !status)
        status = msi_error_set(MSI_EOUTPUT, "a copy of %s cannot be written: %s", path, strerror(errno));
    fclose(c.from);
    return status;
}

int msi_uv_baselines_split(const msi_uv_file *h, const char *path, const char *to, const msi_uv_stations *stations)
{
    return make_copy(h, path, to, stations, put_split);
}

int msi_uv_baselines_keep(const msi_uv_file *h, const char *path, const char *to)
{
    return make_copy(h, path, to, NULL, put_all);
}
