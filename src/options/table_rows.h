/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The tables of options, table_*.c, are written with this. */
#ifndef MSI_SRC_TABLE_ROWS_H
#define MSI_SRC_TABLE_ROWS_H

#include <stddef.h>

#include "src/options/option_readers.h"
#include "src/options/option_table.h"

/* The member of msi_options that a row's reader fills. */
#define AT(member) .offset = offsetof(msi_options, member)

#endif
