/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Host memory: checked, aligned allocation that counts against the limit of the user. Also a hash of bytes, structures as
 * bytes, and text files read into memory. */
#ifndef MSI_MEMORY_H
#define MSI_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * msi_alloc - allocate n * size zero-initialised bytes, aligned to 64, and count them.
 * Given:    what  name of the memory in an error message
 * Returned: *out  owned by the caller, freed by msi_free; NULL on failure
 * Returns:  0, MSI_ENOMEM (also if n * size overflows, or the limit of msi_memory_limit_set would be exceeded)
 */
int msi_alloc(void *out, int64_t n, size_t size, const char *what);

/*
 * msi_alloc_sparse - as msi_alloc, for an array of which only a part is ever touched: the system gives memory to the
 * pages of that part, and only they are counted.
 * Given: touched  bytes of that part; at least the whole array: msi_alloc
 */
int msi_alloc_sparse(void *out, int64_t n, size_t size, int64_t touched, const char *what);

/*
 * msi_grow - enlarge an array from n to n_new elements of `size` bytes. The new elements are zero.
 * Given and returned: *array  NULL or from msi_alloc; unchanged on failure
 * Returns: 0, MSI_ENOMEM
 */
int msi_grow(void *array, int64_t n, int64_t n_new, size_t size, const char *what);

/*
 * msi_alloc_unset - as msi_alloc_paged, with undefined contents, for what is filled at once: the memory of a freed block of
 * the same size is used again.
 * msi_memory_reuse - keep up to n freed blocks for it; 0, the default: none. For programs, since others may need the
 * memory of a process that goes on.
 */
int msi_alloc_unset(void *out, int64_t n, size_t size, const char *what);
void msi_memory_reuse(int n);

/*
 * msi_alloc_paged - as msi_alloc, for memory that a run uses from time to time, and in order. After
 * msi_memory_page_to, larger blocks are mapped from unlinked files: the system writes them to the disk when it needs
 * their pages, and they do not count against the limit.
 * Returns: as msi_alloc, and as msi_map_file
 */
int msi_alloc_paged(void *out, int64_t n, size_t size, const char *what);

/* msi_alloc_work - as msi_alloc, for arrays of the size of an image that are at work; as msi_alloc_paged if even these do
 * not fit. */
int msi_alloc_work(void *out, int64_t n, size_t size, const char *what);

/*
 * msi_memory_page_to - let msi_alloc_paged map files of a directory.
 * Given: directory   borrowed until the next call; NULL, the default: it is msi_alloc
 *        pages_work  1: msi_alloc_work too
 */
void msi_memory_page_to(const char *directory, int pages_work);

/*
 * msi_map_file - map a new unlinked file, of zeros, so that nothing is left however the process ends.
 * Given:    directory  NULL: that of TMPDIR, otherwise /tmp
 *           what       name of the memory in an error message, plural
 * Returned: *out       aligned to pages; unmapped by munmap
 * Returns:  0, MSI_ENOMEM, MSI_EOUTPUT (about temp_dir: the file cannot be made, or the disk has no space for all of
 *           it), MSI_EINTERRUPTED
 */
int msi_map_file(void *out, int64_t bytes, const char *directory, const char *what);

/* msi_free - free memory of msi_alloc, msi_grow and msi_alloc_paged; NULL is fine. */
void msi_free(void *p);

/* msi_memory_limit_set - limit the bytes that msi_alloc has allocated at a time; 0, the default:
 * msi_memory_physical. */
void msi_memory_limit_set(int64_t bytes);

/* msi_memory_limit - return the limit in bytes; never 0. */
int64_t msi_memory_limit(void);

/* msi_memory_physical - return the bytes of this machine's RAM, or of this batch job's or container's if that is
 * less. */
int64_t msi_memory_physical(void);

/* msi_memory_in_use - return the bytes that are allocated now. */
int64_t msi_memory_in_use(void);

/*
 * msi_hash - add n bytes to a hash, for checksums of files and for comparing data of two processes.
 * Given:   hash  0 at first
 * Notes:   any change of up to eight neighbouring bytes changes the hash. Files hold such checksums, so the function
 *          must not change. The hash depends on the machine's byte order. It is not cryptographic.
 */
uint64_t msi_hash(uint64_t hash, const void *data, int64_t n);

/* ---- Structures as bytes ----
 *
 * One function packs and unpacks, so that both have the same order. */

/* The position of packing or unpacking. Each value takes a multiple of 8 bytes. */
typedef struct msi_cursor {
    char *to;         /* packing; NULL: only count the bytes */
    const char *from; /* unpacking: not NULL, aligned for any array */
    int64_t at, n;
} msi_cursor;

/* msi_transfer - pack or unpack the next bytes. Returns 1; 0 if there are not enough bytes. */
int msi_transfer(msi_cursor *c, void *value, int64_t bytes);

/*
 * msi_transfer_array - pack or unpack an array of n elements. Unpacking allocates it after checking that its bytes
 * are there.
 * Given and returned: array  address of the pointer to it; freed by msi_free
 * Returned: *is_whole  0 if there are not enough bytes
 * Returns:  0, MSI_ENOMEM
 */
int msi_transfer_array(msi_cursor *c, void *array, int64_t n, size_t size, int *is_whole);

/* ---- Small text files of the user, read whole ---- */

/*
 * msi_text_file_open - open a file of the user for reading. It may be a pipe that another program writes to, as a shell's
 * <(..); it never waits for one to be opened for writing.
 * Returned: *file  closed by fclose; NULL on failure
 * Returns:  0, MSI_EINPUT (it cannot be opened, is a folder or a device, or a pipe that nothing writes to), MSI_ENOMEM
 */
int msi_text_file_open(FILE **file, const char *path);

/*
 * msi_text_file_read - read a file of at most MSI_TEXT_FILE_MOST bytes into memory; it may also be a pipe.
 * Given:    what  for messages, such as "a region file"
 * Returned: *text [*n + 1]  with a zero at its end; the file may contain zeros too. Owned, msi_free; NULL on failure
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_text_file_read(char **text, int64_t *n, const char *path, const char *what);

#ifdef __cplusplus
}
#endif
#endif
