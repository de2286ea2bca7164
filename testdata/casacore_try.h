/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Failures of the casacore bindings as this program's own. */
#ifndef MSI_TESTDATA_CASACORE_TRY_H
#define MSI_TESTDATA_CASACORE_TRY_H

#include "core/status.h"
#include "io/casacore-c/casacore_c.h"

/* Set the bindings' message. Returns `status`, unless memory or a lock was what failed. */
static inline int msi_casacore_failed(int failed, int status)
{
    if (failed == CCC_ENOMEM) status = MSI_ENOMEM;
    if (failed == CCC_ELOCKED) status = MSI_ELOCKED;
    return msi_error_set(status, "%s", ccc_error());
}

/* Return at once when the call fails; status says whether it was an input or an output. */
#define MSI_CASACORE_TRY(status, expr)                                                                                 \
    do {                                                                                                               \
        int msi_failed_ = (expr);                                                                                      \
        if (msi_failed_ != CCC_OK) return msi_casacore_failed(msi_failed_, status);                                    \
    } while (0)

#endif
