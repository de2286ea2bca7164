/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Puts defects into a valid Measurement Set, for tests of readers. */
#ifndef MSI_TESTDATA_MS_DEFECTS_H
#define MSI_TESTDATA_MS_DEFECTS_H

typedef enum msi_ms_defect {
    MSI_DEFECT_NONE,
    /* These change one sample: the first correlation of the middle channel of one row. The row is the first one, from
     * the middle of the set on, that is a cross-correlation without FLAG_ROW and without flags in that channel. */
    MSI_DEFECT_NAN_VIS,
    MSI_DEFECT_INF_VIS,
    MSI_DEFECT_HUGE_VIS,   /* 1e38 Jy */
    MSI_DEFECT_NAN_WEIGHT, /* in WEIGHT_SPECTRUM where the row has a cell there, else in WEIGHT */
    MSI_DEFECT_INF_WEIGHT,
    MSI_DEFECT_NEGATIVE_WEIGHT, /* the weight with the opposite sign */
    /* These change the whole row. */
    MSI_DEFECT_NAN_UVW, /* u only */
    MSI_DEFECT_INF_UVW,
    MSI_DEFECT_HUGE_UVW,         /* 1e300 m */
    MSI_DEFECT_BAD_DATA_DESC_ID, /* 1000 */
    MSI_DEFECT_BAD_ANTENNA1,     /* 100000 */
    /* These change the whole set. */
    MSI_DEFECT_ALL_FLAGGED,
    MSI_DEFECT_ZERO_WEIGHTS,
    MSI_DEFECT_CHAN_FREQ_LENGTH, /* CHAN_FREQ of spw 0 has one element more than DATA has channels */
    MSI_DEFECT_CORR_TYPE_LENGTH, /* CORR_TYPE of row 0 of POLARIZATION has one element less than DATA has
                                    correlations; one more if DATA has one */
    MSI_DEFECT_ZERO_ROWS,        /* only msi_makems_write makes this and the next */
    MSI_DEFECT_ZERO_SPWS,
    MSI_N_DEFECT
} msi_ms_defect;

/* msi_ms_defect_name - return the name of a defect on the command line, such as "nan-vis". Borrowed. */
const char *msi_ms_defect_name(msi_ms_defect defect);

/* msi_ms_defect_find - find a defect by its name. Returns: 0, MSI_EUSAGE (the message lists the names). */
int msi_ms_defect_find(msi_ms_defect *out, const char *name);

/*
 * msi_ms_defect_apply - put a defect into a Measurement Set.
 *
 * Returns:  0, MSI_EUSAGE (a defect that only msi_makems_write makes), MSI_EINPUT (not a Measurement Set, no suitable
 *           row), MSI_EOUTPUT
 */
int msi_ms_defect_apply(const char *path, msi_ms_defect defect);

#endif
