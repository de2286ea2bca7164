/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The options of WSClean 3.1, some of later versions, and what becomes of each here, so that its command lines run or
 * are told why not. */
#ifndef MSI_SRC_WSCLEAN_OPTIONS_H
#define MSI_SRC_WSCLEAN_OPTIONS_H

#include <stddef.h>
#include <stdio.h>

typedef enum msi_wsclean_class {
    MSI_WSCLEAN_SAME,     /* a row of the option table has the name and the meaning */
    MSI_WSCLEAN_ACCEPTED, /* nothing has to be done for it here; the log says why */
    MSI_WSCLEAN_MAPPED,   /* an option of another name takes its arguments */
    MSI_WSCLEAN_REFUSED   /* a usage error, with the reason and the nearest way */
} msi_wsclean_class;

/* One option of WSClean. Members that its class does not use are zero. */
typedef struct msi_wsclean_option {
    const char *name; /* without the dash */
    msi_wsclean_class is;
    int n_argument;       /* of WSClean's; of those that are the same here the option table's arity counts */
    const char *own;      /* the option of the table that takes the arguments of a mapped one */
    const char *why;      /* of an accepted or a refused one: a sentence without its full stop */
    const char *value;    /* the only first argument with which it is accepted; NULL: any */
    const char *else_why; /* why any other value is refused */
} msi_wsclean_option;

extern const msi_wsclean_option msi_wsclean_table[];
extern const int msi_wsclean_count;

/* msi_wsclean_find - find the row of a name without its dashes; NULL if WSClean has no such option. */
const msi_wsclean_option *msi_wsclean_find(const char *name);

/*
 * msi_wsclean_gridder - find what becomes of an argument of -gridder that later versions of WSClean have: accepted, for
 * the default gridder, or refused; NULL if it is none of WSClean's.
 */
const msi_wsclean_option *msi_wsclean_gridder(const char *word);

/*
 * msi_wsclean_describe - write one line about an option that is not the same here: accepted and why, taken as which, or
 * refused and why.
 * Returned: out, cut to size
 */
void msi_wsclean_describe(char *out, size_t size, const msi_wsclean_option *option);

/*
 * msi_wsclean_check - may the option be given with this first argument (NULL: it takes none)?
 * Returns:  0, MSI_EUSAGE (the message names the reason and the nearest way)
 */
int msi_wsclean_check(const msi_wsclean_option *option, const char *first);

#endif
