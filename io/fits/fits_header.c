/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/fits/fits_header.h"

#include <endian.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/first_error.h"
#include "core/interrupt.h"
#include "core/progress.h"
#include "core/status.h"

enum {
    CARD = 80,
    BLOCK = 2880,
    HISTORY_TEXT = 72,      /* what a HISTORY card holds */
    CHUNK_PIXELS = 16384,   /* written between two looks at the interrupt flag */
    TURN_CHUNKS = 32,       /* a thread writes so many that follow each other: 2 MB */
    WORTH_THREADS = 8 << 20 /* pixels; of fewer, threads take longer to start than to write */
};

/* A card's value or text may hold printing ASCII only; anything else becomes \xNN. Caller frees; NULL without memory.
 */
static char *printable(const char *text)
{
    char *out = calloc(4 * strlen(text) + 1, 1), *o = out;
    if (!out) return NULL;
    for (const unsigned char *t = (const unsigned char *)text; *t; t++) {
        if (*t >= ' ' && *t <= '~')
            *o++ = (char)*t;
        else
            o += sprintf(o, "\\x%02X", *t);
    }
    return out;
}

void msi_fits_put_string(fitsfile *f, const char *key, const char *value, const char *comment, int *status)
{
    if (!value || !value[0] || *status) return;
    char *text = printable(value);
    if (!text) {
        *status = MEMORY_ALLOCATION;
        return;
    }
    fits_write_key_str(f, key, text, comment, status);
    free(text);
}

/* Write as many of 15 digits as fit the 20 columns of FITS's fixed format, which casacore insists on. FITS has no
 * number that is not finite: no card then. */
void msi_fits_put_number(fitsfile *f, const char *key, double value, const char *comment, int *status)
{
    if (!isfinite(value)) return;
    char text[40];
    int digits = 15;
    while (snprintf(text, sizeof text, "%.*G", digits, value) > 20) digits--;
    if (!strpbrk(text, ".E")) strcat(text, ".0");
    char card[256];
    snprintf(card, sizeof card, "%-8s= %20s%s%s", key, text, comment ? " / " : "", comment ? comment : "");
    card[CARD] = 0;
    fits_write_record(f, card, status);
}

/*
 * Put HISTORY cards of `text`. A card's trailing blanks are not significant, so none is broken after a blank: the cards
 * joined together are the text again.
 */
void msi_fits_put_history(fitsfile *f, const char *text, int *status)
{
    if (!text || *status) return;
    char *all = printable(text);
    if (!all) {
        *status = MEMORY_ALLOCATION;
        return;
    }
    size_t left = strlen(all);
    for (const char *at = all; left && !*status;) {
        size_t take = left < HISTORY_TEXT ? left : HISTORY_TEXT;
        while (take > 1 && take < left && at[take - 1] == ' ') take--;
        char card[HISTORY_TEXT + 1];
        memcpy(card, at, take);
        card[take] = 0;
        fits_write_history(f, card, status);
        at += take;
        left -= take;
    }
    free(all);
}

int msi_fits_header_text(fitsfile *f, char **header, size_t *size, int status)
{
    int n_card = 0;
    fits_hdr2str(f, 0, NULL, 0, header, &n_card, &status);
    if (!status) {
        size_t used = (size_t)n_card * CARD;
        *size = (used + BLOCK - 1) / BLOCK * BLOCK;
        char *padded = realloc(*header, *size);
        if (padded) {
            memset(padded + used, ' ', *size - used);
            *header = padded;
        } else {
            status = MEMORY_ALLOCATION;
        }
    }
    return status;
}

/* Closed as it is, or asked for its size, the file would be filled up with zeros, all pixels of them in memory; so it
 * becomes one of a pixel, by its cards alone. */
void msi_fits_close_header(fitsfile *f, void **memory)
{
    LONGLONG n_axis = 0;
    int ignored = 0;
    char key[FLEN_KEYWORD];
    fits_read_key_lnglng(f, "NAXIS", &n_axis, NULL, &ignored);
    for (int i = 1; i <= n_axis; i++) {
        fits_make_keyn("NAXIS", i, key, &ignored);
        fits_modify_key_lng(f, key, 1, "&", &ignored);
    }
    ignored = 0;
    fits_close_file(f, &ignored);
    free(*memory);
}

/* Write pixels [first, first + n) of a file whose pixels begin at byte `at`. */
static int write_chunk(const msi_publish *p, int i, int64_t at, int64_t first, int64_t n, const void *pixel,
                       msi_precision precision)
{
    uint32_t chunk[CHUNK_PIXELS];
    for (int64_t k = 0; k < n; k++) {
        float value =
            precision == MSI_FP32 ? ((const float *)pixel)[first + k] : (float)((const double *)pixel)[first + k];
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        chunk[k] = htobe32(bits);
    }
    return msi_publish_write_at(p, i, at + first * (int64_t)sizeof *chunk, chunk, (size_t)n * sizeof *chunk);
}

/* A file that grows is filled by one thread as fast as by many on most disks, and in memory by many. */
int msi_fits_write_pixels(const msi_publish *p, int i, int64_t at, int64_t n_pixel, const void *pixel,
                          msi_precision precision)
{
    static const char zeros[BLOCK];
    const int64_t bytes = n_pixel * (int64_t)sizeof(float);
    msi_first_error failure = {0};
#pragma omp parallel for schedule(dynamic, TURN_CHUNKS) if (n_pixel > WORTH_THREADS)
    for (int64_t first = 0; first < n_pixel; first += CHUNK_PIXELS) {
        const int64_t n = n_pixel - first < CHUNK_PIXELS ? n_pixel - first : CHUNK_PIXELS;
        if (msi_first_error_status(&failure)) continue;
        msi_first_error_keep(&failure, msi_interrupt_check());
        if (omp_get_thread_num() == 0) msi_progress_at(first, n_pixel);
        msi_first_error_keep(&failure, write_chunk(p, i, at, first, n, pixel, precision));
    }
    MSI_TRY(msi_first_error_raise(&failure));
    return msi_publish_write_at(p, i, at + bytes, zeros, (size_t)(BLOCK - bytes % BLOCK) % BLOCK);
}
