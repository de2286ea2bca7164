/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Errors: one convention for the whole program. */
#ifndef MSI_STATUS_H
#define MSI_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* A function that can fail returns 0 or one of these. */
enum msi_status {
    MSI_OK = 0,
    MSI_EUSAGE = -1,       /* the command line asks for something that cannot be */
    MSI_EINPUT = -2,       /* a Measurement Set, model or list is not what it should be */
    MSI_EOUTPUT = -3,      /* something could not be written */
    MSI_ENOMEM = -4,       /* host memory, or the memory limit, does not suffice */
    MSI_EGPU = -5,         /* a GPU was asked for and cannot be used, or failed */
    MSI_ELOCKED = -6,      /* another process holds the Measurement Set */
    MSI_ERANGE = -7,       /* a value is outside what an algorithm supports */
    MSI_EINTERRUPTED = -8, /* SIGINT or SIGTERM arrived */
    MSI_EINTERNAL = -9,    /* a defect of this program */
    MSI_EARGUMENT = -10    /* a function was given what cannot be: a name, a list, two that exclude each other */
};

enum { MSI_MESSAGE_BYTES = 8192 }; /* the longest message and its end */

/*
 * msi_error_set - record the one line that describes a failure, and return its code.
 *
 * Called by the function that detects the failure, with the values in the message; nobody above overwrites it.
 * The message is per thread.
 * Returns: status, so that `return msi_error_set(MSI_EINPUT, ...)` reads as one step.
 */
int msi_error_set(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * msi_error_about - say what the failure just recorded is about: the member of the caller's request, or the cause, for
 * which a program knows a remedy in words of its own, such as "accuracy" or "backend".
 * Given:   member  static; the next msi_error_set forgets it
 * Returns: status
 */
int msi_error_about(int status, const char *member);

/* msi_error_about_get - tell what the last failure of this thread is about; "" where nobody said. */
const char *msi_error_about_get(void);

/*
 * msi_error_append - add to the line of the failure, behind what is there: a consequence or a remedy that only the
 * caller knows. What it is about stays.
 * Returns: status
 */
int msi_error_append(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __clang_analyzer__
/* Static analysis does not see into another file: what goes in comes out, so a failure is never taken for MSI_OK. */
#define msi_error_set(status, ...)     ((void)(msi_error_set)(status, __VA_ARGS__), (status))
#define msi_error_append(status, ...)  ((void)(msi_error_append)(status, __VA_ARGS__), (status))
#define msi_error_about(status, about) ((void)(msi_error_about)(status, about), (status))
#endif

/* msi_error_get - return the last message set on this thread; "" if none. Borrowed. */
const char *msi_error_get(void);

/* Return at once when expr fails. For use before anything is acquired; `goto out` after. */
#define MSI_TRY(expr)                                                                                                  \
    do {                                                                                                               \
        int msi_try_status_ = (expr);                                                                                  \
        if (msi_try_status_ != MSI_OK) return msi_try_status_;                                                         \
    } while (0)

/* The failure of one thread, for another: of a parallel loop the first one counts. */

/* Zero-initialised: no failure so far. */
typedef struct msi_first_error {
    int status;        /* of the first failure, set once */
    const char *about; /* as msi_error_about */
    char message[MSI_MESSAGE_BYTES];
} msi_first_error;

/*
 * msi_first_error_keep - keep this thread's failure, unless one is kept already; any number of threads at a time.
 * Given:   status  what the thread failed with; 0 keeps nothing
 */
void msi_first_error_keep(msi_first_error *e, int status);

/* msi_first_error_status - give the first failure's status, 0 while there is none; while other threads keep theirs. */
int msi_first_error_status(const msi_first_error *e);

/*
 * msi_first_error_raise - make the kept failure this thread's, message and all.
 * Notes:   call it once the threads that keep have been joined
 * Returns: its status, 0 where there is none
 */
int msi_first_error_raise(const msi_first_error *e);

#ifdef __cplusplus
}
#endif
#endif
