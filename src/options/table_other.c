/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Log, help and version are asked for by these. */
#include "src/options/table_rows.h"

static const msi_option rows[] = {
    {.name = "quiet",
     .arguments = "",
     .help = "Print warnings and errors only.",
     .read = msi_read_flag,
     AT(log_level),
     .high = MSI_LOG_QUIET},
    {.name = "verbose",
     .alias = "v",
     .arguments = "",
     .help = "Print more.",
     .read = msi_read_flag,
     AT(log_level),
     .high = MSI_LOG_VERBOSE},
    {.name = "log-time",
     .arguments = "",
     .help = "Begin each line of the log with the time; progress in plain lines.",
     .read = msi_read_flag,
     AT(log_time),
     .high = 1},
    {.name = "help",
     .alias = "h",
     .arguments = "[TOPIC]",
     .choices = "image|samples|weighting|cleaning|output|predict|performance|other",
     .help = "Print this help and stop. With a topic only that of one option, or of one section: image, samples, "
             "weighting, cleaning, output, predict, performance or other.",
     .read = msi_read_help},
    {.name = "version",
     .arguments = "",
     .help = "Print the version, the build, its libraries and the GPU found, and stop.",
     .read = msi_read_version},
};

const msi_option_table msi_table_other = {MSI_GROUP_OTHER, rows, sizeof rows / sizeof *rows};
