/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The store keeps the same samples if blocks are added one by one or together, with any number of threads. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <omp.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/status.h"
#include "kernels/store/vis_store.h"

enum { N_BLOCK = 24, N_PLANE = 3 };

/* Limit of the uv plane; half of the rows are beyond it at the highest frequencies. */
static const double LIMIT_LAMBDA = 1000;

/* Return the next number of a sequence in [0, 1). */
static double draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

/* A block with its arrays, in both precisions; block k has its own list of channels. */
typedef struct own_block {
    msi_vis_block block;
    double *uvw_m, *freq_hz;
    msi_c64 *vis;
    msi_c32 *single;
    float *weight;
} own_block;

static void *alloc_zeroed(int64_t n, size_t size)
{
    void *p = calloc((size_t)n, size);
    assert_non_null(p);
    return p;
}

static void block_make(own_block *b, int k)
{
    static const int32_t n_chan[] = {1, 16, 7, MSI_STORE_MAX_CHAN + 5};
    uint64_t seed = (uint64_t)k + 1;
    const int kind = k % 5 == 4 ? 3 : k % 3;
    const int64_t n_row = kind == 3 ? 3 : 1 + (int64_t)(3000 * draw(&seed));
    const int64_t n = N_PLANE * n_row * n_chan[kind];
    b->uvw_m = alloc_zeroed(3 * n_row, sizeof *b->uvw_m);
    b->freq_hz = alloc_zeroed(n_chan[kind], sizeof *b->freq_hz);
    b->vis = alloc_zeroed(n, sizeof *b->vis);
    b->single = alloc_zeroed(n, sizeof *b->single);
    b->weight = alloc_zeroed(n, sizeof *b->weight);
    for (int32_t c = 0; c < n_chan[kind]; c++) b->freq_hz[c] = 1e8 * (1 + kind) + 1e8 * c / n_chan[kind];
    const double reach_m = 3 * LIMIT_LAMBDA * MSI_SPEED_OF_LIGHT / b->freq_hz[n_chan[kind] - 1];
    for (int64_t i = 0; i < 3 * n_row; i++) b->uvw_m[i] = reach_m * (draw(&seed) - 0.5);
    for (int64_t i = 0; i < n; i++) {
        /* 20 bits: both precisions represent these numbers exactly. */
        const double re = floor(0x1p20 * draw(&seed)) * 0x1p-20, im = floor(0x1p20 * draw(&seed)) * 0x1p-20;
        b->single[i] = (msi_c32){(float)re, (float)im};
        b->vis[i] = (msi_c64){re, im};
        /* One row of four has no sample. */
        const int64_t row = i / n_chan[kind] % n_row;
        b->weight[i] = row % 4 == 3 || draw(&seed) < 0.2 ? 0 : (float)draw(&seed);
    }
    b->block = (msi_vis_block){n_row, n_chan[kind], N_PLANE, b->uvw_m, b->freq_hz, b->vis, b->weight, NULL, NULL};
}

static void block_free(own_block *b)
{
    free(b->uvw_m);
    free(b->freq_hz);
    free(b->vis);
    free(b->single);
    free(b->weight);
}

static void make_blocks(own_block *b, msi_vis_block *plain)
{
    for (int k = 0; k < N_BLOCK; k++) {
        block_make(&b[k], k);
        plain[k] = b[k].block;
    }
}

static void start(msi_vis_store *s, msi_precision precision)
{
    msi_vis_store_init(s, N_PLANE, precision, LIMIT_LAMBDA, LIMIT_LAMBDA, 0, NULL);
}

static void same_stores(const msi_vis_store *a, const msi_vis_store *b)
{
    assert_int_equal(a->n_segment, b->n_segment);
    assert_true(a->n_sample == b->n_sample && a->n_outside == b->n_outside && a->n_sample > 0 && a->n_outside > 0);
    assert_true(a->w_min_lambda == b->w_min_lambda && a->w_max_lambda == b->w_max_lambda);
    assert_memory_equal(a->sum_weight, b->sum_weight, sizeof a->sum_weight);
    assert_true(a->largest_weight == b->largest_weight && a->largest_jy == b->largest_jy &&
                a->largest_product == b->largest_product);
    for (int64_t i = 0; i < a->n_segment; i++) {
        const msi_vis_segment *x = &a->segment[i], *y = &b->segment[i];
        assert_true(x->n_row == y->n_row && x->n_row_max == y->n_row_max && x->n_chan == y->n_chan);
        assert_memory_equal(x->freq_hz, y->freq_hz, sizeof *x->freq_hz * (size_t)x->n_chan);
        assert_memory_equal(x->uvw_m, y->uvw_m, 3 * sizeof *x->uvw_m * (size_t)x->n_row);
        for (int p = 0; p < N_PLANE; p++) {
            const int64_t at = msi_segment_index(x, p, 0, 0), size = msi_complex_bytes(a->precision);
            const size_t n = (size_t)(x->n_row * x->n_chan);
            assert_memory_equal(x->weight + at, y->weight + at, sizeof(float) * n);
            assert_memory_equal((const char *)x->vis + at * size, (const char *)y->vis + at * size, (size_t)size * n);
        }
    }
}

/* The expected samples are computed from the blocks row by row, without functions of the store. */
static void same_by_definition(const msi_vis_store *s, const msi_vis_block *block)
{
    int64_t n_sample = 0, n_outside = 0;
    double w_max = 0, largest = 0, sum[N_PLANE] = {0};
    for (int k = 0; k < N_BLOCK; k++)
        for (int64_t row = 0; row < block[k].n_row; row++)
            for (int32_t c = 0; c < block[k].n_chan; c++) {
                const double *uvw_m = block[k].uvw_m + 3 * row, per_m = block[k].freq_hz[c] / MSI_SPEED_OF_LIGHT;
                const int is_outside = fmax(fabs(uvw_m[0]), fabs(uvw_m[1])) * per_m > LIMIT_LAMBDA;
                int is_used = 0;
                for (int p = 0; p < N_PLANE; p++) {
                    const int64_t at = (p * block[k].n_row + row) * block[k].n_chan + c;
                    const double w = (double)block[k].weight[at];
                    is_used |= w > 0;
                    if (is_outside) continue;
                    sum[p] += w;
                    largest = fmax(largest, w * fmax(fabs(block[k].vis[at].re), fabs(block[k].vis[at].im)));
                }
                n_outside += is_used && is_outside;
                n_sample += is_used && !is_outside;
                if (is_used && !is_outside) w_max = fmax(w_max, fabs(uvw_m[2]) * per_m);
            }
    assert_int_equal(s->n_sample, n_sample);
    assert_int_equal(s->n_outside, n_outside);
    assert_true(fabs(s->w_max_lambda / w_max - 1) < 1e-14);
    assert_true(s->largest_product == largest);
    /* Additions of up to 4e5 doubles. */
    for (int p = 0; p < N_PLANE; p++) assert_true(fabs(s->sum_weight[p] / sum[p] - 1) < 1e-10);
}

static void test_together_and_one_by_one(void **state)
{
    (void)state;
    const int threads = omp_get_max_threads();
    static own_block b[N_BLOCK];
    static msi_vis_block block[N_BLOCK];
    make_blocks(b, block);
    for (int precision = 0; precision < 2; precision++) {
        msi_vis_store one_by_one, together;
        const msi_precision of = precision ? MSI_FP64 : MSI_FP32;
        start(&one_by_one, of);
        omp_set_num_threads(1);
        for (int k = 0; k < N_BLOCK; k++) assert_int_equal(msi_vis_store_add(&one_by_one, &block[k]), MSI_OK);
        same_by_definition(&one_by_one, block);
        omp_set_num_threads(4);
        for (int first = 1; first <= N_BLOCK; first += 9) {
            start(&together, of);
            assert_int_equal(msi_vis_store_add_all(&together, block, first), MSI_OK);
            assert_int_equal(msi_vis_store_add_all(&together, block + first, N_BLOCK - first), MSI_OK);
            same_stores(&one_by_one, &together);
            msi_vis_store_free(&together);
        }
        /* Values given in single precision. */
        msi_vis_block single[N_BLOCK];
        for (int k = 0; k < N_BLOCK; k++) {
            single[k] = block[k];
            single[k].vis = NULL;
            single[k].vis_f32 = b[k].single;
        }
        start(&together, of);
        assert_int_equal(msi_vis_store_add_all(&together, single, N_BLOCK), MSI_OK);
        same_stores(&one_by_one, &together);
        msi_vis_store_free(&together);
        msi_vis_store_free(&one_by_one);
    }
    omp_set_num_threads(threads);
    for (int k = 0; k < N_BLOCK; k++) block_free(&b[k]);
}

/* Copy rows [from, from + n) of a block to reserved rows, from `to` on. */
static void fill_rows(const msi_vis_block *b, int64_t from, msi_vis_rows *rows, int64_t to, int64_t n)
{
    memcpy(rows->uvw_m + 3 * to, b->uvw_m + 3 * from, 3 * sizeof *b->uvw_m * (size_t)n);
    for (int p = 0; p < N_PLANE; p++) {
        const int64_t at = (p * rows->plane_rows + to) * b->n_chan, k = (p * b->n_row + from) * b->n_chan;
        memcpy(rows->weight + at, b->weight + k, sizeof *b->weight * (size_t)(n * b->n_chan));
        memcpy((msi_c64 *)rows->vis + at, b->vis + k, sizeof *b->vis * (size_t)(n * b->n_chan));
    }
}

/* Rows that the caller fills have the same samples and counts as blocks that are added; rows without samples are kept. */
static void test_rows_in_place(void **state)
{
    (void)state;
    enum { STEP = 100, MOST = 2 * N_BLOCK };
    static own_block b[N_BLOCK];
    static msi_vis_block block[N_BLOCK];
    static msi_vis_rows rows[MOST];
    int64_t from[MOST], n_kept = 0, n_used = 0, n_row = 0, n_added = 0;
    int of[MOST], n = 0;
    make_blocks(b, block);
    msi_vis_store s, added;
    start(&s, MSI_FP64);
    start(&added, MSI_FP64);
    assert_int_equal(msi_vis_store_reserve(&s, 1, MSI_STORE_MAX_CHAN + 1, b[4].freq_hz, rows), MSI_EINTERNAL);
    for (int k = 0; k < N_BLOCK; k++) {
        assert_int_equal(msi_vis_store_add(&added, &block[k]), MSI_OK);
        /* Blocks of too many channels are added, as a caller would. */
        if (block[k].n_chan > MSI_STORE_MAX_CHAN) continue;
        for (int64_t row = 0; row < block[k].n_row; row += rows[n++].n_row) {
            assert_true(n < MOST);
            of[n] = k;
            from[n] = row;
            assert_int_equal(
                msi_vis_store_reserve(&s, block[k].n_row - row, block[k].n_chan, block[k].freq_hz, &rows[n]), MSI_OK);
            assert_in_range(rows[n].n_row, 1, block[k].n_row - row);
        }
    }
    assert_true(n > N_BLOCK); /* some blocks are in two segments */
#pragma omp parallel for num_threads(4) schedule(dynamic, 1)
    for (int i = 0; i < n; i++)
        for (int64_t row = 0; row < rows[i].n_row; row += STEP) {
            const int64_t left = rows[i].n_row - row, m = left < STEP ? left : STEP;
            fill_rows(&block[of[i]], from[i] + row, &rows[i], row, m);
            msi_vis_store_count(&s, &rows[i], row, m);
        }
    assert_int_equal(msi_vis_store_commit(&s, rows, n), MSI_OK);
    for (int i = 0; i < n; i++) {
        n_row += rows[i].n_row;
        n_used += rows[i].n_used;
    }
    for (int64_t i = 0; i < s.n_segment; i++) n_kept += s.segment[i].n_row;
    assert_true(n_kept == n_row && n_used > 0 && n_used < n_row);
    for (int k = 0; k < N_BLOCK; k++)
        if (block[k].n_chan > MSI_STORE_MAX_CHAN) assert_int_equal(msi_vis_store_add(&s, &block[k]), MSI_OK);
    same_by_definition(&s, block);
    /* The current weights are those of the added blocks. */
    double sum[N_PLANE], largest[N_PLANE], sum_added[N_PLANE], largest_added[N_PLANE];
    int64_t count[N_PLANE], count_added[N_PLANE];
    msi_vis_store_weights(&s, sum, largest, count);
    msi_vis_store_weights(&added, sum_added, largest_added, count_added);
    for (int p = 0; p < N_PLANE; p++) {
        assert_true(fabs(sum[p] / sum_added[p] - 1) < 1e-12 && largest[p] == largest_added[p]);
        assert_int_equal(count[p], count_added[p]);
    }
    for (int64_t i = 0; i < added.n_segment; i++) n_added += added.segment[i].n_row;
    assert_true(n_added < n_kept);
    msi_vis_store_free(&s);
    msi_vis_store_free(&added);
    for (int k = 0; k < N_BLOCK; k++) block_free(&b[k]);
}

/* Invalid weights exclude a sample: they may come from a reader process of a damaged set. */
static void test_no_weights(void **state)
{
    (void)state;
    const double uvw_m[] = {1, 2, 3}, freq_hz[] = {1e8, 1.1e8, 1.2e8, 1.3e8};
    const msi_c64 vis[N_PLANE * 4] = {{1, 1}};
    float weight[N_PLANE * 4] = {NAN, -1, INFINITY, 2};
    const msi_vis_block block = {1, 4, N_PLANE, uvw_m, freq_hz, vis, weight, NULL, NULL};
    msi_vis_store s;
    start(&s, MSI_FP32);
    assert_int_equal(msi_vis_store_add(&s, &block), MSI_OK);
    assert_true(s.sum_weight[0] == 2 && s.largest_weight == 2 && s.segment[0].n_row == 1);
    for (int c = 0; c < 4; c++) assert_true(s.segment[0].weight[c] == (c == 3 ? 2 : 0));
    msi_vis_store_free(&s);
}

/* Tags stay with their rows, of which those without a sample are left out. A block without tags is refused. */
static void test_tags(void **state)
{
    (void)state;
    static own_block b[N_BLOCK];
    static msi_vis_block block[N_BLOCK];
    uint64_t *tag[N_BLOCK];
    int64_t n_row = 0;
    make_blocks(b, block);
    msi_vis_store s;
    start(&s, MSI_FP32);
    s.tagged = 1;
    assert_int_equal(msi_vis_store_add(&s, &block[0]), MSI_EINTERNAL);
    for (int k = 0; k < N_BLOCK; k++) {
        assert_int_equal(msi_alloc(&tag[k], block[k].n_row, sizeof *tag[k], "tags"), MSI_OK);
        /* The bits of a coordinate that no other row has. */
        for (int64_t i = 0; i < block[k].n_row; i++) memcpy(&tag[k][i], &block[k].uvw_m[3 * i], sizeof *tag[k]);
        block[k].tag = tag[k];
    }
    assert_int_equal(msi_vis_store_add_all(&s, block, N_BLOCK), MSI_OK);
    for (int64_t k = 0; k < s.n_segment; k++)
        for (int64_t i = 0; i < s.segment[k].n_row; i++, n_row++)
            assert_memory_equal(&s.segment[k].tag[i], &s.segment[k].uvw_m[3 * i], sizeof(uint64_t));
    assert_true(n_row > 0);
    msi_vis_store_free(&s);
    for (int k = 0; k < N_BLOCK; k++) {
        msi_free(tag[k]);
        block_free(&b[k]);
    }
}

/* If memory for a segment cannot be allocated, earlier rows have been added. */
static void test_no_disk_space(void **state)
{
    (void)state;
    static own_block b[N_BLOCK];
    static msi_vis_block block[N_BLOCK];
    make_blocks(b, block);
    msi_vis_store s, whole;
    msi_vis_store_init(&s, N_PLANE, MSI_FP32, LIMIT_LAMBDA, LIMIT_LAMBDA, 1 << 20, "/nowhere");
    assert_int_equal(msi_vis_store_add_all(&s, block, N_BLOCK), MSI_EOUTPUT);
    assert_true(s.n_segment > 0);
    start(&whole, MSI_FP32);
    assert_int_equal(msi_vis_store_add_all(&whole, block, N_BLOCK), MSI_OK);
    int64_t n_row = 0;
    for (int64_t i = 0; i < s.n_segment; i++) {
        const msi_vis_segment *x = &s.segment[i], *y = &whole.segment[i];
        assert_true(x->n_row <= y->n_row && x->n_chan == y->n_chan);
        assert_memory_equal(x->uvw_m, y->uvw_m, 3 * sizeof *x->uvw_m * (size_t)x->n_row);
        assert_memory_equal(x->weight, y->weight, sizeof *x->weight * (size_t)(x->n_row * x->n_chan));
        n_row += x->n_row;
    }
    assert_true(n_row > 0);
    msi_vis_store_free(&s);
    msi_vis_store_free(&whole);
    for (int k = 0; k < N_BLOCK; k++) block_free(&b[k]);
}

/* The calls that reserve a file's blocks and are interrupted by a signal, and the calls made. */
static int n_to_end, n_reserved;

int __real_posix_fallocate64(int fd, off_t offset, off_t n);
int __wrap_posix_fallocate64(int fd, off_t offset, off_t n);
int __wrap_posix_fallocate64(int fd, off_t offset, off_t n)
{
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    n_reserved++;
    return n_to_end-- > 0 ? EINTR : __real_posix_fallocate64(fd, offset, n);
}

/* A signal that does not stop the run, such as a profiler's timer, costs another call; one that stops the run is not
 * reported as a full disk. */
static void test_signals_while_reserving(void **state)
{
    (void)state;
    static own_block b[N_BLOCK];
    static msi_vis_block block[N_BLOCK];
    make_blocks(b, block);
    msi_vis_store s;
    msi_vis_store_init(&s, N_PLANE, MSI_FP32, LIMIT_LAMBDA, LIMIT_LAMBDA, 1, NULL);
    n_reserved = 0;
    n_to_end = 3;
    assert_int_equal(msi_vis_store_add(&s, block), MSI_OK);
    assert_int_equal(n_reserved, 4);
    assert_true(s.bytes_file > 0);
    msi_vis_store_free(&s);

    msi_vis_store_init(&s, N_PLANE, MSI_FP32, LIMIT_LAMBDA, LIMIT_LAMBDA, 1, NULL);
    n_to_end = 1;
    msi_interrupt_raise(SIGINT);
    assert_int_equal(msi_vis_store_add(&s, block), MSI_EINTERRUPTED);
    msi_interrupt_raise(0);
    msi_vis_store_free(&s);
    for (int k = 0; k < N_BLOCK; k++) block_free(&b[k]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together_and_one_by_one),
        cmocka_unit_test(test_rows_in_place),
        cmocka_unit_test(test_no_weights),
        cmocka_unit_test(test_tags),
        cmocka_unit_test(test_no_disk_space),
        cmocka_unit_test(test_signals_while_reserving),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
