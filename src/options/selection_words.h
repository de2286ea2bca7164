/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A selection of rows and channels, turned back into the options that ask for it. */
#ifndef MSI_SRC_SELECTION_WORDS_H
#define MSI_SRC_SELECTION_WORDS_H

#include <stddef.h>

#include "io/ms/ms_reader.h"

/*
 * msi_selection_words - write the options that select what `selection` does.
 * Returned: text [size]  such as "-field 0,2 -spws 1", cut short where it is longer; never empty
 */
void msi_selection_words(const msi_ms_selection *selection, char *text, size_t size);

#endif
