/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/casa_image.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_limit.h"
#include "io/ms/ms_metadata.h"
#include "io/ms/ms_paths.h"

/* The shared memory that the reader process fills. */
typedef struct answer {
    msi_casa_image image; /* without pixels */
    float pixel[];        /* [n_plane][ny][nx] */
} answer;

/* Most pixels that a byte of a file may have: a mask has one bit for each pixel. */
enum { PIXELS_OF_BYTE = 8 };

/* The arguments of the reader process. */
typedef struct job {
    const char *path;
    int64_t most_pixel;
} job;

/* Largest accepted number of pixels; their bytes do not overflow. */
static const int64_t MOST_PIXEL = (int64_t)1 << 40;

/* ---- The process that reads ---- */

static int describe(ccc_table *t, const char *path, msi_casa_image *image)
{
    ccc_image_axes a;
    int64_t shape[CCC_MAX_DIM];
    int ndim;
    MSI_CCC(ccc_image_direction(t, &a));
    if (!ccc_table_has_column(t, "map") || ccc_table_n_row(t) != 1)
        return msi_error_set(MSI_EINPUT, "%s: not a CASA image: the table has no column map with one row of pixels",
                             path);
    MSI_CCC(ccc_cell_shape(t, "map", 0, &ndim, shape));
    *image = (msi_casa_image){.lonpole_deg = a.lonpole_deg, .latpole_deg = a.latpole_deg, .n_parameter = a.n_parameter};
    memcpy(image->system, a.system, sizeof image->system);
    memcpy(image->projection, a.projection, sizeof image->projection);
    memcpy(image->crval_deg, a.crval_deg, sizeof image->crval_deg);
    memcpy(image->cdelt_deg, a.cdelt_deg, sizeof image->cdelt_deg);
    memcpy(image->crpix, a.crpix, sizeof image->crpix);
    memcpy(image->pc, a.pc, sizeof image->pc);
    memcpy(image->parameter, a.parameter, sizeof image->parameter);
    image->nx = ndim > 1 ? shape[0] : 0;
    image->ny = ndim > 1 ? shape[1] : 0;
    image->n_plane = 1;
    for (int i = 2; i < ndim; i++) image->n_plane *= shape[i];
    return MSI_OK;
}

/* Check the axes of an image, which may be damaged. */
static int check_size(const msi_casa_image *i, const job *j)
{
    if (i->nx < 1 || i->ny < 1 || i->n_plane < 1 || i->n_parameter < 0 || i->n_parameter > MSI_CASA_PARAMETERS ||
        i->nx > MOST_PIXEL / i->ny || i->nx * i->ny > MOST_PIXEL / i->n_plane)
        return msi_error_set(MSI_EINPUT, "%s: invalid image size: %lld x %lld pixels in %lld planes", j->path,
                             (long long)i->nx, (long long)i->ny, (long long)i->n_plane);
    if (i->nx * i->ny * i->n_plane <= j->most_pixel) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "%s: truncated or corrupt: its files are too small for %lld x %lld pixels in %lld "
                         "planes",
                         j->path, (long long)i->nx, (long long)i->ny, (long long)i->n_plane);
}

/* Read a plane of the first two axes. */
static int read_plane(ccc_table *t, const msi_casa_image *image, int64_t plane, float *pixel)
{
    int64_t shape[CCC_MAX_DIM];
    int ndim;
    MSI_CCC(ccc_cell_shape(t, "map", 0, &ndim, shape));
    ccc_slice slice = {.ndim = ndim, .count = {image->nx, image->ny}, .stride = {1, 1}};
    for (int i = 2; i < ndim; i++, plane /= shape[i - 1]) {
        slice.start[i] = plane % shape[i];
        slice.count[i] = slice.stride[i] = 1;
    }
    msi_child_progress(MSI_CHILD_STEP_S);
    MSI_CCC(ccc_get_range(t, "map", 0, 1, &slice, CCC_FLOAT, pixel, image->nx * image->ny));
    return MSI_OK;
}

static int read_image(msi_child *self, void *of)
{
    const job *j = of;
    answer *a = msi_child_shared(self);
    ccc_table *t;
    msi_ms_child_begin();
    msi_ms_limit_memory(&j->path, 1);
    /* A mask has one bit per pixel in its file, but a byte per pixel in memory. */
    msi_ms_limit_lift();
    MSI_CCC(ccc_table_open(&t, j->path, CCC_READ, CCC_LOCK_NONE));
    MSI_TRY(describe(t, j->path, &a->image));
    MSI_TRY(check_size(&a->image, j));
    const int64_t n = a->image.nx * a->image.ny;
    for (int64_t i = 0; i < a->image.n_plane; i++) MSI_TRY(read_plane(t, &a->image, i, a->pixel + i * n));
    return MSI_OK;
}

/* ---- The caller ---- */

/* Copy and check an image: a damaged file may have corrupted the process that read it. */
static int take_image(const answer *a, const job *j, msi_casa_image *image)
{
    *image = a->image;
    image->pixel = NULL;
    image->system[sizeof image->system - 1] = image->projection[sizeof image->projection - 1] = 0;
    MSI_TRY(check_size(image, j));
    const int64_t n = image->nx * image->ny * image->n_plane;
    MSI_TRY(msi_alloc(&image->pixel, n, sizeof *image->pixel, "an image"));
    memcpy(image->pixel, a->pixel, (size_t)n * sizeof *image->pixel);
    return MSI_OK;
}

int msi_casa_image_read(msi_casa_image *image, const char *path)
{
    msi_child *child;
    const int64_t bytes = msi_ms_paths_bytes(&path, 1);
    job of = {path, PIXELS_OF_BYTE * (bytes < MOST_PIXEL ? bytes : MOST_PIXEL)};
    msi_child_spec spec = {.work = read_image,
                           .of = &of,
                           .what = "the reader process",
                           .path = path,
                           .shared_bytes = (int64_t)sizeof(answer) + of.most_pixel * (int64_t)sizeof(float),
                           .cpu_s = MSI_CHILD_STEP_S};
    *image = (msi_casa_image){0};
    int rc = msi_child_start(&child, &spec);
    /* Only a mask has as many pixels as its files have bits. If the address space is limited, allocate for floats
     * instead. */
    while (rc == MSI_ENOMEM && of.most_pixel > bytes / 4) {
        of.most_pixel /= 2;
        spec.shared_bytes = (int64_t)sizeof(answer) + of.most_pixel * (int64_t)sizeof(float);
        rc = msi_child_start(&child, &spec);
    }
    MSI_TRY(rc);
    rc = msi_child_await_done(child, MSI_EINPUT);
    if (!rc) rc = take_image(msi_child_shared(child), &of, image);
    msi_child_free(child);
    if (rc) msi_casa_image_free(image);
    return rc;
}

void msi_casa_image_free(msi_casa_image *image)
{
    if (!image) return;
    msi_free(image->pixel);
    *image = (msi_casa_image){0};
}
