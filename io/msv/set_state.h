/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The file system tells whether a Measurement Set has changed, by what it says of its files. */
#ifndef MSI_IO_SET_STATE_H
#define MSI_IO_SET_STATE_H

#include <stdint.h>

/*
 * msi_set_state - return a number made of names, sizes and times of change of the files of a set and its subtables;
 * locks and HISTORY are left out.
 * Returned: *state
 * Returns:  1; 0 where there is no folder of that name that can be read
 */
int msi_set_state(const char *path, uint64_t *state);

#endif
