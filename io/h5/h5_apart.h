/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Calls the HDF5 library in a separate process, because a damaged file may crash it. */
#ifndef MSI_IO_H5_APART_H
#define MSI_IO_H5_APART_H

#include <stdint.h>

/* CPU time after which a step of the child, such as the tables of a file without their values, counts as endless: the
 * HDF5 library loops in some damaged files. A step of a good file takes less than 0.1 s. */
#define MSI_H5_STEP_S 4.0

/*
 * msi_h5_apart - read a file in a child process and take its result. It forks.
 * Given:    path
 *           read  in the child: reads the file and puts its result by msi_h5_put. Returns: a status, with a message
 *           take  in this process: copies the result [n_byte], which may have any value if the child is damaged
 *           of    for both
 * Returns:  0, those of read and take, MSI_EINPUT (the child died), MSI_ENOMEM, MSI_EINTERRUPTED
 */
int msi_h5_apart(const char *path, int (*read)(int fd, const char *path, void *of),
                 int (*take)(void *of, const char *path, const char *bytes, int64_t n_byte), void *of);

/* msi_h5_put - append to the result of the child. Returns: 0, MSI_ENOMEM */
int msi_h5_put(int fd, const void *bytes, int64_t n_byte);

#endif
