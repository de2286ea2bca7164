/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Processes beside this one use casacore, which threads cannot share, and whose end must not be this one's.
 */
#ifndef MSI_IO_MS_CHILD_H
#define MSI_IO_MS_CHILD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One side's view of the other; MSI_CHILD_NONE where there is none. */
typedef struct msi_child {
    pid_t pid;     /* 0 where there is none, and in the child */
    int socket;    /* to the other side: whole messages; its end is the end of the other side */
    int output_fd; /* a file in memory that takes what the child's libraries print */
} msi_child;

#define MSI_CHILD_NONE ((msi_child){0, -1, -1})

/*
 * msi_child_fork - fork one more process. Before any thread is started. Signals to stop are the parent's alone to
 * follow; nothing of the parent's stays open in the child but what is mapped.
 * Given:    what  "to write with", for messages
 * Returned: *child  of the side that returns; *is_child
 * Returns:  0, MSI_ENOMEM (no process, or no file in memory, to be had)
 */
int msi_child_fork(msi_child *child, const char *what, int *is_child);

/* msi_child_fork_keeping - likewise, but the child keeps one more of the parent's descriptors open; -1: none. */
int msi_child_fork_keeping(msi_child *child, const char *what, int kept_fd, int *is_child);

/* msi_child_limit_memory - allow the child so much address space beyond what it has. An allocation beyond it fails.
 * Returns: 1, or 0 where a lower limit holds already or none can be set. */
int msi_child_limit_memory(int64_t bytes);

/*
 * msi_child_watch - let the child that calls end by SIGPROF where msi_child_progress is not called in time. CPU
 * time is what counts, not the clock: a machine with other work, or a slow disk, is no lack of progress.
 */
void msi_child_watch(void);

/* A step of reading, such as a block or a row of a subtable, takes milliseconds; this many seconds it never takes. */
#define MSI_CHILD_STEP_S 20.0

/* msi_child_progress - this process works; it may take so many seconds of CPU time until the next call. Nothing in a
 * process that is not watched. */
void msi_child_progress(double cpu_s);

/* msi_child_send - send one message; 0, or -1 where nobody is there to read it. */
int msi_child_send(const msi_child *child, const void *message, size_t size);

/* msi_child_receive - wait for a message of this size; 0, or -1 where the other side is gone. */
int msi_child_receive(const msi_child *child, void *message, size_t size);

/* msi_child_wait_briefly - wait for a message or the other side's end, but no longer than a fifth of a second. */
void msi_child_wait_briefly(const msi_child *child);

/*
 * msi_child_await - wait for the next message of this size, looking at the signal flag meanwhile.
 * Given:    wait  0: only what is there already
 * Returned: *got  1 a message, 0 none is there yet, -1 the other side is gone
 * Returns:  0, MSI_EINTERRUPTED
 */
int msi_child_await(const msi_child *child, int wait, void *message, size_t size, int *got);

/*
 * msi_child_end_text - wait for the end of a child that sends nothing more, and describe it.
 * Given:    path, what  "the process that writes", for the message
 * Returned: text  one line, with the last of what its libraries printed
 * Returns:  the number of the signal that ended it, or 0
 */
int msi_child_end_text(msi_child *child, const char *path, const char *what, char *text, size_t size);

/*
 * msi_child_status_text - return the line of msi_child_end_text for a process that has been waited for.
 * Given: output_fd  as in msi_child; wait_status  waitpid's
 */
void msi_child_status_text(int output_fd, int wait_status, const char *path, const char *what, char *text, size_t size);

/* msi_child_wait - wait for the end of a child that sends nothing more. Returns: the number of the signal that ended
 * it, or 0. */
int msi_child_wait(msi_child *child);

/* msi_child_await_end - wait until nobody has the socket's other end any more: neither the child, nor one of its own
 * that ends with it, but a moment later. */
void msi_child_await_end(const msi_child *child);

/* msi_child_hang_up - send nothing more, which tells the child to stop; what it says is heard. */
void msi_child_hang_up(const msi_child *child);

/* msi_child_close - close the socket, which tells the child to stop, and the file. */
void msi_child_close(msi_child *child);

#endif
