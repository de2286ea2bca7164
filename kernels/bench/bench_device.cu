/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/bench/bench.h"

#include <stdio.h>

#include <algorithm>

#include "kernels/gpu/cuda_check.h"

namespace {

constexpr int CHAINS = 8, STEPS = 1 << 15, THREADS = 256;

/* Run enough independent chains of multiply-adds to hide their latency. The store never happens; it keeps the compiler
 * from removing the chains. */
__global__ void k_multiply_add(float *out, float a, float b)
{
    float x[CHAINS];
    for (int c = 0; c < CHAINS; c++) x[c] = (float)(threadIdx.x + c);
#pragma unroll 8
    for (int s = 0; s < STEPS; s++) {
#pragma unroll
        for (int c = 0; c < CHAINS; c++) x[c] = fmaf(x[c], a, b);
    }
    float sum = 0;
    for (int c = 0; c < CHAINS; c++) sum += x[c];
    if (sum == 1e30f) *out = sum;
}

int time_multiply_add(int blocks, cudaEvent_t from, cudaEvent_t to, double *flops)
{
    *flops = 0;
    for (int i = 0; i < 8; i++) {
        float ms;
        MSI_CUDA(cudaEventRecord(from));
        k_multiply_add<<<blocks, THREADS>>>(nullptr, 0.999f, 1e-3f);
        MSI_CUDA(cudaEventRecord(to));
        MSI_CUDA(cudaEventSynchronize(to));
        MSI_CUDA(cudaEventElapsedTime(&ms, from, to));
        *flops = std::max(*flops, 2.0 * CHAINS * STEPS * THREADS * blocks / (1e-3 * ms));
    }
    return MSI_OK;
}

} // namespace

extern "C" int msi_bench_device_name(char *name, size_t size)
{
    cudaDeviceProp properties;
    int n = 0;
    name[0] = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess || n == 0 || cudaGetDeviceProperties(&properties, 0) != cudaSuccess) {
        cudaGetLastError();
        return 0;
    }
    snprintf(name, size, "%.64s, %d SMs", properties.name, properties.multiProcessorCount);
    return 1;
}

extern "C" int msi_bench_device_count(void)
{
    int n = 0;
    if (cudaGetDeviceCount(&n) != cudaSuccess) cudaGetLastError();
    return n;
}

extern "C" int msi_bench_device_fp32_peak(double *flops)
{
    cudaEvent_t from, to;
    int n_sm;
    MSI_CUDA(cudaDeviceGetAttribute(&n_sm, cudaDevAttrMultiProcessorCount, 0));
    MSI_CUDA(cudaEventCreate(&from));
    MSI_CUDA(cudaEventCreate(&to));
    int status = time_multiply_add(8 * n_sm, from, to, flops);
    cudaEventDestroy(from);
    cudaEventDestroy(to);
    return status;
}

extern "C" void msi_bench_device_wait(void)
{
    cudaDeviceSynchronize();
}

extern "C" void msi_bench_device_pci_bus(int device, char *bus, int size)
{
    bus[0] = 0;
    if (cudaDeviceGetPCIBusId(bus, size, device) != cudaSuccess) {
        cudaGetLastError();
        bus[0] = 0;
    }
}
