/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Temporary directories for tests, and checks that tests leave no files and descriptors behind. */
#ifndef MSI_TESTS_TEMP_FOLDER_H
#define MSI_TESTS_TEMP_FOLDER_H

/* The directory of a test program, with its group set-up and tear-down: new and empty, below TMPDIR; deleted with its
 * contents. */
extern char temp_folder[256];
int temp_folder_setup(void **state);
int temp_folder_teardown(void **state);

/* temp_folder_enter, temp_folder_leave - set up and tear down a program whose tests also run in that directory. */
int temp_folder_enter(void **state);
int temp_folder_leave(void **state);

/* fixture_temp - make a new empty directory below TMPDIR, and store its path; fixture_remove deletes it. */
void fixture_temp(char *path, int size);
void fixture_remove(const char *path);

/* temp_folder_n_file - count the entries of a directory, hidden ones too; -1 if it cannot be read. */
int temp_folder_n_file(const char *path);

/* temp_folder_n_open - count the file descriptors that this process has open. */
int temp_folder_n_open(void);

#endif
