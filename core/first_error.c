/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/first_error.h"

#include <stdio.h>

void msi_first_error_keep(msi_first_error *e, int status)
{
    int none = MSI_OK;
    if (!status || !__atomic_compare_exchange_n(&e->status, &none, status, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return;
    snprintf(e->message, sizeof e->message, "%s", msi_error_get());
    e->about = msi_error_about_get();
}

int msi_first_error_status(const msi_first_error *e)
{
    return __atomic_load_n(&e->status, __ATOMIC_ACQUIRE);
}

int msi_first_error_raise(const msi_first_error *e)
{
    const int status = msi_first_error_status(e);
    return status ? msi_error_about(msi_error_set(status, "%s", e->message), e->about) : MSI_OK;
}
