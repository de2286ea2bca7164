/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/clean_options.h"

#include <math.h>
#include <string.h>

#include "core/pol.h"
#include "core/status.h"
#include "src/options/options.h"

/* Count the channels that are cleaned together. */
static int64_t n_cleaned(const msi_options *o)
{
    const int64_t n = o->clean.deconvolution_channels;
    return n ? n : o->channels_out;
}

unsigned msi_clean_options_searched(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    msi_plane planes[MSI_MAX_PLANES];
    const int n = msi_planes_of(o->pol, o->n_pol, planes);
    unsigned bits = 0;
    for (int p = 0; p < n; p++) bits |= (c->link_pols >> planes[p].pol & 1) << p;
    return bits;
}

/* Name the option by which polarisations are joined. */
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

/* Tell whether what is searched has a sign: one polarisation. */
static int has_sign(const msi_options *o)
{
    const unsigned searched = msi_clean_options_searched(o);
    return !o->clean.join_pols || (searched && !(searched & (searched - 1)));
}

/* Joined images must be several, and no more than a cleaner takes. */
static int check_joined(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    msi_plane planes[MSI_MAX_PLANES];
    const int n_plane = msi_planes_of(o->pol, o->n_pol, planes);
    const int64_t n_joined = (c->join_channels ? n_cleaned(o) : 1) * (c->join_pols ? n_plane : 1);
    if (c->join_channels && o->channels_out < 2)
        return msi_error_set(MSI_EUSAGE, "-join-channels: there is one channel; give -channels-out, or leave it out");
    if (c->join_pols && n_plane < 2)
        return msi_error_set(MSI_EUSAGE, "-%s: there is one polarisation; give several by -pol, or leave it out",
                             pol_joiner(c));
    if (c->join_pols && n_plane > MSI_MAX_CORR)
        return msi_error_set(MSI_EUSAGE, "-%s: %d images are more than the 4 that can be joined; give -pol IQUV",
                             pol_joiner(c), n_plane);
    if (n_joined > MSI_CLEAN_MAX_PLANE)
        return msi_error_set(MSI_EUSAGE, "-%s %lld: %lld images are more than the %d that can be joined%s",
                             c->deconvolution_channels ? "deconvolution-channels" : "channels-out",
                             (long long)n_cleaned(o), (long long)n_joined, MSI_CLEAN_MAX_PLANE,
                             c->deconvolution_channels || !c->join_channels ? "" : "; give -deconvolution-channels");
    if (c->squared_join && !c->join_channels)
        return msi_error_set(MSI_EUSAGE, "-squared-channel-joining: it goes with -join-channels");
    if ((c->no_negative || c->stop_negative) && !has_sign(o))
        return msi_error_set(MSI_EUSAGE, "-%s: joined polarisations are of either sign; leave it out",
                             c->no_negative ? "no-negative" : "stop-negative");
    return MSI_OK;
}

static int check_parts(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    const int64_t n = c->deconvolution_channels;
    if (!n) return MSI_OK;
    if (!c->join_channels) return msi_error_set(MSI_EUSAGE, "-deconvolution-channels: it goes with -join-channels");
    if (n > o->channels_out)
        return msi_error_set(MSI_EUSAGE, "-deconvolution-channels %lld: -channels-out %lld are fewer; ask for no more",
                             (long long)n, (long long)o->channels_out);
    if (o->channels_out > MSI_CLEAN_MAX_PART)
        return msi_error_set(MSI_EUSAGE, "-channels-out %lld: at most %d can be cleaned together",
                             (long long)o->channels_out, MSI_CLEAN_MAX_PART);
    if (n < o->channels_out && !c->fit_terms && !c->log_fit_terms)
        return msi_error_set(MSI_EUSAGE, "-deconvolution-channels: a fitted spectrum tells the values of all channels; "
                                         "give -fit-spectral-pol or -fit-spectral-log-pol");
    return MSI_OK;
}

static int check_fit(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    const int64_t n_term = c->fit_terms ? c->fit_terms : c->log_fit_terms;
    const char *name = c->fit_terms ? "fit-spectral-pol" : "fit-spectral-log-pol";
    if (!n_term) return MSI_OK;
    if (c->fit_terms && c->log_fit_terms)
        return msi_error_set(MSI_EUSAGE, "-fit-spectral-pol and -fit-spectral-log-pol: give one of them");
    if (!c->join_channels)
        return msi_error_set(MSI_EUSAGE, "-%s: a spectrum is fitted to joined channels; give -join-channels", name);
    if (n_term > n_cleaned(o))
        return msi_error_set(MSI_EUSAGE, "-%s %lld: -%s %lld has fewer values to fit; ask for no more terms", name,
                             (long long)n_term, c->deconvolution_channels ? "deconvolution-channels" : "channels-out",
                             (long long)n_cleaned(o));
    return MSI_OK;
}

/* A beam as wide as the image leaves nothing to see. */
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
    if (!c->multiscale || !c->n_scale || c->scale[c->n_scale - 1] < 0.5 * (double)edge) return MSI_OK;
    return msi_error_set(
        MSI_EUSAGE, "-multiscale-scales: a scale of %g pixels must be below half of the image's %lld; leave it out",
        c->scale[c->n_scale - 1], (long long)edge);
}

/* Only what -predict can read is predicted: models of Stokes parameters and of parallel hands. */
static int check_update(const msi_options *o)
{
    if (!msi_clean_options_updates(o)) return MSI_OK;
    for (int i = 0; i < o->n_pol; i++)
        if (o->pol[i] == MSI_POL_XY || o->pol[i] == MSI_POL_YX || o->pol[i] == MSI_POL_RL || o->pol[i] == MSI_POL_LR)
            return msi_error_set(MSI_EUSAGE,
                                 "-pol %s: MODEL_DATA is made of Stokes parameters or parallel hands; give "
                                 "-no-update-model-required",
                                 msi_pol_name(o->pol[i]));
    return MSI_OK;
}

/* The format has other Stokes parameters beside I, but no list without it. */
static int check_sources(const msi_options *o)
{
    int has_i = 0;
    for (int i = 0; i < o->n_pol; i++) has_i |= o->pol[i] == MSI_POL_I;
    if (!o->clean.save_sources || has_i) return MSI_OK;
    return msi_error_set(MSI_EUSAGE, "-save-source-list: sources are listed by Stokes I, which is not imaged; add I to "
                                     "-pol, or leave it out");
}

/* MODEL_DATA is subtracted once, and stands afterwards. */
static int check_subtracted(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    if (!o->subtract_model) return MSI_OK;
    if (o->selection.data_column && strcmp(o->selection.data_column, "MODEL_DATA") == 0)
        return msi_error_set(MSI_EUSAGE,
                             "-subtract-model: -data-column %s less itself is nothing; leave one of them out",
                             o->selection.data_column);
    if (c->continues)
        return msi_error_set(MSI_EUSAGE, "-subtract-model: -continue subtracts the models that it reads; leave one of "
                                         "them out");
    if (c->niter && c->update_model && !c->keep_model)
        return msi_error_set(MSI_EUSAGE, "-update-model-required: it would replace the MODEL_DATA that -subtract-model "
                                         "subtracts; leave one of them out");
    return MSI_OK;
}

int msi_clean_options_check(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    MSI_TRY(check_beam(o));
    MSI_TRY(check_subtracted(o));
    if (!c->niter) return MSI_OK;
    if (o->make_psf_only)
        return msi_error_set(MSI_EUSAGE, "-make-psf-only: nothing is cleaned then; leave it or -niter out");
    if (strcmp(o->gridder, "wgrid") != 0)
        return msi_error_set(MSI_EUSAGE, "-gridder %s: it makes no residuals, which -niter needs; give wgrid",
                             o->gridder);
    if (c->auto_mask > 0 && c->auto_threshold > c->auto_mask)
        return msi_error_set(MSI_EUSAGE,
                             "-auto-mask %g: it must be larger than -auto-threshold %g, down to which is "
                             "cleaned within the mask",
                             c->auto_mask, c->auto_threshold);
    if (c->multithresh && (c->join_channels || c->join_pols))
        return msi_error_set(MSI_EUSAGE, "-auto-multithresh: its masks follow one image each; leave it or -%s out",
                             c->join_channels ? "join-channels" : pol_joiner(c));
    if (c->multithresh && (c->auto_mask > 0 || c->fits_mask || c->casa_mask))
        return msi_error_set(MSI_EUSAGE, "-auto-multithresh: it makes the mask; leave -%s out",
                             c->fits_mask   ? "fits-mask"
                             : c->casa_mask ? "casa-mask"
                                            : "auto-mask");
    if (c->fits_mask && c->casa_mask)
        return msi_error_set(MSI_EUSAGE, "-casa-mask: there is one mask; leave it or -fits-mask out");
    if (c->multiscale && c->is_exact)
        return msi_error_set(MSI_EUSAGE, "-no-fast-subminor: it is for one scale; leave it or -multiscale out");
    MSI_TRY(check_scales(o));
    MSI_TRY(check_update(o));
    MSI_TRY(check_sources(o));
    MSI_TRY(check_parts(o));
    MSI_TRY(check_linked(o));
    MSI_TRY(check_joined(o));
    return check_fit(o);
}

int msi_clean_options_updates(const msi_options *o)
{
    const msi_clean_options *c = &o->clean;
    if (!c->niter || c->keep_model || o->subtract_model) return 0;
    return c->update_model || (c->mgain_given && c->mgain < 1);
}
