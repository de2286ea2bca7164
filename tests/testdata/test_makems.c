/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Tests the generator of sets: its sets are read by the casacore bindings. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/process.h"
#include "core/status.h"
#include "io/casacore-c/casacore_c.h"
#include "testdata/makems.h"
#include "testdata/point_model.h"
#include "tests/support/temp_folder.h"

enum { N_STATION = 6, N_TIME = 4, MAX_SAMPLE = 64 };

static msi_layout layout;
static const msi_makems_field fields[2] = {{"north", 1.0, -0.4}, {"south", 1.1, -0.6}};
static const msi_makems_spw same_shape[2] = {{5, 100e6, 2e6, 4, {MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY}},
                                             {5, 140e6, -1.5e6, 4, {MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY}}};
static const msi_makems_spw mixed[3] = {{3, 1.4e9, 1e6, 4, {MSI_POL_RR, MSI_POL_RL, MSI_POL_LR, MSI_POL_LL}},
                                        {7, 1.5e9, -3e6, 2, {MSI_POL_RR, MSI_POL_LL}},
                                        {1, 1.6e9, 2e6, 1, {MSI_POL_RR}}};
static const msi_makems_source sources[2] = {{1.05, -0.45, {2, 0.3, -0.2, 0.1}, -0.7}, {0.9, -0.5, {0.5, 0, 0, 0}, 0}};

static msi_makems_spec small(const msi_makems_spw *spw, int n_spw)
{
    return (msi_makems_spec){.layout = &layout,
                             .n_field = 1,
                             .field = fields,
                             .n_spw = n_spw,
                             .spw = spw,
                             .n_source = 2,
                             .source = sources,
                             .integration_s = 10,
                             .n_time = N_TIME,
                             .seed = 3};
}

static const char *path_of(const char *name)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", temp_folder, name);
    return path;
}

static void make(const char *path, const msi_makems_spec *spec)
{
    if (msi_makems_write(path, spec) != MSI_OK) fail_msg("%s", msi_error_get());
}

static void assert_ccc(int status)
{
    if (status != CCC_OK) fail_msg("%s", ccc_error());
}

static ccc_table *open_set(const char *path)
{
    ccc_table *ms;
    assert_ccc(ccc_table_open(&ms, path, CCC_READ, CCC_LOCK_NONE));
    return ms;
}

static int32_t get_int(ccc_table *t, const char *column, int64_t row)
{
    int32_t value;
    assert_ccc(ccc_get_range(t, column, row, 1, NULL, CCC_INT32, &value, 1));
    return value;
}

static double get_double(ccc_table *t, const char *column, int64_t row)
{
    double value;
    assert_ccc(ccc_get_range(t, column, row, 1, NULL, CCC_DOUBLE, &value, 1));
    return value;
}

static void get_cell(ccc_table *t, const char *column, int64_t row, ccc_type type, void *out, int64_t n)
{
    assert_ccc(ccc_get_range(t, column, row, 1, NULL, type, out, n));
}

/* The row's UVW follows from its antennas' positions, its time and its field. */
static void check_uvw(ccc_table *ms, ccc_table *antenna, const msi_makems_spec *spec, int64_t row, double uvw_m[3])
{
    const msi_makems_field *field = &spec->field[get_int(ms, "FIELD_ID", row)];
    double hour_angle_rad = msi_sky_gmst(get_double(ms, "TIME", row)) - field->ra_rad, at_m[2][3], want_m[3],
           baseline_m[3];
    get_cell(ms, "UVW", row, CCC_DOUBLE, uvw_m, 3);
    get_cell(antenna, "POSITION", get_int(ms, "ANTENNA1", row), CCC_DOUBLE, at_m[0], 3);
    get_cell(antenna, "POSITION", get_int(ms, "ANTENNA2", row), CCC_DOUBLE, at_m[1], 3);
    for (int k = 0; k < 3; k++) baseline_m[k] = at_m[1][k] - at_m[0][k];
    msi_sky_uvw(baseline_m, hour_angle_rad, field->dec_rad, want_m);
    /* Each of a dozen differences of 6.4e6 m has an error of 1e-9 m. */
    for (int k = 0; k < 3; k++)
        if (!(fabs(uvw_m[k] - want_m[k]) <= 2e-8))
            fail_msg("row %lld: uvw[%d] is %.12g, not %.12g", (long long)row, k, uvw_m[k], want_m[k]);
}

/* The row's visibilities are the exact ones of its UVW, rounded once. */
static void check_visibilities(ccc_table *ms, const msi_makems_spec *spec, int64_t row, const double uvw_m[3])
{
    const msi_makems_spw *spw = &spec->spw[get_int(ms, "DATA_DESC_ID", row)];
    const msi_makems_field *field = &spec->field[get_int(ms, "FIELD_ID", row)];
    msi_point_source source[2] = {{0}};
    double freq_hz[MAX_SAMPLE];
    msi_c64 want[MAX_SAMPLE];
    msi_c32 got[MAX_SAMPLE];
    msi_point_model *model;
    for (int s = 0; s < 2; s++) {
        msi_sky_to_lm(sources[s].ra_rad, sources[s].dec_rad, field->ra_rad, field->dec_rad, &source[s].l, &source[s].m);
        memcpy(source[s].stokes_jy, sources[s].stokes_jy, sizeof source[s].stokes_jy);
        source[s].spectral_index = sources[s].spectral_index;
    }
    for (int k = 0; k < spw->n_chan; k++) freq_hz[k] = spw->first_freq_hz + k * spw->step_hz;
    const msi_point_spec points = {source,    2,          msi_makems_reference_freq(spec), freq_hz, spw->n_chan,
                                   spw->corr, spw->n_corr};
    assert_int_equal(msi_point_model_create(&model, &points), 0);
    msi_point_model_evaluate(model, 1, uvw_m, want);
    msi_point_model_free(model);
    get_cell(ms, "DATA", row, CCC_COMPLEX, got, spw->n_chan * spw->n_corr);
    for (int i = 0; i < spw->n_chan * spw->n_corr; i++) {
        assert_true(got[i].re == (float)want[i].re);
        assert_true(got[i].im == (float)want[i].im);
    }
}

static void check_order(ccc_table *ms, const msi_makems_spec *spec)
{
    const int64_t n_row = ccc_table_n_row(ms), n_baseline = msi_makems_n_baseline(spec), n_spw = spec->n_spw;
    double previous_s = 0;
    for (int64_t row = 0; row < n_row; row++) {
        int64_t want = spec->spw_order == MSI_MAKEMS_SPW_BY_ROW     ? row % n_spw
                       : spec->spw_order == MSI_MAKEMS_SPW_SEPARATE ? row / (n_row / n_spw)
                                                                    : row / n_baseline % n_spw;
        assert_int_equal(get_int(ms, "DATA_DESC_ID", row), want);
        double time_s = get_double(ms, "TIME", row);
        if (spec->spw_order != MSI_MAKEMS_SPW_SEPARATE) assert_true(time_s >= previous_s);
        previous_s = time_s;
    }
}

static void sets_read_back(void **state)
{
    (void)state;
    for (int shape = 0; shape < 2; shape++)
        for (int storage = MSI_MAKEMS_TILED_SHAPE; storage <= MSI_MAKEMS_STANDARD; storage++)
            for (int order = MSI_MAKEMS_SPW_BY_TIME; order <= MSI_MAKEMS_SPW_SEPARATE; order++) {
                msi_makems_spec spec = shape ? small(mixed, 3) : small(same_shape, 2);
                const char *path = path_of("read.ms");
                spec.storage = (msi_makems_storage)storage;
                spec.spw_order = (msi_makems_spw_order)order;
                spec.n_field = 2;
                spec.times_per_scan = 1;
                spec.autocorrelations = order == MSI_MAKEMS_SPW_BY_ROW;
                spec.overwrite = 1;
                if (shape && storage == MSI_MAKEMS_TILED_COLUMN) {
                    assert_int_equal(msi_makems_write(path, &spec), MSI_EUSAGE);
                    continue;
                }
                make(path, &spec);
                ccc_table *ms = open_set(path), *antenna;
                assert_ccc(ccc_subtable_open(&antenna, ms, "ANTENNA"));
                assert_int_equal(ccc_table_n_row(ms), msi_makems_n_row(&spec));
                assert_int_equal(msi_makems_n_row(&spec), N_TIME * spec.n_spw * (spec.autocorrelations ? 21 : 15));
                check_order(ms, &spec);
                for (int64_t row = 0; row < ccc_table_n_row(ms); row++) {
                    double uvw_m[3];
                    check_uvw(ms, antenna, &spec, row, uvw_m);
                    check_visibilities(ms, &spec, row, uvw_m);
                    assert_int_equal(get_int(ms, "PROCESSOR_ID", row), -1);
                    assert_int_equal(get_int(ms, "ARRAY_ID", row), 0);
                    assert_true(get_double(ms, "INTERVAL", row) == 10);
                    assert_int_equal(get_int(ms, "SCAN_NUMBER", row) % 2, 1 - get_int(ms, "FIELD_ID", row));
                }
                assert_ccc(ccc_table_close(antenna));
                assert_ccc(ccc_table_close(ms));
            }
}

static void check_spectra(ccc_table *ms)
{
    ccc_table *t;
    double freq_hz[7];
    int32_t type[4], product[8];
    assert_ccc(ccc_subtable_open(&t, ms, "SPECTRAL_WINDOW"));
    assert_int_equal(ccc_table_n_row(t), 3);
    get_cell(t, "CHAN_FREQ", 1, CCC_DOUBLE, freq_hz, 7);
    assert_true(freq_hz[0] == 1.5e9 && freq_hz[6] == 1.5e9 - 18e6);
    get_cell(t, "CHAN_WIDTH", 1, CCC_DOUBLE, freq_hz, 7);
    assert_true(freq_hz[3] == -3e6);
    assert_int_equal(get_int(t, "MEAS_FREQ_REF", 2), 5);
    assert_ccc(ccc_table_close(t));

    assert_ccc(ccc_subtable_open(&t, ms, "POLARIZATION"));
    assert_int_equal(ccc_table_n_row(t), 3);
    get_cell(t, "CORR_TYPE", 0, CCC_INT32, type, 4);
    for (int c = 0; c < 4; c++) assert_int_equal(type[c], MSI_POL_RR + c);
    get_cell(t, "CORR_PRODUCT", 0, CCC_INT32, product, 8);
    for (int c = 0; c < 4; c++) assert_true(product[2 * c] == c / 2 && product[2 * c + 1] == c % 2);
    assert_ccc(ccc_table_close(t));
}

static void assert_keyword(ccc_table *t, const char *column, const char *name, const char *wanted)
{
    char *text;
    assert_ccc(ccc_keyword_get_string(t, column, name, &text));
    assert_string_equal(text, wanted);
    ccc_free(text);
}

/* Check the first of a cell's words, of which there are n. */
static void assert_words(ccc_table *ms, const char *subtable, const char *column, int64_t n, const char *first)
{
    ccc_table *t;
    char **words;
    int64_t n_word;
    assert_ccc(ccc_subtable_open(&t, ms, subtable));
    assert_ccc(ccc_get_strings(t, column, 0, &words, &n_word));
    assert_int_equal(n_word, n);
    assert_string_equal(words[0], first);
    ccc_free(words);
    assert_ccc(ccc_table_close(t));
}

static void subtables_describe_the_set(void **state)
{
    (void)state;
    msi_makems_spec spec = small(mixed, 3);
    spec.command = "a command line";
    const char *path = path_of("subtables.ms");
    make(path, &spec);
    ccc_table *ms = open_set(path), *t;
    char *text;
    double direction_rad[2];
    check_spectra(ms);

    assert_ccc(ccc_subtable_open(&t, ms, "FIELD"));
    get_cell(t, "PHASE_DIR", 0, CCC_DOUBLE, direction_rad, 2);
    assert_true(direction_rad[0] == 1.0 && direction_rad[1] == -0.4);
    assert_keyword(t, "PHASE_DIR", "MEASINFO.Ref", "J2000");
    assert_ccc(ccc_table_close(t));

    assert_ccc(ccc_subtable_open(&t, ms, "OBSERVATION"));
    assert_ccc(ccc_get_string(t, "TELESCOPE_NAME", 0, &text));
    assert_string_equal(text, "SKA-Low");
    ccc_free(text);
    assert_ccc(ccc_table_close(t));

    assert_words(ms, "FEED", "POLARIZATION_TYPE", 2, "R");
    assert_words(ms, "HISTORY", "CLI_COMMAND", 1, "a command line");

    /* The first field is half-way at its transit. */
    double first_s = get_double(ms, "TIME", 0), last_s = get_double(ms, "TIME", ccc_table_n_row(ms) - 1);
    double hour_angle_rad = msi_sky_gmst((first_s + last_s) / 2) + layout.longitude_rad - fields[0].ra_rad;
    assert_true(fabs(remainder(hour_angle_rad, 2 * MSI_PI)) < 1e-9);
    assert_true(last_s - first_s == 10 * (N_TIME - 1));
    assert_keyword(ms, "TIME", "MEASINFO.Ref", "UTC");
    assert_ccc(ccc_table_close(ms));
}

static void weights_and_noise(void **state)
{
    (void)state;
    const msi_makems_spw wide = {8, 100e6, 2e6, 4, {MSI_POL_XX, MSI_POL_XY, MSI_POL_YX, MSI_POL_YY}};
    for (int storage = MSI_MAKEMS_TILED_SHAPE; storage <= MSI_MAKEMS_STANDARD; storage++) {
        msi_makems_spec spec = small(&wide, 1);
        const char *path = path_of("weights.ms");
        spec.storage = (msi_makems_storage)storage;
        spec.n_time = 40;
        spec.n_source = 0;
        spec.noise_jy = 0.5;
        spec.weights = MSI_MAKEMS_WEIGHTS_RADIOMETER;
        spec.weight_spectrum = MSI_MAKEMS_SPECTRUM_PARTLY;
        spec.overwrite = 1;
        make(path, &spec);
        ccc_table *ms = open_set(path);
        const int64_t n_row = ccc_table_n_row(ms);
        int64_t n_with = 0;
        double chi2 = 0;
        for (int64_t row = 0; row < n_row; row++) {
            float weight[4], sigma[4], spectrum[8][4];
            msi_c32 data[8][4];
            int64_t shape[CCC_MAX_DIM];
            int ndim;
            get_cell(ms, "WEIGHT", row, CCC_FLOAT, weight, 4);
            get_cell(ms, "SIGMA", row, CCC_FLOAT, sigma, 4);
            get_cell(ms, "DATA", row, CCC_COMPLEX, data, 32);
            assert_ccc(ccc_cell_shape(ms, "WEIGHT_SPECTRUM", row, &ndim, shape));
            if (ndim == 2) get_cell(ms, "WEIGHT_SPECTRUM", row, CCC_FLOAT, spectrum, 32);
            n_with += ndim == 2;
            for (int c = 0; c < 4; c++) {
                double mean = 0;
                /* 0.5 / sqrt(weight) in single precision. */
                assert_true(fabs(sigma[c] * sqrt((double)weight[c]) - 0.5) < 2e-7);
                for (int k = 0; k < 8; k++) {
                    double w = ndim == 2 ? spectrum[k][c] : weight[c];
                    mean += w / 8;
                    chi2 += w * (data[k][c].re * data[k][c].re + data[k][c].im * data[k][c].im) / 0.25;
                }
                assert_true(fabs(mean / weight[c] - 1) < 1e-6);
            }
            assert_true(weight[0] != weight[3]);
        }
        /* N lots with chance p may stray by 5 standard deviations; a chi-square of M degrees of freedom too. */
        double n = (double)n_row, degrees = n * 64;
        assert_true(fabs((double)n_with - n * 2 / 3) < 5 * sqrt(n * 2 / 9));
        assert_true(fabs(chi2 - degrees) < 5 * sqrt(2 * degrees));
        assert_ccc(ccc_table_close(ms));
    }
}

static void flags_hide_rubbish(void **state)
{
    (void)state;
    msi_makems_spec spec = small(same_shape, 1);
    const char *path = path_of("flags.ms");
    spec.n_time = 100;
    spec.flag_fraction = 0.2;
    spec.flag_row_fraction = 0.1;
    spec.columns = MSI_MAKEMS_BOTH;
    make(path, &spec);
    ccc_table *ms = open_set(path);
    double n_row = (double)ccc_table_n_row(ms), n_flag_row = 0, n_flag = 0, n_alone = 0;
    for (int64_t row = 0; row < ccc_table_n_row(ms); row++) {
        uint8_t flag_row, flag[5][4];
        msi_c32 data[5][4], corrected[5][4];
        get_cell(ms, "FLAG_ROW", row, CCC_BOOL, &flag_row, 1);
        get_cell(ms, "FLAG", row, CCC_BOOL, flag, 20);
        get_cell(ms, "DATA", row, CCC_COMPLEX, data, 20);
        get_cell(ms, "CORRECTED_DATA", row, CCC_COMPLEX, corrected, 20);
        n_flag_row += flag_row;
        for (int k = 0; k < 5; k++) {
            int n_of_corr = flag[k][0] + flag[k][1] + flag[k][2] + flag[k][3];
            assert_true(n_of_corr == 0 || n_of_corr == 1 || n_of_corr == 4);
            n_flag += n_of_corr > 0;
            n_alone += n_of_corr == 1;
            for (int c = 0; c < 4; c++) {
                assert_true(data[k][c].re == 0.5f * corrected[k][c].re && data[k][c].im == 0.5f * corrected[k][c].im);
                /* The sky has 2.5 Jy, and up to 3 with its spectrum. */
                assert_true((hypotf(corrected[k][c].re, corrected[k][c].im) > 1000) == (flag_row || flag[k][c]));
            }
        }
    }
    assert_true(fabs(n_flag_row - 0.1 * n_row) < 5 * sqrt(0.09 * n_row));
    assert_true(fabs(n_flag - 0.2 * 5 * n_row) < 5 * sqrt(0.16 * 5 * n_row));
    assert_true(fabs(n_alone - 0.25 * n_flag) < 5 * sqrt(0.1875 * n_flag));
    assert_ccc(ccc_table_close(ms));
}

/* Values do not depend on blocks: a set of many blocks begins like a set of one block. */
static void blocks_do_not_show(void **state)
{
    (void)state;
    const msi_makems_spw wide = {4096, 100e6, 1e4, 1, {MSI_POL_XX}};
    static msi_c32 a[4096], b[4096];
    char one[512], many[512];
    msi_makems_spec spec = small(&wide, 1);
    spec.noise_jy = 1;
    spec.flag_fraction = 0.1;
    spec.n_time = 1;
    spec.start_mjd_s = 60000.0 * 86400;
    snprintf(one, sizeof one, "%s", path_of("one.ms"));
    snprintf(many, sizeof many, "%s", path_of("many.ms"));
    make(one, &spec);
    spec.n_time = 30;
    make(many, &spec);
    ccc_table *x = open_set(one), *y = open_set(many);
    for (int64_t row = 0; row < ccc_table_n_row(x); row++) {
        get_cell(x, "DATA", row, CCC_COMPLEX, a, 4096);
        get_cell(y, "DATA", row, CCC_COMPLEX, b, 4096);
        assert_memory_equal(a, b, sizeof a);
    }
    /* The last row is written. */
    get_cell(y, "DATA", ccc_table_n_row(y) - 1, CCC_COMPLEX, b, 4096);
    assert_true(b[4095].re != 0 && b[4095].im != 0);
    assert_ccc(ccc_table_close(x));
    assert_ccc(ccc_table_close(y));
}

/* The row with a defect, as it is stored. */
typedef struct spoilt_row {
    double uvw_m[3];
    msi_c32 data[20];
    float weight[20];
    uint8_t flag[20];
} spoilt_row;

/* Read the first axis of the first cell of a subtable's column. */
static int64_t first_axis(ccc_table *ms, const char *subtable, const char *column)
{
    int64_t shape[CCC_MAX_DIM];
    int ndim;
    ccc_table *t;
    assert_ccc(ccc_subtable_open(&t, ms, subtable));
    assert_ccc(ccc_cell_shape(t, column, 0, &ndim, shape));
    assert_ccc(ccc_table_close(t));
    return shape[0];
}

/* Return whether the row has the defect; 1 for defects that do not concern a sample. */
static int is_spoilt(const spoilt_row *r, msi_ms_defect defect)
{
    const float re = r->data[8].re, weight = r->weight[8];
    switch (defect) {
    case MSI_DEFECT_NAN_VIS:
        return isnan(re) && isfinite(r->data[7].re);
    case MSI_DEFECT_INF_VIS:
        return isinf(re);
    case MSI_DEFECT_HUGE_VIS:
        return re == 1e38f;
    case MSI_DEFECT_NAN_WEIGHT:
        return isnan(weight) && r->weight[7] == 1;
    case MSI_DEFECT_INF_WEIGHT:
        return isinf(weight);
    case MSI_DEFECT_NEGATIVE_WEIGHT:
        return weight == -1;
    case MSI_DEFECT_NAN_UVW:
        return isnan(r->uvw_m[0]) && isfinite(r->uvw_m[1]);
    case MSI_DEFECT_INF_UVW:
        return isinf(r->uvw_m[0]);
    case MSI_DEFECT_HUGE_UVW:
        return r->uvw_m[0] == 1e300;
    case MSI_DEFECT_ALL_FLAGGED:
        return r->flag[0] && r->flag[19];
    case MSI_DEFECT_ZERO_WEIGHTS:
        return r->weight[0] == 0 && r->weight[19] == 0;
    case MSI_DEFECT_NONE:
        return isfinite(re) && weight == 1 && isfinite(r->uvw_m[0]) && !r->flag[0];
    default:
        return 1;
    }
}

static void check_defect(const char *path, msi_ms_defect defect)
{
    spoilt_row r = {0};
    ccc_table *ms = open_set(path), *t;
    /* The row with the defect is the middle one of a set without flags and autocorrelations. */
    const int64_t row = ccc_table_n_row(ms) / 2;
    if (row > 0) {
        get_cell(ms, "UVW", row, CCC_DOUBLE, r.uvw_m, 3);
        get_cell(ms, "DATA", row, CCC_COMPLEX, r.data, 20);
        get_cell(ms, "WEIGHT_SPECTRUM", row, CCC_FLOAT, r.weight, 20);
        get_cell(ms, "FLAG", row, CCC_BOOL, r.flag, 20);
    }
    if (!is_spoilt(&r, defect)) fail_msg("%s: the row is not spoilt", path);
    if (defect == MSI_DEFECT_BAD_DATA_DESC_ID) assert_int_equal(get_int(ms, "DATA_DESC_ID", row), 1000);
    if (defect == MSI_DEFECT_BAD_ANTENNA1) assert_int_equal(get_int(ms, "ANTENNA1", row), 100000);
    if (defect == MSI_DEFECT_ZERO_ROWS) assert_int_equal(ccc_table_n_row(ms), 0);
    if (defect == MSI_DEFECT_CHAN_FREQ_LENGTH) assert_int_equal(first_axis(ms, "SPECTRAL_WINDOW", "CHAN_FREQ"), 6);
    if (defect == MSI_DEFECT_CORR_TYPE_LENGTH) assert_int_equal(first_axis(ms, "POLARIZATION", "CORR_TYPE"), 3);
    if (defect == MSI_DEFECT_ZERO_SPWS) {
        assert_ccc(ccc_subtable_open(&t, ms, "SPECTRAL_WINDOW"));
        assert_int_equal(ccc_table_n_row(t), 0);
        assert_ccc(ccc_table_close(t));
    }
    assert_ccc(ccc_table_close(ms));
}

static void defects(void **state)
{
    (void)state;
    msi_ms_defect found;
    for (int defect = 0; defect < MSI_N_DEFECT; defect++) {
        msi_makems_spec spec = small(same_shape, 1);
        const char *path = path_of("defect.ms");
        spec.weight_spectrum = MSI_MAKEMS_SPECTRUM_FULL;
        spec.defect = (msi_ms_defect)defect;
        spec.overwrite = 1;
        make(path, &spec);
        check_defect(path, (msi_ms_defect)defect);
        assert_int_equal(msi_ms_defect_find(&found, msi_ms_defect_name((msi_ms_defect)defect)), 0);
        assert_int_equal(found, defect);
    }
    assert_int_equal(msi_ms_defect_find(&found, "no-such"), MSI_EUSAGE);
    assert_int_equal(msi_ms_defect_apply(path_of("absent.ms"), MSI_DEFECT_NAN_VIS), MSI_EINPUT);
    assert_int_equal(msi_ms_defect_apply(path_of("defect.ms"), MSI_DEFECT_ZERO_ROWS), MSI_EUSAGE);
}

static void nothing_is_overwritten(void **state)
{
    (void)state;
    msi_makems_spec spec = small(same_shape, 1);
    char path[512];
    struct stat st;
    snprintf(path, sizeof path, "%s", path_of("there.ms"));
    make(path, &spec);
    assert_int_equal(msi_makems_write(path, &spec), MSI_EUSAGE);
    spec.overwrite = 1;
    spec.n_time = 2;
    make(path, &spec);
    ccc_table *ms = open_set(path);
    assert_int_equal(ccc_table_n_row(ms), 2 * 15);
    assert_ccc(ccc_table_close(ms));

    /* A directory that is not a Measurement Set, a file, and a table of another kind are not replaced, even with
     * overwrite. */
    snprintf(path, sizeof path, "%s", path_of("folder"));
    assert_int_equal(mkdir(path, 0777), 0);
    assert_int_equal(msi_makems_write(path, &spec), MSI_EUSAGE);
    assert_int_equal(stat(path, &st), 0);
    snprintf(path, sizeof path, "%s", path_of("file"));
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fclose(f);
    assert_int_equal(msi_makems_write(path, &spec), MSI_EUSAGE);
    assert_int_equal(stat(path, &st), 0);
    snprintf(path, sizeof path, "%s", path_of("there.ms/ANTENNA"));
    assert_int_equal(msi_makems_write(path, &spec), MSI_EUSAGE);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(msi_makems_write(path_of("absent/set.ms"), &spec), MSI_EOUTPUT);
}

/* Count the entries of the tests' directory whose name contains a word. */
static int count_entries(const char *word)
{
    char command[512], line[16] = "";
    snprintf(command, sizeof command, "ls '%s' | grep -c -- '%s'", temp_folder, word);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    pclose(f);
    return atoi(line);
}

static void nothing_is_left(void **state)
{
    (void)state;
    assert_int_equal(count_entries("making"), 0);
    msi_makems_spec spec = small(same_shape, 1);
    msi_interrupt_raise(15);
    assert_int_equal(msi_makems_write(path_of("interrupted.ms"), &spec), MSI_EINTERRUPTED);
    assert_int_equal(count_entries("making"), 0);
    assert_int_equal(count_entries("interrupted"), 0);
    assert_int_equal(count_entries("there.ms"), 1);
}

static void contradictions_are_refused(void **state)
{
    (void)state;
    msi_makems_spw bad = same_shape[0];
    const char *path = path_of("refused.ms");
    msi_makems_spec spec = small(&bad, 1);
    bad.step_hz = -50e6;
    assert_int_equal(msi_makems_write(path, &spec), MSI_EUSAGE);
    bad = same_shape[0];
    bad.n_corr = 5;
    assert_int_equal(msi_makems_write(path, &spec), MSI_EUSAGE);
    bad = same_shape[0];
    spec.flag_fraction = 1.5;
    assert_int_equal(msi_makems_write(path, &spec), MSI_EUSAGE);
    spec.flag_fraction = 0;
    spec.noise_jy = NAN;
    assert_int_equal(msi_makems_write(path, &spec), MSI_EUSAGE);
    spec.noise_jy = 0;
    spec.integration_s = 0;
    assert_int_equal(msi_makems_write(path, &spec), MSI_EUSAGE);
    assert_int_equal(count_entries("refused"), 0);
}

static int setup(void **state)
{
    return temp_folder_setup(state) || msi_layout_skalow(&layout, N_STATION, 5) != MSI_OK;
}

static int teardown(void **state)
{
    msi_layout_free(&layout);
    return temp_folder_teardown(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_read_back),         cmocka_unit_test(subtables_describe_the_set),
        cmocka_unit_test(weights_and_noise),      cmocka_unit_test(flags_hide_rubbish),
        cmocka_unit_test(blocks_do_not_show),     cmocka_unit_test(defects),
        cmocka_unit_test(nothing_is_overwritten), cmocka_unit_test(contradictions_are_refused),
        cmocka_unit_test(nothing_is_left),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
