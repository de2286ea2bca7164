/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Run msimage many times without starting the program. Each line of standard input has words separated by tabs. For
 * each line a process is forked that does the same as main with words 2, 3 .., with standard error in the file of word
 * 1. A line on standard output gives the result: exit code or minus the signal, seconds of CPU time, kB of the largest
 *    process.
 */
#include <fcntl.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/process.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/options/options.h"
#include "src/options/suggestion.h"
#include "src/run/runs.h"
#include "src/predict/predict.h"

enum { MOST_WORDS = 64 };

static int run(int argc, const char *const *argv)
{
    msi_options options;
    int rc = msi_options_parse(&options, argc, argv);
    if (!rc) {
        msi_log_setup(options.log_level, options.log_time);
        msi_memory_limit_set(options.memory_limit_bytes);
        omp_set_num_threads(options.n_threads);
        msi_interrupt_install();
        rc = options.predict ? msi_run_predict(&options, NULL, NULL) : msi_run_image(&options, NULL, NULL);
    }
    rc = msi_hint_append(rc);
    if (rc) msi_log_error(msi_error_get());
    msi_options_free(&options);
    return msi_exit_code(rc);
}

static _Noreturn void run_line(char *line)
{
    const char *word[MOST_WORDS] = {0};
    int n = 0;
    char *save;
    for (char *w = strtok_r(line, "\t\n", &save); w && n < MOST_WORDS; w = strtok_r(NULL, "\t\n", &save)) word[n++] = w;
    const int log = n > 1 ? open(word[0], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644) : -1;
    if (log < 0) _exit(99);
    dup2(log, STDERR_FILENO);
    /* The arguments of main begin with the name of the program. */
    word[0] = "msimage";
    const int code = run(n, word);
    fflush(NULL);
    _exit(code);
}

int main(void)
{
    char line[16384];
    while (fgets(line, sizeof line, stdin)) {
        int status;
        struct rusage usage;
        const pid_t pid = fork();
        if (pid < 0) return 1;
        if (pid == 0) run_line(line);
        if (wait4(pid, &status, 0, &usage) != pid) return 1;
        const double cpu_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                             1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
        printf("%d %.3f %ld\n", WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status), cpu_s, usage.ru_maxrss);
        fflush(stdout);
    }
    return 0;
}
