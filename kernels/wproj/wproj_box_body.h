/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The transforms of a box in one precision. wproj_box_cpu.c includes this file. */

/* Fold a row of the box into one period, transform it, and store the image's columns in its place. */
static void NAME(transform_row)(msi_wproj_box *s, int64_t r)
{
    int64_t nu = s->plan->grid.nu, nx = s->plan->image.nx;
    CPLX *row = (CPLX *)(void *)s->cells + r * s->stride, *line = (CPLX *)(void *)s->line[omp_get_thread_num()];
    memset(line, 0, sizeof *line * (size_t)nu);
    int64_t at = msi_wproj_wrap(s->u0, nu);
    for (int64_t done = 0, n; done < s->n_u; done += n, at = 0) {
        n = s->n_u - done < nu - at ? s->n_u - done : nu - at;
        for (int64_t i = 0; i < n; i++) {
            line[at + i].re += row[done + i].re;
            line[at + i].im += row[done + i].im;
        }
    }
    msi_fft1d_run(s->fft_u, line);
    memcpy(row, line + nu - nx / 2, sizeof *row * (size_t)(nx / 2));
    memcpy(row + nx / 2, line, sizeof *row * (size_t)(nx - nx / 2));
}

/* Transform a row of model columns, read backwards, and copy it to the cells of the box. This is the transpose of
 * transform_row. */
static void NAME(expand_row)(msi_wproj_box *s, int64_t r)
{
    int64_t nu = s->plan->grid.nu, nx = s->plan->image.nx;
    CPLX *row = (CPLX *)(void *)s->cells + r * s->stride, *line = (CPLX *)(void *)s->line[omp_get_thread_num()];
    memset(line, 0, sizeof *line * (size_t)nu);
    for (int64_t x = 0; x < nx; x++) line[x > nx / 2 ? nu + nx / 2 - x : nx / 2 - x] = row[x];
    msi_fft1d_run(s->fft_u, line);
    int64_t at = msi_wproj_wrap(s->u0, nu);
    for (int64_t done = 0, n; done < s->n_u; done += n, at = 0) {
        n = s->n_u - done < nu - at ? s->n_u - done : nu - at;
        memcpy(row + done, line + at, sizeof *row * (size_t)n);
    }
}

/* Gather columns of the padded grid. Rows of the box that are congruent modulo the grid's size are added. */
static void NAME(gather_columns)(const msi_wproj_box *s, int64_t first, int n_column, char *columns)
{
    CPLX *out = (CPLX *)(void *)columns;
    int64_t nv = s->plan->grid.nv, at = msi_wproj_wrap(s->v0, nv);
    for (int k = 0; k < n_column; k++) memset(out + k * s->column_pitch, 0, sizeof *out * (size_t)nv);
    for (int64_t r = 0; r < s->n_v; r++, at = at + 1 < nv ? at + 1 : 0) {
        if (!s->row_used[r]) continue;
        const CPLX *row = (const CPLX *)(const void *)s->cells + r * s->stride + first;
        for (int k = 0; k < n_column; k++) {
            out[k * s->column_pitch + at].re += row[k].re;
            out[k * s->column_pitch + at].im += row[k].im;
        }
    }
}

/* Scatter columns of the padded grid to the rows of the box. This is the transpose of gather_columns. */
static void NAME(scatter_columns)(msi_wproj_box *s, int64_t first, int n_column, const char *columns)
{
    const CPLX *from = (const CPLX *)(const void *)columns;
    int64_t nv = s->plan->grid.nv, at = msi_wproj_wrap(s->v0, nv);
    for (int64_t r = 0; r < s->n_v; r++, at = at + 1 < nv ? at + 1 : 0) {
        if (!s->row_used[r]) continue;
        CPLX *row = (CPLX *)(void *)s->cells + r * s->stride + first;
        for (int k = 0; k < n_column; k++) row[k] = from[k * s->column_pitch + at];
    }
}

/* Divide a model's column by the taper. Pixels beyond the horizon are zero. */
static void NAME(taper_column)(const msi_wproj_box *s, const void *model, int64_t x, void *out)
{
    const msi_image_geometry *image = &s->plan->image;
    const REAL *from = (const REAL *)model + x;
    REAL *to = out;
    double l = (double)(image->nx / 2 - x) * image->cell_x_rad;
    for (int64_t y = 0; y < image->ny; y++) {
        double m = (double)(y - image->ny / 2) * image->cell_y_rad;
        to[y] = l * l + m * m < 1 ? (REAL)((double)from[y * image->nx] * s->factor_x[x] * s->factor_y[y]) : 0;
    }
}
