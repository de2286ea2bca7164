/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A Measurement Set is written of rows of others: its subtables are theirs, without what was not selected, numbered
 * anew and, of several sets, joined. casacore runs in this process: call it in a child.
 */
#ifndef MSI_IO_SET_OUTPUT_H
#define MSI_IO_SET_OUTPUT_H

#include <sys/types.h>

#include "io/ms/ms_reader.h"

/* A row has these beside its samples. Numbers of antennas, fields and so on are the output's. */
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
    const float *weight;    /* likewise; not written where the output has no WEIGHT_SPECTRUM */
    const uint8_t *flag;    /* likewise, 0 or 1 */
} msi_set_rows;

/* The selected channels of a setup become the output's in groups: group g averages first[g] .. first[g + 1] - 1. */
typedef struct msi_channel_groups {
    int32_t n_group;
    const int32_t *first; /* [n_group + 1] */
} msi_channel_groups;

typedef struct msi_set_output_spec {
    const msi_channel_groups *groups; /* [msi_ms_reader_n_spw] */
    int has_weight_spectrum;
    int are_times_own;    /* TIME and INTERVAL may differ in rows of one moment */
    int are_means;        /* TIME_CENTROID and EXPOSURE likewise, as of averages */
    int weights_are_made; /* WEIGHT and SIGMA of the sets are not read: whoever puts rows fills those of all of them */
    int is_shifted;       /* every field gets this phase centre, in its own frame */
    double ra_rad, dec_rad;
    const char *application, *command; /* for HISTORY */
    /* It is told of a set's subtable whose files are missing, and which is left out; NULL: nobody. */
    void (*gone)(void *of, const char *path, const char *subtable);
    void *of; /* handed to it */
    /* A process of its own writes, while this one goes on with other rows. */
    int beside;
    const char *name; /* of the set, for messages about that process; borrowed as long as it lives */
    int kept_fd;      /* it keeps this open: who listens at a socket's other end knows when nobody writes any more */
} msi_set_output_spec;

typedef struct msi_set_output msi_set_output;

/*
 * msi_set_output_make - make the set with its subtables, without rows.
 * Given:    path      where nothing stands; spec  borrowed until this returns
 *           reader    of the sets whose rows are to come, opened in this process
 * Returned: *out      owned, freed by msi_set_output_free; what is on disk then is the caller's to keep or remove
 * Returns:  0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_set_output_make(msi_set_output **out, const char *path, const msi_ms_reader *reader,
                        const msi_set_output_spec *spec);

/*
 * msi_set_output_describe - read what the rows of a block have beside their samples.
 * Given:    reader  the output's, whose tables are opened as they are needed
 *           block   the reader's last, or that of another reader of the same sets and selection
 * Returned: row [block->n_row]
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_set_output_describe(msi_set_output *out, const msi_ms_reader *reader, const msi_ms_block *block,
                            msi_set_row *row);

/* Room for a row, whose samples are [n_chan][n_corr]. */
typedef struct msi_set_room {
    msi_set_row *row;
    msi_c32 *data;
    float *weight;
    uint8_t *flag;
} msi_set_room;

/*
 * msi_set_output_next - append a row, which the caller fills before it calls this, or any of the following, again.
 * Returned: *room  borrowed
 * Returns:  0, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_set_output_next(msi_set_output *out, int32_t n_chan, int32_t n_corr, msi_set_room *room);

/* msi_set_output_put - append rows where this process writes; they may wait for others until they are written. Returns:
 * 0, MSI_EOUTPUT, MSI_ENOMEM. */
int msi_set_output_put(msi_set_output *out, const msi_set_rows *rows);

/* msi_set_output_n_row - count the rows that have been put. */
int64_t msi_set_output_n_row(const msi_set_output *out);

/* msi_set_output_antenna_m - geocentric positions [..][3] by the output's numbers of antennas; borrowed. */
const double *msi_set_output_antenna_m(const msi_set_output *out);

/* msi_set_output_process - return the process that writes beside this one, to be ended before the set is removed; 0
 * where there is none. */
pid_t msi_set_output_process(const msi_set_output *out);

/* msi_set_output_finish - write what is unwritten and close the set. Returns: 0, MSI_EOUTPUT. */
int msi_set_output_finish(msi_set_output *out);

/* msi_set_output_free - close what is open; NULL is fine. */
void msi_set_output_free(msi_set_output *out);

#endif
