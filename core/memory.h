/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Host memory: checked, aligned allocation that counts against the user's limit. Also a hash of bytes, packing of
 * structures into bytes, and reading of text files. */
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
 * Given:    what  name of the memory in error messages
 * Returned: *out  owned by the caller, freed by msi_free; NULL on failure
 * Returns:  0, MSI_ENOMEM (also if n * size overflows, or the limit of msi_memory_limit_set would be exceeded)
 */
int msi_alloc(void *out, int64_t n, size_t size, const char *what);

/*
 * msi_alloc_sparse - as msi_alloc, for an array of which only a part will be touched. The system provides memory only
 * for the pages of that part, and only they are counted.
 * Given: touched  bytes of that part; if it is the whole array or more, as msi_alloc
 */
int msi_alloc_sparse(void *out, int64_t n, size_t size, int64_t touched, const char *what);

/*
 * msi_grow - enlarge an array from n to n_new elements of `size` bytes. The new elements are zero.
 * Given and returned: *array  NULL or from msi_alloc; unchanged on failure
 * Returns: 0, MSI_ENOMEM
 */
int msi_grow(void *array, int64_t n, int64_t n_new, size_t size, const char *what);

/*
 * msi_alloc_unset - as msi_alloc_paged, but with undefined contents, for arrays that are filled at once. It reuses the
 * memory of a freed block of the same size.
 * msi_memory_reuse - keep up to n freed blocks for reuse; 0, the default: none. For programs only: while the process of
 * a library's caller goes on, other code may need the memory.
 */
int msi_alloc_unset(void *out, int64_t n, size_t size, const char *what);
void msi_memory_reuse(int n);

/*
 * msi_alloc_paged - as msi_alloc, for memory that is used from time to time, and in order. After msi_memory_page_to,
 * large blocks are mapped from unlinked files. The system writes them to disk when it needs their pages, so they do not
 * count against the limit.
 * Returns: as msi_alloc and msi_map_file
 */
int msi_alloc_paged(void *out, int64_t n, size_t size, const char *what);

/* msi_alloc_work - as msi_alloc, for arrays of the size of an image that are in constant use; as msi_alloc_paged if
 * even these do not fit into memory. */
int msi_alloc_work(void *out, int64_t n, size_t size, const char *what);

/*
 * msi_memory_page_to - let msi_alloc_paged map files in a directory.
 * Given: directory   borrowed until the next call; NULL, the default: msi_alloc_paged is the same as msi_alloc
 *        pages_work  1: msi_alloc_work maps files too
 */
void msi_memory_page_to(const char *directory, int pages_work);

/*
 * msi_map_file - map a new unlinked file of zeros. No file is left, however the process ends.
 * Given:    directory  NULL: that of TMPDIR, or /tmp
 *           what       plural name of the memory in error messages
 * Returned: *out       aligned to pages; unmapped by munmap
 * Returns:  0, MSI_ENOMEM, MSI_EOUTPUT (about temp_dir: the file cannot be created, or the disk does not have enough
 *           space), MSI_EINTERRUPTED
 */
int msi_map_file(void *out, int64_t bytes, const char *directory, const char *what);

/* msi_free - free memory of the functions above, except msi_map_file; NULL is fine. */
void msi_free(void *p);

/* msi_memory_limit_set - limit the bytes that msi_alloc may have allocated at one time; 0, the default:
 * msi_memory_physical. */
void msi_memory_limit_set(int64_t bytes);

/* msi_memory_limit - return the limit in bytes; never 0. */
int64_t msi_memory_limit(void);

/* msi_memory_physical - return the bytes of this machine's RAM, or the limit of this batch job or container if that is
 * less. */
int64_t msi_memory_physical(void);

/* msi_memory_in_use - return the bytes that are allocated now. */
int64_t msi_memory_in_use(void);

/*
 * msi_hash - add n bytes to a hash, for checksums of files and for comparing data of two processes.
 * Given:   hash  0 at first
 * Notes:   any change of up to eight neighbouring bytes changes the hash. Files contain such checksums, so the function
 *          must not change. The hash depends on the machine's byte order. It is not cryptographic.
 */
uint64_t msi_hash(uint64_t hash, const void *data, int64_t n);

/* ---- Packing of structures into bytes ----
 *
 * The same function packs and unpacks a structure, so that the order is the same. */

/* The state of packing or unpacking. Each value takes a multiple of 8 bytes. */
typedef struct msi_cursor {
    char *to;         /* packing: destination; NULL: only count the bytes */
    const char *from; /* unpacking: source, aligned for any array; NULL: packing */
    int64_t at, n;
} msi_cursor;

/* msi_transfer - pack or unpack the next bytes. Returns 1; 0 if there are not enough bytes. */
int msi_transfer(msi_cursor *c, void *value, int64_t bytes);

/*
 * msi_transfer_array - pack or unpack an array of n elements. For unpacking, the array is allocated after checking that
 * there are enough bytes.
 * Given and returned: array  address of the pointer to it; freed by msi_free
 * Returned: *is_whole  0 if there are not enough bytes
 * Returns:  0, MSI_ENOMEM
 */
int msi_transfer_array(msi_cursor *c, void *array, int64_t n, size_t size, int *is_whole);

/* ---- Small text files of the user ---- */

/*
 * msi_text_file_open - open a file of the user for reading. It may be a pipe that another program writes to, such as
 * <(..) of a shell. It does not wait for a pipe without a writer.
 * Returned: *file  closed by fclose; NULL on failure
 * Returns:  0, MSI_EINPUT (it cannot be opened, or is a folder, a device or a pipe without a writer), MSI_ENOMEM
 */
int msi_text_file_open(FILE **file, const char *path);

/*
 * msi_text_file_read - read a file or pipe of at most MSI_TEXT_FILE_MOST bytes into memory.
 * Given:    what  subject of messages, such as "a region file"
 * Returned: *text [*n + 1]  with a terminating zero; the file itself may contain zeros. Owned, msi_free; NULL on
 *                           failure
 * Returns:  0, MSI_EINPUT, MSI_ENOMEM
 */
int msi_text_file_read(char **text, int64_t *n, const char *path, const char *what);

#ifdef __cplusplus
}
#endif
#endif
