/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Primary beams of a run. The mean beam of an output channel is computed when its first image is written. An image that
 * has a corrected version is copied, corrected and written before the writer gets the original. The beam of all
 * channels combined is the mean of their beams, with the weights of their images. Images of Taylor terms are corrected
 * together (msi_imaging_pb_terms).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/imaging/imaging_run.h"
#include "src/run/open_sets.h"

/* Most groups of frequencies of an output channel over which its beam is averaged. */
enum { MOST_FREQUENCIES = 8 };

/* A group does not need to be narrower than this fraction of its frequency. The mean beam over such a group differs
 * from the beam at its mean frequency by at most 5e-6 of the peak. */
static const double NARROW = 0.01;

int msi_imaging_pb_wanted(const msi_options *o)
{
    return o->pb.apply || o->pb.correct || o->pb.mask > 0 || o->pb.mosaic || o->facets.beam;
}

/* ---- Frequencies ---- */

typedef struct frequencies {
    int n;
    double freq_hz[MOST_FREQUENCIES], weight[MOST_FREQUENCIES];
} frequencies;

/* Sums of the weights of samples by frequency. */
typedef struct seen_weights {
    double range_hz[2];
    const double *of_hz; /* [MSI_BEAM_STEPS] */
} seen_weights;

/* Compute the weight of the samples in each frequency step, divided by the weight expected without flags.
 * Returned: factor [MSI_BEAM_STEPS] */
static void find_factors(double *factor, const seen_weights *seen, const msi_ms_reader *reader)
{
    double expected[MSI_BEAM_STEPS] = {0}, all = 0;
    for (int i = 0; seen && i < MSI_BEAM_STEPS; i++) all += seen->of_hz[i];
    for (int i = 0; all > 0 && i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *s = msi_ms_reader_spw(reader, i);
        for (int32_t c = 0; c < s->n_chan; c++)
            expected[msi_beam_step(seen->range_hz, s->freq_hz[c])] += (double)s->n_row * s->width_hz[c];
    }
    for (int i = 0; i < MSI_BEAM_STEPS; i++) factor[i] = expected[i] > 0 ? seen->of_hz[i] / expected[i] : !(all > 0);
}

/* Divide the selected channels of a frequency range into groups of equal steps. The frequency of a group is a mean,
 * weighted by rows, channel width, and weights of the samples. Given: seen  NULL: weights are unknown */
static void group_frequencies(frequencies *f, const msi_ms_reader *reader, const seen_weights *seen, double begin_hz,
                              double end_hz, double low_hz, double high_hz)
{
    double factor[MSI_BEAM_STEPS];
    memset(f, 0, sizeof *f);
    find_factors(factor, seen, reader);
    const double groups = ceil((high_hz - low_hz) / high_hz / NARROW);
    f->n = groups < 1 ? 1 : groups > MOST_FREQUENCIES ? MOST_FREQUENCIES : (int)groups;
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *s = msi_ms_reader_spw(reader, i);
        for (int32_t c = 0; c < s->n_chan; c++) {
            const double hz = s->freq_hz[c];
            const double w = (double)s->n_row * s->width_hz[c] * factor[seen ? msi_beam_step(seen->range_hz, hz) : 0];
            int g = f->n > 1 ? (int)((hz - low_hz) / (high_hz - low_hz) * f->n) : 0;
            if (hz < begin_hz || hz >= end_hz) continue;
            g = g < 0 ? 0 : g >= f->n ? f->n - 1 : g;
            f->freq_hz[g] += w * hz;
            f->weight[g] += w;
        }
    }
    double all = 0;
    for (int g = 0; g < f->n; g++) {
        all += f->weight[g];
        if (f->weight[g] > 0) f->freq_hz[g] /= f->weight[g];
    }
    if (all > 0) return;
    /* An interval without rows has images of NaN, whatever its beam is. */
    *f = (frequencies){1, {0.5 * (low_hz + high_hz)}, {1}};
}

/* Make the frequency groups of an output channel. */
static void group_channel(frequencies *f, const msi_imaging_run *r, int64_t channel)
{
    const msi_output_channels *c = &r->channels;
    const seen_weights seen = {{c->low_hz[0], c->high_hz[c->n - 1]}, r->pb_of_hz};
    group_frequencies(f, r->reader, &seen, c->edge_hz[channel], c->edge_hz[channel + 1], c->low_hz[channel],
                      c->high_hz[channel]);
}

static int mean_of(msi_pb_mean *mean, const msi_pb_array *a, const frequencies *f, const msi_image_geometry *g,
                   const double centre[2], const msi_plane *planes, int n_plane)
{
    const msi_pb_target t = {.geometry = *g,
                             .ra_rad = centre[0],
                             .dec_rad = centre[1],
                             .planes = planes,
                             .n_plane = n_plane,
                             .n_freq = f->n,
                             .freq_hz = f->freq_hz,
                             .weight = f->weight};
    return msi_pb_mean_make(mean, a, &t);
}

/* ---- Means of channels ---- */

const char *msi_imaging_pb_word(const msi_options *o)
{
    return o->pb.model ? o->pb.model : "auto";
}

/* Prepare the beams for -grid-with-beam. */
static int open_beam(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    MSI_TRY(msi_alloc(&r->beam, 1, sizeof *r->beam, "primary beams"));
    r->beam->work = (msi_pb_work){.low_s = r->observation.start_mjd_s,
                                  .high_s = r->observation.end_mjd_s,
                                  .n_plane = r->n_plane,
                                  .planes = r->planes};
    MSI_TRY(msi_alloc(&r->beam->channel, o->channels_out, sizeof *r->beam->channel, "primary beams"));
    return msi_pb_work_make(&r->beam->work, r->pb, (const double[]){r->ra_rad, r->dec_rad});
}

static void close_beam(msi_imaging_run *r)
{
    if (!r->beam) return;
    for (int64_t c = 0; r->beam->channel && c < r->options->channels_out; c++)
        msi_pb_channel_free(&r->beam->channel[c]);
    msi_pb_work_free(&r->beam->work);
    msi_free(r->beam->channel);
    msi_free(r->beam->tag);
    msi_free(r->beam);
    r->beam = NULL;
}

int msi_imaging_pb_tag(msi_imaging_beam *beam, const msi_ms_block *block, int n, const uint64_t **tag)
{
    int64_t n_row = 0;
    for (int i = 0; i < n; i++) n_row += block[i].n_row;
    if (n_row > beam->n_tag) {
        beam->n_tag = 0;
        MSI_TRY(msi_grow(&beam->tag, 0, n_row, sizeof *beam->tag, "tags of rows"));
        beam->n_tag = n_row;
    }
    for (int64_t i = 0, at = 0; i < n; at += block[i++].n_row) {
        tag[i] = beam->tag + at;
        msi_pb_work_tag(&beam->work, &block[i], beam->tag + at);
    }
    return MSI_OK;
}

int msi_imaging_pb_open(msi_imaging_run *r)
{
    const msi_options *o = r->options;
    const double *edge = r->channels.low_hz, *end = r->channels.high_hz;
    /* Every rank needs beams: weights of stations, gains of facets and fields of mosaics are summed over all ranks. */
    if (!msi_imaging_pb_wanted(o)) return MSI_OK;
    MSI_TRY(msi_alloc(&r->pb_mean, o->channels_out + 1, sizeof *r->pb_mean, "primary beams"));
    MSI_TRY(msi_alloc(&r->pb_weight, o->channels_out, sizeof *r->pb_weight, "primary beams"));
    MSI_TRY(msi_alloc(&r->pb_of_hz, MSI_BEAM_STEPS, sizeof *r->pb_of_hz, "primary beams"));
    if (o->pb.reuse || r->is_empty) return MSI_OK;
    const msi_pb_choice choice = {msi_imaging_pb_word(o), o->pb.is_differential, o->pb.by_table, 0};
    MSI_TRY(msi_pb_array_make(&r->pb, &choice, r->reader, edge[0], end[o->channels_out - 1], r->observation.dir_frame));
    for (int i = 0; i < r->n_plane && !r->interval; i++)
        if (r->planes[i].pol == MSI_POL_V && strncmp(msi_pb_array_name(r->pb), "VLA", 3) == 0 &&
            !strstr(msi_imaging_pb_word(o), "squint"))
            msi_log_info("Stokes V: the beams of R and L are taken as one; -pb vla-squint separates them");
    const double cell_rad = fmax(o->geometry.cell_x_rad, o->geometry.cell_y_rad);
    if (r->pb->width_rad < 2 * cell_rad && !r->interval)
        msi_log_warning("the primary beam (%s) is %.2g pixels wide at half power; check -pb and -scale",
                        msi_pb_array_name(r->pb), r->pb->width_rad / cell_rad);
    if (o->pb.grid) MSI_TRY(msi_pb_array_refuse_stations(r->pb, "-grid-with-beam"));
    if (o->pb.mosaic && r->update) MSI_TRY(msi_pb_array_refuse_stations(r->pb, "-mosaic with MODEL_DATA"));
    return o->pb.grid ? open_beam(r) : MSI_OK;
}

int msi_imaging_pb_weigh(msi_imaging_run *r, msi_beam_weights *weights)
{
    const int n = r->options->n_ms;
    MSI_TRY(msi_ranks_sum(r->ranks, weights, n * (int64_t)(sizeof *weights / sizeof(double)), MSI_FP64));
    for (int i = 0; r->pb && i < r->pb->n_set; i++)
        if (r->pb->set[i].counted)
            MSI_TRY(msi_ranks_sum(r->ranks, r->pb->set[i].counted,
                                  (int64_t)r->pb->set[i].n_class * r->pb->set[i].n_class, MSI_FP64));
    for (int i = 0; r->pb && i < n; i++) msi_pb_array_weigh(r->pb, i, weights[i].pair, &weights[i].times);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < MSI_BEAM_STEPS; k++) r->pb_of_hz[k] += weights[i].of_hz[k];
    return MSI_OK;
}

void msi_imaging_pb_close(msi_imaging_run *r)
{
    close_beam(r);
    if (r->pb_s[0] > 0) msi_log_detail("primary beams: %.3f s for models, %.3f s for pixels", r->pb_s[0], r->pb_s[1]);
    r->pb_s[0] = r->pb_s[1] = 0;
    for (int64_t c = 0; r->pb_mean && c <= r->options->channels_out; c++) msi_pb_mean_free(&r->pb_mean[c]);
    msi_free(r->pb_mean);
    msi_free(r->pb_weight);
    msi_free(r->pb_of_hz);
    msi_free(r->contour);
    r->contour = NULL;
    msi_pb_array_free(r->pb);
    r->pb_mean = NULL;
    r->pb_weight = NULL;
    r->pb_of_hz = NULL;
    r->pb = NULL;
}

/*
 * Read an element of the beam from a file of an earlier run.
 * Returned: *model  PBMODEL of the file, if the file was read
 */
static int read_element(const msi_imaging_run *r, int64_t channel, msi_fits_kind kind, float **pixel, char model[72])
{
    const msi_options *o = r->options;
    const msi_output_id id = {r->interval, channel, 0, kind, 0};
    char *path;
    msi_fits_image image = {0};
    *pixel = NULL;
    MSI_TRY(msi_outputs_path(&path, r->outputs, o->name, &id));
    int rc = msi_fits_read(&image, path, MSI_FP32);
    if (!rc && (image.geometry.nx != o->geometry.nx || image.geometry.ny != o->geometry.ny ||
                fabs(image.geometry.cell_x_rad / o->geometry.cell_x_rad - 1) > 1e-6 ||
                fabs(image.geometry.cell_y_rad / o->geometry.cell_y_rad - 1) > 1e-6))
        rc = msi_error_set(MSI_EINPUT,
                           "%s: %lld x %lld pixels of another size or number than those of the image, %lld x %lld; "
                           "leave -reuse-primary-beam out",
                           path, (long long)image.geometry.nx, (long long)image.geometry.ny, (long long)o->geometry.nx,
                           (long long)o->geometry.ny);
    if (!rc) {
        *pixel = image.pixel;
        image.pixel = NULL;
        memcpy(model, image.primary_beam, sizeof image.primary_beam);
    }
    msi_fits_image_free(&image);
    msi_free(path);
    return rc;
}

/* The end of the model's name in files of a matrix. Files of the feeds' power and older files of a matrix may be in one
 * directory. */
static const char OF_MATRIX[] = ", matrix";

/* Log that the beam is read from files. Warn if Q, U and V can only be divided by the beam of I. */
static void log_reused_beam(const msi_imaging_run *r, int has_matrix)
{
    for (int p = 0; p < r->n_plane && !has_matrix; p++)
        if (r->planes[p].pol >= MSI_POL_Q && r->planes[p].pol <= MSI_POL_V && r->interval == 0) {
            msi_log_warning("-reuse-primary-beam: the files have the power of the feeds only, without %s-beam-3.fits "
                            "and -8.fits: Q, U and V are divided by the beam of I, and leakage is not corrected",
                            r->options->name);
            return;
        }
}

static int read_mean(msi_imaging_run *r, int64_t channel, msi_pb_mean *mean)
{
    float *element[MSI_PB_ELEMENTS] = {NULL};
    char model[72] = "";
    int rc = read_element(r, channel, MSI_FITS_BEAM_0, &element[0], model);
    const int is_power = model[0] && !strstr(model, OF_MATRIX);
    for (int k = 1; k < MSI_PB_ELEMENTS && !rc; k++) {
        const msi_output_id id = {r->interval, channel, 0, MSI_FITS_BEAM_0 + k, 0};
        char *path = NULL;
        if (k < 15 && is_power) continue;
        rc = msi_outputs_path(&path, r->outputs, r->options->name, &id);
        const int is_there = !rc && access(path, F_OK) == 0;
        msi_free(path);
        if (!rc && (is_there || k == 15)) rc = read_element(r, channel, id.kind, &element[k], model);
    }
    if (!rc) log_reused_beam(r, element[3] && element[8]);
    if (!rc)
        rc = msi_pb_mean_from_elements(mean, &r->options->geometry, r->planes, r->n_plane,
                                       (const float *const *)element);
    for (int k = 0; k < MSI_PB_ELEMENTS; k++) msi_free(element[k]);
    return rc;
}

static int make_mean(msi_imaging_run *r, int64_t channel, msi_pb_mean *mean)
{
    frequencies f;
    const double centre[2] = {r->ra_rad, r->dec_rad};
    group_channel(&f, r, channel);
    const double start_s = msi_wall_s();
    const int rc = mean_of(mean, r->pb, &f, &r->options->geometry, centre, r->planes, r->n_plane);
    r->pb_s[0] += msi_wall_s() - start_s;
    return rc;
}

int msi_imaging_pb_mosaic(msi_imaging_run *r, int64_t channel, double *weight, msi_mosaic_channel *out)
{
    frequencies f;
    float *plain;
    const int64_t n = msi_image_n_pixel(&r->options->geometry);
    group_channel(&f, r, channel);
    MSI_TRY(msi_mosaic_channel_make(out, &r->mosaic->fields, weight, r->planes, r->n_plane, f.n, f.freq_hz, f.weight));
    MSI_TRY(msi_alloc(&plain, n, sizeof *plain, "the response of a mosaic"));
    memcpy(plain, out->response, (size_t)n * sizeof *plain);
    msi_pb_mean_from_plain(&r->pb_mean[channel], &r->options->geometry, r->n_plane, plain);
    return MSI_OK;
}

static int find_mean(msi_imaging_run *r, int64_t channel, msi_pb_mean **out)
{
    const int64_t n = r->options->channels_out;
    msi_pb_mean *mean = &r->pb_mean[channel == MSI_OUTPUT_MFS ? n : channel];
    *out = mean;
    if (mean->node || mean->plain) return MSI_OK;
    if (channel != MSI_OUTPUT_MFS)
        return r->options->pb.reuse ? read_mean(r, channel, mean) : make_mean(r, channel, mean);
    for (int64_t c = 0; c < n; c++) {
        msi_pb_mean *of_channel;
        MSI_TRY(find_mean(r, c, &of_channel));
        MSI_TRY(msi_pb_mean_add(mean, of_channel, r->pb_weight[c]));
    }
    return MSI_OK;
}

int msi_imaging_pb_response(msi_imaging_run *r, int64_t channel, double weight, float *pixel)
{
    msi_pb_mean *mean;
    if (channel != MSI_OUTPUT_MFS && r->pb_weight[channel] == 0) r->pb_weight[channel] = weight;
    MSI_TRY(find_mean(r, channel, &mean));
    return msi_pb_mean_image(mean, MSI_PB_RESPONSE, 0, r->options->pb.limit, pixel);
}

int msi_imaging_pb_channels(msi_imaging_run *r)
{
    for (int64_t c = 0; r->beam && c < r->options->channels_out; c++) {
        msi_pb_mean *mean;
        MSI_TRY(find_mean(r, c, &mean));
        r->beam->channel[c] = (msi_pb_channel){.work = &r->beam->work, .gridder = r->gridder[c], .mean = mean};
    }
    return MSI_OK;
}

/* ---- Responses and images of true flux of facets ---- */

/* Return the response of a facet in an image of a channel, or of the mean of all channels, relative to its beam. */
static double response_of(const msi_imaging_run *r, int64_t channel, int facet)
{
    const msi_imaging_facets *f = r->facets;
    double sum = 0, weight = 0;
    for (int64_t c = 0; c < r->options->channels_out; c++) {
        const msi_facet_channel *of = &f->channel[c];
        if (!of->correction || (channel != MSI_OUTPUT_MFS && c != channel)) continue;
        const double w = channel == MSI_OUTPUT_MFS ? f->weight[c] : 1, beam = msi_facet_beam(of, facet);
        sum += beam > 0 ? w * msi_facet_response(of, facet) / beam : 0;
        weight += w;
    }
    return weight > 0 ? sum / weight : 0;
}

int msi_imaging_facets_response(msi_imaging_run *r, int64_t channel, float *pixel)
{
    const msi_facets *f = &r->facets->facets;
    for (int i = 0; i < f->n; i++) {
        const msi_facet *p = &f->facet[i];
        const float response = (float)response_of(r, channel, i);
        float *weight;
        MSI_TRY(msi_alloc(&weight, p->nx * p->ny, sizeof *weight, "weights of a facet"));
        const int rc = msi_facets_weights(f, i, weight);
        for (int64_t y = 0; !rc && y < p->ny; y++)
            for (int64_t x = 0; x < p->nx; x++)
                pixel[(p->y0 + y) * f->geometry.nx + p->x0 + x] += weight[y * p->nx + x] * response;
        msi_free(weight);
        MSI_TRY(rc);
    }
    const msi_facet_gains *gains = r->facets->gains;
    if (!msi_facet_gains_has_beam(gains) || msi_facet_gains_has_slopes(gains)) return MSI_OK;
    const int64_t n = msi_image_n_pixel(&f->geometry);
    float *beam;
    MSI_TRY(msi_alloc(&beam, n, sizeof *beam, "the primary beam"));
    const int rc =
        msi_imaging_pb_response(r, channel, channel == MSI_OUTPUT_MFS ? 0 : r->facets->weight[channel], beam);
    for (int64_t i = 0; !rc && i < n; i++) pixel[i] *= beam[i];
    msi_free(beam);
    return rc;
}

/* Compute the response of a channel for spectra of true flux, facets->seen[channel]. */
static int compute_facet_response(msi_imaging_run *r, int64_t channel)
{
    const msi_image_geometry *g = &r->facets->facets.geometry;
    msi_imaging_facets *f = r->facets;
    float *pixel;
    if (!f->seen) MSI_TRY(msi_alloc(&f->seen, r->options->channels_out, sizeof *f->seen, "responses of facets"));
    MSI_TRY(msi_alloc(&pixel, msi_image_n_pixel(g), sizeof *pixel, "responses of facets"));
    msi_pb_mean_from_plain(&f->seen[channel], g, r->n_plane, pixel);
    return msi_imaging_facets_response(r, channel, pixel);
}

/* Divide a plane of an image by the response, and write it. Given: out  a buffer of one plane */
static int write_true_flux(msi_imaging_run *r, const msi_imaging_pb_image *of, int plane, const float *response,
                           msi_image *out)
{
    const msi_image *from = of->image;
    const void *pixel = msi_image_plane(from, of->plane + plane);
    const int64_t n = msi_image_n_pixel(&from->geometry);
    const msi_fits_kind kind = of->kind == MSI_FITS_MODEL ? MSI_FITS_MODEL_PB : MSI_FITS_IMAGE_PB;
    const msi_output_id id = {r->interval, of->channel, of->first + plane, kind, of->file[plane].id.term};
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i++) {
        const double value = msi_image_value(pixel, from->precision, i);
        /* Without a response the flux is unknown: a model is 0 there, other images are NaN. */
        const double flux = response[i] > 0 ? value / (double)response[i] : kind == MSI_FITS_MODEL_PB ? 0 : (double)NAN;
        msi_image_set(out, 0, i, flux);
    }
    return msi_outputs_write(r->outputs, &id, &of->file[plane].spec, out->pixel, out->precision);
}

/* Write the images of true flux that correspond to the planes that are being written. */
static int put_facets(msi_imaging_run *r, const msi_imaging_pb_image *of)
{
    const int is_image = of->kind == (r->options->clean.niter ? MSI_FITS_IMAGE : MSI_FITS_DIRTY);
    msi_imaging_facets *f = r->facets;
    msi_image out = {0};
    if (!r->outputs || !(is_image || of->kind == MSI_FITS_MODEL)) return MSI_OK;
    if (of->channel != MSI_OUTPUT_MFS && !(f->weight[of->channel] > 0))
        f->weight[of->channel] = of->image->sum_weight[of->plane];
    int rc = MSI_OK;
    if (!f->response || f->response_channel != of->channel) {
        msi_free(f->response);
        f->response = NULL;
        MSI_TRY(msi_alloc(&f->response, msi_image_n_pixel(&of->image->geometry), sizeof *f->response,
                          "responses of facets"));
        f->response_channel = of->channel;
        rc = msi_imaging_facets_response(r, of->channel, f->response);
    }
    if (!rc) rc = msi_image_alloc(&out, &of->image->geometry, 1, of->image->precision);
    for (int p = 0; !rc && p < of->n_plane; p++) rc = write_true_flux(r, of, p, f->response, &out);
    msi_image_free(&out);
    return rc;
}

/* ---- Response for fitted spectra ---- */

/* Get the responses of all channels at a pixel. Given: run  with the mean beams of all channels */
static void get_response(const void *run, int64_t pixel, double *response)
{
    const msi_imaging_run *r = run;
    const msi_pb_mean *mean = r->facets && r->facets->gains ? r->facets->seen : r->pb_mean;
    const int64_t nx = r->options->geometry.nx;
    for (int64_t c = 0; c < r->options->channels_out; c++)
        msi_pb_mean_at(&mean[c], pixel % nx, pixel / nx, response + c * r->n_plane * r->n_plane);
}

int msi_imaging_pb_sight(msi_imaging_run *r, msi_clean_sight *sight)
{
    const msi_options *o = r->options;
    const int by_facets = r->facets && r->facets->gains,
              is_fitted = o->clean.join_channels && (o->clean.fit_terms || o->clean.log_fit_terms);
    if (!is_fitted || r->is_empty || !(o->pb.apply || o->pb.correct || o->facets.beam)) return MSI_OK;
    sight->respond = get_response;
    sight->user = r;
    for (int64_t c = 0; c < o->channels_out; c++) {
        msi_pb_mean *mean;
        if (by_facets)
            MSI_TRY(compute_facet_response(r, c));
        else
            MSI_TRY(find_mean(r, c, &mean));
    }
    return MSI_OK;
}

/* ---- Files ---- */

const msi_fits_contour *msi_imaging_pb_contour(msi_imaging_run *r, int64_t channel)
{
    enum { N = MSI_CONTOUR_POINTS };
    const msi_image_geometry *g = &r->options->geometry;
    double matrix[MSI_MAX_PLANES * MSI_MAX_PLANES];
    if (!r->pb_mean || !(r->options->png || r->options->report)) return NULL;
    const msi_pb_mean *mean = &r->pb_mean[channel == MSI_OUTPUT_MFS ? r->options->channels_out : channel];
    if (!mean->node && !mean->plain) return NULL;
    if (!r->contour && msi_alloc(&r->contour, 1, sizeof *r->contour, "a contour")) return NULL;
    float largest = 0;
    for (int i = 0; i < N * N; i++) {
        msi_pb_mean_at(mean, llround(msi_fits_contour_pixel(i % N, g->nx)),
                       llround(msi_fits_contour_pixel(i / N, g->ny)), matrix);
        r->contour->value[i / N][i % N] = (float)matrix[0];
        largest = fmaxf(largest, (float)matrix[0]);
    }
    r->contour->level = 0.5 * (double)largest;
    return r->contour;
}

/* Pass an image to the writer, which frees it, with the headers of another image. Given: first  index of its first
 * plane among the run's planes */
static int put_image(msi_imaging_run *r, const msi_imaging_pb_image *of, msi_fits_kind kind, int first,
                     msi_image *image)
{
    msi_image_file file[MSI_IMAGE_MAX_FILES];
    const int n = image->n_plane, is_element = kind >= MSI_FITS_BEAM_0 && kind <= MSI_FITS_BEAM_15 &&
                                               msi_outputs_beam_is_matrix(r->options);
    char name[72];
    snprintf(name, sizeof name, "%.48s%s", r->pb ? msi_pb_array_name(r->pb) : "files of an earlier run",
             is_element ? OF_MATRIX : "");
    for (int p = 0; p < n; p++) {
        file[p] = of->file[p < of->n_plane ? p : 0];
        file[p].id = (msi_output_id){r->interval, of->channel, first + p, kind, file[p].id.term};
        file[p].plane = p;
        file[p].spec.primary_beam = name;
        file[p].spec.geometry = image->geometry;
        file[p].spec.contour = msi_imaging_pb_contour(r, of->channel);
    }
    return msi_image_writer_put(r->writer, image, n, file, r->plan.n_pending);
}

/* Write an image of a mean beam. Given: plane, limit  as msi_pb_mean_image */
static int write_part(msi_imaging_run *r, const msi_imaging_pb_image *of, const msi_pb_mean *mean, msi_fits_kind kind,
                      int plane, double limit)
{
    const msi_pb_part part = kind == MSI_FITS_BEAM_0    ? MSI_PB_FEED_X
                             : kind == MSI_FITS_BEAM_15 ? MSI_PB_FEED_Y
                                                        : MSI_PB_RESPONSE;
    msi_image image;
    MSI_TRY(msi_image_alloc_unset(&image, &mean->geometry, 1, MSI_FP32));
    const double start_s = msi_wall_s();
    int rc = msi_pb_mean_image(mean, part, plane, limit, image.pixel);
    r->pb_s[1] += msi_wall_s() - start_s;
    if (!rc) rc = put_image(r, of, kind, plane, &image);
    msi_image_free(&image);
    return rc;
}

/* Write an element of the matrix of a mean beam. */
static int write_element(msi_imaging_run *r, const msi_imaging_pb_image *of, const msi_pb_mean *mean, int element)
{
    msi_pb_mean one;
    msi_image image = {0};
    MSI_TRY(msi_pb_mean_element(&one, mean, r->planes, element));
    int rc = msi_image_alloc_unset(&image, &mean->geometry, 1, MSI_FP32);
    if (!rc) rc = msi_pb_mean_image(&one, MSI_PB_RESPONSE, 0, -1, image.pixel);
    if (!rc) rc = put_image(r, of, MSI_FITS_BEAM_0 + element, 0, &image);
    msi_image_free(&image);
    msi_pb_mean_free(&one);
    return rc;
}

/* Write the weight of a mosaic, which is the sum of w P^2 over its fields, and the sum of w. Both are 0 in an interval
 * without rows. */
static int write_weight(msi_imaging_run *r, const msi_imaging_pb_image *of)
{
    const int64_t n = msi_image_n_pixel(&r->options->geometry), all = r->options->channels_out;
    const int is_all = of->channel == MSI_OUTPUT_MFS;
    msi_image image, one;
    MSI_TRY(msi_image_alloc(&image, &r->options->geometry, 1, MSI_FP32));
    int rc = msi_image_alloc(
        &one, &(msi_image_geometry){1, 1, r->options->geometry.cell_x_rad, r->options->geometry.cell_y_rad}, 1,
        MSI_FP32);
    float *pixel = image.pixel;
    double total = 0;
    for (int64_t c = is_all ? 0 : of->channel; !rc && r->mosaic && c < (is_all ? all : of->channel + 1); c++) {
        const msi_mosaic_channel *m = &r->mosaic->channel[c];
        double sum = 0;
        for (int i = 0; i < r->mosaic->fields.n; i++) sum += m->weight[i];
        total += sum;
#pragma omp parallel for schedule(static)
        for (int64_t i = 0; i < n; i++)
            pixel[i] += (float)(sum * m->peak * (double)m->response[i] * (double)m->response[i]);
    }
    if (!rc) msi_image_set(&one, 0, 0, total);
    if (!rc) rc = put_image(r, of, MSI_FITS_WEIGHT, 0, &image);
    if (!rc) rc = put_image(r, of, MSI_FITS_SUM_WEIGHT, 0, &one);
    msi_image_free(&image);
    msi_image_free(&one);
    return rc;
}

/* Write the beam of a channel, unless it is written already. */
static int write_beam(msi_imaging_run *r, const msi_imaging_pb_image *of, msi_pb_mean *mean)
{
    const msi_pb_options *o = &r->options->pb;
    if (mean->is_written) return MSI_OK;
    mean->is_written = 1;
    if (o->apply && !o->reuse && msi_outputs_beam_is_matrix(r->options)) {
        for (int k = 0; k < MSI_PB_ELEMENTS; k++) MSI_TRY(write_element(r, of, mean, k));
    } else if (o->apply && !o->reuse) {
        MSI_TRY(write_part(r, of, mean, MSI_FITS_BEAM_0, 0, -1));
        MSI_TRY(write_part(r, of, mean, MSI_FITS_BEAM_15, 0, -1));
    }
    for (int p = 0; o->correct && p < r->n_plane; p++) MSI_TRY(write_part(r, of, mean, MSI_FITS_PB, p, o->pblimit));
    return o->mosaic && !r->options->clean.n_taylor ? write_weight(r, of) : MSI_OK;
}

/* Copy some planes of an image, correct the copy and write it. Given: of  with its first plane */
static int write_corrected(msi_imaging_run *r, const msi_imaging_pb_image *of, msi_fits_kind kind, double limit,
                           const msi_pb_mean *mean)
{
    msi_image copy;
    const msi_image *from = of->image;
    MSI_TRY(msi_image_alloc_unset(&copy, &from->geometry, of->n_plane, from->precision));
    const double start_s = msi_wall_s();
    int rc = msi_pb_mean_correct(mean, of->first, limit, msi_image_plane(from, of->plane), &copy);
    r->pb_s[1] += msi_wall_s() - start_s;
    /* A model is 0 where the beam is unknown. */
    if (!rc && kind == MSI_FITS_MODEL_PB) msi_image_blank(&copy);
    if (!rc) rc = put_image(r, of, kind, of->first, &copy);
    msi_image_free(&copy);
    return rc;
}

/* Make the beam of an interval without rows: its pointing is unknown, so the beam is NaN. */
static int make_unknown(msi_imaging_run *r, const msi_imaging_pb_image *of)
{
    msi_pb_mean *mean = &r->pb_mean[of->channel == MSI_OUTPUT_MFS ? r->options->channels_out : of->channel];
    return mean->node ? MSI_OK : msi_pb_mean_unknown(mean, &of->image->geometry, r->n_plane);
}

int msi_imaging_pb_begin(msi_imaging_run *r, const msi_imaging_pb_image *of)
{
    const msi_pb_options *o = &r->options->pb;
    msi_pb_mean *mean;
    if (!(o->apply || o->correct) || r->is_empty || r->mosaic || (r->facets && r->facets->gains)) return MSI_OK;
    MSI_TRY(find_mean(r, of->channel, &mean));
    return write_beam(r, of, mean);
}

int msi_imaging_pb_put(msi_imaging_run *r, const msi_imaging_pb_image *of)
{
    const msi_pb_options *o = &r->options->pb;
    const int is_model = of->kind == MSI_FITS_MODEL, is_psf = of->kind == MSI_FITS_PSF;
    const int is_image = of->kind == (r->options->clean.niter ? MSI_FITS_IMAGE : MSI_FITS_DIRTY);
    msi_pb_mean *mean;
    if (r->facets && r->facets->gains) return put_facets(r, of);
    /* The Taylor terms of an image are corrected together, once all of them are made. On a mosaic the response corrects
     * each term separately. */
    if (r->options->clean.n_taylor && !(r->mosaic && is_model)) return MSI_OK;
    if (!r->outputs || !(o->apply || o->correct) || !(is_model || is_psf || is_image)) return MSI_OK;
    if (of->channel != MSI_OUTPUT_MFS && r->pb_weight[of->channel] == 0)
        r->pb_weight[of->channel] = of->image->sum_weight[of->plane];
    if (r->is_empty && !o->reuse) MSI_TRY(make_unknown(r, of));
    MSI_TRY(find_mean(r, of->channel, &mean));
    if (!r->options->clean.n_taylor) MSI_TRY(write_beam(r, of, mean));
    if (is_psf) return o->apply && o->save_psf ? write_corrected(r, of, MSI_FITS_PSF_PB, o->limit, mean) : MSI_OK;
    if (o->apply || (o->mosaic && is_model))
        MSI_TRY(write_corrected(r, of, is_model ? MSI_FITS_MODEL_PB : MSI_FITS_IMAGE_PB, o->limit, mean));
    return o->correct && is_image ? write_corrected(r, of, MSI_FITS_PBCOR, fmax(o->pblimit, 0), mean) : MSI_OK;
}

/* ---- Taylor terms ---- */

int msi_imaging_pb_terms(msi_imaging_run *r, const msi_pb_taylor *taylor, const double *freq_hz, int plane,
                         msi_image *term, msi_image *beam, msi_image *covariance)
{
    const double centre[2] = {r->ra_rad, r->dec_rad};
    msi_pb_mean *node;
    int rc = MSI_OK;
    if (!r->pb) {
        for (int i = 0; i < term->n_plane; i++) {
            msi_image_fill_nan(term, i);
            msi_image_fill_nan(beam, i);
        }
        for (int i = 0; covariance && i < covariance->n_plane; i++) msi_image_fill_nan(covariance, i);
        return MSI_OK;
    }
    if (r->mosaic) {
        msi_mosaic_correct_terms(&r->mosaic->channel[0], fmax(r->options->pb.pblimit, 0), term, beam, covariance);
        return MSI_OK;
    }
    MSI_TRY(msi_alloc(&node, taylor->n_node, sizeof *node, "primary beams"));
    for (int k = 0; k < taylor->n_node && !rc; k++) {
        const frequencies f = {1, {freq_hz[k]}, {1}};
        rc = mean_of(&node[k], r->pb, &f, &r->options->geometry, centre, r->planes, r->n_plane);
    }
    if (!rc)
        rc = msi_pb_mean_correct_terms(node, taylor, fmax(r->options->pb.pblimit, 0), plane, term, beam, covariance);
    for (int k = 0; k < taylor->n_node; k++) msi_pb_mean_free(&node[k]);
    msi_free(node);
    return rc;
}

/* ---- The mask of -pbmask ---- */

/* With -grid-with-beam, components are allowed where the beam exceeds this at all frequencies. */
static const double LEAST_RESPONSE = 0.02;

/* Compute the response of a mosaic whose fields are weighted by their number of rows. */
static int mosaic_of(msi_pb_mean *mean, const msi_pb_array *a, const frequencies *f, const msi_image_geometry *g,
                     const double centre[2], double low_hz)
{
    static const msi_plane intensity = {MSI_POL_I, 0, 0};
    msi_mosaic m;
    msi_mosaic_channel c = {0};
    double *weight = NULL;
    MSI_TRY(msi_mosaic_make(&m, a, g, centre, low_hz));
    int rc = msi_alloc(&weight, m.n, sizeof *weight, "weights of fields");
    for (int i = 0; !rc && i < m.n; i++) weight[i] = m.field[i].weight;
    if (!rc) rc = msi_mosaic_channel_make(&c, &m, weight, &intensity, 1, f->n, f->freq_hz, f->weight);
    if (!rc) {
        msi_pb_mean_from_plain(mean, g, 1, c.response);
        c.response = NULL;
        msi_mosaic_channel_free(&c);
    }
    msi_mosaic_free(&m);
    return rc;
}

int msi_imaging_pb_mask(msi_clean_mask *mask, const msi_options *o, const msi_ms_reader *reader, const char *frame,
                        const double centre[2])
{
    static const msi_plane intensity = {MSI_POL_I, 0, 0};
    const int64_t n = msi_image_n_pixel(&o->geometry);
    double low = INFINITY, high = 0;
    msi_pb_array *a;
    msi_pb_mean mean;
    frequencies f;
    float *pixel;
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *s = msi_ms_reader_spw(reader, i);
        low = fmin(low, s->freq_hz[0]);
        high = fmax(high, s->freq_hz[s->n_chan - 1]);
    }
    const msi_pb_choice choice = {msi_imaging_pb_word(o), o->pb.is_differential, o->pb.by_table, 1};
    MSI_TRY(msi_pb_array_make(&a, &choice, reader, low, high, frame));
    group_frequencies(&f, reader, NULL, low, INFINITY, low, high);
    /* A model is divided by the beam, which must be large enough at all frequencies. */
    const int divides = o->pb.grid || o->pb.mosaic;
    if (divides) f = (frequencies){1, {high}, {1}};
    const double level = divides ? fmax(fmax(o->pb.mask, o->pb.limit), LEAST_RESPONSE) : o->pb.mask;
    int rc = o->pb.mosaic ? mosaic_of(&mean, a, &f, &o->geometry, centre, low)
                          : mean_of(&mean, a, &f, &o->geometry, centre, &intensity, 1);
    msi_pb_array_free(a);
    MSI_TRY(rc);
    rc = msi_alloc(&pixel, n, sizeof *pixel, "the mask of the primary beam");
    if (!rc && !mask->pixel) {
        *mask = (msi_clean_mask){.nx = o->geometry.nx, .ny = o->geometry.ny, .n_plane = 1};
        rc = msi_alloc(&mask->pixel, n, sizeof *mask->pixel, "the mask of the primary beam");
        if (!rc) memset(mask->pixel, 1, (size_t)n);
    }
    if (!rc) rc = msi_pb_mean_image(&mean, MSI_PB_RESPONSE, 0, level, pixel);
    for (int64_t c = 0; !rc && c < mask->n_plane; c++)
        for (int64_t i = 0; i < n; i++)
            if (!(pixel[i] > level)) mask->pixel[c * n + i] = 0;
    msi_free(pixel);
    msi_pb_mean_free(&mean);
    return rc;
}
