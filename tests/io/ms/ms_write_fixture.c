/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "tests/io/ms/ms_write_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/stat.h>

static int n_made;

const ms_fixture ws_simple = {
    .n_antenna = 5, .n_time = 6, .n_field = 2, .n_spw = 1, .n_chan = {8}, .n_corr = {4}, .tiled = 1};
/* Setups of different shapes, in neighbouring rows, one descending. */
const ms_fixture ws_mixed = {.n_antenna = 5,
                             .n_time = 4,
                             .n_field = 1,
                             .n_spw = 3,
                             .n_chan = {8, 5, 20},
                             .n_corr = {4, 2, 1},
                             .descending = {0, 1, 0},
                             .interleaved = 1,
                             .tiled = 1};
const msi_ms_write_spec ws_replace = {.column = "MODEL_DATA", .description = "a test", .selection = "-field all"};
const msi_ms_selection ws_everything = {.all_fields = 1, .coordinates_only = 1, .keep_flagged_rows = 1};

/* ---- Sets ---- */

int ws_has_name(const char *path, const char *name)
{
    char file[800];
    struct stat info;
    snprintf(file, sizeof file, "%s/%s", path, name);
    return lstat(file, &info) == 0;
}

/* Compute the hash, time of change included, of all files but table.dat, table.lock and the data files of manager n. */
uint64_t ws_hash_others(const char *path, int n)
{
    char column[32];
    uint64_t hash = 0;
    DIR *d = opendir(path);
    assert_non_null(d);
    snprintf(column, sizeof column, "table.f%d_TSM", n);
    for (const struct dirent *e; (e = readdir(d));) {
        char file[800];
        if (e->d_name[0] == '.' || !strcmp(e->d_name, "table.dat") || !strcmp(e->d_name, "table.lock")) continue;
        if (!strncmp(e->d_name, column, strlen(column))) continue;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        hash += fixture_hash(file);
    }
    closedir(d);
    return hash;
}

void ws_make(written_set *m, const ms_fixture *f)
{
    m->f = f;
    snprintf(m->path, sizeof m->path, "%s/set%d.ms", temp_folder, n_made++);
    fixture_make(f, m->path);
    m->others = ws_hash_others(m->path, -1);
}

int ws_manager_of(const char *path, const char *column)
{
    ccc_table *t;
    ccc_column_info info;
    CCC(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    CCC(ccc_column_describe(t, column, &info));
    CCC(ccc_table_close(t));
    return info.manager_file;
}

/* The old column holds minus the row, and the sample's number in it. */
msi_c32 ws_old_value(int64_t row, int chan, int corr)
{
    return (msi_c32){-(float)row, (float)(100 * chan + corr)};
}

/* Add a column of old values; `gap` leaves every tenth row without. */
void ws_add_column(written_set *m, const char *column, ccc_type type, const char *manager, int gap, int extra_chan)
{
    ccc_table *t;
    const ccc_column_spec spec = {.name = column, .type = type, .ndim = 2};
    const ccc_storage storage = {.type = manager, .tile_ndim = 3, .tile_shape = {2, 3, 7}};
    CCC(ccc_table_open(&t, m->path, CCC_UPDATE, CCC_LOCK_HOLD));
    CCC(ccc_column_add(t, &spec, &storage));
    for (int64_t row = 0; row < fixture_n_row(m->f); row++) {
        int time, spw, a1, a2;
        fixture_row(m->f, row, &time, &spw, &a1, &a2);
        const int64_t cell[2] = {m->f->n_corr[spw], m->f->n_chan[spw] + extra_chan};
        msi_c32 values[256];
        for (int c = 0; c < cell[1]; c++)
            for (int p = 0; p < cell[0]; p++) values[c * cell[0] + p] = ws_old_value(row, c, p);
        if (gap && row % 10 == 3) continue;
        CCC(ccc_put_array(t, column, row, 2, cell, type, values));
    }
    CCC(ccc_table_close(t));
    const int number = ws_manager_of(m->path, column);
    m->others = ws_hash_others(m->path, number);
}

int ws_is_marked(const char *path)
{
    ccc_table *t;
    ccc_type type;
    CCC(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    const int has = ccc_keyword_type(t, NULL, "MSIMAGE_PREDICT", &type, NULL) == CCC_OK;
    CCC(ccc_table_close(t));
    return has;
}

int ws_has_column(const char *path, const char *column)
{
    ccc_table *t;
    CCC(ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE));
    const int has = ccc_table_has_column(t, column);
    CCC(ccc_table_close(t));
    return has;
}

/* ---- Predict ---- */

static msi_c32 new_value(int64_t row, int chan, int corr)
{
    return (msi_c32){(float)(row + 1) + 0.25f * (float)corr, (float)(chan + 1)};
}

uint8_t ws_was_written[WS_MOST_SAMPLES];

static int submit(msi_ms_writer *w, const msi_ms_block *b)
{
    msi_c32 *values;
    MSI_TRY(msi_ms_writer_slot(w, b, &values));
    for (int64_t i = 0; i < b->n_row; i++)
        for (int32_t c = 0; c < b->n_chan; c++)
            for (int p = 0; p < b->n_corr; p++) *values++ = new_value(b->ms_row[i], b->chan_index[c], p);
    for (int64_t i = 0; i < b->n_row; i++)
        for (int32_t c = 0; c < b->n_chan; c++) ws_was_written[b->ms_row[i] * 64 + b->chan_index[c]] = 1;
    return msi_ms_writer_submit(w);
}

int ws_submit_all(msi_ms_writer *w, const char *const *paths, int n_path, const msi_ms_selection *s)
{
    msi_ms_reader *r;
    msi_ms_block b = {0};
    /* A prediction reads coordinates; the column that it writes is not read. */
    msi_ms_selection coordinates = *s;
    coordinates.data_column = "DATA";
    coordinates.coordinates_only = 1;
    int status = msi_ms_reader_open(&r, paths, n_path, &coordinates);
    if (status != MSI_OK) return status;
    do {
        status = msi_ms_reader_next(r, &b);
        if (status == MSI_OK && b.n_row > 0) status = submit(w, &b);
    } while (status == MSI_OK && b.n_row > 0);
    msi_ms_reader_free(r);
    return status;
}

void ws_predict(const written_set *m, const msi_ms_write_spec *spec, const msi_ms_selection *s)
{
    const char *const paths[] = {m->path};
    msi_ms_writer *w;
    OK(msi_ms_writer_start(&w, paths, 1, spec));
    OK(msi_ms_writer_prepare(w));
    OK(ws_submit_all(w, paths, 1, s));
    OK(msi_ms_writer_finish(w));
    msi_ms_writer_free(w);
}

msi_c32 ws_zero(int64_t row, int chan, int corr)
{
    (void)row;
    (void)chan;
    (void)corr;
    return (msi_c32){0, 0};
}

msi_c32 ws_data(int64_t row, int chan, int corr)
{
    msi_c32 v;
    v.re = fixture_data(row, chan, corr, &v.im);
    return v;
}

msi_c32 ws_gap_value(int64_t row, int chan, int corr)
{
    return row % 10 == 3 ? ws_zero(row, chan, corr) : ws_old_value(row, chan, corr);
}

/* Check every sample of the column: `input` + sign x the new value if it was written, else `rest`. */
void ws_check_column(const written_set *m, const char *column, ws_content input, float sign, ws_content rest)
{
    ccc_table *t;
    CCC(ccc_table_open(&t, m->path, CCC_READ, CCC_LOCK_HOLD));
    for (int64_t row = 0; row < fixture_n_row(m->f); row++) {
        int time, spw, a1, a2;
        fixture_row(m->f, row, &time, &spw, &a1, &a2);
        msi_c32 cell[256];
        CCC(ccc_get_range(t, column, row, 1, NULL, CCC_COMPLEX, cell, m->f->n_chan[spw] * m->f->n_corr[spw]));
        for (int c = 0; c < m->f->n_chan[spw]; c++)
            for (int p = 0; p < m->f->n_corr[spw]; p++) {
                const msi_c32 is = cell[c * m->f->n_corr[spw] + p], v = new_value(row, c, p), in = input(row, c, p);
                const msi_c32 sum = {in.re + sign * v.re, in.im + sign * v.im};
                const msi_c32 should = ws_was_written[row * 64 + c] ? sum : rest(row, c, p);
                if (is.re != should.re || is.im != should.im)
                    fail_msg("%s row %d channel %d correlation %d: %g %g, should be %g %g", column, (int)row, c, p,
                             is.re, is.im, should.re, should.im);
            }
    }
    CCC(ccc_table_close(t));
}

int ws_forget(void **state)
{
    (void)state;
    memset(ws_was_written, 0, sizeof ws_was_written);
    return 0;
}
