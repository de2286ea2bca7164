/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/convert/uv_file.h"

#include <math.h>
#include <string.h>

#include "core/status.h"

/* Axes of visibilities in some header. */
typedef struct axes {
    const msi_uv_hdu *u;
    const int64_t *length; /* [n] */
    int n;
    const char *path;
} axes;

/* An axis that casacore asks for, and its place: those of a lower one vary faster. */
typedef struct wanted_axis {
    const char *name, *projected; /* projected: a beginning that casacore takes as well; NULL: none */
    int place, is_needed;
} wanted_axis;

enum { ONE_LONG = 9 }; /* the place of axes that have one element: anywhere */

static const wanted_axis of_groups[] = {{"COMPLEX", NULL, 0, 1},
                                        {"STOKES", NULL, 1, 1},
                                        {"FREQ", NULL, 1, 1},
                                        {"IF", NULL, 2, 0},
                                        {"RA", "RA---", ONE_LONG, 1},
                                        {"DEC", "DEC--", ONE_LONG, 1},
                                        {NULL}};
static const wanted_axis of_cells[] = {{"COMPLEX", NULL, 0, 1},
                                       {"STOKES", NULL, 1, 1},
                                       {"FREQ", NULL, 2, 1},
                                       {"BAND", NULL, 3, 0},
                                       {"RA", "RA---", ONE_LONG, 1},
                                       {"DEC", "DEC--", ONE_LONG, 1},
                                       {NULL}};

static int is_named(const wanted_axis *w, const char *type)
{
    return strcmp(type, w->name) == 0 || (w->projected && strncmp(type, w->projected, strlen(w->projected)) == 0);
}

static int find_axis(const axes *a, const wanted_axis *w)
{
    for (int i = 0; i < a->n; i++)
        if (is_named(w, a->u->axis_type[i])) return i;
    return -1;
}

static const wanted_axis *known_axis(const wanted_axis *wanted, const char *type)
{
    for (; wanted->name; wanted++)
        if (is_named(wanted, type)) return wanted;
    return NULL;
}

/* Every axis is there once, and those of several elements in the order in which casacore counts. */
static int check_order(const axes *a, const wanted_axis *wanted)
{
    int place = 0;
    for (const wanted_axis *w = wanted; w->name; w++)
        if (w->is_needed && find_axis(a, w) < 0)
            return msi_error_set(MSI_EINPUT, "%s: its visibilities have no axis %s", a->path, w->name);
    for (int i = 0; i < a->n; i++) {
        const wanted_axis *w = known_axis(wanted, a->u->axis_type[i]);
        if (a->length[i] == 1 || a->length[i] == 0) continue;
        if (!w || w->place == ONE_LONG || find_axis(a, w) != i)
            return msi_error_set(MSI_EINPUT, "%s: its axis %d, '%s', has %lld elements instead of one", a->path, i + 1,
                                 a->u->axis_type[i], (long long)a->length[i]);
        if (w->place < place)
            return msi_error_set(MSI_EINPUT,
                                 "%s: its axis %d, '%s', is in the wrong place; casacore reads the order %s", a->path,
                                 i + 1, a->u->axis_type[i],
                                 wanted == of_groups ? "COMPLEX, STOKES and FREQ, IF" : "COMPLEX, STOKES, FREQ, BAND");
        place = w->place;
    }
    return MSI_OK;
}

static int count_parameter(const msi_uv_hdu *u, const char *beginning, size_t n)
{
    int count = 0;
    for (int i = 0; i < u->n_parameter; i++) count += strncmp(u->parameter[i], beginning, n) == 0;
    return count;
}

static int check_complex(const axes *a, int least)
{
    const int64_t n = a->length[find_axis(a, &of_groups[0])];
    if (n >= least && n <= 3) return MSI_OK;
    if (least == 3 && count_parameter(a->u, "WEIGHT", sizeof "WEIGHT") &&
        count_parameter(a->u, "SCALE", sizeof "SCALE"))
        return msi_error_set(MSI_EINPUT,
                             "%s: its visibilities are compressed (groups with parameters WEIGHT and SCALE), which "
                             "casacore does not read; uncompress them with UVCMP of AIPS",
                             a->path);
    return msi_error_set(MSI_EINPUT, "%s: its axis COMPLEX has %lld elements, not %s", a->path, (long long)n,
                         least == 3 ? "3: real part, imaginary part, weight" : "2 or 3");
}

static int check_stokes(const axes *a)
{
    const int i = find_axis(a, &of_groups[1]);
    const double first = a->u->axis_value[i], step = a->u->axis_step[i], pixel = a->u->axis_pixel[i];
    unsigned seen = 0;
    if (first > 0)
        return msi_error_set(MSI_EINPUT,
                             "%s: holds Stokes parameters (CRVAL%d = %g) instead of correlations (-1 to -8)", a->path,
                             i + 1, first);
    for (int64_t k = 0; k < a->length[i]; k++) {
        const double value = floor(first + ((double)(k + 1) - pixel) * step + 0.5);
        const unsigned bit = value >= -8 && value <= -1 ? 1u << (int)-value : 0;
        if (!bit || (seen & bit))
            return msi_error_set(MSI_EINPUT,
                                 "%s: element %lld of its axis STOKES is %g%s (CRVAL%d = %g, CDELT%d = %g, CRPIX%d = "
                                 "%g); correlations are -1 to -8",
                                 a->path, (long long)k + 1, value, bit ? " again" : "", i + 1, first, i + 1, step,
                                 i + 1, pixel);
        seen |= bit;
    }
    return MSI_OK;
}

/* The value of parameters of one name is their sum: of dates casacore adds two, of u, v and w the second is no more
 * than what single precision leaves, and of others there is no second. */
static int check_parameters(const msi_uv_hdu *u, const char *path)
{
    static const char *const needed[] = {"UU", "VV", "WW"};
    static const char *const single[] = {"BASELINE", "SUBARRAY", "ANTENNA1", "ANTENNA2", "SOURCE", "FREQSEL", "INTTIM"};
    const int n_date = count_parameter(u, "DATE", sizeof "DATE");
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (count_parameter(u, needed[i], 2) == 0)
            return msi_error_set(MSI_EINPUT, "%s: its groups have no parameter %s", path, needed[i]);
    if (n_date < 1 || n_date > 2)
        return msi_error_set(MSI_EINPUT, "%s: its groups have %d parameters DATE, not 1 or 2", path, n_date);
    for (size_t i = 0; i < sizeof single / sizeof *single; i++)
        if (count_parameter(u, single[i], sizeof u->parameter[0]) > 1)
            return msi_error_set(MSI_EINPUT, "%s: its groups have a parameter %s twice", path, single[i]);
    return MSI_OK;
}

int msi_uv_axes_refuse_stokes(const msi_uv_hdu *u, const char *path)
{
    for (int i = 1; i < u->n_axis && i < MSI_UV_MAX_AXES; i++)
        if (strcmp(u->axis_type[i], "STOKES") == 0 && u->axis_value[i] > 0)
            return msi_error_set(MSI_EINPUT,
                                 "%s: holds Stokes parameters (CRVAL%d = %g) instead of correlations (-1 to -8), which "
                                 "msimage images as they are",
                                 path, i + 1, u->axis_value[i]);
    return MSI_OK;
}

int msi_uv_axes_check(const msi_uv_hdu *u, const char *path)
{
    /* NAXIS1 is 0, and no axis. */
    msi_uv_hdu without_first = *u;
    without_first.axis_type[0][0] = 0;
    const axes a = {&without_first, u->axis, u->n_axis < MSI_UV_MAX_AXES ? u->n_axis : MSI_UV_MAX_AXES, path};
    MSI_TRY(check_order(&a, of_groups));
    MSI_TRY(check_complex(&a, 3));
    /* msi_uv_axes_refuse_stokes is for files that casacore reads; others may hold Stokes parameters. */
    if (!(u->axis_value[find_axis(&a, &of_groups[1])] > 0)) MSI_TRY(check_stokes(&a));
    return check_parameters(u, path);
}

/* A column that casacore reads as numbers of one kind, whatever the table says. */
typedef struct wanted_column {
    const char *name, *kinds;
    int is_needed, is_plain; /* plain: casacore does not scale it */
} wanted_column;

static const wanted_column of_visibilities[] = {
    {"UU", "ED", 1, 0},    {"VV", "ED", 1, 0},      {"WW", "ED", 1, 0},    {"DATE", "D", 1, 0},
    {"TIME", "D", 0, 0},   {"BASELINE", "J", 1, 0}, {"FLUX", "E", 1, 1},   {"WEIGHT", "E", 0, 1},
    {"SOURCE", "J", 0, 0}, {"SOURCE_I", "J", 0, 0}, {"FREQID", "J", 0, 0}, {"INTTIM", "E", 0, 0},
};

static int check_column(const msi_uv_hdu *u, const char *path, const wanted_column *w)
{
    /* UU may have a projection in its name, as UU---SIN. */
    const size_t n = strlen(w->name) == 2 ? 2 : sizeof u->field_name[0];
    int64_t i = 0;
    while (i < u->n_field && i < MSI_UV_MAX_FIELDS && strncmp(u->field_name[i], w->name, n) != 0) i++;
    if (i >= u->n_field || i >= MSI_UV_MAX_FIELDS) {
        if (!w->is_needed) return MSI_OK;
        return msi_error_set(MSI_EINPUT, "%s: its table UV_DATA has no column %s", path, w->name);
    }
    if (!u->field_kind[i] || !strchr(w->kinds, u->field_kind[i]))
        return msi_error_set(MSI_EINPUT,
                             "%s: column %s of its table UV_DATA has numbers of the form '%c', which casacore reads as "
                             "'%c'",
                             path, u->field_name[i], u->field_kind[i] ? u->field_kind[i] : ' ', w->kinds[0]);
    if (w->is_plain && u->is_scaled[i])
        return msi_error_set(MSI_EINPUT,
                             "%s: column %s of its table UV_DATA is scaled (TSCAL%lld, TZERO%lld), which "
                             "casacore ignores",
                             path, u->field_name[i], (long long)i + 1, (long long)i + 1);
    return MSI_OK;
}

/* STK_1 repeats in every table what the axis of the visibilities begins with. One of Stokes parameters beside
 * correlations leaves open which of both they are. */
static int check_first_stokes(const msi_uv_hdu *u, const char *path, double first)
{
    if (!(u->first_stokes > 0) || first > 0) return MSI_OK;
    return msi_error_set(
        MSI_EINPUT,
        "%s: its table UV_DATA holds Stokes parameters by STK_1 = %g, but correlations by its axis STOKES, "
        "which begins with %g",
        path, u->first_stokes, first);
}

int msi_uv_axes_check_cells(const msi_uv_hdu *u, const char *path)
{
    const axes a = {u, u->cell_axis, u->n_cell_axis < MSI_UV_MAX_AXES ? u->n_cell_axis : MSI_UV_MAX_AXES, path};
    MSI_TRY(check_order(&a, of_cells));
    MSI_TRY(check_complex(&a, 2));
    MSI_TRY(check_stokes(&a));
    MSI_TRY(check_first_stokes(u, path, u->axis_value[find_axis(&a, &of_cells[1])]));
    for (size_t i = 0; i < sizeof of_visibilities / sizeof *of_visibilities; i++)
        MSI_TRY(check_column(u, path, &of_visibilities[i]));
    return MSI_OK;
}
