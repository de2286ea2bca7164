/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/support/ms_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MUST(expr)                                                                                                     \
    do {                                                                                                               \
        if ((expr) != CCC_OK) {                                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, ccc_error());                                           \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static int n_baseline(const ms_fixture *f)
{
    return f->n_antenna * (f->n_antenna + 1) / 2;
}

int64_t fixture_n_row(const ms_fixture *f)
{
    return (int64_t)f->n_time * f->n_spw * n_baseline(f);
}

void fixture_row(const ms_fixture *f, int64_t row, int *time, int *spw, int *antenna1, int *antenna2)
{
    const int per_time = f->n_spw * n_baseline(f);
    const int in_time = (int)(row % per_time);
    int baseline = f->interleaved ? in_time / f->n_spw : in_time % n_baseline(f);
    *time = (int)(row / per_time);
    *spw = f->interleaved ? in_time % f->n_spw : in_time / n_baseline(f);
    *antenna1 = 0;
    while (baseline >= f->n_antenna - *antenna1) baseline -= f->n_antenna - (*antenna1)++;
    *antenna2 = *antenna1 + baseline;
}

double fixture_freq_hz(const ms_fixture *f, int spw, int chan)
{
    const double base = 1.0e9 + 1.0e8 * spw;
    return f->descending[spw] ? base + 1e6 * (f->n_chan[spw] - 1 - chan) : base + 1e6 * chan;
}

float fixture_data(int64_t row, int chan, int corr, float *imaginary)
{
    *imaginary = (float)(chan * 10 + corr);
    return (float)(row % 100000);
}

int fixture_flag(int64_t row, int chan, int corr)
{
    return (row * 7 + chan * 3 + corr) % 11 == 0;
}

int fixture_flag_row(int64_t row)
{
    return row % 13 == 5;
}

float fixture_weight(int64_t row, int corr)
{
    return 1.0f + (float)(row % 5) + 0.25f * (float)corr;
}

float fixture_weight_spectrum(int64_t row, int chan, int corr)
{
    return 10.0f + (float)(row % 7) + 0.5f * (float)chan + 0.125f * (float)corr;
}

int fixture_has_spectrum(const ms_fixture *f, int64_t row)
{
    return f->with_weight_spectrum == 1 || (f->with_weight_spectrum == 2 && row % 3 != 0);
}

void fixture_uvw_m(int64_t row, double uvw_m[3])
{
    uvw_m[0] = 10.0 + (double)(row % 1000);
    uvw_m[1] = -5.0 - 0.5 * (double)(row % 777);
    uvw_m[2] = 0.25 * (double)(row % 333) - 20;
}

static const int CODES[5][4] = {{0}, {9}, {9, 12}, {0}, {9, 10, 11, 12}};

static void fill_antenna(const ms_fixture *f, ccc_table *ms)
{
    ccc_table *t;
    const int64_t three = 3;
    MUST(ccc_subtable_open(&t, ms, "ANTENNA"));
    MUST(ccc_table_add_rows(t, f->n_antenna));
    for (int i = 0; i < f->n_antenna; i++) {
        const double position[3] = {5.0e6 + 100.0 * i, 1.0e6, 3.0e6 - 50.0 * i}, offset[3] = {0};
        char name[32];
        snprintf(name, sizeof name, "A%d", i);
        MUST(ccc_put_string(t, "NAME", i, name));
        MUST(ccc_put_string(t, "STATION", i, name));
        MUST(ccc_put_string(t, "TYPE", i, "GROUND-BASED"));
        MUST(ccc_put_string(t, "MOUNT", i, "ALT-AZ"));
        MUST(ccc_put_array(t, "POSITION", i, 1, &three, CCC_DOUBLE, position));
        MUST(ccc_put_array(t, "OFFSET", i, 1, &three, CCC_DOUBLE, offset));
        MUST(ccc_put_double(t, "DISH_DIAMETER", i, 25));
    }
    MUST(ccc_table_close(t));
}

static void fill_field(const ms_fixture *f, ccc_table *ms)
{
    ccc_table *t;
    const int64_t shape[2] = {2, 1};
    static const char *const columns[] = {"PHASE_DIR", "DELAY_DIR", "REFERENCE_DIR"};
    MUST(ccc_subtable_open(&t, ms, "FIELD"));
    MUST(ccc_table_add_rows(t, f->n_field));
    for (int i = 0; i < f->n_field; i++) {
        const double direction[2] = {1.0 + 0.1 * i, -0.5};
        char name[32];
        snprintf(name, sizeof name, "F%d", i);
        MUST(ccc_put_string(t, "NAME", i, name));
        MUST(ccc_put_int(t, "SOURCE_ID", i, i));
        for (int k = 0; k < 3; k++) MUST(ccc_put_array(t, columns[k], i, 2, shape, CCC_DOUBLE, direction));
    }
    MUST(ccc_table_close(t));
}

static void fill_spectral(const ms_fixture *f, ccc_table *ms)
{
    ccc_table *spw, *pol, *dd;
    MUST(ccc_subtable_open(&spw, ms, "SPECTRAL_WINDOW"));
    MUST(ccc_subtable_open(&pol, ms, "POLARIZATION"));
    MUST(ccc_subtable_open(&dd, ms, "DATA_DESCRIPTION"));
    MUST(ccc_table_add_rows(spw, f->n_spw));
    MUST(ccc_table_add_rows(pol, f->n_spw));
    MUST(ccc_table_add_rows(dd, f->n_spw));
    for (int i = 0; i < f->n_spw; i++) {
        const int64_t n_chan = f->n_chan[i], n_corr = f->n_corr[i], product[2] = {2, f->n_corr[i]};
        double *freq = calloc((size_t)n_chan, sizeof *freq), *width = calloc((size_t)n_chan, sizeof *width);
        int32_t corr[4], products[8] = {0};
        for (int c = 0; c < n_chan; c++) {
            freq[c] = fixture_freq_hz(f, i, c);
            width[c] = f->descending[i] ? -1e6 : 1e6;
        }
        for (int c = 0; c < n_corr; c++) corr[c] = CODES[n_corr][c];
        MUST(ccc_put_int(spw, "NUM_CHAN", i, n_chan));
        MUST(ccc_put_array(spw, "CHAN_FREQ", i, 1, &n_chan, CCC_DOUBLE, freq));
        MUST(ccc_put_array(spw, "CHAN_WIDTH", i, 1, &n_chan, CCC_DOUBLE, width));
        MUST(ccc_put_array(spw, "RESOLUTION", i, 1, &n_chan, CCC_DOUBLE, width));
        MUST(ccc_put_array(spw, "EFFECTIVE_BW", i, 1, &n_chan, CCC_DOUBLE, width));
        MUST(ccc_put_double(spw, "REF_FREQUENCY", i, freq[0]));
        MUST(ccc_put_double(spw, "TOTAL_BANDWIDTH", i, 1e6 * (double)n_chan));
        MUST(ccc_put_int(spw, "MEAS_FREQ_REF", i, 1));
        MUST(ccc_put_int(pol, "NUM_CORR", i, n_corr));
        MUST(ccc_put_array(pol, "CORR_TYPE", i, 1, &n_corr, CCC_INT32, corr));
        MUST(ccc_put_array(pol, "CORR_PRODUCT", i, 2, product, CCC_INT32, products));
        MUST(ccc_put_int(dd, "SPECTRAL_WINDOW_ID", i, i));
        MUST(ccc_put_int(dd, "POLARIZATION_ID", i, i));
        free(freq);
        free(width);
    }
    MUST(ccc_table_close(spw));
    MUST(ccc_table_close(pol));
    MUST(ccc_table_close(dd));
}

static void fill_observation(const ms_fixture *f, ccc_table *ms)
{
    ccc_table *t;
    const int64_t two = 2, one = 1;
    const double range[2] = {4.0e9, 4.1e9}, rest = 1.42e9;
    MUST(ccc_subtable_open(&t, ms, "OBSERVATION"));
    MUST(ccc_table_add_rows(t, 1));
    MUST(ccc_put_string(t, "TELESCOPE_NAME", 0, "VLA"));
    MUST(ccc_put_string(t, "OBSERVER", 0, "someone"));
    MUST(ccc_put_array(t, "TIME_RANGE", 0, 1, &two, CCC_DOUBLE, range));
    MUST(ccc_table_close(t));
    if (!f->with_source) return;
    MUST(ccc_ms_add_source(ms));
    MUST(ccc_subtable_open(&t, ms, "SOURCE"));
    MUST(ccc_table_add_rows(t, 1));
    MUST(ccc_put_int(t, "SOURCE_ID", 0, 0));
    MUST(ccc_put_array(t, "REST_FREQUENCY", 0, 1, &one, CCC_DOUBLE, &rest));
    MUST(ccc_table_close(t));
}

static void fill_row(const ms_fixture *f, ccc_table *ms, int64_t row)
{
    int time, spw, antenna1, antenna2;
    fixture_row(f, row, &time, &spw, &antenna1, &antenna2);
    const int64_t n_corr = f->n_corr[spw], n_chan = f->n_chan[spw], cell[2] = {n_corr, n_chan}, three = 3;
    const size_t n = (size_t)(n_corr * n_chan);
    float *data = calloc(n, 2 * sizeof *data), *twice = calloc(n, 2 * sizeof *twice);
    float *spectrum = calloc(n, sizeof *spectrum), weight[4];
    uint8_t *flag = calloc(n, 1);
    double uvw[3];
    fixture_uvw_m(row, uvw);
    for (int c = 0; c < n_chan; c++)
        for (int p = 0; p < n_corr; p++) {
            const size_t i = (size_t)(c * n_corr + p);
            data[2 * i] = fixture_data(row, c, p, &data[2 * i + 1]);
            twice[2 * i] = 2 * data[2 * i];
            twice[2 * i + 1] = 2 * data[2 * i + 1];
            flag[i] = (uint8_t)fixture_flag(row, c, p);
            spectrum[i] = fixture_weight_spectrum(row, c, p);
        }
    for (int p = 0; p < n_corr; p++) weight[p] = fixture_weight(row, p);
    MUST(ccc_put_int(ms, "DATA_DESC_ID", row, spw));
    MUST(ccc_put_int(ms, "FIELD_ID", row, time % f->n_field));
    MUST(ccc_put_int(ms, "ANTENNA1", row, antenna1));
    MUST(ccc_put_int(ms, "ANTENNA2", row, antenna2));
    MUST(ccc_put_double(ms, "TIME", row, 4.0e9 + 10.0 * time));
    MUST(ccc_put_double(ms, "TIME_CENTROID", row, 4.0e9 + 10.0 * time));
    MUST(ccc_put_double(ms, "INTERVAL", row, 10));
    MUST(ccc_put_double(ms, "EXPOSURE", row, 10));
    MUST(ccc_put_int(ms, "SCAN_NUMBER", row, 1));
    MUST(ccc_put_bool(ms, "FLAG_ROW", row, fixture_flag_row(row)));
    MUST(ccc_put_array(ms, "UVW", row, 1, &three, CCC_DOUBLE, uvw));
    MUST(ccc_put_array(ms, "WEIGHT", row, 1, &n_corr, CCC_FLOAT, weight));
    MUST(ccc_put_array(ms, "SIGMA", row, 1, &n_corr, CCC_FLOAT, weight));
    MUST(ccc_put_array(ms, "FLAG", row, 2, cell, CCC_BOOL, flag));
    MUST(ccc_put_array(ms, "DATA", row, 2, cell, CCC_COMPLEX, data));
    if (f->with_corrected) MUST(ccc_put_array(ms, "CORRECTED_DATA", row, 2, cell, CCC_COMPLEX, twice));
    if (fixture_has_spectrum(f, row)) MUST(ccc_put_array(ms, "WEIGHT_SPECTRUM", row, 2, cell, CCC_FLOAT, spectrum));
    free(data);
    free(twice);
    free(spectrum);
    free(flag);
}

void fixture_make(const ms_fixture *f, const char *path)
{
    ccc_table *ms;
    ccc_column_spec columns[3] = {{.name = "DATA", .ndim = 2}};
    int n_column = 1;
    if (f->with_corrected) columns[n_column++] = (ccc_column_spec){.name = "CORRECTED_DATA", .ndim = 2};
    if (f->with_weight_spectrum) columns[n_column++] = (ccc_column_spec){.name = "WEIGHT_SPECTRUM", .ndim = 2};
    static const char *const data[] = {"DATA"}, *const flag[] = {"FLAG"}, *const spectrum[] = {"WEIGHT_SPECTRUM"},
                             *const corrected[] = {"CORRECTED_DATA"},
                             *const slow[] = {"TIME", "DATA_DESC_ID", "FIELD_ID", "FLAG_ROW"};
    int n_storage = 3;
    ccc_storage storage[5] = {
        {.type = "TiledShapeStMan", .n_column = 1, .columns = data, .tile_ndim = 3, .tile_shape = {4, 8, 64}},
        {.type = "TiledShapeStMan", .n_column = 1, .columns = flag, .tile_ndim = 3, .tile_shape = {4, 8, 64}},
        {.type = "IncrementalStMan", .n_column = 4, .columns = slow}};
    const ccc_storage others[] = {
        {.type = "TiledShapeStMan", .n_column = 1, .columns = spectrum, .tile_ndim = 3, .tile_shape = {4, 8, 64}},
        {.type = "TiledShapeStMan", .n_column = 1, .columns = corrected, .tile_ndim = 3, .tile_shape = {4, 200, 16}}};
    if (f->with_weight_spectrum) storage[n_storage++] = others[0];
    if (f->with_corrected) storage[n_storage++] = others[1];
    MUST(ccc_ms_create(&ms, path, columns, n_column, storage, f->tiled ? n_storage : 0));
    fill_antenna(f, ms);
    fill_field(f, ms);
    fill_spectral(f, ms);
    fill_observation(f, ms);
    const int64_t n_row = fixture_n_row(f);
    MUST(ccc_table_add_rows(ms, n_row));
    for (int64_t row = 0; row < n_row; row++) fill_row(f, ms, row);
    MUST(ccc_table_close(ms));
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) hash = (hash ^ p[i]) * 1099511628211u;
    return hash;
}

/* Add the hashes of the entries, so that their order in the directory does not matter. */
uint64_t fixture_hash(const char *path)
{
    struct stat info;
    if (lstat(path, &info) != 0) return 0;
    uint64_t hash = mix(14695981039346656037u, path, strlen(path));
    hash = mix(hash, &info.st_mode, sizeof info.st_mode);
    hash = mix(hash, &info.st_mtim, sizeof info.st_mtim);
    if (S_ISDIR(info.st_mode)) {
        DIR *d = opendir(path);
        struct dirent *e;
        while (d && (e = readdir(d))) {
            char below[8192];
            if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
            snprintf(below, sizeof below, "%s/%s", path, e->d_name);
            hash += fixture_hash(below);
        }
        if (d) closedir(d);
    } else {
        char buffer[65536];
        size_t n;
        FILE *f = fopen(path, "rb");
        while (f && (n = fread(buffer, 1, sizeof buffer, f)) > 0) hash = mix(hash, buffer, n);
        if (f) fclose(f);
    }
    return hash;
}
