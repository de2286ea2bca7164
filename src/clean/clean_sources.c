/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/clean/clean_sources.h"

#include <string.h>

#include "core/memory.h"
#include "core/status.h"

enum { ROOM_BYTES = 64 << 20 };

static int64_t value_bytes(const msi_clean_sources_spec *s)
{
    return s->n_channel * s->n_pol * (s->precision == MSI_FP32 ? 4 : 8);
}

int64_t msi_clean_sources_bytes(void)
{
    return ROOM_BYTES;
}

int msi_clean_sources_create(msi_clean_sources **out, const msi_clean_sources_spec *spec)
{
    msi_clean_sources *s;
    *out = NULL;
    MSI_TRY(msi_alloc(&s, 1, sizeof *s, "components"));
    s->spec = *spec;
    s->room = ROOM_BYTES / ((int64_t)sizeof *s->component + value_bytes(spec));
    int rc = msi_source_list_create(&s->list, spec->n_channel);
    if (!rc) rc = msi_alloc(&s->component, s->room, sizeof *s->component, "components");
    if (!rc) rc = msi_alloc(&s->value, s->room, value_bytes(spec), "components");
    if (rc)
        msi_clean_sources_free(s);
    else
        *out = s;
    return rc;
}

void msi_clean_sources_free(msi_clean_sources *s)
{
    if (!s) return;
    msi_source_list_free(s->list);
    msi_free(s->component);
    msi_free(s->value);
    msi_free(s);
}

void msi_clean_sources_limit(const msi_clean_sources *s, msi_clean_limits *limits)
{
    if (limits->n_iteration > s->room) limits->n_iteration = s->room;
    limits->component = s->component;
    limits->value = s->value;
    limits->component_room = s->room;
}

/* Return the first value of the polarisation that lists are of. */
static const void *values_of(const msi_clean_sources *s)
{
    return (const char *)s->value + s->spec.pol * (s->spec.precision == MSI_FP32 ? 4 : 8);
}

int msi_clean_sources_add(msi_clean_sources *s, const msi_clean_report *report)
{
    return msi_source_list_add(s->list, s->component, values_of(s), s->spec.precision, s->spec.n_pol,
                               report->n_iteration);
}

/* Add a channel's pixels, as many at a time as there is room for; channels of one pixel become one source. */
static int add_points(msi_clean_sources *s, int channel, const void *pixel, const msi_planes_shape *shape)
{
    const msi_clean_sources_spec *spec = &s->spec;
    const int64_t n_pixel = shape->nx * shape->ny, bytes = value_bytes(spec),
                  each = bytes / spec->n_channel / spec->n_pol;
    const int64_t at = (channel * spec->n_pol + spec->pol) * each;
    int64_t n = 0;
    memset(s->value, 0, (size_t)(s->room * bytes));
    for (int64_t i = 0; i < n_pixel; i++) {
        if (msi_image_value(pixel, spec->precision, i) == 0) continue;
        s->component[n] = (msi_clean_component){(int32_t)(i % shape->nx), (int32_t)(i / shape->nx), 0};
        memcpy((char *)s->value + n * bytes + at, (const char *)pixel + i * each, (size_t)each);
        if (++n < s->room) continue;
        MSI_TRY(msi_source_list_add(s->list, s->component, values_of(s), spec->precision, spec->n_pol, n));
        n = 0;
    }
    MSI_TRY(msi_source_list_add(s->list, s->component, values_of(s), spec->precision, spec->n_pol, n));
    return msi_source_list_keep(s->list);
}

int msi_clean_sources_model(msi_clean_sources *s, const msi_planes *model)
{
    msi_planes_shape one = *msi_planes_shape_of(model);
    void *pixel;
    one.n = 1;
    MSI_TRY(msi_alloc(&pixel, msi_planes_bytes(&one), 1, "models"));
    int rc = MSI_OK;
    for (int c = 0; !rc && c < s->spec.n_channel; c++) {
        rc = msi_planes_fetch(model, c * s->spec.n_pol + s->spec.pol, 1, pixel);
        if (!rc) rc = add_points(s, c, pixel, &one);
    }
    msi_free(pixel);
    return rc;
}
