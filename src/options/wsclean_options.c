/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/wsclean_options.h"

#include <string.h>

#include "core/status.h"

#define SAME(option)                                                                                                   \
    {                                                                                                                  \
        .name = (option), .is = MSI_WSCLEAN_SAME                                                                       \
    }
#define ACCEPTED(option, n, reason)                                                                                    \
    {                                                                                                                  \
        .name = (option), .is = MSI_WSCLEAN_ACCEPTED, .n_argument = (n), .why = (reason)                               \
    }
#define ACCEPTED_AS(option, only, reason, other)                                                                       \
    {                                                                                                                  \
        .name = (option), .is = MSI_WSCLEAN_ACCEPTED, .n_argument = 1, .why = (reason), .value = (only),               \
        .else_why = (other)                                                                                            \
    }
#define MAPPED(option, n, row)                                                                                         \
    {                                                                                                                  \
        .name = (option), .is = MSI_WSCLEAN_MAPPED, .n_argument = (n), .own = (row)                                    \
    }
#define REFUSED(option, n, reason)                                                                                     \
    {                                                                                                                  \
        .name = (option), .is = MSI_WSCLEAN_REFUSED, .n_argument = (n), .why = (reason)                                \
    }

#define OTHER_METHOD "CLEAN is the only method; use -multiscale for extended sources"
#define PRIMARY_BEAM "primary beams are not supported yet; correct the finished image for the beam"
#define ATERMS       "a-terms are not supported yet; apply direction-independent corrections to the data first"
#define DRAWN        "models are not drawn; use -restore-list to draw a list of sources onto a residual"
#define FACETS       "facets are not supported, and not needed for the w term; apply solutions to the data first"

/* The rows are ordered by subject. */
const msi_wsclean_option msi_wsclean_table[] = {
    SAME("version"),
    SAME("j"),
    SAME("mem"),
    SAME("abs-mem"),
    SAME("verbose"),
    SAME("v"),
    SAME("log-time"),
    SAME("quiet"),
    SAME("temp-dir"),
    SAME("save-weights"),
    SAME("save-uv"),
    SAME("dry-run"),
    SAME("weight"),
    SAME("super-weight"),
    SAME("mf-weighting"),
    SAME("no-mf-weighting"),
    SAME("taper-gaussian"),
    SAME("name"),
    SAME("size"),
    SAME("padding"),
    SAME("scale"),
    SAME("predict"),
    SAME("channels-out"),
    SAME("shift"),
    SAME("make-psf"),
    SAME("make-psf-only"),
    SAME("pol"),
    SAME("interval"),
    SAME("intervals-out"),
    SAME("channel-range"),
    SAME("field"),
    SAME("spws"),
    SAME("data-column"),
    SAME("maxuvw-m"),
    SAME("minuvw-m"),
    SAME("maxuv-l"),
    SAME("minuv-l"),

    /* Speed and order of reading. */
    ACCEPTED("parallel-gridding", 1, "the gridder always uses all threads (-j)"),
    ACCEPTED("parallel-reordering", 1, "samples are sorted by all threads (-j)"),
    ACCEPTED("no-work-on-master", 0, "there are no other hosts that could do the work"),
    ACCEPTED("reorder", 0, "the gridder sorts samples itself; sets are not reordered"),
    ACCEPTED("no-reorder", 0, "the gridder sorts samples itself; sets are not reordered"),
    MAPPED("wgridder-accuracy", 1, "accuracy"),
    ACCEPTED("use-wgridder", 0, "the default gridder is a w-gridder"),
    ACCEPTED("use-idg", 0, "the default gridder reaches -accuracy without it"),
    ACCEPTED("idg-mode", 1, "-backend selects the device"),
    ACCEPTED("nwlayers", 1, "the number of w-planes follows from -accuracy"),
    ACCEPTED("nwlayers-factor", 1, "the number of w-planes follows from -accuracy"),
    ACCEPTED("nwlayers-for-size", 2, "the number of w-planes follows from -accuracy"),
    ACCEPTED("small-inversion", 0, "the grid's size follows from -accuracy and -padding"),
    ACCEPTED("no-small-inversion", 0, "the grid's size follows from -accuracy and -padding"),
    ACCEPTED_AS("grid-mode", "kb", "the window follows from -accuracy",
                "the window follows from -accuracy, and a larger -accuracy is faster; omit the option"),
    ACCEPTED("kernel-size", 1, "the window's width follows from -accuracy"),
    ACCEPTED("oversampling", 1, "the window is as accurate as -accuracy requires"),
    REFUSED("direct-ft", 0,
            "there is no direct Fourier sum; -accuracy 1e-12 is as close to it as double precision allows"),

    /* Output. */
    SAME("no-update-model-required"),
    SAME("update-model-required"),
    REFUSED("store-imaging-weights", 0,
            "imaging does not write into sets; use -save-weights to write the gridded weights as FITS"),
    SAME("reuse-psf"),
    SAME("reuse-dirty"),

    /* Weights and samples. */
    SAME("visibility-weighting-mode"),
    REFUSED("no-normalize-for-weighting", 0,
            "images are divided by the sum of weights; multiply by WSCIMGWG of the header to undo it"),
    SAME("weighting-rank-filter"),
    SAME("weighting-rank-filter-size"),
    SAME("taper-tukey"),
    SAME("taper-inner-tukey"),
    SAME("taper-edge"),
    SAME("taper-edge-tukey"),
    REFUSED("use-weights-as-taper", 0,
            "densities are computed from the weighted samples; use -weight natural for the weights of the set"),
    REFUSED("baseline-averaging", 1,
            "samples are not averaged; average the set with msimage-convert, or image it as it is"),
    REFUSED("simulate-noise", 1, "noise is not simulated; use msimage-makems -noise"),
    REFUSED("simulate-baseline-noise", 1, "noise is not simulated; use msimage-makems -noise"),
    REFUSED("even-timesteps", 0, "time steps are selected by ranges; use -interval, -intervals-out or -taql"),
    REFUSED("odd-timesteps", 0, "time steps are selected by ranges; use -interval, -intervals-out or -taql"),
    SAME("maxw"),
    REFUSED("gap-channel-division", 0,
            "channels are divided evenly; image parts of the band with -channel-range or -spws"),
    REFUSED("channel-division-frequencies", 1,
            "channels are divided evenly; image parts of the band with -channel-range or -spws"),

    /* Deconvolution. */
    SAME("niter"),
    SAME("nmiter"),
    SAME("threshold"),
    SAME("auto-threshold"),
    SAME("auto-mask"),
    SAME("auto-mask-nmiter"),
    SAME("force-mask-rounds"),
    SAME("skip-final-iteration"),
    SAME("local-rms"),
    SAME("local-rms-window"),
    SAME("local-rms-method"),
    SAME("local-rms-image"),
    SAME("local-rms-strength"),
    SAME("gain"),
    SAME("mgain"),
    SAME("join-polarizations"),
    SAME("link-polarizations"),
    SAME("join-channels"),
    SAME("no-fast-subminor"),
    SAME("multiscale"),
    SAME("multiscale-scale-bias"),
    SAME("multiscale-max-scales"),
    SAME("multiscale-scales"),
    SAME("multiscale-shape"),
    SAME("multiscale-gain"),
    SAME("clean-border"),
    SAME("no-negative"),
    SAME("negative"),
    SAME("stop-negative"),
    SAME("fit-spectral-pol"),
    SAME("fit-spectral-log-pol"),
    SAME("squared-channel-joining"),
    SAME("save-first-residual"),
    SAME("no-dirty"),
    ACCEPTED("multiscale-convolution-padding", 1, "images are padded by the reach of their scales"),
    ACCEPTED("no-multiscale-fast-subminor", 0, "the faster loop finds the same components"),
    ACCEPTED("parallel-deconvolution", 1, "the whole image is cleaned at once, without subimages"),
    ACCEPTED("deconvolution-threads", 1, "cleaning uses all threads (-j)"),
    SAME("continue"),
    SAME("subtract-model"),
    SAME("save-source-list"),
    SAME("fits-mask"),
    SAME("casa-mask"),
    SAME("deconvolution-channels"),
    REFUSED("spectral-correction", 2,
            "spectra are not multiplied by a given one; use -fit-spectral-log-pol to fit them"),
    REFUSED("force-spectrum", 1, "spectra are not read from an image; use -fit-spectral-log-pol to fit them"),
    REFUSED("horizon-mask", 1, "pixels beyond the horizon are never cleaned; use -clean-border to exclude the edges"),
    REFUSED("python-deconvolution", 1, OTHER_METHOD),
    REFUSED("iuwt", 0, OTHER_METHOD),
    REFUSED("iuwt-snr-test", 0, OTHER_METHOD),
    REFUSED("no-iuwt-snr-test", 0, OTHER_METHOD),
    REFUSED("moresane-ext", 1, OTHER_METHOD),
    REFUSED("moresane-arg", 1, OTHER_METHOD),
    REFUSED("moresane-sl", 1, OTHER_METHOD),

    /* The restoring beam. */
    SAME("restore"),
    SAME("restore-list"),
    SAME("beam-size"),
    SAME("beam-shape"),
    SAME("fit-beam"),
    SAME("no-fit-beam"),
    SAME("beam-fitting-size"),
    SAME("theoretic-beam"),
    SAME("circular-beam"),
    SAME("elliptical-beam"),

    /* Primary beams, a-terms and facets. */
    REFUSED("apply-primary-beam", 0, PRIMARY_BEAM),
    REFUSED("reuse-primary-beam", 0, PRIMARY_BEAM),
    REFUSED("use-differential-lofar-beam", 0, PRIMARY_BEAM),
    REFUSED("primary-beam-limit", 1, PRIMARY_BEAM),
    REFUSED("mwa-path", 1, PRIMARY_BEAM),
    REFUSED("save-psf-pb", 0, PRIMARY_BEAM),
    REFUSED("pb-grid-size", 1, PRIMARY_BEAM),
    REFUSED("beam-model", 1, PRIMARY_BEAM),
    REFUSED("beam-mode", 1, PRIMARY_BEAM),
    REFUSED("beam-normalisation-mode", 1, PRIMARY_BEAM),
    REFUSED("aterm-config", 1, ATERMS),
    REFUSED("grid-with-beam", 0, ATERMS),
    REFUSED("beam-aterm-update", 1, ATERMS),
    REFUSED("aterm-kernel-size", 1, ATERMS),
    REFUSED("save-aterms", 0, ATERMS),
    REFUSED("apply-facet-solutions", 2, FACETS),
    REFUSED("apply-facet-beam", 0, FACETS),
    REFUSED("facet-beam-update", 1, FACETS),
    REFUSED("facet-regions", 1, FACETS),
    /* Options of later versions. */
    REFUSED("no-solution-directions-check", 0, FACETS),
    ACCEPTED("shared-facet-reads", 0, "samples are read once, because there are no facets"),
    ACCEPTED("shared-facet-writes", 0, "samples are written once, because there are no facets"),
    ACCEPTED("scalar-visibilities", 0, "-pol selects the correlations to read"),
    ACCEPTED("diagonal-visibilities", 0, "-pol selects the correlations to read"),
    ACCEPTED("compound-tasks", 0, "the gridder always uses all threads (-j)"),
    ACCEPTED("model-storage-manager", 1, "a new MODEL_DATA has the tile shape of DATA"),
    REFUSED("apply-time-frequency-smearing", 0, "smearing is not modelled; use data with less averaging"),
    REFUSED("asp", 0, OTHER_METHOD),
    REFUSED("draw-model", 1, DRAWN),
    REFUSED("draw-frequencies", 2, DRAWN),
    REFUSED("draw-spectral-terms", 1, DRAWN),
    REFUSED("draw-centre", 2, DRAWN),
};

const int msi_wsclean_count = sizeof msi_wsclean_table / sizeof *msi_wsclean_table;

const msi_wsclean_option *msi_wsclean_find(const char *name)
{
    for (int i = 0; i < msi_wsclean_count; i++)
        if (strcmp(name, msi_wsclean_table[i].name) == 0) return &msi_wsclean_table[i];
    return NULL;
}

#define GRIDDER(word, reason)                                                                                          \
    {                                                                                                                  \
        .name = "gridder", .is = MSI_WSCLEAN_ACCEPTED, .n_argument = 1, .why = (reason), .value = (word)               \
    }

const msi_wsclean_option *msi_wsclean_gridder(const char *word)
{
    static const msi_wsclean_option rows[] = {
        GRIDDER("wgridder", "the default gridder is a w-gridder"),
        GRIDDER("tuned-wgridder", "the default gridder is a w-gridder, and chooses its own parameters"),
        GRIDDER("wstacking", "the default gridder uses as many w-planes as -accuracy requires"),
        GRIDDER("wtowers", "the default gridder uses w-towers if they are faster; -strategy subgrid always uses them"),
        GRIDDER("idg", "the default gridder reaches -accuracy without it"),
        GRIDDER("facet-idg", "the default gridder reaches -accuracy without it"),
        {.name = "gridder",
         .is = MSI_WSCLEAN_REFUSED,
         .n_argument = 1,
         .why = "there is no direct Fourier sum; -accuracy 1e-12 is as close to it as double precision allows",
         .value = "direct-ft"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(word, rows[i].value) == 0) return &rows[i];
    return NULL;
}

void msi_wsclean_describe(char *out, size_t size, const msi_wsclean_option *option)
{
    if (option->is == MSI_WSCLEAN_MAPPED)
        snprintf(out, size, "WSClean's -%s is taken as -%s", option->name, option->own);
    else if (option->is == MSI_WSCLEAN_SAME)
        snprintf(out, size, "WSClean's -%s is the same here", option->name);
    else
        snprintf(out, size, "WSClean's -%s%s%s is %s: %s", option->name, option->value ? " " : "",
                 option->value ? option->value : "", option->is == MSI_WSCLEAN_REFUSED ? "refused" : "accepted",
                 option->why);
}

int msi_wsclean_check(const msi_wsclean_option *option, const char *first)
{
    if (option->is == MSI_WSCLEAN_REFUSED) return msi_error_set(MSI_EUSAGE, "-%s: %s", option->name, option->why);
    if (option->value && (!first || strcmp(first, option->value) != 0))
        return msi_error_set(MSI_EUSAGE, "-%s %s: %s", option->name, first ? first : "", option->else_why);
    return MSI_OK;
}
