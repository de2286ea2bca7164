/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * A child is a function that runs in a separate process. If a library crashes there, loops endlessly or allocates too
 * much memory, the program reports one error line and continues.
 *
 * Both processes exchange frames (msi_frame) on a socket, and share a block of memory. When its function returns, the
 * child sends MSI_CHILD_DONE with the status and the error line. If the child ends without this frame, its exit status
 * or signal determines the status. Text that a library has printed is quoted, but does not affect the status.
 *
 * The children of a child inherit its socket. So when the socket is closed, all processes of a child have ended.
 */
#ifndef MSI_CORE_CHILD_H
#define MSI_CORE_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/log.h"
#include "core/status.h"

/* One end of the connection between a child and its parent. */
typedef struct msi_child msi_child;

/* The kinds of frames. */
typedef enum msi_child_kind {
    MSI_CHILD_LOG = 1,  /* from the child: a line of the log, of level `number`, as for msi_log_listen */
    MSI_CHILD_PROGRESS, /* from the child: `number` of `total` */
    MSI_CHILD_STEP,     /* from the child: step `number` is complete; both processes count the same steps */
    MSI_CHILD_FREED,    /* slot `number` of the shared memory has been read, and may be filled again */
    MSI_CHILD_DONE,     /* the function has returned; the frame has its status and error line */
    MSI_CHILD_NEXT,     /* from the parent: continue with step `number` */
    MSI_CHILD_FILLED,   /* slot `number` of the shared memory has been filled */
    MSI_CHILD_OTHER     /* this value and larger ones belong to another protocol (reader_pool.c) */
} msi_child_kind;

/* A frame. Only the first n_byte bytes of its text are sent. */
typedef struct msi_frame {
    int32_t kind, status;
    int64_t number, total;
    int64_t n_byte;
    char text[MSI_MESSAGE_BYTES];
} msi_frame;

/* The function that runs in a child. Returns: 0 or a code of core/status.h, with its error line. */
typedef int msi_child_work(msi_child *self, void *of);

typedef enum msi_child_type {
    MSI_CHILD_WORKER, /* is killed when its parent ends */
    MSI_CHILD_KEEPER, /* outlives its parent, to clean up */
    MSI_CHILD_PROGRAM /* outlives its parent; keeps its signals, files and output, as a separate program does */
} msi_child_type;

typedef struct msi_child_spec {
    msi_child_type type;
    msi_child_work *work;
    void *of;
    const char *what;     /* subject of messages, such as "the reader process"; static */
    const char *path;     /* path that it reads or writes, for messages; borrowed */
    int64_t shared_bytes; /* size of the shared memory; only pages that are written take memory */
    int keeps_files;      /* 1: it keeps the parent's descriptors; 0: it closes them, unless it is MSI_CHILD_PROGRAM */
    double wall_s;        /* the child is killed when the parent has waited for this long; 0: no limit */
    double cpu_s;         /* CPU time of a step, as in msi_child_progress; 0: no limit */
    int reports;          /* 1: the parent shows its log lines and progress; 0: they are not shown */
} msi_child_spec;

/*
 * msi_child_start - fork a child. Call it before any thread starts, unless the child's function is short and
 * async-signal-safe. A worker or keeper ignores signals, because the parent decides when to stop.
 * Returned: *out  owned, msi_child_free
 * Returns:  0, MSI_ENOMEM (a process, a socket or a file in memory cannot be created)
 */
int msi_child_start(msi_child **out, const msi_child_spec *spec);

/* msi_child_run - start a child, and wait until it has ended. Returns: as msi_child_await_done, or msi_child_start. */
int msi_child_run(const msi_child_spec *spec);

/* msi_child_shared - return the shared memory; NULL: none. Check its contents, which a damaged child may have
 * corrupted. */
void *msi_child_shared(const msi_child *child);

/* msi_child_id - return the id of a child's process; 0 if it has ended, or if the caller is the child. */
pid_t msi_child_id(const msi_child *child);

/* ---- Frames ---- */

/* msi_child_send - send a frame. Returns: 0; 1 if the other process has ended; MSI_ENOMEM if the system refuses the
 * frame for a second. A worker then ends. */
int msi_child_send(const msi_child *child, const msi_frame *frame);

/* msi_child_ask - send a frame from the parent. It returns 0 even if the child has ended, which the next receive
 * reports.
 * Returns: 0, MSI_ENOMEM (there will be no reply). */
int msi_child_ask(const msi_child *child, const msi_frame *frame);

/*
 * msi_child_receive - receive the next frame. While waiting, the parent checks the signal flag.
 * Given:    wait  0: do not wait
 * Returned: *got  1: a frame; 0: none yet; -1: the other side has ended, or sent something else
 * Returns:  0, MSI_EINTERRUPTED, MSI_ENOMEM
 */
int msi_child_receive(msi_child *child, int wait, msi_frame *frame, int *got);

/* msi_child_wait_briefly - wait for a frame or the end of the other side, at most a fifth of a second. */
void msi_child_wait_briefly(const msi_child *child);

/* ---- Functions for the parent ---- */

/*
 * msi_child_await - receive frames until one has this kind and number. Log lines and progress are shown.
 * Returns: 0; the status of the child, if it has ended; MSI_EINTERRUPTED, MSI_ENOMEM
 */
int msi_child_await(msi_child *child, msi_child_kind kind, int64_t number, int status_of_crash);

/*
 * msi_child_await_done - the same for MSI_CHILD_DONE.
 * Given: status_of_crash  status if the child has crashed: MSI_EINPUT if it reads what may be damaged, MSI_EOUTPUT if
 *                         it writes. If the system refused it memory, the status is MSI_ENOMEM
 */
int msi_child_await_done(msi_child *child, int status_of_crash);

/*
 * msi_child_fail - wait for the end of a child that has ended without MSI_CHILD_DONE, and set the error.
 * Returns: MSI_ENOMEM if the system refused it memory, threads, files or a frame, or killed it; MSI_EINTERRUPTED if it
 *          reached the user's limit of CPU time; else status_of_crash
 */
int msi_child_fail(msi_child *child, int status_of_crash);

/* msi_child_show - log the line or show the progress of a frame; ignore other frames. */
void msi_child_show(const msi_frame *frame);

/* msi_child_put_error - copy the last error line of this thread, and its subject, to a frame. */
void msi_child_put_error(msi_frame *frame);

/* msi_child_error - set the error line and subject of a frame MSI_CHILD_DONE as this thread's. Returns: its status;
 * MSI_EINTERNAL if it has no error line. */
int msi_child_error(const msi_frame *frame);

/* msi_child_stop - request a keeper or program to stop, and kill it if it does not end within this time. It gets the
 * request at its next msi_child_receive. Frames that it has sent can still be received. */
void msi_child_stop(msi_child *child, int64_t most_ms);

/* msi_child_end - kill the child, and wait until it and its processes have ended. */
void msi_child_end(msi_child *child);

/* msi_child_free - end the child if it is running, and free its shared memory; NULL is fine. */
void msi_child_free(msi_child *child);

/* ---- Functions for the child ---- */

/* msi_child_tell - send a frame without text; if the parent has ended, end this process. */
void msi_child_tell(const msi_child *self, msi_child_kind kind, int64_t number, int64_t total);

/* msi_child_get - receive the next frame of the parent; if the parent has ended, end this process. */
void msi_child_get(msi_child *self, msi_frame *frame);

/* msi_child_is_orphan - return 1 if the parent has ended, or has requested this child to stop. */
int msi_child_is_orphan(const msi_child *self);

/* msi_child_leave - end this child at once, with the status and its error line, for handlers of libraries that would
 * end the process. Does nothing outside a child. */
void msi_child_leave(int status);

/* msi_child_limit_memory - limit the address space of this child to what it has now and `bytes` more. Larger
 * allocations then fail.
 * Returns: 1; 0 if there is a lower limit, or the limit cannot be set. */
int msi_child_limit_memory(int64_t bytes);

/* CPU time limit for a step of reading, such as a block or a row of a subtable, which normally takes milliseconds. */
#define MSI_CHILD_STEP_S 20.0

/*
 * msi_child_progress - begin the next step: if it is not called again within cpu_s seconds of CPU time, SIGPROF ends
 * the child. A busy machine or a slow disk does not matter, since only CPU time counts. Does nothing if the
 * specification has no limit, and outside a child.
 */
void msi_child_progress(double cpu_s);

#endif
