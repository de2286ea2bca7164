/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Rows stacks/ on a GPU: all forms, numbers, cases and precisions. Rows ..-team use the number of GPUs of -gpus: each
 * has a range of the subgrids, no sums are needed, and wall time is measured. */
#include <stdio.h>

#include <algorithm>

#include "core/log.h"
#include "core/ordered_parallel.h"
#include "kernels/bench/device_rows.cuh"
#include "kernels/bench/workload_stacks.h"
#include "kernels/stacks/stack_degrid_cuda.h"

namespace {

constexpr int64_t N_VERIFIED = 4096;
constexpr int64_t N_CELL = (int64_t)MSI_STACK_PLANES * MSI_STACKS_SIZE * MSI_STACKS_SIZE; /* cells of a subgrid */
constexpr int ROUNDS = 40; /* number of rounds that are timed on several GPUs; their threads start once */

struct detail {
    msi_stack_form form;
    msi_stacks_case which;
    msi_precision precision;
    int64_t n; /* mean number of visibilities of a subgrid */
    int32_t group;
    bool team;
};

/* The state of one device. */
struct state {
    const detail *d;
    int device, n_part;
    state *
        part[MSI_BENCH_MAX_GPUS]; /* states of all n_part devices, beginning with this; set for the first device only */
    int64_t all_first[MSI_STACKS_SUBGRIDS + 1]; /* first visibilities of all subgrids */
    int first_subgrid, n_subgrid;
    int64_t first_vis[MSI_STACKS_SUBGRIDS + 1]; /* [n_subgrid + 1] first visibilities of the device's subgrids */
    msi_stack_job job;
    msi_stack *stack;
    buffer grid, kernel_u, kernel_v, kernel_w, uvw, value;
    run_timer timer;
};

/* Make random real numbers of a stream, from number `first` on. */
struct put_real {
    uint64_t stream;
    int64_t first;
    template <typename T> __device__ void operator()(T *out, int64_t i) const
    {
        *out = (T)msi_stacks_real(stream, (uint64_t)(first + i));
    }
};

/* Make random coordinates of a subgrid's n visibilities; the first one is number `first` of all. */
struct put_uvw {
    msi_stacks_case which;
    int64_t first, n;
    __device__ void operator()(msi_stack_uvw *out, int64_t k) const
    {
        *out = msi_stacks_uvw(which, (uint64_t)(first + k), k, n);
    }
};

int make_reals(buffer *out, int64_t n, uint64_t stream, msi_precision precision)
{
    return make_filled<float, double>(out, n, precision, put_real{stream, 0});
}

/* Select part k of the subgrids. */
void take_subgrids(state *s, int64_t n, int k, int n_part)
{
    msi_stacks_counts(s->d->which, n, s->all_first);
    s->first_subgrid = MSI_STACKS_SUBGRIDS * k / n_part;
    s->n_subgrid = MSI_STACKS_SUBGRIDS * (k + 1) / n_part - s->first_subgrid;
    for (int g = 0; g <= s->n_subgrid; g++)
        s->first_vis[g] = s->all_first[s->first_subgrid + g] - s->all_first[s->first_subgrid];
}

int make_job(state *s)
{
    const detail *d = s->d;
    msi_stack_job &job = s->job;
    const int64_t n_uv = (int64_t)MSI_STACK_OVERSAMPLE * MSI_STACK_TAPS;
    const int64_t n_w = (int64_t)MSI_STACK_OVERSAMPLE * MSI_STACK_PLANES;
    const int64_t n_vis = s->first_vis[s->n_subgrid], before = s->all_first[s->first_subgrid];
    job = {};
    job.precision = d->precision;
    job.n_subgrid = s->n_subgrid;
    job.size = MSI_STACKS_SIZE;
    job.first_vis = s->first_vis;
    const put_real cells = {MSI_STACKS_GRID, 2 * N_CELL * s->first_subgrid};
    MSI_TRY((make_filled<float, double>(&s->grid, 2 * N_CELL * s->n_subgrid, d->precision, cells)));
    MSI_TRY(make_reals(&s->kernel_u, n_uv, MSI_STACKS_TABLE_U, d->precision));
    MSI_TRY(make_reals(&s->kernel_v, n_uv, MSI_STACKS_TABLE_V, d->precision));
    MSI_TRY(make_reals(&s->kernel_w, n_w, MSI_STACKS_TABLE_W, d->precision));
    MSI_TRY(s->uvw.fit(n_vis * (int64_t)sizeof(msi_stack_uvw), "coordinates"));
    MSI_TRY(s->value.fit(n_vis * (int64_t)sizeof(msi_c64), "visibilities"));
    for (int g = 0; g < s->n_subgrid; g++) {
        const int64_t first = s->first_vis[g], n_here = s->first_vis[g + 1] - first;
        const put_uvw put = {d->which, before + first, n_here};
        if (n_here > 0) MSI_TRY(fill(as<msi_stack_uvw>(s->uvw) + first, n_here, put));
    }
    job.grid = as<void>(s->grid);
    job.kernel_u = as<void>(s->kernel_u);
    job.kernel_v = as<void>(s->kernel_v);
    job.kernel_w = as<void>(s->kernel_w);
    job.uvw = as<msi_stack_uvw>(s->uvw);
    job.value = as<void>(s->value);
    return MSI_OK;
}

int set_up_part(state *s, const msi_bench_options *options, int k, int n_part)
{
    const msi_gpu_stream gpu = {s->device, nullptr};
    MSI_TRY(msi_gpu_stream_enter(&gpu));
    take_subgrids(s, std::max<int64_t>(1, (int64_t)((double)s->d->n * options->scale)), k, n_part);
    MSI_TRY(make_job(s));
    MSI_TRY(msi_stack_create(&s->stack, &gpu, &s->job, s->d->form, s->d->group));
    MSI_TRY(msi_stack_check(s->stack, &s->job));
    return s->timer.make();
}

int set_up(void **out, const msi_bench_row *row, const msi_bench_options *options, msi_bench_work *work)
{
    static const char *const form[] = {"one a block", "a warp a group", "two warps a group", "streamed", "by tile"};
    state *s = new state{};
    *out = s;
    s->d = (const detail *)row->detail;
    s->n_part = s->d->team ? std::clamp<int>(options->n_gpu, 1, MSI_STACKS_SUBGRIDS) : 1;
    for (int k = 0; k < s->n_part; k++) {
        state *p = s->part[k] = k ? new state{} : s;
        p->d = s->d;
        p->device = s->d->team ? options->gpu[k] : 0;
        MSI_TRY(set_up_part(p, options, k, s->n_part));
    }
    work->n_vis = s->all_first[MSI_STACKS_SUBGRIDS];
    work->n_addition = (double)work->n_vis * MSI_STACK_TAPS * MSI_STACK_TAPS * MSI_STACK_PLANES;
    const int n = s->d->team ? snprintf(work->note, sizeof work->note, "%d GPUs; ", s->n_part) : 0;
    snprintf(work->note + n, sizeof work->note - (size_t)n, "%s", form[msi_stack_form_of(s->stack)]);
    return MSI_OK;
}

/* Run some rounds of a device's subgrids. */
int do_rounds(void *of, int64_t k)
{
    const state *s = ((const state *)of)->part[k];
    const msi_gpu_stream gpu = {s->device, nullptr};
    MSI_TRY(msi_gpu_stream_enter(&gpu));
    for (int i = 0; i < ROUNDS; i++) {
        MSI_TRY(msi_stack_sort(s->stack, &s->job));
        MSI_TRY(msi_stack_degrid(s->stack, &s->job));
    }
    return msi_gpu_stream_wait(&gpu);
}

int run_team(state *s, msi_bench_time *time)
{
    msi_ordered_parallel all = {};
    all.n_item = all.n_thread = s->n_part;
    all.work = do_rounds;
    all.of = s;
    const double start = msi_wall_s();
    MSI_TRY(msi_ordered_parallel_run(&all));
    time->kernel_ms = 1e3 * (msi_wall_s() - start) / ROUNDS;
    return MSI_OK;
}

/* Sort and kernel may overlap, so they are timed together, after an untimed round. The sort is timed again in a
 * separate round. */
int run(void *state_, msi_bench_work *, msi_bench_time *time)
{
    state *s = (state *)state_;
    msi_bench_time sorting = {}, both = {};
    if (s->d->team) return run_team(s, time);
    MSI_TRY(s->timer.begin());
    MSI_TRY(msi_stack_sort(s->stack, &s->job));
    MSI_TRY(s->timer.end(&sorting));
    MSI_TRY(msi_stack_degrid(s->stack, &s->job));
    MSI_TRY(s->timer.begin());
    MSI_TRY(msi_stack_sort(s->stack, &s->job));
    MSI_TRY(msi_stack_degrid(s->stack, &s->job));
    MSI_TRY(s->timer.end(&both));
    time->sort_ms = sorting.kernel_ms;
    time->kernel_ms = both.kernel_ms - sorting.kernel_ms;
    return MSI_OK;
}

/* Check visibilities spread over the whole list of each device. */
int verify(void *state_, double *error)
{
    state *s = (state *)state_;
    *error = 0;
    for (int k = 0; k < s->n_part; k++) {
        const state *p = s->part[k];
        const int64_t n = p->first_vis[p->n_subgrid], before = s->all_first[p->first_subgrid];
        const auto exact = [=](int64_t i) { return msi_stacks_reference(s->d->which, s->all_first, before + i); };
        double own;
        MSI_TRY(distance(p->job.value, n, s->d->precision, std::min(n, N_VERIFIED), exact, &own));
        *error = std::max(*error, own);
    }
    return MSI_OK;
}

void free_state(void *state_)
{
    state *s = (state *)state_;
    for (int k = s ? s->n_part - 1 : -1; k >= 0; k--) {
        state *p = s->part[k];
        if (!p) continue;
        if (cudaSetDevice(p->device) != cudaSuccess) cudaGetLastError();
        msi_stack_free(p->stack);
        delete p;
    }
}

typedef row_list<detail> stack_rows;

/* Return 1 if the GPU supports streaming. Without a GPU return 1 too, so that all rows are listed. */
bool can_stream()
{
    int n_device = 0;
    const bool is_there = cudaGetDeviceCount(&n_device) == cudaSuccess && n_device > 0;
    if (!is_there) cudaGetLastError();
    return !is_there || msi_stack_stream_serves();
}

void add_row(stack_rows *l, const char *after, const detail &d)
{
    static const char *const form[] = {"single", "warp", "zreduce", "stream", "tile", "auto"};
    static const char *const which[] = {"random", "line", "growing"};
    if (d.form == MSI_STACK_STREAM && !can_stream()) return;
    const bool fp32 = d.precision == MSI_FP32;
    msi_bench_row row = {};
    row.workload = MSI_STACKS_TITLE;
    row.method = "wgrid";
    row.strategy = form[d.form];
    row.direction = "degrid";
    row.backend = "cuda";
    row.precision = fp32 ? "fp32" : "fp64";
    /* The rounding error of sums of 256 random terms is far below these. */
    row.tolerance = fp32 ? 1e-6 : 1e-14;
    row.set_up = set_up;
    row.run = run;
    row.verify = verify;
    row.free_state = free_state;
    row.no_energy = 1;
    l->add(row, d, "stacks/%s-%s-%lld-%s%s", form[d.form], which[d.which], (long long)d.n, row.precision, after);
}

void add_rows(stack_rows *l, msi_precision precision)
{
    static const int64_t numbers[] = {16384, 65536, 131072, 262144, 524288, 1000000};
    static const msi_stack_form forms[] = {MSI_STACK_TILE, MSI_STACK_STREAM, MSI_STACK_WARP, MSI_STACK_ZREDUCE,
                                           MSI_STACK_SINGLE};
    for (msi_stacks_case which : {MSI_STACKS_RANDOM, MSI_STACKS_LINE, MSI_STACKS_GROWING})
        for (int64_t n : numbers)
            for (msi_stack_form form : forms) {
                const bool sorted = form == MSI_STACK_TILE || form == MSI_STACK_STREAM;
                if (sorted || n == 16384 || n == 262144 || n == 1000000)
                    add_row(l, "", {form, which, precision, n, 0, false});
            }
    for (msi_stacks_case which : {MSI_STACKS_RANDOM, MSI_STACKS_LINE, MSI_STACKS_GROWING})
        for (int64_t n : {16384, 1000000}) add_row(l, "", {MSI_STACK_AUTO, which, precision, n, 0, false});
    add_row(l, "-team", {MSI_STACK_AUTO, MSI_STACKS_RANDOM, precision, 1000000, 0, true});
    /* Small numbers show the number from which a form is faster than another. */
    for (int64_t n : {16, 64, 256, 1024, 4096})
        for (msi_stack_form form : forms) add_row(l, "", {form, MSI_STACKS_RANDOM, precision, n, 0, false});
    for (int32_t group : {1, 4, 8, 16}) {
        char after[16];
        snprintf(after, sizeof after, "-by-%d", group);
        for (msi_stack_form form : {MSI_STACK_WARP, MSI_STACK_ZREDUCE})
            add_row(l, after, {form, MSI_STACKS_RANDOM, precision, 65536, group, false});
    }
}

} // namespace

extern "C" msi_bench_table msi_stacks_rows_cuda(void)
{
    static stack_rows l;
    if (l.n == 0)
        for (msi_precision precision : {MSI_FP64, MSI_FP32}) add_rows(&l, precision);
    return {l.row, l.n};
}
