/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Models of primary beams: the response of one dish or station to a direction, as a Jones matrix. The response at the
 * pointing is about 1.
 */
#ifndef MSI_PB_MODEL_H
#define MSI_PB_MODEL_H

#include "core/types.h"
#include "io/ms/ms_stations.h"

/* The mount of a dish, which determines the frame of a model's directions. */
typedef enum msi_pb_mount {
    MSI_PB_ALTAZ,      /* x towards increasing azimuth, y towards the zenith: the beam rotates on the sky */
    MSI_PB_EQUATORIAL, /* x towards east, y towards north; also for circularly symmetric models */
    MSI_PB_FIXED       /* a station that is steered by delays: azimuth and zenith angle, or direction and time */
} msi_pb_mount;

/* Parts of the response of a LOFAR station. */
typedef enum msi_pb_part_of { MSI_PB_PART_ALL, MSI_PB_PART_ELEMENT, MSI_PB_PART_ARRAY } msi_pb_part_of;

/* Directions of the delays of a LOFAR station and of its tiles: unit vectors along east, north and up at the site. */
typedef struct msi_pb_aim {
    double station[3], tile[3];
} msi_pb_aim;

/* A direction in the coordinates of all kinds of models. */
typedef struct msi_pb_direction {
    double x_rad, y_rad; /* angular offsets from the pointing in the frame of the mount; hypot(x_rad, y_rad) is the
                            angle from the pointing */
    double azimuth_rad,
        zenith_rad;        /* angles of the direction: azimuth from north through east. Only for MSI_PB_FIXED */
    const msi_pb_aim *aim; /* only for stations of LOFAR */
    msi_pb_part_of part;   /* part of their response */
    const double *sky; /* unit vector in the frame of directions, and MJD seconds. Only for msi_pb_model_is_on_sky */
    double mjd_s;
} msi_pb_direction;

/* Properties of a set. */
typedef struct msi_pb_set {
    const char *telescope;  /* OBSERVATION::TELESCOPE_NAME */
    double low_hz, high_hz; /* frequency range of the selected channels */
    double first_s,
        last_s; /* MJD seconds of the first and last selected rows, within 15 minutes; first > last: unknown */
    int64_t n_antenna;
    const double *diameter_m;        /* [n_antenna] DISH_DIAMETER; 0: unknown */
    const char *const *name;         /* [n_antenna] */
    int is_circular;                 /* feeds are R and L */
    const int32_t *delay;            /* [16] steps of the delays of an MWA tile, 32: dipole off; NULL if unknown */
    int delays_differ;               /* 1: the set has pointings with different delays */
    const msi_ms_stations *stations; /* layouts of LOFAR's stations; NULL if unknown */
    const double *itrf_m;            /* [n_antenna][3] phase centres of the antennas, for the layouts */
    double site_axes[3][3];          /* ITRF unit vectors along east, north and up at the site, for the layouts */
} msi_pb_set;

enum { MSI_PB_NOTE = 256, MSI_PB_CLASSES = 4, MSI_PB_STATIONS = 128 };

typedef struct msi_pb_model msi_pb_model;

/*
 * msi_pb_model_check - check the value of -pb without a set.
 * Given:   word  auto, off, the name of a telescope, airy:D[,B] (diameter and blockage in metres), gauss:FWHM@FREQ
 *                (an angle at a frequency, such as 60amin@1.4GHz), poly:a,b,c.. (coefficients of even powers of
 *                arcmin GHz), lofar:FOLDER (with the coefficients of dipoles), FILE.fits or a pattern of
 *                files (pb_file.h)
 * Returns: 0, MSI_EUSAGE (an unknown word; the message lists the known ones)
 */
int msi_pb_model_check(const char *word);

/*
 * msi_pb_model_make - choose and prepare a model.
 * Given:    word   as above, not `off`; `auto` chooses by the telescope, band and diameters
 * Returned: *out   freed by msi_pb_model_free; NULL on failure
 *           note   one line for the log: model, band, and whether it is extrapolated
 * Returns:  0, MSI_EUSAGE (an unknown word), MSI_EINPUT (no model of this telescope; channels outside the range of the
 *           model; a file that cannot be used), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_pb_model_make(msi_pb_model **out, const char *word, const msi_pb_set *set, char note[MSI_PB_NOTE]);

void msi_pb_model_free(msi_pb_model *m); /* NULL-safe */

/* msi_pb_model_name - return the short name of a model for FITS headers, such as "MeerKAT L". Borrowed. */
const char *msi_pb_model_name(const msi_pb_model *m);

msi_pb_mount msi_pb_model_mount(const msi_pb_model *m);

/* msi_pb_model_is_scalar - return 1 if both feeds have one circularly symmetric response: the Jones matrix is V(angle)
 * times the unit matrix. */
int msi_pb_model_is_scalar(const msi_pb_model *m);

/* msi_pb_model_has_stations - return 1 if each antenna has its own beam, steered by delays. */
int msi_pb_model_has_stations(const msi_pb_model *m);

/* msi_pb_model_word_has_stations - return the same for a file that is the value of -pb. */
int msi_pb_model_word_has_stations(const char *word);

/* msi_pb_model_is_on_sky - return 1 if the model has Jones matrices for directions on the sky and times. Their columns
 * are north and east. */
int msi_pb_model_is_on_sky(const msi_pb_model *m);

/* msi_pb_model_covers - return 0 if such a model does not contain a direction. Given: sky  unit vector */
int msi_pb_model_covers(const msi_pb_model *m, const double *sky);

/* msi_pb_model_classes - return the number of kinds of antennas: at most MSI_PB_CLASSES kinds of dishes, or at most
 * MSI_PB_STATIONS stations, each with its own kind. Returned: class_of [n_antenna]  kind of each antenna, borrowed */
int msi_pb_model_classes(const msi_pb_model *m, const uint8_t **class_of);

/* msi_pb_model_limit - return the angle from the pointing, in rad, beyond which the model is not valid: the first
 * minimum, a published radius, or pi. */
double msi_pb_model_limit(const msi_pb_model *m, int class_id, double freq_hz);

/* msi_pb_model_width - return the full width at half power, in rad. It sets the steps of grids. For fixed stations it
 * is approximate. */
double msi_pb_model_width(const msi_pb_model *m, int class_id, double freq_hz);

/*
 * msi_pb_model_jones - evaluate a model. It may be called from several threads.
 * Returned: jones  [4] rows feed X (or H), Y (or V); columns the components of the electric field along x and y of the
 *                  mount's frame, or for MSI_PB_FIXED along theta, the zenith angle, and phi, increasing azimuth.
 *                  Beyond the limit the formula is continued, so the response may be large
 */
void msi_pb_model_jones(const msi_pb_model *m, int class_id, double freq_hz, const msi_pb_direction *direction,
                        msi_c64 jones[4]);

#endif
