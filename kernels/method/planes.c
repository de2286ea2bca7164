/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/method/planes.h"

#include <string.h>

#include "core/image.h"
#include "core/memory.h"
#include "core/status.h"
#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#include "kernels/gpu/gpu_memory.h"
#endif

struct msi_planes {
    msi_planes_shape shape;
    void *pixel;
    int is_view; /* the pixels belong to other planes */
#ifdef MSI_HAVE_CUDA
    msi_gpu_stream on; /* stream NULL on the CPU */
#endif
};

static int on_gpu(const msi_planes *p)
{
    return p->shape.backend == MSI_BACKEND_CUDA;
}

static int64_t plane_bytes(const msi_planes_shape *s)
{
    return s->nx * s->ny * msi_image_pixel_bytes(s->precision);
}

int64_t msi_planes_bytes(const msi_planes_shape *shape)
{
    return shape->n * plane_bytes(shape);
}

/* Allocate zeroed planes in the memory of their backend. */
static int acquire(msi_planes *p)
{
    if (!on_gpu(p)) return msi_alloc_paged(&p->pixel, msi_planes_bytes(&p->shape), 1, "image planes");
#ifdef MSI_HAVE_CUDA
    if (p->shape.device < 0 || p->shape.device >= msi_gpu_count())
        return msi_error_about(
            msi_error_set(MSI_EGPU, "device %d: %s", p->shape.device, msi_gpu_describe(p->shape.device)), "backend");
    MSI_TRY(msi_gpu_stream_create(&p->on, p->shape.device));
    MSI_TRY(msi_gpu_alloc(&p->pixel, &p->on, msi_planes_bytes(&p->shape), "image planes"));
    return msi_gpu_zero(&p->on, p->pixel, msi_planes_bytes(&p->shape));
#else
    return msi_error_about(msi_error_set(MSI_EGPU, "backend cuda: this build has no GPU backend"), "backend");
#endif
}

int msi_planes_create(msi_planes **out, const msi_planes_shape *shape)
{
    *out = NULL;
    if (shape->n < 1 || shape->nx < 1 || shape->ny < 1 || shape->backend == MSI_BACKEND_AUTO)
        return msi_error_set(MSI_EINTERNAL, "planes: invalid shape: %d planes of %lld x %lld pixels on backend %d",
                             shape->n, (long long)shape->nx, (long long)shape->ny, (int)shape->backend);
    msi_planes *p;
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "image planes"));
    p->shape = *shape;
    const int rc = acquire(p);
    if (rc)
        msi_planes_free(p);
    else
        *out = p;
    return rc;
}

void msi_planes_free(msi_planes *p)
{
    if (!p) return;
#ifdef MSI_HAVE_CUDA
    if (on_gpu(p)) {
        if (!p->is_view) msi_gpu_release(p->pixel, &p->on);
        msi_gpu_stream_free(&p->on);
    }
#endif
    if (!on_gpu(p) && !p->is_view) msi_free(p->pixel);
    msi_free(p);
}

const msi_planes_shape *msi_planes_shape_of(const msi_planes *p)
{
    return &p->shape;
}

void *msi_planes_pixel(const msi_planes *p, int plane)
{
    return (char *)p->pixel + plane * plane_bytes(&p->shape);
}

/* Find the first byte and the number of bytes of planes [first, first + n). */
static int find_planes(const msi_planes *p, int first, int n, void **at, int64_t *bytes)
{
    if (first < 0 || n < 0 || n > p->shape.n - first)
        return msi_error_set(MSI_EINTERNAL, "planes %d to %d were requested of %d", first, first + n, p->shape.n);
    *at = msi_planes_pixel(p, first);
    *bytes = n * plane_bytes(&p->shape);
    return MSI_OK;
}

int msi_planes_view(msi_planes **out, msi_planes *of, int first, int n)
{
    void *at = NULL;
    int64_t bytes = 0;
    *out = NULL;
    MSI_TRY(find_planes(of, first, n, &at, &bytes));
    msi_planes *p;
    MSI_TRY(msi_alloc(&p, 1, sizeof *p, "image planes"));
    p->shape = of->shape;
    p->shape.n = n;
    p->pixel = at;
    p->is_view = 1;
    int rc = MSI_OK;
#ifdef MSI_HAVE_CUDA
    if (on_gpu(p)) rc = msi_gpu_stream_create(&p->on, p->shape.device);
#endif
    if (rc)
        msi_planes_free(p);
    else
        *out = p;
    return rc;
}

/* Pixels to be copied or added from other planes. */
typedef struct transit {
    void *to, *from;
    int64_t bytes;
} transit;

/* Check that planes are of the same kind. */
static int check_alike(const msi_planes *p, const msi_planes *from)
{
    const msi_planes_shape *a = &p->shape, *b = &from->shape;
    if (a->nx == b->nx && a->ny == b->ny && a->precision == b->precision && a->backend == b->backend) return MSI_OK;
    return msi_error_set(MSI_EINTERNAL, "planes of %lld x %lld pixels cannot be copied to planes of %lld x %lld",
                         (long long)b->nx, (long long)b->ny, (long long)a->nx, (long long)a->ny);
}

int msi_planes_copy(msi_planes *p, int first, const msi_planes *from, int from_first, int n)
{
    transit t = {0};
    MSI_TRY(check_alike(p, from));
    MSI_TRY(find_planes(from, from_first, n, &t.from, &t.bytes));
    MSI_TRY(find_planes(p, first, n, &t.to, &t.bytes));
#ifdef MSI_HAVE_CUDA
    if (on_gpu(p)) return msi_gpu_peer_copy(&p->on, t.to, t.from, from->shape.device, t.bytes);
#endif
    memcpy(t.to, t.from, (size_t)t.bytes);
    return MSI_OK;
}

/* Add n pixels of other planes to n pixels. */
static int add_pixels(msi_planes *p, void *to, const void *from, int from_device, int64_t n)
{
#ifdef MSI_HAVE_CUDA
    if (on_gpu(p)) return msi_gpu_peer_add(&p->on, to, from, from_device, n, p->shape.precision);
#endif
    (void)from_device;
    if (p->shape.precision == MSI_FP32)
        for (int64_t i = 0; i < n; i++) ((float *)to)[i] += ((const float *)from)[i];
    else
        for (int64_t i = 0; i < n; i++) ((double *)to)[i] += ((const double *)from)[i];
    return MSI_OK;
}

int msi_planes_add(msi_planes *p, int first, const msi_planes *from, int from_first, int n)
{
    transit t = {0};
    MSI_TRY(check_alike(p, from));
    MSI_TRY(find_planes(from, from_first, n, &t.from, &t.bytes));
    MSI_TRY(find_planes(p, first, n, &t.to, &t.bytes));
    return add_pixels(p, t.to, t.from, from->shape.device, n * p->shape.nx * p->shape.ny);
}

/* Find pixels [first, first + n), counted over all planes. */
static int find_pixels(const msi_planes *p, int64_t first, int64_t n, void **at)
{
    const msi_planes_shape *s = &p->shape;
    if (first < 0 || n < 0 || first + n > s->n * s->nx * s->ny)
        return msi_error_set(MSI_EINTERNAL, "pixels %lld to %lld were requested of %d planes of %lld x %lld",
                             (long long)first, (long long)(first + n), s->n, (long long)s->nx, (long long)s->ny);
    *at = (char *)p->pixel + first * msi_image_pixel_bytes(s->precision);
    return MSI_OK;
}

int msi_planes_add_pixels(msi_planes *p, const msi_planes *from, int64_t first, int64_t n)
{
    transit t = {0};
    MSI_TRY(check_alike(p, from));
    MSI_TRY(find_pixels(from, first, n, &t.from));
    MSI_TRY(find_pixels(p, first, n, &t.to));
    return n ? add_pixels(p, t.to, t.from, from->shape.device, n) : MSI_OK;
}

int msi_planes_upload(msi_planes *p, int first, int n, const void *pixel)
{
    void *at = NULL;
    int64_t bytes = 0;
    MSI_TRY(find_planes(p, first, n, &at, &bytes));
#ifdef MSI_HAVE_CUDA
    if (on_gpu(p)) return msi_gpu_upload(&p->on, at, pixel, bytes);
#endif
    memcpy(at, pixel, (size_t)bytes);
    return MSI_OK;
}

int msi_planes_fetch(const msi_planes *p, int first, int n, void *pixel)
{
    void *at = NULL;
    int64_t bytes = 0;
    MSI_TRY(find_planes(p, first, n, &at, &bytes));
#ifdef MSI_HAVE_CUDA
    if (on_gpu(p)) return msi_gpu_download(&p->on, pixel, at, bytes);
#endif
    memcpy(pixel, at, (size_t)bytes);
    return MSI_OK;
}

int msi_planes_fetch_pixels(const msi_planes *p, int64_t first, int64_t n, void *pixel)
{
    const int64_t bytes = n * msi_image_pixel_bytes(p->shape.precision);
    void *at = NULL;
    MSI_TRY(find_pixels(p, first, n, &at));
#ifdef MSI_HAVE_CUDA
    if (on_gpu(p)) return msi_gpu_download(&p->on, pixel, at, bytes);
#endif
    memcpy(pixel, at, (size_t)bytes);
    return MSI_OK;
}

int msi_planes_upload_pixels(msi_planes *p, int64_t first, int64_t n, const void *pixel)
{
    const int64_t bytes = n * msi_image_pixel_bytes(p->shape.precision);
    void *at = NULL;
    MSI_TRY(find_pixels(p, first, n, &at));
#ifdef MSI_HAVE_CUDA
    if (on_gpu(p)) return msi_gpu_upload(&p->on, at, pixel, bytes);
#endif
    memcpy(at, pixel, (size_t)bytes);
    return MSI_OK;
}

int msi_planes_zero(msi_planes *p, int first, int n)
{
    void *at = NULL;
    int64_t bytes = 0;
    MSI_TRY(find_planes(p, first, n, &at, &bytes));
#ifdef MSI_HAVE_CUDA
    if (on_gpu(p)) return msi_gpu_zero(&p->on, at, bytes);
#endif
    memset(at, 0, (size_t)bytes);
    return MSI_OK;
}
