/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The watchdog ends an interrupted run that is busy in one long call of a library, such as the transform of a huge
 * image. */
#ifndef MSI_SRC_WATCHDOG_H
#define MSI_SRC_WATCHDOG_H

/*
 * msi_watchdog_start - start a thread that ends a run which does not stop by itself.
 *
 * A run that still lasts 1.5 s after SIGINT, SIGTERM or SIGHUP is ended: its temporary files are removed, the error
 * line is printed, the process exits with 128 + the signal's number.
 * Notes: call it once, after msi_interrupt_install and after the last fork. Where no thread can be had, runs only stop
 *        by themselves, and nothing is reported. The thread lives as long as the process.
 */
void msi_watchdog_start(void);

/*
 * msi_watchdog_stop - let a run go that has stopped by itself: it says why, and leaves when it likes.
 * Notes: nothing is left to remove then. Without a watchdog it does nothing.
 */
void msi_watchdog_stop(void);

/* msi_watchdog_grace - give an interrupted run another time than 1.5 s. Before msi_watchdog_start. */
void msi_watchdog_grace(double grace_s);

#endif
