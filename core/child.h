/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A function that runs in a separate process, called the child. If a library crashes there, loops endlessly or requests
 * too much memory, the program reports one error line and goes on.
 *
 * Both sides exchange frames (msi_frame) on a socket, and share a block of memory. The child ends with MSI_CHILD_DONE,
 * which has the status and the error line of its function. If it ends without this frame, its exit status or signal
 * determines the status. The text of a library is only quoted.
 *
 * A child that starts children passes its own socket on to them. So the end of a socket means that all processes of a
 * child have ended.
 */
#ifndef MSI_CORE_CHILD_H
#define MSI_CORE_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/log.h"
#include "core/status.h"

/* One side of the connection between a child and its parent; it stands for the other process. */
typedef struct msi_child msi_child;

/* The meaning of a frame. */
typedef enum msi_child_kind {
    MSI_CHILD_LOG = 1,  /* sent by the child: a line of the level `number`, as for msi_log_listen */
    MSI_CHILD_PROGRESS, /* `number` of `total` */
    MSI_CHILD_STEP,     /* step `number` is complete, as counted by the two sides */
    MSI_CHILD_FREED,    /* slot `number` of the shared memory was read, and may be filled again */
    MSI_CHILD_DONE,     /* the function has returned: status, and its error line */
    MSI_CHILD_NEXT,     /* sent by the parent: go on with step `number` */
    MSI_CHILD_FILLED,   /* slot `number` of the shared memory has been filled */
    MSI_CHILD_OTHER     /* this and larger ones: of another protocol (reader_pool.c) */
} msi_child_kind;

/* One frame. Only the first n_byte bytes of its text are sent. */
typedef struct msi_frame {
    int32_t kind, status;
    int64_t number, total;
    int64_t n_byte;
    char text[MSI_MESSAGE_BYTES];
} msi_frame;

/* The work of a child. Returns: 0 or a code of core/status.h, with its error line. */
typedef int msi_child_work(msi_child *self, void *of);

typedef enum msi_child_type {
    MSI_CHILD_WORKER, /* it is killed when its parent ends */
    MSI_CHILD_KEEPER, /* it outlives its parent, to clean up */
    MSI_CHILD_PROGRAM /* it outlives its parent too, and is a program like it, with its signals, files and output */
} msi_child_type;

typedef struct msi_child_spec {
    msi_child_type type;
    msi_child_work *work;
    void *of;
    const char *what;     /* "the reader process", for messages; static */
    const char *path;     /* what it reads or writes, for messages; borrowed */
    int64_t shared_bytes; /* bytes of shared memory; only pages that are touched become memory */
    int keeps_files;      /* 1: it keeps the descriptors of the parent; else it closes them, unless it is a program */
    double wall_s;        /* 0: no limit; else the child is killed when the parent has waited this long */
    double cpu_s;         /* 0: no limit; else the CPU time of a step, as for msi_child_progress */
    int reports;          /* 1: what it logs and its progress are shown by the parent; 0: they are not shown */
} msi_child_spec;

/*
 * msi_child_start - fork a child. Call it before any thread starts, unless the child is short and async-signal-safe. A
 * worker or keeper ignores signals to stop, so that the parent decides.
 * Returned: *out  owned, msi_child_free
 * Returns:  0, MSI_ENOMEM (a process, a socket or a file in memory cannot be created)
 */
int msi_child_start(msi_child **out, const msi_child_spec *spec);

/* msi_child_run - start a child, and wait until it is done. Returns: as msi_child_await_done, or msi_child_start. */
int msi_child_run(const msi_child_spec *spec);

/* msi_child_shared - return the shared memory; NULL: none. Damage of the child may have damaged its content. */
void *msi_child_shared(const msi_child *child);

/* msi_child_id - return the process of a child; 0: it has ended, or the caller is the child. */
pid_t msi_child_id(const msi_child *child);

/* ---- Frames ---- */

/* msi_child_send - send a frame. Returns: 0; 1 if the other side has ended; MSI_ENOMEM if the system refuses the frame
 * for a second, which ends a worker. */
int msi_child_send(const msi_child *child, const msi_frame *frame);

/* msi_child_ask - send a frame of the parent. It succeeds if the child has ended, which the next receive
 * reports. Returns: 0, MSI_ENOMEM (no answer will come). */
int msi_child_ask(const msi_child *child, const msi_frame *frame);

/*
 * msi_child_receive - receive the next frame. While it waits, the parent checks the signal flag.
 * Given:    wait  0: do not wait
 * Returned: *got  1: a frame; 0: none yet; -1: the other side has ended, or sent something else
 * Returns:  0, MSI_EINTERRUPTED, MSI_ENOMEM
 */
int msi_child_receive(msi_child *child, int wait, msi_frame *frame, int *got);

/* msi_child_wait_briefly - wait for a frame or the end of the other side, at most a fifth of a second. */
void msi_child_wait_briefly(const msi_child *child);

/* ---- Functions for the parent ---- */

/*
 * msi_child_await - receive frames until one of a kind and number. Lines are logged, and progress is shown.
 * Returns: 0; the status of the child, if it is done or failed; MSI_EINTERRUPTED, MSI_ENOMEM
 */
int msi_child_await(msi_child *child, msi_child_kind kind, int64_t number, int status_of_crash);

/*
 * msi_child_await_done - the same for MSI_CHILD_DONE.
 * Given: status_of_crash  the status if the child ended for another reason than a refusal of the system: MSI_EINPUT if
 *                         it read what may be damaged, MSI_EOUTPUT if it wrote
 */
int msi_child_await_done(msi_child *child, int status_of_crash);

/*
 * msi_child_fail - wait for the end of a child that has ended without MSI_CHILD_DONE, and set the error.
 * Returns: MSI_ENOMEM if the system refused memory, threads, files or a frame, or killed it; MSI_EINTERRUPTED (the
 *          user's limit of CPU time); else status_of_crash
 */
int msi_child_fail(msi_child *child, int status_of_crash);

/* msi_child_show - log a line, or show progress; other frames do nothing. */
void msi_child_show(const msi_frame *frame);

/* msi_child_put_error - put the last error line of this thread, and its subject, into a frame. */
void msi_child_put_error(msi_frame *frame);

/* msi_child_error - set the error of a frame MSI_CHILD_DONE, with its subject. Returns: its status; MSI_EINTERNAL if it
 * has no error line. */
int msi_child_error(const msi_frame *frame);

/* msi_child_stop - have a keeper or program stop by itself, at most for this time, and kill it then. It is noticed at
 * the child's next msi_child_receive. What it sent can still be received. */
void msi_child_stop(msi_child *child, int64_t most_ms);

/* msi_child_end - kill the child, and wait for its end and that of its processes. */
void msi_child_end(msi_child *child);

/* msi_child_free - end the child if it runs, and free its shared memory; NULL is fine. */
void msi_child_free(msi_child *child);

/* ---- Functions for the child ---- */

/* msi_child_tell - send a frame without text; if the parent has ended, end this process. */
void msi_child_tell(const msi_child *self, msi_child_kind kind, int64_t number, int64_t total);

/* msi_child_get - receive the next frame of the parent; if the parent has ended, end this process. */
void msi_child_get(msi_child *self, msi_frame *frame);

/* msi_child_is_orphan - return whether the parent has ended or has stopped this child. */
int msi_child_is_orphan(const msi_child *self);

/* msi_child_leave - end this child at once, with the status and its error line. It serves handlers of libraries that
 * would end the process. Does nothing outside a child. */
void msi_child_leave(int status);

/* msi_child_limit_memory - limit the address space of the child to what it has and `bytes` more. Allocations beyond it
 * fail.
 * Returns: 1; 0 if a lower limit exists or the limit cannot be set. */
int msi_child_limit_memory(int64_t bytes);

/* Limit for a step of reading, such as a block or a row of a subtable, which takes milliseconds. */
#define MSI_CHILD_STEP_S 20.0

/*
 * msi_child_progress - report progress: the next call must come within cpu_s seconds of CPU time, or SIGPROF ends the
 * child. CPU time counts, not the clock, so a busy machine or a slow disk does not matter. Does nothing without a limit
 * in the specification, and outside a child.
 */
void msi_child_progress(double cpu_s);

#endif
