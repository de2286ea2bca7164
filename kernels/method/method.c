/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/method/method.h"

#include <omp.h>

int msi_plan_threads(const msi_plan_request *request)
{
    return request->spec->n_thread ? request->spec->n_thread : omp_get_max_threads();
}
