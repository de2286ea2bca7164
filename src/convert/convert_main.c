/* SPDX-License-Identifier: GPL-3.0-or-later */
/* msimage-convert: Measurement Sets from and to what others hold, selected and averaged on the way. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/exit_code.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "src/convert/convert.h"
#include "src/convert/convert_options.h"
#include "src/options/remedy.h"
#include "core/process_limits.h"

static int run(msi_convert_options *o)
{
    switch (o->shared.action) {
    case MSI_ACTION_HELP:
        msi_convert_options_help();
        return MSI_OK;
    case MSI_ACTION_VERSION:
        puts("msimage-convert " MSIMAGE_VERSION);
        return MSI_OK;
    default:
        break;
    }
    msi_interrupt_install();
    msi_log_setup(o->shared.log_level, o->shared.log_time);
    msi_memory_limit_set(o->shared.memory_limit_bytes);
    MSI_TRY(msi_options_expand(&o->shared));
    return msi_convert(o);
}

int main(int argc, char **argv)
{
    msi_convert_options options = {0};
    struct timespec began;
    timespec_get(&began, TIME_UTC);
    msi_wall_s();
    int is_raised, rc = msi_process_limits_stack(&is_raised);
    if (!rc) rc = msi_process_limits_files();
    if (!rc) rc = msi_convert_options_parse(&options, argc, (const char *const *)argv);
    if (!rc) rc = run(&options);
    if (!rc && (ferror(stdout) | fflush(stdout)))
        rc = msi_error_set(MSI_EOUTPUT, "standard output: %s", strerror(errno ? errno : EIO));
    rc = msi_remedy_writer(rc, options.shared.given_paths, options.shared.n_given, &began);
    if (rc) fprintf(stderr, "msimage-convert: error: %s\n", msi_error_get());
    msi_convert_options_free(&options);
    return msi_exit_code(rc);
}
