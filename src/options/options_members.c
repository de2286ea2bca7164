/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Paths of the command line become those of sets: a multi-MS is read and written by its members. */
#include "core/status.h"
#include "io/ms/ms_members.h"
#include "src/options/options.h"

int msi_options_expand(msi_options *o)
{
    int which, n;
    MSI_TRY(msi_ms_members(&o->members, &n, &which, o->given_paths, o->n_given));
    if (!o->members) return MSI_OK;
    o->ms_paths = (const char *const *)o->members;
    o->n_ms = n;
    if (o->intervals_out > 1 || o->selection.interval_begin || o->selection.interval_end)
        return msi_error_set(MSI_EUSAGE,
                             "-%s: counts the time steps of each set, and %s is a multi-MS, of %d sets in all; select "
                             "times by -select-time or -taql",
                             o->intervals_out > 1 ? "intervals-out" : "interval", o->given_paths[which], n);
    return MSI_OK;
}
