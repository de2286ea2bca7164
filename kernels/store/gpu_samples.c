/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/store/gpu_samples.h"

#include <cuda_runtime_api.h>
#include <math.h>
#include <omp.h>
#include <pthread.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "kernels/gpu/cuda_check.h"
#include "kernels/gpu/gpu_memory.h"
#include "kernels/store/vis_store.h"

/* About this many samples are copied to the host at a time. */
enum { HOME_SAMPLES = 1 << 20 };

/* The arrays of a piece are consecutive, each aligned to this many bytes. */
enum { LINE_BYTES = 256 };

/* A piece of GPU memory. It holds samples [samples.n_row][samples.n_chan], or a copy of an arena, or, while blocks are
 * added, a copy of a buffer. Arenas and buffers contain the segments from first_segment to the next piece's. */
typedef struct piece {
    struct piece *next;
    msi_gpu_samples samples;
    struct msi_vis_setup *setup;
    void *memory;          /* NULL: the segments are still in the buffer */
    char *arena;           /* arena that still holds the segments; NULL: none */
    struct buffer *buffer; /* valid without memory */
    int64_t first_segment, bytes;
} piece;

/* The size of buffers for blocks, and the largest number of buffers; if all are in use, wait for a copy. */
enum { BUFFER_BYTES = 16 << 20, MOST_WAITING = 12 };

/* A buffer of host memory. Its copy to the GPU is complete after the event `done`. */
typedef struct buffer {
    struct buffer *next;
    char *memory;
    int is_registered, is_in_use, is_sent;
    cudaEvent_t done;
} buffer;

struct msi_gpu_pieces {
    int device;
    piece *first, *last;            /* in the order in which they were made */
    int is_of_blocks, takes_blocks; /* 1: pieces are copies of arenas and buffers; 1: more blocks may be added */
    cudaStream_t stream;            /* stream of the copies of buffers; NULL: none */
    buffer *buffer;                 /* list of buffers, the oldest first */
    int n_buffer;
    piece *unsent;  /* first piece whose contents are still in a buffer; NULL: none */
    int n_arena;    /* the first n_arena pieces are arenas */
    int is_copying; /* 1: a thread copies the arenas */
    pthread_t copier;
    msi_first_error failure; /* set by the copying thread */
    int has_weights;         /* 1: the weights of each plane are known */
    struct {
        double sum, largest;
        int64_t count;
    } weights[MSI_STORE_MAX_PLANES];
};

static int64_t in_lines(int64_t bytes)
{
    return (bytes + LINE_BYTES - 1) / LINE_BYTES * LINE_BYTES;
}

static msi_gpu_stream stream_of(const msi_vis_store *s)
{
    return (msi_gpu_stream){s->gpu->device, NULL};
}

/* Allocate the memory of a piece, and set the addresses of its arrays. */
static int alloc_piece(const msi_vis_store *s, piece *p)
{
    const int64_t n = s->n_plane * p->samples.n_row * p->samples.n_chan,
                  uvw = in_lines(p->samples.n_row * 3 * (int64_t)sizeof(double)),
                  weight = s->coordinates ? 0 : in_lines(n * (int64_t)sizeof(float));
    const msi_gpu_stream on = stream_of(s);
    MSI_TRY(msi_gpu_alloc(&p->memory, &on, uvw + weight + n * msi_complex_bytes(s->precision), "samples"));
    p->samples.uvw_m = p->memory;
    p->samples.weight = s->coordinates ? NULL : (float *)((char *)p->memory + uvw);
    p->samples.vis = (char *)p->memory + uvw + weight;
    return MSI_OK;
}

int msi_gpu_samples_reserve(msi_vis_store *s, int device, int64_t n_row, int32_t n_chan, const double *freq_hz,
                            msi_gpu_samples *samples)
{
    piece *p;
    if (!s->gpu) {
        MSI_TRY(msi_alloc(&s->gpu, 1, sizeof *s->gpu, "visibility store"));
        s->gpu->device = device;
    }
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "visibility store"));
    p->samples.n_row = n_row;
    p->samples.n_chan = n_chan;
    int rc = msi_vis_store_setup(s, n_chan, freq_hz, &p->setup);
    if (!rc) rc = alloc_piece(s, p);
    if (rc) {
        msi_free(p);
        return rc;
    }
    *(s->gpu->last ? &s->gpu->last->next : &s->gpu->first) = p;
    s->gpu->last = p;
    *samples = p->samples;
    return MSI_OK;
}

/* Append the rows of a piece to the store as segments, without host memory. The planes of a segment are as far apart as
 * those of the piece, so that segments are consecutive in each plane. */
static int list_segments(msi_vis_store *s, const piece *p)
{
    const msi_gpu_samples *m = &p->samples;
    const int64_t each = msi_vis_store_rows_of_segment(s, m->n_chan);
    for (int64_t row = 0; row < m->n_row; row += each) {
        msi_vis_segment *g;
        MSI_TRY(msi_vis_store_next_segment(s, &g));
        g->n_row = m->n_row - row < each ? m->n_row - row : each;
        g->n_row_max = m->n_row;
        g->n_chan = m->n_chan;
        g->freq_hz = p->setup->freq_hz;
        g->uvw_m = m->uvw_m + 3 * row;
        g->weight = m->weight ? m->weight + row * m->n_chan : NULL;
        g->vis = (char *)m->vis + row * m->n_chan * msi_complex_bytes(s->precision);
        s->n_segment++;
    }
    return MSI_OK;
}

int msi_gpu_samples_commit(msi_vis_store *s, const msi_gpu_totals *f)
{
    const int64_t n_before = s->n_segment;
    const int rc = list_segments(s, s->gpu->last);
    if (rc) {
        s->n_segment = n_before;
        msi_gpu_samples_discard(s);
        return rc;
    }
    s->n_sample += f->n_sample;
    s->n_outside += f->n_outside;
    s->sum_weight[0] += f->sum_weight;
    s->w_min_lambda = fmin(s->w_min_lambda, f->w_min_lambda);
    s->w_max_lambda = fmax(s->w_max_lambda, f->w_max_lambda);
    s->largest_weight = fmax(s->largest_weight, f->largest_weight);
    s->largest_jy = fmax(s->largest_jy, f->largest_jy);
    s->largest_product = fmax(s->largest_product, f->largest_product);
    return MSI_OK;
}

/* ---- Blocks ----------------------------------------------------------------------------------------------------- */

/* Set the pointers of a piece's segments to other memory with the same contents. */
static void move_segments(msi_vis_store *s, const piece *p, const char *from, char *to)
{
    const int64_t end = p->next ? p->next->first_segment : s->n_segment;
    for (int64_t i = p->first_segment; i < end; i++) {
        msi_vis_segment *g = &s->segment[i];
        g->uvw_m = (double *)(void *)(to + ((char *)g->uvw_m - from));
        g->weight = (float *)(void *)(to + ((char *)g->weight - from));
        g->vis = to + ((char *)g->vis - from);
    }
}

/* Return 1 if a segment is in an arena. */
static int is_in(const msi_vis_segment *g, const struct msi_vis_arena *a)
{
    const char *at = (const char *)g->uvw_m;
    return at >= a->base && at < a->base + a->size;
}

/* Append a piece for a copy of an arena. */
static int add_arena(msi_vis_store *s, const struct msi_vis_arena *a, int64_t first_segment)
{
    const msi_gpu_stream on = stream_of(s);
    piece *p;
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "visibility store"));
    p->first_segment = first_segment;
    p->bytes = a->used;
    p->arena = a->base;
    *(s->gpu->last ? &s->gpu->last->next : &s->gpu->first) = p;
    s->gpu->last = p;
    s->gpu->n_arena++;
    return msi_gpu_alloc(&p->memory, &on, p->bytes, "samples");
}

/* Append pieces for an arena and for all earlier arenas, which follow it in the list. Given and returned: *segment  the
 * next segment */
static int add_arenas(msi_vis_store *s, const struct msi_vis_arena *a, int64_t *segment)
{
    if (!a) return MSI_OK;
    MSI_TRY(add_arenas(s, a->next, segment));
    const int64_t first = *segment;
    while (*segment < s->n_segment && is_in(&s->segment[*segment], a)) ++*segment;
    return *segment > first ? add_arena(s, a, first) : MSI_OK;
}

/* Copy the arenas to their pieces. Other threads may add blocks at the same time, because only pieces of arenas are
 * read. */
static int copy_arenas(const struct msi_gpu_pieces *g)
{
    const msi_gpu_stream on = {g->device, NULL};
    const piece *p = g->first;
    for (int i = 0; i < g->n_arena; i++) {
        if (i) p = p->next;
        MSI_TRY(msi_gpu_upload(&on, p->memory, p->arena, p->bytes));
    }
    return MSI_OK;
}

/* Set the pointers of the arenas' segments to the copies. */
static void leave_arenas(msi_vis_store *s)
{
    for (piece *p = s->gpu->first; p && p->arena; p = p->next) {
        move_segments(s, p, p->arena, p->memory);
        p->arena = NULL;
    }
    msi_vis_store_drop_arenas(s);
}

/* Close all segments, so that no more rows are added to them. */
static void close_segments(msi_vis_store *s)
{
    for (struct msi_vis_setup *p = s->setup; p; p = p->next) p->open_segment = -1;
}

/* Reserve GPU memory for all samples of the store. After a failure the store is unchanged. */
static int begin_move(msi_vis_store *s, int device)
{
    int64_t segment = 0;
    if (s->gpu || s->tagged || s->coordinates) return msi_error_set(MSI_EINTERNAL, "this store cannot move to a GPU");
    MSI_TRY(msi_alloc(&s->gpu, 1, sizeof *s->gpu, "visibility store"));
    s->gpu->device = device;
    s->gpu->is_of_blocks = 1;
    const int rc = add_arenas(s, s->arena, &segment);
    if (rc) msi_gpu_samples_free(s);
    return rc;
}

int msi_gpu_samples_move_to_gpu(msi_vis_store *s, int device)
{
    MSI_TRY(begin_move(s, device));
    const int rc = copy_arenas(s->gpu);
    if (rc) {
        msi_gpu_samples_free(s);
        return rc;
    }
    leave_arenas(s);
    close_segments(s);
    return MSI_OK;
}

/* Number of OpenMP threads of the copying thread; the other threads add blocks. */
enum { COPIER_THREADS = 4 };

static void *run_copier(void *of)
{
    struct msi_gpu_pieces *g = of;
    omp_set_num_threads(COPIER_THREADS);
    msi_first_error_keep(&g->failure, copy_arenas(g));
    return NULL;
}

/* Wait until all arenas are copied. */
static int end_copying(struct msi_gpu_pieces *g)
{
    if (g->is_copying) pthread_join(g->copier, NULL);
    g->is_copying = 0;
    return msi_first_error_raise(&g->failure);
}

int msi_gpu_samples_begin_intake(msi_vis_store *s, int device)
{
    MSI_TRY(begin_move(s, device));
    struct msi_gpu_pieces *g = s->gpu;
    const msi_gpu_stream on = stream_of(s);
    int rc = msi_gpu_stream_enter(&on);
    if (!rc && cudaStreamCreateWithFlags(&g->stream, cudaStreamNonBlocking) != cudaSuccess)
        rc = msi_error_set(MSI_EGPU, "%s: cannot create a stream: %s", msi_gpu_current_name(),
                           cudaGetErrorString(cudaGetLastError()));
    if (rc) {
        msi_gpu_samples_free(s);
        return rc;
    }
    close_segments(s);
    g->takes_blocks = 1;
    g->is_copying = g->n_arena && pthread_create(&g->copier, NULL, run_copier, g) == 0;
    if (g->n_arena && !g->is_copying) msi_first_error_keep(&g->failure, copy_arenas(g));
    return MSI_OK;
}

static int make_buffer(struct msi_gpu_pieces *g, buffer **out)
{
    buffer *b, **last = &g->buffer;
    MSI_TRY(msi_alloc(&b, 1, sizeof *b, "GPU copies"));
    while (*last) last = &(*last)->next;
    *last = b;
    g->n_buffer++;
    MSI_CUDA(cudaEventCreateWithFlags(&b->done, cudaEventDisableTiming));
    b->is_registered = cudaHostAlloc((void **)&b->memory, BUFFER_BYTES, cudaHostAllocPortable) == cudaSuccess;
    if (!b->is_registered) {
        cudaGetLastError();
        MSI_TRY(msi_alloc_unset(&b->memory, BUFFER_BYTES, 1, "GPU copies"));
    }
    *out = b;
    return MSI_OK;
}

/* Get a buffer: a free one, or a new one if there are fewer than MOST_WAITING; otherwise wait until one is copied. */
static int take_buffer(struct msi_gpu_pieces *g, buffer **out)
{
    buffer *oldest = NULL;
    for (buffer *b = g->buffer; b; b = b->next) {
        if (b->is_sent && cudaEventQuery(b->done) == cudaSuccess) b->is_sent = b->is_in_use = 0;
        if (b->memory && !b->is_in_use) {
            b->is_in_use = 1;
            *out = b;
            return MSI_OK;
        }
        if (b->is_sent && !oldest) oldest = b;
    }
    if (!oldest || g->n_buffer < MOST_WAITING) {
        MSI_TRY(make_buffer(g, out));
        (*out)->is_in_use = 1;
        return MSI_OK;
    }
    MSI_CUDA(cudaEventSynchronize(oldest->done));
    oldest->is_sent = 0;
    *out = oldest;
    return MSI_OK;
}

int msi_gpu_samples_carve(msi_vis_store *s, int64_t bytes, void **out, int *is_new_buffer)
{
    struct msi_gpu_pieces *g = s->gpu;
    const int64_t lines = in_lines(bytes);
    *is_new_buffer = !g->last || g->last->memory || g->last->bytes + lines > BUFFER_BYTES;
    if (lines > BUFFER_BYTES) return msi_error_set(MSI_EINTERNAL, "a segment is larger than a buffer");
    if (*is_new_buffer) {
        piece *p;
        const msi_gpu_stream on = stream_of(s);
        MSI_TRY(msi_gpu_stream_enter(&on));
        MSI_TRY(msi_alloc(&p, 1, sizeof *p, "visibility store"));
        const int rc = take_buffer(g, &p->buffer);
        if (rc) {
            msi_free(p);
            return rc;
        }
        p->first_segment = s->n_segment;
        *(g->last ? &g->last->next : &g->first) = p;
        g->last = p;
        if (!g->unsent) g->unsent = p;
    }
    *out = g->last->buffer->memory + g->last->bytes;
    g->last->bytes += lines;
    return MSI_OK;
}

/* Begin to copy a piece's buffer to the GPU. */
static int send_piece(msi_vis_store *s, piece *p)
{
    const msi_gpu_stream on = stream_of(s);
    buffer *b = p->buffer;
    MSI_TRY(msi_gpu_alloc(&p->memory, &on, p->bytes, "samples"));
    cudaError_t e = cudaMemcpyAsync(p->memory, b->memory, (size_t)p->bytes, cudaMemcpyHostToDevice, s->gpu->stream);
    if (e == cudaSuccess) e = cudaEventRecord(b->done, s->gpu->stream);
    if (e != cudaSuccess) {
        msi_gpu_release(p->memory, &on);
        p->memory = NULL;
        MSI_CUDA(e);
    }
    b->is_sent = 1;
    move_segments(s, p, b->memory, p->memory);
    return MSI_OK;
}

int msi_gpu_samples_send(msi_vis_store *s)
{
    struct msi_gpu_pieces *g = s->gpu;
    for (; g->unsent && g->unsent->next; g->unsent = g->unsent->next) MSI_TRY(send_piece(s, g->unsent));
    return MSI_OK;
}

int msi_gpu_samples_takes_blocks(const msi_vis_store *s)
{
    return s->gpu && s->gpu->takes_blocks;
}

/* Free the buffers. They must not contain samples. */
static void free_buffers_of(struct msi_gpu_pieces *g)
{
    if (g->stream && cudaStreamSynchronize(g->stream) != cudaSuccess) cudaGetLastError();
    for (buffer *b = g->buffer, *next; b; b = next) {
        next = b->next;
        if (b->done && cudaEventDestroy(b->done) != cudaSuccess) cudaGetLastError();
        if (b->memory && b->is_registered && cudaFreeHost(b->memory) != cudaSuccess) cudaGetLastError();
        if (b->memory && !b->is_registered) msi_free(b->memory);
        msi_free(b);
    }
    if (g->stream && cudaStreamDestroy(g->stream) != cudaSuccess) cudaGetLastError();
    g->buffer = NULL;
    g->stream = NULL;
    g->n_buffer = 0;
}

int msi_gpu_samples_end_intake(msi_vis_store *s)
{
    struct msi_gpu_pieces *g = s->gpu;
    const msi_gpu_stream on = stream_of(s);
    MSI_TRY(msi_gpu_stream_enter(&on));
    MSI_TRY(msi_gpu_samples_send(s));
    if (g->unsent) MSI_TRY(send_piece(s, g->unsent));
    g->unsent = NULL;
    MSI_CUDA(cudaStreamSynchronize(g->stream));
    MSI_TRY(end_copying(g));
    leave_arenas(s);
    close_segments(s);
    g->takes_blocks = 0;
    free_buffers_of(g);
    return MSI_OK;
}

int msi_gpu_samples_device(const msi_vis_store *s)
{
    return s->gpu->device;
}

void msi_gpu_samples_set_weights(msi_vis_store *s, int plane, double sum, double largest, int64_t count)
{
    s->gpu->weights[plane].sum = sum;
    s->gpu->weights[plane].largest = largest;
    s->gpu->weights[plane].count = count;
    s->gpu->has_weights = 1;
}

void msi_gpu_samples_weights(const msi_vis_store *s, int plane, double *sum, double *largest, int64_t *count)
{
    const struct msi_gpu_pieces *g = s->gpu;
    *sum = g->has_weights ? g->weights[plane].sum : s->sum_weight[plane];
    *largest = g->has_weights ? g->weights[plane].largest : s->largest_weight;
    *count = g->has_weights ? g->weights[plane].count : s->n_sample;
}

static void free_piece(const msi_vis_store *s, piece *p)
{
    const msi_gpu_stream on = stream_of(s);
    msi_gpu_release(p->memory, &on);
    msi_free(p);
}

static void end_pieces(msi_vis_store *s)
{
    const msi_gpu_stream on = stream_of(s);
    /* Memory is freed even if its device cannot be made the current one. */
    if (s->gpu->stream) (void)msi_gpu_stream_enter(&on);
    free_buffers_of(s->gpu);
    msi_free(s->gpu);
    s->gpu = NULL;
}

void msi_gpu_samples_discard(msi_vis_store *s)
{
    piece *before = NULL;
    for (piece *p = s->gpu->first; p != s->gpu->last; p = p->next) before = p;
    free_piece(s, s->gpu->last);
    *(before ? &before->next : &s->gpu->first) = NULL;
    s->gpu->last = before;
    if (!before) end_pieces(s);
}

int msi_gpu_samples_get(const msi_vis_store *s, int64_t i, msi_gpu_samples *out)
{
    const piece *p = s->gpu ? s->gpu->first : NULL;
    for (; p && i > 0; i--) p = p->next;
    if (p) *out = p->samples;
    return p != NULL;
}

/* ---- Moving samples to the host --------------------------------------------------------------------------------- */

/* Host memory for rows being copied. */
typedef struct host_buffers {
    double *uvw_m;
    float *weight;
    void *vis;
} host_buffers;

static void free_buffers(host_buffers *r)
{
    msi_free(r->uvw_m);
    msi_free(r->weight);
    msi_free(r->vis);
}

static int allocate_buffers(host_buffers *r, int64_t n_row, int64_t n_sample, int64_t vis_bytes)
{
    memset(r, 0, sizeof *r);
    MSI_TRY(msi_alloc(&r->uvw_m, 3 * n_row, sizeof *r->uvw_m, "samples"));
    MSI_TRY(msi_alloc(&r->weight, n_sample, sizeof *r->weight, "samples"));
    return msi_alloc(&r->vis, n_sample, (size_t)vis_bytes, "samples");
}

/* Add rows of a piece to a store in host memory, as a block. */
static int add_rows(msi_vis_store *to, const piece *p, const msi_gpu_stream *on, const host_buffers *r, int64_t row,
                    int64_t n_row)
{
    const msi_gpu_samples *m = &p->samples;
    const int64_t n_chan = m->n_chan, n = n_row * n_chan, each = msi_complex_bytes(to->precision);
    const int is_fp32 = to->precision == MSI_FP32;
    MSI_TRY(msi_gpu_download(on, r->uvw_m, m->uvw_m + 3 * row, n_row * 3 * (int64_t)sizeof(double)));
    for (int k = 0; k < to->n_plane && !to->coordinates; k++) {
        const int64_t from = (k * m->n_row + row) * n_chan;
        MSI_TRY(msi_gpu_download(on, r->weight + k * n, m->weight + from, n * (int64_t)sizeof(float)));
        MSI_TRY(msi_gpu_download(on, (char *)r->vis + k * n * each, (const char *)m->vis + from * each, n * each));
    }
    const msi_vis_block block = {.n_row = n_row,
                                 .n_chan = m->n_chan,
                                 .n_plane = to->n_plane,
                                 .uvw_m = r->uvw_m,
                                 .freq_hz = p->setup->freq_hz,
                                 .vis = is_fp32 ? NULL : r->vis,
                                 .vis_f32 = is_fp32 ? r->vis : NULL,
                                 .weight = r->weight};
    return msi_vis_store_add(to, &block);
}

static int add_piece(msi_vis_store *to, const piece *p, const msi_gpu_stream *on)
{
    const int64_t suits = HOME_SAMPLES / p->samples.n_chan + 1, n_row = p->samples.n_row,
                  most = suits < n_row ? suits : n_row;
    host_buffers r;
    int rc = allocate_buffers(&r, most, to->n_plane * most * p->samples.n_chan, msi_complex_bytes(to->precision));
    for (int64_t row = 0; !rc && row < n_row; row += most)
        rc = add_rows(to, p, on, &r, row, n_row - row < most ? n_row - row : most);
    free_buffers(&r);
    return rc;
}

/* Move the contents of a piece from its buffer, arena or the GPU to the store's own memory. */
static int bring_home(msi_vis_store *s, piece *p)
{
    const msi_gpu_stream on = stream_of(s);
    void *home;
    if (p->arena) return MSI_OK;
    MSI_TRY(msi_vis_store_carve(s, p->bytes, &home));
    if (p->memory)
        MSI_TRY(msi_gpu_download(&on, home, p->memory, p->bytes));
    else
        memcpy(home, p->buffer->memory, (size_t)p->bytes);
    move_segments(s, p, p->memory ? p->memory : p->buffer->memory, home);
    return MSI_OK;
}

/* Move all samples of blocks to host memory. Their segments stay the same. */
static int bring_all_home(msi_vis_store *s)
{
    const msi_gpu_stream on = stream_of(s);
    int rc = msi_gpu_stream_enter(&on);
    if (!rc && s->gpu->stream && cudaStreamSynchronize(s->gpu->stream) != cudaSuccess)
        rc = msi_error_set(MSI_EGPU, "%s: a copy of samples failed: %s", msi_gpu_current_name(),
                           cudaGetErrorString(cudaGetLastError()));
    (void)end_copying(s->gpu); /* a failure of the copy does not matter */
    for (piece *p = s->gpu->first; !rc && p; p = p->next) rc = bring_home(s, p);
    close_segments(s);
    if (rc)
        msi_vis_store_clear(s);
    else
        msi_gpu_samples_free(s);
    return rc;
}

int msi_gpu_samples_move_to_host(msi_vis_store *s)
{
    if (!s->gpu) return MSI_OK;
    if (s->gpu->is_of_blocks) return bring_all_home(s);
    struct msi_gpu_pieces *pieces = s->gpu;
    const msi_gpu_stream on = stream_of(s);
    const int64_t n_outside = s->n_outside; /* their weights are 0 on the GPU, so they are not counted again */
    int rc = MSI_OK;
    s->gpu = NULL;
    msi_vis_store_clear(s);
    s->n_outside = n_outside;
    for (piece *p = pieces->first, *next; p; p = next) {
        next = p->next;
        if (!rc) rc = add_piece(s, p, &on);
        msi_gpu_release(p->memory, &on);
        msi_free(p);
    }
    msi_free(pieces);
    if (rc) msi_vis_store_clear(s);
    return rc;
}

void msi_gpu_samples_free(msi_vis_store *s)
{
    if (!s->gpu) return;
    (void)end_copying(s->gpu);
    for (piece *p = s->gpu->first, *next; p; p = next) {
        next = p->next;
        free_piece(s, p);
    }
    end_pieces(s);
}
