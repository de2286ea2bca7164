/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/predict/predict_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/log.h"
#include "core/pol.h"
#include "core/status.h"
#include "src/preprocess/correlations.h"

/* A model whose centre is as far from the phase centre, but for rounding, was hardly made from this set. */
static const double TOO_FAR_RAD = 30 * MSI_PI / 180 - 1e-6;

static int unlikely(const msi_predict_run *r, const char *what)
{
    if (!r->options->force) return msi_error_set(MSI_EINPUT, "%s; -force predicts all the same", what);
    msi_log_warning("%s", what);
    return MSI_OK;
}

static int check_centre(const msi_predict_run *r)
{
    const msi_model_images *m = r->models;
    const char *frame = msi_ms_reader_observation(r->reader)->dir_frame;
    char text[512];
    MSI_TRY(msi_ms_reader_check_frames(r->reader));
    if (r->scan.farthest_rad > TOO_FAR_RAD) {
        snprintf(text, sizeof text, "%.200s: its centre is %.1f degrees from the phase centre of %.200s", m->names,
                 r->scan.farthest_rad * 180 / MSI_PI, r->options->ms_paths[0]);
        MSI_TRY(unlikely(r, text));
    }
    if (strcmp(frame, m->dir_frame) == 0) return MSI_OK;
    snprintf(text, sizeof text, "%.200s: its coordinates are %s, those of %.200s are %s", m->names, m->dir_frame,
             r->options->ms_paths[0], frame);
    /* These two are within 0.03 asec of each other, and programs write the one for the other. */
    const char *alike[] = {"J2000", "ICRS"};
    int n_alike = 0;
    for (int i = 0; i < 2; i++) n_alike += strcmp(frame, alike[i]) == 0 || strcmp(m->dir_frame, alike[i]) == 0;
    if (n_alike < 2) return unlikely(r, text);
    msi_log_warning("%s; taken for the same", text);
    return MSI_OK;
}

static int check_frequency(const msi_predict_run *r)
{
    const msi_model_images *m = r->models;
    double low = HUGE_VAL, high = 0;
    for (int i = 0; i < msi_ms_reader_n_spw(r->reader); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(r->reader, i);
        const int32_t last = spw->n_chan - 1;
        low = fmin(low, spw->freq_hz[0] - 0.5 * spw->width_hz[0]);
        high = fmax(high, spw->freq_hz[last] + 0.5 * spw->width_hz[last]);
    }
    const msi_model_channel *first = &m->channel[0], *last = &m->channel[m->n_channel - 1];
    if (!(first->freq_hz > 0) || (first->low_hz <= high && last->high_hz >= low)) return MSI_OK;
    char text[512];
    snprintf(text, sizeof text,
             "%.200s: at %.6g to %.6g MHz, but the selected channels of %.200s are at %.6g to %.6g MHz", m->names,
             1e-6 * first->low_hz, 1e-6 * last->high_hz, r->options->ms_paths[0], 1e-6 * low, 1e-6 * high);
    return unlikely(r, text);
}

/* List the polarisations that are, or are not, reached. */
static void list_pols(char text[64], const msi_pol *pol, int n, const int *is_reached)
{
    *text = 0;
    for (int i = 0; i < n; i++) {
        const size_t length = strlen(text);
        if (!is_reached || !is_reached[i])
            snprintf(text + length, 64 - length, "%s%s", length ? " " : "", msi_pol_name(pol[i]));
    }
}

/* Warn of models that no correlation is made of, such as Q and U where a set has RR and LL alone. */
static int check_correlations(const msi_predict_run *r)
{
    const msi_model_images *m = r->models;
    const msi_ms_spw *empty = NULL;
    int is_reached[MSI_MODEL_MAX_PLANES] = {0}, n_filled = 0, n_reached = 0;
    char text[700], pols[64], corr[64];
    for (int i = 0; i < msi_ms_reader_n_spw(r->reader); i++) {
        const msi_ms_spw *spw = msi_ms_reader_spw(r->reader, i);
        msi_unmix unmix[MSI_MAX_CORR];
        int n_term = 0;
        MSI_TRY(msi_unmix_make(unmix, m->pol, m->n_plane, spw->corr, spw->n_corr));
        for (int k = 0; k < spw->n_corr; k++) {
            n_term += unmix[k].n;
            for (int t = 0; t < unmix[k].n; t++) is_reached[unmix[k].plane[t]] = 1;
        }
        n_filled += n_term > 0;
        if (n_term == 0) empty = spw;
    }
    if (empty) {
        list_pols(pols, m->pol, m->n_plane, NULL);
        list_pols(corr, empty->corr, empty->n_corr, NULL);
        snprintf(text, sizeof text,
                 "%.200s: nothing of %s is in the correlations %s of spectral window %d of %.200s, where zeros would "
                 "be predicted",
                 m->names, pols, corr, empty->spw_id, r->options->ms_paths[empty->set]);
        if (!n_filled) return unlikely(r, text);
        msi_log_warning("%s", text);
    }
    for (int p = 0; p < m->n_plane; p++) n_reached += is_reached[p];
    if (n_reached == m->n_plane) return MSI_OK;
    list_pols(pols, m->pol, m->n_plane, is_reached);
    msi_log_warning("%.200s: the set has no correlation of %s, which is not predicted", m->names, pols);
    return MSI_OK;
}

int msi_predict_check(const msi_predict_run *r)
{
    MSI_TRY(check_correlations(r));
    MSI_TRY(check_centre(r));
    return check_frequency(r);
}
