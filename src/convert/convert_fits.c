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

/* Limits of msfits: memory and disk by the size of the file; CPU time for a fiftieth of the usual speed, plus ten times
 * the time of a set without rows. */
static const int64_t LEAST_BYTES = (int64_t)512 << 20, TIMES_SIZE = 32;
static const double LEAST_S = 5, SECONDS_PER_BYTE = 1e-6;

static void limit_process(int64_t file_bytes, int64_t memory_bytes)
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

/* Return 1 for warnings of casacore without consequences here: about tables of the Earth's rotation, which do not
 * change visibilities, and about velocities and lines, which most files do not have. */
static int is_harmless(const char *warning)
{
    static const char *const harmless[] = {"Leap second", "Requested data", "No systemic velocity",
                                           "No rest frequency"};
    for (size_t i = 0; i < sizeof harmless / sizeof *harmless; i++)
        if (strncmp(warning, harmless[i], strlen(harmless[i])) == 0) return 1;
    return 0;
}

static void log_warnings(msi_stage *stage, const char *path, char **warnings, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!is_harmless(warnings[i])) msi_stage_warn(stage, "%s: casacore: %.500s", path, warnings[i]);
    ccc_free(warnings);
}

/* ---- Import a file ---- */

static int is_empty(const char *name)
{
    return !name || !*name;
}

/* Return 1 if all names are different. Numbers between those of antennas have no name. */
static int are_names(char *const *name, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < i; k++)
            if (!is_empty(name[i]) && !is_empty(name[k]) && strcmp(name[i], name[k]) == 0) return 0;
    return 1;
}

/* msfits names antennas by numbers, and puts the names of the file into STATION. Copy them to NAME. */
static int correct_names(ccc_table *set)
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

/* Without INTTIM in the groups, msfits uses the shortest step between times. With only one time, that is the time since
 * 1858. */
static int correct_intervals(msi_stage *stage, ccc_table *set, const char *path)
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
        msi_stage_warn(stage, "%s: the length of its integrations is missing: INTERVAL and EXPOSURE are 0", path);
        status = msi_set_written(ccc_put_range(set, "INTERVAL", 0, n, 0, NULL, NULL, CCC_DOUBLE, interval_s));
        if (!status)
            status = msi_set_written(ccc_put_range(set, "EXPOSURE", 0, n, 0, NULL, NULL, CCC_DOUBLE, interval_s));
    }
    msi_free(interval_s);
    return status;
}

/* msfits reads the lines in a table of sources, but not the line in the header of a file with one source. */
static int correct_rest_frequency(ccc_table *set, double line_hz)
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

/* msfits reads TIME of FITS-IDI as the middle of an integration, but adds half an integration for TIME_CENTROID. */
static int correct_centroids(ccc_table *set)
{
    const int64_t n = ccc_table_n_row(set);
    double *time_s;
    MSI_TRY(msi_alloc(&time_s, n, sizeof *time_s, "times"));
    int status = msi_set_read(ccc_get_range(set, "TIME", 0, n, NULL, CCC_DOUBLE, time_s, n));
    if (!status) status = msi_set_written(ccc_put_range(set, "TIME_CENTROID", 0, n, 0, NULL, NULL, CCC_DOUBLE, time_s));
    msi_free(time_s);
    return status;
}

/* u, v and w may be sums of two parameters each, for double precision. msfits reads only the first. */
static int correct_coordinates(ccc_table *set, const msi_uv_file *h, const char *real_path)
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

/* Check an imported set, in which every group has a row for each IF, and correct it. */
static int correct_import(msi_stage *stage, const msi_import_job *job, const char *real_path)
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
    if (!status) status = correct_names(t);
    if (!status) status = correct_intervals(stage, t, job->fits);
    if (!status) status = correct_rest_frequency(t, h->primary.rest_freq_hz);
    if (!status) status = correct_coordinates(t, h, real_path);
    if (!status && h->kind == MSI_UV_IDI) status = correct_centroids(t);
    if (!status && h->kind == MSI_UV_IDI) status = msi_idi_sources_take(t, real_path);
    const int closed = msi_set_written(ccc_table_close(t));
    return status ? status : closed;
}

/* Change to the workspace, because an interrupted msfits leaves temporary tables in the working directory. */
static int enter_workspace(const msi_import_job *job, char set[PATH_MAX])
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

/* The parts of a file that msfits would misread. */
typedef struct misread_parts {
    msi_uvfits_use use;
    msi_uvfits_mending mending;
    msi_idi_mending idi;
    msi_uv_stations *stations; /* NULL: those of the first table are right */
} misread_parts;

/* Copy a file into the working directory, with these parts corrected. */
static int copy_corrected(const msi_uv_file *h, const char *fits, const char *copy, const misread_parts *r)
{
    MSI_TRY(h->has_wide_codes || r->stations ? msi_uv_baselines_split(h, fits, copy, r->stations)
                                             : msi_uv_baselines_keep(h, fits, copy));
    if (r->stations) MSI_TRY(msi_uv_stations_put(r->stations, copy, r->use.name));
    if (msi_idi_mending_is_needed(&r->idi)) return msi_idi_mend(&r->idi, copy, r->use.name);
    return msi_uvfits_mending_is_needed(&r->mending) ? msi_uvfits_mend(&r->mending, copy, &r->use) : MSI_OK;
}

static void warn_of_motion_of(msi_stage *stage, const char *path, const char *source)
{
    msi_stage_warn(stage, "%s: source '%s' moves on the sky: its position (RAEPO, DECEPO) is kept, but not its motion",
                   path, source);
}

static void warn_of_sideband(msi_stage *stage, const char *path, const char *width)
{
    msi_stage_warn(stage,
                   "%s: SIDEBAND and the sign of %s contradict each other: the sign is used, as in casacore and "
                   "pyuvdata",
                   path, width);
}

static int find_misread_idi(msi_stage *stage, const msi_import_job *job, misread_parts *r)
{
    MSI_TRY(msi_idi_mending_find(&r->idi, job->real_path, job->fits));
    if (r->idi.has_motion) warn_of_motion_of(stage, job->fits, r->idi.moving);
    if (r->idi.has_sideband) warn_of_sideband(stage, job->fits, "CH_WIDTH");
    return MSI_OK;
}

static int find_misread(msi_stage *stage, const msi_import_job *job, misread_parts *r)
{
    const msi_uv_file *h = job->header;
    *r = (misread_parts){.use = {job->fits, h->n_if, &h->freqsel, &h->source}};
    if (h->kind != MSI_UV_FITS) return find_misread_idi(stage, job, r);
    if (h->has_no_time_system)
        msi_stage_warn(stage, "%s: the time scale is missing (TIMSYS of table AIPS AN): IAT (TAI) is assumed",
                       job->fits);
    if (!h->has_sources && h->primary.has_epoch && h->primary.epoch == 0)
        msi_stage_warn(stage, "%s: the equinox of the position is missing (EPOCH = 0): J2000 is assumed", job->fits);
    MSI_TRY(msi_uvfits_mending_find(&r->mending, job->real_path, &r->use));
    MSI_TRY(msi_uv_stations_find(&r->stations, job->real_path, job->fits, &h->subarray, h->has_zero));
    if (r->mending.has_motion) warn_of_motion_of(stage, job->fits, r->mending.moving);
    if (r->mending.has_sideband) warn_of_sideband(stage, job->fits, "CH WIDTH");
    if (r->mending.has_line)
        msi_stage_warn(stage,
                       "%s: frequencies are read from the header and AIPS FQ; the velocity of the line (ALTRVAL) is "
                       "ignored, because it is one value for several windows",
                       job->fits);
    return MSI_OK;
}

/* Make a copy that msfits can read, in the working directory. A copy is needed if baseline codes or tables would be
 * misread, or if padding follows the tables, in which msfits would search for more tables without end. A FITS-IDI file
 * with a name that is not ASCII gets a link, because msfits cannot open it. Given and returned: *fits  the file to
 * read */
static int make_readable(msi_stage *stage, const msi_import_job *job, const char **fits)
{
    static const char copy[] = "readable.fits";
    const msi_uv_file *h = job->header;
    misread_parts r;
    MSI_TRY(find_misread(stage, job, &r));
    const int is_filled = h->file_bytes >= h->end + MSI_UV_BLOCK;
    const int is_copied = h->has_wide_codes || is_filled || r.stations || msi_uvfits_mending_is_needed(&r.mending) ||
                          msi_idi_mending_is_needed(&r.idi);
    if (!is_copied && (h->kind == MSI_UV_FITS || is_ascii(*fits))) return MSI_OK;
    const int status = is_copied ? copy_corrected(h, *fits, copy, &r) : MSI_OK;
    msi_uv_stations_free(r.stations);
    /* Without links on the file system the name stays. */
    if (!status && (is_copied || symlink(*fits, copy) == 0)) *fits = copy;
    return status;
}

/* Replace the name of the copy in the error message by the name given by the user. */
static int name_given_file(int status, const char *read, const char *given)
{
    char text[MSI_MESSAGE_BYTES];
    snprintf(text, sizeof text, "%s", msi_error_get());
    char *at = strstr(text, read);
    if (!status || !at) return status;
    *at = 0;
    return msi_error_set(status, "%s%s%s", text, given, at + strlen(read));
}

/* Warn about a file that contradicts itself. The axis is used, as it describes the visibilities and other programs read
 * it. */
static void warn_of_stokes(msi_stage *stage, const msi_import_job *job)
{
    const msi_uv_idi *idi = &job->header->idi;
    if (job->header->kind == MSI_UV_IDI && idi->first_stokes < 0 && idi->first_stokes != idi->first_of_axis)
        msi_stage_warn(stage, "%s: STK_1 = %g, but the axis STOKES of its visibilities begins with %g, which is used",
                       job->fits, idi->first_stokes, idi->first_of_axis);
}

int msi_import_plan(msi_stage *stage, const void *of)
{
    const msi_import_job *job = of;
    misread_parts r;
    limit_process(job->header->file_bytes, job->memory_bytes);
    warn_of_stokes(stage, job);
    const int status = find_misread(stage, job, &r);
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
    limit_process(job.header->file_bytes, job.memory_bytes);
    MSI_TRY(enter_workspace(given, set));
    warn_of_stokes(stage, &job);
    MSI_TRY(make_readable(stage, &job, &fits));
    job.set = set;
    const int status = job.header->kind == MSI_UV_FITS ? ccc_uvfits_import(fits, set, &warnings, &n)
                                                       : ccc_fitsidi_import(fits, set, &warnings, &n);
    if (fits != path) unlink(fits);
    log_warnings(stage, job.fits, warnings, n);
    if (status == CCC_ENOMEM)
        return msi_error_set(MSI_EINPUT,
                             "truncated or corrupt: %s: reading it requires more memory than a file of its size "
                             "can need",
                             job.fits);
    if (status) return name_given_file(msi_set_read(status), fits, job.fits);
    return correct_import(stage, &job, path);
}

/* ---- Export a set ---- */

static void send_progress(void *stage, int64_t done, int64_t total)
{
    msi_stage_send_progress(stage, done, total);
}

/* Warn that the file, which has one position for each source, does not record the motion of a field. */
static void warn_of_motion(msi_stage *stage, const msi_ms_reader *reader)
{
    const char *name;
    int id;
    if (msi_ms_reader_moving(reader, &id, &name) != MSI_MS_FIXED)
        msi_stage_warn(stage,
                       "field '%s' (id %d) moves on the sky; UVFITS has one position of a source: the first values of "
                       "PHASE_DIR are kept, but not the motion",
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
            "%.0f %% of the file is flagged padding: windows were not observed at the same times, and every group "
            "contains all of them; use -spws to select windows",
            100.0 * (double)r->n_filled / (double)(r->n_group * r->n_window));
    if (r->n_unweighted)
        msi_stage_warn(stage,
                       "%lld unflagged visibilit%s a weight of zero or below, and become flagged, because UVFITS marks "
                       "flags by weights",
                       (long long)r->n_unweighted, r->n_unweighted == 1 ? "y has" : "ies have");
    if (r->n_not_finite)
        msi_stage_warn(stage, "%lld visibilit%s not finite or without a finite weight: set to zero and flagged",
                       (long long)r->n_not_finite, r->n_not_finite == 1 ? "y is" : "ies are");
}

/* Check that the file holds what was written. */
static int check_exported(const msi_export_job *job, const msi_uvfits_report *r)
{
    msi_uv_file h;
    MSI_TRY(msi_uv_file_read(&h, job->fits));
    MSI_TRY(msi_uv_baselines_check(&h, job->fits));
    if (h.kind == MSI_UV_FITS && h.primary.n_group == r->n_group && h.n_if == r->n_window) return MSI_OK;
    return msi_error_set(MSI_EINTERNAL, "%s: it has %lld groups of %lld IFs instead of %lld of %d", job->name,
                         (long long)h.primary.n_group, (long long)h.n_if, (long long)r->n_group, r->n_window);
}

int msi_export_fits(msi_stage *stage, const void *of)
{
    const msi_export_job *job = of;
    const msi_ms_selection all = {.data_column = "DATA", .all_fields = 1, .keep_flagged_rows = 1};
    const msi_uvfits_output_spec spec = {job->fits, job->name, job->command, send_progress, stage};
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
