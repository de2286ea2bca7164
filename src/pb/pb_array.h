/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The primary beams of the antennas of several sets: the model of each set, its kinds of dishes, pointings and times,
 * and the Jones matrix of a kind of dish in a direction, at a time and a frequency.
 *
 * The response of a baseline is V' = J_p V J_q^H for the coherency V in the basis of north and east, in which Stokes
 * parameters are defined. Feeds of dishes that rotate on the sky are taken as derotated, because calibration corrects
 * for the parallactic angle.
 */
#ifndef MSI_PB_ARRAY_H
#define MSI_PB_ARRAY_H

#include <complex.h>

#include "io/ms/ms_reader.h"
#include "src/pb/pb_model.h"

/* The horizon of a site at a time: unit vectors in the frame of directions. */
typedef struct msi_pb_horizon {
    double zenith[3], north[3], east[3];
    double mjd_s;
    double weight; /* weight of the rows at this time */
} msi_pb_horizon;

/* A set. */
typedef struct msi_pb_site {
    msi_pb_model *model;
    int n_class;  /* number of kinds of dishes that the model distinguishes */
    double *pair; /* [n_class][n_class] share of the baselines of each pair of kinds, p <= q; the sum is 1 */
    int n_time;
    msi_pb_horizon time[MSI_MS_TIME_BINS]; /* times of the rows, by bins of sidereal time */
    double *counted;                       /* [n_class][n_class] sums of weights, if is_by_antenna */
    int is_by_antenna;                     /* 1: each antenna is its own kind */
    int class_of_kind[MSI_MS_KINDS];       /* otherwise: the kind for each kind of msi_ms_block.pair */
    msi_ms_applied applied; /* the part of the response for which the data are corrected, in one direction */
    double applied_rad[2];  /* this direction; NaN: the pointing of the station */
    int turns;              /* 1: the response in a direction of the sky depends on the time */
    int is_placed;
    double position_itrf_m[3];
} msi_pb_site;

/* A field of a set. */
typedef struct msi_pb_pointing {
    int set, field_id;
    double ra_rad, dec_rad; /* where the dishes point */
    double weight;
    const msi_ms_beam_dir *beam; /* beam directions of stations; NULL: unknown. Borrowed */
} msi_pb_pointing;

typedef struct msi_pb_array {
    int n_set;
    msi_pb_site *set;
    int64_t n_pointing;
    msi_pb_pointing *pointing;
    double width_rad; /* smallest half-power width of all models, at the highest frequency */
} msi_pb_array;

/* Options of beams. */
typedef struct msi_pb_choice {
    const char *word;    /* value of -pb, not "off" */
    int is_differential; /* 1: assume that data of LOFAR are corrected for the beam in one direction */
    int by_table;        /* 1: use the directions in POINTING; 0: dishes point to the phase centre of their field */
    int is_quiet;        /* 1: do not log the models, because they were logged before */
} msi_pb_choice;

/*
 * msi_pb_array_make - choose the model of each set of a reader, and log it.
 * Given:    reader   borrowed while the array is used
 *           low_hz, high_hz  frequency range of the selected channels
 *           frame    frame of directions, J2000 or ICRS
 * Returned: *out     freed by msi_pb_array_free; NULL on failure
 * Returns:  0, MSI_EINPUT (no model; the model needs positions of antennas, which are unknown; another frame),
  *          MSI_ENOMEM
 */
int msi_pb_array_make(msi_pb_array **out, const msi_pb_choice *choice, const msi_ms_reader *reader, double low_hz,
                      double high_hz, const char *frame);
void msi_pb_array_free(msi_pb_array *a); /* NULL-safe */

/* msi_pb_array_pointing - return the pointing of a field of a set; -1: the field has no selected rows. */
int64_t msi_pb_array_pointing(const msi_pb_array *a, int set, int field_id);

/*
 * msi_pb_array_weigh - weight the kinds of baselines and the times of a set by samples instead of rows.
 * Given: pair [MSI_MS_PAIRS]  as msi_ms_block.pair
 */
void msi_pb_array_weigh(msi_pb_array *a, int set, const double *pair, const msi_ms_row_times *times);

/*
 * msi_pb_array_count - add weights of samples by pair of antennas, for the next msi_pb_array_weigh. It is needed if
 * each antenna is its own kind.
 * Given: weight [block->n_row][n_chan]
 */
void msi_pb_array_count(msi_pb_array *a, const msi_ms_block *block, int32_t n_chan, const float *weight);

/* msi_pb_array_name - return the name of the first set's model, for headers. Borrowed. */
const char *msi_pb_array_name(const msi_pb_array *a);

/* msi_pb_array_refuse_stations - refuse sets with more kinds of dishes than pb_terms.h supports.
 * Given: option  name of the option for the message. Returns: 0, MSI_EINPUT */
int msi_pb_array_refuse_stations(const msi_pb_array *a, const char *option);

/* ---- Jones matrices ---- */

typedef double complex msi_pb_jones[2][2]; /* rows feed X (H) and Y (V), columns north and east */

/* A pointing of a set, relative to the centre of an image. */
typedef struct msi_pb_view {
    const msi_pb_site *site;
    double rotation[3][3];                  /* from the image's l, m, n to east, north and radius of the pointing */
    double east[3], north[3];               /* unit vectors at the pointing in the frame of directions */
    double axes[3][3];                      /* unit vectors along the image's l, m and n */
    double station[3], tile[3], applied[3]; /* directions of the delays of stations and tiles, and of applied_rad */
} msi_pb_view;

/* A time of a view. */
typedef struct msi_pb_moment {
    msi_pb_horizon horizon;
    double cos_up, sin_up; /* cosine and sine of the parallactic angle at the pointing */
    msi_pb_aim aim;        /* aim of stations */
} msi_pb_moment;

/*
 * msi_pb_view_make - compute the view of a pointing.
 * Given: p  a pointing of the array; centre  ra, dec of the image
 */
void msi_pb_view_make(msi_pb_view *v, const msi_pb_array *a, const msi_pb_pointing *p, const double centre[2]);

/* msi_pb_array_views - compute the views of all pointings. Returned: *view [n_pointing], owned. Returns: 0,
 * MSI_ENOMEM */
int msi_pb_array_views(const msi_pb_array *a, const double centre[2], msi_pb_view **view);

/* msi_pb_view_at - compute the parallactic angle and aim at a time, for sites with `turns`. Given: mjd_s  MJD seconds,
 * UTC */
msi_pb_moment msi_pb_view_at(const msi_pb_view *v, double mjd_s);

/* msi_pb_view_under - compute the same for a horizon of the site. */
msi_pb_moment msi_pb_view_under(const msi_pb_view *v, const msi_pb_horizon *horizon);

/*
 * msi_pb_view_jones - compute the Jones matrix of a kind of dish. It may be called from several threads.
 * Given:    class_id  of the model (msi_pb_site.class_of_kind)
 *           lmn       direction from the image's centre
 *           in_feeds  1: the columns are the directions of the dish's feeds, for images of one correlation
 * Returned: out       beyond msi_pb_view_limit the formula is continued, so the response may be large
 */
void msi_pb_view_jones(const msi_pb_view *v, const msi_pb_moment *when, int class_id, double freq_hz, const double *lmn,
                       int in_feeds, msi_pb_jones out);

/* msi_pb_view_angle - return the angle of a direction from the pointing. */
double msi_pb_view_angle(const msi_pb_view *v, const double *lmn);

/* msi_pb_view_limit - return the angle from the pointing beyond which no kind of dish has a valid response. */
double msi_pb_view_limit(const msi_pb_view *v, double freq_hz);

/*
 * msi_pb_view_check - check that a beam that is given on the sky covers a part of the image, as far as the part is
 * above the horizon. Given: low, high  l and m of the corners of the part. Returns: 0, MSI_EINPUT
 */
int msi_pb_view_check(const msi_pb_view *v, const double low[2], const double high[2]);

/*
 * msi_pb_respond - compute the response of a baseline to a Stokes parameter of 1: V' = p V q^H.
 * Given:    stokes  0 to 3: I, Q, U, V
 * Returned: out     I, Q, U, V as the baseline measures them. Imaginary parts come from different dishes. Images
  *          contain
 *                   only the real parts, because each sample is gridded with its conjugate
 */
void msi_pb_respond(msi_pb_jones p, msi_pb_jones q, int stokes, double complex out[4]);

/*
 * msi_pb_respond_pairs - compute the mean response of the baselines of a site with many kinds of dishes.
 * Given:    of [n_class]  Jones matrices of the kinds
 * Returned: m   [to][from] Stokes parameters
 */
void msi_pb_respond_pairs(const msi_pb_site *site, msi_pb_jones *of, double m[4][4]);

#endif
