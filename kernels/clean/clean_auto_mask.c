/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "kernels/clean/clean_auto_mask.h"

#include <math.h>

#include "core/memory.h"
#include "kernels/clean/clean_state.h"

struct msi_auto_mask {
    msi_auto_mask_spec spec;
    msi_planes_shape shape;
    int64_t n_pixel, real_bytes;
    int64_t least; /* pixels of a region */
    const msi_clean_engine_ops *ops;
    msi_clean_engine *e;
    msi_clean_fft *fft;         /* NULL if nothing is smoothed */
    void *beam, *work, *smooth; /* spectra, and an image */
    uint8_t *mask, *part, *within, *next;
    uint8_t *host; /* [ny][nx], to count pixels */
    int n_update, is_kept;
    int64_t n_set;
};

msi_auto_mask_spec msi_auto_mask_defaults(void)
{
    return (msi_auto_mask_spec){.sidelobe_threshold = 3,
                                .noise_threshold = 5,
                                .low_noise_threshold = 1.5,
                                .smooth_factor = 1,
                                .min_beam_frac = 0.3,
                                .cut_threshold = 0.01,
                                .grow_iterations = 75,
                                .do_grow_prune = 1,
                                .min_percent_change = -1};
}

static int check_spec(const msi_auto_mask_spec *s)
{
    const struct {
        const char *name;
        double value;
    } all[] = {{"sidelobe_threshold", s->sidelobe_threshold},
               {"noise_threshold", s->noise_threshold},
               {"low_noise_threshold", s->low_noise_threshold},
               {"negative_threshold", s->negative_threshold},
               {"smooth_factor", s->smooth_factor},
               {"min_beam_frac", s->min_beam_frac},
               {"cut_threshold", s->cut_threshold},
               {"grow_iterations", s->grow_iterations},
               {"sidelobe_level", s->sidelobe_level}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!(all[i].value >= 0) || !isfinite(all[i].value))
            return msi_error_about(
                msi_error_set(MSI_EARGUMENT, "a mask's %s must be 0 or more, got %g", all[i].name, all[i].value),
                all[i].name);
    if (msi_clean_beam_is_valid(&s->beam, s->cell_x_rad, s->cell_y_rad)) return MSI_OK;
    return msi_error_about(
        msi_error_set(MSI_EARGUMENT,
                      "a mask needs a beam and a pixel size, got a beam of %g by %g rad, pixels of %g by %g rad",
                      s->beam.major_rad, s->beam.minor_rad, s->cell_x_rad, s->cell_y_rad),
        "beam");
}

static int make_smoother(msi_auto_mask *m)
{
    const msi_auto_mask_spec *s = &m->spec;
    const int64_t complex_bytes = 2 * m->real_bytes;
    int64_t n_complex;
    if (!(s->smooth_factor > 0)) return MSI_OK;
    const msi_beam wide = {s->beam.major_rad * s->smooth_factor, s->beam.minor_rad * s->smooth_factor, s->beam.pa_rad};
    const msi_clean_gaussian g = msi_clean_beam_gaussian(&wide, s->cell_x_rad, s->cell_y_rad);
    MSI_TRY(m->ops->fft_create(m->e, msi_clean_beam_padded(m->shape.nx, &wide, s->cell_x_rad),
                               msi_clean_beam_padded(m->shape.ny, &wide, s->cell_y_rad), &m->fft, &n_complex));
    MSI_TRY(m->ops->alloc(m->e, &m->beam, n_complex * complex_bytes, "the beam's transform"));
    MSI_TRY(m->ops->alloc(m->e, &m->work, n_complex * complex_bytes, "a transform"));
    MSI_TRY(m->ops->alloc(m->e, &m->smooth, m->n_pixel * m->real_bytes, "a smoothed mask"));
    return m->ops->gaussian(m->e, m->fft, &g, m->beam);
}

void msi_auto_mask_estimate(const msi_planes_shape *shape, const msi_auto_mask_spec *s, int64_t *host, int64_t *device)
{
    const int64_t n_pixel = shape->nx * shape->ny, real = shape->precision == MSI_FP32 ? 4 : 8;
    const msi_clean_setup setup = msi_clean_setup_of_plane(shape, s->n_thread);
    const msi_clean_method *row = msi_clean_method_find("list", shape->backend);
    const int on_gpu = shape->backend == MSI_BACKEND_CUDA;
    /* Four masks, the peaks of pieces of rows, and records of components; for regions, two numbers a pixel on a GPU. */
    int64_t all = 4 * n_pixel + n_pixel / 4 + MSI_CLEAN_CHUNK * (4 + real), noise = 0;
    if (row && s->smooth_factor > 0) {
        const msi_beam wide = {s->beam.major_rad * s->smooth_factor, s->beam.minor_rad * s->smooth_factor, 0};
        const int64_t nx = msi_clean_beam_padded(shape->nx, &wide, s->cell_x_rad);
        const int64_t ny = msi_clean_beam_padded(shape->ny, &wide, s->cell_y_rad);
        all += 2 * (nx / 2 + 8) * ny * 2 * real + n_pixel * real + row->engine->fft_bytes(&setup, nx, ny);
    }
    if (row) noise = row->engine->noise_bytes(&setup);
    *device = on_gpu ? all + 8 * n_pixel : 0;
    *host = n_pixel + (on_gpu ? noise : all + (noise > 4 * n_pixel ? noise : 4 * n_pixel));
}

static int allocate_arrays(msi_auto_mask *m)
{
    const msi_clean_setup setup = msi_clean_setup_of_plane(&m->shape, m->spec.n_thread);
    const msi_clean_method *row = msi_clean_method_find("list", m->shape.backend);
    if (!row) return msi_error_set(MSI_EINTERNAL, "no cleaner for backend %d", (int)m->shape.backend);
    m->ops = row->engine;
    MSI_TRY(msi_alloc_work(&m->host, m->n_pixel, 1, "a mask"));
    MSI_TRY(m->ops->create(&m->e, &setup));
    uint8_t **all[] = {&m->mask, &m->part, &m->within, &m->next};
    for (int i = 0; i < 4; i++) MSI_TRY(m->ops->alloc(m->e, (void **)all[i], m->n_pixel, "a mask"));
    MSI_TRY(make_smoother(m));
    return m->ops->wait(m->e);
}

int msi_auto_mask_create(msi_auto_mask **out, const msi_planes_shape *shape, const msi_auto_mask_spec *spec)
{
    msi_auto_mask *m;
    *out = NULL;
    MSI_TRY(check_spec(spec));
    if (shape->nx < 1 || shape->ny < 1 || shape->nx > MSI_CLEAN_MAX_SIZE || shape->ny > MSI_CLEAN_MAX_SIZE)
        return msi_error_about(msi_error_set(MSI_EARGUMENT, "a mask cannot have %lld x %lld pixels",
                                             (long long)shape->nx, (long long)shape->ny),
                               "nx");
    MSI_TRY(msi_alloc(&m, 1, sizeof *m, "a mask"));
    m->spec = *spec;
    m->shape = *shape;
    m->n_pixel = shape->nx * shape->ny;
    m->real_bytes = shape->precision == MSI_FP32 ? 4 : 8;
    const double area =
        MSI_PI * spec->beam.major_rad * spec->beam.minor_rad / (4 * log(2)) / (spec->cell_x_rad * spec->cell_y_rad);
    m->least = (int64_t)ceil(fmin(spec->min_beam_frac * area, (double)m->n_pixel + 1));
    const int rc = allocate_arrays(m);
    if (rc)
        msi_auto_mask_free(m);
    else
        *out = m;
    return rc;
}

void msi_auto_mask_free(msi_auto_mask *m)
{
    if (!m) return;
    if (m->e) {
        void *all[] = {m->beam, m->work, m->smooth, m->mask, m->part, m->within, m->next};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) m->ops->release(m->e, all[i]);
        m->ops->fft_free(m->e, m->fft);
        m->ops->free(m->e);
    }
    msi_free(m->host);
    msi_free(m);
}

/* Compute the thresholds of a residual. */
static int find_thresholds(const msi_auto_mask *m, const void *residual, msi_auto_mask_report *r)
{
    const msi_auto_mask_spec *s = &m->spec;
    const msi_clean_search search = {residual, NULL};
    msi_clean_peak peak;
    double deviation;
    int64_t n;
    MSI_TRY(m->ops->deviation(m->e, residual, &r->median, &deviation, &n));
    if (!n) return msi_error_about(msi_error_set(MSI_EINPUT, "the residual has no finite pixel"), "residual");
    MSI_TRY(m->ops->peak(m->e, &search, &peak));
    r->noise = 1.48260221850560 * deviation;
    const double sidelobe = s->sidelobe_threshold * s->sidelobe_level * peak.key;
    r->is_sidelobe = sidelobe > s->noise_threshold * r->noise;
    r->threshold = r->median + fmax(sidelobe, s->noise_threshold * r->noise);
    r->low_threshold = r->median + fmax(sidelobe, s->low_noise_threshold * r->noise);
    if (s->negative_threshold > 0) r->negative_threshold = r->median - fmax(sidelobe, s->negative_threshold * r->noise);
    return MSI_OK;
}

/* Smooth a mask with the beam, and keep pixels above a fraction of its largest value. */
static int smooth_and_cut(msi_auto_mask *m, uint8_t *mask)
{
    const msi_clean_search search = {m->smooth, NULL};
    msi_clean_peak peak;
    if (!m->fft) return MSI_OK;
    MSI_TRY(m->ops->mask_to_image(m->e, mask, m->smooth));
    MSI_TRY(m->ops->forward(m->e, m->fft, m->smooth, 0, MSI_CLEAN_CORNER, m->work));
    MSI_TRY(m->ops->product(m->e, m->fft, m->work, m->beam, 0, m->work));
    MSI_TRY(m->ops->inverse(m->e, m->fft, m->work, MSI_CLEAN_CORNER, MSI_CLEAN_SET, m->smooth));
    MSI_TRY(m->ops->peak(m->e, &search, &peak));
    /* An empty mask is zero everywhere. */
    return m->ops->threshold(m->e, m->smooth, m->spec.cut_threshold * peak.key, 0, mask);
}

/* Add a threshold's regions to m->next. */
static int add_regions(msi_auto_mask *m, const void *residual, double threshold, int below)
{
    MSI_TRY(m->ops->threshold(m->e, residual, threshold, below, m->part));
    MSI_TRY(m->ops->prune(m->e, m->least, m->part));
    MSI_TRY(smooth_and_cut(m, m->part));
    return m->ops->unite(m->e, m->part, m->next);
}

/* Of the grown mask only pixels above the lower threshold are smoothed: smoothing all of it would widen it with every
 * update. */
static int add_growth(msi_auto_mask *m, const void *residual, double low_threshold)
{
    MSI_TRY(m->ops->threshold(m->e, residual, low_threshold, 0, m->within));
    MSI_TRY(m->ops->copy(m->e, m->part, m->mask, m->n_pixel));
    MSI_TRY(m->ops->grow(m->e, m->within, m->spec.grow_iterations, m->part));
    MSI_TRY(m->ops->intersect(m->e, m->within, m->part));
    if (m->spec.do_grow_prune) MSI_TRY(m->ops->prune(m->e, m->least, m->part));
    MSI_TRY(smooth_and_cut(m, m->part));
    return m->ops->unite(m->e, m->part, m->next);
}

static int make_next(msi_auto_mask *m, const void *residual, msi_auto_mask_report *r, int64_t *n_set)
{
    MSI_TRY(find_thresholds(m, residual, r));
    MSI_TRY(m->ops->copy(m->e, m->next, m->mask, m->n_pixel));
    MSI_TRY(add_regions(m, residual, r->threshold, 0));
    if (m->spec.negative_threshold > 0) MSI_TRY(add_regions(m, residual, r->negative_threshold, 1));
    if (m->n_update > 0 && m->spec.grow_iterations > 0) MSI_TRY(add_growth(m, residual, r->low_threshold));
    MSI_TRY(m->ops->download(m->e, m->host, m->next, m->n_pixel));
    *n_set = 0;
    for (int64_t i = 0; i < m->n_pixel; i++) *n_set += m->host[i];
    return MSI_OK;
}

static int check_planes(const msi_auto_mask *m, const msi_planes *residual, int plane)
{
    const msi_planes_shape *a = &m->shape, *b = msi_planes_shape_of(residual);
    if (a->nx == b->nx && a->ny == b->ny && a->precision == b->precision && a->backend == b->backend &&
        a->device == b->device && plane >= 0 && plane < b->n)
        return MSI_OK;
    return msi_error_about(msi_error_set(MSI_EARGUMENT,
                                         "a mask's residual: plane %d of %d was requested, or the shape differs", plane,
                                         b->n),
                           "residual");
}

int msi_auto_mask_update(msi_auto_mask *m, const msi_planes *residual, int plane, msi_auto_mask_report *report)
{
    int64_t n_set = 0;
    *report = (msi_auto_mask_report){.n_pixel = m->n_set, .is_kept = m->is_kept};
    MSI_TRY(check_planes(m, residual, plane));
    if (m->is_kept) return find_thresholds(m, msi_planes_pixel(residual, plane), report);
    const int rc = make_next(m, msi_planes_pixel(residual, plane), report, &n_set);
    if (rc) {
        (void)m->ops->wait(m->e);
        return rc;
    }
    uint8_t *last = m->mask;
    m->mask = m->next;
    m->next = last;
    report->n_added = n_set - m->n_set;
    report->n_pixel = n_set;
    /* A mask that was empty has changed by more than any fraction. */
    if (m->n_update > 0 && m->n_set > 0 && m->spec.min_percent_change >= 0)
        m->is_kept = 100 * (double)report->n_added / (double)m->n_set < m->spec.min_percent_change;
    report->is_kept = m->is_kept;
    m->n_set = n_set;
    m->n_update++;
    return MSI_OK;
}

int msi_auto_mask_fetch(msi_auto_mask *m, uint8_t *mask)
{
    return m->ops->download(m->e, mask, m->mask, m->n_pixel);
}

int msi_auto_mask_set(msi_auto_mask *m, const uint8_t *mask, int n_update)
{
    m->n_set = 0;
    for (int64_t i = 0; i < m->n_pixel; i++) {
        m->host[i] = mask[i] != 0;
        m->n_set += m->host[i];
    }
    m->n_update = n_update;
    m->is_kept = 0;
    return m->ops->upload(m->e, m->mask, m->host, m->n_pixel);
}
