/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/ms_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/types.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_column.h"
#include "io/ms/ms_metadata.h"
#include "io/ms/ms_paths.h"

/* Writes predicted visibilities. The first part of this file writes values into the cells of a column, the second part
 * has the two writer processes, and the third part has the parent (ms_writer.h). */

/* The name of the child in messages. */
#define MSI_WRITER_WHAT "the writer process"

/* Address space of a slot: the head, row numbers, channel indices and values. Only pages that a block uses take
 * memory. */
#define MSI_WRITER_SLOT_BYTES (4096 + MSI_MS_WRITER_BLOCK_ROWS * 8 + MSI_MS_WRITER_BLOCK_BYTES / 2 * 3)

/* The steps of the first writer process. The second one gets the frames that follow MSI_WRITER_PREPARED. */
typedef enum msi_writer_step {
    MSI_WRITER_READY,    /* sets are checked and locked */
    MSI_WRITER_PREPARED, /* disk space is reserved, or columns are marked */
    MSI_WRITER_COMPLETE
} msi_writer_step;

/* The beginning of a slot. Row numbers, channel indices and values follow at these byte offsets. */
typedef struct msi_writer_slot_head {
    int set;
    int32_t n_chan, n_corr;
    int64_t n_row, chan_at, value_at;
} msi_writer_slot_head;

/* The beginning of the shared memory. The slots begin at slots_at. */
typedef struct msi_writer_shared {
    int64_t slots_at;
    int n_set;
    msi_ms_column column[];
} msi_writer_shared;

/* A column that is being written. Zero-initialised. Its memory is freed when the process ends. */
typedef struct written_column {
    ccc_table *table; /* borrowed, prepared */
    msi_ms_column *column;
    const msi_ms_write_spec *spec;
    uint8_t *is_written; /* bit r: row r of a new or swapped column is written; NULL at first */
    int64_t n_allocated;
    msi_c32 *cells, *input; /* [n_allocated] whole cells of some rows */
} written_column;

/* Values for some channels of some rows, in the order of a block. */
typedef struct block_values {
    int64_t n_row;
    int32_t n_chan, n_corr;
    const int64_t *row;        /* [n_row] ascending */
    const int32_t *chan_index; /* [n_chan] in the stored cell */
    const msi_c32 *value;      /* [n_row][n_chan][n_corr] */
} block_values;

enum { NUMBERS_AT_ONCE = 512 << 10 }; /* numbers in whole cells; 4 MB */

/* Some rows whose cells have the same shape. */
typedef struct rows {
    const int64_t *row;
    int64_t n;
    const int64_t *cell; /* n_corr, n_chan */
} rows;

/* Return how many cells of this shape are read or written at a time. */
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

/* ---- Rows that are written ---- */

static int is_written(const written_column *f, int64_t row)
{
    return f->is_written ? f->is_written[row >> 3] >> (row & 7) & 1 : 0;
}

static int mark_written(written_column *f, const rows *r)
{
    if (f->column->method == MSI_COLUMN_IN_PLACE) return MSI_OK;
    if (!f->is_written) MSI_TRY(msi_alloc(&f->is_written, f->column->n_row / 8 + 1, 1, "a bit for each row"));
    for (int64_t i = 0; i < r->n; i++) f->is_written[r->row[i] >> 3] |= (uint8_t)(1u << (r->row[i] & 7));
    return MSI_OK;
}

/* ---- Cells ---- */

static int write_cells(written_column *f, const rows *r, const msi_c32 *cells)
{
    f->column->touched = 1;
    MSI_TRY(mark_written(f, r));
    if (is_contiguous(r))
        MSI_CCC_WRITE(ccc_put_range(f->table, f->spec->column, r->row[0], r->n, 2, r->cell, NULL, CCC_COMPLEX, cells));
    else
        MSI_CCC_WRITE(ccc_put_rows(f->table, f->spec->column, r->row, r->n, 2, r->cell, NULL, CCC_COMPLEX, cells));
    return MSI_OK;
}

/* Read cells of a column. A cell without a value becomes zero if `undefined_is_zero`, otherwise it is an error. */
static int read_cells(written_column *f, const char *column, const rows *r, int undefined_is_zero, msi_c32 *cells)
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

/* Read cells, before values are stored in some of their channels. Either all or none of the rows are already
 * written. */
static int get_base(written_column *f, const rows *r, msi_c32 *cells)
{
    if (f->column->method == MSI_COLUMN_IN_PLACE || is_written(f, r->row[0]))
        return read_cells(f, f->spec->column, r, 0, cells);
    if (f->column->method == MSI_COLUMN_SWAPPED) return read_cells(f, f->column->old_name, r, 1, cells);
    if (f->spec->op != MSI_MS_WRITE_REPLACE) return read_cells(f, f->spec->input_column, r, 1, cells);
    memset(cells, 0, (size_t)size_of(r) * sizeof *cells);
    return MSI_OK;
}

static int grow_cells(written_column *f, int64_t n)
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

static int is_whole(const block_values *v, const int64_t *cell)
{
    if (v->n_chan != cell[1]) return 0;
    for (int32_t i = 0; i < v->n_chan; i++)
        if (v->chan_index[i] != i) return 0;
    return 1;
}

/* Check that the cells of all rows have the shape of the values, because writing would change their shape. */
static int check_cells(written_column *f, const block_values *v, int64_t cell[CCC_MAX_DIM])
{
    int64_t shape[CCC_MAX_DIM] = {0}, n, n_alike;
    int ndim;
    for (int64_t i = 0; i < v->n_row; i += n) {
        for (n = 1; i + n < v->n_row && v->row[i + n] == v->row[i] + n;) n++;
        MSI_CCC(ccc_rows_alike(f->table, f->column->shape_column, v->row[i], n, &n_alike, &ndim, shape));
        if (i == 0) memcpy(cell, shape, sizeof shape);
        if (ndim != 2 || n_alike < n || shape[0] != v->n_corr || shape[0] != cell[0] || shape[1] != cell[1])
            return msi_error_set(MSI_EINPUT,
                                 "%s: row %lld or one of the %lld rows after it: the cell of %s has no value, or its "
                                 "shape is not that of its spectral setup",
                                 ccc_table_path(f->table), (long long)v->row[i], (long long)(n - 1),
                                 f->column->shape_column);
    }
    for (int32_t i = 0; i < v->n_chan; i++)
        if (v->chan_index[i] < 0 || v->chan_index[i] >= cell[1])
            return msi_error_set(MSI_EINTERNAL, "%s: channel %d of a cell of %lld", ccc_table_path(f->table),
                                 v->chan_index[i], (long long)cell[1]);
    return MSI_OK;
}

static void combine(const written_column *f, const block_values *v, const rows *r, const msi_c32 *value)
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

/*
 * Write values. When a row is written for the first time, its other channels get the values that ms_writer.h describes.
 * Returns: 0, MSI_EINPUT (a cell has another shape than the values; the input cannot be read), MSI_EOUTPUT, MSI_ENOMEM
 */
static int put_values(written_column *f, const block_values *v)
{
    int64_t cell[CCC_MAX_DIM] = {0};
    if (v->n_row == 0 || v->n_chan == 0) return MSI_OK;
    MSI_TRY(check_cells(f, v, cell));
    if (f->spec->op == MSI_MS_WRITE_REPLACE && is_whole(v, cell)) {
        const rows all = {v->row, v->n_row, cell};
        return write_cells(f, &all, v->value);
    }
    const int64_t most = cells_at_once(cell);
    rows r = {v->row, 0, cell};
    for (int64_t done = 0; done < v->n_row; done += r.n) {
        r.row = v->row + done;
        const int again = is_written(f, r.row[0]);
        for (r.n = 1; r.n < most && done + r.n < v->n_row && is_written(f, r.row[r.n]) == again;) r.n++;
        MSI_TRY(grow_cells(f, size_of(&r)));
        if (f->spec->op != MSI_MS_WRITE_REPLACE) MSI_TRY(read_cells(f, f->spec->input_column, &r, 0, f->input));
        if (v->n_chan < cell[1]) MSI_TRY(get_base(f, &r, f->cells));
        combine(f, v, &r, v->value + done * v->n_chan * v->n_corr);
        MSI_TRY(write_cells(f, &r, f->cells));
    }
    return MSI_OK;
}

/* Write the rows without predicted values, as ms_writer.h describes. Returns: as put_values. */
static int put_rest(written_column *f)
{
    const msi_ms_column *c = f->column;
    if (c->method == MSI_COLUMN_IN_PLACE || (c->method == MSI_COLUMN_NEW && f->spec->op == MSI_MS_WRITE_REPLACE))
        return MSI_OK; /* the column already has its values, or zeros since it was made */
    int64_t *list = NULL, n_alike, cell[CCC_MAX_DIM];
    int ndim, status = msi_alloc(&list, NUMBERS_AT_ONCE, sizeof *list, "row numbers");
    for (int64_t row = 0; row < c->n_row && status == MSI_OK; row += n_alike) {
        const int failed = ccc_rows_alike(f->table, c->shape_column, row, c->n_row - row, &n_alike, &ndim, cell);
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
            status = grow_cells(f, size_of(&r));
            if (status == MSI_OK) status = get_base(f, &r, f->cells);
            if (status == MSI_OK) status = write_cells(f, &r, f->cells);
        }
    }
    msi_free(list);
    return status;
}

/* ---- The writer processes ---- */

/* The first process has the locks and changes headers. It forks the second process, which writes values. */

enum { WRITEBACK_MS = 250 };

struct msi_ms_writer {
    int n_set;
    char **paths;
    char *text; /* the strings of spec */
    msi_ms_write_spec spec;
    msi_child *child;
    msi_writer_shared *shared; /* shared memory of the child */
    int64_t slots_at;
    int is_ready, is_prepared, is_busy[MSI_MS_WRITER_SLOTS], slot;
    int failed; /* status of the failure after which the writer cannot be used */
    char message[MSI_MESSAGE_BYTES];
};

typedef struct first_writer {
    msi_writer_shared *shared;
    msi_child *self;
    const char *const *paths;
    const msi_ms_write_spec *spec;
    ccc_table **table; /* [n_set] */
    int **fd, *n_fd;   /* [n_set] descriptors of the data files of the columns */
} first_writer;

/* ---- The second writer process ---- */

static int write_slot(written_column *columns, msi_writer_shared *shared, int slot)
{
    const char *at = (const char *)shared + shared->slots_at + slot * MSI_WRITER_SLOT_BYTES;
    const msi_writer_slot_head *head = (const msi_writer_slot_head *)(const void *)at;
    const block_values values = {.n_row = head->n_row,
                                 .n_chan = head->n_chan,
                                 .n_corr = head->n_corr,
                                 .row = (const int64_t *)(const void *)(at + sizeof *head),
                                 .chan_index = (const int32_t *)(const void *)(at + head->chan_at),
                                 .value = (const msi_c32 *)(const void *)(at + head->value_at)};
    return put_values(&columns[head->set], &values);
}

/* Write the slots that the parent of the first writer process fills. The process ends without flushing and without
 * destructors, because the kernel already has the values and headers must not be written. */
static int write_all(msi_child *self, void *of)
{
    const first_writer *h = of;
    msi_writer_shared *shared = h->shared;
    msi_frame f;
    written_column *columns;
    (void)self;
    msi_ms_child_begin();
    MSI_TRY(msi_alloc(&columns, shared->n_set, sizeof *columns, "sets"));
    for (int i = 0; i < shared->n_set; i++)
        columns[i] = (written_column){.table = h->table[i], .column = &shared->column[i], .spec = h->spec};
    for (;;) {
        msi_child_get(h->self, &f);
        if (f.kind == MSI_CHILD_NEXT) break;
        MSI_TRY(write_slot(columns, shared, (int)f.number));
        msi_child_tell(h->self, MSI_CHILD_FREED, f.number, 0);
    }
    for (int i = 0; i < shared->n_set; i++) MSI_TRY(put_rest(&columns[i]));
    return MSI_OK;
}

/* ---- The first writer process ---- */

/* Undo all changes, except to columns that stay marked. */
static void undo_all(first_writer *h)
{
    for (int i = 0; i < h->shared->n_set; i++) msi_ms_drop_abandon(&h->shared->column[i], h->paths[i]);
    for (int i = 0; i < h->shared->n_set; i++)
        if (h->shared->column[i].stage != MSI_COLUMN_MARKED)
            msi_ms_column_abandon(&h->shared->column[i], h->paths[i], NULL, h->spec);
    for (int i = 0; i < h->shared->n_set; i++)
        if (h->shared->column[i].stage == MSI_COLUMN_MARKED)
            msi_ms_column_abandon(&h->shared->column[i], h->paths[i], h->table[i], h->spec);
}

static int open_all(first_writer *h)
{
    const int n_set = h->shared->n_set;
    MSI_TRY(msi_alloc(&h->table, n_set, sizeof *h->table, "tables"));
    MSI_TRY(msi_alloc(&h->fd, n_set, sizeof *h->fd, "open files"));
    MSI_TRY(msi_alloc(&h->n_fd, n_set, sizeof *h->n_fd, "open files"));
    for (int i = 0; i < n_set; i++) {
        MSI_TRY(msi_ms_column_check_links(h->paths[i]));
        const int failed = ccc_table_open(&h->table[i], h->paths[i], CCC_UPDATE, CCC_LOCK_HOLD);
        if (failed == CCC_EREADONLY) return msi_ms_write_failed(failed);
        if (failed) return msi_ms_failed(failed);
        MSI_TRY(msi_ms_column_plan(&h->shared->column[i], h->table[i], h->spec));
    }
    return MSI_OK;
}

/* Prepare columns that need disk space first. If the disk is full, no set is marked yet. */
static int prepare_all(first_writer *h)
{
    for (int in_place = 0; in_place < 2; in_place++)
        for (int i = 0; i < h->shared->n_set; i++) {
            msi_ms_column *c = &h->shared->column[i];
            if ((c->method == MSI_COLUMN_IN_PLACE) != in_place) continue;
            MSI_TRY(msi_ms_column_prepare(c, h->table[i], h->spec));
            MSI_TRY(msi_ms_column_files(c, h->paths[i], &h->fd[i], &h->n_fd[i]));
        }
    return MSI_OK;
}

/* Start writing the data to disk, so that the sync at the end takes less time. */
static void start_writeback(const first_writer *h)
{
    for (int i = 0; i < h->shared->n_set; i++)
        for (int k = 0; h->shared->column[i].touched && k < h->n_fd[i]; k++)
            sync_file_range(h->fd[i][k], 0, 0, SYNC_FILE_RANGE_WRITE);
}

/* Set the error of a process whose parent has ended or has stopped it. */
static int fail_abandoned(void)
{
    return msi_error_set(MSI_EINTERRUPTED, "the writer was stopped");
}

/* Report to the parent that a step is complete. */
static int send_step(const first_writer *h, msi_writer_step step)
{
    const int sent = msi_child_send(h->self, &(msi_frame){.kind = MSI_CHILD_STEP, .number = (int64_t)step});
    return sent > 0 ? fail_abandoned() : sent;
}

/* Wait until the second writer process has ended. */
static int await_second_writer(const first_writer *h, msi_child *second)
{
    msi_frame f;
    double started_s = msi_wall_s();
    for (;;) {
        int got;
        MSI_TRY(msi_child_receive(second, 0, &f, &got));
        if (got > 0 && f.kind == MSI_CHILD_DONE) return msi_child_error(&f);
        if (msi_child_is_orphan(h->self)) return fail_abandoned();
        if (got < 0) return msi_child_fail(second, MSI_EOUTPUT);
        if (1e3 * (msi_wall_s() - started_s) >= WRITEBACK_MS) {
            start_writeback(h);
            started_s = msi_wall_s();
        }
        msi_child_wait_briefly(second);
    }
}

static int run_second_writer(first_writer *h)
{
    const msi_child_spec spec = {
        .work = write_all, .of = h, .what = MSI_WRITER_WHAT, .path = h->paths[0], .keeps_files = 1};
    msi_child *second;
    MSI_TRY(msi_child_start(&second, &spec));
    int status = send_step(h, MSI_WRITER_PREPARED);
    if (!status) status = await_second_writer(h, second);
    msi_child_free(second);
    return status;
}

static int sync_all(const first_writer *h)
{
    for (int i = 0; i < h->shared->n_set; i++)
        for (int k = 0; k < h->n_fd[i]; k++)
            if (fdatasync(h->fd[i][k]) != 0)
                return msi_error_set(MSI_EOUTPUT, "%s: cannot sync column %s: %s", h->paths[i], h->spec->column,
                                     strerror(errno));
    return MSI_OK;
}

/* Handle the parent's requests, from prepare until the columns are complete. */
static int serve_first_writer(first_writer *h)
{
    msi_frame f;
    int got;
    MSI_TRY(send_step(h, MSI_WRITER_READY));
    MSI_TRY(msi_child_receive(h->self, 1, &f, &got));
    if (got < 0) return fail_abandoned();
    MSI_TRY(prepare_all(h));
    MSI_TRY(run_second_writer(h));
    MSI_TRY(sync_all(h));
    for (int i = 0; i < h->shared->n_set; i++)
        MSI_TRY(msi_ms_column_complete(&h->shared->column[i], h->table[i], h->spec));
    for (int i = 0; h->spec->drop_old && i < h->shared->n_set; i++)
        MSI_TRY(msi_ms_drop_columns(&h->shared->column[i], h->table[i], h->spec));
    return MSI_OK;
}

/* Run the first writer process. Given: of  the msi_ms_writer */
static int run_first_writer(msi_child *self, void *of)
{
    const msi_ms_writer *w = of;
    const char *const *paths = (const char *const *)w->paths;
    first_writer h = {.shared = msi_child_shared(self), .self = self, .paths = paths, .spec = &w->spec};
    h.shared->slots_at = w->slots_at;
    h.shared->n_set = w->n_set;
    msi_ms_child_begin();
    msi_ms_limit_memory(paths, w->n_set);
    int status = msi_ms_limit_explain(open_all(&h), paths[0]);
    if (!status) status = serve_first_writer(&h);
    if (!status) return MSI_OK;
    char message[MSI_MESSAGE_BYTES];
    snprintf(message, sizeof message, "%s", msi_error_get());
    undo_all(&h);
    return msi_error_set(status, "%s", message);
}

/* ---- The parent ---- */

/* The parent starts the first writer process, passes blocks to it, and converts failures of the processes to a status
 * and an error line. */

enum { STOP_MS = 1000 }; /* time in which the child may stop by itself */

/* ---- Failures ---- */

/* Store a failure, which every later call returns. */
static int fail(msi_ms_writer *w, int status, const char *message)
{
    w->failed = status;
    snprintf(w->message, sizeof w->message, "%s", message);
    return msi_error_set(status, "%s", w->message);
}

/* Clean up after a child that has ended. */
static void undo(msi_ms_writer *w)
{
    for (int i = 0; i < w->n_set; i++) {
        msi_ms_drop_abandon(&w->shared->column[i], w->paths[i]);
        msi_ms_column_abandon(&w->shared->column[i], w->paths[i], NULL, &w->spec);
    }
}

/* ---- Frames ---- */

/* Receive the next frame, and free the slot that it names. Returned: *got  0: there is no frame yet */
static int receive(msi_ms_writer *w, int wait, msi_frame *f, int *got)
{
    MSI_TRY(msi_child_receive(w->child, wait, f, got));
    if (*got > 0 && f->kind == MSI_CHILD_FREED && f->number >= 0 && f->number < MSI_MS_WRITER_SLOTS)
        w->is_busy[f->number] = 0;
    if (*got >= 0 && !(*got && f->kind == MSI_CHILD_DONE && f->status)) return MSI_OK;
    /* Until the child is ready it only reads, so the input caused the failure. */
    const int status = *got < 0 ? msi_child_fail(w->child, w->is_ready ? MSI_EOUTPUT : MSI_EINPUT) : msi_child_error(f);
    fail(w, status, msi_error_get());
    msi_child_end(w->child);
    undo(w);
    return msi_error_set(status, "%s", w->message);
}

/* Wait for a frame. */
static int await(msi_ms_writer *w, msi_child_kind kind, int64_t number)
{
    msi_frame f;
    int got;
    do MSI_TRY(receive(w, 1, &f, &got));
    while (f.kind != (int32_t)kind || (kind == MSI_CHILD_STEP && f.number != number));
    return MSI_OK;
}

/* Send a frame. If the child has ended, the next frame that is received has the reason. */
static int send_frame(msi_ms_writer *w, msi_child_kind kind, int64_t number)
{
    const int status = msi_child_ask(w->child, &(msi_frame){.kind = (int32_t)kind, .number = number});
    return status ? fail(w, status, msi_error_get()) : MSI_OK;
}

/* ---- Start ---- */

static int check_distinct(const char *const *paths, int n_path)
{
    int a, b;
    if (!msi_ms_paths_same(paths, n_path, &a, &b)) return MSI_OK;
    return msi_error_set(MSI_EARGUMENT, "%s and %s are the same Measurement Set", paths[a], paths[b]);
}

static int copy_spec(msi_ms_writer *w, const msi_ms_write_spec *spec)
{
    const char *const from[] = {spec->column, spec->input_column ? spec->input_column : "",
                                spec->description ? spec->description : "", spec->selection ? spec->selection : ""};
    const char *to[4];
    size_t size = 0, at = 0;
    for (int i = 0; i < 4; i++) size += strlen(from[i]) + 1;
    MSI_TRY(msi_alloc(&w->text, (int64_t)size, 1, "names of columns"));
    for (int i = 0; i < 4; i++) {
        to[i] = w->text + at;
        at += strlen(from[i]) + 1;
        memcpy(w->text + at - strlen(from[i]) - 1, from[i], strlen(from[i]) + 1);
    }
    w->spec = (msi_ms_write_spec){.column = to[0],
                                  .op = spec->op,
                                  .input_column = to[1],
                                  .description = to[2],
                                  .selection = to[3],
                                  .drop_old = spec->drop_old};
    return MSI_OK;
}

static int start_child(msi_ms_writer *w)
{
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t head = (int64_t)sizeof *w->shared + w->n_set * (int64_t)sizeof w->shared->column[0];
    w->slots_at = (head + page - 1) / page * page;
    const msi_child_spec spec = {.type = MSI_CHILD_KEEPER,
                                 .work = run_first_writer,
                                 .of = w,
                                 .what = MSI_WRITER_WHAT,
                                 .path = w->paths[0],
                                 .shared_bytes = w->slots_at + MSI_MS_WRITER_SLOTS * MSI_WRITER_SLOT_BYTES};
    MSI_TRY(msi_child_start(&w->child, &spec));
    w->shared = msi_child_shared(w->child);
    w->shared->slots_at = w->slots_at;
    w->shared->n_set = w->n_set;
    MSI_TRY(await(w, MSI_CHILD_STEP, MSI_WRITER_READY));
    w->is_ready = 1;
    return MSI_OK;
}

static void log_methods(const msi_ms_writer *w)
{
    for (int i = 0; i < w->n_set; i++) {
        const msi_ms_column *c = &w->shared->column[i];
        if (c->has_virtual_model)
            msi_log_warning("%s: has a virtual model, which CASA uses instead of MODEL_DATA (CASA's delmod removes it)",
                            w->paths[i]);
        if (c->is_shared)
            msi_log_warning("%s: files of %s are linked: writing changes every copy of the set that has these files",
                            w->paths[i], w->spec.column);
        if (c->method == MSI_COLUMN_SWAPPED)
            msi_log_info(
                "%s: %s %s; a new column replaces it, and the old one is kept as %s; this takes %.1f MB more on disk",
                w->paths[i], w->spec.column,
                c->is_lossy ? "is stored with loss (DyscoStMan), so a model would not be exact"
                            : "cannot be overwritten safely in place",
                c->old_name, 1e-6 * (double)c->disk_bytes);
        if (w->spec.drop_old && !c->n_old) msi_log_info("%s: no old column of a prediction to remove", w->paths[i]);
        for (int k = 0; k < c->n_old && k < MSI_COLUMN_MOST_OLD; k++)
            msi_log_info("%s: when %s is complete, column %s will be removed", w->paths[i], w->spec.column,
                         c->old_columns[k]);
    }
}

int msi_ms_writer_start(msi_ms_writer **out, const char *const *paths, int n_path, const msi_ms_write_spec *spec)
{
    msi_ms_writer *w = NULL;
    *out = NULL;
    if (n_path < 1) return msi_error_set(MSI_EARGUMENT, "no Measurement Set is given");
    MSI_TRY(msi_ms_column_check(spec));
    MSI_TRY(check_distinct(paths, n_path));
    MSI_TRY(msi_alloc(&w, 1, sizeof *w, "the writer"));
    w->slot = -1;
    w->n_set = n_path;
    int status = msi_ms_paths_copy(&w->paths, paths, n_path);
    if (status == MSI_OK) status = copy_spec(w, spec);
    if (status == MSI_OK) status = start_child(w);
    if (status != MSI_OK) {
        msi_ms_writer_free(w);
        return status;
    }
    log_methods(w);
    *out = w;
    return MSI_OK;
}

int msi_ms_writer_marked(const msi_ms_writer *w, int set, const char **text, const char **selection)
{
    const msi_ms_column *c = &w->shared->column[set];
    *text = c->was_marked ? c->mark : NULL;
    *selection = c->was_marked ? c->marked_selection : NULL;
    return c->was_marked;
}

int64_t msi_ms_writer_disk_bytes(const msi_ms_writer *w, int set)
{
    return w->shared->column[set].disk_bytes;
}

/* ---- Write ---- */

static int check_state(const msi_ms_writer *w, int is_right)
{
    if (w->failed) return msi_error_set(w->failed, "%s", w->message);
    return is_right ? MSI_OK : msi_error_set(MSI_EINTERNAL, "the functions of the writer were called out of order");
}

int msi_ms_writer_prepare(msi_ms_writer *w)
{
    MSI_TRY(check_state(w, !w->is_prepared));
    MSI_TRY(send_frame(w, MSI_CHILD_NEXT, MSI_WRITER_PREPARED));
    MSI_TRY(await(w, MSI_CHILD_STEP, MSI_WRITER_PREPARED));
    w->is_prepared = 1;
    return MSI_OK;
}

static int free_slot(msi_ms_writer *w)
{
    for (int i = 0; i < MSI_MS_WRITER_SLOTS; i++)
        if (!w->is_busy[i]) return i;
    return -1;
}

int msi_ms_writer_slot(msi_ms_writer *w, const msi_ms_block *block, msi_c32 **values)
{
    msi_frame f;
    int got;
    *values = NULL;
    MSI_TRY(check_state(w, w->is_prepared && w->slot < 0 && block->set >= 0 && block->set < w->n_set));
    const int64_t n_value = block->n_row * block->n_chan * block->n_corr;
    if (n_value * (int64_t)sizeof **values > MSI_MS_WRITER_BLOCK_BYTES || block->n_row > MSI_MS_WRITER_BLOCK_ROWS)
        return msi_error_set(MSI_ERANGE, "a block of %lld rows x %d channels x %d correlations is too large to write",
                             (long long)block->n_row, block->n_chan, block->n_corr);
    do MSI_TRY(receive(w, 0, &f, &got));
    while (got);
    while (free_slot(w) < 0) MSI_TRY(receive(w, 1, &f, &got));
    w->slot = free_slot(w);
    char *at = (char *)w->shared + w->slots_at + w->slot * MSI_WRITER_SLOT_BYTES;
    msi_writer_slot_head *head = (msi_writer_slot_head *)(void *)at;
    *head = (msi_writer_slot_head){
        .set = block->set, .n_chan = block->n_chan, .n_corr = block->n_corr, .n_row = block->n_row};
    head->chan_at = (int64_t)sizeof *head + block->n_row * (int64_t)sizeof *block->ms_row;
    head->value_at = (head->chan_at + block->n_chan * (int64_t)sizeof *block->chan_index + 63) / 64 * 64;
    memcpy(at + sizeof *head, block->ms_row, (size_t)block->n_row * sizeof *block->ms_row);
    memcpy(at + head->chan_at, block->chan_index, (size_t)block->n_chan * sizeof *block->chan_index);
    *values = (msi_c32 *)(void *)(at + head->value_at);
    return MSI_OK;
}

int msi_ms_writer_submit(msi_ms_writer *w)
{
    MSI_TRY(check_state(w, w->slot >= 0));
    const int slot = w->slot;
    w->slot = -1;
    w->is_busy[slot] = 1;
    return send_frame(w, MSI_CHILD_FILLED, slot);
}

static void stop_child(msi_ms_writer *w)
{
    if (!w->child || msi_child_id(w->child) == 0) return;
    msi_child_stop(w->child, STOP_MS);
    /* The second writer process ends shortly after the first one. */
    msi_child_end(w->child);
    undo(w);
}

int msi_ms_writer_finish(msi_ms_writer *w)
{
    MSI_TRY(check_state(w, w->is_prepared && w->slot < 0));
    MSI_TRY(msi_interrupt_check());
    MSI_TRY(send_frame(w, MSI_CHILD_NEXT, MSI_WRITER_COMPLETE));
    const int status = await(w, MSI_CHILD_DONE, 0);
    if (status == MSI_EINTERRUPTED) {
        /* The signal may have come too late to stop anything. */
        stop_child(w);
        for (int i = 0; i < w->n_set; i++) {
            const msi_ms_column *c = &w->shared->column[i];
            if (c->stage != MSI_COLUMN_COMPLETE || (w->spec.drop_old && !c->is_dropped)) return status;
        }
        return MSI_OK;
    }
    MSI_TRY(status);
    msi_child_end(w->child);
    for (int i = 0; i < w->n_set; i++)
        for (int k = 0; k < w->shared->column[i].n_old && k < MSI_COLUMN_MOST_OLD; k++)
            msi_log_info("%s: column %s is removed", w->paths[i], w->shared->column[i].old_columns[k]);
    return MSI_OK;
}

void msi_ms_writer_stop(msi_ms_writer *w)
{
    if (!w || !w->child || msi_child_id(w->child) == 0) return;
    stop_child(w);
    if (w->failed) return;
    w->failed = MSI_EINTERNAL;
    snprintf(w->message, sizeof w->message, "the writer was stopped");
}

int msi_ms_writer_left_mark(const msi_ms_writer *w, int set)
{
    return w->shared->column[set].stage == MSI_COLUMN_MARKED;
}

void msi_ms_writer_free(msi_ms_writer *w)
{
    if (!w) return;
    stop_child(w);
    msi_child_free(w->child);
    msi_free(w->paths);
    msi_free(w->text);
    msi_free(w);
}
