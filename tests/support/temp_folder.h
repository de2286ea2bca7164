/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A folder of a test's own, and what a test may leave in it and open: nothing. */
#ifndef MSI_TESTS_TEMP_FOLDER_H
#define MSI_TESTS_TEMP_FOLDER_H

/* The folder of a test program whose group set-up and tear-down these are: new, empty, below TMPDIR; deleted with all
 * that is in it. */
extern char temp_folder[256];
int temp_folder_setup(void **state);
int temp_folder_teardown(void **state);

/* temp_folder_enter, temp_folder_leave - set up and tear down a program whose tests also run in that folder. */
int temp_folder_enter(void **state);
int temp_folder_leave(void **state);

/* fixture_temp - make a new empty directory below TMPDIR, named `path` from now on; fixture_remove deletes it. */
void fixture_temp(char *path, int size);
void fixture_remove(const char *path);

/* temp_folder_n_file - count the entries of a directory, hidden ones too; -1 where it cannot be read. */
int temp_folder_n_file(const char *path);

/* temp_folder_n_open - count the file descriptors that this process has open. */
int temp_folder_n_open(void);

#endif
