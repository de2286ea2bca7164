/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Child processes that use casacore: threads cannot share it, and a crash of casacore must not end this process. Their
 * memory is limited, as casacore may request any amount of memory for damaged files. */
#ifndef MSI_MS_CHILD_H
#define MSI_MS_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* The other process, as seen by either side; MSI_CHILD_NONE: none. */
typedef struct msi_child {
    pid_t pid;     /* 0 in the child, and without a child */
    int socket;    /* to the other side, for whole messages; it ends when the other side ends */
    int output_fd; /* a file in memory for the output of the child's libraries */
} msi_child;

#define MSI_CHILD_NONE ((msi_child){0, -1, -1})

/*
 * msi_child_fork - fork a child process. Call it before any thread starts. The child ignores signals to stop, so the
 * parent decides. All descriptors of the parent are closed in the child. Mapped memory stays.
 * Given:    what  "to write with", for messages
 * Returned: *child  of the side that returns; *is_child
 * Returns:  0, MSI_ENOMEM (a process or a file in memory cannot be created)
 */
int msi_child_fork(msi_child *child, const char *what, int *is_child);

/* msi_child_fork_keeping - like msi_child_fork, but the child keeps one more descriptor open; -1: none. */
int msi_child_fork_keeping(msi_child *child, const char *what, int kept_fd, int *is_child);

/* msi_child_limit_memory - limit the address space of the child to what it has and `bytes` more. Allocations beyond it
 * fail.
 * Returns: 1; 0 if a lower limit exists or the limit cannot be set. */
int msi_child_limit_memory(int64_t bytes);

/*
 * msi_child_watch - end the calling child by SIGPROF if msi_child_progress is not called in time. CPU time counts, not
 * the clock, so a busy machine or a slow disk does not matter.
 */
void msi_child_watch(void);

/* Limit for a step of reading, such as a block or a row of a subtable, which takes milliseconds. */
#define MSI_CHILD_STEP_S 20.0

/* msi_child_progress - report progress: the next call must come within cpu_s seconds of CPU time. Does nothing without
 * msi_child_watch. */
void msi_child_progress(double cpu_s);

/* msi_child_send - send one message. Returns: 0; 1 if the other side has ended; MSI_ENOMEM if the system refuses the
 * message for a second, of which msi_child_refused tells the parent. */
int msi_child_send(const msi_child *child, const void *message, size_t size);

/* msi_child_receive - wait for a message of this size. Returns 0; -1 if the other side has ended. */
int msi_child_receive(const msi_child *child, void *message, size_t size);

/* msi_child_wait_briefly - wait for a message or the end of the other side, at most a fifth of a second. */
void msi_child_wait_briefly(const msi_child *child);

/*
 * msi_child_await - receive the next message of this size, and check the signal flag while waiting.
 * Given:    wait  0: do not wait
 * Returned: *got  1: a message; 0: no message yet; -1: the other side has ended, or sent something else
 * Returns:  0, MSI_EINTERRUPTED, MSI_ENOMEM (the system refuses to pass messages)
 */
int msi_child_await(const msi_child *child, int wait, void *message, size_t size, int *got);

/*
 * msi_child_end_text - wait for the end of a child that sends no more messages, and describe it.
 * Given:    path, what  for the message; what is such as "the writer process"
 * Returned: text  one line, with the last line that its libraries printed
 * Returns:  the number of the signal that ended it, or 0
 */
int msi_child_end_text(msi_child *child, const char *path, const char *what, char *text, size_t size);

/*
 * msi_child_status_text - make the line of msi_child_end_text for a process that has ended.
 * Given: output_fd  as in msi_child; wait_status  of waitpid
 */
void msi_child_status_text(int output_fd, int wait_status, const char *path, const char *what, char *text, size_t size);

/* msi_child_wait - wait for the end of a child that sends no more messages. Returns: the signal that ended it, or 0. */
int msi_child_wait(msi_child *child);

/* msi_child_await_end - wait until the other end of the socket is closed by the child and by its own child, which may
 * end a moment later. */
void msi_child_await_end(const msi_child *child);

/* msi_child_hang_up - close the sending direction, which makes the child stop. Its messages can still be received. */
void msi_child_hang_up(const msi_child *child);

/* msi_child_request - send a message from the parent. A child that has ended is no failure here: what the parent
 * receives next shows it. Returns: 0, MSI_ENOMEM (the system refuses the message, so no reply will come). */
int msi_child_request(const msi_child *child, const void *message, size_t size);

/* msi_child_refused - return whether a child ended because the system refused memory, threads, files or a message. The
 * last line that the child or its libraries printed shows it. Returned: text that line */
int msi_child_refused(const msi_child *child, char *text, size_t size);

/* msi_child_close - close the socket, which makes the child stop, and the output file. */
void msi_child_close(msi_child *child);

/* msi_ms_limit_memory - limit the memory of the calling child to msi_memory_limit, or to what files of the size of
 * these sets can need if that is less. */
void msi_ms_limit_memory(const char *const *paths, int n_path);

/* msi_ms_limit_lift - ignore the size of the sets, as their rows lie in files of other sets. Only msi_memory_limit
 * applies then. Does nothing without msi_ms_limit_memory. */
void msi_ms_limit_lift(void);

/*
 * msi_ms_limit_explain - turn MSI_ENOMEM into MSI_EINPUT with another message, if the limit by size caused it.
 * Returns: status, or MSI_EINPUT
 */
int msi_ms_limit_explain(int status, const char *path);

#endif
