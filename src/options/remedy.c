/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/remedy.h"

#include <string.h>

#include "core/status.h"

const msi_remedy_row msi_remedy_table[] = {
    {"accuracy", "a larger -accuracy asks for less", 0},
    {"backend", "try -backend cpu", 0},
    {"kernel", "-kernel auto chooses what fits", 0},
    {"method", "try -gridder wgrid", 0},
    {"n_reader", "-readers 1 takes less", 0},
    {"n_row", "image fewer at a time (-interval)", 0},
    {"n_slice", "more slices of w (-wstack-slices) make it smaller", 0},
    {"overwrite", "-overwrite replaces it", 0},
    {"strategy", "-strategy auto chooses what fits", 0},
    {"temp_dir", "-temp-dir names another folder", 0},
    {"w_max_lambda", "correct rows whose W is wrong, or leave them out (-maxuvw-m)", 1},
};
const int msi_remedy_count = sizeof msi_remedy_table / sizeof *msi_remedy_table;

int msi_remedy_append(int status)
{
    const int out_of_range = status == MSI_ERANGE;
    for (int i = 0; status && i < msi_remedy_count; i++) {
        const msi_remedy_row *row = &msi_remedy_table[i];
        if (strcmp(msi_error_about_get(), row->about) != 0) continue;
        if (out_of_range) status = row->is_input ? MSI_EINPUT : MSI_EUSAGE;
        return msi_error_about(msi_error_append(status, "; %s", row->words), "");
    }
    return out_of_range ? MSI_EUSAGE : status;
}
