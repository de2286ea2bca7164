/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Real image planes in the memory of a backend. The residual, model and point spread function of a deconvolution stay
 * in GPU memory between calls, or in host memory on the CPU. They are copied to the host only to be written to files.
 * Every function that writes planes, here and elsewhere, returns after they are written, so readers on any stream need
 * not synchronise.
 */
#ifndef MSI_KERNELS_PLANES_H
#define MSI_KERNELS_PLANES_H

#include <stdint.h>

#include "core/types.h"
#include "kernels/method/gridder_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct msi_planes msi_planes;

/* The shape of planes: n of [ny][nx] pixels, float or double, in the memory of a backend. */
typedef struct msi_planes_shape {
    int64_t nx, ny;
    int n;
    msi_precision precision;
    msi_backend backend; /* MSI_BACKEND_CPU or MSI_BACKEND_CUDA */
    int device;          /* the GPU's CUDA ordinal; 0 on the CPU */
} msi_planes_shape;

/*
 * msi_planes_create - make planes, all zero.
 * Returned: *out, owned by the caller, freed by msi_planes_free; NULL after a failure
 * Returns:  0, MSI_ENOMEM, MSI_EGPU (no such device, not enough memory there, or a build without CUDA), MSI_EINTERNAL
 *           (a shape without pixels or backend)
 */
int msi_planes_create(msi_planes **out, const msi_planes_shape *shape);

/*
 * msi_planes_view - make planes that refer to some of other planes, such as a polarisation of a channel.
 * Given:    of  borrowed for the life of *out, which shares its pixels
 * Returned: *out, owned by the caller, freed by msi_planes_free; NULL after a failure
 * Returns:  0, MSI_ENOMEM, MSI_EGPU, MSI_EINTERNAL (planes out of range)
 */
int msi_planes_view(msi_planes **out, msi_planes *of, int first, int n);

/* msi_planes_free - NULL-safe. */
void msi_planes_free(msi_planes *p);

/* msi_planes_shape_of - return the shape that planes were made with. Borrowed. */
const msi_planes_shape *msi_planes_shape_of(const msi_planes *p);

/* msi_planes_bytes - return the bytes of all planes of a shape, in the memory of its backend. */
int64_t msi_planes_bytes(const msi_planes_shape *shape);

/*
 * msi_planes_pixel - return the address of a plane's pixels [ny][nx], for kernels of the backend. Planes follow each
 * other.
 * Returns: an address in host memory, or in that of the device. Borrowed
 */
void *msi_planes_pixel(const msi_planes *p, int plane);

/*
 * msi_planes_upload - copy planes [first, first + n) from host memory; msi_planes_fetch - copy them to host memory.
 * Given, returned: pixel [n][ny][nx] of the planes' precision
 * Returns: 0, MSI_EGPU, MSI_EINTERNAL (planes out of range)
 */
int msi_planes_upload(msi_planes *p, int first, int n, const void *pixel);
int msi_planes_fetch(const msi_planes *p, int first, int n, void *pixel);

/*
 * msi_planes_copy - copy planes [from_first, from_first + n) of `from` to planes [first, first + n) of p;
 * msi_planes_add - add them.
 * Given:   from  planes of the same number of pixels, precision and backend, on any device; not overlapping those of p
 * Returns: 0, MSI_EGPU, MSI_EINTERNAL (planes out of range, or of another kind)
 */
int msi_planes_copy(msi_planes *p, int first, const msi_planes *from, int from_first, int n);
int msi_planes_add(msi_planes *p, int first, const msi_planes *from, int from_first, int n);

/*
 * msi_planes_add_pixels, msi_planes_fetch_pixels, msi_planes_upload_pixels - the same for pixels [first, first + n) of
 * all planes, [n][ny][nx].
 * Given, returned: pixel [n] of the planes' precision
 * Returns:  0, MSI_EGPU, MSI_EINTERNAL (pixels out of range)
 */
int msi_planes_add_pixels(msi_planes *p, const msi_planes *from, int64_t first, int64_t n);
int msi_planes_fetch_pixels(const msi_planes *p, int64_t first, int64_t n, void *pixel);
int msi_planes_upload_pixels(msi_planes *p, int64_t first, int64_t n, const void *pixel);

/* msi_planes_zero - set planes [first, first + n) to zero. Returns: 0, MSI_EGPU, MSI_EINTERNAL */
int msi_planes_zero(msi_planes *p, int first, int n);

#ifdef __cplusplus
}
#endif
#endif
