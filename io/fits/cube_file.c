/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The header of a cube is first in the file, but its sums and beams are known last. So space is reserved for it: as
 * many blocks as the header of the first plane needs, and one more for cards that are added later.
 */
#include "io/fits/cube_file.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/fits/fits_cards.h"

enum { BLOCK = 2880 };

/* Values of one plane, from which the header is made. */
typedef struct plane_values {
    int64_t n_vis;
    double sum_weight, largest_weight, sum_vis_weight;
    msi_fits_clean clean;
} plane_values;

struct msi_cube_file {
    msi_publish *publish;
    int output, fd;
    msi_fits_cube axis; /* its beams are in the member beam below */
    msi_fits_spec spec; /* spec of the first plane; it points to the observation and column below */
    msi_observation observation;
    char column[64];
    int64_t n_pixel; /* pixels of a plane */
    size_t header_bytes;
    /* The members from here are changed by several threads. */
    msi_beam *beam;       /* [n] */
    plane_values *values; /* [n] */
    pthread_mutex_t gate; /* protects n_written */
    int64_t n_written;
};

static int64_t plane_at(const msi_cube_file *c, int64_t plane)
{
    return (int64_t)c->header_bytes + plane * c->n_pixel * (int64_t)sizeof(float);
}

/* Reserve the disk space of all planes, if the file system can, so that a full disk is reported before the first
 * image. */
static int reserve(const msi_cube_file *c)
{
    if (fallocate(c->fd, 0, 0, plane_at(c, c->axis.n)) == 0) return MSI_OK;
    if (errno != ENOSPC && errno != EDQUOT && errno != EFBIG) return MSI_OK;
    return msi_publish_fail(c->publish, c->output, errno, NULL);
}

int msi_cube_file_begin(msi_cube_file **out, msi_publish *p, int i, const msi_fits_spec *spec)
{
    char *header = NULL;
    *out = NULL;
    msi_cube_file *c;
    MSI_TRY(msi_alloc(&c, 1, sizeof *c, "a cube"));
    *c = (msi_cube_file){
        .publish = p, .output = i, .axis = *spec->cube, .spec = *spec, .observation = *spec->observation};
    if (spec->data_column) snprintf(c->column, sizeof c->column, "%s", spec->data_column);
    c->spec.observation = &c->observation;
    c->spec.data_column = c->column;
    c->n_pixel = msi_image_n_pixel(&spec->geometry);
    pthread_mutex_init(&c->gate, NULL);
    int rc = msi_alloc(&c->beam, c->axis.n, sizeof *c->beam, "beams of a cube");
    if (!rc) rc = msi_alloc(&c->values, c->axis.n, sizeof *c->values, "planes of a cube");
    if (!rc) rc = msi_fits_make_header(p, i, spec, 0, &header, &c->header_bytes);
    free(header);
    c->header_bytes += BLOCK;
    if (!rc) rc = msi_publish_begin(p, i, &c->fd);
    if (!rc) rc = reserve(c);
    if (rc)
        msi_cube_file_free(c);
    else
        *out = c;
    return rc;
}

/* Add the results of cleaning one plane to the sums. */
static void add_clean(msi_fits_clean *sum, const msi_fits_clean *c)
{
    if (!c->is_known) return;
    if (!sum->is_known) {
        *sum = *c;
        return;
    }
    sum->n_minor += c->n_minor;
    if (c->n_major > sum->n_major) sum->n_major = c->n_major;
    if (strcmp(sum->stop, c->stop) != 0) snprintf(sum->stop, sizeof sum->stop, "differs between planes");
    sum->final_threshold_jy = fmax(sum->final_threshold_jy, c->final_threshold_jy);
    sum->noise_jy = NAN;
    if (fabs(c->peak_jy) > fabs(sum->peak_jy)) sum->peak_jy = c->peak_jy;
    sum->flux_jy += c->flux_jy;
}

int msi_cube_file_put(msi_cube_file *c, int64_t plane, const msi_fits_spec *spec, const void *pixel,
                      msi_precision precision, int *is_last)
{
    *is_last = 0;
    if (plane < 0 || plane >= c->axis.n)
        return msi_error_set(MSI_EINTERNAL, "%s: plane %lld of %lld", msi_publish_name(c->publish, c->output),
                             (long long)plane, (long long)c->axis.n);
    MSI_TRY(msi_fits_write_pixels(c->publish, c->output, plane_at(c, plane), c->n_pixel, pixel, precision));
    c->beam[plane] = msi_beam_known(&spec->beam) ? spec->beam : (msi_beam){0};
    c->values[plane] =
        (plane_values){spec->n_vis, spec->sum_weight, spec->largest_weight, spec->sum_vis_weight, spec->clean};
    pthread_mutex_lock(&c->gate);
    *is_last = ++c->n_written == c->axis.n;
    pthread_mutex_unlock(&c->gate);
    return MSI_OK;
}

/* Return 1 if all planes with a beam have the same beam. Returned: *beam  the first beam */
static int have_one_beam(const msi_cube_file *c, msi_beam *beam)
{
    *beam = (msi_beam){0};
    for (int64_t k = 0; k < c->axis.n; k++) {
        if (!msi_beam_known(&c->beam[k])) continue;
        if (msi_beam_known(beam) && memcmp(beam, &c->beam[k], sizeof *beam) != 0) return 0;
        *beam = c->beam[k];
    }
    return 1;
}

int msi_cube_file_finish(msi_cube_file *c)
{
    msi_fits_spec all = c->spec;
    msi_fits_cube axis = c->axis;
    char *header;
    size_t size = 0;
    const int64_t end = plane_at(c, c->axis.n);
    const int has_table = !have_one_beam(c, &all.beam) && msi_fits_has_beam(all.kind);
    axis.beam = has_table ? c->beam : NULL;
    all.cube = &axis;
    all.freq_hz = axis.first_hz + 0.5 * (double)(axis.n - 1) * axis.step_hz;
    all.bandwidth_hz = (double)axis.n * fabs(axis.step_hz);
    all.channel = -1;
    all.n_vis = 0;
    all.sum_weight = all.largest_weight = all.sum_vis_weight = 0;
    all.clean = (msi_fits_clean){0};
    for (int64_t k = 0; k < axis.n; k++) {
        const plane_values *f = &c->values[k];
        all.n_vis += f->n_vis;
        all.sum_weight += f->sum_weight;
        all.largest_weight = fmax(all.largest_weight, f->largest_weight);
        all.sum_vis_weight += f->sum_vis_weight;
        add_clean(&all.clean, &f->clean);
    }
    MSI_TRY(msi_fits_make_header(c->publish, c->output, &all, c->header_bytes, &header, &size));
    int rc = size == c->header_bytes
                 ? msi_publish_write_at(c->publish, c->output, 0, header, size)
                 : msi_error_set(MSI_EINTERNAL, "%s: its header has grown", msi_publish_name(c->publish, c->output));
    free(header);
    if (!rc) rc = msi_fits_write_padding(c->publish, c->output, end);
    if (!rc && has_table) rc = msi_fits_write_beams(c->publish, c->output, (end + BLOCK - 1) / BLOCK * BLOCK, &axis);
    return rc ? rc : msi_publish_seal(c->publish, c->output);
}

const msi_beam *msi_cube_file_beams(const msi_cube_file *c)
{
    return c->beam;
}

int msi_cube_file_get(const msi_cube_file *c, int64_t plane, msi_fits_spec *plane_spec, float *pixel)
{
    const plane_values *f = &c->values[plane];
    *plane_spec = (msi_fits_spec){.beam = c->beam[plane],
                                  .n_vis = f->n_vis,
                                  .sum_weight = f->sum_weight,
                                  .largest_weight = f->largest_weight,
                                  .sum_vis_weight = f->sum_vis_weight,
                                  .clean = f->clean};
    char *to = (char *)pixel;
    int64_t at = plane_at(c, plane), left = c->n_pixel * (int64_t)sizeof *pixel;
    while (left > 0) {
        const ssize_t n = pread(c->fd, to, (size_t)left, at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return msi_publish_fail(c->publish, c->output, n < 0 ? errno : 0, "cannot read it back");
        to += n;
        at += n;
        left -= n;
    }
    for (int64_t k = 0; k < c->n_pixel; k++) {
        uint32_t bits;
        memcpy(&bits, &pixel[k], sizeof bits);
        bits = be32toh(bits);
        memcpy(&pixel[k], &bits, sizeof bits);
    }
    return MSI_OK;
}

void msi_cube_file_free(msi_cube_file *c)
{
    if (!c) return;
    pthread_mutex_destroy(&c->gate);
    msi_free(c->beam);
    msi_free(c->values);
    msi_free(c);
}
