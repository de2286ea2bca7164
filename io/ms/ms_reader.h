/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Reads the selected rows of one or several Measurement Sets, visibility stores, UVFITS or FITS-IDI files, in blocks of
 * one spectral setup. */
#ifndef MSI_IO_MS_READER_H
#define MSI_IO_MS_READER_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "core/types.h"
#include "io/ms/ms_stations.h"

/* Limits of a block, in visibilities of one correlation and in rows. A block of one row may be larger. */
enum { MSI_MS_BLOCK_SAMPLES = 1 << 17, MSI_MS_BLOCK_ROWS = 1 << 14 };

/* Selected time steps of a set, counted from 0. */
typedef enum msi_ms_steps { MSI_MS_ALL_STEPS, MSI_MS_EVEN_STEPS, MSI_MS_ODD_STEPS } msi_ms_steps;

/* When POINTING is read: never, only if that takes little time, always. */
typedef enum msi_ms_aims { MSI_MS_AIMS_NONE, MSI_MS_AIMS_IF_QUICK, MSI_MS_AIMS_ALL } msi_ms_aims;

/* CASA's selection expressions. */
typedef enum msi_mssel {
    MSI_MSSEL_FIELD,
    MSI_MSSEL_SPW,
    MSI_MSSEL_ANTENNA,
    MSI_MSSEL_UVRANGE,
    MSI_MSSEL_TIME,
    MSI_MSSEL_SCAN,
    MSI_MSSEL_OBSERVATION,
    MSI_MSSEL_INTENT,
    MSI_N_MSSEL
} msi_mssel;

enum { MSI_MSSEL_NEXT_SET = '|' };

/* A selection of rows, channels and columns. Zero-initialised: field 0, all spws, all channels, the default column. */
typedef struct msi_ms_selection {
    const char *data_column;  /* NULL: CORRECTED_DATA if it exists, else DATA */
    int columns_may_differ;   /* without data_column, the column of each set; otherwise all must have the same */
    const char *model_column; /* subtracted from the data when reading; NULL: none */
    int all_fields;           /* fields[] is ignored */
    int n_field;              /* 0: field 0 */
    const int *fields;
    int n_spw; /* 0: all */
    const int *spws;
    /* counted from 0 through the selected spws in the order of their ids, within each by ascending frequency; end
     * exclusive; end 0: all */
    int64_t channel_begin, channel_end;
    /* indices of time steps among the distinct TIMEs, end exclusive; end 0: to the last */
    int64_t interval_begin, interval_end;
    msi_ms_steps steps;                  /* which of these time steps */
    double min_uv_lambda, max_uv_lambda; /* 0: no limit; each sample is checked */
    double min_uvw_m, max_uvw_m;         /* limits of the length of (u, v, w), 0: no limit; each row is checked */
    /* CASA's MSSelection; NULL: none. One expression for all sets, or one for each, separated by MSI_MSSEL_NEXT_SET; an
     * empty one selects all */
    const char *mssel[MSI_N_MSSEL];
    const char *taql;           /* a TaQL condition on rows */
    const char *spectral_frame; /* frame to which Doppler shifts are computed; NULL: none */
    int may_be_empty;           /* 1: a set may have no selected rows; with an interval, all sets may */
    /* 1: data, weights and FLAG are not read (msi_ms_block.data and weight are NULL), for dry runs and predictions */
    int coordinates_only;
    int keep_flagged_rows; /* 1: autocorrelations and rows with FLAG_ROW are read too, for predictions */
    /* 1: times of several sets are written together, so sets with different time scales are refused */
    int needs_one_time_scale;
    msi_ms_aims aims;  /* whether POINTING is read for msi_ms_reader_aim */
    int describe_rows; /* 1: antennas and FLAG_ROW are read even if all rows are kept */
} msi_ms_selection;

/* Kinds of dishes in a set, by rounded diameter, ascending. Diameters beyond the last kind count as the last kind. */
enum { MSI_MS_KINDS = 4, MSI_MS_PAIRS = MSI_MS_KINDS * MSI_MS_KINDS };

/* Rows of one Measurement Set, field and DATA_DESC_ID, with channels in ascending order of frequency. Zero-initialised
 * before its first use. Arrays are owned by the reader, and valid until the next call of msi_ms_reader_next with the
 * same block, so that several blocks can be in use at the same time. */
typedef struct msi_ms_block {
    int set; /* index into the paths given to open */
    int field_id, data_desc_id, spw_id;
    double ra_rad, dec_rad; /* the field's phase centre */
    int64_t n_row;
    int32_t n_chan, n_corr;

    const msi_pol *corr;       /* [n_corr] */
    const double *freq_hz;     /* [n_chan], ascending */
    const int32_t *chan_index; /* [n_chan] channel's index in the stored cell, where frequencies may descend */
    const int64_t *ms_row;     /* [n_row] row number in the Measurement Set */
    const double *time_s;      /* [n_row] MJD seconds */
    const double *uvw_m;       /* [n_row][3] */
    const int32_t *antenna;    /* [n_row][2] rows of ANTENNA; 0 if the selection does not read them */
    const uint8_t *pair;       /* [n_row] kinds of the dishes of ANTENNA1 and ANTENNA2, MSI_MS_KINDS * first + second */
    const msi_c32 *data;       /* [n_row][n_chan][n_corr] Jy */
    const float *weight;       /* [n_row][n_chan][n_corr] as stored: WEIGHT_SPECTRUM, else WEIGHT */
    const uint8_t *flag;       /* [n_row][n_chan][n_corr] non-zero: FLAG, or outside the uv limits */
    const void *converted;     /* the block as converted by a pool; then data, weight and flag are NULL */
    int is_unfilled;           /* 1: the pool has read only the rows; msi_reader_pool_fill reads the samples */
    void *into;                /* for the conversion of an unfilled block, set by the caller of the pool */
    struct msi_ms_buffer *buffer; /* buffer of the reader; NULL at first */

    /* fill - read the samples of rows [row, row + n_row) of a block. It is set only in a conversion that reads by
     * itself (msi_reader_conversion.fills); then data, weight and flag are NULL. Returned: *part a block of these rows,
     * valid until the next call. Returns: as msi_ms_reader_next. */
    int (*fill)(const struct msi_ms_block *block, int64_t row, int64_t n_row, struct msi_ms_block *part);
    void *fill_of;
} msi_ms_block;

/* Numbers of samples (row x channel) dropped with all their correlations, by reason. */
typedef struct msi_ms_dropped {
    int64_t autocorrelation;
    int64_t flag_row;
    int64_t uvw_not_finite; /* or beyond 1e12 m */
    int64_t uv_limits;      /* by min_uv_lambda, max_uv_lambda, min_uvw_m, max_uvw_m */
    int64_t uv_flagged;     /* samples outside these limits in blocks that are read, where they are flagged */
} msi_ms_dropped;

/* One spectral setup of one set after selection. */
typedef struct msi_ms_spw {
    int set, data_desc_id, spw_id;
    int32_t n_chan, n_corr;
    msi_pol corr[MSI_MAX_CORR];
    const double *freq_hz;     /* [n_chan] ascending */
    const double *width_hz;    /* [n_chan] positive */
    const int32_t *chan_index; /* [n_chan] number in the spectral window */
    int64_t n_row;             /* selected rows with this DATA_DESC_ID */
} msi_ms_spw;

typedef struct msi_ms_reader msi_ms_reader;

/*
 * msi_ms_reader_open - open the sets in this process, check them, and resolve the selection. It reads only metadata and
 * index columns.
 *
 * Given:    paths [n_path], selection  needed only for the call
 * Returned: *out, owned, freed by msi_ms_reader_free
 * Returns:  0, MSI_EINPUT (metadata or index columns are damaged, missing or not selected),
 *           MSI_EARGUMENT, MSI_ENOMEM, MSI_EINTERRUPTED
 * Notes:    for some damaged sets, casacore ends the process, loops, or allocates unlimited memory. To avoid this, let
 *           a pool open the sets: msi_reader_pool_open (reader_pool.h).
 */
int msi_ms_reader_open(msi_ms_reader **out, const char *const *paths, int n_path, const msi_ms_selection *selection);

/*
 * msi_ms_reader_observation and the following functions - return the metadata, borrowed until the reader is freed. The
 * observation belongs to the first set with selected rows. Its times cover all sets.
 */
const msi_observation *msi_ms_reader_observation(const msi_ms_reader *r);
int msi_ms_reader_n_spw(const msi_ms_reader *r);
const msi_ms_spw *msi_ms_reader_spw(const msi_ms_reader *r, int i);
const char *msi_ms_reader_data_column(const msi_ms_reader *r); /* column of the first set */
const char *msi_ms_reader_data_column_of(const msi_ms_reader *r, int set);
int64_t msi_ms_reader_n_row(const msi_ms_reader *r); /* selected rows, all sets */
/* approximate number of rows of its share, as in msi_ms_opening */
int64_t msi_ms_reader_n_share_row(const msi_ms_reader *r);
int msi_ms_reader_has_whole_fields(const msi_ms_reader *r); /* its share consists of whole fields */
int64_t msi_ms_reader_n_sample(const msi_ms_reader *r);     /* rows x channels, all sets */
int64_t msi_ms_reader_n_time(const msi_ms_reader *r); /* number of distinct TIMEs of all rows, largest over the sets */
int64_t msi_ms_reader_n_selected_time(const msi_ms_reader *r);       /* the same for selected rows */
const msi_ms_dropped *msi_ms_reader_dropped(const msi_ms_reader *r); /* so far */

/*
 * msi_ms_share_out - distribute items over shares. Beginning with the largest item, each goes to the share with the
 * least so far; among equal shares, to the first. So if there are items, the first share has one.
 * Given:    size [n]  0: unknown, which still counts as work
 * Returned: share [n]  the same for the same sizes
 * Returns:  0, MSI_ENOMEM
 */
int msi_ms_share_out(const int64_t *size, int n, int n_share, int *share);

/* Kinds of phase centres, most of which move on the sky. */
typedef enum msi_ms_motion {
    MSI_MS_FIXED,
    MSI_MS_POLYNOMIAL, /* PHASE_DIR has terms in time */
    MSI_MS_EPHEMERIS,  /* EPHEMERIS_ID names a table */
    MSI_MS_PLANET      /* PHASE_DIR's frame is a body of the solar system */
} msi_ms_motion;

/*
 * msi_ms_reader_field - list the fields with selected rows, one per call, set by set.
 * Given and returned: *at  0 at first; position for the next call
 * Returned: *id, *name  of the next field; name is borrowed from the reader
 * Returns:  1; 0 after the last one
 */
int msi_ms_reader_field(const msi_ms_reader *r, int64_t *at, int *id, const char **name);

/*
 * msi_ms_reader_moving - find the first field with selected rows whose phase centre moves on the sky.
 * Returned: *id, *name  id and name of the field, borrowed from the reader; unchanged if no field moves
 * Returns:  kind of its phase centre; MSI_MS_FIXED if no field moves
 */
msi_ms_motion msi_ms_reader_moving(const msi_ms_reader *r, int *id, const char **name);

/* msi_ms_reader_notes - return lines about assumptions and corrections for a set, each with a newline; "" if there are
 * none.
 * Given: set  index into the paths given to open. */
const char *msi_ms_reader_notes(const msi_ms_reader *r, int set);

/* msi_ms_reader_fingerprint - return a hash of the selected rows and channels. */
uint64_t msi_ms_reader_fingerprint(const msi_ms_reader *r);

enum { MSI_MS_TIME_BINS = 96, MSI_MS_DELAYS = 16 };

/* The distribution of rows or samples over sidereal time. Zero-initialised: empty. */
typedef struct msi_ms_row_times {
    double weight[MSI_MS_TIME_BINS]; /* weight in each bin of sidereal time */
    double time_s[MSI_MS_TIME_BINS]; /* sum of weight times TIME in each bin, TIME in MJD seconds on the first day */
} msi_ms_row_times;

/* msi_ms_row_times_same_day - move a time by whole sidereal days, to the day of a bin's mean. */
static inline double msi_ms_row_times_same_day(const msi_ms_row_times *t, int bin, double time_s)
{
    const double day_s = 86164.0905;
    return t->weight[bin] > 0 ? time_s - day_s * round((time_s - t->time_s[bin] / t->weight[bin]) / day_s) : time_s;
}

/* msi_ms_row_times_count - count a weight at a TIME. */
static inline void msi_ms_row_times_count(msi_ms_row_times *t, double time_s, double weight)
{
    const int bin = (int)(msi_sidereal_turns(time_s / 86400) * MSI_MS_TIME_BINS) % MSI_MS_TIME_BINS;
    t->time_s[bin] += weight * msi_ms_row_times_same_day(t, bin, time_s);
    t->weight[bin] += weight;
}

/* msi_ms_row_times_add - add another distribution. */
static inline void msi_ms_row_times_add(msi_ms_row_times *to, const msi_ms_row_times *from)
{
    for (int i = 0; i < MSI_MS_TIME_BINS; i++) {
        const double weight = from->weight[i];
        if (!(weight > 0)) continue;
        to->time_s[i] += weight * msi_ms_row_times_same_day(to, i, from->time_s[i] / weight);
        to->weight[i] += weight;
    }
}

/* The properties of a set that its primary beam depends on. */
typedef struct msi_ms_beam_facts {
    char telescope[64];
    int64_t n_antenna;
    const double *diameter_m;        /* [n_antenna] 0: unknown; borrowed, like the next two */
    const uint8_t *kind;             /* [n_antenna] below MSI_MS_KINDS */
    const double *itrf_m;            /* [n_antenna][3] */
    double position_itrf_m[3];       /* mean of the antennas; 0: unknown */
    msi_ms_row_times row_times;      /* the selected rows */
    int has_delay;                   /* 1: MWA_TILE_POINTING has delays of the tiles; 2: it has several that differ */
    int32_t delay[MSI_MS_DELAYS];    /* steps; 32: the dipole is off */
    const msi_ms_stations *stations; /* borrowed */
} msi_ms_beam_facts;

/* The name of an antenna, which solutions refer to. */
typedef struct msi_ms_name {
    char text[32];
} msi_ms_name;

/* msi_ms_reader_antenna_names - return the names of the antennas of a set, [*n]; "" if unknown. Borrowed. */
const msi_ms_name *msi_ms_reader_antenna_names(const msi_ms_reader *r, int set, int64_t *n);

/* msi_ms_reader_beam_facts - return these properties. Given: set  index into the paths given to open */
msi_ms_beam_facts msi_ms_reader_beam_facts(const msi_ms_reader *r, int set);

/*
 * msi_ms_reader_pointing - list the fields with selected rows as msi_ms_reader_field does, with their phase centres.
 * Returned: *set  index of its set; *id  its row of FIELD; *ra_rad, *dec_rad; *n_row  selected
 * Returns:  1; 0 after the last one
 */
int msi_ms_reader_pointing(const msi_ms_reader *r, int64_t *at, int *set, int *id, double *ra_rad, double *dec_rad,
                           int64_t *n_row);

/* The pointing of the antennas in a field, from POINTING. */
typedef struct msi_ms_aim {
    int32_t is_known;
    double ra_rad, dec_rad; /* J2000: the median over some antennas and times */
    double spread_rad;      /* largest distance from it of the median of one time */
} msi_ms_aim;

/* msi_ms_reader_aim - return where the antennas pointed in the field that msi_ms_reader_pointing has just listed.
 * Given: at of that function. The aim is unknown if the selection does not request it or the set does not have it. */
msi_ms_aim msi_ms_reader_aim(const msi_ms_reader *r, int64_t at);

/* msi_ms_reader_beam_dir - return where the beams of LOFAR's stations point in the field that msi_ms_reader_pointing
 * has just listed; NULL if the set does not have it. Given: at of that function. Borrowed. */
const msi_ms_beam_dir *msi_ms_reader_beam_dir(const msi_ms_reader *r, int64_t at);

#define MSI_MS_MINUTE_S 60.0

/* Doppler shifts of a field: ratios of frequencies in the frame of the selection to those in the data. */
typedef struct msi_ms_doppler {
    int64_t n_minute;
    const int64_t *minute; /* [n_minute] ascending: MJD seconds over 60, rounded down */
    const double *ratio;   /* [n_minute][2] at the beginning and the end of the minute */
} msi_ms_doppler;

/* msi_ms_reader_doppler - return the shifts of a field, borrowed; n_minute is 0 if the selection has no frame. */
msi_ms_doppler msi_ms_reader_doppler(const msi_ms_reader *r, int set, int field_id);

/* msi_ms_doppler_at - return the ratio at a time; if no minute contains the time, at the nearest minute. */
double msi_ms_doppler_at(const msi_ms_doppler *d, double time_s);

/* msi_ms_reader_n_process - return the number of reader processes; 0 if this process reads. */
int msi_ms_reader_n_process(const msi_ms_reader *r);

/* msi_ms_reader_field_distance - return the largest distance of a selected field from the first one, radians. */
double msi_ms_reader_field_distance(const msi_ms_reader *r);

/* msi_ms_reader_one_centre - return 1 if all selected fields and sets share a phase centre (to 1e-9 rad), else 0. */
int msi_ms_reader_one_centre(const msi_ms_reader *r);

/*
 * msi_ms_reader_check_frames - fail unless the phase centres of the selected fields of all sets are in one frame, as
 * needed for a shift to another direction. J2000 and ICRS differ by 0.03 asec and count as one.
 * Returns: 0, MSI_EINPUT
 */
int msi_ms_reader_check_frames(const msi_ms_reader *r);

/*
 * msi_ms_reader_check_shift - fail unless the selected fields can be shifted to another centre: all are in one frame,
 * and no field moves on the sky.
 * Returns: 0, MSI_EINPUT
 */
int msi_ms_reader_check_shift(const msi_ms_reader *r);

/*
 * msi_ms_reader_centre_of - return the phase centre of a field of the first set, whether it is selected or not.
 * Given:   id  row of FIELD
 * Returns: 0, MSI_EINPUT (there is no such field, its frame is not that of the selected fields, or it moves)
 */
int msi_ms_reader_centre_of(const msi_ms_reader *r, int64_t id, double *ra_rad, double *dec_rad);

/*
 * msi_ms_reader_next - read the next block. Autocorrelations, rows with FLAG_ROW and rows with a UVW that is not finite
 * are dropped and counted.
 * Returned: *block; block->n_row == 0 after the last one
 * Returns:  0, MSI_EINPUT (also if the cells of a row do not have the shape of its spectral setup), MSI_ENOMEM,
 *           MSI_EINTERRUPTED
 * Notes:    blocks have about 1 MB of data. Rows of one field and DATA_DESC_ID are in the order of the set. Blocks of
 *           different fields or DATA_DESC_IDs follow each other as their rows do in the set.
 */
int msi_ms_reader_next(msi_ms_reader *r, msi_ms_block *block);

/* msi_ms_reader_rewind - start again from the first block; the drop counts start again from 0. */
void msi_ms_reader_rewind(msi_ms_reader *r);

/* msi_ms_reader_free - close the sets and free the reader with the buffers of its blocks; NULL is fine. */
void msi_ms_reader_free(msi_ms_reader *r);

/* ---- Metadata of a reader as bytes, for another process to check and unpack ---- */

/*
 * msi_ms_pack_metadata - pack the results of the functions of ms_reader.h for an open reader.
 * Returned: *out [*n]  owned, msi_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_ms_pack_metadata(const msi_ms_reader *r, char **out, int64_t *n);

/*
 * msi_ms_unpack_metadata - make a reader from these bytes, without opening a table.
 *
 * Given:    paths [n_path]  of the sets
 *           bytes [n]       aligned for any array; they are checked, since a damaged file may have corrupted the
 *                           process that packed them
 * Returned: *out  owned, msi_ms_reader_free
 * Returns:  0, MSI_EINPUT (invalid lengths, sizes or values), MSI_ENOMEM
 */
int msi_ms_unpack_metadata(msi_ms_reader **out, const char *const *paths, int n_path, const char *bytes, int64_t n);

#endif
