/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Samples of facets on a GPU. Each thread of a kernel processes several samples. Sums over samples are added block by
 * block in a fixed order, so repeated runs give identical results.
 */
#include "kernels/facet_samples.h"

#include <algorithm>
#include <memory>
#include <new>
#include <string.h>
#include <vector>

#include "core/memory.h"
#include "kernels/gpu/cuda_memory.h"
#include "kernels/gpu/global_memory_cuda.cuh"
#include "kernels/gpu/gpu_memory.h"
#include "kernels/gpu/plan_stream_cuda.h"

namespace {

constexpr int THREADS = 256, BLOCKS = 528, MOST = MSI_FACET_MAX_PLANES;

/* ---- Arguments of kernels --------------------------------------------------------------------------------------- */

/* The shift of sources in a slot, as in msi_facet_samples_shift. */
struct slot_shift {
    double of[3][3];
};

/* The rows of a part on the device. Samples are numbered row * n_chan + channel. */
struct part_view {
    int64_t n_row, n_sample;
    int32_t n_chan;
    const double *freq_hz, *uvw_m;
    const uint64_t *tag;
    const float *weight;     /* [n_stored][n_sample] */
    const void *vis;         /* [n_stored][n_sample] */
    void *model;             /* [n_stored][n_sample]; NULL: none */
    const int64_t *first;    /* [n_slot] index of the first antenna of a slot */
    const msi_c64 *jones;    /* [n_antenna][n_chan][form] */
    const double2 *slope;    /* [n_antenna][n_chan]; NULL: none */
    const slot_shift *shift; /* [n_slot]; NULL without slopes */
};

/* A facet, with members of the rule. */
struct facet_view {
    msi_gain_form form;
    msi_gain_planes map;
    int n_image, n_stored, n_term;
    double reference_hz, l, m;
    int first, n; /* planes [first, first + n) of n_image * n_term */
};

/* A row, with the indices of its antennas' gains. */
struct row_view {
    const double *uvw;
    int64_t slot, p, q; /* p, q: indices of its antennas */
};

__device__ row_view row_of(const part_view &a, const facet_view &f, int64_t row)
{
    row_view r = {a.uvw_m + 3 * row, 0, 0, 0};
    if (!f.form) return r;
    const uint64_t tag = a.tag[row];
    r.slot = msi_tag_slot(tag);
    r.p = a.first[r.slot] + msi_tag_first(tag);
    r.q = a.first[r.slot] + msi_tag_second(tag);
    return r;
}

/* Compute the phase factor that shifts a sample from the facet's centre to the image's centre. Its conjugate shifts it
 * in the other direction. */
__device__ msi_c64 turn_of(const part_view &a, const facet_view &f, const row_view &r, double freq_hz)
{
    double path = r.uvw[0] * f.l + r.uvw[1] * f.m;
    if (a.shift)
        for (int k = 0; k < 3; k++) path += r.uvw[k] * a.shift[r.slot].of[0][k];
    const double turns = path / MSI_SPEED_OF_LIGHT * freq_hz;
    msi_c64 t;
    sincospi(2 * (turns - rint(turns)), &t.im, &t.re);
    return t;
}

/* Compute the uvw of a sample with slopes, in metres at MSI_FACET_BENT_HZ. */
__device__ void bend(const part_view &a, const row_view &r, int32_t chan, double *to)
{
    const double scale = a.freq_hz[chan] / MSI_FACET_BENT_HZ,
                 metres = MSI_SPEED_OF_LIGHT / (2 * MSI_PI * MSI_FACET_BENT_HZ);
    const double2 p = a.slope[r.p * a.n_chan + chan], q = a.slope[r.q * a.n_chan + chan];
    double moved[2];
    for (int k = 0; k < 2; k++) {
        moved[k] = r.uvw[k];
        for (int i = 0; i < 3; i++) moved[k] += r.uvw[i] * a.shift[r.slot].of[k + 1][i];
    }
    to[0] = moved[0] * scale + (p.x - q.x) * metres;
    to[1] = moved[1] * scale + (p.y - q.y) * metres;
    to[2] = r.uvw[2] * scale;
}

/* Return x^term, with x = frequency / reference_hz - 1. */
__device__ double power_of(const facet_view &f, double freq_hz, int term)
{
    double x = 1;
    for (int k = 0; k < term; k++) x *= freq_hz / f.reference_hz - 1;
    return x;
}

__device__ const msi_c64 *gain_of(const part_view &a, const facet_view &f, int64_t antenna, int32_t chan)
{
    return a.jones + (antenna * a.n_chan + chan) * (int)f.form;
}

/* Return the weight of a sample in an image plane. If gains mix planes, it is 0 unless all planes have a weight. */
__device__ float weight_of(const part_view &a, const facet_view &f, int plane, int64_t i)
{
    if (f.form > MSI_GAIN_SCALAR)
        for (int k = 0; k < f.n_stored; k++)
            if (!(a.weight[k * a.n_sample + i] > 0)) return 0;
    return a.weight[plane * a.n_sample + i];
}

template <typename T> __device__ msi_c64 value_at(const void *of, int64_t i)
{
    const T *v = static_cast<const T *>(of) + 2 * i;
    msi_c64 c;
    c.re = (double)v[0];
    c.im = (double)v[1];
    return c;
}

/* ---- Sums over samples ------------------------------------------------------------------------------------------ */

/* Totals of samples, as in msi_gpu_totals. */
struct tally {
    int64_t n_sample, n_outside;
    double w_min, w_max, sum_weight, largest_weight, largest_jy, largest_product;

    __host__ __device__ static tally none()
    {
        return {0, 0, INFINITY, 0, 0, 0, 0, 0};
    }
    __host__ __device__ void add(const tally &o)
    {
        n_sample += o.n_sample;
        n_outside += o.n_outside;
        w_min = fmin(w_min, o.w_min);
        w_max = fmax(w_max, o.w_max);
        sum_weight += o.sum_weight;
        largest_weight = fmax(largest_weight, o.largest_weight);
        largest_jy = fmax(largest_jy, o.largest_jy);
        largest_product = fmax(largest_product, o.largest_product);
    }
};

/* Sums of a response: [n_image][n_image], then [n_image] of weights. */
struct response {
    double of[MOST * MOST + MOST];

    __host__ __device__ static response none()
    {
        response r;
        for (double &x : r.of) x = 0;
        return r;
    }
    __host__ __device__ void add(const response &o)
    {
        for (int i = 0; i < MOST * MOST + MOST; i++) of[i] += o.of[i];
    }
};

/* ---- Kernels ---------------------------------------------------------------------------------------------------- */

/* Form the samples of a facet. Given: u_limit, v_limit  largest |u|, |v| of the image's uv plane, in wavelengths */
template <typename T>
__global__ void __launch_bounds__(THREADS)
    k_form(part_view a, facet_view f, double u_limit, double v_limit, msi_gpu_samples to, tally *out)
{
    tally t = tally::none();
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.n_sample; i += (int64_t)BLOCKS * THREADS) {
        const int64_t row = i / a.n_chan;
        const int32_t chan = (int32_t)(i - row * a.n_chan);
        const row_view r = row_of(a, f, row);
        double bent[3];
        double freq_hz = a.freq_hz[chan];
        const msi_c64 turned = turn_of(a, f, r, freq_hz);
        const double *uvw = r.uvw;
        if (a.slope) {
            bend(a, r, chan, bent);
            uvw = bent;
            freq_hz = MSI_FACET_BENT_HZ;
        }
        if (a.slope || chan == 0)
            for (int k = 0; k < 3; k++) to.uvw_m[3 * (a.slope ? i : row) + k] = uvw[k];
        float largest = 0;
        for (int k = f.first / f.n_term; k * f.n_term < f.first + f.n; k++)
            largest = fmaxf(largest, weight_of(a, f, k, i));
        if (largest > 0 && (fabs(uvw[0]) / MSI_SPEED_OF_LIGHT * freq_hz > u_limit ||
                            fabs(uvw[1]) / MSI_SPEED_OF_LIGHT * freq_hz > v_limit)) {
            t.n_outside++;
            largest = 0;
        }
        msi_c64 v[MOST];
        if (largest > 0) {
            for (int k = 0; k < f.n_stored; k++) {
                v[k] = value_at<T>(a.vis, k * a.n_sample + i);
                if (a.model) v[k] = msi_minus(v[k], value_at<T>(a.model, k * a.n_sample + i));
            }
            if (f.form) msi_gains_apply(&f.map, f.form, 1, gain_of(a, f, r.p, chan), gain_of(a, f, r.q, chan), v);
            const double w = fabs(uvw[2]) / MSI_SPEED_OF_LIGHT * freq_hz;
            t.n_sample++;
            t.w_min = fmin(t.w_min, w);
            t.w_max = fmax(t.w_max, w);
            t.sum_weight += (double)weight_of(a, f, f.first / f.n_term, i);
            t.largest_weight = fmax(t.largest_weight, (double)largest);
        }
        for (int p = f.first; p < f.first + f.n; p++) {
            const float weight = largest > 0 ? weight_of(a, f, p / f.n_term, i) : 0;
            const int64_t at = (p - f.first) * a.n_sample + i;
            T value[2] = {0, 0};
            if (weight > 0) {
                const msi_c64 c = msi_times_conj(v[p / f.n_term], turned);
                const double x = power_of(f, a.freq_hz[chan], p % f.n_term);
                value[0] = (T)(c.re * x);
                value[1] = (T)(c.im * x);
                const double jy = fmax(fabs((double)value[0]), fabs((double)value[1]));
                t.largest_jy = fmax(t.largest_jy, jy);
                t.largest_product = fmax(t.largest_product, (double)weight * jy);
            }
            to.weight[at] = weight;
            static_cast<T *>(to.vis)[2 * at] = value[0];
            static_cast<T *>(to.vis)[2 * at + 1] = value[1];
        }
    }
    sum_block<THREADS>(t, false, out);
}

/* Write the coordinates of a facet's samples. */
__global__ void __launch_bounds__(THREADS) k_place(part_view a, facet_view f, msi_gpu_samples to, tally *out)
{
    tally t = tally::none();
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.n_sample; i += (int64_t)BLOCKS * THREADS) {
        const int64_t row = i / a.n_chan;
        const int32_t chan = (int32_t)(i - row * a.n_chan);
        const row_view r = row_of(a, f, row);
        if (a.slope) {
            bend(a, r, chan, to.uvw_m + 3 * i);
        } else if (chan == 0) {
            for (int k = 0; k < 3; k++) to.uvw_m[3 * row + k] = r.uvw[k];
        }
        const double w = fabs(r.uvw[2]) / MSI_SPEED_OF_LIGHT * a.freq_hz[chan];
        t.n_sample++;
        t.w_min = fmin(t.w_min, w);
        t.w_max = fmax(t.w_max, w);
    }
    sum_block<THREADS>(t, false, out);
}

/* Add predicted visibilities of a facet to the model. */
template <typename T> __global__ void __launch_bounds__(THREADS) k_add(part_view a, facet_view f, const void *predicted)
{
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.n_sample; i += (int64_t)BLOCKS * THREADS) {
        const int64_t row = i / a.n_chan;
        const int32_t chan = (int32_t)(i - row * a.n_chan);
        const row_view r = row_of(a, f, row);
        msi_c64 v[MOST];
        for (int k = 0; k < f.n_stored; k++) v[k].re = v[k].im = 0;
        const msi_c64 turned = turn_of(a, f, r, a.freq_hz[chan]);
        for (int p = f.first; p < f.first + f.n; p++) {
            const double x = power_of(f, a.freq_hz[chan], p % f.n_term);
            const msi_c64 c = msi_times(value_at<T>(predicted, (p - f.first) * a.n_sample + i), turned);
            v[p / f.n_term].re += c.re * x;
            v[p / f.n_term].im += c.im * x;
        }
        if (f.form) msi_gains_apply(&f.map, f.form, 0, gain_of(a, f, r.p, chan), gain_of(a, f, r.q, chan), v);
        for (int k = 0; k < f.n_stored; k++) {
            T *to = static_cast<T *>(a.model) + 2 * (k * a.n_sample + i);
            to[0] += (T)v[k].re;
            to[1] += (T)v[k].im;
        }
    }
}

/* Sum the response of a facet. */
__global__ void __launch_bounds__(THREADS) k_respond(part_view a, facet_view f, int power, response *out)
{
    response s = response::none();
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < a.n_sample; i += (int64_t)BLOCKS * THREADS) {
        const int64_t row = i / a.n_chan;
        const int32_t chan = (int32_t)(i - row * a.n_chan);
        const row_view r = row_of(a, f, row);
        const msi_c64 *p = gain_of(a, f, r.p, chan), *q = gain_of(a, f, r.q, chan);
        double weight[MOST];
        for (int to = 0; to < f.n_image; to++) {
            weight[to] = (double)weight_of(a, f, to, i) * power_of(f, a.freq_hz[chan], power);
            s.of[MOST * MOST + to] += weight[to];
        }
        for (int from = 0; from < f.n_image; from++) {
            msi_c64 v[MOST];
            for (int k = 0; k < f.n_stored; k++) v[k].re = v[k].im = 0;
            v[from].re = 1;
            msi_gains_apply(&f.map, f.form, 0, p, q, v);
            msi_gains_apply(&f.map, f.form, 1, p, q, v);
            for (int to = 0; to < f.n_image; to++) s.of[to * MOST + from] += weight[to] * v[to].re;
        }
    }
    sum_block<THREADS>(s, false, out);
}

} // namespace

/* ---- The samples ------------------------------------------------------------------------------------------------ */

/* A part of the store: its memory, and its gains on the host. */
struct facet_part {
    msi_facet_part host = {};
    std::vector<int64_t> segment; /* indices of its segments */
    std::vector<int64_t> slot, first, first_of_slot;
    int64_t n_row = 0;
    msi_c64 *jones = nullptr; /* allocated by msi_alloc */
    double (*slope)[2] = nullptr;
    buffer d_freq, d_uvw, d_tag, d_weight, d_vis, d_model, d_first, d_jones, d_slope;

    ~facet_part()
    {
        msi_free(jones);
        msi_free(slope);
    }
    int64_t n_sample() const
    {
        return n_row * host.n_chan;
    }
};

struct msi_facet_samples {
    plan_stream on;
    staged_copy staging{on, staged_copy::MOST_SLOTS};
    const msi_vis_store *store = nullptr;
    facet_view facet = {};
    int64_t n_slot = 0;
    int device = 0, at_once = 1;
    bool has_slopes = false, has_model = false;
    std::vector<std::unique_ptr<facet_part>> part;
    double (*shift)[3][3] = nullptr; /* allocated by msi_alloc */
    buffer d_shift, d_sums;

    ~msi_facet_samples()
    {
        on.leave();
        msi_free(shift);
    }

    int64_t value_bytes() const
    {
        return msi_complex_bytes(store->precision);
    }

    part_view view_of(const facet_part &p) const
    {
        return {p.n_row,
                p.n_sample(),
                p.host.n_chan,
                as<double>(p.d_freq),
                as<double>(p.d_uvw),
                as<uint64_t>(p.d_tag),
                as<float>(p.d_weight),
                p.d_vis.get(),
                has_model ? p.d_model.get() : nullptr,
                as<int64_t>(p.d_first),
                as<msi_c64>(p.d_jones),
                has_slopes ? as<double2>(p.d_slope) : nullptr,
                has_slopes ? as<slot_shift>(d_shift) : nullptr};
    }

    facet_view view_of(const msi_facet_part_of &of) const
    {
        facet_view f = facet;
        f.l = of.l;
        f.m = of.m;
        f.first = of.first;
        f.n = of.n;
        return f;
    }

    /* Find the parts of the store, and the slots of their rows. */
    void find_parts(const msi_facet_rule *rule)
    {
        for (int64_t i = 0; i < store->n_segment; i++) {
            const msi_vis_segment *s = &store->segment[i];
            facet_part *p = nullptr;
            for (const auto &known : part)
                if (known->host.freq_hz == s->freq_hz) p = known.get();
            if (!p) {
                part.push_back(std::make_unique<facet_part>());
                p = part.back().get();
                p->host.n_chan = s->n_chan;
                p->host.freq_hz = s->freq_hz;
                p->first_of_slot.assign((size_t)(rule->form ? rule->n_slot : 0), -1);
            }
            p->segment.push_back(i);
            p->n_row += s->n_row;
            for (int64_t row = 0; rule->form && row < s->n_row; row++)
                p->first_of_slot[(size_t)msi_tag_slot(s->tag[row])] = 0;
        }
        for (const auto &p : part)
            for (int64_t slot = 0; slot < (int64_t)p->first_of_slot.size(); slot++) {
                if (p->first_of_slot[(size_t)slot] < 0) continue;
                p->first_of_slot[(size_t)slot] = p->host.n_antenna;
                p->slot.push_back(slot);
                p->first.push_back(p->host.n_antenna);
                p->host.n_antenna += rule->n_antenna[slot];
            }
    }

    int make_tables(facet_part *p, const msi_facet_rule *rule)
    {
        const int64_t n = p->host.n_antenna * p->host.n_chan;
        p->host.n_used = (int64_t)p->slot.size();
        p->host.slot = p->slot.data();
        p->host.first = p->first.data();
        if (!rule->form) return MSI_OK;
        MSI_TRY(msi_alloc(&p->jones, n * (int)rule->form, sizeof *p->jones, "gains of facets"));
        if (has_slopes) MSI_TRY(msi_alloc(&p->slope, n, sizeof *p->slope, "gains of facets"));
        p->host.jones = p->jones;
        p->host.slope = p->slope;
        MSI_TRY(p->d_jones.fit(n * (int)rule->form * (int64_t)sizeof(msi_c64), "gains of facets"));
        if (has_slopes) MSI_TRY(p->d_slope.fit(n * (int64_t)sizeof(double2), "gains of facets"));
        MSI_TRY(p->d_first.fit(n_slot * (int64_t)sizeof(int64_t), "gains of facets"));
        MSI_TRY(on.upload(as<int64_t>(p->d_first), p->first_of_slot.data(), n_slot));
        return on.wait();
    }

    /* Copy an array of each segment of a part to consecutive memory of the device. */
    template <typename GET> int copy_array(const facet_part *p, char *to, GET get)
    {
        for (const int64_t i : p->segment) {
            const msi_vis_segment *s = &store->segment[i];
            int64_t bytes;
            const char *from = static_cast<const char *>(get(s, &bytes));
            MSI_TRY(staging.upload(to, from, bytes));
            to += bytes;
        }
        return staging.push();
    }

    int upload_part(facet_part *p)
    {
        const int64_t n = p->n_sample(), each = value_bytes();
        MSI_TRY(p->d_freq.fit(p->host.n_chan * (int64_t)sizeof(double), "frequencies"));
        MSI_TRY(p->d_uvw.fit(p->n_row * 3 * (int64_t)sizeof(double), "uvw"));
        MSI_TRY(on.upload(as<double>(p->d_freq), p->host.freq_hz, p->host.n_chan));
        MSI_TRY(staging.begin(n * each, store->segment[p->segment[0]].uvw_m));
        MSI_TRY(copy_array(p, as<char>(p->d_uvw), [](const msi_vis_segment *s, int64_t *bytes) {
            *bytes = s->n_row * 3 * (int64_t)sizeof(double);
            return static_cast<const void *>(s->uvw_m);
        }));
        if (facet.form) {
            MSI_TRY(p->d_tag.fit(p->n_row * (int64_t)sizeof(uint64_t), "tags of rows"));
            MSI_TRY(copy_array(p, as<char>(p->d_tag), [](const msi_vis_segment *s, int64_t *bytes) {
                *bytes = s->n_row * (int64_t)sizeof(uint64_t);
                return static_cast<const void *>(s->tag);
            }));
        }
        if (store->coordinates) return staging.flush();
        MSI_TRY(p->d_weight.fit(facet.n_stored * n * (int64_t)sizeof(float), "weights"));
        MSI_TRY(p->d_vis.fit(facet.n_stored * n * each, "visibilities"));
        for (int k = 0; k < facet.n_stored; k++) {
            MSI_TRY(copy_array(p, as<char>(p->d_weight) + k * n * (int64_t)sizeof(float),
                               [k](const msi_vis_segment *s, int64_t *bytes) {
                                   *bytes = s->n_row * s->n_chan * (int64_t)sizeof(float);
                                   return static_cast<const void *>(s->weight + msi_segment_index(s, k, 0, 0));
                               }));
            MSI_TRY(
                copy_array(p, as<char>(p->d_vis) + k * n * each, [k, each](const msi_vis_segment *s, int64_t *bytes) {
                    *bytes = s->n_row * s->n_chan * each;
                    return static_cast<const void *>(static_cast<const char *>(s->vis) +
                                                     each * msi_segment_index(s, k, 0, 0));
                }));
        }
        return staging.flush();
    }

    int upload(const msi_facet_rule *rule)
    {
        MSI_TRY(on.begin(device));
        MSI_TRY(d_sums.fit(BLOCKS * (int64_t)std::max(sizeof(tally), sizeof(response)), "sums over samples"));
        if (has_slopes) {
            MSI_TRY(msi_alloc(&shift, n_slot, sizeof *shift, "gains of facets"));
            MSI_TRY(d_shift.fit(n_slot * (int64_t)sizeof *shift, "gains of facets"));
        }
        for (const auto &p : part) {
            MSI_TRY(make_tables(p.get(), rule));
            MSI_TRY(upload_part(p.get()));
        }
        return MSI_OK;
    }

    /* Fetch the sums of all blocks, and add them. */
    template <typename SUMS> int sum(SUMS *all)
    {
        SUMS of_block[BLOCKS];
        MSI_TRY(on.download(of_block, as<SUMS>(d_sums), BLOCKS));
        for (const SUMS &s : of_block) all->add(s);
        return MSI_OK;
    }

    /* Reserve a part's samples in a gridder. */
    int reserve(const facet_part *p, msi_gridder *gridder, msi_gpu_samples *to) const
    {
        const double bent_hz = MSI_FACET_BENT_HZ;
        return has_slopes ? msi_gridder_gpu_reserve(gridder, p->n_sample(), 1, &bent_hz, to)
                          : msi_gridder_gpu_reserve(gridder, p->n_row, p->host.n_chan, p->host.freq_hz, to);
    }

    /* Add the samples that a kernel has just made, unless it failed. */
    int commit(msi_gridder *gridder, int rc)
    {
        tally t = tally::none();
        if (!rc && cudaGetLastError() != cudaSuccess) rc = msi_error_set(MSI_EGPU, "GPU: cannot start a kernel");
        if (!rc) rc = sum(&t);
        if (rc) {
            msi_gridder_gpu_discard(gridder);
            return rc;
        }
        const msi_gpu_totals totals = {t.n_sample,   t.n_outside,      t.w_min,      t.w_max,
                                       t.sum_weight, t.largest_weight, t.largest_jy, t.largest_product};
        return msi_gridder_gpu_commit(gridder, &totals);
    }
};

/* Return the bytes of the tables of gains. They are the same on the GPU and in host memory. */
static int64_t bytes_of_gains(const msi_facet_samples *f)
{
    int64_t bytes = f->n_slot * (int64_t)(f->has_slopes ? sizeof(slot_shift) : 0);
    for (const auto &p : f->part)
        bytes += p->host.n_antenna * p->host.n_chan * ((int)f->facet.form * 16 + (f->has_slopes ? 16 : 0)) +
                 (int64_t)p->first_of_slot.size() * 8;
    return bytes;
}

/* Return the bytes of the samples on a GPU, of the samples of a facet with n_plane planes, and of their order. */
static int64_t bytes_with(const msi_facet_samples *f, int n_plane)
{
    const msi_vis_store *s = f->store;
    int64_t n_row = 0, n_sample = 0;
    for (const auto &p : f->part) {
        n_row += p->n_row;
        n_sample += p->n_sample();
    }
    const int64_t value = msi_complex_bytes(s->precision), uvw = 3 * sizeof(double), order = 24,
                  own =
                      n_plane * (value + (int64_t)sizeof(float)) * n_sample + uvw * (f->has_slopes ? n_sample : n_row);
    const int64_t stored = s->coordinates ? value : 2 * value + (int64_t)sizeof(float);
    /* The store's planes and their model; a facet's samples twice, because its gridder copies them; their order, with
     * the values of all planes. */
    return f->facet.n_stored * n_sample * stored + n_row * (uvw + 8) + 2 * own +
           (order + (n_plane > 1 ? n_plane * value : 0)) * n_sample + bytes_of_gains(f);
}

/* Check that a GPU has enough memory for the samples, with a fifth left for plans. Given: n_copy  number of copies of
 * the samples on this GPU. Returned: f->at_once */
static int check_memory(msi_facet_samples *f, int n_copy)
{
    size_t free_bytes, total_bytes;
    MSI_TRY(msi_gpu_memory(f->device, &free_bytes, &total_bytes));
    const int all = f->facet.n_image * f->facet.n_term;
    for (f->at_once = all; f->at_once; f->at_once = f->at_once > 1 ? 1 : 0)
        if ((double)n_copy * (double)bytes_with(f, f->at_once) <= 0.8 * (double)free_bytes) return MSI_OK;
    return msi_error_set(MSI_EGPU, "samples of facets need %.3f GB of device memory, of which %.3f GB are free",
                         1e-9 * n_copy * (double)bytes_with(f, 1), 1e-9 * (double)free_bytes);
}

int msi_facet_samples_at_once(const msi_facet_samples *f)
{
    return f->at_once;
}

int msi_facet_samples_create(msi_facet_samples **out, const msi_vis_store *store, const msi_facet_rule *rule,
                             int device, int n_copy)
{
    *out = nullptr;
    std::unique_ptr<msi_facet_samples> f(new (std::nothrow) msi_facet_samples);
    if (!f) return msi_error_set(MSI_ENOMEM, "no memory for the samples of facets");
    f->store = store;
    f->device = device;
    f->facet = {rule->form, rule->map, rule->n_image, rule->n_stored, rule->n_term, rule->reference_hz, 0, 0, 0, 0};
    f->n_slot = rule->n_slot;
    f->has_slopes = rule->has_slopes != 0;
    try {
        f->find_parts(rule);
    } catch (const std::bad_alloc &) {
        return msi_error_set(MSI_ENOMEM, "no memory for the samples of facets");
    }
    MSI_TRY(check_memory(f.get(), n_copy));
    MSI_TRY(f->upload(rule));
    *out = f.release();
    return MSI_OK;
}

int msi_facet_samples_n_part(const msi_facet_samples *f)
{
    return (int)f->part.size();
}

msi_facet_part *msi_facet_samples_part(msi_facet_samples *f, int i)
{
    return &f->part[(size_t)i]->host;
}

double (*msi_facet_samples_shift(msi_facet_samples *f))[3][3]
{
    return f->shift;
}

int msi_facet_samples_gains(msi_facet_samples *f)
{
    if (!f->facet.form) return MSI_OK;
    MSI_TRY(f->on.enter());
    for (const auto &p : f->part) {
        const int64_t n = p->host.n_antenna * p->host.n_chan;
        MSI_TRY(f->staging.begin(n * (int)f->facet.form * (int64_t)sizeof(msi_c64), p->jones));
        MSI_TRY(f->staging.upload(as<msi_c64>(p->d_jones), p->jones, n * (int)f->facet.form));
        MSI_TRY(f->staging.push());
        if (p->slope) MSI_TRY(f->staging.upload(as<double>(p->d_slope), &p->slope[0][0], 2 * n));
        MSI_TRY(f->staging.flush());
    }
    if (!f->has_slopes) return MSI_OK;
    MSI_TRY(f->on.upload(as<double>(f->d_shift), &f->shift[0][0][0], 9 * f->n_slot));
    return f->on.wait();
}

int msi_facet_samples_model(msi_facet_samples *f)
{
    MSI_TRY(f->on.enter());
    for (const auto &p : f->part) {
        const int64_t bytes = f->facet.n_stored * p->n_sample() * f->value_bytes();
        MSI_TRY(p->d_model.fit(bytes, "visibilities of the model"));
        MSI_TRY(f->on.clear(as<char>(p->d_model), bytes));
    }
    f->has_model = true;
    return f->on.wait();
}

void msi_facet_samples_no_model(msi_facet_samples *f)
{
    f->has_model = false;
}

int msi_facet_samples_may_stay(const msi_facet_samples *f)
{
    /* Images, cleaners and samples of other channels need the rest. */
    static const double MOST_FREE = 0.8;
    size_t free_bytes, total_bytes;
    if (msi_gpu_memory(f->device, &free_bytes, &total_bytes)) return 0;
    return (double)free_bytes > MOST_FREE * (double)total_bytes;
}

int msi_facet_samples_add_model(msi_facet_samples *f, const msi_facet_samples *from)
{
    const msi_gpu_stream on = {f->device, f->on.get()};
    for (size_t i = 0; i < f->part.size(); i++)
        MSI_TRY(msi_gpu_peer_add(&on, f->part[i]->d_model.get(), from->part[i]->d_model.get(), from->device,
                                 2 * f->facet.n_stored * f->part[i]->n_sample(), f->store->precision));
    return MSI_OK;
}

int msi_facet_samples_copy_model(msi_facet_samples *f, const msi_facet_samples *from)
{
    const msi_gpu_stream on = {f->device, f->on.get()};
    for (size_t i = 0; i < f->part.size(); i++)
        MSI_TRY(msi_gpu_peer_copy(&on, f->part[i]->d_model.get(), from->part[i]->d_model.get(), from->device,
                                  f->facet.n_stored * f->part[i]->n_sample() * f->value_bytes()));
    return MSI_OK;
}

int msi_facet_samples_fetch_model(msi_facet_samples *f, msi_vis_store *store)
{
    MSI_TRY(f->on.enter());
    const int64_t each = f->value_bytes();
    for (const auto &p : f->part)
        for (int k = 0; k < f->facet.n_stored; k++) {
            size_t at = 0;
            int64_t begin = 0; /* offset of the segment's visibilities */
            const auto place = [&](int64_t byte) {
                const msi_vis_segment *s = &store->segment[p->segment[at]];
                for (; byte >= begin + s->n_row * s->n_chan * each; s = &store->segment[p->segment[++at]])
                    begin += s->n_row * s->n_chan * each;
                char *first = static_cast<char *>(s->vis) + each * msi_segment_index(s, k, 0, 0);
                return staged_copy::host_part{first + (byte - begin), begin + s->n_row * s->n_chan * each - byte};
            };
            const int64_t bytes = p->n_sample() * each;
            MSI_TRY(f->staging.download_to(place, as<char>(p->d_model) + k * bytes, bytes));
        }
    return MSI_OK;
}

int msi_facet_samples_form(msi_facet_samples *f, const msi_facet_part_of *of, msi_gridder *gridder)
{
    const msi_vis_store *store = msi_gridder_store(gridder);
    MSI_TRY(f->on.enter());
    for (const auto &p : f->part) {
        msi_gpu_samples to;
        if (!p->n_sample()) continue;
        MSI_TRY(f->reserve(p.get(), gridder, &to));
        const int rc = f->on.enter();
        const auto kernel = f->store->precision == MSI_FP32 ? k_form<float> : k_form<double>;
        if (!rc)
            kernel<<<BLOCKS, THREADS, 0, f->on.get()>>>(f->view_of(*p), f->view_of(*of), store->u_limit_lambda,
                                                        store->v_limit_lambda, to, as<tally>(f->d_sums));
        MSI_TRY(f->commit(gridder, rc));
    }
    return msi_gridder_gpu_end(gridder);
}

int msi_facet_samples_place(msi_facet_samples *f, msi_gridder *gridder)
{
    for (const auto &p : f->part) {
        msi_gpu_samples to;
        if (!p->n_sample()) continue;
        MSI_TRY(f->reserve(p.get(), gridder, &to));
        const int rc = f->on.enter();
        if (!rc) k_place<<<BLOCKS, THREADS, 0, f->on.get()>>>(f->view_of(*p), f->facet, to, as<tally>(f->d_sums));
        MSI_TRY(f->commit(gridder, rc));
    }
    return MSI_OK;
}

int msi_facet_samples_add(msi_facet_samples *f, const msi_facet_part_of *of, msi_gridder *gridder)
{
    int64_t i = 0;
    MSI_TRY(f->on.enter());
    for (const auto &p : f->part) {
        msi_gpu_samples predicted;
        if (!p->n_sample()) continue;
        if (!msi_gridder_gpu_samples(gridder, i++, &predicted))
            return msi_error_set(MSI_EINTERNAL, "a facet's gridder has no predicted samples");
        const auto kernel = f->store->precision == MSI_FP32 ? k_add<float> : k_add<double>;
        kernel<<<BLOCKS, THREADS, 0, f->on.get()>>>(f->view_of(*p), f->view_of(*of), predicted.vis);
        MSI_CUDA(cudaGetLastError());
    }
    return f->on.wait();
}

int msi_facet_samples_respond(msi_facet_samples *f, int power, double *sum, double *total)
{
    const int n = f->facet.n_image;
    response all = response::none();
    MSI_TRY(f->on.enter());
    for (const auto &p : f->part) {
        if (!p->n_sample()) continue;
        k_respond<<<BLOCKS, THREADS, 0, f->on.get()>>>(f->view_of(*p), f->facet, power, as<response>(f->d_sums));
        MSI_CUDA(cudaGetLastError());
        MSI_TRY(f->sum(&all));
    }
    for (int to = 0; to < n; to++) {
        for (int from = 0; from < n; from++) sum[to * n + from] = all.of[to * MOST + from];
        total[to] = all.of[MOST * MOST + to];
    }
    return MSI_OK;
}

void msi_facet_samples_free(msi_facet_samples *f)
{
    delete f;
}
