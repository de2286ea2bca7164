/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The one file that knows which methods and engines of cleaning were compiled in. */
#include "kernels/clean/clean_methods.h"

#include <string.h>

#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#endif

static const char HOGBOM[] = "exact: each component is subtracted from the image before the next is found";
static const char LIST[] = "the brightest pixels are cleaned by themselves, then subtracted by one convolution";
static const char MULTISCALE[] = "components of several widths, each found on residuals convolved to it";

/* AUTO prefers them in this order. */
static const msi_clean_method methods[] = {
#ifdef MSI_HAVE_CUDA
    {"list", LIST, MSI_BACKEND_CUDA, &msi_clean_list_ops, &msi_clean_engine_cuda},
#endif
    {"list", LIST, MSI_BACKEND_CPU, &msi_clean_list_ops, &msi_clean_engine_cpu},
#ifdef MSI_HAVE_CUDA
    {"multiscale", MULTISCALE, MSI_BACKEND_CUDA, &msi_clean_multiscale_ops, &msi_clean_engine_cuda},
#endif
    {"multiscale", MULTISCALE, MSI_BACKEND_CPU, &msi_clean_multiscale_ops, &msi_clean_engine_cpu},
#ifdef MSI_HAVE_CUDA
    {"hogbom", HOGBOM, MSI_BACKEND_CUDA, &msi_clean_hogbom_ops, &msi_clean_engine_cuda},
#endif
    {"hogbom", HOGBOM, MSI_BACKEND_CPU, &msi_clean_hogbom_ops, &msi_clean_engine_cpu},
};

enum { N_METHOD = sizeof methods / sizeof *methods };

const msi_clean_method *msi_clean_methods(int *n)
{
    *n = N_METHOD;
    return methods;
}

static int available(const msi_clean_method *m)
{
#ifdef MSI_HAVE_CUDA
    if (m->backend == MSI_BACKEND_CUDA) return msi_gpu_available();
#endif
    return m->backend == MSI_BACKEND_CPU;
}

const msi_clean_method *msi_clean_method_find(const char *name, msi_backend backend)
{
    for (const msi_clean_method *m = methods; m < methods + N_METHOD; m++)
        if (strcmp(m->name, name) == 0 && (backend == MSI_BACKEND_AUTO ? available(m) : m->backend == backend))
            return m;
    return NULL;
}

const char *msi_clean_stop_word(msi_clean_stop stop)
{
    static const char *const word[MSI_CLEAN_N_STOP] = {
        [MSI_CLEAN_STOP_THRESHOLD] = "threshold",   [MSI_CLEAN_STOP_MAJOR] = "major cycle",
        [MSI_CLEAN_STOP_ITERATIONS] = "iterations", [MSI_CLEAN_STOP_NEGATIVE] = "negative peak",
        [MSI_CLEAN_STOP_EMPTY] = "mask empty",      [MSI_CLEAN_STOP_DIVERGED] = "diverged",
        [MSI_CLEAN_STOP_STALLED] = "stalled"};
    return stop >= 0 && stop < MSI_CLEAN_N_STOP ? word[stop] : "unknown";
}
