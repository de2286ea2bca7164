/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The library's gridder. It checks and translates a specification, and passes samples, images and predictions between
 * the caller's convention and that of the kernels' gridder (library_gridder.h), in host memory or on the GPU. Samples
 * are converted in library_samples.c and library_gpu.cu. All functions of msimage/gridder.h are in this file.
 */
#include "lib/library_gridder.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "core/process.h"
#include "core/memory.h"
#include "core/status.h"

/* ---- Pixels ----------------------------------------------------------------------------------------------------- */

/* Return the number of pixels of a plane. */
static int64_t count_pixels(const msimage_gridder *g)
{
    return g->geometry.nx * g->geometry.ny;
}

/* Return the bytes of n_plane images in the caller's precision. */
static int64_t image_bytes(const msimage_gridder *g, int n_plane)
{
    return n_plane * count_pixels(g) * (g->spec.precision == MSIMAGE_FP32 ? 4 : 8);
}

/* Return the bytes of n_plane images in the precision of the work. */
static int64_t work_bytes(const msimage_gridder *g, int n_plane)
{
    return n_plane * count_pixels(g) * msi_image_pixel_bytes(g->precision);
}

/* Return n^2 = 1 - l^2 - m^2 at pixel x of row y, which is positive inside the horizon; 1 if the horizon does not
 * matter: w is ignored, or pixels beyond the horizon have values. */
static double one_minus_r2(const msimage_gridder *g, int64_t x, int64_t y)
{
    const msi_image_geometry *i = &g->geometry;
    if (g->spec.ignores_w || msi_library_goes_beyond(g)) return 1;
    const double l = g->l_rad + (double)(i->nx / 2 - x) * i->cell_x_rad,
                 m = g->m_rad + (double)(y - i->ny / 2) * i->cell_y_rad;
    return 1 - l * l - m * m;
}

static double get_pixel(const void *pixel, int is_fp32, int64_t i)
{
    return is_fp32 ? (double)((const float *)pixel)[i] : ((const double *)pixel)[i];
}

static void put_pixel(void *pixel, int is_fp32, int64_t i, double value)
{
    if (is_fp32)
        ((float *)pixel)[i] = (float)value;
    else
        ((double *)pixel)[i] = value;
}

/*
 * Convert a model for the kernels: to the precision of the work, and divided by n if requested.
 * Given:    scale  factor
 * Returned: model  [n_plane] images; is_nan [n_plane] 1 if an image had values that are not finite; these are set to 0
 * Returns:  the largest absolute value
 */
static double convert_model(const msimage_gridder *g, const void *from, double scale, void *model, int *is_nan)
{
    const int64_t nx = g->geometry.nx, ny = g->geometry.ny;
    const int from_fp32 = g->spec.precision == MSIMAGE_FP32, to_fp32 = g->precision == MSI_FP32;
    double largest = 0;
    for (int p = 0; p < g->n_plane; p++) {
        int bad = 0;
#pragma omp parallel for schedule(static) reduction(| : bad) reduction(max : largest) num_threads(g->n_thread)
        for (int64_t y = 0; y < ny; y++)
            for (int64_t x = 0; x < nx; x++) {
                const int64_t i = (p * ny + y) * nx + x;
                const double n2 = one_minus_r2(g, x, y);
                double value = n2 > 0 ? get_pixel(from, from_fp32, i) * scale : 0;
                if (!isfinite(value)) {
                    bad = 1;
                    value = 0;
                }
                largest = fmax(largest, fabs(value));
                put_pixel(model, to_fp32, i, g->spec.divides_by_n && n2 > 0 ? value / sqrt(n2) : value);
            }
        is_nan[p] = bad;
    }
    return largest;
}

/* Refuse values that are all denormal in single precision, unless all are 0: images and visibilities computed from them
 * would lose digits. */
static int check_digits(const msimage_gridder *g, const char *name, double largest)
{
    if (g->spec.precision != MSIMAGE_FP32 || largest == 0 || largest >= FLT_MIN) return MSI_OK;
    return msi_error_set(
        MSI_ERANGE,
        "%s: the largest value is %g, and values below %g have few digits in single precision; multiply "
        "all by a constant, or give them in double precision",
        name, largest, (double)FLT_MIN);
}

/*
 * Convert images to the caller's convention.
 * Given: from  [n_plane] images in the precision of the work, divided by the sums of weights; sum_weight [n_plane]
 */
static void convert_pixels(const msimage_gridder *g, const void *from, const double *sum_weight, int n_plane, void *to)
{
    const int64_t nx = g->geometry.nx, ny = g->geometry.ny;
    const int from_fp32 = g->precision == MSI_FP32, to_fp32 = g->spec.precision == MSIMAGE_FP32;
    for (int p = 0; p < n_plane; p++) {
        const double factor = g->is_xy ? sum_weight[p] : 1;
#pragma omp parallel for schedule(static) num_threads(g->n_thread)
        for (int64_t y = 0; y < ny; y++)
            for (int64_t x = 0; x < nx; x++) {
                const int64_t i = (p * ny + y) * nx + x;
                const double n2 = one_minus_r2(g, x, y), value = get_pixel(from, from_fp32, i) * factor;
                /* Gridders set pixels beyond the horizon to NaN. They may round a pixel at it to the other side. */
                const int is_void = g->is_xy && (!(n2 > 0) || isnan(value) || factor == 0);
                put_pixel(to, to_fp32, i, is_void ? 0 : g->spec.divides_by_n && n2 > 0 ? value / sqrt(n2) : value);
            }
    }
}

/* ---- Creation --------------------------------------------------------------------------------------------------- */

/* Half the diagonal, in radians, of a field in which n is 1 to the last bit. */
static const double FLAT_RAD = 1e-9;

static int check_spec(const msimage_gridder_spec *s)
{
    if (s->task < MSIMAGE_IMAGE || s->task > MSIMAGE_PREDICT || s->convention < MSIMAGE_SKY ||
        s->convention > MSIMAGE_XY || s->precision < MSIMAGE_FP32 || s->precision > MSIMAGE_FP64 ||
        s->backend < MSIMAGE_AUTO || s->backend > MSIMAGE_CUDA)
        return msi_error_set(MSI_EARGUMENT, "spec: invalid task %d, convention %d, precision %d or backend %d",
                             (int)s->task, (int)s->convention, (int)s->precision, (int)s->backend);
    /* A pixel of 2 direction cosines is the whole sky. If w is ignored, coordinates may have any unit. */
    const double most = s->ignores_w ? DBL_MAX : 2;
    if (!(s->cell_x_rad > 0 && s->cell_x_rad <= most && s->cell_y_rad > 0 && s->cell_y_rad <= most))
        return msi_error_set(MSI_ERANGE, "cell_x_rad and cell_y_rad must be positive and at most %g, got %g, %g", most,
                             s->cell_x_rad, s->cell_y_rad);
    if (!isfinite(s->center_x_rad) || !isfinite(s->center_y_rad))
        return msi_error_set(MSI_ERANGE, "center_x_rad and center_y_rad must be finite, got %g, %g", s->center_x_rad,
                             s->center_y_rad);
    if (s->nx < 2 || s->ny < 2 || s->nx % 2 || s->ny % 2)
        return msi_error_set(MSI_ERANGE, "nx and ny must be even and at least 2, got %lld, %lld", (long long)s->nx,
                             (long long)s->ny);
    if (s->store_bytes && !s->temp_dir)
        return msi_error_set(MSI_EARGUMENT,
                             "temp_dir must be given with store_bytes: samples beyond it are stored there");
    return msi_library_check_threads(s->n_thread);
}

/* Translate the geometry to the kernels' axes, as library_gridder.h describes. */
static void translate_geometry(msimage_gridder *g)
{
    const msimage_gridder_spec *s = &g->spec;
    g->geometry = g->is_xy ? (msi_image_geometry){s->ny, s->nx, s->cell_y_rad, s->cell_x_rad}
                           : (msi_image_geometry){s->nx, s->ny, s->cell_x_rad, s->cell_y_rad};
    g->l_rad = g->is_xy ? -s->center_y_rad : s->center_x_rad;
    g->m_rad = g->is_xy ? s->center_x_rad : s->center_y_rad;
    g->scale = 1;
    if (!s->ignores_w) return;
    int exponent;
    frexp(hypot((double)s->nx * s->cell_x_rad, (double)s->ny * s->cell_y_rad) / FLAT_RAD, &exponent);
    g->scale = ldexp(1, -exponent);
    g->geometry.cell_x_rad *= g->scale;
    g->geometry.cell_y_rad *= g->scale;
}

static msi_gridder_spec inner_spec(const msimage_gridder *g)
{
    const msimage_gridder_spec *s = &g->spec;
    const int in_double = s->precision == MSIMAGE_FP64 || s->sums_in_double;
    return (msi_gridder_spec){.geometry = g->geometry,
                              .l_center_rad = s->ignores_w ? 0 : g->l_rad,
                              .m_center_rad = s->ignores_w ? 0 : g->m_rad,
                              .goes_beyond = msi_library_goes_beyond(g),
                              .n_plane = g->n_plane,
                              .predict = s->task == MSIMAGE_PREDICT,
                              /* For callers whose arrays are on the GPU, images are made through planes, which stay
                               * there. */
                              .residual = s->task == MSIMAGE_RESIDUAL ||
                                          (s->task == MSIMAGE_IMAGE && msi_library_may_use_gpu(s->backend)),
                              .strategy = s->strategy,
                              .accuracy = s->accuracy,
                              .precision = in_double ? MSI_PRECISION_FP64 : MSI_PRECISION_FP32,
                              .backend = msi_library_backend(s->backend),
                              .least_padding = s->least_padding,
                              .device = s->device,
                              .n_thread = s->n_thread,
                              .memory_bytes = s->memory_bytes,
                              .store_bytes = s->store_bytes,
                              .temp_dir = s->temp_dir};
}

static msi_library_call call_of(const msimage_gridder *g, const char *stage)
{
    return (msi_library_call){
        .callbacks = &g->callbacks, .n_thread = g->n_thread, .uses_gpu = g->gpu != NULL, .stage = stage};
}

/* Choose backend and stream. */
static int find_place(msimage_gridder *g)
{
    msi_gridder_report r;
    msi_gridder_report_get(g->inner, &r);
    g->place = (msi_array_place){r.backend == MSI_BACKEND_CUDA, g->spec.stream};
#ifdef MSI_HAVE_CUDA
    if (g->place.on_gpu) return msi_library_gpu_create(&g->gpu, g->spec.device);
#endif
    return MSI_OK;
}

int msimage_gridder_create(msimage_gridder **out, const msimage_gridder_spec *spec, const msimage_callbacks *callbacks)
{
    *out = NULL;
    msimage_gridder_spec s;
    MSI_TRY(msi_library_spec(&s, spec, spec->struct_bytes, sizeof s));
    MSI_TRY(check_spec(&s));
    msimage_gridder *g;
    MSI_TRY(msi_alloc(&g, 1, sizeof *g, "gridder"));
    g->spec = s;
    if (callbacks) g->callbacks = *callbacks;
    g->n_plane = s.n_plane ? s.n_plane : 1;
    g->n_thread = msi_library_threads(s.n_thread);
    g->is_xy = s.convention == MSIMAGE_XY;
    g->folds = g->is_xy && s.task == MSIMAGE_IMAGE;
    g->spec.divides_by_n = s.divides_by_n && !s.ignores_w;
    g->samples.w_min_lambda = HUGE_VAL;
    translate_geometry(g);
    const msi_gridder_spec inner = inner_spec(g);
    msi_library_call begun = call_of(g, NULL);
    begun.uses_gpu = msi_library_may_use_gpu(s.backend);
    int rc = msi_library_begin(&begun);
    if (!rc) rc = msi_gridder_create(&g->inner, &inner);
    if (!rc) rc = find_place(g);
    if (!msi_library_end(&begun, rc)) {
        g->precision = msi_gridder_precision(g->inner);
        g->spec.strategy = g->spec.temp_dir = NULL;
        *out = g;
    } else {
        msimage_gridder_free(g);
    }
    return rc;
}

void msimage_gridder_free(msimage_gridder *g)
{
    if (!g) return;
#ifdef MSI_HAVE_CUDA
    const int device_before = g->gpu ? msi_library_gpu_device() : -1;
    msi_library_gpu_free(g->gpu);
#endif
    msi_gridder_free(g->inner);
    msi_planes_free(g->model);
    msi_planes_free(g->residual);
    msi_planes_free(g->psf);
    msi_planes_free(g->gpu_dirty);
    msi_free(g->dirty);
    msi_library_buffers_free(&g->buffers);
    msi_free(g);
#ifdef MSI_HAVE_CUDA
    if (device_before >= 0) msi_library_gpu_trim();
    msi_library_gpu_device_set(device_before);
#endif
}

/* ---- Samples ---------------------------------------------------------------------------------------------------- */

enum { N_SAMPLE_ARRAY = 5 };

static void free_sample_arrays(msi_host_array *a)
{
    for (int i = 0; i < N_SAMPLE_ARRAY; i++) msi_host_array_end(&a[i]);
}

/* Get the arrays of samples in host memory. Returned: *to  whose arrays are in a [N_SAMPLE_ARRAY], freed by
 * free_sample_arrays. */
static int read_sample_arrays(const msimage_gridder *g, const msimage_samples *s, msi_host_array *a,
                              msimage_samples *to)
{
    const int64_t n = s->n_row * s->n_chan, real = g->spec.precision == MSIMAGE_FP32 ? 4 : 8;
    const int is_read = g->spec.task != MSIMAGE_PREDICT;
    memset(a, 0, N_SAMPLE_ARRAY * sizeof *a);
    MSI_TRY(msi_host_array_read(&a[0], &g->place, s->uvw_m, s->n_row * 3 * (int64_t)sizeof(double)));
    MSI_TRY(msi_host_array_read(&a[1], &g->place, s->freq_hz, s->n_chan * (int64_t)sizeof(double)));
    MSI_TRY(msi_host_array_read(&a[2], &g->place, is_read ? s->vis : NULL, g->n_plane * n * 2 * real));
    MSI_TRY(msi_host_array_read(&a[3], &g->place, s->weight, g->n_plane * n * real));
    MSI_TRY(msi_host_array_read(&a[4], &g->place, s->mask, n));
    *to = (msimage_samples){s->n_row, s->n_chan, a[0].at, a[1].at, a[2].at, a[3].at, a[4].at};
    return MSI_OK;
}

/* Free the image of the visibilities, which is kept for the Hessian. */
static void free_dirty(msimage_gridder *g)
{
    msi_free(g->dirty);
    msi_planes_free(g->gpu_dirty);
    g->dirty = NULL;
    g->gpu_dirty = NULL;
}

/* Add samples on the GPU, if they fit into its memory. Given: freq_hz  in host memory. Returned: *is_taken */
static int add_on_gpu(msimage_gridder *g, const msimage_samples *samples, const double *freq_hz, int *is_taken)
{
    *is_taken = 0;
#ifdef MSI_HAVE_CUDA
    msimage_samples s = *samples;
    s.freq_hz = freq_hz;
    if (!g->gpu || g->is_on_host || g->is_weighted || g->n_plane != 1 || g->spec.store_bytes || !s.n_row || !s.n_chan ||
        s.n_chan > MSI_STORE_MAX_CHAN)
        return MSI_OK;
    MSI_TRY(msi_library_gpu_enter(g->gpu, g->spec.stream));
    return msi_library_gpu_add(g, &s, is_taken);
#else
    (void)g;
    (void)samples;
    (void)freq_hz;
    return MSI_OK;
#endif
}

static int add_samples(msimage_gridder *g, const msimage_samples *samples, const double *freq_hz)
{
    msi_host_array a[N_SAMPLE_ARRAY] = {{0}};
    msimage_samples s;
    int is_taken;
    MSI_TRY(msi_library_check(samples, freq_hz));
    MSI_TRY(add_on_gpu(g, samples, freq_hz, &is_taken));
    if (is_taken) return MSI_OK;
    g->is_on_host |= samples->n_row && samples->n_chan;
    int rc = read_sample_arrays(g, samples, a, &s);
    if (!rc) rc = msi_library_add(g, &s);
    free_sample_arrays(a);
    return rc;
}

int msimage_gridder_add(msimage_gridder *g, const msimage_samples *samples)
{
    msi_host_array freq = {0};
    msi_library_call begun = call_of(g, "samples");
    int rc = msi_library_begin(&begun);
    free_dirty(g);
    if (!rc) rc = msi_host_array_read(&freq, &g->place, samples->freq_hz, samples->n_chan * (int64_t)sizeof(double));
    if (!rc) rc = add_samples(g, samples, freq.at);
    msi_host_array_end(&freq);
    return msi_library_end(&begun, rc);
}

static int check_rule(const msimage_weighting *rule)
{
    if ((int)rule->mode < MSIMAGE_NATURAL || (int)rule->mode > MSIMAGE_BRIGGS)
        return msi_error_set(MSI_EARGUMENT, "rule: invalid mode %d", (int)rule->mode);
    if (rule->mode == MSIMAGE_BRIGGS && !(rule->robust >= -2 && rule->robust <= 2))
        return msi_error_set(MSI_ERANGE, "robust must be -2 to 2, got %g", rule->robust);
    if (!(rule->taper_fwhm_rad >= 0 && isfinite(rule->taper_fwhm_rad)))
        return msi_error_set(MSI_ERANGE, "taper_fwhm_rad must be positive, or 0 for no taper, got %g",
                             rule->taper_fwhm_rad);
    const struct {
        const char *name;
        double value;
    } length[] = {{"taper_minor_rad", rule->taper_minor_rad},       {"inner_lambda", rule->inner_lambda},
                  {"inner_tukey_lambda", rule->inner_tukey_lambda}, {"outer_lambda", rule->outer_lambda},
                  {"outer_tukey_lambda", rule->outer_tukey_lambda}, {"edge_lambda", rule->edge_lambda},
                  {"edge_tukey_lambda", rule->edge_tukey_lambda}};
    for (size_t i = 0; i < sizeof length / sizeof *length; i++)
        if (!(length[i].value >= 0 && isfinite(length[i].value)))
            return msi_error_set(MSI_ERANGE, "%s must be positive, or 0 for none, got %g", length[i].name,
                                 length[i].value);
    if (!isfinite(rule->taper_pa_rad))
        return msi_error_set(MSI_ERANGE, "taper_pa_rad must be finite, got %g", rule->taper_pa_rad);
    if (rule->taper_minor_rad > rule->taper_fwhm_rad)
        return msi_error_set(MSI_ERANGE, "taper_minor_rad must be at most taper_fwhm_rad, %g, got %g",
                             rule->taper_fwhm_rad, rule->taper_minor_rad);
    if (rule->outer_tukey_lambda > rule->outer_lambda)
        return msi_error_set(MSI_ERANGE, "outer_tukey_lambda must be at most outer_lambda, %g, got %g",
                             rule->outer_lambda, rule->outer_tukey_lambda);
    if (!(rule->super_weight >= 0 && isfinite(rule->super_weight)))
        return msi_error_set(MSI_ERANGE, "super_weight must be positive, or 0 for the default, got %g",
                             rule->super_weight);
    return MSI_OK;
}

static int apply_weights(msimage_gridder *g, const msimage_weighting *rule)
{
    const msi_weighting inner = {.mode = rule->mode == MSIMAGE_UNIFORM  ? MSI_WEIGHT_UNIFORM
                                         : rule->mode == MSIMAGE_BRIGGS ? MSI_WEIGHT_BRIGGS
                                                                        : MSI_WEIGHT_NATURAL,
                                 .robust = rule->robust,
                                 .taper = {.major_rad = rule->taper_fwhm_rad * g->scale,
                                           .minor_rad = rule->taper_minor_rad * g->scale,
                                           .pa_rad = rule->taper_pa_rad,
                                           .inner_lambda = rule->inner_lambda / g->scale,
                                           .inner_tukey = rule->inner_tukey_lambda / g->scale,
                                           .outer_lambda = rule->outer_lambda / g->scale,
                                           .outer_tukey = rule->outer_tukey_lambda / g->scale,
                                           .edge_lambda = rule->edge_lambda / g->scale,
                                           .edge_tukey = rule->edge_tukey_lambda / g->scale},
                                 .super_weight = rule->super_weight};
    msi_density *density = NULL;
    int rc = MSI_OK;
    if (inner.mode != MSI_WEIGHT_NATURAL) {
        rc = msi_density_create(&density, &g->geometry, &inner);
        if (!rc) rc = msi_density_add(density, g->inner);
    }
    if (!rc) rc = msi_gridder_weight(g->inner, density, &inner);
    msi_density_free(density);
    return rc;
}

int msimage_gridder_weight(msimage_gridder *g, const msimage_weighting *rule)
{
    if (g->folds || g->spec.task == MSIMAGE_PREDICT || g->is_weighted)
        return msi_error_set(MSI_EARGUMENT, g->is_weighted
                                                ? "weight: the weights have been multiplied by density weights already"
                                                : "weight: this gridder does not keep weights");
    MSI_TRY(check_rule(rule));
    msi_library_call begun = call_of(g, "weights");
    int rc = msi_library_begin(&begun);
    free_dirty(g);
    g->is_on_host = 1;
    if (!rc) rc = msi_gridder_move_to_host(g->inner);
    if (!rc) rc = apply_weights(g, rule);
    g->is_weighted = !rc;
    return msi_library_end(&begun, rc);
}

int msimage_gridder_sum_weight(msimage_gridder *g, double *sum_weight, int64_t *n_vis)
{
    int64_t n[MSI_GRIDDER_MAX_PLANES];
    if (g->folds || g->spec.task == MSIMAGE_PREDICT)
        return msi_error_set(MSI_EARGUMENT, "sum_weight: this gridder does not keep weights");
    msi_library_call begun = call_of(g, NULL);
    int rc = msi_library_begin(&begun);
    if (!rc) msi_gridder_weights(g->inner, sum_weight, NULL, n_vis ? n_vis : n);
    return msi_library_end(&begun, rc);
}

/* ---- Images in host memory -------------------------------------------------------------------------------------- */

static int ensure_planes(msimage_gridder *g, int n, msi_planes **out)
{
    return *out ? MSI_OK : msi_gridder_planes(g->inner, n, out);
}

static void get_weight_sums(msimage_gridder *g, double *sum_weight)
{
    int64_t n[MSI_GRIDDER_MAX_PLANES];
    msi_gridder_weights(g->inner, sum_weight, NULL, n);
}

static int image_once(msimage_gridder *g, const void *model, void *image)
{
    (void)model;
    msi_image made;
    MSI_TRY(msi_gridder_image(g->inner, &made));
    convert_pixels(g, made.pixel, made.sum_weight, g->n_plane, image);
    msi_image_free(&made);
    return MSI_OK;
}

/* Make the residuals of a model multiplied by `scale`, in the precision of the work. NULL: no model. */
static int host_residual(msimage_gridder *g, const void *model, double scale, void *work)
{
    int is_nan[MSI_GRIDDER_MAX_PLANES];
    MSI_TRY(ensure_planes(g, g->n_plane, &g->residual));
    if (model) {
        MSI_TRY(ensure_planes(g, g->n_plane, &g->model));
        convert_model(g, model, scale, work, is_nan);
        for (int p = 0; p < g->n_plane; p++)
            if (is_nan[p]) return msi_error_set(MSI_ERANGE, "model: image %d has values that are not finite", p);
        MSI_TRY(msi_planes_upload(g->model, 0, g->n_plane, work));
    }
    MSI_TRY(msi_gridder_residual(g->inner, model ? g->model : NULL, g->residual));
    return msi_planes_fetch(g->residual, 0, g->n_plane, work);
}

static int image_residual(msimage_gridder *g, const void *model, void *image)
{
    double sum_weight[MSI_GRIDDER_MAX_PLANES];
    void *work;
    MSI_TRY(msi_alloc(&work, work_bytes(g, g->n_plane), 1, "images"));
    const int rc = host_residual(g, model, 1, work);
    get_weight_sums(g, sum_weight);
    if (!rc) convert_pixels(g, work, sum_weight, g->n_plane, image);
    msi_free(work);
    return rc;
}

static int image_psf(msimage_gridder *g, const void *model, void *image)
{
    (void)model;
    double sum_weight[MSI_GRIDDER_MAX_PLANES];
    void *work;
    MSI_TRY(ensure_planes(g, 1, &g->psf));
    MSI_TRY(msi_gridder_psf(g->inner, g->psf));
    MSI_TRY(msi_alloc(&work, work_bytes(g, 1), 1, "images"));
    const int rc = msi_planes_fetch(g->psf, 0, 1, work);
    get_weight_sums(g, sum_weight);
    if (!rc) convert_pixels(g, work, sum_weight, 1, image);
    msi_free(work);
    return rc;
}

/*
 * Return the factor by which a model is multiplied for the Hessian, from the sum of the squares of its pixels. The
 * residual of a model m is D - H m, where D is the image of the visibilities and H the normal operator. The factor s
 * makes the visibilities of the model at least a thousand times the data, so that D - (D - s H m) does not lose
 * precision.
 */
static double hessian_scale(const msimage_gridder *g, double squares)
{
    int exponent;
    if (g->samples.largest_jy == 0 || squares == 0) return 1;
    frexp(4096 * g->samples.largest_jy / sqrt(squares), &exponent);
    return ldexp(1, exponent);
}

static double host_hessian_scale(const msimage_gridder *g, const void *model)
{
    const int64_t n = g->n_plane * count_pixels(g);
    const int is_fp32 = g->spec.precision == MSIMAGE_FP32;
    double squares = 0;
#pragma omp parallel for schedule(static) reduction(+ : squares) num_threads(g->n_thread)
    for (int64_t i = 0; i < n; i++) {
        const double value = is_fp32 ? (double)((const float *)model)[i] : ((const double *)model)[i];
        squares += isfinite(value) ? value * value : 0;
    }
    return hessian_scale(g, squares);
}

static int host_hessian(msimage_gridder *g, const void *model, void *work)
{
    const int64_t n = g->n_plane * count_pixels(g);
    const double scale = host_hessian_scale(g, model);
    if (!g->dirty) {
        MSI_TRY(msi_alloc(&g->dirty, work_bytes(g, g->n_plane), 1, "images"));
        const int rc = g->samples.largest_jy > 0 ? host_residual(g, NULL, 1, g->dirty) : MSI_OK;
        if (rc) {
            msi_free(g->dirty);
            g->dirty = NULL;
            return rc;
        }
    }
    MSI_TRY(host_residual(g, model, scale, work));
    if (g->precision == MSI_FP32) {
        float *to = work;
        for (int64_t i = 0; i < n; i++) to[i] = (((const float *)g->dirty)[i] - to[i]) / (float)scale;
    } else {
        double *to = work;
        for (int64_t i = 0; i < n; i++) to[i] = (((const double *)g->dirty)[i] - to[i]) / scale;
    }
    return MSI_OK;
}

static int image_hessian(msimage_gridder *g, const void *model, void *image)
{
    double sum_weight[MSI_GRIDDER_MAX_PLANES];
    void *work;
    MSI_TRY(msi_alloc(&work, work_bytes(g, g->n_plane), 1, "images"));
    const int rc = host_hessian(g, model, work);
    get_weight_sums(g, sum_weight);
    if (!rc) convert_pixels(g, work, sum_weight, g->n_plane, image);
    msi_free(work);
    return rc;
}

/* ---- Images on the GPU, from and to arrays of the caller --------------------------------------------------------- */

#ifdef MSI_HAVE_CUDA

/* Write (from - less) / scale to the caller's array. less may be NULL. */
static int write_planes(msimage_gridder *g, const msi_planes *from, const msi_planes *less, double scale, void *image)
{
    double sum_weight[MSI_GRIDDER_MAX_PLANES];
    int64_t n_vis[MSI_GRIDDER_MAX_PLANES];
    msi_gridder_weights(g->inner, sum_weight, NULL, n_vis);
    const msi_work_images images = {.from = msi_planes_pixel(from, 0),
                                    .less = less ? msi_planes_pixel(less, 0) : NULL,
                                    .scale = scale,
                                    .sum_weight = sum_weight,
                                    .n_plane = msi_planes_shape_of(from)->n};
    return msi_library_gpu_pixels(g, &images, image);
}

/* Make the residuals of a model in device memory, multiplied by `scale`. NULL: no model. */
static int gpu_residual_of_model(msimage_gridder *g, const void *model, double scale, msi_planes *residual)
{
    int is_nan[MSI_GRIDDER_MAX_PLANES];
    if (!model) return msi_gridder_residual(g->inner, NULL, residual);
    MSI_TRY(ensure_planes(g, g->n_plane, &g->model));
    MSI_TRY(msi_library_gpu_model(g, model, scale, msi_planes_pixel(g->model, 0), is_nan));
    for (int p = 0; p < g->n_plane; p++)
        if (is_nan[p]) return msi_error_set(MSI_ERANGE, "model: image %d has values that are not finite", p);
    return msi_gridder_residual(g->inner, g->model, residual);
}

static int gpu_residual(msimage_gridder *g, const void *model, void *image)
{
    const void *at;
    MSI_TRY(ensure_planes(g, g->n_plane, &g->residual));
    MSI_TRY(msi_library_gpu_reach(g, model, &at));
    MSI_TRY(gpu_residual_of_model(g, at, 1, g->residual));
    return write_planes(g, g->residual, NULL, 1, image);
}

static int gpu_psf(msimage_gridder *g, const void *model, void *image)
{
    (void)model;
    MSI_TRY(ensure_planes(g, 1, &g->psf));
    MSI_TRY(msi_gridder_psf(g->inner, g->psf));
    return write_planes(g, g->psf, NULL, 1, image);
}

/* Make the image of the visibilities, if it is not made yet. */
static int make_dirty(msimage_gridder *g)
{
    if (g->gpu_dirty) return MSI_OK;
    MSI_TRY(ensure_planes(g, g->n_plane, &g->gpu_dirty));
    const int rc = gpu_residual_of_model(g, NULL, 1, g->gpu_dirty);
    if (rc) free_dirty(g);
    return rc;
}

static int gpu_hessian(msimage_gridder *g, const void *model, void *image)
{
    const void *at;
    double squares = 0;
    const int has_data = g->samples.largest_jy > 0;
    MSI_TRY(ensure_planes(g, g->n_plane, &g->residual));
    MSI_TRY(msi_library_gpu_reach(g, model, &at));
    if (has_data) MSI_TRY(msi_library_gpu_squares(g, at, &squares));
    const double scale = hessian_scale(g, squares);
    MSI_TRY(gpu_residual_of_model(g, at, scale, g->residual));
    if (!has_data) return write_planes(g, g->residual, NULL, -scale, image);
    MSI_TRY(make_dirty(g));
    return write_planes(g, g->gpu_dirty, g->residual, scale, image);
}

#endif

/* ---- Images ----------------------------------------------------------------------------------------------------- */

/* A function that makes images, from a model (NULL: none), and writes them to the caller's array. */
typedef int make_images(msimage_gridder *g, const void *model, void *image);

/* A kind of images, with the functions that make them in host memory and, for arrays in any memory, on a GPU. */
typedef struct image_call {
    const char *stage;
    make_images *on_host, *on_gpu;
    int n_plane;
} image_call;

static int make_on_host(msimage_gridder *g, const image_call *call, const void *model, void *image)
{
    msi_host_array in = {0}, out = {0};
    const int64_t bytes = image_bytes(g, call->n_plane);
    int rc = msi_host_array_read(&in, &g->place, model, bytes);
    if (!rc) rc = msi_host_array_reserve(&out, &g->place, image, bytes);
    if (!rc) rc = call->on_host(g, in.at, out.at);
    if (!rc) rc = msi_host_array_write(&out);
    msi_host_array_end(&in);
    msi_host_array_end(&out);
    return rc;
}

/* Refuse weights that are all denormal in single precision, because they are stored in it. */
static int check_weights(const msimage_gridder *g)
{
    const double largest = g->samples.largest_weight;
    if (g->folds || largest == 0 || largest >= FLT_MIN) return MSI_OK;
    return msi_error_set(MSI_ERANGE,
                         "weight: the largest value is %g, and values below %g have few digits in single precision, in "
                         "which weights are kept; multiply all by a constant",
                         largest, (double)FLT_MIN);
}

static int make_image(msimage_gridder *g, const image_call *call, const void *model, void *image)
{
    MSI_TRY(check_weights(g));
    msi_library_call begun = call_of(g, call->stage);
    int rc = msi_library_begin(&begun);
#ifdef MSI_HAVE_CUDA
    if (!rc && g->gpu) {
        rc = msi_library_gpu_enter(g->gpu, g->spec.stream);
        if (!rc) rc = call->on_gpu(g, model, image);
        return msi_library_end(&begun, rc);
    }
#endif
    if (!rc) rc = make_on_host(g, call, model, image);
    return msi_library_end(&begun, rc);
}

static int check_task(const msimage_gridder *g, msimage_task task, const char *what)
{
    static const char *const name[] = {"images", "residuals", "predictions"};
    if (g->spec.task == task) return MSI_OK;
    return msi_error_set(MSI_EARGUMENT, "%s: this gridder was made for %s", what, name[g->spec.task]);
}

#ifdef MSI_HAVE_CUDA
#define ON_GPU(name) gpu_##name
#else
#define ON_GPU(name) NULL
#endif

int msimage_gridder_image(msimage_gridder *g, void *image)
{
    const int is_once = g->spec.task == MSIMAGE_IMAGE;
    const image_call call = {"image", is_once ? image_once : image_residual, ON_GPU(residual), g->n_plane};
    if (g->spec.task != MSIMAGE_RESIDUAL) MSI_TRY(check_task(g, MSIMAGE_IMAGE, "image"));
    MSI_TRY(check_digits(g, "vis", g->samples.largest_jy));
    return make_image(g, &call, NULL, image);
}

int msimage_gridder_psf(msimage_gridder *g, void *psf)
{
    MSI_TRY(check_task(g, MSIMAGE_RESIDUAL, "psf"));
    const image_call call = {"psf", image_psf, ON_GPU(psf), 1};
    return make_image(g, &call, NULL, psf);
}

int msimage_gridder_residual(msimage_gridder *g, const void *model, void *residual)
{
    MSI_TRY(check_task(g, MSIMAGE_RESIDUAL, "residual"));
    MSI_TRY(check_digits(g, "vis", g->samples.largest_jy));
    const image_call call = {"residual", image_residual, ON_GPU(residual), g->n_plane};
    return make_image(g, &call, model, residual);
}

int msimage_gridder_hessian(msimage_gridder *g, const void *model, void *product)
{
    MSI_TRY(check_task(g, MSIMAGE_RESIDUAL, "hessian"));
    if (!model) return msi_error_set(MSI_EARGUMENT, "hessian needs a model");
    const image_call call = {"hessian", image_hessian, ON_GPU(hessian), g->n_plane};
    return make_image(g, &call, model, product);
}

/* ---- Predictions ------------------------------------------------------------------------------------------------ */

/* Predict with the kernels' gridder, which borrows the model during the call. */
static int predict_from_image(msimage_gridder *g, const msi_image *model)
{
    /* If samples are masked, plan for the other samples, as for an image of them. */
    if (g->samples.n && g->samples.n_left_out)
        msi_gridder_expect(g->inner, g->samples.n, 0, g->samples.w_min_lambda, g->samples.w_max_lambda);
    int rc = msi_gridder_model(g->inner, model);
    if (!rc && g->samples.n) rc = msi_gridder_predict(g->inner);
    msi_gridder_reset(g->inner);
    return rc;
}

static int predict_on_host(msimage_gridder *g, const void *model)
{
    msi_host_array in = {0};
    msi_image image = {0};
    int rc = msi_host_array_read(&in, &g->place, model, image_bytes(g, g->n_plane));
    if (!rc) rc = msi_image_alloc(&image, &g->geometry, g->n_plane, g->precision);
    if (!rc) {
        rc = check_digits(g, "model", convert_model(g, in.at, 1, image.pixel, g->is_nan));
        if (!rc) rc = predict_from_image(g, &image);
    }
    msi_image_free(&image);
    msi_host_array_end(&in);
    return rc;
}

#ifdef MSI_HAVE_CUDA

static int gpu_predict(msimage_gridder *g, const void *model)
{
    const void *at;
    MSI_TRY(ensure_planes(g, g->n_plane, &g->model));
    MSI_TRY(msi_library_gpu_reach(g, model, &at));
    MSI_TRY(msi_library_gpu_model(g, at, 1, msi_planes_pixel(g->model, 0), g->is_nan));
    const msi_image image = {.geometry = g->geometry,
                             .n_plane = g->n_plane,
                             .precision = g->precision,
                             .pixel = msi_planes_pixel(g->model, 0)};
    return predict_from_image(g, &image);
}

#endif

static int run_prediction(msimage_gridder *g, const void *model)
{
#ifdef MSI_HAVE_CUDA
    if (g->gpu) {
        MSI_TRY(msi_library_gpu_enter(g->gpu, g->spec.stream));
        return gpu_predict(g, model);
    }
#endif
    return predict_on_host(g, model);
}

int msimage_gridder_predict(msimage_gridder *g, const void *model)
{
    MSI_TRY(check_task(g, MSIMAGE_PREDICT, "predict"));
    if (!model) return msi_error_set(MSI_EARGUMENT, "predict needs a model");
    msi_library_call begun = call_of(g, "prediction");
    int rc = msi_library_begin(&begun);
    if (!rc) rc = run_prediction(g, model);
    g->is_predicted = !rc;
    g->n_fetched = 0;
    return msi_library_end(&begun, rc);
}

static int fetch_on_host(msimage_gridder *g, const msimage_samples *samples, void *vis)
{
    msi_host_array a[N_SAMPLE_ARRAY] = {{0}}, out = {0};
    msimage_samples s;
    const int64_t bytes = g->n_plane * samples->n_row * samples->n_chan * (g->spec.precision == MSIMAGE_FP32 ? 8 : 16);
    int rc = read_sample_arrays(g, samples, a, &s);
    if (!rc) rc = msi_host_array_reserve(&out, &g->place, vis, bytes);
    if (!rc) rc = msi_library_fetch(g, &s, out.at);
    if (!rc) rc = msi_host_array_write(&out);
    free_sample_arrays(a);
    msi_host_array_end(&out);
    return rc;
}

static int fetch_samples(msimage_gridder *g, const msimage_samples *samples, void *vis)
{
#ifdef MSI_HAVE_CUDA
    if (g->gpu && !g->is_on_host) {
        if (!samples->n_row || !samples->n_chan) return MSI_OK;
        MSI_TRY(msi_library_gpu_enter(g->gpu, g->spec.stream));
        MSI_TRY(msi_library_gpu_fetch(g, samples, g->n_fetched, vis));
        g->n_fetched++;
        return MSI_OK;
    }
#endif
    return fetch_on_host(g, samples, vis);
}

int msimage_gridder_fetch(msimage_gridder *g, const msimage_samples *samples, void *vis)
{
    MSI_TRY(check_task(g, MSIMAGE_PREDICT, "fetch"));
    if (!g->is_predicted) return msi_error_set(MSI_EARGUMENT, "fetch: msimage_gridder_predict must be called first");
    msi_library_call begun = call_of(g, "visibilities");
    int rc = msi_library_begin(&begun);
    if (!rc) rc = fetch_samples(g, samples, vis);
    return msi_library_end(&begun, rc);
}

void msimage_gridder_report_get(const msimage_gridder *g, msimage_gridder_report *report)
{
    msi_gridder_report r;
    msi_gridder_report_get(g->inner, &r);
    *report = (msimage_gridder_report){.strategy = r.strategy,
                                       .backend = r.backend == MSI_BACKEND_CUDA ? MSIMAGE_CUDA : MSIMAGE_CPU,
                                       .width = r.width,
                                       .nu = r.nu,
                                       .nv = r.nv,
                                       .n_w = r.n_w,
                                       .error_estimate = r.error_estimate,
                                       .n_sample = r.n_sample,
                                       .n_outside = r.n_outside,
                                       .store_bytes = r.store_bytes};
}

/* ---- Functions that create a gridder, use it once and free it --------------------------------------------------- */

/* They are for callers such as Python, for which calls and callbacks are expensive. The interval between interrupt
 * callbacks continues from one step to the next. After an interrupt the caller has nothing to free. */

/* Create a gridder for a task, and add samples. Returned: *out  must be freed in any case */
static int create_and_add(msimage_gridder **out, msimage_task task, const msimage_gridder_spec *spec,
                          const msimage_callbacks *callbacks, const msimage_samples *samples, int64_t n_block)
{
    msimage_gridder_spec s;
    *out = NULL;
    MSI_TRY(msi_library_spec(&s, spec, spec->struct_bytes, sizeof s));
    s.struct_bytes = sizeof s;
    s.task = task;
    MSI_TRY(msimage_gridder_create(out, &s, callbacks));
    for (int64_t i = 0; i < n_block; i++) MSI_TRY(msimage_gridder_add(*out, &samples[i]));
    return MSI_OK;
}

int msimage_gridder_image_once(const msimage_gridder_spec *spec, const msimage_callbacks *callbacks,
                               const msimage_samples *samples, int64_t n_block, void *image)
{
    msimage_gridder *g;
    const int paced = msi_interrupt_pace(1);
    int rc = create_and_add(&g, MSIMAGE_IMAGE, spec, callbacks, samples, n_block);
    if (!rc) rc = msimage_gridder_image(g, image);
    msimage_gridder_free(g);
    msi_interrupt_pace(paced);
    return rc;
}

int msimage_gridder_predict_once(const msimage_gridder_spec *spec, const msimage_callbacks *callbacks,
                                 const msimage_samples *samples, int64_t n_block, const void *model, void *const *vis)
{
    msimage_gridder *g;
    const int paced = msi_interrupt_pace(1);
    int rc = create_and_add(&g, MSIMAGE_PREDICT, spec, callbacks, samples, n_block);
    if (!rc) rc = msimage_gridder_predict(g, model);
    for (int64_t i = 0; i < n_block && !rc; i++) rc = msimage_gridder_fetch(g, &samples[i], vis[i]);
    msimage_gridder_free(g);
    msi_interrupt_pace(paced);
    return rc;
}
