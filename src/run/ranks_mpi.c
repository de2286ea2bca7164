/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The ranks of msimage-mp: the processes of an MPI job.
 *
 * MPI starts after the last fork of this process. Exchanges do not block: while a rank waits, it checks the signal
 * flag, and sleeps, because there may be more ranks than cores. Only one thread at a time calls MPI.
 */
#include <limits.h>
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "src/run/ranks.h"

enum { ALARM_TAG = 1 }; /* tag of messages that are alarms */

/* After this many yields, a waiting rank sleeps between tests, each time longer. MPI transfers messages only during a
 * test, about 100 KB each time, so a rank that waits for a large message sleeps for short times only. */
enum { MOST_YIELDS = 2000, SHORTEST_NAP_NS = 10000, LONGEST_NAP_NS = 1000000, LARGE = 1 << 18 };

/* Delay of the exit of a rank that a signal stopped. Launchers kill all ranks when the first one exits, but other ranks
 * with the same signal may still have to remove temporary files or print an error. The watchdog ends a rank in a long
 * call 0.6 s after the signal; a launcher waits for a second. */
enum { EXIT_DELAY_NS = 800000000 };

static pthread_mutex_t mpi_lock = PTHREAD_MUTEX_INITIALIZER;
static int is_alarmed;

/* ---- Exchanges ---- */

/* Wait for an exchange of n_byte bytes with each rank. Returns: 0, MSI_EINTERRUPTED. */
static int wait_for(MPI_Request *request, int64_t n_byte)
{
    struct timespec nap = {0, SHORTEST_NAP_NS};
    for (int n = 0;; n++) {
        int is_complete;
        pthread_mutex_lock(&mpi_lock);
        MPI_Test(request, &is_complete, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&mpi_lock);
        if (is_complete) return MSI_OK;
        if (msi_interrupt_signal()) return msi_interrupt_check();
        if (n < MOST_YIELDS) {
            sched_yield();
            continue;
        }
        nanosleep(&nap, NULL);
        if (nap.tv_nsec < LONGEST_NAP_NS && n_byte < LARGE) nap.tv_nsec += nap.tv_nsec / 4;
    }
}

static int gather_all(msi_ranks *ranks, const void *own, int64_t n_byte, void *all)
{
    MPI_Request request;
    (void)ranks;
    pthread_mutex_lock(&mpi_lock);
    MPI_Iallgather(own, (int)n_byte, MPI_BYTE, all, (int)n_byte, MPI_BYTE, MPI_COMM_WORLD, &request);
    pthread_mutex_unlock(&mpi_lock);
    return wait_for(&request, n_byte);
}

static int exchange_parts(msi_ranks *ranks, const void *own, int64_t n_byte, void *received)
{
    MPI_Request request;
    (void)ranks;
    pthread_mutex_lock(&mpi_lock);
    MPI_Ialltoall(own, (int)n_byte, MPI_BYTE, received, (int)n_byte, MPI_BYTE, MPI_COMM_WORLD, &request);
    pthread_mutex_unlock(&mpi_lock);
    return wait_for(&request, n_byte);
}

static int broadcast_first(msi_ranks *ranks, void *data, int64_t n_byte)
{
    MPI_Request request;
    (void)ranks;
    pthread_mutex_lock(&mpi_lock);
    MPI_Ibcast(data, (int)n_byte, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    pthread_mutex_unlock(&mpi_lock);
    return wait_for(&request, n_byte);
}

/* ---- Alarm ---- */

/* Send empty messages. Do not wait until they are received. */
static void send_alarm(msi_ranks *ranks)
{
    pthread_mutex_lock(&mpi_lock);
    for (int k = 0; k < ranks->size; k++) {
        MPI_Request request;
        if (k == ranks->rank) continue;
        MPI_Isend(NULL, 0, MPI_BYTE, k, ALARM_TAG, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    pthread_mutex_unlock(&mpi_lock);
}

static void receive_alarm(msi_ranks *ranks, int rank)
{
    (void)ranks;
    pthread_mutex_lock(&mpi_lock);
    MPI_Recv(NULL, 0, MPI_BYTE, rank, ALARM_TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&mpi_lock);
}

static int check_alarm(void *unused)
{
    (void)unused;
    /* If another thread has the lock, it is in an exchange, and checks the alarm itself. */
    if (is_alarmed || pthread_mutex_trylock(&mpi_lock) != 0) return is_alarmed;
    MPI_Iprobe(MPI_ANY_SOURCE, ALARM_TAG, MPI_COMM_WORLD, &is_alarmed, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&mpi_lock);
    return is_alarmed;
}

static void watch_alarm(msi_ranks *ranks, int is_on)
{
    msi_interrupt_callback(is_on && ranks->size > 1 ? check_alarm : NULL, NULL);
}

/* ---- Begin and end ---- */

/* Return the number in the first of these environment variables that is set, else fallback. */
static int environment_number(const char *const *name, int fallback)
{
    for (; *name; name++) {
        const char *text = getenv(*name);
        if (text && *text) return atoi(text);
    }
    return fallback;
}

/* Find gpu_rank and gpu_size. The launcher may have given different GPUs to the ranks of a host. */
static void find_gpu_rank(msi_ranks *ranks, MPI_Comm host)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    const uint64_t hash = visible ? msi_hash(0, visible, (int64_t)strlen(visible)) : 0;
    MPI_Comm same;
    MPI_Comm_split(host, (int)(hash & INT_MAX), ranks->rank, &same);
    MPI_Comm_rank(same, &ranks->gpu_rank);
    MPI_Comm_size(same, &ranks->gpu_size);
    MPI_Comm_free(&same);
}

static void join_job(msi_ranks *ranks)
{
    int provided;
    MPI_Comm host;
    int n_here, here, hosts;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &ranks->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks->size);
    msi_log_silence(ranks->rank > 0);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, ranks->rank, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &n_here);
    MPI_Comm_rank(host, &here);
    find_gpu_rank(ranks, host);
    MPI_Comm_free(&host);
    here = here == 0;
    MPI_Allreduce(&here, &hosts, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    msi_log_info("ranks: %d on %d host%s; %d on the first, which share its processors and memory", ranks->size, hosts,
                 hosts == 1 ? "" : "s", n_here);
}

static void delay_exit(void)
{
    struct timespec left = {0, EXIT_DELAY_NS};
    while (nanosleep(&left, &left)) {
    }
}

static void end_job(msi_ranks *ranks)
{
    int is_initialized;
    MPI_Initialized(&is_initialized);
    /* Nothing is printed after this. MPI_Finalize waits for the other ranks. If one of them is killed, the launcher
     * ends this rank too. */
    msi_log_silence(1);
    /* After a signal, the launcher ends the other ranks when this one exits. */
    if (is_initialized && ranks->is_cut_off && msi_interrupt_signal()) delay_exit();
    if (!is_initialized || ranks->is_cut_off) return;
    MPI_Finalize();
}

void msi_ranks_begin(msi_ranks *ranks)
{
    /* The variables are set by Open MPI, by MPICH and others (PMI), and by Slurm. */
    static const char *const rank[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
    static const char *const size[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL};
    static const char *const n_here[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
    static const msi_ranks_link link = {.join = join_job,
                                        .gather = gather_all,
                                        .exchange = exchange_parts,
                                        .broadcast = broadcast_first,
                                        .alarm_send = send_alarm,
                                        .alarm_receive = receive_alarm,
                                        .alarm_watch = watch_alarm,
                                        .end = end_job};
    *ranks = MSI_RANKS_ALONE;
    ranks->env_rank = environment_number(rank, 0);
    ranks->env_size = environment_number(size, 1);
    ranks->link = &link;
    msi_log_silence(ranks->env_rank > 0);
    msi_cpu_share_set(environment_number(n_here, 1));
}
