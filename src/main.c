/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <errno.h>
#include <fcntl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/exit_code.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/options/help.h"
#include "src/options/options.h"
#include "src/options/hints.h"
#include "core/process_limits.h"
#include "src/imaging/imaging.h"
#include "src/predict/predict.h"
#include "src/run/restore.h"
#include "src/team/team.h"
#include "src/version.h"
#include "src/watchdog.h"

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
        msi_version_print(stdout);
        return MSI_OK;
    default:
        break;
    }
    msi_log_setup(options->log_level, options->log_time);
    msi_options_log(options);
    msi_memory_limit_set(options->memory_limit_bytes);
    omp_set_num_threads(options->n_threads);
    if (options->restore.residual) return tell_others(team, restore(options, team));
    if (team->link) msi_watchdog_grace(TEAM_GRACE_S);
    const int rc = prepare(options);
    if (rc) return tell_others(team, rc);
    return options->predict ? msi_run_predict(options, team, msi_watchdog_start)
                            : msi_run_image(options, team, msi_watchdog_start);
}

/* Flush standard output and report a failure: a full disk or a closed pipe may show no earlier than here. */
static int flush_stdout(void)
{
    if (ferror(stdout) | fflush(stdout))
        return msi_error_set(MSI_EOUTPUT, "standard output: %s", strerror(errno ? errno : EIO));
    return MSI_OK;
}

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
    if (team.is_cut_off) msi_watchdog_stop();
    msi_team_end(&team);
    return code;
}
