/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture_save.h"

#include "core/status.h"

typedef struct png_sink {
    msi_publish *p;
    int i, rc;
} png_sink;

static cairo_status_t write_png(void *closure, const unsigned char *data, unsigned int length)
{
    png_sink *sink = closure;
    sink->rc = msi_publish_write(sink->p, sink->i, data, length);
    return sink->rc ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

int msi_picture_save(msi_publish *p, int i, cairo_t *cr, cairo_surface_t *canvas)
{
    int fd;
    if (cairo_status(cr))
        return msi_error_set(MSI_ENOMEM, "%s: cannot be drawn: %s", msi_publish_name(p, i),
                             cairo_status_to_string(cairo_status(cr)));
    cairo_surface_flush(canvas);
    MSI_TRY(msi_publish_begin(p, i, &fd));
    png_sink sink = {p, i, MSI_OK};
    cairo_status_t status = cairo_surface_write_to_png_stream(canvas, write_png, &sink);
    if (sink.rc) return sink.rc;
    if (status == CAIRO_STATUS_NO_MEMORY) return msi_error_set(MSI_ENOMEM, "%s: no memory", msi_publish_name(p, i));
    if (status) return msi_publish_fail(p, i, 0, cairo_status_to_string(status));
    return msi_publish_seal(p, i);
}
