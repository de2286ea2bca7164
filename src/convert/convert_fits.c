/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/convert_stages.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/resource.h>

#include "core/units.h"
#include "core/memory.h"
#include "core/status.h"
#include "io/casacore-c/casacore_c.h"
#include "io/convert/idi_mend.h"
#include "io/convert/idi_sources.h"
#include "io/convert/set_maps.h"
#include "io/convert/uvfits_output.h"
#include "io/ms/ms_child.h"
#include "src/convert/uv_baselines.h"

/* Says what msfits may take: memory and disk by its size, CPU time at a fiftieth of the usual speed, and ten times
 * what a set without rows takes. */
static const int64_t LEAST_BYTES = (int64_t)512 << 20, TIMES_SIZE = 32;
static const double LEAST_S = 5, SECONDS_PER_BYTE = 1e-6;

static void limit(int64_t file_bytes, int64_t memory_bytes)
{
    const int64_t by_size =
        file_bytes < (INT64_MAX - LEAST_BYTES) / TIMES_SIZE ? LEAST_BYTES + TIMES_SIZE * file_bytes : INT64_MAX;
    struct rlimit file;
    if (getrlimit(RLIMIT_FSIZE, &file) == 0 && (rlim_t)by_size < file.rlim_cur) {
        file.rlim_cur = (rlim_t)by_size;
        setrlimit(RLIMIT_FSIZE, &file);
    }
    msi_child_limit_memory(by_size < memory_bytes ? by_size : memory_bytes);
    msi_child_progress(LEAST_S + SECONDS_PER_BYTE * (double)file_bytes);
}

/* Casacore warns of this, and nothing here hangs on it: tables of the Earth's rotation, which change no visibility, and
 * velocities and lines that most files do not name. */
static int is_idle(const char *warning)
{
    static const char *const idle[] = {"Leap second", "Requested data", "No systemic velocity", "No rest frequency"};
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (strncmp(warning, idle[i], strlen(idle[i])) == 0) return 1;
    return 0;
}

static void log_warnings(msi_stage *stage, const char *path, char **warnings, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!is_idle(warnings[i])) msi_stage_warn(stage, "%s: casacore says: %.500s", path, warnings[i]);
    ccc_free(warnings);
}

/* ---- A file becomes a set ---- */

static int is_empty(const char *name)
{
    return !name || !*name;
}

/* What a column of names has twice names nothing. Without a name are the numbers between those of antennas. */
static int are_names(char *const *name, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < i; k++)
            if (!is_empty(name[i]) && !is_empty(name[k]) && strcmp(name[i], name[k]) == 0) return 0;
    return 1;
}

/* msfits numbers antennas, and keeps the file's names as those of stations: they become the antennas' again. */
static int mend_names(ccc_table *set)
{
    ccc_table *t;
    char **name;
    MSI_TRY(msi_set_written(ccc_subtable_open(&t, set, "ANTENNA")));
    const int64_t n = ccc_table_n_row(t);
    int status = msi_alloc(&name, n + 1, sizeof *name, "names of antennas");
    for (int64_t i = 0; !status && i < n; i++) status = msi_set_read(ccc_get_string(t, "STATION", i, &name[i]));
    if (!status && are_names(name, n))
        for (int64_t i = 0; !status && i < n; i++)
            if (!is_empty(name[i])) status = msi_set_written(ccc_put_string(t, "NAME", i, name[i]));
    for (int64_t i = 0; name && i < n; i++) ccc_free(name[i]);
    msi_free(name);
    const int closed = msi_set_written(ccc_table_close(t));
    return status ? status : closed;
}

/* Without INTTIM in the groups msfits takes the shortest step between times; where there is one time alone, that is the
 * time since 1858. */
static int mend_intervals(msi_stage *stage, ccc_table *set, const char *path)
{
    static const double LONGEST_S = 86400;
    const int64_t n = ccc_table_n_row(set);
    double *interval_s, longest_s = 0;
    MSI_TRY(msi_alloc(&interval_s, n, sizeof *interval_s, "intervals"));
    int status = msi_set_read(ccc_get_range(set, "INTERVAL", 0, n, NULL, CCC_DOUBLE, interval_s, n));
    for (int64_t i = 0; !status && i < n; i++) {
        if (interval_s[i] > longest_s) longest_s = interval_s[i];
        if (!(interval_s[i] <= LONGEST_S)) interval_s[i] = 0;
    }
    if (!status && longest_s > LONGEST_S) {
        msi_stage_warn(stage, "%s: does not tell how long its integrations are: INTERVAL and EXPOSURE are 0", path);
        status = msi_set_written(ccc_put_range(set, "INTERVAL", 0, n, 0, NULL, NULL, CCC_DOUBLE, interval_s));
        if (!status)
            status = msi_set_written(ccc_put_range(set, "EXPOSURE", 0, n, 0, NULL, NULL, CCC_DOUBLE, interval_s));
    }
    msi_free(interval_s);
    return status;
}

/* msfits takes the lines of a table of sources, but not that of a file of one source, which its header has. */
static int mend_line(ccc_table *set, double line_hz)
{
    const int64_t one = 1;
    ccc_table *t;
    if (!(line_hz > 0) || !isfinite(line_hz) || ccc_subtable_open(&t, set, "SOURCE") != CCC_OK) return MSI_OK;
    int status = MSI_OK;
    for (int64_t i = 0; !status && i < ccc_table_n_row(t); i++) {
        double known_hz = 0;
        const int is_one = ccc_get_range(t, "REST_FREQUENCY", i, 1, NULL, CCC_DOUBLE, &known_hz, 1) == CCC_OK;
        if (is_one && !(known_hz > 0))
            status = msi_set_written(ccc_put_array(t, "REST_FREQUENCY", i, 1, &one, CCC_DOUBLE, &line_hz));
    }
    const int closed = msi_set_written(ccc_table_close(t));
    return status ? status : closed;
}

/* msfits takes TIME of FITS-IDI for the middle of an integration, and for TIME_CENTROID adds another half. */
static int mend_centroids(ccc_table *set)
{
    const int64_t n = ccc_table_n_row(set);
    double *time_s;
    MSI_TRY(msi_alloc(&time_s, n, sizeof *time_s, "times"));
    int status = msi_set_read(ccc_get_range(set, "TIME", 0, n, NULL, CCC_DOUBLE, time_s, n));
    if (!status) status = msi_set_written(ccc_put_range(set, "TIME_CENTROID", 0, n, 0, NULL, NULL, CCC_DOUBLE, time_s));
    msi_free(time_s);
    return status;
}

/* u, v and w of two parameters each, which are to be added, are in double precision; msfits takes the first. */
static int mend_coordinates(ccc_table *set, const msi_uv_file *h, const char *real_path)
{
    enum { COORDINATES = 3 };
    const int64_t n_group = h->primary.n_group, shape = COORDINATES;
    double *uvw_m;
    if (h->kind != MSI_UV_FITS || !msi_uv_baselines_has_sums(h)) return MSI_OK;
    MSI_TRY(msi_alloc(&uvw_m, n_group * h->n_if * COORDINATES, sizeof *uvw_m, "coordinates"));
    int status = msi_uv_baselines_coordinates(h, real_path, uvw_m);
    if (!status)
        status = msi_set_written(ccc_put_range(set, "UVW", 0, n_group * h->n_if, 1, &shape, NULL, CCC_DOUBLE, uvw_m));
    msi_free(uvw_m);
    return status;
}

/* Every group has a row for each IF. */
static int check_imported(msi_stage *stage, const msi_import_job *job, const char *real_path)
{
    ccc_table *t;
    MSI_TRY(msi_set_written(ccc_table_open(&t, job->set, CCC_UPDATE, CCC_LOCK_HOLD)));
    const msi_uv_file *h = job->header;
    const int64_t n_row = ccc_table_n_row(t), n_group = h->primary.n_group;
    int status = MSI_OK;
    if (n_row == 0) status = msi_error_set(MSI_EINPUT, "%s: has no visibilities", job->fits);
    if (!status && h->kind == MSI_UV_FITS && n_row != n_group * h->n_if)
        status =
            msi_error_set(MSI_EINPUT, "truncated or corrupt: %s: %lld groups of %lld IF%s became %lld rows", job->fits,
                          (long long)n_group, (long long)h->n_if, msi_plural(h->n_if), (long long)n_row);
    if (!status) status = mend_names(t);
    if (!status) status = mend_intervals(stage, t, job->fits);
    if (!status) status = mend_line(t, h->primary.rest_freq_hz);
    if (!status) status = mend_coordinates(t, h, real_path);
    if (!status && h->kind == MSI_UV_IDI) status = mend_centroids(t);
    if (!status && h->kind == MSI_UV_IDI) status = msi_idi_sources_take(t, real_path);
    const int closed = msi_set_written(ccc_table_close(t));
    return status ? status : closed;
}

/* msfits leaves tables of its own in the working folder where it is ended: that is the one that is removed
 * afterwards. */
static int enter(const msi_import_job *job, char set[PATH_MAX])
{
    char folder[PATH_MAX];
    const char *slash = strrchr(job->set, '/'), *name = slash ? slash + 1 : job->set;
    if (!realpath(job->folder, folder) || chdir(folder) != 0)
        return msi_error_set(MSI_EOUTPUT, "%s: %s", job->folder, strerror(errno));
    if (snprintf(set, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        return msi_error_set(MSI_EOUTPUT, "%.100s..: the name is too long", folder);
    return MSI_OK;
}

static int is_ascii(const char *name)
{
    for (; *name; name++)
        if (*name < ' ' || *name > '~') return 0;
    return 1;
}

/* What of a file msfits takes for something else. */
typedef struct readable {
    msi_uvfits_use use;
    msi_uvfits_mending mending;
    msi_idi_mending idi;
    msi_uv_stations *stations; /* NULL: those of the first table */
} readable;

/* Copy a file into the working folder, with that mended. */
static int copy_readable(const msi_uv_file *h, const char *fits, const char *copy, const readable *r)
{
    MSI_TRY(h->has_wide_codes || r->stations ? msi_uv_baselines_split(h, fits, copy, r->stations)
                                             : msi_uv_baselines_keep(h, fits, copy));
    if (r->stations) MSI_TRY(msi_uv_stations_put(r->stations, copy, r->use.name));
    if (msi_idi_mending_is_needed(&r->idi)) return msi_idi_mend(&r->idi, copy, r->use.name);
    return msi_uvfits_mending_is_needed(&r->mending) ? msi_uvfits_mend(&r->mending, copy, &r->use) : MSI_OK;
}

static void warn_of_motion_of(msi_stage *stage, const char *path, const char *source)
{
    msi_stage_warn(stage, "%s: source '%s' moves on the sky: its position (RAEPO, DECEPO) is kept, its motion not",
                   path, source);
}

static void warn_of_sideband(msi_stage *stage, const char *path, const char *width)
{
    msi_stage_warn(stage,
                   "%s: SIDEBAND and the sign of %s contradict each other: frequencies run as the sign says, as "
                   "casacore and pyuvdata take them",
                   path, width);
}

static int find_unreadable_idi(msi_stage *stage, const msi_import_job *job, readable *r)
{
    MSI_TRY(msi_idi_mending_find(&r->idi, job->real_path, job->fits));
    if (r->idi.has_motion) warn_of_motion_of(stage, job->fits, r->idi.moving);
    if (r->idi.has_sideband) warn_of_sideband(stage, job->fits, "CH_WIDTH");
    return MSI_OK;
}

static int find_unreadable(msi_stage *stage, const msi_import_job *job, readable *r)
{
    const msi_uv_file *h = job->header;
    *r = (readable){.use = {job->fits, h->n_if, &h->freqsel, &h->source}};
    if (h->kind != MSI_UV_FITS) return find_unreadable_idi(stage, job, r);
    if (h->has_no_time_system)
        msi_stage_warn(stage, "%s: does not tell the scale of its times (TIMSYS of table AIPS AN): IAT (TAI) is taken",
                       job->fits);
    if (!h->has_sources && h->primary.has_epoch && h->primary.epoch == 0)
        msi_stage_warn(stage, "%s: does not tell the equinox of its position (EPOCH = 0): J2000 is taken", job->fits);
    MSI_TRY(msi_uvfits_mending_find(&r->mending, job->real_path, &r->use));
    MSI_TRY(msi_uv_stations_find(&r->stations, job->real_path, job->fits, &h->subarray, h->has_zero));
    if (r->mending.has_motion) warn_of_motion_of(stage, job->fits, r->mending.moving);
    if (r->mending.has_sideband) warn_of_sideband(stage, job->fits, "CH WIDTH");
    if (r->mending.has_line)
        msi_stage_warn(stage,
                       "%s: frequencies are those of the header and AIPS FQ; the line's velocity (ALTRVAL) is "
                       "one for several windows, and is left out",
                       job->fits);
    return MSI_OK;
}

/* Have a file that msfits does not read as it is in the working folder. Copied is one of codes that it takes for other
 * antennas, with tables that it takes for others, or with filling behind its tables, in which it looks for more of them
 * without an end. Of FITS-IDI it opens no file whose name has letters that are not ASCII: that gets another name. Given
 * and returned: *fits  the one to be read. */
static int make_readable(msi_stage *stage, const msi_import_job *job, const char **fits)
{
    static const char copy[] = "readable.fits";
    const msi_uv_file *h = job->header;
    readable r;
    MSI_TRY(find_unreadable(stage, job, &r));
    const int is_filled = h->file_bytes >= h->end + MSI_UV_BLOCK;
    const int is_copied = h->has_wide_codes || is_filled || r.stations || msi_uvfits_mending_is_needed(&r.mending) ||
                          msi_idi_mending_is_needed(&r.idi);
    if (!is_copied && (h->kind == MSI_UV_FITS || is_ascii(*fits))) return MSI_OK;
    const int status = is_copied ? copy_readable(h, *fits, copy, &r) : MSI_OK;
    msi_uv_stations_free(r.stations);
    /* A file system without links leaves the name as it is. */
    if (!status && (is_copied || symlink(*fits, copy) == 0)) *fits = copy;
    return status;
}

/* A message names the file as the user does. */
static int name_file(int status, const char *read, const char *given)
{
    char text[MSI_MESSAGE_BYTES];
    snprintf(text, sizeof text, "%s", msi_error_get());
    char *at = strstr(text, read);
    if (!status || !at) return status;
    *at = 0;
    return msi_error_set(status, "%s%s%s", text, given, at + strlen(read));
}

/* Warn of a file that contradicts itself: the axis lies with the visibilities, and is what others read. */
static void warn_of_stokes(msi_stage *stage, const msi_import_job *job)
{
    const msi_uv_idi *idi = &job->header->idi;
    if (job->header->kind == MSI_UV_IDI && idi->first_stokes < 0 && idi->first_stokes != idi->first_of_axis)
        msi_stage_warn(stage, "%s: STK_1 = %g, but the axis STOKES of its visibilities begins with %g, which is taken",
                       job->fits, idi->first_stokes, idi->first_of_axis);
}

int msi_import_plan(msi_stage *stage, const void *of)
{
    const msi_import_job *job = of;
    readable r;
    limit(job->header->file_bytes, job->memory_bytes);
    warn_of_stokes(stage, job);
    const int status = find_unreadable(stage, job, &r);
    msi_uv_stations_free(r.stations);
    return status;
}

int msi_import_fits(msi_stage *stage, const void *of)
{
    const msi_import_job *given = of;
    msi_import_job job = *given;
    char **warnings, set[PATH_MAX];
    const char *path = given->real_path, *fits = path;
    int64_t n;
    limit(job.header->file_bytes, job.memory_bytes);
    MSI_TRY(enter(given, set));
    warn_of_stokes(stage, &job);
    MSI_TRY(make_readable(stage, &job, &fits));
    job.set = set;
    const int status = job.header->kind == MSI_UV_FITS ? ccc_uvfits_import(fits, set, &warnings, &n)
                                                       : ccc_fitsidi_import(fits, set, &warnings, &n);
    if (fits != path) unlink(fits);
    log_warnings(stage, job.fits, warnings, n);
    if (status == CCC_ENOMEM)
        return msi_error_set(MSI_EINPUT,
                             "truncated or corrupt: %s: reading it asks for more memory than a file of its "
                             "size can need",
                             job.fits);
    if (status) return name_file(msi_set_read(status), fits, job.fits);
    return check_imported(stage, &job, path);
}

/* ---- A set becomes a file ---- */

static void tell_progress(void *stage, int64_t done, int64_t total)
{
    msi_stage_at(stage, done, total);
}

/* Warn that the file, which has one position of each source, does not tell that a field moves. */
static void warn_of_motion(msi_stage *stage, const msi_ms_reader *reader)
{
    const char *name;
    int id;
    if (msi_ms_reader_moving(reader, &id, &name) != MSI_MS_FIXED)
        msi_stage_warn(stage,
                       "field '%s' (id %d) moves on the sky; UVFITS has one position of a source: PHASE_DIR's first "
                       "values are kept, its motion is not",
                       name, id);
}

static void log_exported(msi_stage *stage, const msi_uvfits_report *r)
{
    msi_stage_log(stage, MSI_LOG_NORMAL, "%lld row%s became %lld group%s of %d window%s", (long long)r->n_row,
                  msi_plural(r->n_row), (long long)r->n_group, msi_plural(r->n_group), r->n_window,
                  msi_plural(r->n_window));
    if (r->n_filled)
        msi_stage_warn(
            stage,
            "%.0f %% of the file is filling, flagged: windows were not observed at the same times, and every "
            "group holds all of them; -spws chooses",
            100.0 * (double)r->n_filled / (double)(r->n_group * r->n_window));
    if (r->n_unweighted)
        msi_stage_warn(stage,
                       "%lld visibilit%s of weight zero or below, not flagged: UVFITS tells flags by weights, and they "
                       "become flagged",
                       (long long)r->n_unweighted, r->n_unweighted == 1 ? "y is" : "ies are");
    if (r->n_not_finite)
        msi_stage_warn(stage, "%lld visibilit%s no finite number, or of no finite weight: they become zero, flagged",
                       (long long)r->n_not_finite, r->n_not_finite == 1 ? "y is" : "ies are");
}

/* What the file holds must be what was put into it. */
static int check_exported(const msi_export_job *job, const msi_uvfits_report *r)
{
    msi_uv_file h;
    MSI_TRY(msi_uv_file_read(&h, job->fits));
    MSI_TRY(msi_uv_baselines_check(&h, job->fits));
    if (h.kind == MSI_UV_FITS && h.primary.n_group == r->n_group && h.n_if == r->n_window) return MSI_OK;
    return msi_error_set(MSI_EINTERNAL, "%s: %lld groups of %lld IFs were written for %lld of %d", job->name,
                         (long long)h.primary.n_group, (long long)h.n_if, (long long)r->n_group, r->n_window);
}

int msi_export_fits(msi_stage *stage, const void *of)
{
    const msi_export_job *job = of;
    const msi_ms_selection all = {.data_column = "DATA", .all_fields = 1, .keep_flagged_rows = 1};
    const msi_uvfits_output_spec spec = {job->fits, job->name, job->command, tell_progress, stage};
    msi_uvfits_report report;
    msi_ms_reader *reader;
    MSI_TRY(msi_ms_reader_open(&reader, &job->set, 1, &all));
    warn_of_motion(stage, reader);
    int status = msi_uvfits_write(reader, &spec, &report);
    msi_ms_reader_free(reader);
    if (!status) status = check_exported(job, &report);
    if (!status) log_exported(stage, &report);
    return status;
}
