/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Implementation of h5_files.h. A child process reads the tables of a file. For each table it writes a head, and the
 * arrays in the order of list_arrays. This process checks the head and copies the arrays.
 */
#include "io/h5/h5_files.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/child.h"
#include "core/memory.h"
#include "core/status.h"

/* ---- Reading in a separate process ---- */

/* Limit of CPU time for a step of the child, such as reading a file without its values: the HDF5 library loops in some
 * damaged files. A step takes less than 0.1 s for a valid file. */
#define MSI_H5_STEP_S 4.0

/* The file that the child reads, and the descriptor for its output. */
typedef struct job {
    const char *path;
    int (*read)(int fd, const char *path, void *of);
    void *of;
    int fd;
} job;

/* Append bytes to the output of the child. Returns: 0, MSI_ENOMEM */
static int h5_put(int fd, const void *bytes, int64_t n)
{
    const char *from = bytes;
    while (n > 0) {
        const ssize_t done = write(fd, from, n > 1 << 24 ? 1 << 24 : (size_t)n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return msi_error_set(MSI_ENOMEM, "no memory for an HDF5 file: %s", strerror(errno));
        from += done;
        n -= done;
    }
    return MSI_OK;
}

static int read_file(msi_child *self, void *of)
{
    const job *j = of;
    (void)self;
    msi_child_limit_memory(msi_memory_limit());
    return j->read(j->fd, j->path, j->of);
}

static int take_result(int fd, const char *path,
                       int (*take)(void *of, const char *path, const char *bytes, int64_t n_byte), void *of)
{
    const int64_t n_byte = (int64_t)lseek(fd, 0, SEEK_END);
    if (n_byte < 1) return msi_error_set(MSI_EINPUT, "%s: nothing was read", path);
    const char *bytes = mmap(NULL, (size_t)n_byte, PROT_READ, MAP_SHARED, fd, 0);
    if (bytes == MAP_FAILED) return msi_error_set(MSI_ENOMEM, "no memory for an HDF5 file: %s", strerror(errno));
    const int rc = take(of, path, bytes, n_byte);
    munmap((void *)bytes, (size_t)n_byte);
    return rc;
}

/*
 * Read a file in a child process and take its output. This forks.
 * Given:    path
 *           read  called in the child: reads the file, and writes by h5_put. Returns: a status, with a message
 *           take  called in this process: copies the output [n_byte], which may have any value if the child was
 *                 corrupted
 *           of    argument of both
 * Returns:  0, codes of read and take, MSI_EINPUT (the child died), MSI_ENOMEM, MSI_EINTERRUPTED
 */
static int h5_apart(const char *path, int (*read)(int fd, const char *path, void *of),
                    int (*take)(void *of, const char *path, const char *bytes, int64_t n_byte), void *of)
{
    job j = {path, read, of, memfd_create("msimage-hdf5", MFD_CLOEXEC)};
    if (j.fd < 0) return msi_error_set(MSI_ENOMEM, "cannot create a file in memory: %s", strerror(errno));
    const msi_child_spec spec = {.work = read_file,
                                 .of = &j,
                                 .what = "the HDF5 reader process",
                                 .path = path,
                                 .keeps_files = 1,
                                 .cpu_s = MSI_H5_STEP_S};
    int rc = msi_child_run(&spec);
    if (!rc) rc = take_result(j.fd, path, take, of);
    close(j.fd);
    return rc;
}

/* ---- Reading of a table by the HDF5 library, in the child ---- */

/* Free a table and leave it empty. */
static void solution_table_free(msi_solution_table *t)
{
    msi_free(t->time_s);
    msi_free(t->freq_hz);
    msi_free(t->dir_rad);
    msi_free(t->dir);
    msi_free(t->ant);
    msi_free(t->value);
    *t = (msi_solution_table){0};
}

#ifndef MSI_HAVE_HDF5

/*
 * Read one table in this process.
 * Returned: *out   emptied by solution_table_free, also after a failure
 * Returns:  as msi_h5parm_read
 */
static int h5parm_file_read(msi_solution_table *out, const char *path, const char *name)
{
    (void)name;
    *out = (msi_solution_table){0};
    return msi_error_set(MSI_EUSAGE, "%s: this build of msimage cannot read H5Parm files; build it with libhdf5-dev",
                         path);
}

#else

#include <hdf5.h>

enum { AXES = 5, SOURCE_NAME = 128 };

typedef enum axis { TIME, FREQ, ANT, DIR, POL } axis;

static const char *const AXIS_NAMES[AXES] = {"time", "freq", "ant", "dir", "pol"};

/* The state of reading a table. */
typedef struct reading {
    const char *path, *name;
    hid_t file, set, table;
    int n_axis;
    axis of[AXES]; /* [n_axis] in the order of the file */
    int64_t n[AXES];
    int has[AXES];
    msi_solution_table *out;
} reading;

static int damaged(const reading *r, const char *what)
{
    return msi_error_set(MSI_EINPUT, "%s: %s: truncated or corrupt: cannot read %s", r->path, r->name, what);
}

/* ---- Texts ---- */

/* Copy a text of a file, without its padding. */
static void copy_text(char *to, size_t size, const char *from, size_t n)
{
    size_t length = 0;
    while (length < n && length + 1 < size && from[length]) length++;
    while (length && from[length - 1] == ' ') length--;
    memcpy(to, from, length);
    to[length] = 0;
}

/* Read a text attribute. Returns: 1; 0 if it is missing or is not a text */
static int read_attribute(hid_t of, const char *name, char *text, size_t size)
{
    char buffer[1024] = "";
    text[0] = 0;
    if (H5Aexists(of, name) <= 0) return 0;
    const hid_t a = H5Aopen(of, name, H5P_DEFAULT), type = H5Aget_type(a), space = H5Aget_space(a);
    int is_there = 0;
    if (type >= 0 && H5Tget_class(type) == H5T_STRING && H5Sget_simple_extent_npoints(space) == 1) {
        if (H5Tis_variable_str(type) > 0) {
            char *value = NULL;
            const hid_t memory = H5Tcopy(H5T_C_S1);
            H5Tset_size(memory, H5T_VARIABLE);
            H5Tset_cset(memory, H5Tget_cset(type));
            is_there = H5Aread(a, memory, (void *)&value) >= 0 && value;
            if (is_there) copy_text(text, size, value, strlen(value));
            H5Tclose(memory);
        } else if (H5Tget_size(type) < sizeof buffer) {
            is_there = H5Aread(a, type, buffer) >= 0;
            if (is_there) copy_text(text, size, buffer, H5Tget_size(type));
        }
    }
    H5Sclose(space);
    H5Tclose(type);
    H5Aclose(a);
    return is_there;
}

/* Read a dataset of n texts. */
static int read_texts(const reading *r, const char *name, int64_t n, msi_h5_text *text)
{
    const hid_t d = H5Dopen2(r->table, name, H5P_DEFAULT), type = d < 0 ? -1 : H5Dget_type(d);
    const size_t size = type < 0 ? 0 : H5Tget_size(type);
    int ok = type >= 0 && H5Tget_class(type) == H5T_STRING, rc = MSI_OK;
    if (ok && H5Tis_variable_str(type) > 0) {
        char **value = NULL;
        rc = msi_alloc(&value, n, sizeof *value, "names of solutions");
        if (!rc) ok = H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, (void *)value) >= 0;
        for (int64_t i = 0; !rc && ok && i < n; i++)
            if (value[i]) copy_text(text[i].text, sizeof text[i].text, value[i], strlen(value[i]));
        msi_free(value);
    } else if (ok && size > 0 && size <= 4096) {
        char *value = NULL;
        rc = msi_alloc(&value, n, size, "names of solutions");
        if (!rc) ok = H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0;
        for (int64_t i = 0; !rc && ok && i < n; i++)
            copy_text(text[i].text, sizeof text[i].text, value + (size_t)i * size, size);
        msi_free(value);
    } else {
        ok = 0;
    }
    if (type >= 0) H5Tclose(type);
    if (d >= 0) H5Dclose(d);
    return rc ? rc : ok ? MSI_OK : damaged(r, name);
}

/* ---- Numbers ---- */

/* Return 1 if the file is large enough for the values of a dataset, so that damaged dimensions do not take memory.
 * Filters store at most this many values in a byte. */
static int can_hold(hid_t d, hid_t space)
{
    enum { VALUES_IN_A_BYTE = 1 << 16 };
    hsize_t bytes = 0;
    const hid_t file = H5Iget_file_id(d);
    const int is_known = file >= 0 && H5Fget_filesize(file, &bytes) >= 0;
    if (file >= 0) H5Fclose(file);
    const hsize_t stored = H5Dget_storage_size(d);
    const hssize_t n = H5Sget_simple_extent_npoints(space);
    return is_known && n > 0 && stored <= bytes && (hsize_t)n / VALUES_IN_A_BYTE <= stored;
}

/* Get the dimensions of a dataset. Returned: dim [AXES]. Returns: their number; -1 on failure */
static int dimensions(hid_t of, const char *name, int64_t *dim)
{
    hsize_t size[H5S_MAX_RANK];
    if (H5Lexists(of, name, H5P_DEFAULT) <= 0) return -1;
    const hid_t d = H5Dopen2(of, name, H5P_DEFAULT);
    if (d < 0) return -1;
    const hid_t space = H5Dget_space(d);
    const int n = space >= 0 && can_hold(d, space) ? H5Sget_simple_extent_ndims(space) : -1;
    if (n > 0 && n <= AXES && H5Sget_simple_extent_dims(space, size, NULL) == n)
        for (int i = 0; i < n; i++) dim[i] = size[i] > INT32_MAX ? -1 : (int64_t)size[i];
    if (space >= 0) H5Sclose(space);
    H5Dclose(d);
    return n > 0 && n <= AXES ? n : -1;
}

static int read_numbers(const reading *r, const char *name, hid_t memory, void *value)
{
    const hid_t d = H5Dopen2(r->table, name, H5P_DEFAULT), type = d < 0 ? -1 : H5Dget_type(d);
    const H5T_class_t class = type < 0 ? H5T_NO_CLASS : H5Tget_class(type);
    /* The size of a damaged type may be gigabytes. */
    const int is_number = (class == H5T_FLOAT || class == H5T_INTEGER) && H5Tget_size(type) <= 16;
    const int ok = is_number && H5Dread(d, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, value) >= 0;
    if (type >= 0) H5Tclose(type);
    if (d >= 0) H5Dclose(d);
    return ok ? MSI_OK : damaged(r, name);
}

/* Read an axis of numbers, which must ascend. */
static int read_axis(const reading *r, axis a, double **value)
{
    MSI_TRY(msi_alloc(value, r->n[a], sizeof **value, "axes of solutions"));
    if (!r->has[a]) return MSI_OK;
    MSI_TRY(read_numbers(r, AXIS_NAMES[a], H5T_NATIVE_DOUBLE, *value));
    for (int64_t i = 0; i < r->n[a]; i++) {
        if (!isfinite((*value)[i]))
            return msi_error_set(MSI_EINPUT, "%s: %s: %s %lld is not a number", r->path, r->name, AXIS_NAMES[a],
                                 (long long)i);
        if (i && !((*value)[i] > (*value)[i - 1]))
            return msi_error_set(MSI_EINPUT, "%s: %s: %s %lld, %.9g, does not ascend from %.9g before it", r->path,
                                 r->name, AXIS_NAMES[a], (long long)i, (*value)[i], (*value)[i - 1]);
    }
    return MSI_OK;
}

/* ---- The table and its axes ---- */

typedef struct name_list {
    char text[400];
    int n;
    char only[SOURCE_NAME];
} name_list;

static herr_t add_name(hid_t group, const char *name, const H5L_info_t *info, void *of)
{
    name_list *l = of;
    (void)group;
    (void)info;
    const size_t used = strlen(l->text);
    snprintf(l->text + used, sizeof l->text - used, "%s%.100s", l->n ? ", " : "", name);
    snprintf(l->only, sizeof l->only, "%.120s", name);
    return ++l->n >= 40;
}

/* Open the solution set: sol000, or the only one. */
static int open_set(reading *r)
{
    name_list names = {0};
    if (access(r->path, R_OK)) return msi_error_set(MSI_EINPUT, "%s: %s", r->path, strerror(errno));
    r->file = H5Fopen(r->path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (r->file < 0) return msi_error_set(MSI_EINPUT, "%s: not an HDF5 file, or damaged", r->path);
    if (H5Lexists(r->file, "sol000", H5P_DEFAULT) > 0) {
        r->set = H5Gopen2(r->file, "sol000", H5P_DEFAULT);
    } else {
        H5Literate(r->file, H5_INDEX_NAME, H5_ITER_INC, NULL, add_name, &names);
        if (names.n == 1) r->set = H5Gopen2(r->file, names.only, H5P_DEFAULT);
    }
    if (r->set >= 0) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: has no solution set sol000%s%s", r->path, names.n ? ", but " : "",
                         names.text);
}

static int open_table(reading *r)
{
    static const struct {
        const char *title;
        msi_solution_kind kind;
    } kinds[] = {{"amplitude", MSI_SOLUTION_AMPLITUDE},
                 {"scalaramplitude", MSI_SOLUTION_AMPLITUDE},
                 {"phase", MSI_SOLUTION_PHASE},
                 {"scalarphase", MSI_SOLUTION_PHASE},
                 {"tec", MSI_SOLUTION_TEC},
                 {"clock", MSI_SOLUTION_CLOCK},
                 {"rotation", MSI_SOLUTION_ROTATION},
                 {"rotationmeasure", MSI_SOLUTION_ROTATION_MEASURE}};
    char title[64];
    name_list names = {0};
    if (H5Lexists(r->set, r->name, H5P_DEFAULT) > 0) r->table = H5Gopen2(r->set, r->name, H5P_DEFAULT);
    if (r->table < 0) {
        H5Literate(r->set, H5_INDEX_NAME, H5_ITER_INC, NULL, add_name, &names);
        return msi_error_set(MSI_EINPUT, "%s: has no solution table \"%s\"; it has %s", r->path, r->name,
                             names.n ? names.text : "none");
    }
    snprintf(r->out->name.text, sizeof r->out->name.text, "%.120s", r->name);
    if (!read_attribute(r->table, "TITLE", title, sizeof title))
        return msi_error_set(MSI_EINPUT, "%s: %s: has no TITLE, which names the kind of solutions", r->path, r->name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcasecmp(title, kinds[i].title) == 0) {
            r->out->kind = kinds[i].kind;
            return MSI_OK;
        }
    return msi_error_set(MSI_EINPUT,
                         "%s: %s: unknown kind \"%s\" (known: amplitude, phase, tec, clock, rotation, rotationmeasure)",
                         r->path, r->name, title);
}

/* Read the order and the lengths of the axes. */
static int read_axes(reading *r)
{
    char axes[256], *rest;
    int64_t dim[AXES] = {0}, of_axis[AXES];
    const int n = dimensions(r->table, "val", dim);
    if (n < 0) return damaged(r, "val");
    const hid_t d = H5Dopen2(r->table, "val", H5P_DEFAULT);
    const int has_axes = d >= 0 && read_attribute(d, "AXES", axes, sizeof axes);
    if (d >= 0) H5Dclose(d);
    if (!has_axes) return msi_error_set(MSI_EINPUT, "%s: %s: val has no AXES", r->path, r->name);
    for (int a = 0; a < AXES; a++) r->n[a] = 1;
    for (char *word = strtok_r(axes, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest)) {
        int a = 0;
        while (a < AXES && strcasecmp(word, AXIS_NAMES[a]) != 0) a++;
        if (a == AXES || r->has[a] || r->n_axis == n)
            return msi_error_set(MSI_EINPUT, "%s: %s: AXES: \"%.40s\" is unknown, repeated or one too many", r->path,
                                 r->name, word);
        if (dim[r->n_axis] < 1 || dimensions(r->table, AXIS_NAMES[a], of_axis) != 1 || of_axis[0] != dim[r->n_axis])
            return msi_error_set(MSI_EINPUT, "%s: %s: axis %s has another length than val", r->path, r->name, word);
        r->has[a] = 1;
        r->n[a] = dim[r->n_axis];
        r->of[r->n_axis++] = (axis)a;
    }
    if (r->n_axis != n)
        return msi_error_set(MSI_EINPUT, "%s: %s: val has %d axes, AXES names %d", r->path, r->name, n, r->n_axis);
    return MSI_OK;
}

/* Find the index of each polarisation of the file. Returned: place [n] */
static int read_polarisations(reading *r, int64_t *place)
{
    static const char *const names[2][4] = {{"XX", "XY", "YX", "YY"}, {"RR", "RL", "LR", "LL"}};
    msi_h5_text text[4];
    const int64_t n = r->n[POL];
    place[0] = 0;
    if (n > 4 || n == 3)
        return msi_error_set(MSI_EINPUT, "%s: %s: has %lld polarisations; 1, 2 or 4 are known", r->path, r->name,
                             (long long)n);
    if (n == 1) return MSI_OK;
    MSI_TRY(read_texts(r, "pol", n, text));
    unsigned seen = 0;
    for (int64_t i = 0; i < n; i++) {
        int k = 0;
        while (k < 4 && strcasecmp(text[i].text, names[0][k]) != 0 && strcasecmp(text[i].text, names[1][k]) != 0) k++;
        if (k == 4 || (n == 2 && k % 3))
            return msi_error_set(MSI_EINPUT, "%s: %s: unknown polarisation \"%s\"", r->path, r->name, text[i].text);
        place[i] = n == 2 ? k / 3 : k;
        seen |= 1u << place[i];
    }
    if (seen != (1u << n) - 1) return msi_error_set(MSI_EINPUT, "%s: %s: a polarisation is repeated", r->path, r->name);
    return MSI_OK;
}

/* ---- Directions ---- */

typedef struct source {
    char name[SOURCE_NAME];
    double dir[2];
} source;

/* Copy a name without brackets. */
static void copy_without_brackets(char *to, const char *from)
{
    const size_t n = strlen(from);
    const int has = n > 1 && from[0] == '[' && from[n - 1] == ']';
    copy_text(to, SOURCE_NAME, from + has, n - (has ? 2 : 0));
}

static int read_sources(const reading *r, source **out, int64_t *n)
{
    const hsize_t two = 2;
    MSI_TRY(dimensions(r->set, "source", n) == 1 && *n > 0 && *n < 1000000
                ? MSI_OK
                : msi_error_set(MSI_EINPUT, "%s: has no list of directions, source", r->path));
    MSI_TRY(msi_alloc(out, *n, sizeof **out, "directions of solutions"));
    const hid_t name = H5Tcopy(H5T_C_S1), pair = H5Tarray_create2(H5T_NATIVE_DOUBLE, 1, &two),
                memory = H5Tcreate(H5T_COMPOUND, sizeof **out), d = H5Dopen2(r->set, "source", H5P_DEFAULT),
                type = d < 0 ? -1 : H5Dget_type(d);
    H5Tset_size(name, SOURCE_NAME);
    H5Tinsert(memory, "name", HOFFSET(source, name), name);
    H5Tinsert(memory, "dir", HOFFSET(source, dir), pair);
    const int ok =
        type >= 0 && H5Tget_size(type) <= 4096 && H5Dread(d, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, *out) >= 0;
    for (int64_t i = 0; ok && i < *n; i++) (*out)[i].name[SOURCE_NAME - 1] = 0;
    if (type >= 0) H5Tclose(type);
    if (d >= 0) H5Dclose(d);
    H5Tclose(memory);
    H5Tclose(pair);
    H5Tclose(name);
    return ok ? MSI_OK : damaged(r, "source");
}

/* Find the directions of a table by their names. */
static int find_directions(const reading *r)
{
    msi_solution_table *t = r->out;
    source *all = NULL;
    int64_t n;
    char a[SOURCE_NAME], b[SOURCE_NAME];
    MSI_TRY(msi_alloc(&t->dir, t->n_dir, sizeof *t->dir, "directions of solutions"));
    MSI_TRY(msi_alloc(&t->dir_rad, t->n_dir, sizeof *t->dir_rad, "directions of solutions"));
    if (!t->has_dir) return MSI_OK;
    MSI_TRY(read_texts(r, "dir", t->n_dir, t->dir));
    int rc = read_sources(r, &all, &n);
    for (int64_t i = 0; !rc && i < t->n_dir; i++) {
        int64_t k = 0;
        copy_without_brackets(a, t->dir[i].text);
        for (; k < n; k++) {
            copy_without_brackets(b, all[k].name);
            if (strcmp(a, b) == 0) break;
        }
        if (k == n)
            rc = msi_error_set(MSI_EINPUT, "%s: %s: direction \"%s\" is not in the list of directions, source", r->path,
                               r->name, t->dir[i].text);
        else if (!isfinite(all[k].dir[0]) || !isfinite(all[k].dir[1]) || fabs(all[k].dir[0]) > 10 ||
                 fabs(all[k].dir[1]) > 1.571)
            rc = msi_error_set(MSI_EINPUT, "%s: source: \"%s\" has no valid direction", r->path, all[k].name);
        else
            memcpy(t->dir_rad[i], all[k].dir, sizeof all[k].dir);
    }
    msi_free(all);
    return rc;
}

/* ---- Values ---- */

/* Store values, which are in the order of the file, in the order of the table. Values of weight 0 become NaN. */
static int arrange(const reading *r, const float *value, const float *weight, const int64_t *place)
{
    const msi_solution_table *t = r->out;
    const int64_t n = t->n_dir * t->n_time * t->n_freq * t->n_ant * t->n_pol;
    const int64_t step[AXES] = {[POL] = 1,
                                [ANT] = t->n_pol,
                                [FREQ] = t->n_pol * t->n_ant,
                                [TIME] = t->n_pol * t->n_ant * t->n_freq,
                                [DIR] = t->n_pol * t->n_ant * t->n_freq * t->n_time};
    int64_t at[AXES] = {0}, n_finite = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t to = 0;
        for (int k = 0; k < r->n_axis; k++) to += step[r->of[k]] * (r->of[k] == POL ? place[at[k]] : at[k]);
        const int is_there = isfinite(value[i]) && (!weight || weight[i] > 0);
        t->value[to] = is_there ? value[i] : NAN;
        n_finite += is_there;
        for (int k = r->n_axis - 1; k >= 0 && ++at[k] == r->n[r->of[k]]; k--) at[k] = 0;
    }
    if (n_finite) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: %s: has no solution: all values are NaN or have weight 0", r->path, r->name);
}

static int read_values(const reading *r, const int64_t *place)
{
    msi_solution_table *t = r->out;
    int64_t n = 1, dim[AXES] = {0};
    float *value = NULL, *weight = NULL;
    for (int a = 0; a < AXES; a++) {
        if (r->n[a] > INT64_MAX / 64 / n)
            return msi_error_set(MSI_EINPUT, "%s: %s: truncated or corrupt: too many values", r->path, r->name);
        n *= r->n[a];
    }
    const int n_dim = dimensions(r->table, "weight", dim);
    if (n_dim < 0 && H5Lexists(r->table, "weight", H5P_DEFAULT) > 0) return damaged(r, "weight");
    int has_weight = n_dim == r->n_axis;
    for (int k = 0; k < n_dim && has_weight; k++) has_weight = dim[k] == r->n[r->of[k]];
    if (n_dim > 0 && !has_weight)
        return msi_error_set(MSI_EINPUT, "%s: %s: weight and val have different axes", r->path, r->name);
    msi_child_progress(MSI_H5_STEP_S + 1e-6 * (double)n);
    int rc = msi_alloc(&t->value, n, sizeof *t->value, "solutions");
    if (!rc) rc = msi_alloc(&value, n, sizeof *value, "solutions");
    if (!rc) rc = read_numbers(r, "val", H5T_NATIVE_FLOAT, value);
    if (!rc && has_weight) rc = msi_alloc(&weight, n, sizeof *weight, "solutions");
    if (!rc && has_weight) rc = read_numbers(r, "weight", H5T_NATIVE_FLOAT, weight);
    if (!rc) rc = arrange(r, value, weight, place);
    msi_free(value);
    msi_free(weight);
    return rc;
}

static int read_table(reading *r)
{
    msi_solution_table *t = r->out;
    int64_t place[4] = {0, 1, 2, 3};
    MSI_TRY(open_set(r));
    MSI_TRY(open_table(r));
    MSI_TRY(read_axes(r));
    t->n_time = r->n[TIME];
    t->n_freq = r->n[FREQ];
    t->n_ant = r->n[ANT];
    t->n_dir = r->n[DIR];
    t->n_pol = r->n[POL];
    t->has_dir = r->has[DIR];
    t->has_ant = r->has[ANT];
    MSI_TRY(read_polarisations(r, place));
    MSI_TRY(read_axis(r, TIME, &t->time_s));
    MSI_TRY(read_axis(r, FREQ, &t->freq_hz));
    MSI_TRY(msi_alloc(&t->ant, t->n_ant, sizeof *t->ant, "names of solutions"));
    if (t->has_ant) MSI_TRY(read_texts(r, "ant", t->n_ant, t->ant));
    MSI_TRY(find_directions(r));
    return read_values(r, place);
}

static int h5parm_file_read(msi_solution_table *out, const char *path, const char *name)
{
    reading r = {.path = path, .name = name, .file = -1, .set = -1, .table = -1, .out = out};
    *out = (msi_solution_table){0};
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    const int rc = read_table(&r);
    if (r.table >= 0) H5Gclose(r.table);
    if (r.set >= 0) H5Gclose(r.set);
    if (r.file >= 0) H5Fclose(r.file);
    return rc;
}

#endif

/* The tables to read, and where they are stored. */
typedef struct request {
    const char *names; /* names of tables, separated by commas */
    int n_table;
    msi_h5parm *out;
} request;

/* The members of a table that are not arrays. */
typedef struct head {
    msi_h5_text name;
    int32_t kind, has_dir, has_ant;
    int64_t n_dir, n_time, n_freq, n_ant, n_pol;
} head;

typedef struct array {
    void **at;
    int64_t n;
    size_t size;
} array;

enum { N_ARRAY = 6 };

/* List the arrays of a table. Returns: bytes of all arrays */
static int64_t list_arrays(msi_solution_table *t, array list[N_ARRAY])
{
    const array all[N_ARRAY] = {
        {(void **)&t->time_s, t->n_time, sizeof *t->time_s},
        {(void **)&t->freq_hz, t->n_freq, sizeof *t->freq_hz},
        {(void **)&t->dir_rad, t->n_dir, sizeof *t->dir_rad},
        {(void **)&t->dir, t->n_dir, sizeof *t->dir},
        {(void **)&t->ant, t->n_ant, sizeof *t->ant},
        {(void **)&t->value, t->n_dir * t->n_time * t->n_freq * t->n_ant * t->n_pol, sizeof *t->value}};
    int64_t bytes = 0;
    memcpy(list, all, sizeof all);
    for (int i = 0; i < N_ARRAY; i++) bytes += all[i].n * (int64_t)all[i].size;
    return bytes;
}

/* ---- The child ---- */

static int put_table(int fd, msi_solution_table *t)
{
    array list[N_ARRAY];
    const head h = {t->name,   (int32_t)t->kind, t->has_dir, t->has_ant, t->n_dir,
                    t->n_time, t->n_freq,        t->n_ant,   t->n_pol};
    MSI_TRY(h5_put(fd, &h, sizeof h));
    list_arrays(t, list);
    for (int i = 0; i < N_ARRAY; i++) MSI_TRY(h5_put(fd, *list[i].at, list[i].n * (int64_t)list[i].size));
    return MSI_OK;
}

static int put_tables(int fd, const char *path, void *of)
{
    const request *q = of;
    char copy[1024], *rest;
    snprintf(copy, sizeof copy, "%.1000s", q->names);
    for (char *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        msi_solution_table t;
        msi_child_progress(MSI_H5_STEP_S);
        int rc = h5parm_file_read(&t, path, name);
        if (!rc) rc = put_table(fd, &t);
        solution_table_free(&t);
        MSI_TRY(rc);
    }
    return MSI_OK;
}

/* ---- This process ---- */

/* Copy a table from the output of the child. Given and returned: *at. Returns: as msi_h5parm_read */
static int take_table(msi_solution_table *t, const char *path, const char *bytes, int64_t n_byte, int64_t *at)
{
    static const char WRONG[] = "%s: truncated or corrupt: the process that reads it returned impossible sizes";
    array list[N_ARRAY];
    head h;
    *t = (msi_solution_table){0};
    if (n_byte - *at < (int64_t)sizeof h) return msi_error_set(MSI_EINPUT, WRONG, path);
    memcpy(&h, bytes + *at, sizeof h);
    *at += (int64_t)sizeof h;
    const int64_t n[] = {h.n_dir, h.n_time, h.n_freq, h.n_ant, h.n_pol};
    int64_t product = 1;
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        if (n[i] < 1 || n[i] > n_byte || product > n_byte / n[i]) return msi_error_set(MSI_EINPUT, WRONG, path);
        product *= n[i];
    }
    if (h.kind < 0 || h.kind > MSI_SOLUTION_ROTATION_MEASURE || h.n_pol == 3 || h.n_pol > 4)
        return msi_error_set(MSI_EINPUT, WRONG, path);
    *t = (msi_solution_table){.name = h.name,
                              .kind = (msi_solution_kind)h.kind,
                              .has_dir = h.has_dir,
                              .has_ant = h.has_ant,
                              .n_dir = h.n_dir,
                              .n_time = h.n_time,
                              .n_freq = h.n_freq,
                              .n_ant = h.n_ant,
                              .n_pol = h.n_pol};
    t->name.text[sizeof t->name.text - 1] = 0;
    if (list_arrays(t, list) > n_byte - *at) return msi_error_set(MSI_EINPUT, WRONG, path);
    for (int i = 0; i < N_ARRAY; i++) {
        MSI_TRY(msi_alloc(list[i].at, list[i].n, list[i].size, "solutions"));
        memcpy(*list[i].at, bytes + *at, (size_t)list[i].n * list[i].size);
        *at += list[i].n * (int64_t)list[i].size;
    }
    for (int64_t i = 0; i < t->n_dir; i++) t->dir[i].text[sizeof t->dir[i].text - 1] = 0;
    for (int64_t i = 0; i < t->n_ant; i++) t->ant[i].text[sizeof t->ant[i].text - 1] = 0;
    return MSI_OK;
}

static int take_tables(void *of, const char *path, const char *bytes, int64_t n_byte)
{
    const request *q = of;
    msi_h5parm *out = q->out;
    int64_t at = 0;
    int rc = msi_alloc(&out->table, q->n_table, sizeof *out->table, "solutions");
    while (!rc && out->n_table < q->n_table) rc = take_table(&out->table[out->n_table++], path, bytes, n_byte, &at);
    return rc;
}

/* Count the tables of a list. */
static int count_tables(const char *names, int *n)
{
    *n = 0;
    for (const char *at = names; *at;) {
        const size_t length = strcspn(at, ",");
        *n += length > 0;
        at += length + (at[length] != 0);
    }
    if (*n >= 1 && *n <= MSI_H5_MOST_TABLES && strlen(names) < 1000) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "solution tables \"%.100s\": give 1 to %d names, separated by commas", names,
                         MSI_H5_MOST_TABLES);
}

int msi_h5parm_read(msi_h5parm *out, const char *path, const char *names)
{
    request q = {.names = names, .out = out};
    *out = (msi_h5parm){0};
    MSI_TRY(count_tables(names, &q.n_table));
    const int rc = h5_apart(path, put_tables, take_tables, &q);
    if (rc) msi_h5parm_free(out);
    return rc;
}

void msi_h5parm_free(msi_h5parm *h)
{
    for (int i = 0; i < h->n_table; i++) solution_table_free(&h->table[i]);
    msi_free(h->table);
    *h = (msi_h5parm){0};
}

/* ---- Hamaker's coefficients ---- */

#ifndef MSI_HAVE_HDF5

static int read_hamaker(int fd, const char *path, void *of)
{
    (void)fd;
    (void)of;
    return msi_error_set(MSI_EUSAGE, "%s: this build of msimage cannot read HDF5 files; build it with libhdf5-dev",
                         path);
}

#else

#include <hdf5.h>

static int read_hamaker_attribute(hid_t of, const char *name, double *value)
{
    const hid_t a = H5Aexists(of, name) > 0 ? H5Aopen(of, name, H5P_DEFAULT) : -1;
    const hid_t space = a < 0 ? -1 : H5Aget_space(a);
    const int ok = space >= 0 && H5Sget_simple_extent_npoints(space) == 1 && H5Aread(a, H5T_NATIVE_DOUBLE, value) >= 0;
    if (space >= 0) H5Sclose(space);
    if (a >= 0) H5Aclose(a);
    return ok;
}

/* Read the dataset. Returns: 1; 0 if it has another format */
static int read_coefficients(hid_t file, msi_hamaker *h)
{
    hsize_t size[H5S_MAX_RANK] = {0};
    const hid_t d = H5Lexists(file, "coeff", H5P_DEFAULT) > 0 ? H5Dopen2(file, "coeff", H5P_DEFAULT) : -1;
    const hid_t space = d < 0 ? -1 : H5Dget_space(d);
    int ok = space >= 0 && H5Sget_simple_extent_ndims(space) == 4 && H5Sget_simple_extent_dims(space, size, NULL) == 4;
    for (int i = 0; i < 4; i++) ok = ok && size[i] >= 1 && size[i] <= 32;
    ok = ok && size[3] == 2 && size[0] * size[1] * size[2] * size[3] <= MSI_HAMAKER_MOST;
    if (ok) {
        const hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(msi_c64));
        H5Tinsert(type, "r", HOFFSET(msi_c64, re), H5T_NATIVE_DOUBLE);
        H5Tinsert(type, "i", HOFFSET(msi_c64, im), H5T_NATIVE_DOUBLE);
        ok = H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, h->coefficient) >= 0;
        H5Tclose(type);
        h->n_harmonic = (int32_t)size[0];
        h->n_angle = (int32_t)size[1];
        h->n_freq = (int32_t)size[2];
    }
    ok = ok && read_hamaker_attribute(d, "freq_center", &h->centre_hz) &&
         read_hamaker_attribute(d, "freq_range", &h->range_hz);
    if (space >= 0) H5Sclose(space);
    if (d >= 0) H5Dclose(d);
    return ok;
}

static int read_hamaker(int fd, const char *path, void *of)
{
    msi_hamaker h = {0};
    (void)of;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (access(path, R_OK) != 0) return msi_error_set(MSI_EINPUT, "%s: cannot be read; give the folder with it", path);
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) return msi_error_set(MSI_EINPUT, "%s: not an HDF5 file, or damaged", path);
    const int ok = read_coefficients(file, &h);
    H5Fclose(file);
    return ok ? h5_put(fd, &h, sizeof h)
              : msi_error_set(MSI_EINPUT,
                              "%s: has no coefficients of dipoles: a dataset coeff [harmonics][powers][powers][2] of "
                              "complex numbers with the attributes freq_center and freq_range",
                              path);
}

#endif

static int take_file(void *of, const char *path, const char *bytes, int64_t n_byte)
{
    msi_hamaker *h = of;
    int ok = n_byte == (int64_t)sizeof *h;
    if (ok) memcpy(h, bytes, sizeof *h);
    ok = ok && h->n_harmonic >= 1 && h->n_freq >= 1 && h->n_angle >= 1 && h->n_harmonic <= 32 && h->n_freq <= 32 &&
         h->n_angle <= 32 && 2 * h->n_harmonic * h->n_freq * h->n_angle <= MSI_HAMAKER_MOST;
    ok = ok && isfinite(h->centre_hz) && isfinite(h->range_hz) && h->range_hz > 0;
    for (int i = 0; ok && i < 2 * h->n_harmonic * h->n_freq * h->n_angle; i++)
        ok = isfinite(h->coefficient[i].re) && isfinite(h->coefficient[i].im);
    return ok ? MSI_OK : msi_error_set(MSI_EINPUT, "%s: truncated or corrupt: coefficients that are not numbers", path);
}

int msi_hamaker_read(msi_hamaker *out, const char *path)
{
    *out = (msi_hamaker){0};
    return h5_apart(path, read_hamaker, take_file, out);
}
