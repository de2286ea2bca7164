/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/remedy.h"

#include <string.h>

#include "core/status.h"

const msi_remedy_row msi_remedy_table[] = {
    {"accuracy", "a larger -accuracy asks for less"},
    {"backend", "try -backend cpu"},
    {"kernel", "-kernel auto chooses what fits"},
    {"method", "try -gridder wgrid"},
    {"n_reader", "-readers 1 takes less"},
    {"n_row", "image fewer at a time (-interval)"},
    {"n_slice", "more slices of w (-wstack-slices) make it smaller"},
    {"overwrite", "-overwrite replaces it"},
    {"strategy", "-strategy auto chooses what fits"},
    {"temp_dir", "-temp-dir names another folder"},
};
const int msi_remedy_count = sizeof msi_remedy_table / sizeof *msi_remedy_table;

int msi_remedy_append(int status)
{
    for (int i = 0; status && i < msi_remedy_count; i++) {
        if (strcmp(msi_error_about_get(), msi_remedy_table[i].about) != 0) continue;
        return msi_error_about(msi_error_append(status, "; %s", msi_remedy_table[i].words), "");
    }
    return status;
}
