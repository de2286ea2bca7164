/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "testdata/makems_block.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "testdata/counter_random.h"
#include "testdata/point_model.h"

/* Streams of random numbers, one for each use; each spw has its own streams. */
enum {
    STREAM_TEMPERATURE = 1,
    STREAM_FLAG_ROW = 1000,
    STREAM_FLAG = 2000000,
    STREAM_SPECTRUM = 4000000,
    STREAM_NOISE = 6000000
};

struct msi_makems_sampler {
    const msi_makems_spec *spec;
    int64_t n_baseline;
    int32_t *antenna1, *antenna2; /* [n_baseline] */
    double *temperature;          /* [n_station][2 feeds], 1 in the middle */
    double **bandpass;            /* [n_spw] -> [n_chan], 1 on average */
    msi_point_model **model;      /* [n_field][n_spw] */
    double garbage_jy;            /* value of flagged samples */
    double *station_uvw_m;        /* [n_station][3] at station_time */
    int64_t station_time;
};

static int64_t field_of(const msi_makems_spec *spec, int64_t time)
{
    return spec->times_per_scan > 0 ? time / spec->times_per_scan % spec->n_field : 0;
}

static double time_of(const msi_makems_spec *spec, int64_t time)
{
    return spec->start_mjd_s + ((double)time + 0.5) * spec->integration_s;
}

static void list_baselines(msi_makems_sampler *p)
{
    int64_t n = 0;
    for (int32_t i = 0; i < p->spec->layout->n_station; i++)
        for (int32_t j = i + !p->spec->autocorrelations; j < p->spec->layout->n_station; j++, n++) {
            p->antenna1[n] = i;
            p->antenna2[n] = j;
        }
}

static int make_models(msi_makems_sampler *p)
{
    const msi_makems_spec *spec = p->spec;
    msi_point_source *source;
    MSI_TRY(msi_alloc(&source, spec->n_source, sizeof *source, "point sources"));
    int status = MSI_OK;
    for (int f = 0; f < spec->n_field && status == MSI_OK; f++) {
        int n_source = 0;
        for (int s = 0; s < spec->n_source; s++) {
            const msi_makems_source *sky = &spec->source[s];
            msi_point_source *to = &source[n_source];
            if (msi_sky_to_lm(sky->ra_rad, sky->dec_rad, spec->field[f].ra_rad, spec->field[f].dec_rad, &to->l, &to->m))
                continue;
            memcpy(to->stokes_jy, sky->stokes_jy, sizeof to->stokes_jy);
            to->spectral_index = sky->spectral_index;
            n_source++;
        }
        for (int w = 0; w < spec->n_spw && status == MSI_OK; w++) {
            const msi_makems_spw *spw = &spec->spw[w];
            double *freq_hz;
            status = msi_alloc(&freq_hz, spw->n_chan, sizeof *freq_hz, "frequencies");
            if (status != MSI_OK) break;
            for (int k = 0; k < spw->n_chan; k++) freq_hz[k] = spw->first_freq_hz + k * spw->step_hz;
            const msi_point_spec points = {source,    n_source,   msi_makems_reference_freq(spec), freq_hz, spw->n_chan,
                                           spw->corr, spw->n_corr};
            status = msi_point_model_create(&p->model[f * spec->n_spw + w], &points);
            msi_free(freq_hz);
        }
    }
    msi_free(source);
    return status;
}

/* Make a bandpass that falls to half at the edges of the band. */
static void make_bandpass(double *bandpass, int n_chan)
{
    double sum = 0;
    for (int k = 0; k < n_chan; k++) {
        double x = (2 * k + 1.0) / n_chan - 1;
        bandpass[k] = 1 - 0.5 * x * x * x * x;
        sum += bandpass[k];
    }
    for (int k = 0; k < n_chan; k++) bandpass[k] *= n_chan / sum;
}

static int sampler_fill(msi_makems_sampler *p)
{
    const msi_makems_spec *spec = p->spec;
    int n_station = spec->layout->n_station;
    MSI_TRY(msi_alloc(&p->antenna1, p->n_baseline, sizeof *p->antenna1, "baselines"));
    MSI_TRY(msi_alloc(&p->antenna2, p->n_baseline, sizeof *p->antenna2, "baselines"));
    MSI_TRY(msi_alloc(&p->temperature, 2 * (int64_t)n_station, sizeof *p->temperature, "temperatures"));
    MSI_TRY(msi_alloc(&p->station_uvw_m, 3 * (int64_t)n_station, sizeof *p->station_uvw_m, "station uvw"));
    MSI_TRY(msi_alloc(&p->bandpass, spec->n_spw, sizeof(double *), "bandpasses"));
    MSI_TRY(msi_alloc(&p->model, (int64_t)spec->n_field * spec->n_spw, sizeof(msi_point_model *), "point models"));
    list_baselines(p);
    for (int i = 0; i < 2 * n_station; i++)
        p->temperature[i] = exp(0.2 * msi_random_normal_pair(spec->seed, STREAM_TEMPERATURE, (uint64_t)i).re);
    for (int w = 0; w < spec->n_spw; w++) {
        MSI_TRY(msi_alloc(&p->bandpass[w], spec->spw[w].n_chan, sizeof **p->bandpass, "bandpass"));
        make_bandpass(p->bandpass[w], spec->spw[w].n_chan);
    }
    p->station_time = -1;
    for (int s = 0; s < spec->n_source; s++) p->garbage_jy += fabs(spec->source[s].stokes_jy[0]);
    p->garbage_jy = 1000 * (p->garbage_jy > 0 ? p->garbage_jy : 1);
    return make_models(p);
}

int msi_makems_sampler_create(msi_makems_sampler **out, const msi_makems_spec *spec)
{
    *out = NULL;
    msi_makems_sampler *p;
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "sampler"));
    p->spec = spec;
    p->n_baseline = msi_makems_n_baseline(spec);
    int status = sampler_fill(p);
    if (status == MSI_OK)
        *out = p;
    else
        msi_makems_sampler_free(p);
    return status;
}

void msi_makems_sampler_free(msi_makems_sampler *sampler)
{
    if (!sampler) return;
    const msi_makems_spec *spec = sampler->spec;
    for (int w = 0; sampler->bandpass && w < spec->n_spw; w++) msi_free(sampler->bandpass[w]);
    for (int i = 0; sampler->model && i < spec->n_field * spec->n_spw; i++) msi_point_model_free(sampler->model[i]);
    msi_free(sampler->bandpass);
    msi_free(sampler->model);
    msi_free(sampler->antenna1);
    msi_free(sampler->antenna2);
    msi_free(sampler->temperature);
    msi_free(sampler->station_uvw_m);
    msi_free(sampler);
}

int msi_makems_block_alloc(msi_makems_block *block, const msi_makems_spec *spec, int64_t max_row)
{
    int64_t n_corr = 0, n_sample = 0;
    for (int w = 0; w < spec->n_spw; w++) {
        int64_t samples = (int64_t)spec->spw[w].n_chan * spec->spw[w].n_corr;
        if (spec->spw[w].n_corr > n_corr) n_corr = spec->spw[w].n_corr;
        if (samples > n_sample) n_sample = samples;
    }
    n_corr *= max_row;
    n_sample *= max_row;
    *block = (msi_makems_block){0};
    int status;
    if ((status = msi_alloc(&block->ms_row, max_row, sizeof *block->ms_row, "rows")) ||
        (status = msi_alloc(&block->time_s, max_row, sizeof *block->time_s, "rows")) ||
        (status = msi_alloc(&block->uvw_m, 3 * max_row, sizeof *block->uvw_m, "rows")) ||
        (status = msi_alloc(&block->antenna1, max_row, sizeof *block->antenna1, "rows")) ||
        (status = msi_alloc(&block->antenna2, max_row, sizeof *block->antenna2, "rows")) ||
        (status = msi_alloc(&block->field_id, max_row, sizeof *block->field_id, "rows")) ||
        (status = msi_alloc(&block->scan, max_row, sizeof *block->scan, "rows")) ||
        (status = msi_alloc(&block->data_desc_id, max_row, sizeof *block->data_desc_id, "rows")) ||
        (status = msi_alloc(&block->flag_row, max_row, sizeof *block->flag_row, "rows")) ||
        (status = msi_alloc(&block->has_spectrum, max_row, sizeof *block->has_spectrum, "rows")) ||
        (status = msi_alloc(&block->weight, n_corr, sizeof *block->weight, "weights")) ||
        (status = msi_alloc(&block->sigma, n_corr, sizeof *block->sigma, "weights")) ||
        (status = msi_alloc(&block->exact, n_sample, sizeof *block->exact, "visibilities")) ||
        (status = msi_alloc(&block->data, n_sample, sizeof *block->data, "visibilities")) ||
        (status = msi_alloc(&block->flag, n_sample, sizeof *block->flag, "flags")) ||
        (spec->weight_spectrum != MSI_MAKEMS_SPECTRUM_NONE &&
         (status = msi_alloc(&block->weight_spectrum, n_sample, sizeof *block->weight_spectrum, "weights"))))
        msi_makems_block_free(block);
    return status;
}

void msi_makems_block_free(msi_makems_block *block)
{
    msi_free(block->ms_row);
    msi_free(block->time_s);
    msi_free(block->uvw_m);
    msi_free(block->antenna1);
    msi_free(block->antenna2);
    msi_free(block->field_id);
    msi_free(block->scan);
    msi_free(block->data_desc_id);
    msi_free(block->flag_row);
    msi_free(block->has_spectrum);
    msi_free(block->weight);
    msi_free(block->sigma);
    msi_free(block->exact);
    msi_free(block->data);
    msi_free(block->flag);
    msi_free(block->weight_spectrum);
    *block = (msi_makems_block){0};
}

static int64_t ms_row_of(const msi_makems_sampler *p, int spw, int64_t time, int64_t baseline)
{
    int64_t n_spw = p->spec->n_spw;
    switch (p->spec->spw_order) {
    case MSI_MAKEMS_SPW_BY_ROW:
        return (time * p->n_baseline + baseline) * n_spw + spw;
    case MSI_MAKEMS_SPW_SEPARATE:
        return (spw * p->spec->n_time + time) * p->n_baseline + baseline;
    case MSI_MAKEMS_SPW_BY_TIME:
        break;
    }
    return (time * n_spw + spw) * p->n_baseline + baseline;
}

static void turn_stations(msi_makems_sampler *p, int64_t time)
{
    const msi_makems_field *field = &p->spec->field[field_of(p->spec, time)];
    double hour_angle_rad = msi_sky_gmst(time_of(p->spec, time)) - field->ra_rad;
    for (int i = 0; i < p->spec->layout->n_station; i++)
        msi_sky_uvw(p->spec->layout->station[i].itrf_m, hour_angle_rad, field->dec_rad, p->station_uvw_m + 3 * i);
    p->station_time = time;
}

static void fill_coordinates(msi_makems_sampler *p, msi_makems_block *b)
{
    const msi_makems_spec *spec = p->spec;
    for (int64_t i = 0; i < b->n_row; i++) {
        int64_t row = b->first_row + i, time = row / p->n_baseline, baseline = row % p->n_baseline;
        if (time != p->station_time) turn_stations(p, time);
        b->ms_row[i] = ms_row_of(p, b->spw, time, baseline);
        b->time_s[i] = time_of(spec, time);
        b->antenna1[i] = p->antenna1[baseline];
        b->antenna2[i] = p->antenna2[baseline];
        b->field_id[i] = (int32_t)field_of(spec, time);
        b->scan[i] = (int32_t)(spec->times_per_scan > 0 ? time / spec->times_per_scan : 0) + 1;
        b->data_desc_id[i] = b->spw;
        for (int k = 0; k < 3; k++)
            b->uvw_m[3 * i + k] = p->station_uvw_m[3 * b->antenna2[i] + k] - p->station_uvw_m[3 * b->antenna1[i] + k];
    }
}

static void fill_exact(const msi_makems_sampler *p, msi_makems_block *b)
{
    const msi_makems_spw *spw = &p->spec->spw[b->spw];
    for (int64_t i = 0; i < b->n_row;) {
        int64_t end = i + 1;
        while (end < b->n_row && b->field_id[end] == b->field_id[i]) end++;
        msi_point_model_evaluate(p->model[(int64_t)b->field_id[i] * p->spec->n_spw + b->spw], end - i, b->uvw_m + 3 * i,
                                 b->exact + i * spw->n_chan * spw->n_corr);
        i = end;
    }
}

/* Find the two feeds whose product a correlation is: 0 for X or R, 1 for Y or L. */
static void feeds_of(msi_pol corr, int feed[2])
{
    int pair = corr >= MSI_POL_XX ? corr - MSI_POL_XX : corr >= MSI_POL_RR ? corr - MSI_POL_RR : 0;
    feed[0] = pair >> 1;
    feed[1] = pair & 1;
}

/* Fill row i, except its coordinates and exact visibilities. */
static void fill_row(const msi_makems_sampler *p, msi_makems_block *b, int64_t i)
{
    const msi_makems_spec *spec = p->spec;
    const msi_makems_spw *spw = &spec->spw[b->spw];
    const int n_chan = spw->n_chan, n_corr = spw->n_corr;
    const uint64_t seed = spec->seed, of_spw = (uint64_t)b->spw;
    const uint64_t row = (uint64_t)(b->first_row + i);
    const int64_t first = i * n_chan * n_corr;
    const int banded = spec->weights == MSI_MAKEMS_WEIGHTS_RADIOMETER;

    b->flag_row[i] = msi_random_uniform(seed, STREAM_FLAG_ROW + of_spw, row) < spec->flag_row_fraction;
    b->has_spectrum[i] = spec->weight_spectrum == MSI_MAKEMS_SPECTRUM_FULL ||
                         (spec->weight_spectrum == MSI_MAKEMS_SPECTRUM_PARTLY &&
                          msi_random_uniform(seed, STREAM_SPECTRUM + of_spw, row) < 2.0 / 3);
    for (int c = 0; c < n_corr; c++) {
        double weight = 1;
        if (banded) {
            int feed[2];
            feeds_of(spw->corr[c], feed);
            weight = 1 / (p->temperature[2 * b->antenna1[i] + feed[0]] * p->temperature[2 * b->antenna2[i] + feed[1]]);
        }
        b->weight[i * n_corr + c] = (float)weight;
        b->sigma[i * n_corr + c] = (float)((spec->noise_jy > 0 ? spec->noise_jy : 1) / sqrt(weight));
    }
    for (int k = 0; k < n_chan; k++) {
        const uint64_t sample = row * (uint64_t)n_chan + (uint64_t)k;
        double draw = spec->flag_fraction > 0 ? msi_random_uniform(seed, STREAM_FLAG + of_spw, sample) : 1;
        int flagged = draw < spec->flag_fraction;
        /* The same random number decides whether a sample is flagged, and in which correlations. */
        int only_one = flagged && draw < spec->flag_fraction / 4;
        int which = only_one ? (int)(draw / (spec->flag_fraction / 4) * n_corr) : 0;
        for (int c = 0; c < n_corr; c++) {
            const int64_t at = first + (int64_t)k * n_corr + c;
            double weight = b->weight[i * n_corr + c];
            if (b->has_spectrum[i]) {
                if (banded) weight *= p->bandpass[b->spw][k];
                b->weight_spectrum[at] = (float)weight;
            }
            msi_c64 v = b->exact[at];
            if (spec->noise_jy > 0) {
                msi_c64 r = msi_random_normal_pair(seed, STREAM_NOISE + of_spw, sample * MSI_MAX_CORR + (uint64_t)c);
                double sigma_jy = spec->noise_jy / sqrt(weight);
                v.re += sigma_jy * r.re;
                v.im += sigma_jy * r.im;
            }
            b->flag[at] = flagged && (!only_one || c == which);
            if (b->flag[at] || b->flag_row[i]) v = (msi_c64){p->garbage_jy, -p->garbage_jy};
            b->data[at] = (msi_c32){(float)v.re, (float)v.im};
        }
    }
}

void msi_makems_block_fill(msi_makems_sampler *sampler, msi_makems_block *block)
{
    fill_coordinates(sampler, block);
    fill_exact(sampler, block);
#pragma omp parallel for schedule(static) if (block->n_row > 16)
    for (int64_t i = 0; i < block->n_row; i++) fill_row(sampler, block, i);
}
