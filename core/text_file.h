/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Small text files of the user, read whole. */
#ifndef MSI_TEXT_FILE_H
#define MSI_TEXT_FILE_H

#include <stdint.h>

enum { MSI_TEXT_FILE_MOST = 64 << 20 };

/*
 * msi_text_file_read - read a file of at most MSI_TEXT_FILE_MOST bytes into memory; it may also be a pipe.
 * Given:    what  for messages, such as "a region file"
 * Returned: *text [*n + 1]  with a zero at its end; the file may contain zeros too. Owned, msi_free; NULL on failure
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_text_file_read(char **text, int64_t *n, const char *path, const char *what);

#endif
