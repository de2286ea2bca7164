/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/store/vis_store.h"

#include <math.h>

#include "core/progress.h"

/* A segment's weights of a plane. */
typedef struct weight_part {
    double sum;
    float largest;
    int64_t count;
} weight_part;

static weight_part part_of(const msi_vis_segment *s, int plane)
{
    const float *weight = s->weight + msi_segment_index(s, plane, 0, 0);
    double sum = 0;
    float largest = 0;
    int64_t count = 0;
#pragma omp simd reduction(+ : sum, count) reduction(max : largest)
    for (int64_t k = 0; k < s->n_row * s->n_chan; k++) {
        sum += (double)weight[k];
        largest = weight[k] > largest ? weight[k] : largest;
        count += weight[k] > 0;
    }
    return (weight_part){sum, largest, count};
}

void msi_vis_store_weights(const msi_vis_store *s, double *sum, double *largest, int64_t *count)
{
    enum { AT_ONCE = 512 };
    const int64_t n_segment = s->n_segment;
    if (s->gpu) {
        /* There is one plane, and the weights are as they were added. */
        sum[0] = s->sum_weight[0];
        largest[0] = s->largest_weight;
        count[0] = s->n_sample;
        return;
    }
    for (int p = 0; p < s->n_plane; p++) {
        sum[p] = largest[p] = 0;
        count[p] = 0;
        for (int64_t first = 0; first < n_segment; first += AT_ONCE) {
            const int64_t n = n_segment - first < AT_ONCE ? n_segment - first : AT_ONCE;
            weight_part part[AT_ONCE];
            msi_progress_at(p * n_segment + first, s->n_plane * n_segment);
#pragma omp parallel for schedule(dynamic, 4)
            for (int64_t i = 0; i < n; i++) part[i] = part_of(&s->segment[first + i], p);
            for (int64_t i = 0; i < n; i++) {
                sum[p] += part[i].sum;
                largest[p] = fmax(largest[p], (double)part[i].largest);
                count[p] += part[i].count;
            }
        }
    }
}
