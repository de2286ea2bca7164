/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Ends an interrupted run that is busy in one long call of a library, such as the transform of a huge image. */
#ifndef MSI_SRC_WATCHDOG_H
#define MSI_SRC_WATCHDOG_H

/*
 * msi_watchdog_start - from now on, a run that has not stopped by itself 1.5 s after SIGINT, SIGTERM or SIGHUP is
 * ended: its temporary files are removed, the error line is printed, the process exits with 128 + the signal's number.
 * Call once, after msi_interrupt_install. Where no thread can be had, runs only stop by themselves.
 */
void msi_watchdog_start(void);

#endif
