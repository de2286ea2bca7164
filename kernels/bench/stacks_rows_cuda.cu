/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Workload D on a GPU: every form, number, case and precision. */
#include <math.h>
#include <stdio.h>

#include <algorithm>
#include <vector>

#include "kernels/bench/workload_stacks.h"
#include "kernels/degrid/stack_degrid_cuda.h"
#include "kernels/degrid/stack_stream_cuda.h"
#include "kernels/grid/cuda_check.h"

namespace {

constexpr int BLOCK = 256, MOST_ROWS = 256, NAME = 48, N_VERIFIED = 4096;
constexpr int64_t N_CELL = (int64_t)MSI_STACKS_SUBGRIDS * MSI_STACK_PLANES * MSI_STACKS_SIZE * MSI_STACKS_SIZE;

struct detail {
    msi_stack_form form;
    msi_stacks_case which;
    msi_precision precision;
    int64_t n; /* a subgrid, on average */
    int32_t group;
};

struct state {
    const detail *d;
    int64_t first_vis[MSI_STACKS_SUBGRIDS + 1];
    msi_stack_job job;
    msi_stack *stack;
    void *memory[6];
    cudaEvent_t begin, sorted, end;
};

template <typename T> __global__ void k_reals(T *out, int64_t n, uint64_t stream)
{
    const int64_t i = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) out[i] = (T)msi_stacks_real(stream, (uint64_t)i);
}

__global__ void k_uvw(msi_stack_uvw *out, msi_stacks_case which, int64_t first, int64_t n)
{
    const int64_t k = (int64_t)blockIdx.x * BLOCK + threadIdx.x;
    if (k < n) out[first + k] = msi_stacks_uvw(which, (uint64_t)(first + k), k, n);
}

unsigned blocks_for(int64_t n)
{
    return (unsigned)((n + BLOCK - 1) / BLOCK);
}

/* Device memory for n random real numbers of a stream. */
int make_reals(void **out, int64_t n, uint64_t stream, msi_precision precision)
{
    const bool fp32 = precision == MSI_FP32;
    MSI_CUDA(cudaMalloc(out, (size_t)n * (fp32 ? sizeof(float) : sizeof(double))));
    if (fp32)
        k_reals<<<blocks_for(n), BLOCK>>>((float *)*out, n, stream);
    else
        k_reals<<<blocks_for(n), BLOCK>>>((double *)*out, n, stream);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int make_job(state *s, int64_t n)
{
    const detail *d = s->d;
    msi_stack_job &job = s->job;
    const int64_t n_uv = (int64_t)MSI_STACK_OVERSAMPLE * MSI_STACK_TAPS;
    const int64_t n_w = (int64_t)MSI_STACK_OVERSAMPLE * MSI_STACK_PLANES;
    msi_stacks_counts(d->which, n, s->first_vis);
    const int64_t n_vis = s->first_vis[MSI_STACKS_SUBGRIDS];
    job = {};
    job.precision = d->precision;
    job.n_subgrid = MSI_STACKS_SUBGRIDS;
    job.size = MSI_STACKS_SIZE;
    job.first_vis = s->first_vis;
    MSI_TRY(make_reals(&s->memory[0], 2 * N_CELL, MSI_STACKS_GRID, d->precision));
    MSI_TRY(make_reals(&s->memory[1], n_uv, MSI_STACKS_TABLE_U, d->precision));
    MSI_TRY(make_reals(&s->memory[2], n_uv, MSI_STACKS_TABLE_V, d->precision));
    MSI_TRY(make_reals(&s->memory[3], n_w, MSI_STACKS_TABLE_W, d->precision));
    MSI_CUDA(cudaMalloc(&s->memory[4], (size_t)n_vis * sizeof(msi_stack_uvw)));
    MSI_CUDA(cudaMalloc(&s->memory[5], (size_t)n_vis * sizeof(msi_c64)));
    for (int g = 0; g < MSI_STACKS_SUBGRIDS; g++) {
        const int64_t n_here = s->first_vis[g + 1] - s->first_vis[g];
        if (n_here == 0) continue;
        k_uvw<<<blocks_for(n_here), BLOCK>>>((msi_stack_uvw *)s->memory[4], d->which, s->first_vis[g], n_here);
        MSI_CUDA(cudaGetLastError());
    }
    job.grid = s->memory[0];
    job.kernel_u = s->memory[1];
    job.kernel_v = s->memory[2];
    job.kernel_w = s->memory[3];
    job.uvw = (const msi_stack_uvw *)s->memory[4];
    job.value = s->memory[5];
    return MSI_OK;
}

int set_up(void **out, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    static const char *const form[] = {"one a block", "a warp a group", "two warps a group", "streamed", "by tile"};
    state *s = new state{};
    *out = s;
    s->d = (const detail *)row->detail;
    const int64_t n = std::max<int64_t>(1, (int64_t)((double)s->d->n * options->scale));
    MSI_TRY(make_job(s, n));
    MSI_TRY(msi_stack_create(&s->stack, &s->job, s->d->form, s->d->group));
    MSI_TRY(msi_stack_check(s->stack, &s->job, nullptr));
    MSI_CUDA(cudaEventCreate(&s->begin));
    MSI_CUDA(cudaEventCreate(&s->sorted));
    MSI_CUDA(cudaEventCreate(&s->end));
    work->n_vis = s->first_vis[MSI_STACKS_SUBGRIDS];
    work->n_addition = (double)work->n_vis * MSI_STACK_TAPS * MSI_STACK_TAPS * MSI_STACK_PLANES;
    snprintf(work->note, sizeof work->note, "%s", form[msi_stack_form_of(s->stack)]);
    return MSI_OK;
}

int run(void *state_, msi_bench_work *, msi_bench_time *time)
{
    state *s = (state *)state_;
    float sort_ms, kernel_ms;
    MSI_CUDA(cudaEventRecord(s->begin));
    MSI_TRY(msi_stack_sort(s->stack, &s->job, nullptr));
    MSI_CUDA(cudaEventRecord(s->sorted));
    MSI_TRY(msi_stack_degrid(s->stack, &s->job, nullptr));
    MSI_CUDA(cudaEventRecord(s->end));
    MSI_CUDA(cudaEventSynchronize(s->end));
    MSI_CUDA(cudaEventElapsedTime(&sort_ms, s->begin, s->sorted));
    MSI_CUDA(cudaEventElapsedTime(&kernel_ms, s->sorted, s->end));
    *time = {sort_ms, kernel_ms};
    return MSI_OK;
}

/* Visibilities spread over the whole list. */
int verify(void *state_, double *error)
{
    state *s = (state *)state_;
    const int64_t n = s->first_vis[MSI_STACKS_SUBGRIDS], n_verified = std::min<int64_t>(n, N_VERIFIED);
    const bool fp32 = s->d->precision == MSI_FP32;
    double difference = 0, norm = 0;
    std::vector<char> value((size_t)n * (fp32 ? sizeof(msi_c32) : sizeof(msi_c64)));
    MSI_CUDA(cudaMemcpy(value.data(), s->job.value, value.size(), cudaMemcpyDeviceToHost));
#pragma omp parallel for reduction(+ : difference, norm)
    for (int64_t k = 0; k < n_verified; k++) {
        const int64_t i = k * n / n_verified;
        const msi_c64 exact = msi_stacks_reference(s->d->which, s->first_vis, i);
        msi_c64 found;
        if (fp32) {
            const msi_c32 x = ((const msi_c32 *)value.data())[i];
            found = {x.re, x.im};
        } else {
            found = ((const msi_c64 *)value.data())[i];
        }
        difference += pow(found.re - exact.re, 2) + pow(found.im - exact.im, 2);
        norm += exact.re * exact.re + exact.im * exact.im;
    }
    *error = sqrt(difference / norm);
    return MSI_OK;
}

void free_state(void *state_)
{
    state *s = (state *)state_;
    if (!s) return;
    msi_stack_free(s->stack);
    for (void *p : s->memory) cudaFree(p);
    if (s->begin) cudaEventDestroy(s->begin);
    if (s->sorted) cudaEventDestroy(s->sorted);
    if (s->end) cudaEventDestroy(s->end);
    delete s;
}

struct row_list {
    msi_bench_row row[MOST_ROWS];
    detail details[MOST_ROWS];
    char name[MOST_ROWS][NAME];
    int n;
};

/* A GPU that is not there may be listed for. */
bool can_stream()
{
    int major;
    if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) == cudaSuccess)
        return major >= MSI_STACK_STREAM_MAJOR;
    cudaGetLastError();
    return true;
}

void add_row(row_list *l, const char *after, const detail &d)
{
    static const char *const form[] = {"single", "warp", "zreduce", "stream", "tile", "auto"};
    static const char *const which[] = {"random", "line", "growing"};
    if (l->n == MOST_ROWS || (d.form == MSI_STACK_STREAM && !can_stream())) return;
    const int i = l->n++;
    const bool fp32 = d.precision == MSI_FP32;
    snprintf(l->name[i], NAME, "D/%s-%s-%lld-%s%s", form[d.form], which[d.which], (long long)d.n,
             fp32 ? "fp32" : "fp64", after);
    l->details[i] = d;
    l->row[i] = {};
    l->row[i].name = l->name[i];
    l->row[i].workload = "D: degridding from 32 subgrids of 512 x 512 x 4, kernels of 8 x 8 x 4 taps";
    l->row[i].method = "wgrid";
    l->row[i].strategy = form[d.form];
    l->row[i].direction = "degrid";
    l->row[i].backend = "cuda";
    l->row[i].precision = fp32 ? "fp32" : "fp64";
    /* Sums of 256 random terms round far below these. */
    l->row[i].tolerance = fp32 ? 1e-6 : 1e-14;
    l->row[i].detail = &l->details[i];
    l->row[i].set_up = set_up;
    l->row[i].run = run;
    l->row[i].verify = verify;
    l->row[i].free_state = free_state;
}

void add_rows(row_list *l, msi_precision precision)
{
    static const int64_t numbers[] = {16384, 65536, 131072, 262144, 524288, 1000000};
    static const msi_stack_form forms[] = {MSI_STACK_TILE, MSI_STACK_STREAM, MSI_STACK_WARP, MSI_STACK_ZREDUCE,
                                           MSI_STACK_SINGLE};
    for (msi_stacks_case which : {MSI_STACKS_RANDOM, MSI_STACKS_LINE, MSI_STACKS_GROWING})
        for (int64_t n : numbers)
            for (msi_stack_form form : forms) {
                const bool sorted = form == MSI_STACK_TILE || form == MSI_STACK_STREAM;
                if (sorted || n == 16384 || n == 262144 || n == 1000000) add_row(l, "", {form, which, precision, n, 0});
            }
    for (msi_stacks_case which : {MSI_STACKS_RANDOM, MSI_STACKS_LINE, MSI_STACKS_GROWING})
        for (int64_t n : {16384, 1000000}) add_row(l, "", {MSI_STACK_AUTO, which, precision, n, 0});
    /* Where the forms cross. */
    for (int64_t n : {16, 64, 256, 1024, 4096})
        for (msi_stack_form form : forms) add_row(l, "", {form, MSI_STACKS_RANDOM, precision, n, 0});
    for (int32_t group : {1, 4, 8, 16}) {
        char after[16];
        snprintf(after, sizeof after, "-by-%d", group);
        for (msi_stack_form form : {MSI_STACK_WARP, MSI_STACK_ZREDUCE})
            add_row(l, after, {form, MSI_STACKS_RANDOM, precision, 65536, group});
    }
}

} /* namespace */

extern "C" msi_bench_table msi_stacks_rows_cuda(void)
{
    static row_list l;
    if (l.n == 0)
        for (msi_precision precision : {MSI_FP64, MSI_FP32}) add_rows(&l, precision);
    return {l.row, l.n};
}
