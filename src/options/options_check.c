/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Checks options against each other, after all are read: those of deconvolution, images, beams, facets, cubes and
 * predictions. msi_options_check calls all checks. Each check refuses the first conflict that it finds, and says what
 * to change.
 */
#include "src/options/options.h"

#include <math.h>
#include <string.h>

#include "core/units.h"
#include "core/status.h"
#include "src/options/gridder_choice.h"
#include "src/pb/pb_model.h"
#include "src/sky/stokes.h"

/* ---- Checks of deconvolution ---- */

/* Return the number of channels that are cleaned together. */
static int64_t n_cleaned_channel(const msi_options *o)
{
    const int64_t n = o->clean.deconvolution_channels;
    return n ? n : o->channels_out;
}

int msi_options_planes(const msi_options *o, msi_plane planes[MSI_MAX_PLANES])
{
    return msi_planes_of(o->pol, o->n_pol, o->clean.niter && o->clean.join_pols, planes);
}

unsigned msi_clean_options_searched_planes(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    msi_plane planes[MSI_MAX_PLANES];
    const int n = msi_options_planes(o, planes);
    unsigned bits = 0;
    for (int p = 0; p < n; p++) {
        unsigned pols = 1U << planes[p].pol;
        if (planes[p].both) pols |= 1U << msi_other_hand(planes[p].pol);
        bits |= (unsigned)((c->link_pols & pols) != 0) << p;
    }
    return bits;
}

int msi_clean_options_writes_model(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    if (!c->niter || c->keep_model || o->subtract_model) return 0;
    return c->update_model || (c->mgain_given && c->mgain < 1);
}

/* Return the name of the option that joins polarisations. */
static const char *pol_joiner(const msi_clean_options *c)
{
    return c->link_pols ? "link-polarizations" : "join-polarizations";
}

static int check_linked(const msi_options *o)
{
    unsigned missing = o->clean.link_pols;
    int pol = 0;
    for (int p = 0; p < o->n_pol; p++) missing &= ~(1U << o->pol[p]);
    if (!missing) return MSI_OK;
    while (!(missing >> pol & 1)) pol++;
    return msi_error_set(MSI_EUSAGE, "-link-polarizations: %s is not imaged; add it to -pol, or leave it out",
                         msi_pol_name((msi_pol)pol));
}

/* Return 1 if the searched image has a sign, because it is one polarisation. */
int msi_options_has_sign(const msi_options *o)
{
    const unsigned searched = msi_clean_options_searched_planes(o);
    return !o->clean.join_pols || (searched && !(searched & (searched - 1)));
}

/* Check that at least two images are joined, and not more than a cleaner allows. */
static int check_joined(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    msi_plane planes[MSI_MAX_PLANES];
    const int n_plane = msi_options_planes(o, planes);
    const int64_t n_joined = (c->join_channels ? n_cleaned_channel(o) : 1) * (c->join_pols ? n_plane : 1);
    if (c->join_channels && o->channels_out < 2)
        return msi_error_set(MSI_EUSAGE,
                             "-join-channels: there is only one channel; give -channels-out, or leave it out");
    if (c->join_pols && n_plane < 2)
        return msi_error_set(MSI_EUSAGE, "-%s: there is only one polarisation; give several with -pol, or leave it out",
                             pol_joiner(c));
    if (c->join_pols && n_plane > MSI_MAX_CORR)
        return msi_error_set(MSI_EUSAGE, "-%s: %d images are more than the 4 that can be joined; give -pol IQUV",
                             pol_joiner(c), n_plane);
    const int64_t n_channel = c->join_channels ? n_cleaned_channel(o) : 1;
    const char *name = c->deconvolution_channels ? "deconvolution-channels" : "channels-out";
    const char *advice = c->deconvolution_channels ? "" : "; give -deconvolution-channels";
    if (n_joined > MSI_CLEAN_MAX_PLANE)
        return msi_error_set(MSI_EUSAGE, "-%s %lld: %lld images are more than the %d that can be joined%s", name,
                             (long long)n_channel, (long long)n_joined, MSI_CLEAN_MAX_PLANE, advice);
    if (n_channel > MSI_CLEAN_MAX_CHANNEL)
        return msi_error_set(MSI_EUSAGE, "-%s %lld: more than the %d channels that can be joined%s", name,
                             (long long)n_channel, MSI_CLEAN_MAX_CHANNEL, advice);
    if (n_channel > MSI_CLEAN_MAX_LOG_CHANNEL && c->log_fit_terms)
        return msi_error_set(MSI_EUSAGE,
                             "-fit-spectral-log-pol: it can be fitted to at most %d channels, not to %lld; give "
                             "-deconvolution-channels, or -fit-spectral-pol",
                             MSI_CLEAN_MAX_LOG_CHANNEL, (long long)n_channel);
    if (c->no_negative && !msi_options_has_sign(o))
        return msi_error_set(MSI_EUSAGE, "-no-negative: joined polarisations have either sign; leave it out");
    return MSI_OK;
}

static int check_deconvolution_channels(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    const int64_t n = c->deconvolution_channels;
    if (!n) return MSI_OK;
    if (!c->join_channels) return msi_error_set(MSI_EUSAGE, "-deconvolution-channels: it needs -join-channels");
    if (n > o->channels_out)
        return msi_error_set(MSI_EUSAGE, "-deconvolution-channels %lld: it must not be larger than -channels-out %lld",
                             (long long)n, (long long)o->channels_out);
    if (o->channels_out > MSI_CLEAN_MAX_PART)
        return msi_error_set(MSI_EUSAGE, "-channels-out %lld: at most %d channels can be cleaned together",
                             (long long)o->channels_out, MSI_CLEAN_MAX_PART);
    if (n < o->channels_out && !c->fit_terms && !c->log_fit_terms)
        return msi_error_set(MSI_EUSAGE, "-deconvolution-channels: the values of all channels need a fitted spectrum; "
                                         "give -fit-spectral-pol or -fit-spectral-log-pol");
    return MSI_OK;
}

static int check_spectral_fit(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    const int64_t n_term = c->fit_terms ? c->fit_terms : c->log_fit_terms;
    const char *name = c->fit_terms ? "fit-spectral-pol" : "fit-spectral-log-pol";
    if (c->force_spectrum && c->log_fit_terms < 2)
        return msi_error_set(MSI_EUSAGE,
                             "-force-spectrum: it gives the terms of a logarithmic spectrum after the first; "
                             "give -fit-spectral-log-pol with one term more than the file has planes");
    if (!n_term) return MSI_OK;
    if (c->fit_terms && c->log_fit_terms)
        return msi_error_set(MSI_EUSAGE, "-fit-spectral-pol and -fit-spectral-log-pol: give one of them");
    if (!c->join_channels)
        return msi_error_set(MSI_EUSAGE, "-%s: a spectrum is fitted to joined channels; give -join-channels", name);
    if (n_term > n_cleaned_channel(o))
        return msi_error_set(MSI_EUSAGE, "-%s %lld: -%s %lld has fewer values to fit; give fewer terms", name,
                             (long long)n_term, c->deconvolution_channels ? "deconvolution-channels" : "channels-out",
                             (long long)n_cleaned_channel(o));
    return MSI_OK;
}

/* Return the name of an option that Taylor terms exclude, NULL if none is given. */
static const char *excluded_by_taylor(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    return o->channels_out > 1 ? "channels-out"
           : c->fit_terms      ? "fit-spectral-pol"
           : c->log_fit_terms  ? "fit-spectral-log-pol"
           : c->n_correction   ? "spectral-correction"
           : c->reuse_psf      ? "reuse-psf"
           : c->reuse_dirty    ? "reuse-dirty"
           : o->save_uv        ? "save-uv"
           : o->pb.grid        ? "grid-with-beam"
           : o->pb.apply       ? "apply-primary-beam"
           : o->pb.reuse       ? "reuse-primary-beam"
                               : NULL;
}

static int check_taylor(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    const int is_mtmfs = c->deconvolver == MSI_DECONVOLVER_MTMFS;
    if (!is_mtmfs && (c->n_taylor || c->reference_hz > 0))
        return msi_error_set(MSI_EUSAGE, "-%s: it needs -deconvolver mtmfs", c->n_taylor ? "nterms" : "reffreq");
    if (!c->n_taylor) return MSI_OK;
    if (!c->niter)
        return msi_error_set(MSI_EUSAGE, "-deconvolver mtmfs: images of terms are made by cleaning only; give -niter");
    const char *other = excluded_by_taylor(o);
    if (other)
        return msi_error_set(MSI_EUSAGE,
                             "-%s: it cannot be used with the Taylor terms of -deconvolver mtmfs; leave it out", other);
    return MSI_OK;
}

/* Refuse a beam that is wider than the image, which is a mistake. */
static int check_beam(const msi_options *o)
{
    const msi_beam *b = &o->clean.beam.given;
    const double deg = 180 / MSI_PI, width = (double)o->geometry.nx * o->geometry.cell_x_rad,
                 height = (double)o->geometry.ny * o->geometry.cell_y_rad;
    if (b->major_rad <= fmin(width, height)) return MSI_OK;
    return msi_error_set(MSI_EUSAGE, "-beam-%s: a beam of %.4g degrees is wider than the image of %.4g x %.4g degrees",
                         b->major_rad > b->minor_rad ? "shape" : "size", b->major_rad * deg, width * deg, height * deg);
}

static int check_scales(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    const int64_t edge = o->geometry.nx < o->geometry.ny ? o->geometry.nx : o->geometry.ny;
    if (c->multiscale && c->no_points && c->scale_rule == MSI_CLEAN_BY_POWER)
        return msi_error_set(MSI_EUSAGE,
                             "-multiscale-rule tclean: its thresholds are of points; -multiscale-scales must "
                             "begin with 0");
    if (!c->multiscale || !c->n_scale || c->scale[c->n_scale - 1] < 0.5 * (double)edge) return MSI_OK;
    return msi_error_set(
        MSI_EUSAGE,
        "-multiscale-scales: the scale of %g pixels must be below half of the image's %lld pixels; leave it out",
        c->scale[c->n_scale - 1], (long long)edge);
}

/* Check the list of sources: it can have other Stokes parameters together with I, but not without I. */
static int check_sources(const msi_options *o)
{
    int has_i = 0;
    for (int i = 0; i < o->n_pol; i++) has_i |= o->pol[i] == MSI_POL_I;
    if (!o->clean.save_sources || has_i) return MSI_OK;
    return msi_error_set(MSI_EUSAGE, "-save-source-list: the list needs Stokes I, which is not imaged; add I to -pol, "
                                     "or leave it out");
}

/* MODEL_DATA is the sum of all models, so no flux may be in two of them. */
static int check_model_pols(const msi_options *o)
{
    for (int i = 0; i < o->n_pol && msi_clean_options_writes_model(o); i++)
        for (int k = 0; k < i; k++)
            if (msi_pols_share_flux(o->pol[k], o->pol[i]))
                return msi_error_set(MSI_EUSAGE,
                                     "-pol: models of %s and of %s share flux, and MODEL_DATA would have it twice; use "
                                     "-no-update-model-required to run without it",
                                     msi_pol_name(o->pol[k]), msi_pol_name(o->pol[i]));
    return MSI_OK;
}

/* MODEL_DATA must be subtracted only once, and must not change during the run. */
static int check_subtract_model(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    const char *model = o->model_column ? o->model_column : "MODEL_DATA";
    if (!o->subtract_model) return MSI_OK;
    if (o->selection.data_column && strcmp(o->selection.data_column, model) == 0)
        return msi_error_set(MSI_EUSAGE,
                             "-subtract-model: it would subtract -data-column %s from itself; leave one of them out",
                             o->selection.data_column);
    if (c->continues)
        return msi_error_set(MSI_EUSAGE, "-subtract-model: -continue also subtracts a model; leave one of them out");
    if (c->niter && c->update_model && !c->keep_model)
        return msi_error_set(MSI_EUSAGE, "-update-model-required: it would replace the column that -subtract-model "
                                         "subtracts; leave one of them out");
    return MSI_OK;
}

/* The options that name a mask. */
static const struct {
    const char *name;
    size_t offset;
} MASKS[] = {{"fits-mask", offsetof(msi_clean_options, fits_mask)},
             {"casa-mask", offsetof(msi_clean_options, casa_mask)},
             {"region-mask", offsetof(msi_clean_options, region_mask)},
             {"mask", offsetof(msi_clean_options, any_mask)}};
enum { N_MASK = sizeof MASKS / sizeof *MASKS };

static const char *mask_of(const msi_clean_options *c, int i)
{
    const char *path;
    memcpy(&path, (const char *)c + MASKS[i].offset, sizeof path);
    return path;
}

const char *msi_clean_options_mask(const msi_clean_options *c, const char **option)
{
    for (int i = 0; i < N_MASK; i++) {
        *option = MASKS[i].name;
        if (mask_of(c, i)) return mask_of(c, i);
    }
    *option = NULL;
    return NULL;
}

static int check_masks(const msi_clean_options *c)
{
    const char *first;
    const int is_given = msi_clean_options_mask(c, &first) != NULL;
    if (c->multithresh && (msi_clean_options_makes_mask(c) || is_given || c->has_horizon))
        return msi_error_set(MSI_EUSAGE, "-auto-multithresh: it makes the mask; leave -%s out",
                             is_given           ? first
                             : c->has_horizon   ? "horizon-mask"
                             : c->auto_mask > 0 ? "auto-mask"
                                                : "abs-auto-mask");
    if (c->scale_mask && !c->multiscale)
        return msi_error_set(MSI_EUSAGE, "-multiscale-fits-mask: it needs -multiscale; without scales give -fits-mask");
    for (int i = 0; i < N_MASK; i++)
        if (mask_of(c, i) && strcmp(MASKS[i].name, first) != 0)
            return msi_error_set(MSI_EUSAGE, "-%s: only one mask can be given; leave it or -%s out", MASKS[i].name,
                                 first);
    return MSI_OK;
}

/* Check the options of deconvolution against each other. Returns: 0, MSI_EUSAGE */
static int clean_options_check(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    MSI_TRY(check_beam(o));
    MSI_TRY(check_subtract_model(o));
    MSI_TRY(check_taylor(o));
    if (!c->niter) return MSI_OK;
    if (o->geometry.nx > MSI_CLEAN_MAX_SIZE || o->geometry.ny > MSI_CLEAN_MAX_SIZE)
        return msi_error_set(MSI_EUSAGE, "-size %lld %lld: with -niter, width and height can be at most %d pixels",
                             (long long)o->geometry.nx, (long long)o->geometry.ny, MSI_CLEAN_MAX_SIZE / 2 * 2);
    if (o->make_psf_only)
        return msi_error_set(MSI_EUSAGE, "-make-psf-only: it cannot be used with -niter; leave one of them out");
    if (strcmp(o->gridder, "wgrid") != 0)
        return msi_error_set(MSI_EUSAGE, "-gridder %s: it cannot make the residuals that -niter needs; give wgrid",
                             o->gridder);
    if (c->auto_mask > 0 && c->auto_threshold > c->auto_mask)
        return msi_error_set(MSI_EUSAGE,
                             "-auto-mask %g: it must not be smaller than -auto-threshold %g, to which the mask "
                             "is cleaned",
                             c->auto_mask, c->auto_threshold);
    if (c->auto_mask_jy > 0 && c->threshold_jy > c->auto_mask_jy)
        return msi_error_set(
            MSI_EUSAGE, "-abs-auto-mask %g: it must not be smaller than -threshold %g, to which the mask is cleaned",
            c->auto_mask_jy, c->threshold_jy);
    if (c->force_mask_rounds && !msi_clean_options_makes_mask(c))
        return msi_error_set(MSI_EUSAGE, "-force-mask-rounds: it needs -auto-mask, whose mask it builds");
    if (c->previous_mask && !msi_clean_options_makes_mask(c))
        return msi_error_set(MSI_EUSAGE, "-previous-mask: it needs -auto-mask, whose mask it begins");
    if (c->previous_mask && (c->join_channels || (o->channels_out < 2 && !o->cube.is_cube)))
        return msi_error_set(MSI_EUSAGE, "-previous-mask: it needs channels that are cleaned apart; %s",
                             c->join_channels ? "leave -join-channels out" : "give -channels-out or -cube");
    if (c->multithresh && (c->join_channels || c->join_pols))
        return msi_error_set(MSI_EUSAGE, "-auto-multithresh: it cannot be used with joined images; leave it or -%s out",
                             c->join_channels ? "join-channels" : pol_joiner(c));
    MSI_TRY(check_masks(c));
    if (c->multiscale && c->is_exact)
        return msi_error_set(MSI_EUSAGE,
                             "-no-fast-subminor: it cannot be used with -multiscale; leave one of them out");
    MSI_TRY(check_scales(o));
    MSI_TRY(check_sources(o));
    MSI_TRY(check_model_pols(o));
    MSI_TRY(check_deconvolution_channels(o));
    MSI_TRY(check_linked(o));
    MSI_TRY(check_joined(o));
    return check_spectral_fit(o);
}

/* ---- Checks of the whole command line ---- */

int msi_options_check_selection(const msi_ms_selection *s)
{
    if (s->max_uv_lambda > 0 && s->min_uv_lambda >= s->max_uv_lambda)
        return msi_error_set(MSI_EUSAGE, "-minuv-l %g: it must be smaller than -maxuv-l %g", s->min_uv_lambda,
                             s->max_uv_lambda);
    if (s->max_uvw_m > 0 && s->min_uvw_m >= s->max_uvw_m)
        return msi_error_set(MSI_EUSAGE, "-minuvw-m %g: it must be smaller than -maxuvw-m %g", s->min_uvw_m,
                             s->max_uvw_m);
    return MSI_OK;
}

/* Check the tapers against the limits of uv distances and the size of pixels. */
static int check_tapers(const msi_options *o)
{
    const msi_uv_taper *t = &o->weighting.taper;
    const msi_ms_selection *s = &o->selection;
    const double edge = 0.5 / fmax(o->geometry.cell_x_rad, o->geometry.cell_y_rad);
    if (t->outer_tukey > 0 && !(s->max_uv_lambda > 0))
        return msi_error_set(MSI_EUSAGE,
                             "-taper-tukey %g: it needs -maxuv-l, the uv distance at which weights become 0",
                             t->outer_tukey);
    if (t->outer_tukey > 0 && t->outer_tukey > s->max_uv_lambda)
        return msi_error_set(MSI_EUSAGE, "-taper-tukey %g: it must not be larger than -maxuv-l %g", t->outer_tukey,
                             s->max_uv_lambda);
    if (t->inner_tukey > 0 && s->max_uv_lambda > 0 && s->min_uv_lambda + t->inner_tukey > s->max_uv_lambda)
        return msi_error_set(MSI_EUSAGE, "-taper-inner-tukey %g: it ends at %g wavelengths, beyond -maxuv-l %g",
                             t->inner_tukey, s->min_uv_lambda + t->inner_tukey, s->max_uv_lambda);
    if (t->edge_lambda + t->edge_tukey >= edge)
        return msi_error_set(MSI_EUSAGE,
                             "-taper-edge%s %g: it takes the whole uv plane, whose edge is at %.6g wavelengths with "
                             "these pixels; give less",
                             t->edge_tukey > 0 ? "-tukey" : "", t->edge_tukey > 0 ? t->edge_tukey : t->edge_lambda,
                             edge);
    return MSI_OK;
}

int msi_options_has_gains(const msi_options *o)
{
    return o->facets.files || o->facets.beam || o->facets.aterms;
}

int msi_options_has_facets(const msi_options *o)
{
    /* Without solutions and beams, the PSF alone does not depend on facets. */
    const msi_facet_options *f = &o->facets;
    return f->aterms || ((f->regions || f->automatic) && (!o->make_psf_only || f->files || f->beam));
}

static int check_mosaic(const msi_options *o)
{
    const char *other = o->pb.grid                  ? "grid-with-beam"
                        : o->pb.reuse               ? "reuse-primary-beam"
                        : o->save_uv                ? "save-uv"
                        : msi_options_has_facets(o) ? "facet-.."
                        : o->clean.reuse_psf        ? "reuse-psf"
                        : o->clean.reuse_dirty      ? "reuse-dirty"
                                                    : NULL;
    if (other) return msi_error_set(MSI_EUSAGE, "-mosaic: it cannot be used with -%s; leave one of them out", other);
    if (o->clean.psf_grid[0] && o->clean.n_taylor)
        return msi_error_set(MSI_EUSAGE,
                             "-mosaic: Taylor terms have one PSF; leave -dd-psf-grid out, or -deconvolver mtmfs");
    if (strcmp(o->gridder, "wgrid") != 0)
        return msi_error_set(MSI_EUSAGE, "-gridder %s: it cannot make mosaics; give wgrid, or leave -mosaic out",
                             o->gridder);
    if (o->intervals_out > 1 && !o->shift_set)
        return msi_error_set(MSI_EUSAGE,
                             "-mosaic: intervals see other pointings, so their mean direction differs; give "
                             "the centre with -shift RA DEC");
    return MSI_OK;
}

static int check_primary_beam(const msi_options *o)
{
    const msi_pb_options *p = &o->pb;
    const char *wanted = p->mosaic     ? "mosaic"
                         : p->apply    ? "apply-primary-beam"
                         : p->correct  ? "pbcor"
                         : p->mask > 0 ? "pbmask"
                                       : NULL;
    if (p->model) MSI_TRY(msi_pb_model_check(p->model));
    if (wanted && p->model && strcmp(p->model, "off") == 0)
        return msi_error_set(MSI_EUSAGE, "-%s: -pb off names no primary beam; leave one of them out", wanted);
    if (p->reuse && !p->apply) return msi_error_set(MSI_EUSAGE, "-reuse-primary-beam: it needs -apply-primary-beam");
    for (int i = 0; (p->grid || p->mosaic) && i < o->n_pol; i++)
        if (msi_is_cross_hand(o->pol[i]) || (o->pol[i] > MSI_POL_V) != (o->pol[0] > MSI_POL_V))
            return msi_error_set(MSI_EUSAGE, "-%s: it cannot %s %s%s%s; give -pol IQUV instead",
                                 p->mosaic ? "mosaic" : "grid-with-beam", p->mosaic ? "join" : "clean",
                                 i ? msi_pol_name(o->pol[0]) : "", i ? " with " : "", msi_pol_name(o->pol[i]));
    if (p->mosaic) MSI_TRY(check_mosaic(o));
    if (p->grid && p->reuse)
        return msi_error_set(MSI_EUSAGE, "-grid-with-beam: it needs a model of the beam, not -reuse-primary-beam");
    if (p->save_psf && !p->apply) return msi_error_set(MSI_EUSAGE, "-save-psf-pb: it needs -apply-primary-beam");
    if (p->mask > 0 && !o->clean.niter) return msi_error_set(MSI_EUSAGE, "-pbmask: it needs -niter");
    const int is_auto = !p->model || strcmp(p->model, "auto") == 0;
    for (int i = 0; (wanted || o->facets.beam) && is_auto && !p->reuse && i < o->n_wsclean; i++)
        if (strcmp(o->wsclean[i]->name, "mwa-path") == 0)
            return msi_error_set(MSI_EINPUT,
                                 "-mwa-path: beams of full embedded elements are made by 'python -m msimage.beam SET "
                                 "-name FILE.fits -mwa-path FILE ..': give them by -pb FILE.fits; without them give "
                                 "-pb mwa-analytic");
    return MSI_OK;
}

int msi_options_check_facets(const msi_options *o)
{
    const msi_facet_options *f = &o->facets;
    const char *option = f->regions ? "facet-regions" : f->automatic ? "facet-auto" : f->aterms ? "aterm-config" : NULL;
    if (f->regions && f->automatic)
        return msi_error_set(MSI_EUSAGE, "-facet-regions and -facet-auto: give one of them");
    if (f->aterms && (f->regions || f->automatic || f->files))
        return msi_error_set(MSI_EUSAGE, "-aterm-config: it makes its own facets; leave -%s out",
                             f->regions || f->automatic ? option : "apply-facet-solutions");
    const char *applied = f->files    ? "apply-facet-solutions"
                          : f->aterms ? "aterm-config"
                          : f->beam   ? "apply-facet-beam"
                                      : NULL;
    if (applied && !option)
        return msi_error_set(MSI_EUSAGE, "-%s: it needs facets; give -facet-regions FILE or -facet-auto N", applied);
    if (!option) return MSI_OK;
    if (o->pb.grid) return msi_error_set(MSI_EUSAGE, "-grid-with-beam: it cannot be used with -%s yet", option);
    if (o->cube.is_cube || o->cube.continuum.is_set)
        return msi_error_set(MSI_EUSAGE, "-%s: it cannot be used with -%s yet; leave one of them out",
                             o->cube.is_cube ? "cube" : "uvcontsub", option);
    if (f->scalar && f->diagonal)
        return msi_error_set(MSI_EUSAGE, "-scalar-visibilities and -diagonal-visibilities: give one of them");
    if (strcmp(o->gridder, "wgrid") != 0)
        return msi_error_set(MSI_EUSAGE, "-gridder %s: it cannot make facets; give wgrid, or leave -%s out", o->gridder,
                             option);
    if (f->beam && o->pb.model && strcmp(o->pb.model, "off") == 0)
        return msi_error_set(MSI_EUSAGE, "-pb off: %s needs a primary beam; leave one of them out",
                             f->aterms ? "the beam of a-terms" : "-apply-facet-beam");
    if (o->predict && applied && o->model_interpolation != MSI_MODEL_NEAREST)
        return msi_error_set(MSI_EUSAGE, "-model-interpolation linear: it cannot be used with -%s; leave it out",
                             applied);
    if (o->predict && f->files && !f->beam && o->pb.model && strcmp(o->pb.model, "off") != 0)
        return msi_error_set(MSI_EUSAGE, "-pb: it cannot be used with -predict and -apply-facet-solutions; give "
                                         "-apply-facet-beam too, or leave it out");
    if (o->make_psf_only && applied)
        return msi_error_set(MSI_EUSAGE, "-make-psf-only: it makes the PSF without -%s; leave that out", applied);
    if (applied && (o->pb.apply || o->pb.correct))
        return msi_error_set(MSI_EUSAGE, "-%s: it cannot be used with -%s; leave one of them out%s",
                             o->pb.apply ? "apply-primary-beam" : "pbcor", applied,
                             f->beam     ? ""
                             : f->aterms ? ", or give -grid-with-beam instead"
                                         : ", or give -apply-facet-beam instead");
    return MSI_OK;
}

static int check_cube(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    const msi_cube_request *q = &o->cube.grid;
    const int is_given = q->start.unit || q->width.unit || q->n_plane;
    if (!o->cube.is_cube && (is_given || (q->frame && o->like != MSI_PEER_TCLEAN)))
        return msi_error_set(MSI_EUSAGE, "-%s: it needs -cube",
                             q->start.unit   ? "cube-start"
                             : q->width.unit ? "cube-width"
                             : q->n_plane    ? "cube-nchan"
                                             : "frame");
    if (o->cube.continuum.n_range && !o->cube.continuum.is_set)
        return msi_error_set(MSI_EUSAGE, "-fit-channels: it needs -uvcontsub");
    if (!o->cube.is_cube && o->cube.restoring_beam) return msi_error_set(MSI_EUSAGE, "-restoring-beam: it needs -cube");
    if (!o->cube.is_cube) return MSI_OK;
    if (o->cube.restoring_beam && msi_beam_known(&c->beam.given))
        return msi_error_set(MSI_EUSAGE, "-restoring-beam: -beam-shape and -beam-size give the beam; leave it out");
    if (msi_cube_request_is_made(q) && o->channels_out > 1)
        return msi_error_set(MSI_EUSAGE,
                             "-channels-out: planes of -frame and -cube-.. are counted by -cube-nchan; leave "
                             "it out");
    if ((q->start.unit == MSI_SPECTRAL_M_S || q->width.unit == MSI_SPECTRAL_M_S) && !q->frame)
        return msi_error_set(MSI_EUSAGE, "-cube-%s: a velocity needs its frame; give -frame LSRK or another",
                             q->start.unit == MSI_SPECTRAL_M_S ? "start" : "width");
    if (q->start.unit == MSI_SPECTRAL_CHANNEL && q->start.value < 0)
        return msi_error_set(MSI_EUSAGE, "-cube-start %.0f: channels are counted from 0", q->start.value);
    const char *other = o->save_weights                  ? "save-weights"
                        : o->save_uv                     ? "save-uv"
                        : o->pb.reuse                    ? "reuse-primary-beam"
                        : c->niter && c->continues       ? "continue"
                        : c->niter && c->reuse_psf       ? "reuse-psf"
                        : c->niter && c->reuse_dirty     ? "reuse-dirty"
                        : c->niter && c->force_spectrum  ? "force-spectrum"
                        : c->niter && c->local_rms_image ? "local-rms-image"
                                                         : NULL;
    if (other) return msi_error_set(MSI_EUSAGE, "-%s: it needs a file for each channel; leave it or -cube out", other);
    if (c->niter && c->n_taylor)
        return msi_error_set(MSI_EUSAGE, "-nterms: Taylor terms are of a band; leave them or -cube out");
    if (msi_clean_options_writes_model(o))
        return msi_error_set(MSI_EUSAGE, "-cube: MODEL_DATA is not predicted from cubes; give "
                                         "-no-update-model-required, or leave -cube out");
    return MSI_OK;
}

static int check_imaging(const msi_options *o)
{
    const msi_image_geometry *g = &o->geometry;
    if (o->only_predict)
        return msi_error_set(MSI_EUSAGE, "-%s: it needs -predict%s", o->only_predict,
                             strcmp(o->only_predict, "force") == 0 ? "; to replace existing files give -overwrite"
                                                                   : "");
    if (!g->nx)
        return msi_error_set(MSI_EUSAGE, "-size: it is missing; give the size of the image, such as -size 2048 2048");
    if (!(g->cell_x_rad > 0))
        return msi_error_set(MSI_EUSAGE, "-scale: it is missing; give the size of a pixel, such as -scale 2asec");
    int64_t longer = g->nx > g->ny ? g->nx : g->ny;
    double cell_deg = g->cell_x_rad * 180 / MSI_PI, span_deg = (double)longer * cell_deg;
    /* Pixels beyond the horizon are NaN, which is not an error. But if pixels are this coarse, the unit of the scale is
     * probably wrong. The memory plan reports images that are too large. */
    if (span_deg > 180 && o->bare_scale)
        return msi_error_set(MSI_EUSAGE,
                             "-scale %s is %s degrees: %lld pixels span %.6g degrees, more than half the sky; %sasec?",
                             o->bare_scale, o->bare_scale, (long long)longer, span_deg, o->bare_scale);
    if (span_deg > 180 && cell_deg > 1)
        return msi_error_set(
            MSI_EUSAGE, "-scale: %lld pixels of %.6gdeg span %.6gdeg, more than half the sky; give a smaller scale",
            (long long)longer, cell_deg, span_deg);
    if (o->weighting.rank_level > 0 && o->weighting.rank_level < 1)
        return msi_error_set(
            MSI_EUSAGE,
            "-weighting-rank-filter %g: a limit below the mean would lower ordinary weights; give 1 or "
            "more, or 0 for no limit",
            o->weighting.rank_level);
    const msi_ms_selection *s = &o->selection;
    MSI_TRY(msi_options_check_selection(s));
    MSI_TRY(check_tapers(o));
    MSI_TRY(check_primary_beam(o));
    MSI_TRY(check_cube(o));
    if (o->bandwidth_taper && o->channels_out < 2 && !o->cube.is_cube)
        return msi_error_set(MSI_EUSAGE,
                             "-weight briggsbwtaper: it is for channel images; give -channels-out, or "
                             "-weight briggs %g",
                             o->weighting.robust);
    if (o->bandwidth_taper && o->weighting.rank_level > 0 && !o->like)
        return msi_error_set(MSI_EUSAGE, "-weighting-rank-filter: it cannot be used with -weight briggsbwtaper; leave "
                                         "one of them out");
    if (o->channels_out <= o->division.n_split)
        return msi_error_set(MSI_EUSAGE,
                             "-channel-division-frequencies: %lld frequenc%s %lld parts; give "
                             "-channels-out %lld or more",
                             (long long)o->division.n_split, o->division.n_split == 1 ? "y gives" : "ies give",
                             (long long)o->division.n_split + 1, (long long)o->division.n_split + 1);
    if (s->channel_end > 0 && o->channels_out > s->channel_end - s->channel_begin)
        return msi_error_set(MSI_EUSAGE, "-channels-out %lld: -channel-range selects only %lld channel%s",
                             (long long)o->channels_out, (long long)(s->channel_end - s->channel_begin),
                             msi_plural(s->channel_end - s->channel_begin));
    if (s->interval_end > 0 && o->intervals_out > s->interval_end - s->interval_begin)
        return msi_error_set(MSI_EUSAGE, "-intervals-out %lld: -interval selects only %lld time step%s",
                             (long long)o->intervals_out, (long long)(s->interval_end - s->interval_begin),
                             msi_plural(s->interval_end - s->interval_begin));
    return MSI_OK;
}

static int check_predict(const msi_options *o)
{
    const char *input = o->selection.data_column;
    if (o->only_imaging)
        return msi_error_set(MSI_EUSAGE, "-%s: it cannot be used with -predict; leave it out", o->only_imaging);
    if (o->pb.model) MSI_TRY(msi_pb_model_check(o->pb.model));
    if (o->predict_op == MSI_MS_WRITE_REPLACE) {
        if (o->output_column)
            return msi_error_set(
                MSI_EUSAGE,
                "-output-column %s: it needs -predict-op add or subtract; to replace a column, give -model-column",
                o->output_column);
        if (input)
            return msi_error_set(MSI_EUSAGE,
                                 "-data-column %s: -predict-op replace does not read it; to replace a column, give "
                                 "-model-column",
                                 input);
        return MSI_OK;
    }
    const char *op = o->predict_op == MSI_MS_WRITE_ADD ? "add" : "subtract";
    if (!o->output_column)
        return msi_error_set(MSI_EUSAGE, "-predict-op %s: the column to write is missing; give -output-column NAME",
                             op);
    if (o->model_column)
        return msi_error_set(MSI_EUSAGE, "-model-column %s: -predict-op %s writes only -output-column; leave it out",
                             o->model_column, op);
    if (input && strcmp(input, o->output_column) == 0)
        return msi_error_set(
            MSI_EUSAGE,
            "-output-column %s: it is also the -data-column; give another one, so that an interrupted run can be "
            "repeated",
            o->output_column);
    return MSI_OK;
}

static int check_restore(const msi_options *o)
{
    const char *name = o->restore.is_list ? "restore-list" : "restore";
    if (o->n_ms)
        return msi_error_set(MSI_EUSAGE, "-%s: it does not read Measurement Sets; leave %s out", name, o->ms_paths[0]);
    if (!o->not_restore) return MSI_OK;
    return msi_error_set(MSI_EUSAGE, "-%s: it cannot be used with -%s; leave it out", o->not_restore, name);
}

static int check_draw(const msi_options *o)
{
    const msi_draw_options *d = &o->draw;
    if (o->not_draw)
        return msi_error_set(MSI_EUSAGE, "-%s: it cannot be used with -draw-model; leave it out", o->not_draw);
    if (!d->has_centre && !o->n_ms)
        return msi_error_set(MSI_EUSAGE, "-draw-model: the centre of the images is missing; give -draw-centre RA DEC, "
                                         "or a Measurement Set whose phase centre is to be taken");
    if (!o->geometry.nx || !(o->geometry.cell_x_rad > 0))
        return msi_error_set(MSI_EUSAGE, "-draw-model: the images' pixels are missing; give -size and -scale");
    if (!(d->freq_hz > 0))
        return msi_error_set(MSI_EUSAGE,
                             "-draw-model: the band is missing; give -draw-frequencies CENTRE WIDTH, in Hz");
    if (d->n_term > 1 && !(d->bandwidth_hz > 0))
        return msi_error_set(MSI_EUSAGE, "-draw-frequencies: spectral terms need a band wider than 0");
    return MSI_OK;
}

int msi_options_check(const msi_options *o)
{
    if (o->restore.residual && o->draw.list)
        return msi_error_set(MSI_EUSAGE, "-restore and -draw-model: give only one of them");
    if (o->restore.residual) return check_restore(o);
    if (o->draw.list) return check_draw(o);
    if (o->only_draw) return msi_error_set(MSI_EUSAGE, "-%s: it needs -draw-model LIST; leave it out", o->only_draw);
    MSI_TRY(o->predict ? check_predict(o) : check_imaging(o));
    MSI_TRY(msi_options_check_facets(o));
    if (!o->predict) MSI_TRY(clean_options_check(o));
    MSI_TRY(msi_gridder_choice_check(o));
    if (o->backend == MSI_BACKEND_CPU && (o->gpus.kind == MSI_GPUS_COUNT || o->gpus.kind == MSI_GPUS_LIST))
        return msi_error_set(MSI_EUSAGE, "-gpus: it cannot be used with -backend cpu; leave one of them out");
    if (o->precision == MSI_PRECISION_FP32 && o->accuracy > 0 && o->accuracy < 1e-6)
        return msi_error_set(MSI_EUSAGE, "-precision fp32: it reaches an -accuracy of 1e-6, not %g; give fp64 or auto",
                             o->accuracy);
    return MSI_OK;
}
