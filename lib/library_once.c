/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Calls that make a gridder, use it once and free it, for callers to whom each call costs: they are asked to stop once,
 * and have nothing to free when they are. */
#include "core/process.h"
#include "core/status.h"
#include "lib/library_gridder.h"

/* Make a gridder for a task and take samples in. Returned: *out, to be freed whatever the status is. */
static int begin(msimage_gridder **out, msimage_task task, const msimage_gridder_spec *spec,
                 const msimage_callbacks *callbacks, const msimage_samples *samples, int64_t n_block)
{
    msimage_gridder_spec s;
    *out = NULL;
    MSI_TRY(msi_library_spec(&s, spec, spec->struct_bytes, sizeof s));
    s.struct_bytes = sizeof s;
    s.task = task;
    MSI_TRY(msimage_gridder_create(out, &s, callbacks));
    for (int64_t i = 0; i < n_block; i++) MSI_TRY(msimage_gridder_add(*out, &samples[i]));
    return MSI_OK;
}

int msimage_gridder_image_once(const msimage_gridder_spec *spec, const msimage_callbacks *callbacks,
                               const msimage_samples *samples, int64_t n_block, void *image)
{
    msimage_gridder *g;
    const int paced = msi_interrupt_pace(1);
    int rc = begin(&g, MSIMAGE_IMAGE, spec, callbacks, samples, n_block);
    if (!rc) rc = msimage_gridder_image(g, image);
    msimage_gridder_free(g);
    msi_interrupt_pace(paced);
    return rc;
}

int msimage_gridder_predict_once(const msimage_gridder_spec *spec, const msimage_callbacks *callbacks,
                                 const msimage_samples *samples, int64_t n_block, const void *model, void *const *vis)
{
    msimage_gridder *g;
    const int paced = msi_interrupt_pace(1);
    int rc = begin(&g, MSIMAGE_PREDICT, spec, callbacks, samples, n_block);
    if (!rc) rc = msimage_gridder_predict(g, model);
    for (int64_t i = 0; i < n_block && !rc; i++) rc = msimage_gridder_fetch(g, &samples[i], vis[i]);
    msimage_gridder_free(g);
    msi_interrupt_pace(paced);
    return rc;
}
