/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The command line of msimage-convert, and the stages of a conversion. Each stage runs in a child process
 * (convert_main.c), because casacore may end its process on damaged data. */
#ifndef MSI_SRC_CONVERT_STAGES_H
#define MSI_SRC_CONVERT_STAGES_H

#include <stdint.h>

#include "core/log.h"
#include "src/options/options.h"

/* ---- The command line of msimage-convert, which shares many options with msimage ---- */

typedef struct msi_convert_options {
    /* Must come first, because the readers of msimage's options fill it. given_paths are the inputs. */
    msi_options shared;
    const char *out;
    double average_time_s;    /* 0: no averaging */
    int64_t average_channels; /* 1: no averaging */
    /* largest loss of baseline-dependent averaging, up to 0.5; 0: all baselines have the same averaging time */
    double smearing_loss;
    double smearing_radius_rad; /* 0: computed from the diameters of the antennas */
    int flip_uvw;
} msi_convert_options;

/*
 * msi_convert_options_parse - parse and check a command line. It does not access files.
 * Returned: *o  must be freed by msi_convert_options_free, also after a failure
 * Returns:  0, MSI_EUSAGE, MSI_ENOMEM
 */
int msi_convert_options_parse(msi_convert_options *o, int argc, const char *const *argv);

/* msi_convert_options_help - print the help to stdout. */
void msi_convert_options_help(void);

/* msi_convert_options_free - free the owned members. */
void msi_convert_options_free(msi_convert_options *o);

/* The work of a stage, which runs in the child. The parent shows its log and progress. Returns a status, with its
 * message. */
typedef int msi_stage_work(const void *job);

/* ---- Conversion of Measurement Sets, UVFITS and FITS-IDI files to one set ---- */

typedef struct msi_sets_job {
    const msi_convert_options *options;
    const char *const *paths; /* [n_path] */
    int n_path;
    const char *name;   /* first input as given by the user, for messages */
    int is_exported;    /* 1: the set will be exported to UVFITS, which cannot represent every set */
    const char *folder; /* directory for the subtables of UVFITS and FITS-IDI files; NULL in a dry run */
    const char *to;     /* path of the new set; NULL: dry run */
} msi_sets_job;

/* msi_convert_sets - the work of this stage; job is a msi_sets_job. */
msi_stage_work msi_convert_sets;

/* ---- Making of a visibility store: one file for imaging, which is read without casacore ---- */

/* msi_convert_is_store - return 1 if the name of the output ends in .msv, for a visibility store. */
int msi_convert_is_store(const char *out);

/* msi_convert_store_check - check that the options and inputs are allowed for a store. Returns: 0, MSI_EUSAGE. */
int msi_convert_store_check(const msi_convert_options *options);

typedef struct msi_store_job {
    const msi_convert_options *options;
    const char *to; /* NULL: dry run */
} msi_store_job;

/* msi_convert_store - the work of this stage; job is a msi_store_job. */
msi_stage_work msi_convert_store;

/* ---- Export of a set to UVFITS ---- */

typedef struct msi_export_job {
    const char *set, *fits; /* the set has DATA, and only rows of the selected windows */
    const char *name;       /* name of the output, for messages */
    const char *command;    /* for HISTORY */
} msi_export_job;

/* msi_export_fits - the work of this stage; job is a msi_export_job. */
msi_stage_work msi_export_fits;

#endif
