/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "core/log.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/units.h"
#include "io/convert/uvfits_output.h"
#include "io/ms/ms_limit.h"
#include "io/uv/uv_set.h"
#include "src/convert/convert_stages.h"

/* Warn that the file, which has one position for each source, does not record the motion of a field. */
static void warn_of_motion(const msi_ms_reader *reader)
{
    const char *name;
    int id;
    if (msi_ms_reader_moving(reader, &id, &name) != MSI_MS_FIXED)
        msi_log_warning("field '%s' (id %d) moves on the sky; UVFITS has one position of a source: the first values of "
                        "PHASE_DIR are kept, but not the motion",
                        name, id);
}

static void log_exported(const msi_uvfits_report *r)
{
    msi_log_info("%lld row%s became %lld group%s of %d window%s", (long long)r->n_row, msi_plural(r->n_row),
                 (long long)r->n_group, msi_plural(r->n_group), r->n_window, msi_plural(r->n_window));
    if (r->n_filled)
        msi_log_warning(
            "%.0f %% of the file is flagged padding: windows were not observed at the same times, and every group "
            "contains all of them; use -spws to select windows",
            100.0 * (double)r->n_filled / (double)(r->n_group * r->n_window));
    if (r->n_unweighted)
        msi_log_warning(
            "%lld unflagged visibilit%s a weight of zero or below, and become flagged, because UVFITS marks "
            "flags by weights",
            (long long)r->n_unweighted, r->n_unweighted == 1 ? "y has" : "ies have");
    if (r->n_not_finite)
        msi_log_warning("%lld visibilit%s not finite or without a finite weight: set to zero and flagged",
                        (long long)r->n_not_finite, r->n_not_finite == 1 ? "y is" : "ies are");
}

static int check_on(void)
{
    msi_child_progress(MSI_CHILD_STEP_S);
    return MSI_OK;
}

/* Check that the file holds what was written. */
static int check_exported(const msi_export_job *job, const msi_uvfits_report *r)
{
    msi_uv_set *uv;
    MSI_TRY(msi_uv_set_open(&uv, job->fits, check_on));
    const int is_right = uv->format == MSI_UV_UVFITS && uv->n_group == r->n_group && uv->n_if == r->n_window;
    const long long n_group = uv->n_group;
    const int n_if = uv->n_if;
    msi_uv_set_free(uv);
    if (is_right) return MSI_OK;
    return msi_error_set(MSI_EINTERNAL, "%s: it has %lld groups of %d IFs instead of %lld of %d", job->name, n_group,
                         n_if, (long long)r->n_group, r->n_window);
}

int msi_export_fits(const void *of)
{
    const msi_export_job *job = of;
    const msi_ms_selection all = {.data_column = "DATA", .all_fields = 1, .keep_flagged_rows = 1};
    const msi_uvfits_output_spec spec = {job->fits, job->name, job->command};
    msi_uvfits_report report;
    msi_ms_reader *reader;
    MSI_TRY(msi_ms_reader_open(&reader, &job->set, 1, &all));
    warn_of_motion(reader);
    msi_progress_begin("writing");
    int status = msi_uvfits_write(reader, &spec, &report);
    msi_ms_reader_free(reader);
    if (!status) status = check_exported(job, &report);
    if (!status) log_exported(&report);
    return status;
}
