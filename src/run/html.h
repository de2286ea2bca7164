/* SPDX-License-Identifier: GPL-3.0-or-later */
/* A page of HTML that needs no other file: text, tables, pictures, bars and curves. */
#ifndef MSI_SRC_HTML_H
#define MSI_SRC_HTML_H

#include <stdint.h>

/* A page. A zero-initialised one is empty. The first failure is kept in status, and nothing is added after it. */
typedef struct msi_html {
    char *text; /* [n] and a zero; owned, msi_free */
    int64_t n, capacity;
    int status; /* 0, MSI_ENOMEM */
} msi_html;

/* msi_html_add - add marked-up text. */
void msi_html_add(msi_html *h, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* msi_html_text - add plain text: markup characters are escaped, and bytes that cannot be shown are \xNN. */
void msi_html_text(msi_html *h, const char *text);

/* msi_html_png - add a picture as part of the page. Given: alt  shown where pictures are not */
void msi_html_png(msi_html *h, const unsigned char *png, int64_t n, const char *alt);

typedef struct msi_html_bar {
    const char *label;
    double value;      /* 0 or more */
    const char *text;  /* shown after the bar */
    int is_emphasised; /* 1: the bar has the first colour; 0: the second */
} msi_html_bar;

/* msi_html_bars - add horizontal bars. The longest has the full width. */
void msi_html_bars(msi_html *h, const msi_html_bar *bar, int n);

typedef struct msi_html_curve {
    const char *name;
    const double *y; /* [n]; the curve has a gap where y is not finite */
} msi_html_curve;

/*
 * msi_html_curves - add a chart of up to four curves with the same x. The y axis begins at 0 or at the lowest value, if
 * that is negative.
 * Given: x [n]  finite
 *        x_title, y_title  with units
 */
void msi_html_curves(msi_html *h, const double *x, int64_t n, const msi_html_curve *curve, int n_curve,
                     const char *x_title, const char *y_title);

#endif
