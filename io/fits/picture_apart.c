/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/picture_apart.h"

#include <stdatomic.h>
#include <string.h>

#include "core/child.h"
#include "core/log.h"
#include "core/status.h"

/* Limits of the process. A picture takes a fraction of a second, that of a huge image several seconds. */
static const double MOST_CPU_S = 120, MOST_WALL_S = 900;

/* The picture that the process draws. */
typedef struct job {
    msi_publish *p;
    int i;
    msi_picture_paint paint;
    const void *of;
} job;

static atomic_int is_never_apart;

void msi_picture_never_apart(void)
{
    is_never_apart = 1;
}

static int draw(msi_child *self, void *of)
{
    const job *j = of;
    (void)self;
    return j->paint(j->p, j->i, j->of);
}

static int draw_apart(const msi_child_spec *spec)
{
    msi_child *child;
    if (is_never_apart || msi_child_start(&child, spec) != MSI_OK) return draw(NULL, spec->of);
    const int rc = msi_child_await_done(child, MSI_ENOMEM);
    msi_child_free(child);
    return rc;
}

int msi_picture_apart(msi_publish *p, int i, msi_picture_paint paint, const void *of)
{
    int fd;
    MSI_TRY(msi_publish_begin(p, i, &fd));
    job j = {p, i, paint, of};
    const msi_child_spec spec = {.work = draw,
                                 .of = &j,
                                 .what = "the drawing process",
                                 .path = msi_publish_name(p, i),
                                 .keeps_files = 1,
                                 .wall_s = MOST_WALL_S,
                                 .cpu_s = MOST_CPU_S};
    const int rc = draw_apart(&spec);
    if (rc == MSI_ENOMEM) return msi_error_about(rc, "picture");
    return rc ? rc : msi_publish_seal(p, i);
}

int msi_picture_spare(msi_publish *p, int i, int status)
{
    if (status != MSI_ENOMEM || strcmp(msi_error_about_get(), "picture") != 0) return status;
    const char *name = msi_publish_name(p, i), *why = msi_error_get();
    const size_t n = strlen(name);
    if (strncmp(why, name, n) == 0 && strncmp(why + n, ": ", 2) == 0) why += n + 2;
    msi_log_warning("%s: %s; the picture is not made; other files do not depend on it", name, why);
    msi_publish_drop(p, i);
    return MSI_OK;
}
