/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Planes that become others on the CPU: threads share pixels. */
#include "core/status.h"
#include "kernels/clean/clean_engine_cpu.h"
#include "kernels/clean/clean_log_fit.h"

#define REAL  float
#define FMA   fmaf
#define IN(x) x##_f32
#include "kernels/clean/clean_map_cpu_body.h"
#undef REAL
#undef FMA
#undef IN

#define REAL  double
#define FMA   fma
#define IN(x) x##_f64
#include "kernels/clean/clean_map_cpu_body.h"

int msi_clean_map_cpu(msi_clean_engine *e, const msi_clean_map *m)
{
#pragma omp parallel for num_threads(e->n_thread) schedule(dynamic, 4096)
    for (int64_t i = 0; i < e->n_pixel; i++) {
        if (e->s.precision == MSI_FP32)
            map_f32(e, m, i);
        else
            map_f64(e, m, i);
    }
    return MSI_OK;
}
