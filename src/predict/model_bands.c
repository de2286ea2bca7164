/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/predict/model_bands.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

/* Return the frequency midway between the facing edges of two neighbours. If their bands overlap, it is limited to the
 * range between their centres. */
static double boundary(const msi_model_channel *a, const msi_model_channel *b)
{
    return fmin(fmax(0.5 * (a->high_hz + b->low_hz), a->freq_hz), b->freq_hz);
}

/* Set the edges of the bands, and the first image of each. */
static void divide(msi_model_bands *b, const msi_model_images *m, msi_model_interpolation interpolation)
{
    const int64_t n = b->channels.n;
    double *edge = b->channels.edge_hz;
    edge[0] = -HUGE_VAL;
    edge[n] = HUGE_VAL;
    for (int64_t i = 0; i < n; i++) {
        const int64_t image = interpolation == MSI_MODEL_LINEAR && i > 0 ? i - 1 : i;
        const int is_between = interpolation == MSI_MODEL_LINEAR && i > 0 && i < n - 1;
        const msi_model_channel *at = &m->channel[image];
        b->band[i] = (msi_model_band){.first = image, .low_hz = at->freq_hz};
        if (is_between) b->band[i].high_hz = at[1].freq_hz;
        if (i > 0) edge[i] = interpolation == MSI_MODEL_LINEAR ? at->freq_hz : boundary(at - 1, at);
    }
}

/* A band between two images needs the second image only if one of its frequencies is above that of the first image. */
void msi_model_bands_count(msi_model_bands *b, const msi_ms_reader *reader)
{
    for (int64_t i = 0; i < b->channels.n; i++) {
        /* All Taylor terms are needed at all frequencies. */
        if (!(b->band[i].reference_hz > 0)) b->band[i].n_image = 1;
        b->band[i].n_sample = 0;
    }
    for (int s = 0; s < msi_ms_reader_n_spw(reader); s++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(reader, s);
        int64_t begin, stop;
        msi_output_channels_overlap(&b->channels, spw->freq_hz, spw->n_chan, &begin, &stop);
        for (int64_t i = begin; i < stop; i++) {
            msi_model_band *band = &b->band[i];
            int32_t first, end;
            msi_output_channels_range(&b->channels, i, spw->freq_hz, spw->n_chan, &first, &end);
            band->n_sample += spw->n_row * (end - first);
            if (end > first && band->high_hz > 0 && spw->freq_hz[end - 1] > band->low_hz) band->n_image = 2;
        }
    }
}

/* Make the band of all frequencies, whose images are Taylor terms. */
static int make_taylor(msi_model_bands *out, const msi_model_images *models, const msi_ms_reader *reader)
{
    out->channels.n = 1;
    int rc = msi_alloc(&out->channels.edge_hz, 2, sizeof(double), "bands of models");
    if (!rc) rc = msi_alloc(&out->band, 1, sizeof *out->band, "bands of models");
    if (rc) {
        msi_model_bands_free(out);
        return rc;
    }
    out->channels.edge_hz[0] = -HUGE_VAL;
    out->channels.edge_hz[1] = HUGE_VAL;
    msi_model_bands_count(out, reader);
    out->band[0].n_image = (int)models->n_channel;
    out->band[0].reference_hz = models->channel[0].freq_hz;
    return MSI_OK;
}

int msi_model_bands_make(msi_model_bands *out, const msi_model_images *models, const msi_ms_reader *reader,
                         msi_model_interpolation interpolation)
{
    memset(out, 0, sizeof *out);
    if (models->is_taylor) return make_taylor(out, models, reader);
    if (models->n_channel == 1) interpolation = MSI_MODEL_NEAREST;
    out->channels.n = models->n_channel + (interpolation == MSI_MODEL_LINEAR);
    int rc = msi_alloc(&out->channels.edge_hz, out->channels.n + 1, sizeof(double), "bands of models");
    if (!rc) rc = msi_alloc(&out->band, out->channels.n, sizeof *out->band, "bands of models");
    if (rc) {
        msi_model_bands_free(out);
        return rc;
    }
    divide(out, models, interpolation);
    msi_model_bands_count(out, reader);
    return MSI_OK;
}

void msi_model_bands_free(msi_model_bands *b)
{
    msi_output_channels_free(&b->channels);
    msi_free(b->band);
    b->band = NULL;
}

/* Sum Taylor terms by Horner's scheme: vis = (.. v_2) x + v_1) x + v_0. */
static void add_terms(const msi_model_band *band, int64_t n_line, int32_t n_chan, const double *freq_hz, msi_c64 *vis)
{
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < n_line; line++)
        for (int32_t c = 0; c < n_chan; c++) {
            msi_c64 *at = vis + line * n_chan + c, sum = {0, 0};
            const double x = freq_hz[c] / band->reference_hz - 1;
            for (int t = band->n_image - 1; t >= 0; t--) {
                const msi_c64 v = at[t * n_line * n_chan];
                sum = (msi_c64){sum.re * x + v.re, sum.im * x + v.im};
            }
            *at = sum;
        }
}

void msi_model_band_blend(const msi_model_band *band, int n_plane, int64_t n_row, int32_t n_chan, const double *freq_hz,
                          msi_c64 *vis)
{
    if (band->n_image == 1) return;
    const int64_t n_line = n_plane * n_row;
    if (band->reference_hz > 0) {
        add_terms(band, n_line, n_chan, freq_hz, vis);
        return;
    }
    const double span_hz = band->high_hz - band->low_hz;
#pragma omp parallel for schedule(static)
    for (int64_t line = 0; line < n_line; line++)
        for (int32_t c = 0; c < n_chan; c++) {
            msi_c64 *lower = vis + line * n_chan + c;
            const msi_c64 *upper = lower + n_line * n_chan;
            const double t = (freq_hz[c] - band->low_hz) / span_hz;
            *lower = (msi_c64){(1 - t) * lower->re + t * upper->re, (1 - t) * lower->im + t * upper->im};
        }
}
