/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/exit_code.h"

#include "core/interrupt.h"
#include "core/status.h"

int msi_exit_code(int status)
{
    switch (status) {
    case MSI_OK:
        return 0;
    case MSI_EUSAGE:
    case MSI_EARGUMENT:
        return 2;
    case MSI_EINPUT:
        return 3;
    case MSI_EOUTPUT:
        return 4;
    case MSI_ENOMEM:
    case MSI_EGPU:
        return 5;
    case MSI_ELOCKED:
        return 6;
    case MSI_EINTERRUPTED:
        return 128 + msi_interrupt_signal();
    default:
        return 70;
    }
}
