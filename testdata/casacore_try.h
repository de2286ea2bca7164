/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Converts errors of the casacore bindings to the statuses of core/status.h. */
#ifndef MSI_TESTDATA_CASACORE_TRY_H
#define MSI_TESTDATA_CASACORE_TRY_H

#include "core/status.h"
#include "io/casacore-c/casacore_c.h"

/* Set the message of the bindings as the error. Returns MSI_ENOMEM or MSI_ELOCKED if memory or a lock failed, else
 * `status`. */
static inline int msi_casacore_failed(int failed, int status)
{
    if (failed == CCC_ENOMEM) status = MSI_ENOMEM;
    if (failed == CCC_ELOCKED) status = MSI_ELOCKED;
    return msi_error_set(status, "%s", ccc_error());
}

/* Return from the caller if the call fails. Given: status  MSI_EINPUT or MSI_EOUTPUT */
#define MSI_CASACORE_TRY(status, expr)                                                                                 \
    do {                                                                                                               \
        int msi_failed_ = (expr);                                                                                      \
        if (msi_failed_ != CCC_OK) return msi_casacore_failed(msi_failed_, status);                                    \
    } while (0)

#endif
