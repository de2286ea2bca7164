/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A cleaner's specification, its limits and its report. */
#ifndef MSI_CLEANER_SPEC_H
#define MSI_CLEANER_SPEC_H

#include <stdint.h>

#include "core/types.h"
#include "kernels/method/gridder_spec.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    MSI_CLEAN_MAX_PLANE = 512,
    MSI_CLEAN_MAX_CHANNEL = 256,
    MSI_CLEAN_MAX_LOG_CHANNEL = 64, /* with MSI_CLEAN_FIT_LOG */
    MSI_CLEAN_MAX_SCALE = 16,
    MSI_CLEAN_MAX_TERM = 12,
    MSI_CLEAN_MAX_SIZE = 65535,
    MSI_CLEAN_MAX_PART = 4096,
    MSI_CLEAN_MAX_DEVICE = 16,
    MSI_CLEAN_MAX_GRID = 16, /* cells along an axis */
    MSI_CLEAN_MAX_CELL = MSI_CLEAN_MAX_GRID * MSI_CLEAN_MAX_GRID
};

/* Methods to compute a component's values in the channels. */
typedef enum msi_clean_fit {
    MSI_CLEAN_FIT_NONE,       /* the residuals at its pixel */
    MSI_CLEAN_FIT_POLYNOMIAL, /* a weighted least-squares polynomial of n_term coefficients in frequency */
    MSI_CLEAN_FIT_LOG,        /* a_0 10^(a_1 x + a_2 x^2 ..), x = log10(frequency / mean), n_term coefficients */
    MSI_CLEAN_FIT_FORCED      /* a multiple of spec.spectrum: sum w R / sum w spectrum */
} msi_clean_fit;

/* A scale's shape. s is its full width in pixels. */
typedef enum msi_clean_shape {
    MSI_CLEAN_TAPERED_QUADRATIC, /* (1 - (r/s)^2) times a Hann window of width s */
    MSI_CLEAN_GAUSSIAN,          /* sigma = 3 s / 16 */
    MSI_CLEAN_SPHEROIDAL         /* (1 - v^2) times Schwab's spheroidal function of v, v = 2 r / s < 1: tclean's */
} msi_clean_shape;

/* Rules to compare scales and to make components. R is the residual, P the joined PSF, K a scale's kernel. */
typedef enum msi_clean_scale_rule {
    MSI_CLEAN_BY_BEAM, /* as WSClean: compares (R * K) times a bias that depends on the beam's width; components are
                          (R * K) / (P * K)(0) */
    MSI_CLEAN_BY_POWER /* as tclean: compares (R * K)^2 / (P * K * K)(0) times 1 - small_scale_bias s / s_max, and so
                          finds the component that reduces the squares of the residual most; components are (R * K) /
                          (P * K * K)(0). Thresholds, mgain and the report's peaks refer to scale 0. A wide scale may be
                          found where the mask convolved with its kernel is above 0.9. No scale is found within three
                          quarters of its width of an edge, nor at the edge itself. With of_taylor the mask's limit
                          is 0.1, points may be found at the edge, and cleaning ends when the peak of scale 0 is at or
                          below the threshold */
} msi_clean_scale_rule;

/* The specification of a cleaner. Members that are zero take the default; msi_cleaner_create copies all of it,
 * including lists. */
typedef struct msi_cleaner_spec {
    int64_t nx, ny;       /* size of every plane; at most MSI_CLEAN_MAX_SIZE */
    int n_channel, n_pol; /* at most MSI_CLEAN_MAX_CHANNEL, 4, and MSI_CLEAN_MAX_PLANE planes; 0: 1 */
    unsigned search_pol; /* bit p: polarisation p is searched, and used for noise and thresholds; 0: all are. Components
                            have a value in every polarisation, including those that are not searched */
    const double *weight;  /* [n_channel], >= 0; a channel of weight 0 is ignored, and its planes are not changed; NULL:
                             equal */
    const double *freq_hz; /* [n_channel], for fits */
    /* Channels may be means of parts, which are imaged and predicted separately: part i belongs to channel i n_channel
     * / n_part. Then weight and freq_hz are NULL and follow from the parts; fits are to spectra averaged over
     * channels. */
    int n_part;                               /* 0: none; else n_channel or more, at most MSI_CLEAN_MAX_PART */
    const double *part_weight, *part_freq_hz; /* [n_part]; weights NULL: equal */
    msi_precision precision;
    msi_backend backend; /* AUTO: a GPU if there is one */
    int device;          /* CUDA ordinal of the GPU to use */
    /* The devices that share the transforms of planes in minor iterations: [n_device], of which the first is `device`.
     * n_device 0: only `device`. Each has its own memory for transforms, and may be named twice. Results do not depend
     * on the devices. On the CPU their values are ignored. */
    int n_device, devices[MSI_CLEAN_MAX_DEVICE];
    int n_thread;       /* 0: as many as OpenMP gives */
    const char *method; /* name of a method of msi_clean_methods; NULL: "list" */
    double gain;        /* 0: 0.1 */
    int no_negative;    /* if one polarisation is searched: components are positive in it */
    int stop_negative;  /* if one polarisation is searched: stop when the peak is negative */
    int squared_join;   /* squared channels, see cleaner.h */
    double border;      /* fraction of the image's width and height without components, on each side; < 0.5 */
    /* Cells into which images are divided. A component has the PSFs of the cell that it lies in, and scales have the
     * gains of the middle cell; 0: 1. */
    int grid_x, grid_y;
    int64_t psf_patch;  /* hogbom: subtract the middle square of the PSF, this many pixels wide; 0: all of it */
    int64_t list_limit; /* list, multiscale: most pixels of a list; 0: 131072 over the number of planes, but at least
                           4096 */
    msi_clean_fit fit;
    int n_term;    /* number of terms of the fit; at most MSI_CLEAN_MAX_TERM */
    int fit_later; /* components are the residuals; the caller fits models by msi_cleaner_fit_seen */
    /* 1: the channels are the nodes of Taylor terms (clean_taylor.h). In multiscale, the polynomial then weights
     * channels by their response to the scale, (P * K * K)(0), which differs between channels. By power, the rules of
     * tclean's mtmfs apply to the masks of scales, the choice of components and the end of cleaning: the next component
     * is the one whose terms together reduce the squares most, unless no_negative, stop_negative or squared_join is
     * set. */
    int of_taylor;
    const double *spectrum; /* [n_channel], for MSI_CLEAN_FIT_FORCED */
    /* [n_channel], positive: multiplies the weights of channels in searches, and residuals before a fit; NULL: 1 */
    const double *correction;
    const double *scale; /* multiscale: [n_scale] full widths in pixels, increasing from 0; NULL: 0, 4 b, 8 b .. below
                            half the image, with b = beam_pixel, and 0.4 times the image if that is more than 1.2 times
                            the last one */
    int no_points;       /* by beam: scale 0 is not used, although a list begins with it */
    int n_scale;         /* 0: as many as the default list has; at most MSI_CLEAN_MAX_SCALE */
    double beam_pixel;   /* multiscale: width of the beam */
    double scale_bias; /* 0: 0.6; a scale's peak is multiplied by scale_bias^-log2(s / (2 beam_pixel)) for comparison */
    double scale_gain; /* 0: 0.2, by power 0.05; fraction of a scale's peak that is cleaned before another scale is
                          chosen */
    msi_clean_shape shape;
    msi_clean_scale_rule scale_rule;
    double small_scale_bias; /* for MSI_CLEAN_BY_POWER; -1 to 1 */
    int by_scale;            /* msi_cleaner_scale_mask may be called */
} msi_cleaner_spec;

/* A row of the table of methods. */
typedef struct msi_clean_method {
    const char *name; /* static */
    const char *help; /* static, one line */
    msi_backend backend;
    const struct msi_clean_method_ops *ops; /* private to the cleaner */
    const struct msi_clean_engine_ops *engine;
} msi_clean_method;

/* msi_clean_methods - return the table of all methods and backends compiled in, *n rows. */
const msi_clean_method *msi_clean_methods(int *n);

/* Why minor iterations ended. */
typedef enum msi_clean_stop {
    MSI_CLEAN_STOP_THRESHOLD,  /* the peak is at or below limits.threshold */
    MSI_CLEAN_STOP_MAJOR,      /* the peak is at or below (1 - mgain) of the first: a major cycle is due */
    MSI_CLEAN_STOP_ITERATIONS, /* limits.n_iteration is reached */
    MSI_CLEAN_STOP_NEGATIVE,   /* spec.stop_negative is set, and the peak is negative */
    MSI_CLEAN_STOP_EMPTY,      /* masks and border leave no pixel that is finite and not zero */
    MSI_CLEAN_STOP_DIVERGED,   /* the peak grew to twice the first; with several scales, to four times */
    MSI_CLEAN_STOP_STALLED,    /* iterations no longer lower the peak */
    MSI_CLEAN_N_STOP
} msi_clean_stop;

/* msi_clean_stop_word - return one or two words for a log or a header, such as "threshold". Static. */
const char *msi_clean_stop_word(msi_clean_stop stop);

/* A component: a pixel, and the index of its scale. */
typedef struct msi_clean_component {
    int32_t x, y, scale;
} msi_clean_component;

/* Limits of a call of msi_cleaner_minor. */
typedef struct msi_clean_limits {
    double threshold;    /* Jy/beam, of the joined quantity; 0 or more */
    double mgain;        /* fraction of the peak that is cleaned before a major cycle; 0: 1, no limit */
    int64_t n_iteration; /* at most */
    int only_found;      /* components are allowed only where earlier calls found the same or a neighbouring scale */
    int local_rms;       /* peaks and lists are relative to the noise last measured by msi_cleaner_local_rms */
    msi_clean_component *component; /* [component_capacity] unless NULL: components found are written here, in order */
    void *value;                /* [component_capacity][n_channel][n_pol], precision of the planes, unless NULL: Jy */
    int64_t component_capacity; /* components beyond it are not written */
} msi_clean_limits;

typedef struct msi_clean_report {
    msi_clean_stop stop;
    int64_t n_iteration;
    int64_t n_round;                /* lists, or scales chosen */
    double peak_before, peak_after; /* peaks of the joined quantity, with its sign; for multiscale, biased */
    int64_t peak_x, peak_y;         /* pixel of peak_after */
    double threshold;               /* Jy/beam at which iterations stop: that of limits, or mgain's */
    double flux;                    /* Jy added to the model: weighted mean over channels, summed over polarisations */
    int64_t list_largest;           /* pixels */
    int64_t scale_count[MSI_CLEAN_MAX_SCALE]; /* iterations */
    double scale_flux[MSI_CLEAN_MAX_SCALE];
} msi_clean_report;

/* Methods to measure local noise. */
typedef struct msi_clean_local_rms {
    double window_pixel; /* width; > 0 */
    int box;             /* mean square over a square of that width; else weighted by a gaussian of that FWHM */
    int with_min;        /* 1: the noise is at least 0.3 times the modulus of the lowest residual in the window */
    double strength;     /* peaks and lists are multiplied by (least noise / noise)^strength; 0: 1 */
} msi_clean_local_rms;

#ifdef __cplusplus
}
#endif
#endif
