/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Code that rows on a GPU share: making inputs on the device, timing with its clock, comparing results with a
 * reference, and making tables of rows from lists. */
#ifndef MSI_BENCH_DEVICE_ROWS_CUH
#define MSI_BENCH_DEVICE_ROWS_CUH

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include <vector>

#include "core/types.h"
#include "kernels/bench/bench.h"
#include "kernels/gpu/cuda_memory.h"

namespace {

template <typename X, typename PUT> __global__ void k_fill(X *out, int64_t n, PUT put)
{
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) put(out + i, i);
}

/* Fill out [n] on the device by put(out + i, i). */
template <typename X, typename PUT> int fill(X *out, int64_t n, PUT put)
{
    constexpr int BLOCK = 256;
    k_fill<<<(unsigned)((n + BLOCK - 1) / BLOCK), BLOCK>>>(out, n, put);
    MSI_CUDA(cudaGetLastError());
    return MSI_OK;
}

/* Allocate and fill an array of n F32 or F64, by the precision. */
template <typename F32, typename F64, typename PUT>
int make_filled(buffer *out, int64_t n, msi_precision precision, PUT put)
{
    const bool fp32 = precision == MSI_FP32;
    MSI_TRY(out->fit(n * (int64_t)(fp32 ? sizeof(F32) : sizeof(F64)), "a benchmark's input"));
    return fp32 ? fill(as<F32>(*out), n, put) : fill(as<F64>(*out), n, put);
}

/* Allocate a copy of n elements of the host. */
template <typename X> int upload(buffer *out, const X *from, int64_t n)
{
    MSI_TRY(out->fit(n * (int64_t)sizeof(X), "a benchmark's input"));
    MSI_CUDA(cudaMemcpy(as<void>(*out), from, (size_t)n * sizeof(X), cudaMemcpyHostToDevice));
    return MSI_OK;
}

/* Time a run on the default stream with the device's clock: call begin, then sorted if there is a sort, then end. */
class run_timer {
  public:
    run_timer() = default;
    run_timer(const run_timer &) = delete;
    run_timer &operator=(const run_timer &) = delete;
    ~run_timer()
    {
        for (cudaEvent_t e : {from, middle, to})
            if (e) cudaEventDestroy(e);
    }
    int make()
    {
        for (cudaEvent_t *e : {&from, &middle, &to}) MSI_CUDA(cudaEventCreate(e));
        return MSI_OK;
    }
    int begin()
    {
        sorts = false;
        MSI_CUDA(cudaEventRecord(from));
        return MSI_OK;
    }
    int sorted()
    {
        sorts = true;
        MSI_CUDA(cudaEventRecord(middle));
        return MSI_OK;
    }
    int end(msi_bench_time *time)
    {
        float sort_ms = 0, kernel_ms;
        MSI_CUDA(cudaEventRecord(to));
        MSI_CUDA(cudaEventSynchronize(to));
        if (sorts) MSI_CUDA(cudaEventElapsedTime(&sort_ms, from, middle));
        MSI_CUDA(cudaEventElapsedTime(&kernel_ms, sorts ? middle : from, to));
        time->sort_ms = sort_ms;
        time->kernel_ms = kernel_ms;
        return MSI_OK;
    }

  private:
    cudaEvent_t from = nullptr, middle = nullptr, to = nullptr;
    bool sorts = false;
};

/*
 * Compute the relative L2 distance of n complex numbers on the device from exact(i), a msi_c64, for n_checked of them,
 * evenly spread. exact is called by several threads at a time.
 */
template <typename EXACT>
int distance(const void *value, int64_t n, msi_precision precision, int64_t n_checked, EXACT exact, double *error)
{
    std::vector<char> all((size_t)(n * msi_complex_bytes(precision)));
    double difference = 0, norm = 0;
    MSI_CUDA(cudaMemcpy(all.data(), value, all.size(), cudaMemcpyDeviceToHost));
#pragma omp parallel for reduction(+ : difference, norm) schedule(dynamic)
    for (int64_t k = 0; k < n_checked; k++) {
        const int64_t i = k * n / n_checked;
        const msi_c64 truth = exact(i);
        msi_c64 found;
        if (precision == MSI_FP32) {
            const msi_c32 x = ((const msi_c32 *)all.data())[i];
            found = {x.re, x.im};
        } else {
            found = ((const msi_c64 *)all.data())[i];
        }
        difference += pow(found.re - truth.re, 2) + pow(found.im - truth.im, 2);
        norm += truth.re * truth.re + truth.im * truth.im;
    }
    *error = sqrt(difference / norm);
    return MSI_OK;
}

/* Rows whose names and details are made from lists, when the table is first requested. */
template <typename DETAIL> struct row_list {
    static constexpr int MOST = 256, NAME = 64;
    msi_bench_row row[MOST];
    DETAIL detail[MOST];
    char name[MOST][NAME];
    int n;

    /* Add a copy of a row with another name (a format) and detail. It is dropped if the table is full. */
    void add(const msi_bench_row &like, const DETAIL &d, const char *format, ...)
    {
        va_list values;
        if (n == MOST) return;
        va_start(values, format);
        vsnprintf(name[n], NAME, format, values);
        va_end(values);
        detail[n] = d;
        row[n] = like;
        row[n].name = name[n];
        row[n].detail = &detail[n];
        n++;
    }
};

} // namespace

#endif
