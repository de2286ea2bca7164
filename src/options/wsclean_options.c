/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/wsclean_options.h"

#include <string.h>

#include "core/status.h"

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
#define NO_BEAM      "the primary beam is computed by the model of -pb"
#define BY_FACETS    "the number of facets of a-terms follows from -accuracy"
#define ONE_READ     "samples are read once for all facets"
#define ALL_THREADS  "the gridder always uses all threads (-j)"
#define NO_REORDER   "the gridder sorts samples itself; sets are not reordered"
#define RANKS        "msimage-mp divides the work among its hosts itself"
#define W_PLANES     "the number of w-planes follows from -accuracy"
#define GRID_SIZE    "the grid's size follows from -accuracy and -padding"
#define WINDOW       "the window follows from -accuracy"
#define TOWERS       "the size of w-towers follows from -accuracy"
#define NO_NOISE     "noise is not simulated; use msimage-makems -noise"
#define MAJOR_PATH   "it changes the way to the result and not the result; -mgain sets the depth of a major cycle"

/* Rows are ordered by subject. Options that msimage has too are not in this table. */
const msi_wsclean_option msi_wsclean_table[] = {
    /* Speed and order of reading. */
    ACCEPTED("parallel-gridding", 1, ALL_THREADS),
    ACCEPTED("parallel-reordering", 1, "samples are sorted by all threads (-j)"),
    ACCEPTED("compound-tasks", 0, ALL_THREADS),
    ACCEPTED("no-work-on-master", 0, RANKS),
    ACCEPTED("channel-to-node", 1, RANKS),
    ACCEPTED("max-mpi-message-size", 1, RANKS),
    ACCEPTED("reorder", 0, NO_REORDER),
    ACCEPTED("no-reorder", 0, NO_REORDER),
    ACCEPTED("save-reordered", 0, NO_REORDER),
    ACCEPTED("reuse-reordered", 0, NO_REORDER),
    ACCEPTED("baseline-averaging", 1, "all samples are imaged as they are, which is at least as exact"),
    ACCEPTED("diagonal-solutions", 0, "the form of solutions follows from their file"),
    ACCEPTED("model-storage-manager", 1, "a new MODEL_DATA has the tile shape of DATA"),

    /* The gridder. */
    MAPPED("wgridder-accuracy", 1, "accuracy"),
    MAPPED("wtowers-accuracy", 1, "accuracy"),
    ACCEPTED("use-wgridder", 0, "the default gridder is a w-gridder"),
    ACCEPTED("use-idg", 0, "the default gridder reaches -accuracy without it"),
    ACCEPTED("idg-mode", 1, "-backend selects the device"),
    ACCEPTED("nwlayers", 1, W_PLANES),
    ACCEPTED("nwlayers-factor", 1, W_PLANES),
    ACCEPTED("nwlayers-for-size", 2, W_PLANES),
    ACCEPTED("wstack-nwlayers", 1, W_PLANES),
    ACCEPTED("wstack-nwlayers-factor", 1, W_PLANES),
    ACCEPTED("wstack-nwlayers-for-size", 2, W_PLANES),
    ACCEPTED("small-inversion", 0, GRID_SIZE),
    ACCEPTED("no-small-inversion", 0, GRID_SIZE),
    ACCEPTED("min-grid-resolution", 0, GRID_SIZE),
    ACCEPTED("no-min-grid-resolution", 0, GRID_SIZE),
    ACCEPTED_AS("grid-mode", "kb", WINDOW, WINDOW ", and a larger -accuracy is faster; omit the option"),
    ACCEPTED_AS("wstack-grid-mode", "kb", WINDOW, WINDOW ", and a larger -accuracy is faster; omit the option"),
    ACCEPTED("kernel-size", 1, "the window's width follows from -accuracy"),
    ACCEPTED("wstack-kernel-size", 1, "the window's width follows from -accuracy"),
    ACCEPTED("oversampling", 1, "the window is as accurate as -accuracy requires"),
    ACCEPTED("wstack-oversampling", 1, "the window is as accurate as -accuracy requires"),
    ACCEPTED("wtowers-subgrid-size", 1, TOWERS),
    ACCEPTED("wtowers-kernel-size", 1, TOWERS),
    ACCEPTED("wtowers-w-kernel-size", 1, TOWERS),
    ACCEPTED("wtowers-support", 1, TOWERS),
    ACCEPTED("wtowers-w-support", 1, TOWERS),
    ACCEPTED("wtowers-padding", 1, TOWERS),
    ACCEPTED("wtowers-w-padding", 1, TOWERS),
    REFUSED("direct-ft", 0,
            "there is no direct Fourier sum; -accuracy 1e-12 is as close to it as double precision allows"),
    ACCEPTED("direct-ft-precision", 1, "there is no direct Fourier sum"),

    /* Output. */
    REFUSED("store-imaging-weights", 0,
            "imaging does not write into sets; use -save-weights to write the gridded weights as FITS"),

    /* Weights and samples. */
    MAPPED("mfs-weighting", 0, "mf-weighting"),
    MAPPED("no-mfs-weighting", 0, "no-mf-weighting"),
    REFUSED("no-normalize-for-weighting", 0,
            "images are divided by the sum of weights; multiply by WSCIMGWG of the header to undo it"),
    REFUSED("use-weights-as-taper", 0,
            "densities are computed from the weighted samples; use -weight natural for the weights of the set"),
    REFUSED("simulate-noise", 1, NO_NOISE),
    REFUSED("simulate-baseline-noise", 1, NO_NOISE),

    /* Deconvolution. */
    MAPPED("abs-threshold", 1, "threshold"),
    ACCEPTED("mgain-boosting", 1, MAJOR_PATH),
    ACCEPTED("major-iteration-mode", 1, MAJOR_PATH),
    ACCEPTED("multiscale-convolution-padding", 1, "images are padded by the reach of their scales"),
    ACCEPTED("no-multiscale-fast-subminor", 0, "the faster loop finds the same components"),
    ACCEPTED("parallel-deconvolution", 1, "the whole image is cleaned at once, without subimages"),
    ACCEPTED("deconvolution-threads", 1, "cleaning uses all threads (-j)"),
    ACCEPTED_AS("component-optimization", "clean", "components have the values that CLEAN finds",
                "components have the values that CLEAN finds; lower -auto-threshold for more exact ones"),
    REFUSED("fit-rm", 0, "rotation measures are not fitted; use -squared-channel-joining for Q and U"),
    REFUSED("python-deconvolution", 1, OTHER_METHOD),
    REFUSED("asp", 0, OTHER_METHOD),
    REFUSED("iuwt", 0, OTHER_METHOD),
    REFUSED("iuwt-snr-test", 0, OTHER_METHOD),
    REFUSED("no-iuwt-snr-test", 0, OTHER_METHOD),
    REFUSED("moresane-ext", 1, OTHER_METHOD),
    REFUSED("moresane-arg", 1, OTHER_METHOD),
    REFUSED("moresane-sl", 1, OTHER_METHOD),

    /* The restoring beam. */
    ACCEPTED("fit-beam-with-negatives", 0, "the fit uses the PSF's main lobe, which is positive"),
    ACCEPTED("fit-beam-without-negatives", 0, "the fit uses the PSF's main lobe, which is positive"),

    /* Primary beams, a-terms and facets. These settings have no effect if none of them is applied. */
    ACCEPTED("scalar-beam", 0, NO_BEAM),
    ACCEPTED("mwa-path", 1, NO_BEAM),
    ACCEPTED("pb-grid-size", 1, NO_BEAM),
    ACCEPTED("beam-model", 1, NO_BEAM),
    ACCEPTED("beam-mode", 1, NO_BEAM),
    ACCEPTED("beam-normalisation-mode", 1, NO_BEAM),
    ACCEPTED("aterm-kernel-size", 1, BY_FACETS),
    ACCEPTED("save-aterms", 0, "a-terms are not written"),
    ACCEPTED("shared-facet-reads", 0, ONE_READ),
    ACCEPTED("shared-facet-writes", 0, ONE_READ),
    ACCEPTED("apply-time-frequency-smearing", 0, "PSFs do not model smearing"),

    /* Names of version 1, which later versions of WSClean still accept. */
    MAPPED("absmem", 1, "abs-mem"),
    MAPPED("beamsize", 1, "beam-size"),
    MAPPED("casamask", 1, "casa-mask"),
    MAPPED("channelrange", 2, "channel-range"),
    MAPPED("channelsout", 1, "channels-out"),
    MAPPED("circularbeam", 0, "circular-beam"),
    MAPPED("cleanborder", 1, "clean-border"),
    MAPPED("datacolumn", 1, "data-column"),
    MAPPED("ellipticalbeam", 0, "elliptical-beam"),
    MAPPED("fitbeam", 0, "fit-beam"),
    MAPPED("fitsmask", 1, "fits-mask"),
    MAPPED("intervalsout", 1, "intervals-out"),
    MAPPED("joinchannels", 0, "join-channels"),
    MAPPED("joinpolarizations", 0, "join-polarizations"),
    MAPPED("mfsweighting", 0, "mf-weighting"),
    MAPPED("nofitbeam", 0, "no-fit-beam"),
    MAPPED("nomfsweighting", 0, "no-mf-weighting"),
    MAPPED("nonegative", 0, "no-negative"),
    MAPPED("saveuv", 0, "save-uv"),
    MAPPED("saveweights", 0, "save-weights"),
    MAPPED("stopnegative", 0, "stop-negative"),
    MAPPED("superweight", 1, "super-weight"),
    MAPPED("tempdir", 1, "temp-dir"),
    MAPPED("theoreticbeam", 0, "theoretic-beam"),
    ACCEPTED("smallinversion", 0, GRID_SIZE),
    ACCEPTED("nosmallinversion", 0, GRID_SIZE),
    ACCEPTED("gkernelsize", 1, "the window's width follows from -accuracy"),
};

const int msi_wsclean_count = sizeof msi_wsclean_table / sizeof *msi_wsclean_table;

const msi_wsclean_option *msi_wsclean_find(const char *name)
{
    for (int i = 0; i < msi_wsclean_count; i++)
        if (strcmp(name, msi_wsclean_table[i].name) == 0) return &msi_wsclean_table[i];
    return NULL;
}

/* A gridder of tclean, or the direct Fourier sum. */
#define OTHER_GRIDDER(word, reason)                                                                                    \
    {                                                                                                                  \
        .name = "gridder", .is = MSI_WSCLEAN_REFUSED, .n_argument = 1, .why = (reason), .value = (word)                \
    }
#define WITH_W "tclean's name; the default gridder corrects for w: leave -gridder out"
#define WITH_BEAMS                                                                                                     \
    "tclean's name; leave -gridder out: -mosaic joins pointings, -grid-with-beam images through the primary beam"

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
        OTHER_GRIDDER("standard", WITH_W),
        OTHER_GRIDDER("gridft", WITH_W),
        OTHER_GRIDDER("wproject", WITH_W),
        OTHER_GRIDDER("wprojectft", WITH_W),
        OTHER_GRIDDER("widefield", WITH_W),
        OTHER_GRIDDER("mosaic", WITH_BEAMS),
        OTHER_GRIDDER("mosaicft", WITH_BEAMS),
        OTHER_GRIDDER("awproject", WITH_BEAMS),
        OTHER_GRIDDER("awprojectft", WITH_BEAMS),
        OTHER_GRIDDER("awp2", WITH_BEAMS),
        OTHER_GRIDDER("awphpg", WITH_BEAMS),
        OTHER_GRIDDER("direct-ft",
                      "there is no direct Fourier sum; -accuracy 1e-12 is as close to it as double precision allows"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(word, rows[i].value) == 0) return &rows[i];
    return NULL;
}

void msi_wsclean_describe(char *out, size_t size, const msi_wsclean_option *option)
{
    if (option->is == MSI_WSCLEAN_MAPPED)
        snprintf(out, size, "WSClean's -%s is taken as -%s", option->name, option->own);
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
