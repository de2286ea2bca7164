/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/ms/casa_image.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/ms/ms_child.h"
#include "io/ms/ms_metadata.h"

/* The first message of the process. The pixels follow in pieces. */
typedef struct reply {
    int status;
    char message[MSI_MESSAGE_BYTES];
    msi_casa_image image; /* without pixels */
} reply;

enum { PIECE = 1 << 13 };

typedef struct piece {
    float pixel[PIECE];
} piece;

/* Limit of pixels: no image has more, and the number of bytes does not overflow. */
static const int64_t MOST_PIXEL = (int64_t)1 << 40;

/* ---- The process that reads ---- */

static int describe(ccc_table *t, const char *path, msi_casa_image *image)
{
    ccc_image_axes a;
    int64_t shape[CCC_MAX_DIM];
    int ndim;
    MSI_CCC(ccc_image_direction(t, &a));
    if (!ccc_table_has_column(t, "map") || ccc_table_n_row(t) != 1)
        return msi_error_set(MSI_EINPUT, "%s: no CASA image: the table has no column map of one row with the pixels",
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

/* Send rows of pixels as they are read. The axes beyond the first two are passed through one plane at a time. */
static int send_plane(ccc_table *t, const msi_child *parent, const msi_casa_image *image, int64_t plane)
{
    static piece p;
    int64_t shape[CCC_MAX_DIM];
    int ndim;
    const int64_t n = image->nx * image->ny;
    float *pixel;
    MSI_CCC(ccc_cell_shape(t, "map", 0, &ndim, shape));
    ccc_slice slice = {.ndim = ndim, .count = {image->nx, image->ny}, .stride = {1, 1}};
    for (int i = 2; i < ndim; i++, plane /= shape[i - 1]) {
        slice.start[i] = plane % shape[i];
        slice.count[i] = slice.stride[i] = 1;
    }
    MSI_TRY(msi_alloc(&pixel, n, sizeof *pixel, "an image"));
    int rc = MSI_OK;
    if (ccc_get_range(t, "map", 0, 1, &slice, CCC_FLOAT, pixel, n) != CCC_OK) rc = msi_ms_failed(CCC_EFAILED);
    /* Pieces have a fixed size. The last one is padded with zeros. */
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t left = n - at < PIECE ? n - at : PIECE;
        memset(&p, 0, sizeof p);
        if (!rc) memcpy(p.pixel, pixel + at, (size_t)left * sizeof *pixel);
        if (rc || msi_child_send(parent, &p, sizeof p) != 0) break;
        msi_child_progress(MSI_CHILD_STEP_S);
    }
    msi_free(pixel);
    return rc;
}

static _Noreturn void read_image(const msi_child *parent, const char *path)
{
    static reply r;
    ccc_table *t;
    msi_ms_limit_memory(&path, 1);
    /* A mask has one bit per pixel in its file, and a byte per pixel here. */
    msi_ms_limit_lift();
    msi_child_watch();
    msi_child_progress(MSI_CHILD_STEP_S);
    r.status = ccc_table_open(&t, path, CCC_READ, CCC_LOCK_NONE) == CCC_OK ? MSI_OK : msi_ms_failed(CCC_EFAILED);
    if (!r.status) r.status = describe(t, path, &r.image);
    if (r.status) snprintf(r.message, sizeof r.message, "%s", msi_error_get());
    msi_child_send(parent, &r, sizeof r);
    /* If pixels cannot be read, the last message reports it. */
    for (int64_t i = 0; !r.status && i < r.image.n_plane; i++) r.status = send_plane(t, parent, &r.image, i);
    _exit(0);
}

/* ---- The caller ---- */

static int explain_end(const msi_child *child, const char *path)
{
    char why[256];
    if (msi_child_refused(child, why, sizeof why))
        return msi_error_set(MSI_ENOMEM, "%s: the reader process ended: %s", path, why);
    return msi_error_set(MSI_EINPUT, "%s: truncated or corrupt: the reader process ended while it read the image",
                         path);
}

/* Check the message: a damaged image may have damaged the process. */
static int check_reply(reply *r, const char *path)
{
    msi_casa_image *i = &r->image;
    r->message[sizeof r->message - 1] = 0;
    if (r->status) return msi_error_set(r->status == MSI_ENOMEM ? MSI_ENOMEM : MSI_EINPUT, "%s", r->message);
    i->system[sizeof i->system - 1] = i->projection[sizeof i->projection - 1] = 0;
    i->pixel = NULL;
    if (i->nx < 1 || i->ny < 1 || i->n_plane < 1 || i->n_parameter < 0 || i->n_parameter > MSI_CASA_PARAMETERS ||
        i->nx > MOST_PIXEL / i->ny || i->nx * i->ny > MOST_PIXEL / i->n_plane)
        return msi_error_set(MSI_EINPUT, "%s: invalid image size: %lld x %lld pixels in %lld planes", path,
                             (long long)i->nx, (long long)i->ny, (long long)i->n_plane);
    return MSI_OK;
}

static int take_plane(const msi_child *child, const char *path, int64_t n, float *pixel)
{
    static piece p;
    int got;
    for (int64_t at = 0; at < n; at += PIECE) {
        const int64_t left = n - at < PIECE ? n - at : PIECE;
        MSI_TRY(msi_child_await(child, 1, &p, sizeof p, &got));
        if (got < 0) return explain_end(child, path);
        memcpy(pixel + at, p.pixel, (size_t)left * sizeof *pixel);
    }
    return MSI_OK;
}

static int take_image(const msi_child *child, const char *path, msi_casa_image *image)
{
    static reply r;
    int got;
    MSI_TRY(msi_child_await(child, 1, &r, sizeof r, &got));
    if (got < 0) return explain_end(child, path);
    MSI_TRY(check_reply(&r, path));
    *image = r.image;
    const int64_t n = image->nx * image->ny;
    MSI_TRY(msi_alloc(&image->pixel, n * image->n_plane, sizeof *image->pixel, "an image"));
    for (int64_t i = 0; i < image->n_plane; i++) MSI_TRY(take_plane(child, path, n, image->pixel + i * n));
    return MSI_OK;
}

int msi_casa_image_read(msi_casa_image *image, const char *path)
{
    msi_child child;
    int is_child;
    *image = (msi_casa_image){0};
    const pid_t self = getpid();
    int rc = msi_child_fork(&child, "to read with", &is_child);
    if (!rc && is_child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self) _exit(1);
        read_image(&child, path);
    }
    if (!rc) rc = take_image(&child, path, image);
    msi_child_close(&child);
    if (child.pid > 0) {
        kill(child.pid, SIGKILL);
        msi_child_wait(&child);
    }
    if (rc) msi_casa_image_free(image);
    return rc;
}

void msi_casa_image_free(msi_casa_image *image)
{
    if (!image) return;
    msi_free(image->pixel);
    *image = (msi_casa_image){0};
}
