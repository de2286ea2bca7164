/* SPDX-License-Identifier: GPL-3.0-or-later */
/* msimage: parses the command line, prepares the process, starts an imaging, predicting or restoring run, and turns its
 * status into an error line and an exit code. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "io/fits/publish.h"
#include "kernels/gridder.h"
#include "src/imaging/imaging.h"
#include "src/options/help.h"
#include "src/options/options.h"
#include "src/options/hints.h"
#include "src/predict/predict.h"
#include "src/run/ranks.h"
#include "src/run/restore.h"

/* ---- Before anything else ---- */

/* Occupy the numbers of standard files that the program was started without, or a file opened later would get one and
 * what is printed with it. /dev/null is opened for reading alone, so that printing still fails. */
static void hold_standard_files(void)
{
    int fd;
    do fd = open("/dev/null", O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0) close(fd);
}

/* Nothing that a sanitizer checks works before libraries have been started. */
#define BEFORE_LIBRARIES __attribute__((no_sanitize_address))

/* Say whether a line of the environment is of a variable. */
BEFORE_LIBRARIES static int is_variable(const char *line, const char *name)
{
    while (*name && *line == *name) {
        line++;
        name++;
    }
    return !*name && *line == '=';
}

/*
 * Have libgomp read OMP_WAIT_POLICY=passive when it starts, which is before main: by default it lets threads spin at a
 * barrier for milliseconds, and on a machine with other work they take the cores from the threads that they wait for,
 * so that a run takes twice the time and more. Its place is that of `_`, which a shell puts there and nobody reads
 * here: there is no room for a variable more.
 */
BEFORE_LIBRARIES static void prefer_passive(int argc, char **argv, char **environment)
{
    static char passive[] = "OMP_WAIT_POLICY=passive";
    char **place = NULL;
    (void)argc;
    (void)argv;
    for (char **e = environment; *e; e++) {
        if (is_variable(*e, "OMP_WAIT_POLICY") || is_variable(*e, "GOMP_SPINCOUNT")) return;
        if (is_variable(*e, "_")) place = e;
    }
    if (place) *place = passive;
}

/* The loader calls this before it starts the libraries. */
__attribute__((section(".preinit_array"), used)) static void (*const before_libraries)(int, char **,
                                                                                       char **) = prefer_passive;

/* Start the program again, once, with OMP_WAIT_POLICY=passive where there was no place for it, which takes 0.03 s.
 * Likewise where a larger stack is allowed now (always). */
static void restart(char **argv, int always)
{
    static const char policy[] = "OMP_WAIT_POLICY";
    if (!always && (getenv(policy) || getenv("GOMP_SPINCOUNT"))) return;
    char *self = realpath("/proc/self/exe", NULL);
    /* A program that was started through a dynamic loader finds the loader here. */
    int is_loader = self && strncmp(strrchr(self, '/') + 1, "ld-", 3) == 0;
    if (self && !is_loader && setenv(policy, "passive", 0) == 0) execv(self, argv);
    free(self);
}

/* ---- Version ---- */

#ifdef __clang__
#define COMPILER __VERSION__
#else
#define COMPILER "GCC " __VERSION__
#endif

enum { MAX_ID_TEXT = 41 };

/*
 * Write the build id of the program, the linker's hash of what it linked, in hexadecimal to text [MAX_ID_TEXT].
 * dl_iterate_phdr visits the program first; the result 1 keeps it from going on to the libraries. Without a build id
 * text stays as it is.
 */
static int find_build_id(struct dl_phdr_info *info, size_t size, void *text)
{
    (void)size;
    char *out = text;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_NOTE) continue;
        const char *p = (const char *)(info->dlpi_addr + segment->p_vaddr), *end = p + segment->p_memsz;
        while (p + sizeof(ElfW(Nhdr)) <= end) {
            ElfW(Nhdr) note;
            memcpy(&note, p, sizeof note);
            const char *name = p + sizeof note, *value = name + (note.n_namesz + 3) / 4 * 4;
            if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && memcmp(name, "GNU", 4) == 0) {
                for (unsigned k = 0; k < note.n_descsz && 2 * k + 3 <= MAX_ID_TEXT; k++)
                    snprintf(out + 2 * k, 3, "%02x", (unsigned char)value[k]);
                return 1;
            }
            p = value + (note.n_descsz + 3) / 4 * 4;
        }
    }
    return 1;
}

/*
 * print_version - print version, build, libraries and GPU, a line each.
 * Given: out  open for writing, the caller's; failures to write are left to its ferror
 * Notes: looks for a GPU, which can take a second.
 */
static void print_version(FILE *out)
{
    char build_id[MAX_ID_TEXT] = "unknown";
    dl_iterate_phdr(find_build_id, build_id);
    fputs("msimage " MSIMAGE_VERSION "\n", out);
    fprintf(out, "build: %s, %s, id %.16s\n", MSIMAGE_BUILD_TYPE, COMPILER, build_id);
    fprintf(out, "libraries: %s, %s\n", MSIMAGE_LIBRARIES, msi_backend_versions());
    fprintf(out, "GPU: %s\n", msi_backend_describe());
}

/* ---- Watchdog: ends an interrupted run that is busy in a long call of a library, such as the FFT of a huge image ---- */

static const long LOOK_NS = 100000000;
static long grace_ns = 1500000000;
static atomic_int is_stopped;

static void pause_ns(long ns)
{
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    while (nanosleep(&left, &left)) {
    }
}

/* Wait for a signal, give the run its grace, then end the process from this thread. */
static void *watch(void *unused)
{
    (void)unused;
    while (!msi_interrupt_signal()) pause_ns(LOOK_NS);
    pause_ns(grace_ns);
    if (is_stopped) return NULL;
    msi_publish_emergency();
    /* The line bypasses the log, in the middle of which another thread may be. */
    char line[128];
    int signal_number = msi_interrupt_signal();
    int n = snprintf(line, sizeof line, "msimage: error: stopped by signal %d (%s)\n", signal_number,
                     strsignal(signal_number));
    if (!msi_log_is_silent() && write(STDERR_FILENO, line, (size_t)n) < 0) line[0] = 0;
    _exit(128 + signal_number);
}

/* watchdog_grace - give an interrupted run another time than 1.5 s. Before watchdog_start. */
static void watchdog_grace(double grace_s)
{
    grace_ns = (long)(1e9 * grace_s);
}

/*
 * watchdog_stop - let a run go that has stopped by itself: it says why, and leaves when it likes.
 * Notes: nothing is left to remove then. Without a watchdog it does nothing.
 */
static void watchdog_stop(void)
{
    is_stopped = 1;
}

/*
 * watchdog_start - start a thread that ends a run which does not stop by itself.
 *
 * A run that still lasts 1.5 s after SIGINT, SIGTERM or SIGHUP is ended: its temporary files are removed, the error
 * line is printed, the process exits with 128 + the signal's number.
 * Notes: call it once, after msi_interrupt_install and after the last fork. Where no thread can be had, runs only stop
 *        by themselves, and nothing is reported. The thread lives as long as the process.
 */
static void watchdog_start(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch, NULL) == 0) pthread_detach(thread);
}

/* ---- The run ---- */

/* A launcher that ends a job lets each process live for a second after SIGTERM; the temporaries go before. */
static const double TEAM_GRACE_S = 0.5;

/* Files alone are read and written: there is nothing to share. */
static int restore(const msi_options *options, const msi_team *team)
{
    if (team->link)
        return msi_error_set(MSI_EUSAGE, "-restore%s: it is done by one process; start msimage, not msimage-mp",
                             options->restore.is_list ? "-list" : "");
    msi_interrupt_install();
    MSI_TRY(msi_process_limits_threads(options->n_threads));
    return msi_run_restore(options);
}

/* Signals, threads and paths must be settled before a run forks and joins others. */
static int prepare(msi_options *options)
{
    msi_interrupt_install();
    MSI_TRY(msi_process_limits_threads(options->n_threads));
    return msi_options_expand(options);
}

/* Tell the other ranks of a failure before any has joined them: one that simply left would have the launcher end the
 * rank that speaks, perhaps before it has spoken. All leave together, by the message of the lowest rank that has
 * failed. */
static int tell_others(msi_team *team, int rc)
{
    if (!rc || team->env_size == 1) return rc;
    msi_log_setup(MSI_LOG_QUIET, msi_log_is_timed());
    msi_team_join(team);
    return msi_team_agree(team, rc);
}

static int run(msi_options *options, msi_team *team)
{
    if (options->action != MSI_ACTION_RUN && msi_log_is_silent()) return MSI_OK;
    switch (options->action) {
    case MSI_ACTION_HELP:
        return msi_help_print(stdout, options->help_topic);
    case MSI_ACTION_VERSION:
        print_version(stdout);
        return MSI_OK;
    default:
        break;
    }
    msi_log_setup(options->log_level, options->log_time);
    msi_options_log(options);
    msi_memory_limit_set(options->memory_limit_bytes);
    omp_set_num_threads(options->n_threads);
    if (options->restore.residual) return tell_others(team, restore(options, team));
    if (team->link) watchdog_grace(TEAM_GRACE_S);
    const int rc = prepare(options);
    if (rc) return tell_others(team, rc);
    return options->predict ? msi_run_predict(options, team, watchdog_start)
                            : msi_run_image(options, team, watchdog_start);
}

/* Flush standard output and report a failure: a full disk or a closed pipe may show no earlier than here. */
static int flush_stdout(void)
{
    if (ferror(stdout) | fflush(stdout))
        return msi_error_set(MSI_EOUTPUT, "standard output: %s", strerror(errno ? errno : EIO));
    return MSI_OK;
}

/* msimage has one rank. msimage-mp takes its ranks from ranks_mpi.c. */
#ifndef MSIMAGE_MPI
void msi_team_begin(msi_team *team)
{
    *team = MSI_TEAM_ALONE;
}
#endif

int main(int argc, char **argv)
{
    hold_standard_files();
    struct timespec began;
    timespec_get(&began, TIME_UTC);
    msi_team team;
    msi_team_begin(&team);
    if (argc < 2) {
        if (!msi_log_is_silent()) msi_help_usage(stderr);
        tell_others(&team, msi_error_set(MSI_EUSAGE, "a rank was given no command line"));
        msi_team_end(&team);
        return msi_exit_code(MSI_EUSAGE);
    }
    int is_raised, rc = msi_process_limits_stack(&is_raised);
    if (!rc) rc = msi_process_limits_files();
    rc = tell_others(&team, rc);
    if (rc) {
        msi_log_error(msi_error_get());
        msi_team_end(&team);
        return msi_exit_code(rc);
    }
    msi_options options;
    rc = tell_others(&team, msi_options_parse(&options, argc, (const char *const *)argv));
    if (!rc && options.action == MSI_ACTION_RUN) restart(argv, is_raised);
    if (!rc) rc = run(&options, &team);
    if (!rc) rc = flush_stdout();
    rc =
        msi_remedy_writer(msi_remedy_append(rc), options.given_paths, options.n_given, options.predict ? NULL : &began);
    if (rc) msi_log_error(msi_error_get());
    msi_options_free(&options);
    const int code = msi_exit_code(rc);
    if (team.is_cut_off) watchdog_stop();
    msi_team_end(&team);
    return code;
}
