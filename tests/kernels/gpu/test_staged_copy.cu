/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Staged copies to arrays of separate allocations that are adjacent: no copy spans two of them, which the driver would
 * refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <vector>

extern "C" {
#include <cmocka.h>
}

#include "kernels/gpu/gpu_device.h"
#include "kernels/store/store_batches_cuda.cuh"

namespace {

/* Each array is a whole multiple of the pool's granularity, so that the next one may begin where it ends. Together they
 * are large enough to be staged. */
constexpr int N_SEGMENT = 4, N_CHAN = 4;
constexpr int64_t N_ROW = MSI_SEGMENT_ROWS, N_SAMPLE = N_SEGMENT * N_ROW * N_CHAN;

/* A store of numbered samples with one plane. */
struct samples {
    std::vector<double> uvw = std::vector<double>(3 * N_SEGMENT * N_ROW);
    std::vector<float> weight = std::vector<float>(N_SAMPLE), vis = std::vector<float>(2 * N_SAMPLE);
    double freq_hz[N_CHAN] = {1e8, 2e8, 3e8, 4e8};
    msi_vis_segment segment[N_SEGMENT] = {};
    msi_vis_store store = {};

    samples()
    {
        for (size_t i = 0; i < uvw.size(); i++) uvw[i] = (double)i + 0.25;
        for (size_t i = 0; i < weight.size(); i++) weight[i] = (float)i + 0.5F;
        for (size_t i = 0; i < vis.size(); i++) vis[i] = -(float)i;
        for (int k = 0; k < N_SEGMENT; k++) {
            msi_vis_segment &s = segment[k];
            s.n_row = s.n_row_max = N_ROW;
            s.n_chan = N_CHAN;
            s.freq_hz = freq_hz;
            s.uvw_m = uvw.data() + 3 * N_ROW * k;
            s.weight = weight.data() + N_ROW * N_CHAN * k;
            s.vis = vis.data() + 2 * N_ROW * N_CHAN * k;
        }
        store.n_plane = 1;
        store.n_segment = N_SEGMENT;
        store.segment = segment;
    }
};

template <typename E> bool arrived(const std::vector<E> &sent, const buffer &at)
{
    std::vector<E> got(sent.size());
    const size_t bytes = sent.size() * sizeof(E);
    assert_int_equal(cudaMemcpy(got.data(), at.get(), bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    return memcmp(got.data(), sent.data(), bytes) == 0;
}

bool follows(const buffer &next, const buffer &first, size_t bytes)
{
    return as<char>(next) == as<char>(first) + bytes;
}

/* Upload samples to arrays that are allocated in a given order. Returns: whether an array begins where the one filled
 * before it ends */
bool upload(samples &s, const int *order)
{
    msi_stage_times times = {};
    store_batches<float> b;
    const int64_t bytes[] = {(int64_t)(s.uvw.size() * sizeof(double)), (int64_t)(s.vis.size() * sizeof(float)),
                             (int64_t)(s.weight.size() * sizeof(float))};
    buffer *const array[] = {&b.d_uvw, &b.d_raw, &b.d_weight};
    b.store = &s.store;
    b.times = &times;
    b.batch_samples = N_SAMPLE;
    assert_int_equal(b.on.begin(0), MSI_OK);
    for (int k = 0; k < 3; k++) assert_int_equal(array[order[k]]->fit(bytes[order[k]], "a test"), MSI_OK);
    b.now = b.cut_batch(0);
    assert_int_equal(b.now.end, N_SEGMENT);
    if (b.upload_batch(1)) fail_msg("%s", msi_error_get());
    assert_true(arrived(s.uvw, b.d_uvw));
    assert_true(arrived(s.vis, b.d_raw));
    assert_true(arrived(s.weight, b.d_weight));
    return follows(b.d_raw, b.d_uvw, (size_t)bytes[0]) || follows(b.d_weight, b.d_raw, (size_t)bytes[1]);
}

/* Arrays are filled in the order coordinates, visibilities, weights. Whichever way the pool hands out memory, one order
 * of allocations has an array that begins where the previous one ends. */
void test_arrays_side_by_side(void **)
{
    samples s;
    int order[] = {0, 1, 2}, n_joined = 0;
    do n_joined += upload(s, order);
    while (std::next_permutation(order, order + 3));
    printf("  in %d of 6 orders an array begins where the one filled before it ends\n", n_joined);
    if (!n_joined) skip();
}

/* Copies that follow each other on both sides are sent together, unless push() is called between them. */
void test_push_parts_two_arrays(void **)
{
    constexpr int64_t BYTES = 2 << 20;
    std::vector<char> sent(2 * BYTES);
    plan_stream on;
    assert_int_equal(on.begin(0), MSI_OK);
    for (size_t i = 0; i < sent.size(); i++) sent[i] = (char)(i * 7 + i / 251);
    for (int64_t each : {(int64_t)4096, BYTES}) {
        buffer first, second;
        staged_copy staging(on);
        assert_int_equal(first.fit(each, "a test"), MSI_OK);
        assert_int_equal(second.fit(each, "a test"), MSI_OK);
        buffer *to[] = {&first, &second};
        if (as<char>(second) < as<char>(first)) std::swap(to[0], to[1]);
        const std::vector<char> a(sent.begin(), sent.begin() + each), c(sent.begin() + each, sent.begin() + 2 * each);
        assert_int_equal(staging.begin(2 * each, sent.data()), MSI_OK);
        assert_int_equal(staging.upload(as<char>(*to[0]), sent.data(), each), MSI_OK);
        if (staging.push()) fail_msg("%s", msi_error_get());
        assert_int_equal(staging.upload(as<char>(*to[1]), sent.data() + each, each), MSI_OK);
        if (staging.flush()) fail_msg("%s", msi_error_get());
        assert_true(arrived(a, *to[0]));
        assert_true(arrived(c, *to[1]));
    }
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_arrays_side_by_side),
                                       cmocka_unit_test(test_push_parts_two_arrays)};
    if (!msi_gpu_available()) {
        printf("skipped: %s\n", msi_gpu_describe(0));
        return 77;
    }
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
