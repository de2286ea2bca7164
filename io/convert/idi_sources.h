/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The rest frequencies of a FITS-IDI file, which casacore's msfits leaves out, become a set's table SOURCE. */
#ifndef MSI_IO_IDI_SOURCES_H
#define MSI_IO_IDI_SOURCES_H

#include "io/casacore-c/casacore_c.h"

/*
 * msi_idi_sources_take - add a table SOURCE of the fields whose sources have a rest frequency in the file's table of
 * that name (E. W. Greisen, "The FITS Interferometry Data Interchange Convention", AIPS Memo 114, section 5.4), and
 * link the fields to it. A file or table without any is left as it is, and a set that has the table too.
 * Given:   set  made of the file, open for update
 * Returns: 0, MSI_EINPUT, MSI_EOUTPUT, MSI_ENOMEM
 */
int msi_idi_sources_take(ccc_table *set, const char *fits);

#endif
