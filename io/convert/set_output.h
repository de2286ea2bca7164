/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Writes a Measurement Set from the rows of other sets. The subtables of these sets are copied without rows that are
 * not selected, renumbered, and joined if there are several sets. casacore runs in the calling process, so call this in
 * a child.
 */
#ifndef MSI_IO_SET_OUTPUT_H
#define MSI_IO_SET_OUTPUT_H

#include <sys/types.h>

#include "io/ms/ms_reader.h"

/* The values of a row, except its samples. Antennas, fields .. have their row numbers in the output. */
typedef struct msi_set_row {
    int32_t antenna1, antenna2, feed1, feed2, field, data_desc, array, observation, processor, scan, state;
    uint8_t flag_row;
    double time_s, centroid_s, interval_s, exposure_s; /* TIME and TIME_CENTROID are MJD seconds */
    double uvw_m[3];
    float weight[MSI_MAX_CORR], sigma[MSI_MAX_CORR]; /* WEIGHT and SIGMA */
} msi_set_row;

/* Rows of one spectral setup of the output. */
typedef struct msi_set_rows {
    int64_t n_row;
    int32_t n_chan, n_corr;
    const msi_set_row *row; /* [n_row] */
    const msi_c32 *data;    /* [n_row][n_chan][n_corr] */
    const float *weight;    /* [n_row][n_chan][n_corr]; not written if the output has no WEIGHT_SPECTRUM */
    const uint8_t *flag;    /* [n_row][n_chan][n_corr], 0 or 1 */
} msi_set_rows;

/* The groups of selected channels of a setup that are averaged. Output channel g is the average of channels first[g] to
 * first[g + 1] - 1. */
typedef struct msi_channel_groups {
    int32_t n_group;
    const int32_t *first; /* [n_group + 1] */
} msi_channel_groups;

typedef struct msi_set_output_spec {
    const msi_channel_groups *groups; /* [msi_ms_reader_n_spw] */
    int has_weight_spectrum;
    int are_times_own;    /* 1: TIME and INTERVAL may differ between rows of one time */
    int are_means;        /* 1: TIME_CENTROID and EXPOSURE may too, as in averages */
    int weights_are_made; /* 1: WEIGHT and SIGMA of the sets are not read; the caller sets them in all rows */
    int is_shifted;       /* 1: every field gets the phase centre below, in the field's frame */
    double ra_rad, dec_rad;
    const char *application, *command; /* for HISTORY */
    /* 1: a child process writes, while this one makes more rows */
    int in_process;
    const char *name; /* name of the set, for messages about the child; borrowed until it ends */
} msi_set_output_spec;

typedef struct msi_set_output msi_set_output;

/*
 * msi_set_output_make - make the set with its subtables, without rows.
 * Given:    path      must not exist
 *           spec      borrowed for the call
 *           reader    of the sets with the rows, opened in this process
 * Returned: *out      owned, freed by msi_set_output_free; the caller keeps or removes the files
 * Returns:  0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_set_output_make(msi_set_output **out, const char *path, const msi_ms_reader *reader,
                        const msi_set_output_spec *spec);

/*
 * msi_set_output_describe - read the values of a block's rows, except their samples.
 * Given:    reader  as in msi_set_output_make; its tables are opened when needed
 *           block   last block of that reader, or of another reader with the same sets and selection
 * Returned: row [block->n_row]
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_set_output_describe(msi_set_output *out, const msi_ms_reader *reader, const msi_ms_block *block,
                            msi_set_row *row);

/* Where the values of a row are to be written. Its samples are [n_chan][n_corr]. */
typedef struct msi_set_space {
    msi_set_row *row;
    msi_c32 *data;
    float *weight;
    uint8_t *flag;
} msi_set_space;

/*
 * msi_set_output_next - append a row. The caller fills it before the next call of this function or one below.
 * Returned: *space  borrowed
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_set_output_next(msi_set_output *out, int32_t n_chan, int32_t n_corr, msi_set_space *space);

/* msi_set_output_put - append rows, if this process writes. Rows may be held in memory for a while. Returns: 0,
 * MSI_EOUTPUT, MSI_ENOMEM. */
int msi_set_output_put(msi_set_output *out, const msi_set_rows *rows);

/* msi_set_output_n_row - return the number of rows appended. */
int64_t msi_set_output_n_row(const msi_set_output *out);

/* msi_set_output_antenna_m - return the geocentric positions [..][3] of antennas, by their numbers in the output;
 * borrowed. */
const double *msi_set_output_antenna_m(const msi_set_output *out);

/* msi_set_output_finish - write the remaining rows and close the set. Returns: 0, MSI_EOUTPUT. */
int msi_set_output_finish(msi_set_output *out);

/*
 * msi_set_output_explain - find out whether a failure was caused by a full disk or the limit of a file's size, which
 * casacore may not report: it may fail again while it closes a file, or crash.
 * Given:   status  of the work, with its error; folder  directory of the output; out  its name, for the message
 * Returns: MSI_EOUTPUT with the reason, or status
 */
int msi_set_output_explain(int status, const char *folder, const char *out);

/* msi_set_output_child_begin - call msi_ms_child_begin in a child that writes an output, and explain its failures as
 * above.
 * Given: folder, out  borrowed; folder NULL: the child writes nothing */
void msi_set_output_child_begin(const char *folder, const char *out);

/* msi_set_output_free - close everything; NULL is fine. */
void msi_set_output_free(msi_set_output *out);

#endif
