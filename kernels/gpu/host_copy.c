/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/gpu/host_copy.h"

#include <string.h>

void msi_host_copy(const msi_host_piece *piece, int n)
{
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < n; i++) memcpy(piece[i].to, piece[i].from, (size_t)piece[i].bytes);
}
