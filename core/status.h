/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Error handling of the whole program: status codes, and one message for each thread. */
#ifndef MSI_STATUS_H
#define MSI_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Return values of a function that can fail. */
enum msi_status {
    MSI_OK = 0,
    MSI_EUSAGE = -1,       /* the command line is wrong */
    MSI_EINPUT = -2,       /* a Measurement Set, model or list is invalid */
    MSI_EOUTPUT = -3,      /* a file or another output could not be written */
    MSI_ENOMEM = -4,       /* not enough host memory, or the memory limit is reached */
    MSI_EGPU = -5,         /* a requested GPU cannot be used, or failed */
    MSI_ELOCKED = -6,      /* another process has locked the Measurement Set */
    MSI_ERANGE = -7,       /* a value is outside the range that an algorithm supports */
    MSI_EINTERRUPTED = -8, /* a stop signal, such as SIGINT or SIGTERM, was received */
    MSI_EINTERNAL = -9,    /* a defect of this program */
    MSI_EARGUMENT = -10    /* an argument of a function is invalid, or two arguments exclude each other */
};

enum { MSI_MESSAGE_BYTES = 8192 }; /* size of the longest message, with its terminating zero */

/*
 * msi_error_set - store the line that describes a failure, and return its code.
 *
 * The function that detects the failure calls it, with the values in the message. Its callers do not replace the
 * message. Each thread has its own message.
 * Returns: status, so that `return msi_error_set(MSI_EINPUT, ...)` is possible.
 */
int msi_error_set(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * msi_error_about - store the subject of the last failure: a member of the request, such as "accuracy" or "backend", or
 * a cause. A program uses it to append a hint in its own terms.
 * Given:   member  static; the next msi_error_set clears it
 * Returns: status
 */
int msi_error_about(int status, const char *member);

/* msi_error_about_get - return the subject of this thread's last failure; "" if none was stored. */
const char *msi_error_about_get(void);

/*
 * msi_error_append - append a consequence or a hint, which only the caller knows, to the message of the last failure.
 * The subject does not change.
 * Returns: status
 */
int msi_error_append(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__
/* Static analysis does not see into another file. These macros show that the status is returned unchanged. */
#define msi_error_set(status, ...)     ((void)(msi_error_set)(status, __VA_ARGS__), (status))
#define msi_error_append(status, ...)  ((void)(msi_error_append)(status, __VA_ARGS__), (status))
#define msi_error_about(status, about) ((void)(msi_error_about)(status, about), (status))
#endif

/* msi_error_get - return the last message set on this thread; "" if none. Borrowed. */
const char *msi_error_get(void);

/* Return at once if expr fails. Use it before resources are acquired; after that, free resources on every path. */
#define MSI_TRY(expr)                                                                                                  \
    do {                                                                                                               \
        int msi_try_status_ = (expr);                                                                                  \
        if (msi_try_status_ != MSI_OK) return msi_try_status_;                                                         \
    } while (0)

/* The first failure in a parallel loop, for the thread that reports it. Zero-initialised: no failure. */
typedef struct msi_first_error {
    int status;        /* status of the first failure, set once */
    const char *about; /* its subject, as in msi_error_about */
    char message[MSI_MESSAGE_BYTES];
} msi_first_error;

/*
 * msi_first_error_keep - store this thread's failure, unless one is stored already. Threads may call it concurrently.
 * Given:   status  of the thread; 0 does nothing
 */
void msi_first_error_keep(msi_first_error *e, int status);

/* msi_first_error_status - return the status of the first failure; 0 if there is none yet. Threads may store failures
 * at the same time. */
int msi_first_error_status(const msi_first_error *e);

/*
 * msi_first_error_raise - make the stored failure this thread's failure, with its message and subject.
 * Notes:   call it after the threads that store failures have been joined.
 * Returns: its status, 0 if there is none
 */
int msi_first_error_raise(const msi_first_error *e);

#ifdef __cplusplus
}
#endif
#endif
