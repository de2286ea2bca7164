/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Options of WSClean 3.1 to 3.7 that msimage does not have. They are known so that command lines of WSClean run, or
 * fail with a reason. Each is accepted without effect, mapped to another option, or refused. */
#ifndef MSI_SRC_WSCLEAN_OPTIONS_H
#define MSI_SRC_WSCLEAN_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

typedef enum msi_wsclean_class {
    MSI_WSCLEAN_ACCEPTED, /* no effect; the log gives the reason */
    MSI_WSCLEAN_MAPPED,   /* another option gets its arguments */
    MSI_WSCLEAN_REFUSED   /* usage error; the message gives the reason and an alternative */
} msi_wsclean_class;

/* One option of WSClean. Members that its class does not use are zero. */
typedef struct msi_wsclean_option {
    const char *name; /* without the dash */
    msi_wsclean_class is;
    int n_argument;       /* number of arguments in WSClean */
    const char *own;      /* mapped: the option of msimage */
    const char *why;      /* accepted or refused: the reason, without a full stop */
    const char *value;    /* accepted: only with this first argument; NULL: with any */
    const char *else_why; /* reason to refuse other arguments */
} msi_wsclean_option;

extern const msi_wsclean_option msi_wsclean_table[];
extern const int msi_wsclean_count;

/* msi_wsclean_find - find the row with a name, without dashes; NULL if there is none. */
const msi_wsclean_option *msi_wsclean_find(const char *name);

/*
 * msi_wsclean_gridder - find the row for an argument of -gridder in later versions of WSClean; NULL if there is none.
 * Notes: an accepted argument selects the default gridder.
 */
const msi_wsclean_option *msi_wsclean_gridder(const char *word);

/*
 * msi_wsclean_describe - write a line about an option that is different here: its class, and the reason or the option
 * of msimage.
 * Returned: out, truncated to size
 */
void msi_wsclean_describe(char *out, size_t size, const msi_wsclean_option *option);

/*
 * msi_wsclean_check - check that an option is accepted with its first argument (NULL: it has none).
 * Returns:  0, MSI_EUSAGE (the message gives the reason and an alternative)
 */
int msi_wsclean_check(const msi_wsclean_option *option, const char *first);

#endif
