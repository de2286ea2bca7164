/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_fill.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_set.h"

enum { NUMBERS_AT_ONCE = 512 << 10 }; /* in whole cells; 4 MB */

/* Some rows with cells of one shape. */
typedef struct rows {
    const int64_t *row;
    int64_t n;
    const int64_t *cell; /* n_corr, n_chan */
} rows;

/* Return how many cells of this shape are read or written at once. */
static int64_t cells_at_once(const int64_t *cell)
{
    const int64_t n = cell[0] * cell[1];
    return n > 0 && n < NUMBERS_AT_ONCE ? NUMBERS_AT_ONCE / n : 1;
}

static int64_t size_of(const rows *r)
{
    return r->n * r->cell[0] * r->cell[1];
}

static int is_contiguous(const rows *r)
{
    return r->row[r->n - 1] - r->row[0] == r->n - 1;
}

/* ---- Which rows are written ---- */

static int is_written(const msi_ms_fill *f, int64_t row)
{
    return f->is_written ? f->is_written[row >> 3] >> (row & 7) & 1 : 0;
}

static int mark_written(msi_ms_fill *f, const rows *r)
{
    if (f->column->method == MSI_COLUMN_IN_PLACE) return MSI_OK;
    if (!f->is_written) MSI_TRY(msi_alloc(&f->is_written, f->column->n_row / 8 + 1, 1, "a bit for each row"));
    for (int64_t i = 0; i < r->n; i++) f->is_written[r->row[i] >> 3] |= (uint8_t)(1u << (r->row[i] & 7));
    return MSI_OK;
}

/* ---- Cells ---- */

static int put(msi_ms_fill *f, const rows *r, const msi_c32 *cells)
{
    f->column->touched = 1;
    MSI_TRY(mark_written(f, r));
    if (is_contiguous(r))
        MSI_CCC_WRITE(ccc_put_range(f->table, f->spec->column, r->row[0], r->n, 2, r->cell, NULL, CCC_COMPLEX, cells));
    else
        MSI_CCC_WRITE(ccc_put_rows(f->table, f->spec->column, r->row, r->n, 2, r->cell, NULL, CCC_COMPLEX, cells));
    return MSI_OK;
}

/* Read cells of a column; with `undefined_is_zero`, cells without a value are zeros, else they are a failure. */
static int get(msi_ms_fill *f, const char *column, const rows *r, int undefined_is_zero, msi_c32 *cells)
{
    const int64_t n = size_of(r);
    const int failed = is_contiguous(r) ? ccc_get_range(f->table, column, r->row[0], r->n, NULL, CCC_COMPLEX, cells, n)
                                        : ccc_get_rows(f->table, column, r->row, r->n, NULL, CCC_COMPLEX, cells, n);
    if (failed != CCC_ESHAPE || !undefined_is_zero) return failed ? msi_ms_failed(failed) : MSI_OK;
    const int64_t per_row = r->cell[0] * r->cell[1];
    for (int64_t i = 0; i < r->n; i++) {
        int64_t shape[CCC_MAX_DIM];
        int ndim;
        msi_c32 *cell = cells + i * per_row;
        MSI_CCC(ccc_cell_shape(f->table, column, r->row[i], &ndim, shape));
        if (ndim < 0)
            memset(cell, 0, (size_t)per_row * sizeof *cell);
        else
            MSI_CCC(ccc_get_range(f->table, column, r->row[i], 1, NULL, CCC_COMPLEX, cell, per_row));
    }
    return MSI_OK;
}

/* Read what cells hold before values are put into some of their channels. The rows are all written already, or none
 * is.
 */
static int get_base(msi_ms_fill *f, const rows *r, msi_c32 *cells)
{
    if (f->column->method == MSI_COLUMN_IN_PLACE || is_written(f, r->row[0]))
        return get(f, f->spec->column, r, 0, cells);
    if (f->column->method == MSI_COLUMN_SWAPPED) return get(f, f->column->old_name, r, 1, cells);
    if (f->spec->op != MSI_MS_WRITE_REPLACE) return get(f, f->spec->input_column, r, 1, cells);
    memset(cells, 0, (size_t)size_of(r) * sizeof *cells);
    return MSI_OK;
}

static int make_room(msi_ms_fill *f, int64_t n)
{
    if (n <= f->n_allocated) return MSI_OK;
    msi_free(f->cells);
    msi_free(f->input);
    f->cells = f->input = NULL;
    f->n_allocated = 0;
    MSI_TRY(msi_alloc(&f->cells, n, sizeof *f->cells, "cells"));
    MSI_TRY(msi_alloc(&f->input, n, sizeof *f->input, "cells of the input column"));
    f->n_allocated = n;
    return MSI_OK;
}

/* ---- Values ---- */

static int is_whole(const msi_ms_values *v, const int64_t *cell)
{
    if (v->n_chan != cell[1]) return 0;
    for (int32_t i = 0; i < v->n_chan; i++)
        if (v->chan_index[i] != i) return 0;
    return 1;
}

/* All rows must have cells that hold the values: a put would give them another shape. */
static int check_cells(msi_ms_fill *f, const msi_ms_values *v, int64_t cell[CCC_MAX_DIM])
{
    int64_t shape[CCC_MAX_DIM] = {0}, n, n_alike;
    int ndim;
    for (int64_t i = 0; i < v->n_row; i += n) {
        for (n = 1; i + n < v->n_row && v->row[i + n] == v->row[i] + n;) n++;
        MSI_CCC(ccc_rows_alike(f->table, f->column->like, v->row[i], n, &n_alike, &ndim, shape));
        if (i == 0) memcpy(cell, shape, sizeof shape);
        if (ndim != 2 || n_alike < n || shape[0] != v->n_corr || shape[0] != cell[0] || shape[1] != cell[1])
            return msi_error_set(MSI_EINPUT,
                                 "%s: row %lld or one of the %lld after it: the cell of %s has no value, or "
                                 "another shape than its spectral setup says",
                                 ccc_table_path(f->table), (long long)v->row[i], (long long)(n - 1), f->column->like);
    }
    for (int32_t i = 0; i < v->n_chan; i++)
        if (v->chan_index[i] < 0 || v->chan_index[i] >= cell[1])
            return msi_error_set(MSI_EINTERNAL, "%s: channel %d of a cell of %lld", ccc_table_path(f->table),
                                 v->chan_index[i], (long long)cell[1]);
    return MSI_OK;
}

static void combine(const msi_ms_fill *f, const msi_ms_values *v, const rows *r, const msi_c32 *value)
{
    const int n_corr = v->n_corr;
    const float sign = f->spec->op == MSI_MS_WRITE_SUBTRACT ? -1.0f : 1.0f;
    for (int64_t i = 0; i < r->n; i++)
        for (int32_t k = 0; k < v->n_chan; k++, value += n_corr) {
            const int64_t at = (i * r->cell[1] + v->chan_index[k]) * n_corr;
            msi_c32 *out = f->cells + at;
            const msi_c32 *in = f->input + at;
            if (f->spec->op == MSI_MS_WRITE_REPLACE)
                memcpy(out, value, (size_t)n_corr * sizeof *out);
            else
                for (int p = 0; p < n_corr; p++)
                    out[p] = (msi_c32){in[p].re + sign * value[p].re, in[p].im + sign * value[p].im};
        }
}

int msi_ms_fill_put(msi_ms_fill *f, const msi_ms_values *v)
{
    int64_t cell[CCC_MAX_DIM] = {0};
    if (v->n_row == 0 || v->n_chan == 0) return MSI_OK;
    MSI_TRY(check_cells(f, v, cell));
    if (f->spec->op == MSI_MS_WRITE_REPLACE && is_whole(v, cell)) {
        const rows all = {v->row, v->n_row, cell};
        return put(f, &all, v->value);
    }
    const int64_t most = cells_at_once(cell);
    rows r = {v->row, 0, cell};
    for (int64_t done = 0; done < v->n_row; done += r.n) {
        r.row = v->row + done;
        const int again = is_written(f, r.row[0]);
        for (r.n = 1; r.n < most && done + r.n < v->n_row && is_written(f, r.row[r.n]) == again;) r.n++;
        MSI_TRY(make_room(f, size_of(&r)));
        if (f->spec->op != MSI_MS_WRITE_REPLACE) MSI_TRY(get(f, f->spec->input_column, &r, 0, f->input));
        if (v->n_chan < cell[1]) MSI_TRY(get_base(f, &r, f->cells));
        combine(f, v, &r, v->value + done * v->n_chan * v->n_corr);
        MSI_TRY(put(f, &r, f->cells));
    }
    return MSI_OK;
}

int msi_ms_fill_rest(msi_ms_fill *f)
{
    const msi_ms_column *c = f->column;
    if (c->method == MSI_COLUMN_IN_PLACE || (c->method == MSI_COLUMN_NEW && f->spec->op == MSI_MS_WRITE_REPLACE))
        return MSI_OK; /* it is there already, or zeros since the column was made */
    int64_t *list = NULL, n_alike, cell[CCC_MAX_DIM];
    int ndim, status = msi_alloc(&list, NUMBERS_AT_ONCE, sizeof *list, "row numbers");
    for (int64_t row = 0; row < c->n_row && status == MSI_OK; row += n_alike) {
        const int failed = ccc_rows_alike(f->table, c->like, row, c->n_row - row, &n_alike, &ndim, cell);
        if (failed) {
            status = msi_ms_failed(failed);
            break;
        }
        if (ndim != 2 || cell[0] < 1 || cell[1] < 1) continue;
        const int64_t most = cells_at_once(cell);
        for (int64_t i = row; i < row + n_alike && status == MSI_OK;) {
            rows r = {list, 0, cell};
            for (; i < row + n_alike && r.n < most; i++)
                if (!is_written(f, i)) list[r.n++] = i;
            if (r.n == 0) break;
            status = make_room(f, size_of(&r));
            if (status == MSI_OK) status = get_base(f, &r, f->cells);
            if (status == MSI_OK) status = put(f, &r, f->cells);
        }
    }
    msi_free(list);
    return status;
}
