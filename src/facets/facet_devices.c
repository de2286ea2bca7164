/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/facets/facet_devices.h"

#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/ordered_parallel.h"
#include "core/status.h"
#include "kernels/facet_samples.h"

typedef struct facet_device {
    int device; /* ordinal of the GPU */
    msi_facet_samples *samples;
} facet_device;

struct msi_facet_devices {
    const msi_facet_gains *gains;
    msi_gridder *gridder;
    int n_image, n_term, n;
    const msi_facet_rule *rule; /* while samples are copied */
    facet_device of[];
};

int msi_facet_devices_n(const msi_facet_devices *d)
{
    return d->n;
}

/* ---- Samples ---------------------------------------------------------------------------------------------------- */

static int upload(void *of, int64_t i)
{
    msi_facet_devices *d = of;
    int n_copy = 0;
    for (int k = 0; k < d->n; k++) n_copy += d->of[k].device == d->of[i].device;
    return msi_facet_samples_create(&d->of[i].samples, msi_gridder_store(d->gridder), d->rule, d->of[i].device, n_copy);
}

/* Call a function for each device, each in its own thread. */
static int for_all(msi_facet_devices *d, int (*work)(void *of, int64_t i))
{
    const msi_ordered_parallel p = {.n_item = d->n, .n_thread = d->n, .work = work, .of = d};
    return msi_ordered_parallel_run(&p);
}

/* Copy the samples to all devices. Returned: *is_there  0: a device or the host has too little memory */
static int copy_samples(msi_facet_devices *d, const msi_facet_rule *rule, int *is_there)
{
    d->rule = rule;
    const int rc = for_all(d, upload);
    d->rule = NULL;
    *is_there = !rc;
    if (rc) msi_log_detail("the CPU makes the samples of facets: %s", msi_error_get());
    return rc == MSI_EGPU || rc == MSI_ENOMEM ? MSI_OK : rc;
}

/* Allocate *out, and list the devices of a gridder, at most `most`. */
static int find_devices(msi_facet_devices **out, msi_gridder *gridder, int most)
{
    const msi_gridder_spec *spec = msi_gridder_spec_of(gridder);
    const int n_all = spec->n_worker ? spec->n_worker : 1, n = n_all < most ? n_all : most;
    MSI_TRY(msi_alloc(out, 1, sizeof **out + (size_t)n * sizeof *(*out)->of, "facets on GPUs"));
    (*out)->gridder = gridder;
    (*out)->n = n;
    for (int i = 0; i < n; i++) (*out)->of[i].device = spec->n_worker ? spec->worker[i] : spec->device;
    return MSI_OK;
}

int msi_facet_devices_open(msi_facet_devices **out, msi_gridder *gridder, const msi_facet_gains *gains,
                           const msi_gain_planes *map, msi_gain_form form, const msi_facet_terms *terms, int most)
{
    msi_gridder_report report;
    int32_t *n_antenna = NULL;
    int is_there = 0;
    msi_gridder_report_get(gridder, &report);
    *out = NULL;
    if (report.backend != MSI_BACKEND_CUDA || map->n > MSI_FACET_MAX_PLANES || !msi_gridder_store(gridder)->n_segment)
        return MSI_OK;
    MSI_TRY(find_devices(out, gridder, most));
    (*out)->gains = gains;
    (*out)->n_image = terms->n_image;
    (*out)->n_term = terms->n_term;
    msi_facet_rule rule = {.map = *map,
                           .n_image = terms->n_image,
                           .n_stored = map->n,
                           .n_term = terms->n_term,
                           .reference_hz = terms->reference_hz};
    if (gains) {
        rule.form = form;
        rule.has_slopes = msi_facet_gains_has_slopes(gains);
        rule.n_slot = msi_facet_gains_n_slot(gains);
    }
    int rc = msi_alloc(&n_antenna, rule.n_slot, sizeof *n_antenna, "facets on GPUs");
    for (int64_t i = 0; !rc && i < rule.n_slot; i++) n_antenna[i] = (int32_t)msi_facet_gains_n_antenna(gains, i);
    rule.n_antenna = n_antenna;
    if (!rc) rc = copy_samples(*out, &rule, &is_there);
    msi_free(n_antenna);
    if (rc || !is_there) {
        msi_facet_devices_close(*out);
        *out = NULL;
    }
    return rc;
}

void msi_facet_devices_no_model(msi_facet_devices *d)
{
    for (int i = 0; i < d->n; i++) msi_facet_samples_no_model(d->of[i].samples);
}

int msi_facet_devices_may_stay(const msi_facet_devices *d)
{
    int may = 1;
    for (int i = 0; i < d->n; i++) may = may && msi_facet_samples_may_stay(d->of[i].samples);
    return may;
}

void msi_facet_devices_close(msi_facet_devices *d)
{
    for (int i = 0; d && i < d->n; i++) msi_facet_samples_free(d->of[i].samples);
    msi_free(d);
}

/* ---- Gains ------------------------------------------------------------------------------------------------------ */

/* Add the time since *since_s to a sum, and begin the next one. */
static void add_time(double *sum_s, double *since_s)
{
    const double now_s = msi_wall_s();
    *sum_s += now_s - *since_s;
    *since_s = now_s;
}

/* Fill a device's tables with the gains of a facet. */
static int use_gains(msi_facet_devices *d, int device, const msi_facet_task *task)
{
    msi_facet_samples *s = d->of[device].samples;
    if (!d->gains) return MSI_OK;
    const int64_t form = msi_facet_gains_form(d->gains);
    double(*shift)[3][3] = msi_facet_samples_shift(s);
    for (int k = 0; k < msi_facet_samples_n_part(s); k++) {
        const msi_facet_part *p = msi_facet_samples_part(s, k);
#pragma omp parallel for schedule(dynamic, 1)
        for (int64_t i = 0; i < p->n_used; i++) {
            const int64_t at = p->first[i] * p->n_chan;
            msi_facet_gains_make(d->gains, task->facet, p->slot[i], task->only_beam, p->n_chan, p->freq_hz,
                                 p->jones + at * form, p->slope ? p->slope + at : NULL);
            if (shift) msi_facet_gains_shift(d->gains, task->facet, p->slot[i], shift[p->slot[i]]);
        }
    }
    return msi_facet_samples_gains(s);
}

int msi_facet_devices_respond(msi_facet_devices *d, int device, const msi_facet_task *task, double *sum, double *total,
                              double *moment)
{
    const int n_power = 2 * d->n_term - 1;
    MSI_TRY(use_gains(d, device, task));
    for (int k = n_power - 1; k >= 0; k--) {
        MSI_TRY(msi_facet_samples_respond(d->of[device].samples, k, sum + (int64_t)k * d->n_image * d->n_image, total));
        moment[k] = total[0];
    }
    return MSI_OK;
}

/* ---- Images ----------------------------------------------------------------------------------------------------- */

/* Return the planes of a facet, from `first` on, that one gridder images. */
static msi_facet_part_of planes_from(const msi_facet_devices *d, int device, const msi_facet_task *task, int first)
{
    const int left = d->n_image * d->n_term - first, most = msi_facet_samples_at_once(d->of[device].samples);
    return (msi_facet_part_of){task->l, task->m, first, left < most ? left : most};
}

/* Make a gridder for planes of a facet. */
static int make_gridder(const msi_facet_devices *d, int device, const msi_facet_task *task, int n_plane,
                        msi_gridder **out)
{
    msi_gridder_spec spec = task->spec;
    spec.n_plane = n_plane;
    spec.n_worker = 0;
    spec.worker = NULL;
    spec.backend = MSI_BACKEND_CUDA;
    spec.device = d->of[device].device;
    return msi_gridder_create(out, &spec);
}

int msi_facet_devices_image(msi_facet_devices *d, int device, const msi_facet_task *task, msi_image *out,
                            msi_gridder_report *report, msi_facet_times *times)
{
    const msi_image_geometry *box = &task->spec.geometry;
    *out = (msi_image){0};
    *report = (msi_gridder_report){0};
    double since_s = msi_wall_s();
    MSI_TRY(use_gains(d, device, task));
    add_time(&times->gains_s, &since_s);
    int rc = MSI_OK;
    const int n = d->n_image * d->n_term;
    for (int first = 0; !rc && first < n;) {
        const msi_facet_part_of of = planes_from(d, device, task, first);
        msi_gridder *g;
        msi_gridder_report now;
        msi_image planes = {0};
        rc = make_gridder(d, device, task, of.n, &g);
        if (rc) break;
        add_time(&times->gridders_s, &since_s);
        rc = msi_facet_samples_form(d->of[device].samples, &of, g);
        add_time(&times->samples_s, &since_s);
        if (!rc) rc = msi_gridder_image(g, &planes);
        msi_gridder_report_get(g, &now);
        if (!rc) msi_gridder_report_add(report, &now);
        msi_gridder_free(g);
        add_time(&times->gridders_s, &since_s);
        if (!rc && of.n == n) {
            *out = planes;
            break;
        }
        if (!rc && first == 0) rc = msi_image_alloc(out, box, n, planes.precision);
        if (!rc)
            memcpy(msi_image_plane(out, first), planes.pixel,
                   (size_t)(of.n * msi_image_n_pixel(box) * msi_image_pixel_bytes(planes.precision)));
        msi_image_free(&planes);
        first += of.n;
    }
    if (rc) msi_image_free(out);
    return rc;
}

/* ---- Models ----------------------------------------------------------------------------------------------------- */

static int clear_model(void *of, int64_t i)
{
    return msi_facet_samples_model(((msi_facet_devices *)of)->of[i].samples);
}

int msi_facet_devices_model(msi_facet_devices *d)
{
    return for_all(d, clear_model);
}

int msi_facet_devices_predict(msi_facet_devices *d, int device, const msi_facet_task *task, const msi_image *model,
                              msi_facet_times *times)
{
    double since_s = msi_wall_s();
    msi_facet_samples *s = d->of[device].samples;
    MSI_TRY(use_gains(d, device, task));
    add_time(&times->gains_s, &since_s);
    for (int first = 0; first < d->n_image * d->n_term;) {
        const msi_facet_part_of of = planes_from(d, device, task, first);
        msi_gridder *g;
        msi_image planes = *model;
        planes.n_plane = of.n;
        planes.pixel = msi_image_plane(model, first);
        MSI_TRY(make_gridder(d, device, task, of.n, &g));
        int rc = msi_gridder_model(g, &planes);
        add_time(&times->gridders_s, &since_s);
        if (!rc) rc = msi_facet_samples_place(s, g);
        add_time(&times->samples_s, &since_s);
        if (!rc) rc = msi_gridder_predict(g);
        add_time(&times->gridders_s, &since_s);
        if (!rc) rc = msi_facet_samples_add(s, &of, g);
        add_time(&times->samples_s, &since_s);
        msi_gridder_free(g);
        add_time(&times->gridders_s, &since_s);
        MSI_TRY(rc);
        first += of.n;
    }
    return MSI_OK;
}

int msi_facet_devices_join_model(msi_facet_devices *d)
{
    for (int i = 1; i < d->n; i++) MSI_TRY(msi_facet_samples_add_model(d->of[0].samples, d->of[i].samples));
    for (int i = 1; i < d->n; i++) MSI_TRY(msi_facet_samples_copy_model(d->of[i].samples, d->of[0].samples));
    return MSI_OK;
}

int msi_facet_devices_fetch_model(msi_facet_devices *d)
{
    return msi_facet_samples_fetch_model(d->of[0].samples, msi_gridder_store(d->gridder));
}
