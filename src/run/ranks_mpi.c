/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The team of msimage-mp: the processes of an MPI job.
 *
 * MPI starts after this process has forked what it forks. Exchanges do not block: while a rank waits it looks at the
 * signal flag, and sleeps, since ranks may be more than cores. Threads call MPI one at a time.
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
#include "src/options/cpu_count.h"
#include "src/run/ranks.h"

enum { ALARM = 1 }; /* the tag of its message */

/* A wait sleeps after so many yields, longer and longer: messages move on in each test alone, by some 100 KB. */
enum { MOST_YIELDS = 2000, SHORTEST_NAP_NS = 10000, LONGEST_NAP_NS = 1000000 };

/* A rank that a signal has stopped leaves so much later: launchers kill all ranks when the first one is gone, and
 * others that got the same signal may still remove their temporaries, or say why. One that is busy in a long call is
 * ended by its watchdog 0.6 s after the signal; a launcher waits for a second. */
enum { LINGER_NS = 800000000 };

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static int is_alarmed;

/* ---- Exchanges ---- */

static int await(MPI_Request *request)
{
    struct timespec nap = {0, SHORTEST_NAP_NS};
    for (int n = 0;; n++) {
        int is_there;
        pthread_mutex_lock(&gate);
        MPI_Test(request, &is_there, MPI_STATUS_IGNORE);
        pthread_mutex_unlock(&gate);
        if (is_there) return MSI_OK;
        if (msi_interrupt_signal()) return msi_interrupt_check();
        if (n < MOST_YIELDS) {
            sched_yield();
            continue;
        }
        nanosleep(&nap, NULL);
        if (nap.tv_nsec < LONGEST_NAP_NS) nap.tv_nsec += nap.tv_nsec / 4;
    }
}

static int gather(msi_team *t, const void *own, int64_t n_byte, void *all)
{
    MPI_Request request;
    (void)t;
    pthread_mutex_lock(&gate);
    MPI_Iallgather(own, (int)n_byte, MPI_BYTE, all, (int)n_byte, MPI_BYTE, MPI_COMM_WORLD, &request);
    pthread_mutex_unlock(&gate);
    return await(&request);
}

static int swap(msi_team *t, const void *own, int64_t n_byte, void *received)
{
    MPI_Request request;
    (void)t;
    pthread_mutex_lock(&gate);
    MPI_Ialltoall(own, (int)n_byte, MPI_BYTE, received, (int)n_byte, MPI_BYTE, MPI_COMM_WORLD, &request);
    pthread_mutex_unlock(&gate);
    return await(&request);
}

static int broadcast(msi_team *t, void *data, int64_t n_byte)
{
    MPI_Request request;
    (void)t;
    pthread_mutex_lock(&gate);
    MPI_Ibcast(data, (int)n_byte, MPI_BYTE, 0, MPI_COMM_WORLD, &request);
    pthread_mutex_unlock(&gate);
    return await(&request);
}

/* ---- Alarm ---- */

/* The message is of no bytes, and nobody waits until it is received. */
static void alarm_others(msi_team *t)
{
    pthread_mutex_lock(&gate);
    for (int k = 0; k < t->size; k++) {
        MPI_Request request;
        if (k == t->rank) continue;
        MPI_Isend(NULL, 0, MPI_BYTE, k, ALARM, MPI_COMM_WORLD, &request);
        MPI_Request_free(&request);
    }
    pthread_mutex_unlock(&gate);
}

static void calm(msi_team *t, int rank)
{
    (void)t;
    pthread_mutex_lock(&gate);
    MPI_Recv(NULL, 0, MPI_BYTE, rank, ALARM, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&gate);
}

static int hears_alarm(void *unused)
{
    (void)unused;
    /* A thread that is in an exchange looks for itself. */
    if (is_alarmed || pthread_mutex_trylock(&gate) != 0) return is_alarmed;
    MPI_Iprobe(MPI_ANY_SOURCE, ALARM, MPI_COMM_WORLD, &is_alarmed, MPI_STATUS_IGNORE);
    pthread_mutex_unlock(&gate);
    return is_alarmed;
}

static void heed(msi_team *t, int is_heeded)
{
    const int others = is_heeded && t->size > 1;
    msi_interrupt_ask(others ? hears_alarm : NULL, NULL);
}

/* ---- Begin and end ---- */

/* Read the first of these variables that is set, as a number; `otherwise` where none is. */
static int number_of(const char *const *name, int otherwise)
{
    for (; *name; name++) {
        const char *text = getenv(*name);
        if (text && *text) return atoi(text);
    }
    return otherwise;
}

/* Ranks to which the launcher gave other GPUs than to their neighbours share none with those. */
static void find_gpu_rank(msi_team *t, MPI_Comm host)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    const uint64_t hash = visible ? msi_hash(0, visible, (int64_t)strlen(visible)) : 0;
    MPI_Comm same;
    MPI_Comm_split(host, (int)(hash & INT_MAX), t->rank, &same);
    MPI_Comm_rank(same, &t->gpu_rank);
    MPI_Comm_size(same, &t->gpu_size);
    MPI_Comm_free(&same);
}

static void join(msi_team *t)
{
    int provided;
    MPI_Comm host;
    int n_here, here, hosts;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &t->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t->size);
    msi_log_silence(t->rank > 0);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, t->rank, MPI_INFO_NULL, &host);
    MPI_Comm_size(host, &n_here);
    MPI_Comm_rank(host, &here);
    find_gpu_rank(t, host);
    MPI_Comm_free(&host);
    here = here == 0;
    MPI_Allreduce(&here, &hosts, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    msi_log_info("ranks: %d on %d host%s; %d on the first, which share its processors and memory", t->size, hosts,
                 hosts == 1 ? "" : "s", n_here);
}

static void linger(void)
{
    struct timespec left = {0, LINGER_NS};
    while (nanosleep(&left, &left)) {
    }
}

static void end(msi_team *t)
{
    int is_there;
    MPI_Initialized(&is_there);
    /* All is said. The end takes two: where another rank is ended now, this one waits for it until it is ended too. */
    msi_log_silence(1);
    /* A rank that has been cut off leaves the others to the launcher. */
    if (is_there && t->is_cut_off && msi_interrupt_signal()) linger();
    if (!is_there || t->is_cut_off) return;
    MPI_Finalize();
}

void msi_team_begin(msi_team *t)
{
    /* Open MPI sets these, MPICH and others by PMI, Slurm. */
    static const char *const rank[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", NULL};
    static const char *const size[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL};
    static const char *const n_here[] = {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", NULL};
    static const msi_team_link link = {.join = join,
                                       .gather = gather,
                                       .swap = swap,
                                       .broadcast = broadcast,
                                       .alarm = alarm_others,
                                       .calm = calm,
                                       .heed = heed,
                                       .end = end};
    *t = MSI_TEAM_ALONE;
    t->env_rank = number_of(rank, 0);
    t->env_size = number_of(size, 1);
    t->link = &link;
    msi_log_silence(t->env_rank > 0);
    msi_cpu_share_set(number_of(n_here, 1));
}
