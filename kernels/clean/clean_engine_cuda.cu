/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The GPU's engine: its memory, and what it launches over images and lists. */
#include "kernels/clean/clean_engine_cuda.h"

#include <string.h>

#include "core/memory.h"
#include "kernels/clean/clean_passes_cuda.cuh"
#include "kernels/gpu/gpu_memory.h"

namespace {

template <typename T> int find_peak(msi_clean_engine *e, const msi_clean_search *s, msi_clean_peak *peak)
{
    best_pixel<T> *part = static_cast<best_pixel<T> *>(e->state), found;
    const int n_block = (int)std::min<int64_t>(clean_blocks(e->n_pixel, BLOCK), 8 * e->n_multiprocessor);
    const searched<T> in = {(const T *)s->quantity, s->allow, e->n_pixel, (int)e->s.nx, e->s.join.no_negative};
    k_peak<T><<<n_block, BLOCK, 0, clean_stream(e)>>>(in, part);
    k_best<T><<<1, 1024, 0, clean_stream(e)>>>(part, n_block, part + n_block);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(&found, part + n_block, sizeof found, cudaMemcpyDeviceToHost, clean_stream(e)));
    MSI_TRY(msi_gpu_stream_wait(&e->on));
    *peak = {(double)found.key, (double)found.value, 0, 0};
    if (!(found.key > 0)) return MSI_OK;
    peak->x = msi_clean_x(found.place);
    peak->y = msi_clean_y(found.place);
    return MSI_OK;
}

template <typename T>
selection<T> selection_of(const msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range, int bin)
{
    const T wide = (T)range->peak - (T)range->threshold;
    return {{(const T *)s->quantity, s->allow, e->n_pixel, (int)e->s.nx, e->s.join.no_negative},
            (T)range->threshold,
            wide > 0 ? MSI_CLEAN_BINS / wide : 0,
            bin};
}

template <typename T>
int count_bins(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range,
               int64_t bins[MSI_CLEAN_BINS])
{
    const int n_block = (int)std::min<int64_t>(clean_blocks(e->n_pixel, BLOCK), 8 * e->n_multiprocessor);
    const size_t bytes = MSI_CLEAN_BINS * sizeof *bins;
    MSI_CUDA(cudaMemsetAsync(e->state, 0, bytes, clean_stream(e)));
    k_bins<T><<<n_block, BLOCK, 0, clean_stream(e)>>>(selection_of<T>(e, s, range, 0), (unsigned long long *)e->state);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(bins, e->state, bytes, cudaMemcpyDeviceToHost, clean_stream(e)));
    return msi_gpu_stream_wait(&e->on);
}

template <typename T>
int make_list(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range, int first_bin, int64_t *n)
{
    const unsigned n_block = clean_blocks(e->n_pixel, PART);
    const selection<T> c = selection_of<T>(e, s, range, first_bin);
    k_count<T><<<n_block, BLOCK, 0, clean_stream(e)>>>(c, e->count);
    k_begin<<<1, 1024, 0, clean_stream(e)>>>(e->count, n_block);
    k_select<T><<<n_block, BLOCK, 0, clean_stream(e)>>>(c, e->count, e->s.list_limit, e->list);
    MSI_CUDA(cudaGetLastError());
    MSI_CUDA(cudaMemcpyAsync(n, e->count + n_block, sizeof *n, cudaMemcpyDeviceToHost, clean_stream(e)));
    MSI_TRY(msi_gpu_stream_wait(&e->on));
    e->n_list = *n = std::min(*n, e->s.list_limit);
    return MSI_OK;
}

listed list_of(const msi_clean_engine *e)
{
    return {e->list, e->n_list, e->s.list_limit, (int)e->s.nx};
}

/* One precision of the operations. */
template <typename T> struct pass {
    static int finite(msi_clean_engine *e, void *image, int64_t n)
    {
        k_finite<T><<<clean_blocks(n, BLOCK), BLOCK, 0, clean_stream(e)>>>((T *)image, n);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
    static int join(msi_clean_engine *e, const joined<T> &in, const void *factor, void *out)
    {
        k_join<T><<<clean_blocks(in.n, BLOCK), BLOCK, 0, clean_stream(e)>>>(in, (const T *)factor, (T *)out);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
    static int load(msi_clean_engine *e, const void *planes, int64_t stride, const void *factor)
    {
        e->has_factor = factor != nullptr;
        const list_source<T> from = {e->n_plane, (const T *)planes, stride, (const T *)factor};
        k_load<T><<<clean_blocks(std::max<int64_t>(e->n_list, 1), BLOCK), BLOCK, 0, clean_stream(e)>>>(
            list_of(e), from, (T *)e->residual, (T *)e->component, (T *)e->factor);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
    static int deposit(msi_clean_engine *e, int plane, void *image)
    {
        k_deposit<T><<<clean_blocks(std::max<int64_t>(e->n_list, 1), BLOCK), BLOCK, 0, clean_stream(e)>>>(
            list_of(e), (const T *)e->component + plane * e->s.list_limit, (T *)image);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
    static int mark(msi_clean_engine *e, uint16_t *found, int bit)
    {
        k_mark<T><<<clean_blocks(std::max<int64_t>(e->n_list, 1), BLOCK), BLOCK, 0, clean_stream(e)>>>(
            list_of(e), e->n_plane, (const T *)e->component, found, bit);
        MSI_CUDA(cudaGetLastError());
        return MSI_OK;
    }
};

bool is_single(const msi_clean_engine *e)
{
    return e->s.precision == MSI_FP32;
}

int engine_finite(msi_clean_engine *e, void *image, int64_t n)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? pass<float>::finite(e, image, n) : pass<double>::finite(e, image, n);
}

template <typename T>
int join_planes(msi_clean_engine *e, const void *planes, int64_t stride, int averaged, const void *factor, void *out)
{
    joined<T> in = {e->s.join, (const T *)e->share, (const T *)planes, stride, e->n_pixel};
    if (averaged) {
        in.j = {1, e->s.join.n_pol, 0, 0, e->s.join.searched};
        in.share = nullptr;
    }
    return pass<T>::join(e, in, factor, out);
}

int engine_join(msi_clean_engine *e, const void *planes, int64_t stride, int averaged, const void *factor, void *out)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? join_planes<float>(e, planes, stride, averaged, factor, out)
                        : join_planes<double>(e, planes, stride, averaged, factor, out);
}

template <typename T> int mean_planes(msi_clean_engine *e, const void *planes, int64_t stride, int pol, void *out)
{
    const joined<T> in = {{e->s.join.n_channel, 1, 0, 0, 0},
                          (const T *)e->share,
                          (const T *)planes + pol * stride,
                          stride * e->s.join.n_pol,
                          e->n_pixel};
    return pass<T>::join(e, in, nullptr, out);
}

int engine_mean(msi_clean_engine *e, const void *planes, int64_t stride, int pol, void *out)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? mean_planes<float>(e, planes, stride, pol, out)
                        : mean_planes<double>(e, planes, stride, pol, out);
}

int engine_peak(msi_clean_engine *e, const msi_clean_search *s, msi_clean_peak *peak)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? find_peak<float>(e, s, peak) : find_peak<double>(e, s, peak);
}

int engine_bins(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range,
                int64_t bins[MSI_CLEAN_BINS])
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? count_bins<float>(e, s, range, bins) : count_bins<double>(e, s, range, bins);
}

int engine_select(msi_clean_engine *e, const msi_clean_search *s, const msi_clean_range *range, int first_bin,
                  int64_t *n)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? make_list<float>(e, s, range, first_bin, n) : make_list<double>(e, s, range, first_bin, n);
}

int engine_load(msi_clean_engine *e, const void *planes, int64_t stride, const void *factor)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? pass<float>::load(e, planes, stride, factor) : pass<double>::load(e, planes, stride, factor);
}

int engine_deposit(msi_clean_engine *e, int plane, void *image)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? pass<float>::deposit(e, plane, image) : pass<double>::deposit(e, plane, image);
}

int engine_mark(msi_clean_engine *e, uint16_t *found, int bit)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    return is_single(e) ? pass<float>::mark(e, found, bit) : pass<double>::mark(e, found, bit);
}

int engine_allow(msi_clean_engine *e, const msi_clean_allow *from, uint8_t *allow)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    k_allow<<<clean_blocks(e->n_pixel, BLOCK), BLOCK, 0, clean_stream(e)>>>(*from, e->s.nx, e->s.ny, allow);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

int engine_alloc(msi_clean_engine *e, void **out, int64_t bytes, const char *what)
{
    *out = nullptr;
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_TRY(allocate(reinterpret_cast<char **>(out), bytes, what));
    MSI_CUDA(cudaMemsetAsync(*out, 0, (size_t)bytes, clean_stream(e)));
    return MSI_OK;
}

void engine_release(msi_clean_engine *e, void *p)
{
    msi_gpu_release(p, &e->on);
}

int copy(msi_clean_engine *e, void *to, const void *from, int64_t bytes, cudaMemcpyKind kind)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_CUDA(cudaMemcpyAsync(to, from, (size_t)bytes, kind, clean_stream(e)));
    return MSI_OK;
}

int engine_upload(msi_clean_engine *e, void *to, const void *from, int64_t bytes)
{
    MSI_TRY(copy(e, to, from, bytes, cudaMemcpyHostToDevice));
    return msi_gpu_stream_wait(&e->on);
}

int engine_download(msi_clean_engine *e, void *to, const void *from, int64_t bytes)
{
    MSI_TRY(copy(e, to, from, bytes, cudaMemcpyDeviceToHost));
    return msi_gpu_stream_wait(&e->on);
}

int engine_copy(msi_clean_engine *e, void *to, const void *from, int64_t bytes)
{
    return copy(e, to, from, bytes, cudaMemcpyDeviceToDevice);
}

int engine_clear(msi_clean_engine *e, void *p, int64_t bytes)
{
    MSI_TRY(msi_gpu_stream_enter(&e->on));
    MSI_CUDA(cudaMemsetAsync(p, 0, (size_t)bytes, clean_stream(e)));
    return MSI_OK;
}

int engine_wait(msi_clean_engine *e)
{
    return msi_gpu_stream_wait(&e->on);
}

void engine_free(msi_clean_engine *e)
{
    if (!e) return;
    void *all[] = {e->share,  e->fit,   e->log,   e->list,  e->residual, e->component,
                   e->factor, e->place, e->value, e->state, e->mail,     e->count};
    for (void *p : all) msi_gpu_release(p, &e->on);
    msi_gpu_stream_free(&e->on);
    msi_free(e->place_host);
    msi_free(e->value_host);
    msi_free(e);
}

/* Upload n numbers in the planes' precision. */
int make_table(msi_clean_engine *e, void **out, const double *from, int n)
{
    float single[MSI_CLEAN_CHANNELS];
    MSI_TRY(engine_alloc(e, out, n * clean_real_bytes(e), "the cleaner's tables"));
    if (!is_single(e)) return engine_upload(e, *out, from, n * 8);
    for (int first = 0; first < n; first += MSI_CLEAN_CHANNELS) {
        const int part = std::min<int>(n - first, MSI_CLEAN_CHANNELS);
        for (int i = 0; i < part; i++) single[i] = (float)from[first + i];
        MSI_TRY(engine_upload(e, (float *)*out + first, single, part * 4));
    }
    return MSI_OK;
}

int make_tables(msi_clean_engine *e)
{
    const int n = e->s.join.n_channel;
    MSI_TRY(make_table(e, &e->share, e->s.share, n));
    if (e->s.fit) MSI_TRY(make_table(e, &e->fit, e->s.fit, n * n));
    e->s.fit = nullptr;
    if (!e->s.log.n_term) return MSI_OK;
    MSI_TRY(engine_alloc(e, (void **)&e->log, sizeof *e->log, "the cleaner's tables"));
    return engine_upload(e, e->log, &e->s.log, sizeof *e->log);
}

int make_room(msi_clean_engine *e)
{
    const int64_t real = clean_real_bytes(e), n = e->s.list_limit, values = MSI_CLEAN_CHUNK * e->n_plane;
    const int64_t n_block = clean_blocks(e->n_pixel, PART);
    MSI_TRY(msi_alloc(&e->place_host, MSI_CLEAN_CHUNK, sizeof *e->place_host, "components"));
    MSI_TRY(msi_alloc(&e->value_host, values, (size_t)real, "components"));
    MSI_TRY(engine_alloc(e, (void **)&e->place, MSI_CLEAN_CHUNK * 4, "components"));
    MSI_TRY(engine_alloc(e, &e->value, values * real, "components"));
    MSI_TRY(engine_alloc(e, &e->state, CLEAN_STATE_BYTES, "partial results"));
    if (!n) return MSI_OK;
    MSI_TRY(engine_alloc(e, (void **)&e->count, (n_block + 1) * (int64_t)sizeof *e->count, "a list of pixels"));
    MSI_TRY(engine_alloc(e, (void **)&e->list, n * 4, "a list of pixels"));
    MSI_TRY(engine_alloc(e, &e->residual, n * e->n_plane * real, "a list of pixels"));
    MSI_TRY(engine_alloc(e, &e->component, n * e->n_plane * real, "a list of pixels"));
    return engine_alloc(e, &e->factor, n * real, "a list of pixels");
}

int engine_create(msi_clean_engine **out, const msi_clean_setup *setup)
{
    msi_clean_engine *e;
    *out = nullptr;
    MSI_TRY(msi_alloc(&e, 1, sizeof *e, "the cleaner"));
    e->s = *setup;
    e->n_plane = setup->join.n_channel * setup->join.n_pol;
    e->n_pixel = setup->nx * setup->ny;
    int rc = msi_gpu_stream_create(&e->on, setup->device);
    if (!rc && cudaDeviceGetAttribute(&e->n_multiprocessor, cudaDevAttrMultiProcessorCount, setup->device)) {
        cudaGetLastError();
        rc = msi_error_set(MSI_EGPU, "%s: it does not say how many multiprocessors it has",
                           msi_gpu_named(setup->device));
    }
    if (!rc) rc = make_tables(e);
    if (!rc) rc = make_room(e);
    if (rc) {
        engine_free(e);
        return rc;
    }
    *out = e;
    return MSI_OK;
}

int64_t engine_noise_bytes(const msi_clean_setup *)
{
    return 0;
}

} // namespace

int msi_clean_fetch_loop_cuda(msi_clean_engine *e, msi_clean_looped *done)
{
    clean_loop_end end;
    const int64_t value_bytes = e->n_plane * clean_real_bytes(e);
    MSI_TRY(engine_download(e, &end, e->state, sizeof end));
    done->end = (msi_clean_end)end.end;
    done->n_iteration = end.n_iteration;
    done->peak = {end.key, end.value, msi_clean_x(end.place), msi_clean_y(end.place)};
    done->place = e->place_host;
    done->value = e->value_host;
    if (!end.n_iteration) return MSI_OK;
    MSI_TRY(copy(e, e->place_host, e->place, end.n_iteration * 4, cudaMemcpyDeviceToHost));
    return engine_download(e, e->value_host, e->value, end.n_iteration * value_bytes);
}

extern const msi_clean_engine_ops msi_clean_engine_cuda = {engine_create,
                                                           engine_free,
                                                           engine_alloc,
                                                           engine_release,
                                                           engine_upload,
                                                           engine_download,
                                                           engine_copy,
                                                           engine_clear,
                                                           engine_wait,
                                                           engine_allow,
                                                           engine_finite,
                                                           engine_join,
                                                           engine_mean,
                                                           msi_clean_map_cuda,
                                                           engine_peak,
                                                           engine_bins,
                                                           engine_select,
                                                           engine_load,
                                                           msi_clean_list_loop_cuda,
                                                           engine_deposit,
                                                           engine_mark,
                                                           msi_clean_exact_loop_cuda,
                                                           msi_clean_fft_create_cuda,
                                                           msi_clean_fft_free_cuda,
                                                           msi_clean_fft_bytes_cuda,
                                                           engine_noise_bytes,
                                                           msi_clean_forward_cuda,
                                                           msi_clean_gaussian_cuda,
                                                           msi_clean_product_cuda,
                                                           msi_clean_spread_cuda,
                                                           msi_clean_inverse_cuda,
                                                           msi_clean_deviation_cuda,
                                                           msi_clean_square_cuda,
                                                           msi_clean_box_cuda,
                                                           msi_clean_factor_cuda,
                                                           msi_clean_threshold_cuda,
                                                           msi_clean_prune_cuda,
                                                           msi_clean_grow_cuda,
                                                           msi_clean_unite_cuda,
                                                           msi_clean_intersect_cuda,
                                                           msi_clean_mask_to_image_cuda};
