/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Density weights of samples on a GPU. Each block of threads handles one of the PARTS parts of a segment's rows.
 *
 * A thread first adds consecutive samples of the same cell, and then adds their sum to the cell atomically. Each block
 * stores its totals, and the host adds them in a fixed order, so that they do not depend on the order of blocks.
 *
 * Samples that have no weight in plane 0 but in another plane are summed separately. These sums are called `rest`.
 */
#include "kernels/store/density_gpu.h"

#include <memory>
#include <new>
#include <vector>

#include "core/memory.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/plan_stream_cuda.h"
#include "kernels/store/gpu_samples.h"

namespace {

/* Parts of a segment, threads of a block, and consecutive samples that a thread reads in k_add_cells. */
constexpr int PARTS = 8, THREADS = 256, RUN = 8;
/* Blocks of k_square. */
constexpr int SQUARE_BLOCKS = 1024;

/* A segment on the device. */
struct segment_view {
    const double *uvw_m, *freq_hz;
    float *weight;
    int32_t n_row, n_chan;
    int64_t plane_step; /* from a plane's weights to the next's */
};

/* Totals of a block's samples. */
struct block_total {
    double sum, rest; /* sums of weights; rest: of samples without a weight in plane 0 */
    double largest;   /* largest weight */
    int64_t count;    /* number of samples with a positive weight */
};

/* The samples [first, end) of a block's part of a segment: whole rows. */
struct sample_range {
    uint32_t first, end;
};

__device__ sample_range range_of(const segment_view &s, int part)
{
    const uint32_t each = ((uint32_t)s.n_row + PARTS - 1) / PARTS, row = min(each * (uint32_t)part, (uint32_t)s.n_row),
                   end = min(row + each, (uint32_t)s.n_row);
    return {row * (uint32_t)s.n_chan, end * (uint32_t)s.n_chan};
}

/* Add up the totals of a block's threads in a fixed order, and store them. */
__device__ void store_total(block_total mine, block_total *out)
{
    __shared__ block_total all[THREADS];
    all[threadIdx.x] = mine;
    for (int n = THREADS / 2; n > 0; n /= 2) {
        __syncthreads();
        if ((int)threadIdx.x >= n) continue;
        block_total &a = all[threadIdx.x];
        const block_total &b = all[threadIdx.x + n];
        a = {a.sum + b.sum, a.rest + b.rest, fmax(a.largest, b.largest), a.count + b.count};
    }
    if (threadIdx.x == 0) *out = all[0];
}

/* Return the weight of sample i in the first plane where it is positive; 0 if there is no such plane.
 * Returned: *is_rest  true if that plane is not plane 0, or if there is none */
__device__ float weight_at(const segment_view &s, int n_plane, uint32_t i, bool *is_rest)
{
    *is_rest = false;
    const float first = s.weight[i];
    if (first > 0) return first;
    *is_rest = true;
    for (int p = 1; p < n_plane; p++) {
        const float w = s.weight[p * s.plane_step + i];
        if (w > 0) return w;
    }
    return 0;
}

/* Add the weights of samples, divided by the store's scale, to their cells and to the totals. */
__global__ void __launch_bounds__(THREADS)
    k_add_cells(const segment_view *segment, msi_density_cells cells, int n_plane, double unscale, double *sum,
                double *rest, block_total *total)
{
    const segment_view s = segment[blockIdx.x / PARTS];
    const sample_range range = range_of(s, (int)(blockIdx.x % PARTS));
    block_total mine = {0, 0, 0, 0};
    for (uint32_t first = range.first + threadIdx.x * RUN; first < range.end; first += THREADS * RUN) {
        const uint32_t end = min(first + RUN, range.end);
        double *to = nullptr, joined = 0;
        for (uint32_t i = first; i < end; i++) {
            bool is_rest;
            const double w = (double)weight_at(s, n_plane, i, &is_rest) * unscale;
            if (!(w > 0)) continue;
            const uint32_t row = i / (uint32_t)s.n_chan;
            const double hz = s.freq_hz[i - row * (uint32_t)s.n_chan];
            msi_uv_cell cell;
            if (!msi_uv_cell_of(&cells, s.uvw_m[3 * row] / MSI_SPEED_OF_LIGHT * hz,
                                s.uvw_m[3 * row + 1] / MSI_SPEED_OF_LIGHT * hz, &cell))
                continue;
            (is_rest ? mine.rest : mine.sum) += w;
            double *here = (is_rest ? rest : sum) + cell.row * cells.grid.nu + cell.column;
            if (here != to && joined > 0) atomicAdd(to, joined);
            joined = here == to ? joined + w : w;
            to = here;
        }
        if (joined > 0) atomicAdd(to, joined);
    }
    store_total(mine, total + blockIdx.x);
}

/* Multiply the weights of plane blockIdx.y by their factors, unless is_kept, and compute their totals. */
__global__ void __launch_bounds__(THREADS)
    k_weigh(const segment_view *segment, msi_weight_factors factors, bool is_kept, block_total *total)
{
    const segment_view s = segment[blockIdx.x / PARTS];
    const sample_range range = range_of(s, (int)(blockIdx.x % PARTS));
    float *weight = s.weight + blockIdx.y * s.plane_step;
    block_total mine = {0, 0, 0, 0};
    for (uint32_t i = range.first + threadIdx.x; i < range.end; i += THREADS) {
        float w = weight[i];
        if (!(w > 0)) continue;
        if (!is_kept) {
            const uint32_t row = i / (uint32_t)s.n_chan;
            const double factor = msi_factor_at(&factors, s.uvw_m + 3 * row, s.freq_hz[i - row * (uint32_t)s.n_chan]);
            w = (float)msi_weight_by(&factors, (double)w, factor);
            weight[i] = w;
        }
        mine.sum += (double)w;
        mine.largest = fmax(mine.largest, (double)w);
        mine.count += w > 0;
    }
    store_total(mine, total + (int64_t)blockIdx.y * gridDim.x + blockIdx.x);
}

/* Sum the squares of n numbers. */
__global__ void __launch_bounds__(THREADS) k_square(const double *sum, int64_t n, block_total *total)
{
    block_total mine = {0, 0, 0, 0};
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < n; i += (int64_t)gridDim.x * THREADS)
        mine.sum += sum[i] * sum[i];
    store_total(mine, total + blockIdx.x);
}

/* The segments of a store on the device, and the totals of their blocks. */
class view_list {
  public:
    plan_stream on;
    explicit view_list(const msi_vis_store *store_)
        : on(msi_gpu_stream{msi_gpu_samples_device(store_), nullptr}), store(store_)
    {
    }

    int64_t n_block() const
    {
        return store->n_segment * PARTS;
    }
    const segment_view *views() const
    {
        return as<segment_view>(d_view);
    }
    block_total *totals() const
    {
        return as<block_total>(d_total);
    }

    /* begin - copy the list to the device, and allocate n totals for each block. */
    int begin(int n)
    {
        std::vector<segment_view> view;
        std::vector<double> freq;
        MSI_TRY(on.enter());
        try {
            view.resize((size_t)store->n_segment);
            for (const msi_vis_setup *p = store->setup; p; p = p->next)
                freq.insert(freq.end(), p->freq_hz, p->freq_hz + p->n_chan);
        } catch (const std::bad_alloc &) {
            return msi_error_set(MSI_ENOMEM, "not enough memory for weights");
        }
        MSI_TRY(d_freq.fit((int64_t)(freq.size() * sizeof(double)), "frequencies"));
        MSI_TRY(d_view.fit((int64_t)(view.size() * sizeof(segment_view)), "segments"));
        MSI_TRY(d_total.fit(n * n_block() * (int64_t)sizeof(block_total), "sums of weights"));
        for (int64_t i = 0; i < store->n_segment; i++) {
            const msi_vis_segment *s = &store->segment[i];
            view[(size_t)i] = {s->uvw_m,  device_freq(s->freq_hz), s->weight, (int32_t)s->n_row,
                               s->n_chan, s->n_row_max * s->n_chan};
        }
        MSI_TRY(on.upload(as<double>(d_freq), freq.data(), (int64_t)freq.size()));
        MSI_TRY(on.upload(as<segment_view>(d_view), view.data(), (int64_t)view.size()));
        return on.wait();
    }

    /* fetch - copy n totals of each block to the host, and add those of all blocks. Returned: all [n] */
    int fetch(int n, block_total *all) const
    {
        std::vector<block_total> total;
        try {
            total.resize((size_t)(n * n_block()));
        } catch (const std::bad_alloc &) {
            return msi_error_set(MSI_ENOMEM, "not enough memory for weights");
        }
        MSI_TRY(on.download(total.data(), totals(), (int64_t)total.size()));
        for (int k = 0; k < n; k++) {
            all[k] = {0, 0, 0, 0};
            for (int64_t i = 0; i < n_block(); i++) {
                const block_total &t = total[(size_t)(k * n_block() + i)];
                all[k] = {all[k].sum + t.sum, all[k].rest + t.rest, std::max(all[k].largest, t.largest),
                          all[k].count + t.count};
            }
        }
        return MSI_OK;
    }

  private:
    const msi_vis_store *store;
    buffer d_view, d_freq, d_total;

    /* Return the device address of a setup's frequencies. */
    const double *device_freq(const double *freq_hz) const
    {
        int64_t at = 0;
        const msi_vis_setup *p = store->setup;
        for (; p->freq_hz != freq_hz; p = p->next) at += p->n_chan;
        return as<double>(d_freq) + at;
    }
};

} // namespace

struct msi_density_gpu {
    int device;
    int64_t n_cell;
    buffer sum, rest; /* [n_cell]; rest is empty unless has_rest */
    bool has_rest = false;
};

namespace {

/* Allocate and clear the sums of n_cell cells. */
int begin_sums(buffer &sums, int64_t n_cell, const plan_stream &on)
{
    MSI_TRY(sums.fit(n_cell * (int64_t)sizeof(double), "density weights"));
    return on.clear(as<double>(sums), n_cell);
}

/* Allocate and clear the sums that do not exist yet. `rest` is needed only for stores of several planes. */
int make_sums(msi_density_gpu **d, const msi_density_cells *cells, const msi_vis_store *store, const plan_stream &on)
{
    if (!*d) {
        std::unique_ptr<msi_density_gpu> made(new (std::nothrow) msi_density_gpu);
        if (!made) return msi_error_set(MSI_ENOMEM, "not enough memory for weights");
        made->device = msi_gpu_samples_device(store);
        made->n_cell = cells->grid.nv / 2 * cells->grid.nu;
        MSI_TRY(begin_sums(made->sum, made->n_cell, on));
        *d = made.release();
    }
    if (store->n_plane > 1 && !(*d)->has_rest) {
        MSI_TRY(begin_sums((*d)->rest, (*d)->n_cell, on));
        (*d)->has_rest = true;
    }
    return MSI_OK;
}

/* Get the device address of an array of n numbers. Given: present  the array on the device; NULL or empty: copy `host`
 * to `copy`. Returned: *out  NULL if both are missing */
int get_on_device(const plan_stream &on, const buffer *present, const double *host, int64_t n, buffer &copy,
                  const double **out)
{
    *out = present ? as<double>(*present) : nullptr;
    if (*out || !host) return MSI_OK;
    staged_copy staging(on);
    MSI_TRY(copy.fit(n * (int64_t)sizeof(double), "density weights"));
    MSI_TRY(staging.begin(n * (int64_t)sizeof(double), host));
    MSI_TRY(staging.upload(as<double>(copy), host, n));
    *out = as<double>(copy);
    return staging.flush();
}

int fetch_sums(const plan_stream &on, const buffer &from, int64_t n, double *to)
{
    staged_copy staging(on);
    return staging.download(to, as<double>(from), n * (int64_t)sizeof(double));
}

} // namespace

int msi_density_gpu_add(msi_density_gpu **d, const msi_density_cells *cells, const msi_vis_store *store, double *total)
{
    view_list list(store);
    block_total all;
    if (!store->n_segment) return MSI_OK;
    MSI_TRY(list.begin(1));
    MSI_TRY(make_sums(d, cells, store, list.on));
    k_add_cells<<<(unsigned)list.n_block(), THREADS, 0, list.on.get()>>>(list.views(), *cells, store->n_plane,
                                                                         1 / store->weight_scale, as<double>((*d)->sum),
                                                                         as<double>((*d)->rest), list.totals());
    MSI_CUDA(cudaGetLastError());
    MSI_TRY(list.fetch(1, &all));
    total[0] += all.sum;
    total[1] += all.rest;
    return MSI_OK;
}

int msi_density_gpu_device(const msi_density_gpu *d)
{
    return d->device;
}

int msi_density_gpu_has_rest(const msi_density_gpu *d)
{
    return d->has_rest;
}

int msi_density_gpu_squares(const msi_density_gpu *d, int of_rest, double *squares)
{
    const plan_stream on(msi_gpu_stream{d->device, nullptr});
    block_total part[SQUARE_BLOCKS];
    buffer d_part;
    *squares = 0;
    MSI_TRY(on.enter());
    MSI_TRY(d_part.fit(sizeof part, "sums of weights"));
    k_square<<<SQUARE_BLOCKS, THREADS, 0, on.get()>>>(as<double>(of_rest ? d->rest : d->sum), d->n_cell,
                                                      as<block_total>(d_part));
    MSI_CUDA(cudaGetLastError());
    MSI_TRY(on.download(part, as<block_total>(d_part), SQUARE_BLOCKS));
    for (const block_total &t : part) *squares += t.sum;
    return MSI_OK;
}

int msi_density_gpu_fetch(const msi_density_gpu *d, double *sum, double *rest)
{
    const plan_stream on(msi_gpu_stream{d->device, nullptr});
    MSI_TRY(on.enter());
    MSI_TRY(fetch_sums(on, d->sum, d->n_cell, sum));
    return rest && d->has_rest ? fetch_sums(on, d->rest, d->n_cell, rest) : MSI_OK;
}

int msi_density_gpu_weigh(msi_vis_store *store, const msi_density_gpu *d, const msi_weight_factors *factors)
{
    view_list list(store);
    buffer sum, rest, limited;
    block_total all[MSI_STORE_MAX_PLANES];
    msi_weight_factors f = {};
    if (!store->n_segment) return MSI_OK;
    MSI_TRY(list.begin(store->n_plane));
    if (factors) {
        f = *factors;
        const int64_t n_cell = f.cells.grid.nv / 2 * f.cells.grid.nu;
        MSI_TRY(get_on_device(list.on, d ? &d->sum : nullptr, f.sum, n_cell, sum, &f.sum));
        MSI_TRY(get_on_device(list.on, d ? &d->rest : nullptr, f.rest, n_cell, rest, &f.rest));
        MSI_TRY(get_on_device(list.on, nullptr, f.limited, n_cell, limited, &f.limited));
    }
    k_weigh<<<dim3((unsigned)list.n_block(), (unsigned)store->n_plane), THREADS, 0, list.on.get()>>>(
        list.views(), f, !factors, list.totals());
    MSI_CUDA(cudaGetLastError());
    MSI_TRY(list.fetch(store->n_plane, all));
    for (int p = 0; p < store->n_plane; p++)
        msi_gpu_samples_set_weights(store, p, all[p].sum, all[p].largest, all[p].count);
    return MSI_OK;
}

void msi_density_gpu_free(msi_density_gpu *d)
{
    if (!d) return;
    if (cudaSetDevice(d->device) != cudaSuccess) cudaGetLastError();
    delete d;
}
