/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Model images to planes of the uv grid on the CPU: the transpose of image_sum_cpu.h. A plane's transform is two passes
 * of one-dimensional ones: columns of the model that hold something, then only rows that are wanted. Where every plane
 * of every image stays, each has all its columns from the start, and a row is transformed when it is first wanted.
 */
#ifndef MSI_KERNELS_MODEL_PLANES_CPU_H
#define MSI_KERNELS_MODEL_PLANES_CPU_H

#include "core/image.h"
#include "kernels/wgrid/wgrid_planes_cpu.h"
#include "kernels/transform/taper_correction.h"

/* A ring of planes that are made of a model, or all of them, with the image that they are made of. */
typedef struct msi_model_planes {
    msi_wgrid_planes planes; /* row_used: rows that are transformed */
    int keeps;               /* all planes of all images: that of image i and plane p is number i n_w_plane + p */
    int n_image;
    int64_t n_w_plane;
    uint8_t *column_used; /* [n_image][nx] the model's column holds something */
    uint8_t *image_used;  /* [n_image] */
    void *value;          /* [nx][ny] float or double: an image over the windows' transforms, transposed */
    uint8_t *wanted;      /* [n_row] rows of the plane at hand that are to be transformed, set by the user */
    msi_taper taper;
} msi_model_planes;

/*
 * msi_model_planes_create - allocate for n_w_plane w-planes of each image, of which n_resident are in memory at once.
 * Given:   plan   borrowed; keeps  all planes of all images are in memory, whatever n_resident
 * Returns: 0, MSI_ENOMEM; freed by msi_model_planes_free either way
 */
int msi_model_planes_create(msi_model_planes *m, const msi_wgrid_plan *plan, int n_image, int64_t n_w_plane,
                            int64_t n_resident, int keeps);
void msi_model_planes_free(msi_model_planes *m);

/* msi_model_planes_take - take an image of the model to make planes of: windows divided out, 0 beyond the horizon. */
void msi_model_planes_take(msi_model_planes *m, const msi_image *model, int image);

/* msi_model_planes_forget_model - free what planes are filled from, once all of them are. */
void msi_model_planes_forget_model(msi_model_planes *m);

/*
 * msi_model_planes_fill - screen the columns of the image taken last for a plane's w, and transform them.
 * Given: wanted  write into the rows of m->wanted alone, else into all
 */
void msi_model_planes_fill(msi_model_planes *m, int image, int64_t plane, double w_lambda, int wanted);

/* msi_model_planes_finish - transform the rows of m->wanted that are not yet; guards are copies of the other end. */
void msi_model_planes_finish(msi_model_planes *m, int image, int64_t plane);

/* msi_model_planes_request_guards - add to m->wanted, for guard rows there, the rows that they are copies of. */
void msi_model_planes_request_guards(msi_model_planes *m);

/* msi_model_plane_number - return the number of an image's w-plane in m->planes.plane. */
static inline int64_t msi_model_plane_number(const msi_model_planes *m, int image, int64_t plane)
{
    return m->keeps ? image * m->n_w_plane + plane : plane % m->planes.n_resident;
}

#endif
