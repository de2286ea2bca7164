/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Model images:
 *   1. Find the files by name.
 *   2. Read the headers, and check that they agree.
 *   3. List the channels and polarisations.
 *   4. Check every pixel.
 * All steps use the same table of files.
 */
#include "src/sky/model_images.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/image.h"
#include "core/log.h"
#include "core/memory.h"
#include "core/process.h"
#include "core/progress.h"
#include "core/status.h"
#include "core/units.h"
#include "io/fits/fits_image.h"
#include "src/sky/stokes.h"

/* ---- Names of files ---- */

/* The endings of names of models, and of models of true flux. */
static const char *const ENDINGS[] = {"-model.fits", "-model-pb.fits"};

enum { NO_CHANNEL = MSI_MODEL_NO_CHANNEL, MFS = MSI_MODEL_MFS };

/* Parse an optional "-NNNN", "-MFS" or "-ttK", then an optional "-POL" or "-POLi". Return 1 if this is the whole
 * text. */
static int parse_middle(const char *text, msi_model_name *m)
{
    int64_t *number = &m->number;
    *m = (msi_model_name){.number = NO_CHANNEL};
    if (strncmp(text, "-tt", 3) == 0 && isdigit((unsigned char)text[3])) {
        m->is_term = 1;
        *number = text[3] - '0';
        text += 4;
    } else if (strncmp(text, "-MFS", 4) == 0) {
        *number = MFS;
        text += 4;
    } else if (text[0] == '-' && isdigit((unsigned char)text[1])) {
        char *end, again[32];
        errno = 0;
        *number = strtoll(text + 1, &end, 10);
        /* A number must have the form in which files are named: at least four digits. */
        snprintf(again, sizeof again, "-%04lld", (long long)*number);
        size_t length = (size_t)(end - text);
        if (errno || strlen(again) != length || strncmp(text, again, length) != 0) return 0;
        text = end;
    }
    if (!*text) return 1;
    for (int p = MSI_POL_I; p <= MSI_POL_YY; p++)
        for (int imaginary = 0; imaginary <= msi_is_cross_hand((msi_pol)p); imaginary++) {
            char name[8];
            snprintf(name, sizeof name, "-%s%s", msi_pol_name((msi_pol)p), imaginary ? "i" : "");
            if (strcmp(text, name) != 0) continue;
            m->pol = (msi_pol)p;
            m->imaginary = imaginary;
        }
    return m->pol != 0;
}

/* Append a file to the list. */
static int add_name(msi_model_names *names, const char *name, const char *rest, const msi_model_name *parsed)
{
    /* The capacity doubles at each power of two. */
    if ((names->n & (names->n - 1)) == 0)
        MSI_TRY(msi_grow(&names->list, names->n, names->n ? 2 * names->n : 1, sizeof *names->list, "list of models"));
    msi_model_name *m = &names->list[names->n];
    *m = *parsed;
    const size_t size = strlen(name) + strlen(rest) + 1;
    MSI_TRY(msi_alloc(&m->path, (int64_t)size, 1, "file name"));
    snprintf(m->path, size, "%s%s", name, rest);
    names->n++;
    return MSI_OK;
}

/* List the files NAME..ENDING of the directory. */
static int list_files(msi_model_names *names, const char *name, const char *ending)
{
    const char *slash = strrchr(name, '/'), *prefix = slash ? slash + 1 : name;
    const size_t prefix_length = strlen(prefix), ending_length = strlen(ending);
    char *folder = slash ? strndup(name, slash == name ? 1 : (size_t)(slash - name)) : strdup(".");
    if (!folder) return msi_error_set(MSI_ENOMEM, "no memory for a file name");
    DIR *dir = opendir(folder);
    int rc = dir ? MSI_OK : msi_error_set(MSI_EINPUT, "%s: %s", folder, strerror(errno));
    free(folder);
    for (struct dirent *e; !rc && (e = readdir(dir));) {
        const size_t length = strlen(e->d_name);
        char middle[32];
        msi_model_name parsed;
        if (length < prefix_length + ending_length || strncmp(e->d_name, prefix, prefix_length) != 0 ||
            strcmp(e->d_name + length - ending_length, ending) != 0)
            continue;
        const size_t n = length - prefix_length - ending_length;
        if (n >= sizeof middle) continue;
        memcpy(middle, e->d_name + prefix_length, n);
        middle[n] = 0;
        if (parse_middle(middle, &parsed)) rc = add_name(names, name, e->d_name + prefix_length, &parsed);
    }
    if (dir) closedir(dir);
    return rc;
}

/* Return a number that orders planes: by polarisation, the imaginary part of a cross hand after the real part. */
static int order_of(msi_pol pol, int imaginary)
{
    return 2 * (int)pol + imaginary;
}

static int compare_names(const void *a, const void *b)
{
    const msi_model_name *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return order_of(x->pol, x->imaginary) - order_of(y->pol, y->imaginary);
}

/* Keep the files of one kind only: those with numbers from least to most. */
static void keep_numbers(msi_model_names *names, int64_t least, int64_t most)
{
    int64_t n = 0;
    for (int64_t i = 0; i < names->n; i++) {
        if (names->list[i].number >= least && names->list[i].number <= most)
            names->list[n++] = names->list[i];
        else
            msi_free(names->list[i].path);
    }
    names->n = n;
}

/* Refuse Taylor terms next to models of another kind. */
static int check_terms_alone(const msi_model_names *names)
{
    const msi_model_name *term = NULL, *other = NULL;
    for (int64_t i = 0; i < names->n; i++) {
        if (names->list[i].is_term)
            term = &names->list[i];
        else if (names->list[i].number != MFS)
            other = &names->list[i];
    }
    if (!term || !other) return MSI_OK;
    return msi_error_set(MSI_EINPUT,
                         "%s and %s: a model of Taylor terms and another one; move the files of one of them away",
                         term->path, other->path);
}

/* Choose the kind of files to use: channel images, terms, or images without a number; MFS images if there are no
 * others. Refuse files of several of the first three kinds, and a missing channel image or term. */
static int choose_names(msi_model_names *names, const char *name, const char *ending)
{
    const msi_model_name *plain = NULL, *channel = NULL;
    MSI_TRY(check_terms_alone(names));
    if (names->n) qsort(names->list, (size_t)names->n, sizeof *names->list, compare_names);
    for (int64_t i = 0; i < names->n; i++) {
        if (names->list[i].number == NO_CHANNEL && !plain) plain = &names->list[i];
        if (names->list[i].number >= 0 && !channel) channel = &names->list[i];
    }
    if (!names->n)
        return msi_error_set(
            MSI_EINPUT, "no model found: no file %s%s, %s-I%s or %s-0000%s; give the beginning of their names by -name",
            name, ending, name, ending, name, ending);
    if (plain && channel)
        return msi_error_set(
            MSI_EINPUT,
            "%s and %s: a model of one image and a model of channel images; move the files of one of them away",
            plain->path, channel->path);
    if (plain)
        keep_numbers(names, NO_CHANNEL, NO_CHANNEL);
    else if (channel)
        keep_numbers(names, 0, INT64_MAX);
    int64_t expected = 0;
    for (int64_t i = 0; channel && i < names->n; i++) {
        if (names->list[i].number > expected)
            return msi_error_set(MSI_EINPUT,
                                 "%s exists, but %s%0*lld is missing; all numbers beginning with 0 are needed",
                                 names->list[i].path, channel->is_term ? "term tt" : "channel image ",
                                 channel->is_term ? 1 : 4, (long long)expected);
        expected = names->list[i].number + 1;
    }
    for (int64_t i = 0; i < names->n; i++)
        if (names->list[i].number == MFS) names->list[i].number = NO_CHANNEL;
    return MSI_OK;
}

int msi_model_names_list(msi_model_names *out, const char *name, int is_true)
{
    memset(out, 0, sizeof *out);
    const int rc = list_files(out, name, ENDINGS[is_true]);
    if (rc) msi_model_names_free(out);
    return rc;
}

/*
 * Find the files NAME[-NNNN|-MFS][-POL]-model.fits: the channel images, else the images without
 * a channel, else the MFS images.
 * Given:    name     with its directory, if any
 *           is_true  use NAME..-model-pb.fits if there are any
 * Returned: *out  freed by msi_model_names_free; empty on failure
 * Returns:  0, MSI_EINPUT (no files; both channel images and images without a channel; a missing channel; a directory
 *           that cannot be read), MSI_ENOMEM
 */
static int model_names_find(msi_model_names *out, const char *name, int is_true)
{
    MSI_TRY(msi_model_names_list(out, name, is_true));
    if (is_true && !out->n) MSI_TRY(msi_model_names_list(out, name, is_true = 0));
    const int rc = choose_names(out, name, ENDINGS[is_true]);
    if (rc) msi_model_names_free(out);
    return rc;
}

void msi_model_names_free(msi_model_names *names)
{
    for (int64_t i = 0; i < names->n; i++) msi_free(names->list[i].path);
    msi_free(names->list);
    memset(names, 0, sizeof *names);
}

/* ---- Planes ---- */

/* Limit of the total flux of a plane. Sums of larger values could exceed single precision. */
static const double MOST_FLUX_JY = 1e30;
/* Limit of the pixels along an axis. */
static const int64_t LARGEST_SIZE = (int64_t)1 << 26;

enum { NO_SAMPLES = 1, LEFT_OUT };

/* A plane of a file. The list is in the order of channels, then polarisations. */
typedef struct model_plane {
    int64_t number; /* index of the channel image, or of the plane along FREQ */
    msi_model_channel channel;
    msi_pol pol;
    int imaginary;
    const char *path;
    int64_t freq_index;
    int pol_index;
    int is_numbered; /* its file is a channel image */
    int is_empty;    /* NO_SAMPLES: the image has no samples; LEFT_OUT: no image of the channel has samples */
} model_plane;

struct msi_model_files {
    msi_model_names names;
    int64_t n_file_channel; /* channels according to the headers */
    int64_t n_plane;
    model_plane *plane;         /* [n_channel][n_plane] after the headers are read */
    msi_fits_header header;     /* header of the first file */
    int64_t corner_x, corner_y; /* pixel (0, 0) of a file in the model's geometry */
    msi_image loaded;           /* pixels of a model of one channel, until they are used */
};

/* ---- Headers ---- */

/* Refuse a unit that is not Jy/pixel; with force, warn instead. */
static int check_unit(const char *path, const char *unit, int force)
{
    static const char *const known[] = {"Jy/pixel", "Jy/pix", "Jy pixel-1", "Jy pixel^-1", "Jy"};
    if (!unit[0]) {
        msi_log_warning("%s: no BUNIT; Jy/pixel is assumed", path);
        return MSI_OK;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcasecmp(unit, known[i]) == 0) return MSI_OK;
    if (!force)
        return msi_error_set(
            MSI_EINPUT,
            "%s: the unit is '%s', not Jy/pixel; deconvolve or convert the image, or assume Jy/pixel by "
            "-force",
            path, unit);
    msi_log_warning("%s: the unit is '%s'; Jy/pixel is assumed", path, unit);
    return MSI_OK;
}

/* Compare numbers of two headers. One program writes all headers of a run, so they should differ only by rounding. */
static int is_equal(double a, double b, double tolerance)
{
    return fabs(a - b) <= tolerance;
}

/* Refuse a file whose geometry, centre or frame differs from the first file's. */
static int check_agreement(const char *path, const msi_fits_header *h, const char *first_path,
                           const msi_fits_header *first)
{
    const msi_image_geometry *a = &h->geometry, *b = &first->geometry;
    const char *what = NULL;
    if (a->nx != b->nx || a->ny != b->ny)
        what = "size";
    else if (!is_equal(a->cell_x_rad, b->cell_x_rad, 1e-9 * b->cell_x_rad) ||
             !is_equal(a->cell_y_rad, b->cell_y_rad, 1e-9 * b->cell_y_rad))
        what = "pixel size";
    else if (!is_equal(h->reference[0], first->reference[0], 1e-6) ||
             !is_equal(h->reference[1], first->reference[1], 1e-6))
        what = "reference pixel";
    else if (!is_equal(remainder(h->ra_rad - first->ra_rad, 2 * MSI_PI), 0, 1e-11) ||
             !is_equal(h->dec_rad, first->dec_rad, 1e-11))
        what = "centre";
    else if (strcmp(h->dir_frame, first->dir_frame) != 0)
        what = "coordinate frame";
    if (!what) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s: the %s differs from that of %s; all models of a run must agree", path, what,
                         first_path);
}

/* Find the polarisation of plane i of a file in its header or, if the header has none, in its name. */
static int find_pol(const msi_model_name *n, const msi_fits_header *h, int i, msi_pol *pol)
{
    *pol = h->has_pol || !n->pol ? h->pol[i] : n->pol;
    if (n->pol && (*pol != n->pol || h->n_pol > 1))
        return msi_error_set(MSI_EINPUT, "%s: named %s, but its Stokes axis has %s%s", n->path, msi_pol_name(n->pol),
                             msi_pol_name(*pol), h->n_pol > 1 ? " and others" : "");
    return MSI_OK;
}

/* Append all planes of a file to the list. */
static int add_planes(struct msi_model_files *f, const msi_model_name *n, const msi_fits_header *h)
{
    const int64_t n_new = f->n_plane + h->n_freq * h->n_pol;
    if (n->number >= 0 && h->n_freq > 1)
        return msi_error_set(MSI_EINPUT, "%s: %lld planes along FREQ; a channel image must have one", n->path,
                             (long long)h->n_freq);
    MSI_TRY(msi_grow(&f->plane, f->n_plane, n_new, sizeof *f->plane, "list of models"));
    for (int64_t k = 0; k < h->n_freq; k++)
        for (int i = 0; i < h->n_pol; i++) {
            model_plane *p = &f->plane[f->n_plane++];
            double freq = h->freq_hz + (double)k * h->freq_step_hz, half = 0.5 * fabs(h->freq_step_hz);
            *p = (model_plane){.number = n->number >= 0 ? n->number : k,
                               .channel = {freq, freq - half, freq + half},
                               .path = n->path,
                               .freq_index = k,
                               .imaginary = n->imaginary,
                               .pol_index = i,
                               .is_numbered = n->number >= 0 && !n->is_term,
                               .is_empty = h->is_empty ? NO_SAMPLES : 0};
            MSI_TRY(find_pol(n, h, i, &p->pol));
            if (p->number >= f->n_file_channel) f->n_file_channel = p->number + 1;
        }
    return MSI_OK;
}

/* Read the header of a file into the list of planes, and check that it agrees with the first one's. */
static int read_header(struct msi_model_files *f, const msi_model_name *n, const msi_fits_header *h, int force)
{
    if (f->n_plane == 0) f->header = *h;
    MSI_TRY(check_agreement(n->path, h, f->n_plane ? f->plane[0].path : n->path, &f->header));
    MSI_TRY(check_unit(n->path, h->unit, force));
    MSI_TRY(add_planes(f, n, h));
    if (h->precision == MSI_FP64) f->header.precision = MSI_FP64;
    return MSI_OK;
}

/* Return whether all polarisations of a channel have no samples. */
static int is_empty_channel(const struct msi_model_files *f, int64_t number)
{
    for (int64_t i = 0; i < f->n_plane; i++)
        if (f->plane[i].number == number && !f->plane[i].is_empty) return 0;
    return 1;
}

/*
 * Leave out channel images without samples; the models of neighbouring channels are used instead. If other
 * polarisations of the channel have samples, a polarisation without samples is zero, like a missing one, if its pixels
 * are NaN. A model without samples may have finite pixels, although its header says that it is empty; these are used.
 */
static int leave_out_empty(struct msi_model_files *f)
{
    int64_t n = 0;
    /* Mark planes before the list changes, because is_empty_channel needs the whole list. */
    for (int64_t i = 0; i < f->n_plane; i++)
        if (f->plane[i].is_empty && is_empty_channel(f, f->plane[i].number))
            f->plane[i].is_empty = f->plane[i].is_numbered ? LEFT_OUT : 0;
    for (int64_t i = 0; i < f->n_plane; i++) {
        const model_plane p = f->plane[i];
        if (p.is_empty == LEFT_OUT)
            msi_log_info("%s: the image has no samples; the model of the nearest channel is used", p.path);
        else
            f->plane[n++] = p;
    }
    f->n_plane = n;
    if (n) return MSI_OK;
    return msi_error_set(MSI_EINPUT, "%s and the other channel images have no samples", f->names.list[0].path);
}

static int read_headers(struct msi_model_files *f, int force)
{
    for (int64_t i = 0; i < f->names.n; i++) {
        msi_fits_file *file;
        MSI_TRY(msi_interrupt_check());
        MSI_TRY(msi_fits_open(&file, f->names.list[i].path));
        const int rc = read_header(f, &f->names.list[i], msi_fits_header_get(file), force);
        msi_fits_close(file);
        MSI_TRY(rc);
    }
    return leave_out_empty(f);
}

/* ---- Channels and polarisations ---- */

static int compare_numbers(const void *a, const void *b)
{
    const model_plane *x = a, *y = b;
    if (x->number != y->number) return x->number < y->number ? -1 : 1;
    return order_of(x->pol, x->imaginary) - order_of(y->pol, y->imaginary);
}

static int compare_frequencies(const void *a, const void *b)
{
    const double x = ((const model_plane *)a)->channel.freq_hz, y = ((const model_plane *)b)->channel.freq_hz;
    return x != y ? (x < y ? -1 : 1) : compare_numbers(a, b);
}

/* Set the frequency of all planes of a channel to the first plane's. Fail if they differ. */
static int unite_frequencies(struct msi_model_files *f)
{
    for (int64_t i = 1; i < f->n_plane; i++) {
        const model_plane *a = &f->plane[i - 1];
        model_plane *b = &f->plane[i];
        if (a->number != b->number) continue;
        if (!is_equal(a->channel.freq_hz, b->channel.freq_hz, 1e-9 * a->channel.freq_hz))
            return msi_error_set(MSI_EINPUT, "%s: %.9g Hz, but %s has %.9g Hz; the models of a channel must agree",
                                 b->path, b->channel.freq_hz, a->path, a->channel.freq_hz);
        b->channel = a->channel;
    }
    return MSI_OK;
}

/* Check that all Taylor terms have one reference frequency. */
static int check_reference(const struct msi_model_files *f)
{
    const double hz = f->plane[0].channel.freq_hz;
    for (int64_t i = 0; i < f->n_plane; i++)
        if (!(hz > 0) || !is_equal(f->plane[i].channel.freq_hz, hz, 1e-9 * hz))
            return msi_error_set(
                MSI_EINPUT,
                "%s: its frequency is %.9g Hz, but %s has %.9g Hz; all Taylor terms must have the reference "
                "frequency",
                f->plane[i].path, f->plane[i].channel.freq_hz, f->plane[0].path, hz);
    return MSI_OK;
}

/* Check that every channel has every polarisation once. */
static int check_complete(const msi_model_images *m)
{
    const struct msi_model_files *f = m->files;
    for (int64_t i = 0; i < f->n_plane; i++) {
        const model_plane *p = &f->plane[i], *next = i + 1 < f->n_plane ? p + 1 : NULL;
        if (next && next->number == p->number && next->pol == p->pol && next->imaginary == p->imaginary)
            return msi_error_set(MSI_EINPUT, "%s and %s: both hold %s of the same channel; move one of them away",
                                 p->path, next->path, msi_pol_name(p->pol));
        if (next && !m->is_taylor && next->number != p->number && next->channel.freq_hz == p->channel.freq_hz)
            return msi_error_set(MSI_EINPUT, "%s and %s: %s", p->path, next->path,
                                 p->channel.freq_hz > 0 ? "two channel images of the same frequency"
                                                        : "channel images without a frequency in their headers");
    }
    for (int64_t i = 0; i < f->n_plane; i++) {
        const model_plane *p = &f->plane[i], *at = &f->plane[i / m->n_plane * m->n_plane];
        const msi_plane *of_first = &m->plane[i % m->n_plane];
        if (f->n_plane % m->n_plane || p->pol != of_first->pol || p->imaginary != of_first->imaginary ||
            p->number != at->number)
            return msi_error_set(MSI_EINPUT,
                                 "%s: the channel images do not all have the same polarisations; a file may be missing",
                                 p->path);
    }
    return MSI_OK;
}

/* Check that cross hands have both parts. */
static int check_parts(const msi_model_images *m)
{
    for (int i = 0; i < m->n_plane; i++) {
        const msi_plane *p = &m->plane[i];
        int other = !msi_is_cross_hand(p->pol);
        for (int k = 0; k < m->n_plane; k++)
            other |= m->plane[k].pol == p->pol && m->plane[k].imaginary != p->imaginary;
        if (!other)
            return msi_error_set(
                MSI_EINPUT,
                "%s: the image of the cross-hand %s is complex, and this file has only one part of it; "
                "give files named %s and %si, or models of Stokes parameters",
                m->files->plane[i].path, msi_pol_name(p->pol), msi_pol_name(p->pol), msi_pol_name(p->pol));
    }
    return MSI_OK;
}

/* Sort the planes, and list their channels and polarisations. */
static int list_channels(msi_model_images *m)
{
    struct msi_model_files *f = m->files;
    m->is_taylor = f->names.list[0].is_term;
    qsort(f->plane, (size_t)f->n_plane, sizeof *f->plane, compare_numbers);
    MSI_TRY(unite_frequencies(f));
    if (m->is_taylor) MSI_TRY(check_reference(f));
    qsort(f->plane, (size_t)f->n_plane, sizeof *f->plane, compare_frequencies);
    while (m->n_plane < f->n_plane && f->plane[m->n_plane].number == f->plane[0].number) {
        const msi_pol pol = f->plane[m->n_plane].pol;
        const int imaginary = f->plane[m->n_plane].imaginary;
        for (int i = 0; i < m->n_plane; i++)
            if (m->plane[i].pol == pol && m->plane[i].imaginary == imaginary) return check_complete(m);
        for (int i = 0; i < m->n_plane; i++)
            if (msi_pols_share_flux(m->plane[i].pol, pol))
                return msi_error_set(
                    MSI_EINPUT, "%s and %s: models of %s and of %s share flux; give either Stokes parameters or hands",
                    f->plane[i].path, f->plane[m->n_plane].path, msi_pol_name(m->plane[i].pol), msi_pol_name(pol));
        m->plane[m->n_plane++] = (msi_plane){.pol = pol, .imaginary = imaginary};
    }
    MSI_TRY(check_parts(m));
    MSI_TRY(check_complete(m));
    m->n_channel = f->n_plane / m->n_plane;
    MSI_TRY(msi_alloc(&m->channel, m->n_channel, sizeof *m->channel, "list of models"));
    for (int64_t c = 0; c < m->n_channel; c++) m->channel[c] = f->plane[c * m->n_plane].channel;
    m->n_file_channel = f->n_file_channel;
    return MSI_OK;
}

/* ---- Geometry ---- */

/*
 * Find the size of the model along an axis, and the position of the files' first pixel in it. The gridder needs even
 * sizes with the projection's centre in pixel (nx/2, ny/2). If the centre of the files is another pixel, they become
 * part of a larger image around the centre.
 */
static int find_size(const struct msi_model_files *f, int axis, int64_t *size, int64_t *corner)
{
    const msi_fits_header *h = &f->header;
    const int64_t n = axis ? h->geometry.ny : h->geometry.nx;
    const double reference = h->reference[axis], whole = rint(reference);
    if (fabs(reference - whole) > 1e-6)
        return msi_error_set(
            MSI_EINPUT,
            "%s: CRPIX%d is %.9g; the centre of the projection must be the centre of a pixel; shift the model by the "
            "fraction",
            f->names.list[0].path, axis + 1, reference + 1);
    if (fabs(whole) > (double)LARGEST_SIZE || n > LARGEST_SIZE)
        return msi_error_set(MSI_EINPUT, "%s: CRPIX%d is %.9g, too far from its pixels", f->names.list[0].path,
                             axis + 1, reference + 1);
    int64_t at = (int64_t)whole, half = at > n - at ? at : n - at;
    /* A gridder needs at least 16 pixels. */
    if (half < 8) half = 8;
    *size = 2 * half;
    *corner = half - at;
    return MSI_OK;
}

static int find_geometry(msi_model_images *m)
{
    struct msi_model_files *f = m->files;
    m->geometry = f->header.geometry;
    MSI_TRY(find_size(f, 0, &m->geometry.nx, &f->corner_x));
    MSI_TRY(find_size(f, 1, &m->geometry.ny, &f->corner_y));
    m->ra_rad = f->header.ra_rad;
    m->dec_rad = f->header.dec_rad;
    memcpy(m->dir_frame, f->header.dir_frame, sizeof m->dir_frame);
    return MSI_OK;
}

/* ---- Pixels ---- */

/* Set an image to zero if its middle is NaN. */
static void clear_nan(const msi_image_geometry *g, msi_precision precision, void *pixel)
{
    if (isnan(msi_image_value(pixel, precision, g->ny / 2 * g->nx + g->nx / 2)))
        memset(pixel, 0, (size_t)(msi_image_n_pixel(g) * msi_image_pixel_bytes(precision)));
}

/* Read a plane of a file into pixel [ny][nx], an image of zeros. */
static int read_plane(const struct msi_model_files *f, const model_plane *p, const msi_image_geometry *g,
                      msi_precision precision, void *pixel)
{
    msi_fits_file *file;
    MSI_TRY(msi_fits_open(&file, p->path));
    const msi_fits_header *h = msi_fits_header_get(file);
    int rc = check_agreement(p->path, h, f->names.list[0].path, &f->header);
    if (!rc && (p->freq_index >= h->n_freq || p->pol_index >= h->n_pol))
        rc = msi_error_set(MSI_EINPUT, "%s: has changed during the run", p->path);
    void *corner = (char *)pixel + (f->corner_y * g->nx + f->corner_x) * msi_image_pixel_bytes(precision);
    if (!rc) rc = msi_fits_read_plane(file, p->freq_index, p->pol_index, precision, corner, g->nx);
    if (!rc && p->is_empty) clear_nan(g, precision, pixel);
    msi_fits_close(file);
    return rc;
}

/* Sums over the pixels of a plane. */
typedef struct plane_sums {
    double flux_jy, absolute_jy, peak_jy;
    int64_t n_not_zero, n_beyond; /* pixels that are not zero, within the horizon and beyond it */
} plane_sums;

/* Add row y of a plane to its sums. Fail if a pixel within the horizon is not finite. */
static int check_row(const model_plane *p, const msi_model_images *m, msi_precision precision, const void *row,
                     int64_t y, plane_sums *s)
{
    const msi_image_geometry *g = &m->geometry;
    double m_dir = (double)(y - g->ny / 2) * g->cell_y_rad;
    for (int64_t x = 0; x < g->nx; x++) {
        double v = msi_image_value(row, precision, x);
        if (v == 0) continue;
        double l_dir = (double)(g->nx / 2 - x) * g->cell_x_rad;
        if (l_dir * l_dir + m_dir * m_dir >= 1) {
            s->n_beyond += isfinite(v) != 0;
            continue;
        }
        if (!isfinite(v))
            return msi_error_set(MSI_EINPUT, "%s: pixel (%lld, %lld) is %s; every pixel of a model must be finite",
                                 p->path, (long long)(x - m->files->corner_x + 1),
                                 (long long)(y - m->files->corner_y + 1), isnan(v) ? "NaN" : "infinite");
        s->n_not_zero++;
        s->flux_jy += v;
        s->absolute_jy += fabs(v);
        if (fabs(v) > fabs(s->peak_jy)) s->peak_jy = v;
    }
    return MSI_OK;
}

/* Add 32-bit words to a hash, which depends on each word and on the order of words. */
static uint64_t hash_words(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t at = 0; at + 4 <= bytes; at += 4) {
        uint32_t word;
        memcpy(&word, (const char *)data + at, 4);
        hash = (hash ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* Check all pixels of a plane, add them to the hash, and log the plane's flux and peak. */
static int check_plane(msi_model_images *m, const model_plane *p, msi_precision precision, const void *pixel)
{
    const msi_image_geometry *g = &m->geometry;
    const size_t row_bytes = (size_t)(g->nx * msi_image_pixel_bytes(precision));
    plane_sums s = {0};
    for (int64_t y = 0; y < g->ny; y++) {
        const void *row = (const char *)pixel + (size_t)y * row_bytes;
        MSI_TRY(check_row(p, m, precision, row, y, &s));
        m->hash = hash_words(m->hash, row, row_bytes);
        if (y % 256 == 0) MSI_TRY(msi_interrupt_check());
        msi_progress_at(g->ny + y, 2 * g->ny);
    }
    m->hash = hash_words(m->hash, &p->channel, sizeof p->channel);
    m->hash = hash_words(m->hash, &p->pol, sizeof p->pol);
    m->hash = hash_words(m->hash, &p->imaginary, sizeof p->imaginary);
    if (!(s.absolute_jy <= MOST_FLUX_JY))
        return msi_error_set(MSI_EINPUT, "%s: the sum of its pixels is %.3g Jy; a model must not exceed %.0e Jy",
                             p->path, s.absolute_jy, MOST_FLUX_JY);
    if (p->is_empty && !s.n_not_zero) msi_log_info("%s: the image has no samples; the model is zero", p->path);
    const double peak_jy = fabs(s.peak_jy);
    if (peak_jy > 0 && !(m->least_peak_jy > 0 && m->least_peak_jy < peak_jy)) m->least_peak_jy = peak_jy;
    if (s.n_beyond)
        msi_log_warning("%s: %lld pixels beyond the horizon are not zero; they are ignored", p->path,
                        (long long)s.n_beyond);
    (m->n_channel > 4 ? msi_log_detail
                      : msi_log_info)("model %s, Stokes %s: flux %.6g Jy, peak %.6g Jy/pixel, %lld pixels not zero",
                                      p->path, msi_pol_name(p->pol), s.flux_jy, s.peak_jy, (long long)s.n_not_zero);
    return MSI_OK;
}

/* Read and check every plane. */
static int check_pixels(msi_model_images *m)
{
    struct msi_model_files *f = m->files;
    const int64_t n_pixel = msi_image_n_pixel(&m->geometry);
    const msi_precision precision = f->header.precision;
    /* A single channel stays in memory, because it is used next. Of several channels, only one plane is in memory. */
    int keep = m->n_channel == 1;
    MSI_TRY(msi_image_alloc(&f->loaded, &m->geometry, keep ? m->n_plane : 1, precision));
    int rc = MSI_OK;
    msi_progress_begin("models");
    for (int64_t i = 0; !rc && i < f->n_plane; i++) {
        const msi_progress_share all = msi_progress_enter(i, i + 1, f->n_plane);
        char *pixel = (char *)f->loaded.pixel + (keep ? i * n_pixel : 0) * msi_image_pixel_bytes(precision);
        const msi_progress_share reading = msi_progress_enter(0, 1, 2);
        rc = read_plane(f, &f->plane[i], &m->geometry, precision, pixel);
        msi_progress_leave(reading);
        if (!rc) rc = check_plane(m, &f->plane[i], precision, pixel);
        msi_progress_leave(all);
    }
    if (!rc) msi_progress_end();
    if (!keep) msi_image_free(&f->loaded);
    return rc;
}

int msi_model_images_load(msi_model_images *m, int64_t first, int64_t n, msi_precision precision, msi_image *image)
{
    struct msi_model_files *f = m->files;
    if (f->loaded.pixel && f->loaded.precision == precision && n == 1) {
        *image = f->loaded;
        memset(&f->loaded, 0, sizeof f->loaded);
        return MSI_OK;
    }
    msi_image_free(&f->loaded);
    MSI_TRY(msi_image_alloc(image, &m->geometry, (int)n * m->n_plane, precision));
    const int64_t n_pixel = msi_image_n_pixel(&m->geometry);
    int rc = MSI_OK;
    for (int64_t i = 0; !rc && i < n * m->n_plane; i++)
        rc = read_plane(f, &f->plane[first * m->n_plane + i], &m->geometry, precision,
                        (char *)image->pixel + i * n_pixel * msi_image_pixel_bytes(precision));
    if (rc) msi_image_free(image);
    return rc;
}

/* ---- The models ---- */

/* Make the name of the models for messages: the first file, and the number of others. */
static int make_names(msi_model_images *m)
{
    const struct msi_model_files *f = m->files;
    const size_t size = strlen(f->names.list[0].path) + sizeof " and 9223372036854775807 more";
    MSI_TRY(msi_alloc(&m->names, (int64_t)size, 1, "file name"));
    if (f->names.n > 1)
        snprintf(m->names, size, "%s and %lld more", f->names.list[0].path, (long long)(f->names.n - 1));
    else
        snprintf(m->names, size, "%s", f->names.list[0].path);
    return MSI_OK;
}

static void log_models(const msi_model_images *m)
{
    char pols[40] = "", freq[80] = "no frequency, used at all frequencies";
    for (int i = 0; i < m->n_plane; i++)
        if (!m->plane[i].imaginary) strcat(pols, msi_pol_name(m->plane[i].pol));
    const double low = m->channel[0].freq_hz, high = m->channel[m->n_channel - 1].freq_hz;
    if (m->is_taylor)
        snprintf(freq, sizeof freq, "%lld Taylor terms about %.6g MHz", (long long)m->n_channel, 1e-6 * low);
    else if (m->n_channel > 1)
        snprintf(freq, sizeof freq, "%lld channels of %.6g to %.6g MHz", (long long)m->n_channel, 1e-6 * low,
                 1e-6 * high);
    else if (low > 0)
        snprintf(freq, sizeof freq, "%.6g MHz", 1e-6 * low);
    char cell_x[MSI_FORMAT_SIZE], cell_y[MSI_FORMAT_SIZE], centre[MSI_FORMAT_SIZE];
    msi_log_info("models: %s; %lld x %lld pixels of %s x %s about %s (%s), Stokes %s, %s", m->names,
                 (long long)m->geometry.nx, (long long)m->geometry.ny, msi_format_angle(cell_x, m->geometry.cell_x_rad),
                 msi_format_angle(cell_y, m->geometry.cell_y_rad), msi_format_direction(centre, m->ra_rad, m->dec_rad),
                 m->dir_frame, pols, freq);
}

int msi_model_images_find(msi_model_images **out, const char *name, int force, int is_true)
{
    *out = NULL;
    msi_model_images *m;
    MSI_TRY(msi_alloc(&m, 1, sizeof *m, "list of models"));
    int rc = msi_alloc(&m->files, 1, sizeof *m->files, "list of models");
    if (!rc) rc = model_names_find(&m->files->names, name, is_true);
    if (!rc) rc = read_headers(m->files, force);
    if (!rc) rc = list_channels(m);
    if (!rc) rc = find_geometry(m);
    if (!rc) rc = make_names(m);
    if (!rc) rc = check_pixels(m);
    if (rc) {
        msi_model_images_free(m);
        return rc;
    }
    log_models(m);
    *out = m;
    return MSI_OK;
}

/* Return 1 if models include a polarisation. A cross hand includes the other one. is_wanted does the same for -pol. */
static int is_modelled(const msi_model_images *m, msi_pol pol)
{
    for (int i = 0; i < m->n_plane; i++)
        if (m->plane[i].pol == pol || m->plane[i].pol == msi_other_hand(pol)) return 1;
    return 0;
}

static int is_wanted(const msi_model_wanted *w, msi_pol pol)
{
    for (int i = 0; i < w->n_pol; i++)
        if (w->pol[i] == pol || w->pol[i] == msi_other_hand(pol)) return 1;
    return 0;
}

int msi_model_images_check(const msi_model_images *m, const msi_model_wanted *w)
{
    const msi_image_geometry *g = &m->files->header.geometry;
    char cell[MSI_FORMAT_SIZE], wanted[MSI_FORMAT_SIZE];
    if (w->nx && (w->nx != g->nx || w->ny != g->ny))
        return msi_error_set(MSI_EINPUT, "-size %lld %lld: %s has %lld x %lld pixels; give these, or leave -size out",
                             (long long)w->nx, (long long)w->ny, m->names, (long long)g->nx, (long long)g->ny);
    /* Headers and command lines have rounded numbers. */
    if (w->cell_rad > 0 && (!is_equal(g->cell_x_rad, w->cell_rad, 1e-5 * w->cell_rad) ||
                            !is_equal(g->cell_y_rad, w->cell_rad, 1e-5 * w->cell_rad)))
        return msi_error_set(MSI_EINPUT, "-scale: %s has pixels of %s, not of %s; give these, or leave -scale out",
                             m->names, msi_format_angle(cell, g->cell_x_rad), msi_format_angle(wanted, w->cell_rad));
    if (w->n_channel > 1 && w->n_channel != m->n_file_channel)
        return msi_error_set(MSI_EINPUT, "-channels-out %lld: %s has %lld channel%s; give this number, or leave it out",
                             (long long)w->n_channel, m->names, (long long)m->n_file_channel,
                             msi_plural(m->n_file_channel));
    for (int i = 0; i < w->n_pol; i++)
        if (!is_modelled(m, w->pol[i]))
            return msi_error_set(MSI_EINPUT, "-pol: there is no model of %s in %s; leave it out of -pol",
                                 msi_pol_name(w->pol[i]), m->names);
    for (int i = 0; i < m->n_plane && w->n_pol; i++)
        if (!is_wanted(w, m->plane[i].pol))
            return msi_error_set(MSI_EINPUT, "-pol: there is also a model of %s in %s; add it to -pol, or move it away",
                                 msi_pol_name(m->plane[i].pol), m->names);
    return MSI_OK;
}

void msi_model_images_free(msi_model_images *m)
{
    if (!m) return;
    if (m->files) {
        msi_model_names_free(&m->files->names);
        msi_image_free(&m->files->loaded);
        msi_free(m->files->plane);
    }
    msi_free(m->files);
    msi_free(m->channel);
    msi_free(m->names);
    msi_free(m);
}
