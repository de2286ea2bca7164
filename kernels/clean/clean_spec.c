/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The specification of a cleaner: the methods and engines that were compiled in, the valid values of members, their
 * defaults, its scales, and the engine's setup that follows from it.
 */
#include <math.h>
#include <string.h>

#include "kernels/clean/clean_log_fit.h"
#include "kernels/clean/clean_state.h"
#include "kernels/clean/clean_taylor.h"

#ifdef MSI_HAVE_CUDA
#include "kernels/gpu/gpu_device.h"
#endif

static const char HOGBOM[] = "exact: each component is subtracted from the image before the next is found";
static const char LIST[] = "the brightest pixels are cleaned by themselves, then subtracted by one convolution";
static const char MULTISCALE[] = "components of several widths, each found on residuals convolved to it";

/* In the order in which AUTO prefers them. */
static const msi_clean_method methods[] = {
#ifdef MSI_HAVE_CUDA
    {"list", LIST, MSI_BACKEND_CUDA, &msi_clean_list_ops, &msi_clean_engine_cuda},
#endif
    {"list", LIST, MSI_BACKEND_CPU, &msi_clean_list_ops, &msi_clean_engine_cpu},
#ifdef MSI_HAVE_CUDA
    {"multiscale", MULTISCALE, MSI_BACKEND_CUDA, &msi_clean_multiscale_ops, &msi_clean_engine_cuda},
#endif
    {"multiscale", MULTISCALE, MSI_BACKEND_CPU, &msi_clean_multiscale_ops, &msi_clean_engine_cpu},
#ifdef MSI_HAVE_CUDA
    {"hogbom", HOGBOM, MSI_BACKEND_CUDA, &msi_clean_hogbom_ops, &msi_clean_engine_cuda},
#endif
    {"hogbom", HOGBOM, MSI_BACKEND_CPU, &msi_clean_hogbom_ops, &msi_clean_engine_cpu},
};

enum { N_METHOD = sizeof methods / sizeof *methods };

const msi_clean_method *msi_clean_methods(int *n)
{
    *n = N_METHOD;
    return methods;
}

static int is_available(const msi_clean_method *m)
{
#ifdef MSI_HAVE_CUDA
    if (m->backend == MSI_BACKEND_CUDA) return msi_gpu_available();
#endif
    return m->backend == MSI_BACKEND_CPU;
}

const msi_clean_method *msi_clean_method_find(const char *name, msi_backend backend)
{
    for (const msi_clean_method *m = methods; m < methods + N_METHOD; m++)
        if (strcmp(m->name, name) == 0 && (backend == MSI_BACKEND_AUTO ? is_available(m) : m->backend == backend))
            return m;
    return NULL;
}

const char *msi_clean_stop_word(msi_clean_stop stop)
{
    static const char *const word[MSI_CLEAN_N_STOP] = {
        [MSI_CLEAN_STOP_THRESHOLD] = "threshold",   [MSI_CLEAN_STOP_MAJOR] = "major cycle",
        [MSI_CLEAN_STOP_ITERATIONS] = "iterations", [MSI_CLEAN_STOP_NEGATIVE] = "negative peak",
        [MSI_CLEAN_STOP_EMPTY] = "mask empty",      [MSI_CLEAN_STOP_DIVERGED] = "diverged",
        [MSI_CLEAN_STOP_STALLED] = "stalled"};
    return stop >= 0 && stop < MSI_CLEAN_N_STOP ? word[stop] : "unknown";
}

static int wrong_scale(const char *why, double value)
{
    return msi_error_about(msi_error_set(MSI_EARGUMENT, "the cleaner's scales: %s, got %g", why, value), "scale");
}

static double shorter_edge(const msi_cleaner_spec *s)
{
    return (double)(s->nx < s->ny ? s->nx : s->ny);
}

/* Doubling may end far below half the image, so that a source as wide as the image has no scale of its width. One more
 * scale is added, as wide as the image allows, unless it is near the last one. */
static const double WIDEST = 0.8, APART = 1.2;

static void choose_scales(msi_cleaner *c)
{
    msi_cleaner_spec *s = &c->spec;
    const int most = s->n_scale ? s->n_scale : MSI_CLEAN_MAX_SCALE;
    s->n_scale = 0;
    c->scale[s->n_scale++] = 0;
    for (double width = 4 * s->beam_pixel; width < shorter_edge(s) / 2 && s->n_scale < most; width *= 2)
        c->scale[s->n_scale++] = width;
    const double last = WIDEST * shorter_edge(s) / 2;
    if (s->n_scale < most && last > APART * c->scale[s->n_scale - 1]) c->scale[s->n_scale++] = last;
}

/* Complete and check spec.scale. Returns: 0, MSI_EARGUMENT */
static int set_scales(msi_cleaner *c)
{
    msi_cleaner_spec *s = &c->spec;
    if (strcmp(s->method, "multiscale") != 0) {
        s->n_scale = 1;
        s->scale = c->scale;
        return MSI_OK;
    }
    if (!(s->beam_pixel > 0) || !isfinite(s->beam_pixel))
        return wrong_scale("beam_pixel must be positive", s->beam_pixel);
    if (s->n_scale < 0 || s->n_scale > MSI_CLEAN_MAX_SCALE) return wrong_scale("n_scale must be 0 to 16", s->n_scale);
    if (s->scale && !s->n_scale) return wrong_scale("n_scale must be the length of the list", 0);
    if (s->scale)
        memcpy(c->scale, s->scale, (size_t)s->n_scale * sizeof *c->scale);
    else
        choose_scales(c);
    s->scale = c->scale;
    if (c->scale[0] != 0) return wrong_scale("the first must be 0", c->scale[0]);
    if (s->no_points && s->scale_rule == MSI_CLEAN_BY_POWER)
        return wrong_scale("by power thresholds are of scale 0, which must be used", 0);
    if (s->no_points && s->n_scale < 2) return wrong_scale("without points there must be another", s->n_scale);
    for (int i = 1; i < s->n_scale; i++) {
        if (!(c->scale[i] > c->scale[i - 1])) return wrong_scale("they must increase", c->scale[i]);
        if (!(c->scale[i] < shorter_edge(s) / 2)) return wrong_scale("they must be below half the image", c->scale[i]);
    }
    return MSI_OK;
}

static int wrong_member(const char *member, const char *why, double value)
{
    return msi_error_about(msi_error_set(MSI_EARGUMENT, "the cleaner's %s must be %s, got %g", member, why, value),
                           member);
}

static double or_default(double value, double otherwise)
{
    return value != 0 ? value : otherwise;
}

_Static_assert((int)MSI_CLEAN_MAX_CHANNEL == (int)MSI_CLEAN_CHANNELS &&
                   (int)MSI_CLEAN_MAX_LOG_CHANNEL == (int)MSI_CLEAN_LOG_CHANNELS,
               "the cleaner and its engines have the same limits");

static int check_shape(const msi_cleaner_spec *s)
{
    if (s->nx < 1 || s->nx > MSI_CLEAN_MAX_SIZE) return wrong_member("nx", "1 to 65535 pixels", (double)s->nx);
    if (s->ny < 1 || s->ny > MSI_CLEAN_MAX_SIZE) return wrong_member("ny", "1 to 65535 pixels", (double)s->ny);
    if (s->n_channel < 1 || s->n_channel > MSI_CLEAN_CHANNELS)
        return wrong_member("n_channel", "1 to 256", s->n_channel);
    if (s->n_channel > MSI_CLEAN_LOG_CHANNELS && s->fit == MSI_CLEAN_FIT_LOG)
        return wrong_member("n_channel", "1 to 64 with a log-polynomial fit", s->n_channel);
    if (s->of_taylor && s->n_channel > MSI_TAYLOR_MAX_NODE)
        return wrong_member("n_channel", "1 to 7, the nodes of Taylor terms", s->n_channel);
    if (s->of_taylor && s->n_term > MSI_TAYLOR_MAX_TERM)
        return wrong_member("n_term", "at most 4 with Taylor terms", s->n_term);
    if (s->n_pol < 1 || s->n_pol > MSI_MAX_CORR) return wrong_member("n_pol", "1 to 4", s->n_pol);
    if (s->n_channel * s->n_pol > MSI_CLEAN_MAX_PLANE)
        return wrong_member("n_channel", "such that there are at most 512 planes", s->n_channel * s->n_pol);
    if (s->search_pol >> s->n_pol) return wrong_member("search_pol", "a mask of existing polarisations", s->search_pol);
    return MSI_OK;
}

static int check_values(const msi_cleaner_spec *s)
{
    if (!(s->gain > 0 && s->gain < 2)) return wrong_member("gain", "above 0 and below 2", s->gain);
    if (!(s->border >= 0 && s->border < 0.5)) return wrong_member("border", "0 to below 0.5", s->border);
    if (s->grid_x < 1 || s->grid_x > MSI_CLEAN_MAX_GRID || s->grid_x > s->nx)
        return wrong_member("grid_x", "1 to 16 cells", s->grid_x);
    if (s->grid_y < 1 || s->grid_y > MSI_CLEAN_MAX_GRID || s->grid_y > s->ny)
        return wrong_member("grid_y", "1 to 16 cells", s->grid_y);
    if (s->n_device < 0 || s->n_device > MSI_CLEAN_MAX_DEVICE) return wrong_member("n_device", "0 to 16", s->n_device);
    if (s->psf_patch < 0) return wrong_member("psf_patch", "0 or more pixels", (double)s->psf_patch);
    if (s->list_limit < 1 || s->list_limit > (int64_t)1 << 30)
        return wrong_member("list_limit", "1 to 2^30 pixels", (double)s->list_limit);
    if (!(s->scale_bias > 0 && s->scale_bias <= 1))
        return wrong_member("scale_bias", "above 0 and at most 1", s->scale_bias);
    if (!(fabs(s->small_scale_bias) <= 1)) return wrong_member("small_scale_bias", "-1 to 1", s->small_scale_bias);
    if (!(s->scale_gain > 0 && s->scale_gain < 1))
        return wrong_member("scale_gain", "above 0 and below 1", s->scale_gain);
    if (s->shape < MSI_CLEAN_TAPERED_QUADRATIC || s->shape > MSI_CLEAN_SPHEROIDAL)
        return wrong_member("scale_shape", "a member of its enumeration", s->shape);
    if (s->scale_rule < MSI_CLEAN_BY_BEAM || s->scale_rule > MSI_CLEAN_BY_POWER)
        return wrong_member("scale_rule", "a member of its enumeration", s->scale_rule);
    if (s->fit_later && s->fit != MSI_CLEAN_FIT_POLYNOMIAL && s->fit != MSI_CLEAN_FIT_LOG)
        return wrong_member("fit_later", "0 without a polynomial or log-polynomial fit", s->fit_later);
    if (s->fit < MSI_CLEAN_FIT_NONE || s->fit > MSI_CLEAN_FIT_FORCED)
        return wrong_member("fit", "a member of its enumeration", s->fit);
    if ((s->fit == MSI_CLEAN_FIT_POLYNOMIAL || s->fit == MSI_CLEAN_FIT_LOG) &&
        (s->n_term < 1 || s->n_term > MSI_CLEAN_MAX_TERM))
        return wrong_member("n_term", "1 to 12", s->n_term);
    if (s->fit == MSI_CLEAN_FIT_LOG && s->n_term > MSI_CLEAN_LOG_TERMS)
        return wrong_member("n_term", "1 to 8 with a log-polynomial fit", s->n_term);
    return MSI_OK;
}

static void set_defaults(msi_cleaner *c)
{
    msi_cleaner_spec *s = &c->spec;
    if (!s->n_channel) s->n_channel = 1;
    if (!s->n_pol) s->n_pol = 1;
    if (!s->grid_x) s->grid_x = 1;
    if (!s->grid_y) s->grid_y = 1;
    if (!s->method) s->method = "list";
    s->gain = or_default(s->gain, 0.1);
    s->scale_bias = or_default(s->scale_bias, 0.6);
    s->scale_gain = or_default(s->scale_gain, s->scale_rule == MSI_CLEAN_BY_POWER ? 0.05 : 0.2);
    if (s->list_limit) return;
    const int64_t share = 131072 / ((int64_t)s->n_channel * s->n_pol);
    s->list_limit = share > 4096 ? share : 4096;
}

/* Copy the lists, and check their values. */
static int copy_lists(msi_cleaner *c)
{
    msi_cleaner_spec *s = &c->spec;
    const msi_clean_parts *p = &c->parts;
    double all = 0;
    if (s->fit == MSI_CLEAN_FIT_FORCED && !s->spectrum) return wrong_member("spectrum", "given for a forced fit", 0);
    for (int i = 0; i < s->n_channel; i++) {
        c->spectrum[i] = s->spectrum ? s->spectrum[i] : 1;
        if (!isfinite(c->spectrum[i])) return wrong_member("spectrum", "finite", c->spectrum[i]);
        c->correction[i] = s->correction ? s->correction[i] : 1;
        if (!(c->correction[i] > 0) || !isfinite(c->correction[i]))
            return wrong_member("correction", "finite and positive", c->correction[i]);
    }
    for (int i = 0; i < p->n; i++) {
        c->weight[p->channel[i]] += p->weight[i];
        c->freq_hz[p->channel[i]] += p->share[i] * p->freq_hz[i];
        all += p->weight[i];
    }
    if (!(all > 0) || !isfinite(all)) return wrong_member("weight", "finite and of a positive sum", all);
    for (int i = 0; i < s->n_channel; i++) c->setup.share[i] = c->weight[i] / all;
    s->weight = c->weight;
    s->freq_hz = c->freq_hz;
    s->spectrum = c->spectrum;
    if (s->correction) s->correction = c->correction;
    s->part_weight = p->weight;
    s->part_freq_hz = p->freq_hz;
    return MSI_OK;
}

static int make_fit(msi_cleaner *c)
{
    const msi_cleaner_spec *s = &c->spec;
    if (s->fit == MSI_CLEAN_FIT_NONE) return MSI_OK;
    if (!s->fit_later) c->setup.fit = c->fit;
    if (s->fit == MSI_CLEAN_FIT_FORCED) return msi_clean_forced(s->n_channel, c->setup.share, c->spectrum, c->fit);
    if (s->fit == MSI_CLEAN_FIT_LOG) msi_clean_log_nodes(c);
    return msi_clean_parts_fit(c);
}

/* Multiply the weights of searches and the residuals of components by the correction. Fits have been made with the
 * weights without it. */
static void correct_channels(msi_cleaner *c)
{
    const int n = c->spec.n_channel;
    double sum = 0;
    if (!c->spec.correction) return;
    for (int k = 0; k < n; k++)
        for (int i = 0; i < n; i++) c->fit[k * n + i] = (c->setup.fit ? c->fit[k * n + i] : k == i) * c->correction[i];
    c->setup.fit = c->fit;
    for (int i = 0; i < n; i++) sum += c->setup.share[i] * c->correction[i];
    for (int i = 0; i < n; i++) c->setup.share[i] *= c->correction[i] / sum;
}

static int choose_method(msi_cleaner *c)
{
    const msi_cleaner_spec *s = &c->spec;
    c->row = msi_clean_method_find(s->method, s->backend);
    if (!c->row)
        return msi_error_about(msi_error_set(MSI_EARGUMENT, "unknown cleaning method '%s'%s", s->method,
                                             s->backend == MSI_BACKEND_CUDA ? " on a GPU" : ""),
                               "method");
    c->method = c->row->ops;
    c->ops = c->row->engine;
    c->spec.method = c->row->name;
    c->spec.backend = c->row->backend;
    return MSI_OK;
}

void msi_clean_spec_release(msi_cleaner *c)
{
    msi_clean_parts_free(&c->parts);
}

int msi_clean_spec_set(msi_cleaner *c, const msi_cleaner_spec *spec)
{
    c->spec = *spec;
    set_defaults(c);
    MSI_TRY(check_shape(&c->spec));
    MSI_TRY(check_values(&c->spec));
    MSI_TRY(choose_method(c));
    MSI_TRY(msi_clean_parts_make(c));
    MSI_TRY(copy_lists(c));
    MSI_TRY(make_fit(c));
    correct_channels(c);
    const msi_cleaner_spec *s = &c->spec;
    c->n_plane = s->n_channel * s->n_pol;
    c->n_cell = s->grid_x * s->grid_y;
    c->middle_cell = s->grid_y / 2 * s->grid_x + s->grid_x / 2;
    c->n_pixel = s->nx * s->ny;
    c->real_bytes = s->precision == MSI_FP32 ? 4 : 8;
    c->complex_bytes = 2 * c->real_bytes;
    c->setup.nx = s->nx;
    c->setup.ny = s->ny;
    c->setup.precision = s->precision;
    c->setup.join = (msi_clean_join){
        .n_channel = s->n_channel, .n_pol = s->n_pol, .squared = s->squared_join != 0, .searched = s->search_pol};
    c->setup.join.no_negative = s->no_negative && msi_clean_signed(&c->setup.join);
    c->spec.stop_negative = s->stop_negative && msi_clean_signed(&c->setup.join);
    c->setup.cells = (msi_clean_cells){(uint32_t)s->nx, (uint32_t)s->ny, (uint32_t)s->grid_x, (uint32_t)s->grid_y};
    c->setup.list_limit = c->method->uses_lists ? s->list_limit : 0;
    c->setup.patch = s->psf_patch;
    c->setup.device = s->device;
    c->setup.n_thread = s->n_thread;
    return set_scales(c);
}

msi_clean_setup msi_clean_setup_of_plane(const msi_planes_shape *shape, int n_thread)
{
    return (msi_clean_setup){.nx = shape->nx,
                             .ny = shape->ny,
                             .precision = shape->precision,
                             .join = {.n_channel = 1, .n_pol = 1},
                             .share = {1},
                             .device = shape->device,
                             .n_thread = n_thread};
}
