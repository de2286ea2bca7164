/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The part of reading an H5Parm file that calls the HDF5 library. */
#ifndef MSI_IO_H5PARM_FILE_H
#define MSI_IO_H5PARM_FILE_H

#include "io/h5/h5parm.h"

/*
 * msi_h5parm_file_read - read one table in this process.
 * Given:    names  of all tables that are wanted, for messages
 * Returned: *out   emptied by msi_solution_table_free, also after a failure
 * Returns:  as msi_h5parm_read
 */
int msi_h5parm_file_read(msi_solution_table *out, const char *path, const char *name);

/* msi_solution_table_free - leave it empty. */
void msi_solution_table_free(msi_solution_table *t);

#endif
