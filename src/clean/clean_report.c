/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/clean/clean_report.h"

#include <math.h>
#include <stdio.h>

#include "core/format.h"
#include "core/log.h"
#include "core/pol.h"
#include "src/preprocess/stokes.h"

enum { TEXT = 64 };

/* Choose the unit that suits a brightness or a flux. */
static msi_unit jy_unit(double jy)
{
    static const msi_unit unit[] = {{"Jy", 1}, {"mJy", 1e-3}, {"uJy", 1e-6}, {"nJy", 1e-9}};
    int i = 0;
    /* A value that four digits round up to the unit is told in it: 1 Jy, not 1000 mJy. */
    while (i < 3 && fabs(jy) < 0.99995 * unit[i].size) i++;
    return unit[i];
}

static const char *format_jy(char text[TEXT], double jy)
{
    const msi_unit unit = jy_unit(jy);
    snprintf(text, TEXT, "%.4g %s", jy / unit.size, jy == 0 ? "Jy" : unit.name);
    return text;
}

const char *msi_clean_pol_name(const msi_clean_field *f, const msi_clean_group *g)
{
    static const char *const imaginary[] = {
        [MSI_POL_RL] = "RLi", [MSI_POL_LR] = "LRi", [MSI_POL_XY] = "XYi", [MSI_POL_YX] = "YXi"};
    msi_plane planes[MSI_MAX_PLANES];
    const msi_options *o = f->spec.options;
    msi_planes_of(o->pol, o->n_pol, planes);
    return planes[g->pol].imaginary ? imaginary[planes[g->pol].pol] : msi_pol_name(planes[g->pol].pol);
}

/* Write "channel 3 Q: ", as far as there are several. */
static const char *name_group(char text[TEXT], const char *label, const msi_clean_field *f, const msi_clean_group *g)
{
    const char *pol = f->n_group > 1 ? msi_clean_pol_name(f, g) : "";
    snprintf(text, TEXT, "%s%s%s%s", label, *label && *pol ? " " : "", pol, *label || *pol ? ": " : "");
    return text;
}

/* Peaks of several scales are compared, and reported, with their bias. */
static const char *peak_word(const msi_clean_group *g)
{
    int n_scale;
    msi_cleaner_scales(g->cleaner, &n_scale);
    return n_scale > 1 ? "biased peak" : "peak";
}

void msi_clean_report_cycle(const char *label, msi_clean_field *f, double minor_s, double major_s)
{
    char name[TEXT], peak[TEXT], least[TEXT], noise[TEXT], flux[TEXT];
    for (int i = 0; i < f->n_group; i++) {
        msi_clean_group *g = &f->group[i];
        if (g->n_told == g->n_major) continue;
        g->n_told = g->n_major;
        msi_log_info("%scycle %d%s: %s %s/beam down to %s/beam, %lld component%s, model %s; noise %s/beam; "
                     "%.2f s + %.2f s",
                     name_group(name, label, f, g), g->n_major, g->in_mask ? " in the mask" : "", peak_word(g),
                     format_jy(peak, g->report.peak_before),
                     format_jy(least, g->report.peak_after != 0 ? g->report.peak_after : g->report.threshold),
                     (long long)g->report.n_iteration, msi_plural(g->report.n_iteration), format_jy(flux, g->flux_jy),
                     format_jy(noise, g->noise), minor_s, major_s);
    }
}

void msi_clean_report_back(const char *label, const msi_clean_field *f, const msi_clean_group *g)
{
    char name[TEXT], before[TEXT];
    msi_log_warning("%scycle %d made the residual worse than its peak of %s/beam before, and is taken back; the next "
                    "one cleans %.2g of the peak",
                    name_group(name, label, f, g), g->n_major, format_jy(before, g->peak_before), g->mgain);
}

void msi_clean_report_left(const char *label, double n_cycle, double cycle_s)
{
    char time[MSI_FORMAT_SIZE];
    if (!(n_cycle > 1) || isinf(n_cycle)) return;
    msi_log_info("%s%sabout %.0f more cycles by the decay of the peak, %s", label, *label ? ": " : "", n_cycle,
                 msi_format_duration(time, n_cycle * cycle_s));
}

void msi_clean_report_end(const char *label, const msi_clean_field *f)
{
    char name[TEXT], peak[TEXT], noise[TEXT], flux[TEXT], threshold[TEXT];
    for (int i = 0; i < f->n_group; i++) {
        const msi_clean_group *g = &f->group[i];
        if (!g->cleaner) continue;
        msi_log_info("%scleaned: %s after %d cycle%s and %lld component%s; model %s, residual's %s %s/beam, threshold "
                     "%s/beam, noise %s/beam",
                     name_group(name, label, f, g), g->stop, g->n_major, msi_plural(g->n_major), (long long)g->n_minor,
                     msi_plural(g->n_minor), format_jy(flux, g->flux_jy), peak_word(g), format_jy(peak, g->peak),
                     format_jy(threshold, g->threshold), format_jy(noise, g->noise));
    }
}
