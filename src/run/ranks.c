/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Implementation of ranks.h: agreement, exchanges and sums. The ranks of one host add up arrays in memory that all of
 * them map. This memory is a file in memory without a name, which other ranks open through /proc. This works for
 * processes of one user on one host. It depends neither on the MPI library nor on the size of /dev/shm.
 */
#include "src/run/ranks.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "src/options/suggestion.h"

/* ---- Windows: each rank has one, which all ranks map if they are on one host ---- */

/* MPI copies messages in small pieces, one at each test. Ranks that map each other's memory add up arrays at the speed
 * of memory. */

/* Size of the window of one rank. */
enum { MSI_RANKS_WINDOW_BYTES = 32 << 20 };

struct msi_ranks_windows {
    int is_shared;
    char *at[]; /* [size] NULL: not mapped */
};

/* Numbers by which other ranks open a window and check that it is the right one. */
typedef struct window_name {
    uint64_t host; /* hash that identifies the host and its boot; 0: unknown */
    int64_t pid, fd, device, inode;
} window_name;

/* Return a hash of the random number that Linux generates at each boot; 0 if it cannot be read. */
static uint64_t hash_boot(void)
{
    char id[64];
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, id, sizeof id);
    if (fd >= 0) close(fd);
    return n > 0 ? msi_hash(0, id, (int64_t)n) : 0;
}

static void *map_window(int fd)
{
    void *p = mmap(NULL, MSI_RANKS_WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* Create this rank's window. Returns its file descriptor, or -1 */
static int make_window(char **at, window_name *name)
{
    struct stat is;
    const int fd = memfd_create("msimage", MFD_CLOEXEC);
    *name = (window_name){.fd = fd, .pid = getpid()};
    if (fd < 0 || ftruncate(fd, MSI_RANKS_WINDOW_BYTES) || fstat(fd, &is) || !(*at = map_window(fd))) return fd;
    name->host = hash_boot();
    name->device = (int64_t)is.st_dev;
    name->inode = (int64_t)is.st_ino;
    return fd;
}

/* Map the window of another rank. Returns NULL if it cannot be opened, or is not the named one. */
static char *open_window(const window_name *name)
{
    char path[64];
    struct stat is;
    char *at = NULL;
    snprintf(path, sizeof path, "/proc/%lld/fd/%lld", (long long)name->pid, (long long)name->fd);
    if (stat(path, &is) || (int64_t)is.st_dev != name->device || (int64_t)is.st_ino != name->inode) return NULL;
    const int fd = open(path, O_RDWR | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return NULL;
    if (!fstat(fd, &is) && (int64_t)is.st_dev == name->device && (int64_t)is.st_ino == name->inode &&
        is.st_size == MSI_RANKS_WINDOW_BYTES)
        at = map_window(fd);
    close(fd);
    return at;
}

/* Map the windows of the other ranks. Returned: is_shared, 1 if every rank could map all windows */
static int open_windows(msi_ranks *ranks, const window_name *own)
{
    msi_ranks_windows *w = ranks->windows;
    window_name *all;
    int *opened, is_open = own->host != 0;
    MSI_TRY(msi_ranks_gather(ranks, own, sizeof *own, (void **)&all));
    for (int k = 0; k < ranks->size; k++) is_open &= all[k].host == own->host;
    for (int k = 0; k < ranks->size && is_open; k++) {
        if (k != ranks->rank) w->at[k] = open_window(&all[k]);
        is_open = w->at[k] != NULL;
    }
    msi_free(all);
    /* Close files only after all ranks have opened them. */
    MSI_TRY(msi_ranks_gather(ranks, &is_open, sizeof is_open, (void **)&opened));
    w->is_shared = 1;
    for (int k = 0; k < ranks->size; k++) w->is_shared &= opened[k];
    msi_free(opened);
    return MSI_OK;
}

/*
 * ranks_window - return the addresses [size] of the windows of all ranks. The first call creates them, and every rank
 * must call it.
 * Returned: *at  borrowed; NULL if the ranks are on several hosts, or may not map each other's memory
 * Returns:  0, MSI_ENOMEM, MSI_EINTERRUPTED
 */
static int ranks_window(msi_ranks *ranks, char *const **at)
{
    window_name own;
    *at = NULL;
    if (!ranks->windows) {
        MSI_TRY(msi_ranks_agree(ranks, msi_alloc(&ranks->windows, 1,
                                                 sizeof *ranks->windows + (size_t)ranks->size * sizeof(char *),
                                                 "windows of ranks")));
        const int fd = make_window(&ranks->windows->at[ranks->rank], &own);
        const int rc = open_windows(ranks, &own);
        if (fd >= 0) close(fd);
        MSI_TRY(rc);
    }
    if (ranks->windows->is_shared) *at = ranks->windows->at;
    return MSI_OK;
}

void msi_ranks_window_close(msi_ranks *ranks)
{
    for (int k = 0; ranks->windows && k < ranks->size; k++)
        if (ranks->windows->at[k]) munmap(ranks->windows->at[k], MSI_RANKS_WINDOW_BYTES);
    msi_free(ranks->windows);
    ranks->windows = NULL;
}

/* Most values that a rank sums at a time. */
enum { SLICE = 1 << 20 };

/* Status of a rank that stopped because another rank failed. */
enum { STOPPED_BY_OTHER = 1 };

void msi_ranks_join(msi_ranks *ranks)
{
    if (!ranks->link) return;
    ranks->link->join(ranks);
    ranks->link->alarm_watch(ranks, 1);
}

void msi_ranks_end(msi_ranks *ranks)
{
    msi_ranks_window_close(ranks);
    if (ranks->link) ranks->link->end(ranks);
}

/* ---- Agreement ---- */

/* Stop communicating after a signal or a lack of memory. A signal does not fail the run once the outputs have their
 * names. */
static int stop_communication(msi_ranks *ranks, int status)
{
    ranks->is_cut_off = 1;
    return ranks->is_done && status == MSI_EINTERRUPTED ? MSI_OK : status;
}

/* Copy the message of rank `from` to all ranks. */
static int copy_message(msi_ranks *ranks, int from, int status)
{
    char *all, own[MSI_MESSAGE_BYTES] = "";
    snprintf(own, sizeof own, "%s", msi_error_get());
    if (msi_alloc(&all, ranks->size, sizeof own, "messages of ranks") != MSI_OK)
        return stop_communication(ranks, MSI_ENOMEM);
    const int rc = ranks->link->gather(ranks, own, sizeof own, all);
    if (rc)
        status = stop_communication(ranks, rc);
    else
        msi_error_set(status, "%s", all + (size_t)from * sizeof own);
    msi_free(all);
    return status;
}

int msi_ranks_agree(msi_ranks *ranks, int status)
{
    if (ranks->size == 1 || ranks->is_failed || ranks->is_cut_off) return status;
    ranks->link->alarm_watch(ranks, 0);
    const int is_interrupted = status == MSI_EINTERRUPTED;
    if (is_interrupted && msi_interrupt_signal()) return stop_communication(ranks, status);
    int own = is_interrupted ? STOPPED_BY_OTHER : msi_hint_append(status), *all;
    if (msi_alloc(&all, ranks->size, sizeof *all, "statuses of ranks") != MSI_OK)
        return stop_communication(ranks, MSI_ENOMEM);
    if (own < 0) ranks->link->alarm_send(ranks);
    int rc = ranks->link->gather(ranks, &own, sizeof own, all), from = -1;
    for (int k = ranks->size; !rc && k-- > 0;) {
        if (all[k] >= 0) continue;
        from = k;
        /* Receive every alarm: some MPI libraries warn about messages that were not received. */
        if (k != ranks->rank) ranks->link->alarm_receive(ranks, k);
    }
    const int agreed = from < 0 ? MSI_OK : all[from];
    msi_free(all);
    if (rc) return stop_communication(ranks, rc);
    ranks->is_failed = agreed != MSI_OK;
    if (agreed) return copy_message(ranks, from, agreed);
    ranks->link->alarm_watch(ranks, 1);
    return MSI_OK;
}

int msi_ranks_same(msi_ranks *ranks, uint64_t value, const char *what)
{
    uint64_t *all;
    if (ranks->size == 1) return MSI_OK;
    MSI_TRY(msi_ranks_gather(ranks, &value, sizeof value, (void **)&all));
    int other = 0;
    for (int k = ranks->size; k-- > 1;)
        if (all[k] != all[0]) other = k;
    msi_free(all);
    if (!other) return MSI_OK;
    ranks->is_failed = 1;
    return msi_error_set(MSI_EINPUT, "rank %d of %d %s than rank 0", other, ranks->size, what);
}

int msi_ranks_check_environment(msi_ranks *ranks)
{
    const int is_agreed = ranks->rank == ranks->env_rank && ranks->size == ranks->env_size;
    return msi_ranks_agree(
        ranks, is_agreed ? MSI_OK
                         : msi_error_set(MSI_EUSAGE,
                                         "rank %d of %d did not get its number from the launcher's environment; "
                                         "start the job by mpirun or srun",
                                         ranks->rank, ranks->size));
}

/* ---- Exchanges ---- */

int msi_ranks_broadcast(msi_ranks *ranks, void *data, int64_t n_byte)
{
    /* MPI counts bytes in an int. Also, a rank that waits for a long transfer sleeps longer between tests. */
    const int64_t most = 1 << 22;
    int rc = MSI_OK;
    for (int64_t at = 0; !rc && ranks->size > 1 && at < n_byte; at += most)
        rc = ranks->link->broadcast(ranks, (char *)data + at, n_byte - at < most ? n_byte - at : most);
    return rc ? stop_communication(ranks, rc) : MSI_OK;
}

int msi_ranks_gather(msi_ranks *ranks, const void *own, int64_t n_byte, void **all)
{
    int rc = msi_ranks_agree(ranks, msi_alloc(all, ranks->size * n_byte, 1, "values of ranks"));
    if (!rc && ranks->size == 1) memcpy(*all, own, (size_t)n_byte);
    if (!rc && ranks->size > 1) {
        rc = ranks->link->gather(ranks, own, n_byte, *all);
        if (rc) rc = stop_communication(ranks, rc);
    }
    if (rc) {
        msi_free(*all);
        *all = NULL;
    }
    return rc;
}

int msi_ranks_largest(msi_ranks *ranks, double *value, int64_t n)
{
    double *all;
    if (ranks->size == 1) return MSI_OK;
    MSI_TRY(msi_ranks_gather(ranks, value, n * (int64_t)sizeof *value, (void **)&all));
    for (int64_t i = 0; i < ranks->size * n; i++) value[i % n] = fmax(value[i % n], all[i]);
    msi_free(all);
    return MSI_OK;
}

int msi_ranks_count(msi_ranks *ranks, int64_t *count, int n)
{
    int64_t *all;
    if (ranks->size == 1) return MSI_OK;
    MSI_TRY(msi_ranks_gather(ranks, count, n * (int64_t)sizeof *count, (void **)&all));
    memset(count, 0, (size_t)n * sizeof *count);
    for (int k = 0; k < ranks->size; k++)
        for (int i = 0; i < n; i++) count[i] += all[k * n + i];
    msi_free(all);
    return MSI_OK;
}

/* ---- Sums ---- */

enum { BLOCK = 1024 }; /* values that are combined at a time; they fit in the cache */

/* Combine values [first, first + n) of a slice. */
static void combine_block(void *slice, const char *const *of_ranks, int64_t first, int64_t n, msi_precision precision,
                          const msi_ranks *ranks, const double *weight)
{
    double sum[BLOCK] = {0};
    for (int k = 0; k < ranks->size; k++) {
        const float *f32 = (const float *)of_ranks[k] + first;
        const double *f64 = (const double *)of_ranks[k] + first, w = weight[k];
        if (w == 0) continue;
        for (int64_t i = 0; precision == MSI_FP32 && i < n; i++) sum[i] += w * (double)f32[i];
        for (int64_t i = 0; precision != MSI_FP32 && i < n; i++) sum[i] += w * f64[i];
    }
    for (int64_t i = 0; precision == MSI_FP32 && i < n; i++) ((float *)slice)[first + i] = (float)sum[i];
    for (int64_t i = 0; precision != MSI_FP32 && i < n; i++) ((double *)slice)[first + i] = sum[i];
}

/* Compute the weighted sum of a slice over all ranks. For a mean, the weights [size] add up to 1. Values with weight 0
 * are ignored, even if they are NaN. Given: of_ranks [size] the slices of the ranks */
static void combine_slice(void *slice, const char *const *of_ranks, int64_t n, msi_precision precision,
                          const msi_ranks *ranks, const double *weight)
{
#pragma omp parallel for schedule(static)
    for (int64_t i = 0; i < n; i += BLOCK)
        combine_block(slice, of_ranks, i, n - i < BLOCK ? n - i : BLOCK, precision, ranks, weight);
}

/* An array that all ranks combine. */
typedef struct combination {
    char *array;
    int64_t n;
    msi_precision precision;
    const double *weight;  /* [size] */
    const char **of_ranks; /* [size] slices */
} combination;

/* Each rank receives its slice of the arrays of all ranks, combines these, and sends the result to all ranks. */
static int combine_by_messages(msi_ranks *ranks, const combination *c)
{
    const int64_t bytes = msi_image_pixel_bytes(c->precision), even = (c->n + ranks->size - 1) / ranks->size;
    const int64_t each = even < SLICE ? even : SLICE;
    char *buffer = NULL;
    MSI_TRY(msi_ranks_agree(ranks, msi_alloc(&buffer, (2 * ranks->size + 1) * each, (size_t)bytes, "slices of ranks")));
    char *own = buffer, *received = own + ranks->size * each * bytes, *slice = received + ranks->size * each * bytes;
    int rc = MSI_OK;
    for (int k = 0; k < ranks->size; k++) c->of_ranks[k] = received + k * each * bytes;
    for (int64_t at = 0; !rc && at < c->n; at += ranks->size * each) {
        const int64_t here = c->n - at < ranks->size * each ? c->n - at : ranks->size * each;
        memcpy(own, c->array + at * bytes, (size_t)(here * bytes));
        rc = ranks->link->exchange(ranks, own, each * bytes, received);
        if (rc) break;
        combine_slice(slice, c->of_ranks, each, c->precision, ranks, c->weight);
        rc = ranks->link->gather(ranks, slice, each * bytes, own);
        if (!rc) memcpy(c->array + at * bytes, own, (size_t)(here * bytes));
    }
    msi_free(buffer);
    return rc;
}

/* Copy bytes with all threads. */
static void copy_bytes(char *to, const char *from, int64_t n)
{
    const int64_t piece = 1 << 18;
#pragma omp parallel for schedule(static)
    for (int64_t at = 0; at < n; at += piece) memcpy(to + at, from + at, (size_t)(n - at < piece ? n - at : piece));
}

/* Wait until every rank has called this. */
static int wait_for_ranks(msi_ranks *ranks, char *all)
{
    const char here = 1;
    return ranks->link->gather(ranks, &here, 1, all);
}

/*
 * Combine arrays through windows, part by part. A window has two halves: this rank's values of a part, and the slice
 * that this rank has combined. All ranks wait for each other twice in each part: when their values are written, and
 * when their slices are written. So no rank reads values or slices before they are complete, and when a rank writes
 * the values of the next part, all ranks have read those of this part.
 */
static int combine_in_windows(msi_ranks *ranks, const combination *c, char *const *window, char *met)
{
    const int64_t bytes = msi_image_pixel_bytes(c->precision), half = MSI_RANKS_WINDOW_BYTES / 2, most = half / bytes;
    int rc = MSI_OK;
    for (int64_t at = 0; !rc && at < c->n; at += most) {
        const int64_t here = c->n - at < most ? c->n - at : most, each = (here + ranks->size - 1) / ranks->size;
        const int64_t first = each * ranks->rank < here ? each * ranks->rank : here;
        copy_bytes(window[ranks->rank], c->array + at * bytes, here * bytes);
        rc = wait_for_ranks(ranks, met);
        if (rc) break;
        for (int k = 0; k < ranks->size; k++) c->of_ranks[k] = window[k] + first * bytes;
        combine_slice(window[ranks->rank] + half, c->of_ranks, here - first < each ? here - first : each, c->precision,
                      ranks, c->weight);
        rc = wait_for_ranks(ranks, met);
        for (int k = 0; !rc && k < ranks->size && k * each < here; k++)
            copy_bytes(c->array + (at + k * each) * bytes, window[k] + half,
                       (here - k * each < each ? here - k * each : each) * bytes);
    }
    return rc;
}

static int combine_arrays(msi_ranks *ranks, char *array, int64_t n, msi_precision precision, const double *weight)
{
    combination c = {array, n, precision, weight, NULL};
    char *const *window = NULL;
    char *met = NULL;
    int rc = msi_alloc(&c.of_ranks, ranks->size, sizeof *c.of_ranks, "slices of ranks");
    if (!rc) rc = msi_alloc(&met, ranks->size, 1, "slices of ranks");
    rc = msi_ranks_agree(ranks, rc);
    if (!rc) rc = ranks_window(ranks, &window);
    if (!rc) rc = window ? combine_in_windows(ranks, &c, window, met) : combine_by_messages(ranks, &c);
    msi_free(met);
    msi_free(c.of_ranks);
    return rc && !ranks->is_failed ? stop_communication(ranks, rc) : rc;
}

int msi_ranks_sum(msi_ranks *ranks, void *array, int64_t n, msi_precision precision)
{
    double *one;
    if (ranks->size == 1) return MSI_OK;
    MSI_TRY(msi_ranks_agree(ranks, msi_alloc(&one, ranks->size, sizeof *one, "weights of ranks")));
    for (int k = 0; k < ranks->size; k++) one[k] = 1;
    const int rc = combine_arrays(ranks, array, n, precision, one);
    msi_free(one);
    return rc;
}

/* The sums of one plane of an image. */
typedef struct image_sums {
    double sum_weight;
    int64_t n_vis;
} image_sums;

static int combine_plane(msi_ranks *ranks, msi_image *image, int plane, double *weight)
{
    const image_sums own = {image->sum_weight[plane], image->n_vis[plane]};
    const int64_t n = msi_image_n_pixel(&image->geometry);
    image_sums *all;
    MSI_TRY(msi_ranks_gather(ranks, &own, sizeof own, (void **)&all));
    image_sums sum = {0, 0};
    for (int k = 0; k < ranks->size; k++) {
        sum.sum_weight += all[k].sum_weight;
        sum.n_vis += all[k].n_vis;
    }
    for (int k = 0; k < ranks->size; k++) weight[k] = all[k].n_vis ? all[k].sum_weight / sum.sum_weight : 0;
    msi_free(all);
    image->sum_weight[plane] = sum.sum_weight;
    image->n_vis[plane] = sum.n_vis;
    /* If no rank has a sample of a plane, it is NaN already. */
    if (!sum.n_vis) return MSI_OK;
    return combine_arrays(ranks, (char *)image->pixel + plane * n * msi_image_pixel_bytes(image->precision), n,
                          image->precision, weight);
}

int msi_ranks_image(msi_ranks *ranks, msi_image *image)
{
    double *weight = NULL;
    if (ranks->size == 1) return MSI_OK;
    int rc = msi_ranks_agree(ranks, msi_alloc(&weight, ranks->size, sizeof *weight, "weights of ranks"));
    for (int p = 0; !rc && p < image->n_plane; p++) rc = combine_plane(ranks, image, p, weight);
    msi_free(weight);
    return rc;
}

int msi_ranks_sum_density(msi_ranks *ranks, msi_density *d)
{
    if (ranks->size == 1) return MSI_OK;
    msi_density_parts parts;
    MSI_TRY(msi_density_parts_of(d, &parts));
    for (int k = 0; k < 2; k++) {
        if (!parts.sum[k]) continue;
        MSI_TRY(msi_ranks_sum(ranks, parts.sum[k], parts.n_cell, MSI_FP64));
        MSI_TRY(msi_ranks_sum(ranks, parts.total[k], 1, MSI_FP64));
    }
    return MSI_OK;
}

/* ---- Assignment of devices ---- */

int msi_ranks_assign_devices(const int *device, int n, const msi_ranks *ranks, int *own)
{
    int n_own = 0;
    for (int i = ranks->gpu_rank % n; i < n; i += ranks->gpu_size) own[n_own++] = device[i];
    return n_own;
}
