/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows are passed in slots of shared memory. Frames report filled and freed slots. */
#include "io/convert/set_process.h"

#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "io/convert/set_output.h"
#include "io/convert/set_writer.h"
#include "io/ms/ms_limit.h"

enum {
    SLOTS = 3,
    LARGEST_ROW = 4 << 20,
    FILLED_BYTES = 3 << 19, /* rows fill this much of a slot: each page costs a fault in both processes, and more would
                             * leave the second-level cache before it is read */
    SLOT_BYTES = 2 * LARGEST_ROW, /* address space; only pages that rows touch become memory */
    OFFSETS = 4                   /* offsets of the numbers of a set in the output */
};

#define WHAT "the writer process"

/* The steps of the process: the output is made, and is complete. */
enum { OUTPUT_MADE, OUTPUT_COMPLETE };

/* Beginning of the shared memory. */
typedef struct shared {
    int64_t slots_at;
    int32_t offset[][OFFSETS]; /* [n_set] */
} shared;

/* Beginning of a slot. Rows and samples follow. */
typedef struct slot_head {
    int64_t n_row, capacity;
    int32_t n_chan, n_corr;
} slot_head;

/* The parts of a slot. */
typedef struct slot_parts {
    slot_head *head;
    msi_set_row *row;
    msi_c32 *data;
    float *weight;
    uint8_t *flag;
} slot_parts;

struct msi_set_process {
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

/* The set that the process writes. */
typedef struct job {
    const char *path;
    const msi_ms_reader *reader;
    const msi_set_output_spec *spec;
    msi_set_maps *maps;
    int64_t slots_at;
} job;

/* Write the rows of slots until the output is complete. The table is not closed after a failure, as this could fail
 * again and hide the first error. */
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

int msi_set_process_fits(const msi_ms_reader *reader, const msi_channel_groups *groups)
{
    for (int i = 0; i < reader->n_spw; i++)
        if (row_bytes(groups[i].n_group, reader->spw[i].n_corr) > LARGEST_ROW) return 0;
    return 1;
}

/* Receive the next frame. *got is 0 if there is none yet. */
static int receive(msi_set_process *b, int wait, msi_frame *f, int *got)
{
    MSI_TRY(msi_child_receive(b->child, wait, f, got));
    if (*got < 0) return msi_child_fail(b->child, MSI_EOUTPUT);
    if (*got && f->kind == MSI_CHILD_DONE) return msi_child_error(f);
    if (*got) msi_child_show(f);
    if (*got && f->kind == MSI_CHILD_FREED && f->number >= 0 && f->number < SLOTS) b->is_busy[f->number] = 0;
    return MSI_OK;
}

/* Close tables: files that are open across a fork share one file offset. */
static void close_tables(const msi_ms_reader *reader)
{
    for (int i = 0; i < reader->n_set; i++) {
        ccc_table_close(reader->set[i].table);
        reader->set[i].table = NULL;
    }
}

static int start_writer(msi_set_process *b, job *j)
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
    /* The numbers of the first set have no offsets. */
    if (j->reader->n_set < 2) return MSI_OK;
    MSI_TRY(msi_child_await(b->child, MSI_CHILD_STEP, OUTPUT_MADE, MSI_EOUTPUT));
    pass_offsets(j->maps, b->shared, j->reader->n_set, 1);
    return MSI_OK;
}

int msi_set_process_start(msi_set_process **out, const char *path, const msi_ms_reader *reader,
                          const msi_set_output_spec *spec, msi_set_maps *maps)
{
    msi_set_process *b;
    *out = NULL;
    MSI_TRY(msi_alloc(&b, 1, sizeof *b, WHAT));
    b->filling = -1;
    job j = {path, reader, spec, maps, 0};
    const int status = start_writer(b, &j);
    if (status) {
        msi_set_process_free(b);
        return status;
    }
    *out = b;
    return MSI_OK;
}

static int submit(msi_set_process *b)
{
    const int k = b->filling;
    if (k < 0) return MSI_OK;
    b->filling = -1;
    b->is_busy[k] = 1;
    return msi_child_ask(b->child, &(msi_frame){.kind = MSI_CHILD_FILLED, .number = k});
}

static int free_slot(const msi_set_process *b)
{
    for (int k = 0; k < SLOTS; k++)
        if (!b->is_busy[k]) return k;
    return -1;
}

/* Wait for a free slot and begin it for rows of a shape. */
static int begin_slot(msi_set_process *b, int32_t n_chan, int32_t n_corr)
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

/* Find a slot with space for a row of a shape. */
static int find_slot(msi_set_process *b, int32_t n_chan, int32_t n_corr, slot_parts *to)
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

int msi_set_process_next(msi_set_process *b, int32_t n_chan, int32_t n_corr, msi_set_space *space)
{
    slot_parts to;
    MSI_TRY(find_slot(b, n_chan, n_corr, &to));
    const int64_t at = to.head->n_row++, n_sample = (int64_t)n_chan * n_corr;
    *space = (msi_set_space){to.row + at, to.data + at * n_sample, to.weight + at * n_sample, to.flag + at * n_sample};
    return MSI_OK;
}

int msi_set_process_finish(msi_set_process *b)
{
    MSI_TRY(submit(b));
    MSI_TRY(msi_child_ask(b->child, &(msi_frame){.kind = MSI_CHILD_NEXT, .number = OUTPUT_COMPLETE}));
    return msi_child_await_done(b->child, MSI_EOUTPUT);
}

void msi_set_process_free(msi_set_process *b)
{
    if (!b) return;
    msi_child_free(b->child);
    msi_free(b);
}
