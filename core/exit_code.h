/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The exit code of a program of this house. */
#ifndef MSI_CORE_EXIT_CODE_H
#define MSI_CORE_EXIT_CODE_H

/*
 * msi_exit_code - return the process exit code that stands for a status of core/status.h.
 * Returns: 0 done, 2 usage, 3 input, 4 output, 5 memory or GPU, 6 locked, 70 internal or out of range; an interrupted
 *          run exits 128 + the signal's number
 */
int msi_exit_code(int status);

#endif
