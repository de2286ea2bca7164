/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The program msimage. It parses the command line, prepares the process, starts a run, and converts the run's status to
 * an error line and an exit code. */
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/status.h"
#include "io/fits/picture_apart.h"
#include "io/fits/publish.h"
#include "kernels/gridder.h"
#include "src/run/runs.h"
#include "src/options/help.h"
#include "src/options/options.h"
#include "src/options/suggestion.h"
#include "src/predict/predict.h"
#include "src/run/ranks.h"

/* Number of freed memory blocks that are kept for reuse: one for each image that is written at the same time. */
enum { IDLE_BLOCKS = 16 };

/* ---- Start ---- */

MSI_PREFER_PASSIVE_THREADS;

/* Restart the program once, with OMP_WAIT_POLICY=passive, if the environment had no `_` to replace; this takes 0.03 s.
 * Given: always  1: restart in any case, because the stack limit was raised */
static void restart(char **argv, int always)
{
    static const char policy[] = "OMP_WAIT_POLICY";
    if (!always && (getenv(policy) || getenv("GOMP_SPINCOUNT"))) return;
    char *self = realpath("/proc/self/exe", NULL);
    /* If the program was started as an argument of the dynamic loader, /proc/self/exe is the loader. */
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
 * Write the program's build id, the linker's hash of its contents, to text [MAX_ID_TEXT] in hexadecimal.
 * dl_iterate_phdr visits the program first. The return value 1 stops it before the libraries. Without a build id text
 * does not change.
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

/* Print version, build, libraries and GPU, one line each. The search for a GPU can take a second. */
static void print_version(FILE *out)
{
    char build_id[MAX_ID_TEXT] = "unknown";
    dl_iterate_phdr(find_build_id, build_id);
    fputs("msimage " MSIMAGE_VERSION "\n", out);
    fprintf(out, "build: %s, %s, id %.16s\n", MSIMAGE_BUILD_TYPE, COMPILER, build_id);
    fprintf(out, "libraries: %s, %s\n", MSIMAGE_LIBRARIES, msi_backend_versions());
    fprintf(out, "GPU: %s\n", msi_backend_describe());
    /* Some scripts search the output of WSClean for these lines. */
    fputs("WGridder is available.\nW-Towers is available.\n", out);
}

/* ---- Watchdog ---- */

/* The watchdog ends an interrupted run that is in a long call of a library, such as the FFT of a huge image. */

static const long POLL_NS = 100000000;
static long grace_ns = 1500000000;
static atomic_int is_stopped;

static void pause_ns(long ns)
{
    struct timespec left = {ns / 1000000000, ns % 1000000000};
    while (nanosleep(&left, &left)) {
    }
}

/* Wait for a signal, give the run time to stop, then end the process from this thread. */
static void *watch_signals(void *unused)
{
    (void)unused;
    while (!msi_interrupt_signal()) pause_ns(POLL_NS);
    pause_ns(grace_ns);
    if (is_stopped) return NULL;
    msi_publish_emergency();
    /* Do not use the log, because another thread may have its lock. */
    char line[128];
    int signal_number = msi_interrupt_signal();
    int n = snprintf(line, sizeof line, "msimage: error: stopped by signal %d (%s)\n", signal_number,
                     strsignal(signal_number));
    if (!msi_log_is_silent() && write(STDERR_FILENO, line, (size_t)n) < 0) line[0] = 0;
    _exit(128 + signal_number);
}

/* Set the time that an interrupted run has to stop, instead of 1.5 s. Call it before watchdog_start. */
static void watchdog_grace(double grace_s)
{
    grace_ns = (long)(1e9 * grace_s);
}

/* Stop the watchdog, after a run has stopped by itself and removed its temporary files. */
static void watchdog_stop(void)
{
    is_stopped = 1;
}

/*
 * Start the watchdog thread. If a run continues for 1.5 s after a signal, the watchdog removes its temporary files,
 * prints the error line, and exits with 128 + the signal's number. Call it once, after msi_interrupt_install and the
 * last fork. If the thread cannot be started, runs can only stop by themselves.
 */
static void watchdog_start(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch_signals, NULL) == 0) pthread_detach(thread);
}

/* ---- Libraries that run out of memory or threads ---- */

/*
 * End the process, as the watchdog does, if FFTW cannot allocate memory. FFTW then calls its fftw_assertion_failed,
 * which aborts the process and would leave temporary files. The functions below replace it.
 */
static _Noreturn void end_without_memory(void)
{
    static const char line[] =
        "msimage: error: out of memory in a Fourier transform (FFTW); use a smaller image, or raise "
        "the limit of the address space (ulimit -v)\n";
    msi_publish_emergency();
    if (!msi_log_is_silent() && write(STDERR_FILENO, line, sizeof line - 1) < 0) _exit(msi_exit_code(MSI_ENOMEM));
    _exit(msi_exit_code(MSI_ENOMEM));
}

static atomic_int has_ended;

/* Remove temporary files and set the exit code if a library calls exit(). For example, libgomp does so if it cannot
 * start a thread. The library has printed the reason. */
static void end_with_library(void)
{
    static const char line[] =
        "msimage: error: a library has ended the program, perhaps because no more threads or memory "
        "are available; use a smaller -j, or raise the limit (ulimit -u, -v)\n";
    if (has_ended) return;
    msi_publish_emergency();
    if (!msi_log_is_silent() && write(STDERR_FILENO, line, sizeof line - 1) < 0) _exit(msi_exit_code(MSI_ENOMEM));
    _exit(msi_exit_code(MSI_ENOMEM));
}

/* These symbols are exported, so the dynamic linker binds FFTW's calls to them instead of to FFTW's own functions. */
#define INSTEAD_OF_FFTW __attribute__((visibility("default"), noreturn))
INSTEAD_OF_FFTW void fftw_assertion_failed(const char *what, int line, const char *file);
INSTEAD_OF_FFTW void fftwf_assertion_failed(const char *what, int line, const char *file);

void fftw_assertion_failed(const char *what, int line, const char *file)
{
    (void)what;
    (void)line;
    (void)file;
    end_without_memory();
}

void fftwf_assertion_failed(const char *what, int line, const char *file)
{
    (void)what;
    (void)line;
    (void)file;
    end_without_memory();
}

/* ---- The run ---- */

/* An MPI launcher kills the processes of a job one second after SIGTERM. Temporary files must be removed before
 * that. */
static const double RANKS_GRACE_S = 0.5;

/* Run -restore. It only reads and writes files, so it cannot be shared between ranks. */
static int run_restore(const msi_options *options, const msi_ranks *ranks)
{
    if (ranks->link)
        return msi_error_set(MSI_EUSAGE, "-restore%s: it uses one process; start msimage instead of msimage-mp",
                             options->restore.is_list ? "-list" : "");
    msi_interrupt_install();
    MSI_TRY(msi_process_limits_threads(options->n_threads));
    return msi_run_restore(options);
}

/* Run -draw-model. All files are written by one process. */
static int run_draw(const msi_options *options, const msi_ranks *ranks)
{
    if (ranks->link)
        return msi_error_set(MSI_EUSAGE, "-draw-model: it uses one process; start msimage instead of msimage-mp");
    msi_interrupt_install();
    MSI_TRY(msi_process_limits_threads(options->n_threads));
    return msi_run_draw_model(options, watchdog_start);
}

/* Refuse a -temp-dir that is not a directory, even if the run would not write to it. */
static int check_temp_dir(const char *path)
{
    struct stat s;
    if (!path || (stat(path, &s) == 0 && S_ISDIR(s.st_mode))) return MSI_OK;
    return msi_error_set(MSI_EOUTPUT, "-temp-dir %s: there is no such directory; create it, or give another", path);
}

/* Prepare signals, threads and paths before the run forks and joins other ranks. */
static int prepare_run(msi_options *options)
{
    MSI_TRY(check_temp_dir(options->temp_dir));
    MSI_TRY(msi_options_check_paths(options));
    msi_interrupt_install();
    MSI_TRY(msi_process_limits_threads(options->n_threads));
    MSI_TRY(msi_options_read_aterms(options));
    return msi_options_expand_multi_ms(options);
}

/* Agree on a failure with the other ranks before they join. If a rank exited at once, the launcher could kill the
 * others before the error is printed. All ranks exit together, with the message of the lowest rank that failed. */
static int agree_before_join(msi_ranks *ranks, int rc)
{
    if (!rc || ranks->env_size == 1) return rc;
    msi_log_setup(MSI_LOG_QUIET, msi_log_is_timed());
    msi_ranks_join(ranks);
    return msi_ranks_agree(ranks, rc);
}

static int run_action(msi_options *options, msi_ranks *ranks)
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
    msi_memory_reuse(IDLE_BLOCKS);
    omp_set_num_threads(options->n_threads);
    if (options->restore.residual) return agree_before_join(ranks, run_restore(options, ranks));
    if (options->draw.list) return agree_before_join(ranks, run_draw(options, ranks));
    if (ranks->link) watchdog_grace(RANKS_GRACE_S);
    if (ranks->link) msi_picture_never_apart();
    const int rc = prepare_run(options);
    if (rc) return agree_before_join(ranks, rc);
    return options->predict ? msi_run_predict(options, ranks, watchdog_start)
                            : msi_run_image(options, ranks, watchdog_start);
}

/* Flush standard output. A full disk or a closed pipe may be reported only now. */
static int flush_stdout(void)
{
    if (ferror(stdout) | fflush(stdout))
        return msi_error_set(MSI_EOUTPUT, "standard output: %s", strerror(errno ? errno : EIO));
    return MSI_OK;
}

/* msimage has one rank. msimage-mp has the ranks of ranks_mpi.c instead. */
#ifndef MSIMAGE_MPI
void msi_ranks_begin(msi_ranks *ranks)
{
    *ranks = MSI_RANKS_ALONE;
}
#endif

/* Return the exit code for main. After this, end_with_library does nothing. */
static int leave(int status)
{
    has_ended = 1;
    return msi_exit_code(status);
}

int main(int argc, char **argv)
{
    msi_process_hold_standard_files();
    struct timespec began;
    timespec_get(&began, TIME_UTC);
    atexit(end_with_library);
    msi_ranks ranks;
    msi_ranks_begin(&ranks);
    if (argc < 2) {
        if (!msi_log_is_silent()) msi_help_usage(stderr);
        agree_before_join(&ranks, msi_error_set(MSI_EUSAGE, "a rank has no command line"));
        msi_ranks_end(&ranks);
        return leave(MSI_EUSAGE);
    }
    int is_raised, rc = msi_process_limits_stack(&is_raised);
    if (!rc) rc = msi_process_limits_files();
    rc = agree_before_join(&ranks, rc);
    if (rc) {
        msi_log_error(msi_error_get());
        msi_ranks_end(&ranks);
        return leave(rc);
    }
    msi_options options;
    rc = agree_before_join(&ranks, msi_options_parse(&options, argc, (const char *const *)argv));
    if (!rc && options.action == MSI_ACTION_RUN) restart(argv, is_raised);
    if (!rc) rc = run_action(&options, &ranks);
    if (!rc) rc = flush_stdout();
    rc = msi_hint_append_writer(msi_hint_append(rc), options.given_paths, options.n_given,
                                options.predict ? NULL : &began);
    if (rc) msi_log_error(msi_error_get());
    msi_options_free(&options);
    if (ranks.is_cut_off) watchdog_stop();
    msi_ranks_end(&ranks);
    return leave(rc);
}
