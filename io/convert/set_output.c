/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/set_output.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "core/child.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/convert/set_maps.h"
#include "io/convert/set_writer.h"
#include "io/ms/ms_limit.h"

/* ---- The process that writes the set ---- */

/* A child process writes the set while this process makes its rows, because casacore cannot be used by two threads.
 * Rows are passed in slots of shared memory. Frames report slots that are filled and freed. */

typedef struct set_process set_process;

static void set_process_free(set_process *b);

enum {
    SLOTS = 3,
    LARGEST_ROW = 4 << 20,
    /* bytes to which a slot is filled: each page costs a page fault in both processes, and more than this would leave
     * the second-level cache before it is read */
    FILLED_BYTES = 3 << 19,
    SLOT_BYTES = 2 * LARGEST_ROW, /* address space; only pages that rows use take memory */
    OFFSETS = 4                   /* number of offsets in msi_set_map */
};

#define WHAT "the writer process"

/* The steps that the process reports. */
enum { OUTPUT_MADE, OUTPUT_COMPLETE };

/* The beginning of the shared memory. */
typedef struct shared {
    int64_t slots_at;
    int32_t offset[][OFFSETS]; /* [n_set] */
} shared;

/* The beginning of a slot. Rows and samples follow. */
typedef struct slot_head {
    int64_t n_row, capacity;
    int32_t n_chan, n_corr;
} slot_head;

/* Addresses of the parts of a slot. */
typedef struct slot_parts {
    slot_head *head;
    msi_set_row *row;
    msi_c32 *data;
    float *weight;
    uint8_t *flag;
} slot_parts;

struct set_process {
    msi_child *child;
    shared *shared; /* shared memory of the child */
    int is_busy[SLOTS];
    int filling; /* the slot that is being filled; -1: none */
};

/* ---- Both processes ---- */

static int64_t row_bytes(int32_t n_chan, int32_t n_corr)
{
    const int64_t sample = sizeof(msi_c32) + sizeof(float) + 1;
    return (int64_t)sizeof(msi_set_row) + sample * n_chan * n_corr;
}

static slot_parts lay_out(const shared *s, int k)
{
    slot_head *head = (slot_head *)(void *)((char *)s + s->slots_at + (int64_t)k * SLOT_BYTES);
    const int64_t n_sample = head->capacity * head->n_chan * head->n_corr;
    msi_set_row *row = (msi_set_row *)(void *)(head + 1);
    msi_c32 *data = (msi_c32 *)(void *)(row + head->capacity);
    float *weight = (float *)(void *)(data + n_sample);
    return (slot_parts){head, row, data, weight, (uint8_t *)(void *)(weight + n_sample)};
}

static void pass_offsets(msi_set_maps *maps, shared *s, int n_set, int is_taken)
{
    for (int i = 0; i < n_set; i++) {
        msi_set_map *m = msi_set_maps_of(maps, i);
        int32_t *const all[OFFSETS] = {&m->observation_offset, &m->processor_offset, &m->state_offset,
                                       &m->source_offset};
        for (int k = 0; k < OFFSETS; k++)
            if (is_taken)
                *all[k] = s->offset[i][k];
            else
                s->offset[i][k] = *all[k];
    }
}

/* ---- The writer process ---- */

/* Arguments of the writer process. */
typedef struct job {
    const char *path;
    const msi_ms_reader *reader;
    const msi_set_output_spec *spec;
    msi_set_maps *maps;
    int64_t slots_at;
} job;

/* Write the rows of slots until the output is complete. After a failure the table is not closed, because this could
 * fail again and replace the error message. */
static int write_set(msi_child *self, const job *j)
{
    shared *s = msi_child_shared(self);
    msi_set_writer *w;
    s->slots_at = j->slots_at;
    MSI_TRY(msi_set_writer_make(&w, j->path, j->reader, j->spec, j->maps));
    pass_offsets(j->maps, s, j->reader->n_set, 0);
    msi_child_tell(self, MSI_CHILD_STEP, OUTPUT_MADE, 0);
    for (;;) {
        msi_frame f;
        msi_child_get(self, &f);
        if (f.kind == MSI_CHILD_NEXT) return msi_set_writer_finish(w);
        const slot_parts from = lay_out(s, (int)f.number);
        const slot_head *h = from.head;
        const msi_set_rows rows = {h->n_row, h->n_chan, h->n_corr, from.row, from.data, from.weight, from.flag};
        msi_child_progress(MSI_CHILD_STEP_S);
        MSI_TRY(msi_set_writer_put(w, &rows));
        msi_child_tell(self, MSI_CHILD_FREED, f.number, 0);
    }
}

static int run_writer(msi_child *self, void *of)
{
    const job *j = of;
    msi_set_output_child_begin(j->path, j->spec->name);
    return msi_set_output_explain(write_set(self, j), j->path, j->spec->name);
}

/* ---- The parent process ---- */

/* Return 1 if every row fits in a slot of the shared memory. */
static int set_process_fits(const msi_ms_reader *reader, const msi_channel_groups *groups)
{
    for (int i = 0; i < reader->n_spw; i++)
        if (row_bytes(groups[i].n_group, reader->spw[i].n_corr) > LARGEST_ROW) return 0;
    return 1;
}

/* Receive the next frame. *got is 0 if there is none yet. */
static int receive(set_process *b, int wait, msi_frame *f, int *got)
{
    MSI_TRY(msi_child_receive(b->child, wait, f, got));
    if (*got < 0) return msi_child_fail(b->child, MSI_EOUTPUT);
    if (*got && f->kind == MSI_CHILD_DONE) return msi_child_error(f);
    if (*got) msi_child_show(f);
    if (*got && f->kind == MSI_CHILD_FREED && f->number >= 0 && f->number < SLOTS) b->is_busy[f->number] = 0;
    return MSI_OK;
}

/* Close tables before a fork: two processes would share the file offset of an open file. */
static void close_tables(const msi_ms_reader *reader)
{
    for (int i = 0; i < reader->n_set; i++) {
        ccc_table_close(reader->set[i].table);
        reader->set[i].table = NULL;
    }
}

static int start_writer(set_process *b, job *j)
{
    const int64_t page = sysconf(_SC_PAGESIZE);
    const int64_t head = (int64_t)sizeof *b->shared + j->reader->n_set * (int64_t)sizeof b->shared->offset[0];
    j->slots_at = (head + page - 1) / page * page;
    const msi_child_spec spec = {.work = run_writer,
                                 .of = j,
                                 .what = WHAT,
                                 .path = j->spec->name,
                                 .shared_bytes = j->slots_at + (int64_t)SLOTS * SLOT_BYTES,
                                 .cpu_s = MSI_CHILD_STEP_S,
                                 .reports = 1};
    close_tables(j->reader);
    MSI_TRY(msi_child_start(&b->child, &spec));
    b->shared = msi_child_shared(b->child);
    b->shared->slots_at = j->slots_at;
    /* For one set, all offsets are 0. */
    if (j->reader->n_set < 2) return MSI_OK;
    MSI_TRY(msi_child_await(b->child, MSI_CHILD_STEP, OUTPUT_MADE, MSI_EOUTPUT));
    pass_offsets(j->maps, b->shared, j->reader->n_set, 1);
    return MSI_OK;
}

/*
 * set_process_start - fork the writer process, which makes the set with its subtables. Call it before any thread
 * starts.
 * Given:              path, reader, spec  as in msi_set_output_make; open tables of the reader are closed
 * Given and returned: maps  of all sets with rows; their offsets are set
 * Returned:           *out  owned, freed by set_process_free
 * Returns:            0, MSI_ENOMEM; for several sets also the errors of msi_set_writer_make
 */
static int set_process_start(set_process **out, const char *path, const msi_ms_reader *reader,
                             const msi_set_output_spec *spec, msi_set_maps *maps)
{
    set_process *b;
    *out = NULL;
    MSI_TRY(msi_alloc(&b, 1, sizeof *b, WHAT));
    b->filling = -1;
    job j = {path, reader, spec, maps, 0};
    const int status = start_writer(b, &j);
    if (status) {
        set_process_free(b);
        return status;
    }
    *out = b;
    return MSI_OK;
}

static int submit(set_process *b)
{
    const int k = b->filling;
    if (k < 0) return MSI_OK;
    b->filling = -1;
    b->is_busy[k] = 1;
    return msi_child_ask(b->child, &(msi_frame){.kind = MSI_CHILD_FILLED, .number = k});
}

static int free_slot(const set_process *b)
{
    for (int k = 0; k < SLOTS; k++)
        if (!b->is_busy[k]) return k;
    return -1;
}

/* Wait for a free slot, and prepare it for rows of a shape. */
static int begin_slot(set_process *b, int32_t n_chan, int32_t n_corr)
{
    msi_frame f;
    int got = 1;
    while (got) MSI_TRY(receive(b, 0, &f, &got));
    while (free_slot(b) < 0) MSI_TRY(receive(b, 1, &f, &got));
    b->filling = free_slot(b);
    slot_head *h = lay_out(b->shared, b->filling).head;
    const int64_t capacity = (FILLED_BYTES - (int64_t)sizeof *h) / row_bytes(n_chan, n_corr);
    *h = (slot_head){0, capacity > 1 ? capacity : 1, n_chan, n_corr};
    return MSI_OK;
}

/* Find a slot that can hold one more row of a shape. */
static int find_slot(set_process *b, int32_t n_chan, int32_t n_corr, slot_parts *to)
{
    if (b->filling >= 0) {
        *to = lay_out(b->shared, b->filling);
        const slot_head *h = to->head;
        if (h->n_chan == n_chan && h->n_corr == n_corr && h->n_row < h->capacity) return MSI_OK;
        MSI_TRY(submit(b));
    }
    MSI_TRY(begin_slot(b, n_chan, n_corr));
    *to = lay_out(b->shared, b->filling);
    return MSI_OK;
}

/* set_process_next - implement msi_set_output_next. Full slots are passed to the process. Returns: 0, or an error of
 * the process. */
static int set_process_next(set_process *b, int32_t n_chan, int32_t n_corr, msi_set_space *space)
{
    slot_parts to;
    MSI_TRY(find_slot(b, n_chan, n_corr, &to));
    const int64_t at = to.head->n_row++, n_sample = (int64_t)n_chan * n_corr;
    *space = (msi_set_space){to.row + at, to.data + at * n_sample, to.weight + at * n_sample, to.flag + at * n_sample};
    return MSI_OK;
}

/* set_process_finish - wait until all rows are written and the set is closed. Returns: 0, or an error of the
 * process. */
static int set_process_finish(set_process *b)
{
    MSI_TRY(submit(b));
    MSI_TRY(msi_child_ask(b->child, &(msi_frame){.kind = MSI_CHILD_NEXT, .number = OUTPUT_COMPLETE}));
    return msi_child_await_done(b->child, MSI_EOUTPUT);
}

/* set_process_free - kill the process if it is running; NULL is fine. */
static void set_process_free(set_process *b)
{
    if (!b) return;
    msi_child_free(b->child);
    msi_free(b);
}

enum {
    SPARSE = 8,           /* a range is read as a whole if it has at most this many rows for each needed row */
    AHEAD_ROWS = 1 << 14, /* most rows whose columns, except samples, are read ahead */
    FEW_ROWS = 128,       /* this many rows stay in the cache while one column after another is copied to them */
    /* rows are held until their visibilities have this size, since a call of casacore takes as long as copying hundreds
     * of rows */
    HELD_BYTES = 4 << 20
};

/* Rows of one shape that are held in memory before they are written. */
typedef struct held_rows {
    int64_t n, n_allocated;
    int32_t n_chan, n_corr;
    msi_set_row *row;
    msi_c32 *data;
    float *weight;
    uint8_t *flag;
} held_rows;

/* State of a column of the rows that were read ahead. */
typedef enum ahead_state {
    UNREAD,
    READ,
    STEADY, /* all rows have the same value, which is in rows_ahead.common */
    NOT_THERE,
    NOT_WANTED,
    BY_BLOCKS /* reading ahead failed, so it is read block by block */
} ahead_state;

/* Columns of rows [first, first + n) of a set, for the current block and the next ones. */
typedef struct rows_ahead {
    int64_t first, n;
    int is_sparse; /* 1: so few of the rows are needed that they are not read ahead */
    msi_set_row common;
    struct {
        ahead_state state;
        char *value;
        int64_t n_allocated;
    } column[MSI_SET_N_ROW_COLUMN];
} rows_ahead;

struct msi_set_output {
    msi_set_maps *maps;
    msi_set_writer *writer; /* NULL: a child process writes */
    set_process *process;
    int described; /* the last set given to msi_set_output_describe; -1: none */
    int64_t n_row; /* rows appended */
    held_rows held;
    rows_ahead ahead;
    int weights_are_made;
    double *antenna_m; /* [n_antenna][3] */
    int64_t n_antenna;
    char *column, *between; /* buffers for a column of rows */
    int64_t n_column_allocated, n_between_allocated;
};

/* ---- Make ---- */

static int take_positions(msi_set_output *out, const msi_ms_set *set, const msi_set_map *map)
{
    for (int32_t i = 0; i < map->n_antenna; i++) {
        const int64_t at = map->antenna[i];
        if (at >= out->n_antenna) {
            MSI_TRY(msi_grow(&out->antenna_m, 3 * out->n_antenna, 3 * (at + map->n_antenna), sizeof(double),
                             "positions of antennas"));
            out->n_antenna = at + map->n_antenna;
        }
        memcpy(out->antenna_m + 3 * at, set->antenna_itrf_m + 3 * i, 3 * sizeof(double));
    }
    return MSI_OK;
}

static int number_set(msi_set_output *out, const msi_ms_reader *reader, int set, const msi_channel_groups *groups)
{
    ccc_table *table;
    if (!reader->set[set].n_row) return MSI_OK;
    MSI_TRY(msi_set_read(ccc_table_open(&table, msi_ms_set_tables(&reader->set[set]), CCC_READ, CCC_LOCK_NONE)));
    int status = msi_set_maps_add(out->maps, table, reader, set, groups);
    if (!status) status = take_positions(out, &reader->set[set], msi_set_maps_of(out->maps, set));
    ccc_table_close(table);
    return status;
}

/* Make the set, in a child process or in this one. */
static int make_writer(msi_set_output *o, const char *path, const msi_ms_reader *reader,
                       const msi_set_output_spec *spec)
{
    if (spec->in_process && set_process_fits(reader, spec->groups))
        return set_process_start(&o->process, path, reader, spec, o->maps);
    return msi_set_writer_make(&o->writer, path, reader, spec, o->maps);
}

int msi_set_output_make(msi_set_output **out, const char *path, const msi_ms_reader *reader,
                        const msi_set_output_spec *spec)
{
    msi_set_output *o;
    *out = NULL;
    MSI_TRY(msi_alloc(&o, 1, sizeof *o, "the new set"));
    o->described = -1;
    o->weights_are_made = spec->weights_are_made;
    int status = msi_set_maps_make(&o->maps, reader->n_set);
    for (int i = 0; !status && i < reader->n_set; i++) status = number_set(o, reader, i, spec->groups);
    if (!status) status = make_writer(o, path, reader, spec);
    if (status) {
        msi_set_output_free(o);
        return status;
    }
    *out = o;
    return MSI_OK;
}

/* ---- Values of rows except samples ---- */

/* Read a column for ascending rows. Rows that are close together are read as one range. */
static int read_column(msi_set_output *o, ccc_table *t, const msi_set_column *c, const msi_ms_block *b,
                       int64_t n_element)
{
    const int64_t size = (int64_t)msi_set_bytes_of(c->type) * n_element;
    const int64_t n = b->n_row, first = b->ms_row[0], span = b->ms_row[n - 1] - first + 1;
    MSI_TRY(msi_set_grow(&o->column, &o->n_column_allocated, n * size));
    if (span == n) return msi_set_read(ccc_get_range(t, c->name, first, n, NULL, c->type, o->column, n * n_element));
    if (span > SPARSE * n)
        return msi_set_read(ccc_get_rows(t, c->name, b->ms_row, n, NULL, c->type, o->column, n * n_element));
    MSI_TRY(msi_set_grow(&o->between, &o->n_between_allocated, span * size));
    const int status = ccc_get_range(t, c->name, first, span, NULL, c->type, o->between, span * n_element);
    if (status == CCC_ESHAPE)
        return msi_set_read(ccc_get_rows(t, c->name, b->ms_row, n, NULL, c->type, o->column, n * n_element));
    for (int64_t i = 0; i < n; i++)
        memcpy(o->column + i * size, o->between + (b->ms_row[i] - first) * size, (size_t)size);
    return msi_set_read(status);
}

/* Choose the rows to read ahead: as many as the block has, and twice as many each time if blocks are consecutive. */
static void choose_ahead(rows_ahead *a, const msi_ms_block *b, int64_t n_table)
{
    const int64_t first = b->ms_row[0], span = b->ms_row[b->n_row - 1] - first + 1;
    if (first >= a->first && first + span <= a->first + a->n) return;
    const int follows = a->n > 0 && first >= a->first && first <= a->first + a->n;
    int64_t n = follows ? 2 * a->n : span;
    if (n > AHEAD_ROWS) n = AHEAD_ROWS;
    if (n < span) n = span;
    if (n > n_table - first) n = n_table - first;
    a->first = first;
    a->n = n;
    a->is_sparse = span > AHEAD_ROWS && span > SPARSE * b->n_row;
    for (int i = 0; i < MSI_SET_N_ROW_COLUMN; i++) a->column[i].state = UNREAD;
    memset(&a->common, 0, sizeof a->common);
}

/* Return 1 if n values are equal, by comparing each with the one before. */
static int are_same(const char *value, int64_t n, size_t size)
{
    return memcmp(value, value + size, (size_t)(n - 1) * size) == 0;
}

/* Read a column of the rows ahead. Ignore errors, because they may be in rows that are not needed. */
static int read_ahead(msi_set_output *o, ccc_table *t, int i, int64_t n_element)
{
    rows_ahead *a = &o->ahead;
    const msi_set_column *c = &msi_set_columns[i];
    if (a->column[i].state != UNREAD) return MSI_OK;
    if (!c->is_needed && !ccc_table_has_column(t, c->name)) {
        a->column[i].state = NOT_THERE;
        return MSI_OK;
    }
    if (a->is_sparse) {
        a->column[i].state = BY_BLOCKS;
        return MSI_OK;
    }
    MSI_TRY(msi_set_grow(&a->column[i].value, &a->column[i].n_allocated,
                         a->n * n_element * (int64_t)msi_set_bytes_of(c->type)));
    const int status = ccc_get_range(t, c->name, a->first, a->n, NULL, c->type, a->column[i].value, a->n * n_element);
    a->column[i].state = status == CCC_OK ? READ : BY_BLOCKS;
    if (status != CCC_OK || c->n != 1 || !are_same(a->column[i].value, a->n, msi_set_bytes_of(c->type))) return MSI_OK;
    memcpy((char *)&a->common + c->offset, a->column[i].value, msi_set_bytes_of(c->type));
    a->column[i].state = STEADY;
    return MSI_OK;
}

/* Copy columns that were read ahead to rows [first, end) of a block. */
static void copy_ahead(const rows_ahead *a, const msi_ms_block *b, msi_set_row *row, int64_t first, int64_t end)
{
    for (int64_t k = first, n; k < end; k += n) {
        for (n = 1; k + n < end && b->ms_row[k + n] == b->ms_row[k] + n;) n++;
        for (int i = 0; i < MSI_SET_N_ROW_COLUMN; i++) {
            const msi_set_column *c = &msi_set_columns[i];
            const size_t size = msi_set_bytes_of(c->type) * (size_t)(c->n ? c->n : b->n_corr);
            if (a->column[i].state != READ) continue;
            msi_set_copy_column((char *)&row[k] + c->offset, sizeof *row,
                                a->column[i].value + (b->ms_row[k] - a->first) * (int64_t)size, size, n, size);
        }
    }
}

/* Return 1 if a column need not be read. WEIGHT is known if all channels of a row have this weight. */
static int is_known(const msi_set_output *o, const msi_ms_set *set, const msi_ms_block *b, const msi_set_column *c)
{
    const int is_weight = c->offset == offsetof(msi_set_row, weight);
    if (!is_weight && c->offset != offsetof(msi_set_row, sigma)) return 0;
    return o->weights_are_made || (is_weight && !set->has_weight_spectrum && b->weight);
}

/* Set the values that all rows have in common. */
static void begin_rows(const msi_set_output *o, const msi_ms_set *set, const msi_ms_block *b, msi_set_row *row)
{
    const int has_weight = !o->weights_are_made && !set->has_weight_spectrum && b->weight;
    const int64_t n_sample = (int64_t)b->n_chan * b->n_corr;
    for (int64_t i = 0; i < b->n_row; i++) {
        row[i] = o->ahead.common;
        if (has_weight) memcpy(row[i].weight, b->weight + i * n_sample, (size_t)b->n_corr * sizeof *b->weight);
    }
}

static int read_columns(msi_set_output *o, const msi_ms_set *set, const msi_ms_block *b, msi_set_row *row)
{
    rows_ahead *a = &o->ahead;
    choose_ahead(a, b, ccc_table_n_row(set->table));
    for (int i = 0; i < MSI_SET_N_ROW_COLUMN; i++) {
        const msi_set_column *c = &msi_set_columns[i];
        if (is_known(o, set, b, c)) a->column[i].state = NOT_WANTED;
        MSI_TRY(read_ahead(o, set->table, i, c->n ? c->n : b->n_corr));
    }
    begin_rows(o, set, b, row);
    for (int i = 0; i < MSI_SET_N_ROW_COLUMN; i++) {
        const msi_set_column *c = &msi_set_columns[i];
        const int64_t n_element = c->n ? c->n : b->n_corr;
        const size_t size = msi_set_bytes_of(c->type) * (size_t)n_element;
        if (a->column[i].state == NOT_THERE && c->offset == offsetof(msi_set_row, centroid_s))
            for (int64_t k = 0; k < b->n_row; k++) row[k].centroid_s = b->time_s[k];
        if (a->column[i].state != BY_BLOCKS) continue;
        MSI_TRY(read_column(o, set->table, c, b, n_element));
        msi_set_copy_column((char *)row + c->offset, sizeof *row, o->column, size, b->n_row, size);
    }
    for (int64_t i = 0; i < b->n_row; i += FEW_ROWS)
        copy_ahead(a, b, row, i, i + FEW_ROWS < b->n_row ? i + FEW_ROWS : b->n_row);
    return MSI_OK;
}

/* Compute WEIGHT and SIGMA of a row: from the mean weight of its good samples or, if it has none, from the weight of
 * the first channel, provided that all channels have one weight. */
static void put_row_weights(const msi_ms_set *set, const msi_ms_block *b, int64_t i, msi_set_row *row)
{
    for (int32_t p = 0; b->weight && p < b->n_corr; p++) {
        const int64_t first = i * b->n_chan * b->n_corr + p;
        double sum = 0;
        int32_t n = 0;
        for (int32_t c = 0; c < b->n_chan; c++) {
            const int64_t k = first + (int64_t)c * b->n_corr;
            if (b->flag[k] || !(b->weight[k] > 0)) continue;
            sum += b->weight[k];
            n++;
        }
        const double mean = n ? sum / n : set->has_weight_spectrum ? 0 : b->weight[first];
        row->weight[p] = (float)mean;
        row->sigma[p] = (float)(mean > 0 ? 1 / sqrt(mean) : 0);
    }
}

/* Read the values of a block's rows from a UVFITS or FITS-IDI file. */
static int read_uv(const msi_ms_set *set, const msi_ms_block *b, msi_set_row *row)
{
    for (int64_t i = 0; i < b->n_row; i++) {
        msi_uv_row r;
        MSI_TRY(msi_uv_set_row(set->uv, b->ms_row[i], &r));
        row[i] = (msi_set_row){.antenna1 = r.antenna1,
                               .antenna2 = r.antenna2,
                               .array = r.subarray,
                               .processor = -1,
                               .scan = r.scan,
                               .state = -1,
                               .centroid_s = r.time_s,
                               .interval_s = r.interval_s,
                               .exposure_s = r.interval_s};
        put_row_weights(set, b, i, &row[i]);
    }
    return MSI_OK;
}

static int32_t mapped(const int32_t *map, int32_t n, int32_t id)
{
    return id >= 0 && id < n ? map[id] : id;
}

/* Open the table of a set whose blocks are read by another process. Only one set is open at a time. */
static int open_rows(msi_set_output *o, const msi_ms_reader *reader, int set)
{
    if (o->described >= 0 && o->described != set) {
        ccc_table_close(reader->set[o->described].table);
        reader->set[o->described].table = NULL;
    }
    if (o->described != set) o->ahead.n = 0;
    o->described = set;
    return msi_ms_set_open(&reader->set[set]);
}

int msi_set_output_describe(msi_set_output *o, const msi_ms_reader *reader, const msi_ms_block *b, msi_set_row *row)
{
    const msi_set_map *m = msi_set_maps_of(o->maps, b->set);
    MSI_TRY(open_rows(o, reader, b->set));
    const msi_ms_set *set = &reader->set[b->set];
    MSI_TRY(set->uv ? read_uv(set, b, row) : read_columns(o, set, b, row));
    for (int64_t i = 0; i < b->n_row; i++) {
        msi_set_row *r = &row[i];
        r->antenna1 = mapped(m->antenna, m->n_antenna, r->antenna1);
        r->antenna2 = mapped(m->antenna, m->n_antenna, r->antenna2);
        r->field = mapped(m->field, m->n_field, b->field_id);
        r->data_desc = mapped(m->data_desc, m->n_data_desc, b->data_desc_id);
        if (r->observation >= 0) r->observation += m->observation_offset;
        if (r->processor >= 0) r->processor += m->processor_offset;
        if (r->state >= 0) r->state += m->state_offset;
        r->time_s = b->time_s[i];
        memcpy(r->uvw_m, b->uvw_m + 3 * i, sizeof r->uvw_m);
    }
    return MSI_OK;
}

/* ---- Rows held in memory ---- */

static int write_held(msi_set_output *o)
{
    held_rows *h = &o->held;
    const msi_set_rows rows = {h->n, h->n_chan, h->n_corr, h->row, h->data, h->weight, h->flag};
    h->n = 0;
    return msi_set_writer_put(o->writer, &rows);
}

/* Return 1 if this many samples are enough for one call of casacore. */
static int are_many(int64_t n_sample)
{
    return n_sample * (int64_t)sizeof(msi_c32) >= HELD_BYTES;
}

/* Grow the arrays of held rows for n_more rows of a shape. */
static int grow_held(msi_set_output *o, int32_t n_chan, int32_t n_corr, int64_t n_more)
{
    held_rows *h = &o->held;
    const int64_t n_sample = (int64_t)n_chan * n_corr, n = h->n + n_more;
    if (h->n_allocated >= n && h->n_chan == n_chan && h->n_corr == n_corr) return MSI_OK;
    const int64_t enough = n + HELD_BYTES / (n_sample * (int64_t)sizeof(msi_c32));
    const int64_t more = enough > 2 * n ? enough : 2 * n;
    h->n_allocated = 0;
    MSI_TRY(msi_grow(&h->row, h->n, more, sizeof *h->row, "rows"));
    MSI_TRY(msi_grow(&h->data, h->n * n_sample, more * n_sample, sizeof *h->data, "rows"));
    MSI_TRY(msi_grow(&h->weight, h->n * n_sample, more * n_sample, sizeof *h->weight, "rows"));
    MSI_TRY(msi_grow(&h->flag, h->n * n_sample, more * n_sample, sizeof *h->flag, "rows"));
    h->n_allocated = more;
    h->n_chan = n_chan;
    h->n_corr = n_corr;
    return MSI_OK;
}

static int hold(msi_set_output *o, const msi_set_rows *rows)
{
    held_rows *h = &o->held;
    const int64_t n_sample = (int64_t)rows->n_chan * rows->n_corr;
    MSI_TRY(grow_held(o, rows->n_chan, rows->n_corr, rows->n_row));
    memcpy(h->row + h->n, rows->row, (size_t)rows->n_row * sizeof *h->row);
    memcpy(h->data + h->n * n_sample, rows->data, (size_t)(rows->n_row * n_sample) * sizeof *h->data);
    memcpy(h->weight + h->n * n_sample, rows->weight, (size_t)(rows->n_row * n_sample) * sizeof *h->weight);
    memcpy(h->flag + h->n * n_sample, rows->flag, (size_t)(rows->n_row * n_sample));
    h->n += rows->n_row;
    return MSI_OK;
}

int msi_set_output_next(msi_set_output *o, int32_t n_chan, int32_t n_corr, msi_set_space *space)
{
    held_rows *h = &o->held;
    const int64_t n_sample = (int64_t)n_chan * n_corr;
    o->n_row++;
    if (o->process) return set_process_next(o->process, n_chan, n_corr, space);
    const int is_alike = h->n_chan == n_chan && h->n_corr == n_corr;
    if (h->n && (!is_alike || are_many(h->n * n_sample))) MSI_TRY(write_held(o));
    MSI_TRY(grow_held(o, n_chan, n_corr, 1));
    const int64_t at = h->n++;
    *space = (msi_set_space){h->row + at, h->data + at * n_sample, h->weight + at * n_sample, h->flag + at * n_sample};
    return MSI_OK;
}

int msi_set_output_put(msi_set_output *o, const msi_set_rows *rows)
{
    const held_rows *h = &o->held;
    const int64_t n_sample = (int64_t)rows->n_chan * rows->n_corr;
    if (rows->n_row == 0) return MSI_OK;
    o->n_row += rows->n_row;
    if (o->process) return msi_error_set(MSI_EINTERNAL, "rows put into an output that another process writes");
    const int is_alike = h->n_chan == rows->n_chan && h->n_corr == rows->n_corr;
    const int goes_alone = are_many(rows->n_row * n_sample);
    if (h->n && (goes_alone || !is_alike)) MSI_TRY(write_held(o));
    if (goes_alone) return msi_set_writer_put(o->writer, rows);
    MSI_TRY(hold(o, rows));
    return are_many(h->n * n_sample) ? write_held(o) : MSI_OK;
}

int64_t msi_set_output_n_row(const msi_set_output *o)
{
    return o->n_row;
}

const double *msi_set_output_antenna_m(const msi_set_output *o)
{
    return o->antenna_m;
}

static int is_disk_full(const char *folder)
{
    enum { LITTLE = 1 << 20 };
    struct statvfs disk;
    if (statvfs(folder, &disk) != 0) return 0;
    /* On file systems without a fixed number of files, f_files is 0. */
    return disk.f_bavail * disk.f_frsize < LITTLE || (disk.f_files > 0 && disk.f_favail == 0);
}

/* Return the errno of a failed write; -1 if it is unknown; 0 if no write failed. */
static int write_reason(int status, const char *folder)
{
    struct rlimit limit;
    const int reason = ccc_error_number();
    /* EIO may also come from a file that cannot be read. */
    if (reason == ENOSPC || reason == EFBIG || reason == EDQUOT || reason == EROFS) return reason;
    if (reason == EIO && status == MSI_EOUTPUT) return reason;
    if (is_disk_full(folder)) return ENOSPC;
    if (status == MSI_EOUTPUT && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) return EFBIG;
    return reason == -1 ? -1 : 0;
}

int msi_set_output_explain(int status, const char *folder, const char *out)
{
    const int reason = status == MSI_EOUTPUT || status == MSI_EINPUT ? write_reason(status, folder) : 0;
    if (reason > 0) return msi_error_set(MSI_EOUTPUT, "%s: %s", out, strerror(reason));
    if (reason == 0) return status;
    return msi_error_set(MSI_EOUTPUT, "%s: cannot be written: a write failed in casacore; the disk may be full", out);
}

/* The output of this process, if it is a child that writes one. */
static const char *own_folder, *own_out;

static void leave(int code)
{
    const int status = msi_ms_failed(code);
    msi_child_leave(own_folder ? msi_set_output_explain(status, own_folder, own_out) : status);
}

void msi_set_output_child_begin(const char *folder, const char *out)
{
    own_folder = folder;
    own_out = out;
    ccc_on_terminate(leave);
}

int msi_set_output_finish(msi_set_output *o)
{
    if (o->process) return set_process_finish(o->process);
    MSI_TRY(write_held(o));
    return msi_set_writer_finish(o->writer);
}

void msi_set_output_free(msi_set_output *o)
{
    if (!o) return;
    msi_set_writer_free(o->writer);
    set_process_free(o->process);
    msi_set_maps_free(o->maps);
    msi_free(o->antenna_m);
    msi_free(o->held.row);
    msi_free(o->held.data);
    msi_free(o->held.weight);
    msi_free(o->held.flag);
    for (int i = 0; i < MSI_SET_N_ROW_COLUMN; i++) msi_free(o->ahead.column[i].value);
    msi_free(o->column);
    msi_free(o->between);
    msi_free(o);
}
