/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/sky/continuum.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

enum { N_TERM = MSI_CONTINUUM_MAX_ORDER + 1 };

static int not_channels(const char *what, const char *text)
{
    return msi_error_set(MSI_EUSAGE, "%s %s: give channels of windows, such as 0:5~60;70~90,1:3~10, or *:5~60", what,
                         text);
}

int msi_continuum_parse(msi_continuum *c, const char *what, const char *text)
{
    const char *at = text;
    c->n_range = 0;
    while (*at) {
        char *end;
        msi_fit_range r = {.spw = -1};
        if (*at == '*')
            at++;
        else if (isdigit((unsigned char)*at))
            r.spw = (int32_t)strtol(at, &end, 10), at = end;
        if (*at++ != ':') return not_channels(what, text);
        do {
            if (!isdigit((unsigned char)*at) || c->n_range == MSI_CONTINUUM_MAX_RANGE) return not_channels(what, text);
            const long first = strtol(at, &end, 10);
            long last = first;
            if (*end == '~') {
                if (!isdigit((unsigned char)end[1])) return not_channels(what, text);
                last = strtol(end + 1, &end, 10);
            }
            if (last < first || last > INT32_MAX) return not_channels(what, text);
            r.first = (int32_t)first;
            r.last = (int32_t)last;
            c->range[c->n_range++] = r;
            at = end;
        } while (*at == ';' && *++at);
        if (*at == ',')
            at++;
        else if (*at)
            return not_channels(what, text);
    }
    return c->n_range ? MSI_OK : not_channels(what, text);
}

static int is_fitted(const msi_continuum *c, int spw, int32_t channel)
{
    for (int i = 0; i < c->n_range; i++)
        if ((c->range[i].spw < 0 || c->range[i].spw == spw) && channel >= c->range[i].first &&
            channel <= c->range[i].last)
            return 1;
    return c->n_range == 0;
}

/* Normal equations of a fit to the real and imaginary parts. */
typedef struct equations {
    double a[N_TERM][N_TERM], re[N_TERM], im[N_TERM];
} equations;

/* Solve by Cholesky decomposition. Returned: the coefficients, in re and im. Returns 0 if the matrix is singular. */
static int solve(equations *e, int n)
{
    const double scale = e->a[0][0];
    for (int i = 0; i < n; i++) {
        for (int j = 0; j <= i; j++) {
            double sum = e->a[i][j];
            for (int k = 0; k < j; k++) sum -= e->a[i][k] * e->a[j][k];
            if (i == j && !(sum > 1e-12 * scale)) return 0;
            e->a[i][j] = i == j ? sqrt(sum) : sum / e->a[j][j];
        }
        for (int k = 0; k < i; k++) {
            e->re[i] -= e->a[i][k] * e->re[k];
            e->im[i] -= e->a[i][k] * e->im[k];
        }
        e->re[i] /= e->a[i][i];
        e->im[i] /= e->a[i][i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++) {
            e->re[i] -= e->a[k][i] * e->re[k];
            e->im[i] -= e->a[k][i] * e->im[k];
        }
        e->re[i] /= e->a[i][i];
        e->im[i] /= e->a[i][i];
    }
    return 1;
}

/* Evaluate Legendre polynomials at x. They are nearly orthogonal over the channels, so the equations are well
 * conditioned. */
static void legendre(double x, int n, double value[N_TERM])
{
    value[0] = 1;
    if (n > 1) value[1] = x;
    for (int k = 2; k < n; k++) value[k] = ((2 * k - 1) * x * value[k - 1] - (k - 1) * value[k - 2]) / k;
}

/* Fit and subtract one row and correlation. Given: at  index of the first sample; step  distance of channels */
static void subtract_one(const msi_continuum *c, const msi_ms_block *b, int64_t at, msi_c32 *data, uint8_t *flag)
{
    const int n = c->order + 1;
    const double low = b->freq_hz[0], width = fmax(b->freq_hz[b->n_chan - 1] - low, 1e-300);
    equations e;
    double term[N_TERM];
    int n_fitted = 0;
    memset(&e, 0, sizeof e);
    for (int32_t k = 0; k < b->n_chan; k++) {
        const int64_t i = at + k * b->n_corr;
        const double w = (double)b->weight[i];
        if (flag[i] || !(w > 0) || !isfinite(w) || !isfinite(data[i].re) || !isfinite(data[i].im)) continue;
        if (!is_fitted(c, b->spw_id, b->chan_index[k])) continue;
        legendre(2 * (b->freq_hz[k] - low) / width - 1, n, term);
        for (int p = 0; p < n; p++) {
            for (int q = 0; q <= p; q++) e.a[p][q] += w * term[p] * term[q];
            e.re[p] += w * term[p] * (double)data[i].re;
            e.im[p] += w * term[p] * (double)data[i].im;
        }
        n_fitted++;
    }
    const int is_good = n_fitted >= n && solve(&e, n);
    for (int32_t k = 0; k < b->n_chan; k++) {
        const int64_t i = at + k * b->n_corr;
        double re = 0, im = 0;
        if (!is_good) flag[i] = 1;
        if (!is_good) continue;
        legendre(2 * (b->freq_hz[k] - low) / width - 1, n, term);
        for (int p = 0; p < n; p++) {
            re += e.re[p] * term[p];
            im += e.im[p] * term[p];
        }
        data[i].re = (float)((double)data[i].re - re);
        data[i].im = (float)((double)data[i].im - im);
    }
}

/* Copy the data and flags of a block into the buffer, and set the pointers of the block to the copies. */
static int copy_samples(msi_ms_block *b, msi_continuum_buffer *buffer)
{
    static const char what[] = "visibilities without the continuum";
    const int64_t n = b->n_row * b->n_chan * b->n_corr;
    if (buffer->n < n) {
        buffer->n = 0;
        MSI_TRY(msi_grow(&buffer->data, 0, n, sizeof *buffer->data, what));
        MSI_TRY(msi_grow(&buffer->flag, 0, n, sizeof *buffer->flag, what));
        buffer->n = n;
    }
    memcpy(buffer->data, b->data, (size_t)n * sizeof *b->data);
    memcpy(buffer->flag, b->flag, (size_t)n);
    b->data = buffer->data;
    b->flag = buffer->flag;
    return MSI_OK;
}

int msi_continuum_subtract(const msi_continuum *c, msi_ms_block *b, msi_continuum_buffer *buffer)
{
    int32_t n_fitted = 0;
    for (int32_t k = 0; k < b->n_chan; k++) n_fitted += is_fitted(c, b->spw_id, b->chan_index[k]);
    if (n_fitted <= c->order)
        return msi_error_set(
            MSI_EINPUT,
            "-uvcontsub %d: %d of the selected channels of spectral window %d are in -fit-channels, which "
            "counts the stored channels; a fit needs more than the order",
            c->order, n_fitted, b->spw_id);
    MSI_TRY(copy_samples(b, buffer));
    for (int64_t row = 0; row < b->n_row; row++)
        for (int32_t p = 0; p < b->n_corr; p++)
            subtract_one(c, b, row * b->n_chan * b->n_corr + p, buffer->data, buffer->flag);
    return MSI_OK;
}

void msi_continuum_buffer_free(msi_continuum_buffer *buffer)
{
    msi_free(buffer->data);
    msi_free(buffer->flag);
}
