/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The lines that a log begins with: which sets, fields, channels and times a run is about. */
#ifndef MSI_SRC_SET_REPORT_H
#define MSI_SRC_SET_REPORT_H

#include <stddef.h>

#include "io/ms/ms_reader.h"
#include "src/options/options.h"

/* msi_set_report_line - give a line of the block: a label, such as "band", and what stands in the column beside it. */
void msi_set_report_line(const char *label, const char *format, ...) __attribute__((format(printf, 2, 3)));

/*
 * msi_set_report - report sets, telescope, fields, data, band, times.
 * Given: data  what is done with the data: the column and the images' polarisations
 */
void msi_set_report(const msi_ms_reader *reader, const msi_options *options, const char *data);

/* msi_set_report_times - give the line of the times alone, as each interval has its own. */
void msi_set_report_times(const msi_ms_reader *reader);

/* msi_set_report_highest_hz - return the highest of the selected frequencies. */
double msi_set_report_highest_hz(const msi_ms_reader *reader);

/*
 * msi_set_report_fields - list the fields with selected rows, each once, as far as there is room: "a, b and 2 more".
 * Given:    with_ids  1: as "a (id 0)", fields of one name and different ids apart; 0: names alone, none for a field
 *           without one
 * Returned: text
 * Returns:  how many there are, of which each that finds no room counts
 */
int64_t msi_set_report_fields(char *text, size_t size, const msi_ms_reader *reader, int with_ids);

/*
 * msi_set_report_names - return "a, b and c" where that fits on a line, else "a and 2 more".
 * Given:    names [n], n >= 1
 * Returned: text
 */
void msi_set_report_names(char *text, size_t size, const char *const *names, int64_t n);

#endif
