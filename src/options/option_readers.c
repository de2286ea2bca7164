/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/options/option_table.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/memory.h"
#include "core/image.h"
#include "core/status.h"
#include "core/units.h"

enum { MIN_SIZE = 16, MAX_SIZE = 1 << 30, MAX_OPTION_NAME = 32 };

_Static_assert(sizeof(msi_backend) == sizeof(int) && sizeof(msi_precision_choice) == sizeof(int) &&
                   sizeof(msi_log_level) == sizeof(int) && sizeof(msi_ms_write_op) == sizeof(int) &&
                   sizeof(msi_model_interpolation) == sizeof(int) && sizeof(msi_kernel_lookup) == sizeof(int),
               "choices and flags are stored as int");

/* The name of an option with its dash, for messages. */
typedef struct dashed_name {
    char text[MAX_OPTION_NAME];
} dashed_name;

static dashed_name dashed(const msi_option *option)
{
    dashed_name s;
    snprintf(s.text, sizeof s.text, "-%s", option->name);
    return s;
}

static void *member_of(msi_options *options, const msi_option *option)
{
    return (char *)options + option->offset;
}

int msi_read_flag(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    (void)argument;
    int value = (int)option->high;
    memcpy(member_of(options, option), &value, sizeof value);
    return MSI_OK;
}

int msi_read_text(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    if (!*argument[0]) return msi_error_set(MSI_EUSAGE, "-%s: its argument is empty", option->name);
    const char *text = argument[0];
    memcpy(member_of(options, option), &text, sizeof text);
    return MSI_OK;
}

static int integer_in_range(int64_t *out, const msi_option *option, const char *text)
{
    MSI_TRY(msi_parse_integer(out, dashed(option).text, text));
    if ((double)*out < option->low || (double)*out > option->high)
        return msi_error_set(MSI_EUSAGE, "-%s %s: give a number from %.0f to %.0f", option->name, text, option->low,
                             option->high);
    return MSI_OK;
}

int msi_read_count(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    int64_t value;
    MSI_TRY(integer_in_range(&value, option, argument[0]));
    memcpy(member_of(options, option), &value, sizeof value);
    return MSI_OK;
}

int msi_read_auto(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    if (strcmp(argument[0], "auto") != 0) return msi_read_count(options, option, n_argument, argument);
    memset(member_of(options, option), 0, sizeof(int64_t));
    return MSI_OK;
}

int msi_read_threads(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    int64_t value;
    MSI_TRY(integer_in_range(&value, option, argument[0]));
    options->n_threads = (int)value;
    return MSI_OK;
}

static int refuse_gpus(const msi_option *option, const char *text)
{
    return msi_error_set(MSI_EUSAGE,
                         "-%s %s: give one, auto, all, a number of GPUs from 1 to %d, or a list such as 0,2",
                         option->name, text, MSI_MAX_GPUS);
}

/* Read a list of GPUs such as 0,2. */
static int read_gpu_list(msi_gpus *gpus, const msi_option *option, const char *list)
{
    const char *word;
    size_t length;
    gpus->kind = MSI_GPUS_LIST;
    for (gpus->n = 0; (word = msi_option_word(list, ',', gpus->n, &length)); gpus->n++) {
        char text[16];
        int64_t value;
        snprintf(text, sizeof text, "%.*s", (int)length, word);
        if (gpus->n == MSI_MAX_GPUS || msi_parse_integer(&value, option->name, text) || value < 0 ||
            value >= MSI_MAX_GPUS)
            return refuse_gpus(option, list);
        gpus->device[gpus->n] = (int)value;
    }
    return MSI_OK;
}

int msi_read_gpus(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    msi_gpus *gpus = &options->gpus;
    const char *text = argument[0];
    int64_t n;
    if (strchr(text, ',')) return read_gpu_list(gpus, option, text);
    gpus->kind = strcmp(text, "one") == 0    ? MSI_GPUS_ONE
                 : strcmp(text, "auto") == 0 ? MSI_GPUS_AUTO
                 : strcmp(text, "all") == 0  ? MSI_GPUS_ALL
                                             : MSI_GPUS_COUNT;
    if (gpus->kind != MSI_GPUS_COUNT) return MSI_OK;
    if (msi_parse_integer(&n, option->name, text) || n < 1 || n > MSI_MAX_GPUS) return refuse_gpus(option, text);
    gpus->n = (int)n;
    return MSI_OK;
}

int msi_read_real(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    double value;
    MSI_TRY(msi_parse_real(&value, dashed(option).text, argument[0]));
    if (value < option->low || value > option->high)
        return msi_error_set(MSI_EUSAGE, "-%s %s: give a number from %g to %g", option->name, argument[0], option->low,
                             option->high);
    memcpy(member_of(options, option), &value, sizeof value);
    return MSI_OK;
}

int msi_read_flux(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    double jy;
    const char *sigma = strstr(argument[0], "sigma");
    if (sigma && !sigma[5])
        return msi_error_set(MSI_EUSAGE, "-%s %s: give a flux; -auto-threshold is a threshold in units of the noise",
                             option->name, argument[0]);
    MSI_TRY(msi_parse_flux(&jy, dashed(option).text, argument[0]));
    if (jy < option->low || jy > option->high)
        return msi_error_set(MSI_EUSAGE, "-%s %s: give a flux from %g to %g Jy", option->name, argument[0], option->low,
                             option->high);
    memcpy(member_of(options, option), &jy, sizeof jy);
    return MSI_OK;
}

int msi_read_png_range(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    msi_picture_style *style = &options->picture;
    MSI_TRY(msi_parse_real(&style->low, dashed(option).text, argument[0]));
    MSI_TRY(msi_parse_real(&style->high, dashed(option).text, argument[1]));
    if (!(style->low < style->high))
        return msi_error_set(MSI_EUSAGE, "-%s %s %s: give the lower value first", option->name, argument[0],
                             argument[1]);
    style->has_range = options->png = 1;
    return MSI_OK;
}

static int positive_angle(double *out_rad, const msi_option *option, const char *text, double bare_rad)
{
    MSI_TRY(msi_parse_angle_or(out_rad, dashed(option).text, text, bare_rad));
    if (*out_rad <= 0) return msi_error_set(MSI_EUSAGE, "-%s %s: the angle must be larger than 0", option->name, text);
    return MSI_OK;
}

int msi_read_angle(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    double value;
    MSI_TRY(positive_angle(&value, option, argument[0], 0));
    memcpy(member_of(options, option), &value, sizeof value);
    return MSI_OK;
}

static const double ASEC_RAD = MSI_PI / 648000, DEG_RAD = MSI_PI / 180;

/* Return the index of text among the choices of the option, or a negative status. */
static int choice_index(const msi_option *option, const char *text)
{
    size_t length;
    const char *word, *choices = msi_option_choices(option);
    for (int i = 0; (word = msi_option_word(choices, '|', i, &length)); i++)
        if (strlen(text) == length && strncmp(word, text, length) == 0) return i;
    return msi_error_set(MSI_EUSAGE, "-%s %s: choose one of %s", option->name, text, choices);
}

int msi_read_choice(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    int value = choice_index(option, argument[0]);
    if (value < 0) return value;
    memcpy(member_of(options, option), &value, sizeof value);
    return MSI_OK;
}

int msi_read_word(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    int value = choice_index(option, argument[0]);
    if (value < 0) return value;
    memcpy(member_of(options, option), &argument[0], sizeof argument[0]);
    return MSI_OK;
}

int msi_read_range(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    int64_t range[2];
    for (int i = 0; i < 2; i++) MSI_TRY(msi_parse_integer(&range[i], dashed(option).text, argument[i]));
    if (range[0] < 0 || range[1] <= range[0])
        return msi_error_set(MSI_EUSAGE, "-%s %s %s: give 0 <= BEGIN < END; END itself is not selected", option->name,
                             argument[0], argument[1]);
    memcpy(member_of(options, option), range, sizeof range);
    return MSI_OK;
}

int msi_read_pair(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    int64_t pair[2];
    for (int i = 0; i < n_argument; i++) {
        MSI_TRY(msi_parse_integer(&pair[i], dashed(option).text, argument[i]));
        if (pair[i] < (int64_t)option->low || pair[i] > (int64_t)option->high)
            return msi_error_set(MSI_EUSAGE, "-%s %s %s: give two numbers from %.0f to %.0f", option->name, argument[0],
                                 argument[1], option->low, option->high);
    }
    memcpy(member_of(options, option), pair, sizeof pair);
    return MSI_OK;
}

int msi_read_interval(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    const char *end = argument[1];
    if (strcmp(end, "0") != 0) return msi_read_range(options, option, n_argument, argument);
    int64_t range[2] = {0, 0};
    MSI_TRY(msi_parse_integer(&range[0], dashed(option).text, argument[0]));
    if (range[0] < 0)
        return msi_error_set(MSI_EUSAGE, "-%s %s %s: give a BEGIN of 0 or more; END 0 is the end", option->name,
                             argument[0], end);
    memcpy(member_of(options, option), range, sizeof range);
    return MSI_OK;
}

int msi_read_size(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    int64_t size[2];
    for (int i = 0; i < 2; i++) {
        if (i == 0 && strpbrk(argument[0], "xX*,"))
            return msi_error_set(MSI_EUSAGE, "-%s %s: give width and height as two numbers, such as 2048 2048",
                                 option->name, argument[0]);
        MSI_TRY(msi_parse_integer(&size[i], dashed(option).text, argument[i]));
        if (size[i] < MIN_SIZE || size[i] > MAX_SIZE || size[i] % 2)
            return msi_error_set(MSI_EUSAGE, "-%s %s %s: give two even numbers from %d to %d", option->name,
                                 argument[0], argument[1], MIN_SIZE, MAX_SIZE);
    }
    options->geometry.nx = size[0];
    options->geometry.ny = size[1];
    return MSI_OK;
}

int msi_read_scale(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    const char *text = argument[0];
    double cell_rad;
    MSI_TRY(positive_angle(&cell_rad, option, text, DEG_RAD));
    options->bare_scale = text[strspn(text, "+-.0123456789eE")] ? NULL : text;
    options->geometry.cell_x_rad = options->geometry.cell_y_rad = cell_rad;
    return MSI_OK;
}

int msi_read_shift(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    options->shift_is_field = strcmp(argument[0], "field") == 0;
    if (options->shift_is_field) {
        MSI_TRY(msi_parse_integer(&options->shift_field, dashed(option).text, argument[1]));
        if (options->shift_field < 0)
            return msi_error_set(MSI_EUSAGE, "-%s field %s: fields are counted from 0", option->name, argument[1]);
    } else {
        MSI_TRY(msi_parse_ra(&options->shift_ra_rad, dashed(option).text, argument[0]));
        MSI_TRY(msi_parse_dec(&options->shift_dec_rad, dashed(option).text, argument[1]));
    }
    options->shift_set = 1;
    return MSI_OK;
}

/* Read the polarisation at the beginning of a text. Returns: the length of its name; 0 if there is none */
static int leading_pol(msi_pol *pol, const char *text)
{
    for (int i = MSI_POL_I; i <= MSI_POL_YY; i++) {
        *pol = (msi_pol)i;
        const char *name = msi_pol_name(*pol);
        size_t length = strlen(name);
        if (strncasecmp(text, name, length) == 0) return (int)length;
    }
    return 0;
}

/* Read a list of polarisations. Returned: list [MSI_MAX_POL], *n_pol  length of the list */
static int read_pols(msi_pol *list, int *n_pol, const msi_option *option, const char *const *argument)
{
    const char *p = argument[0];
    int n = 0;
    do {
        msi_pol pol;
        int length = leading_pol(&pol, p);
        if (!length)
            return msi_error_set(MSI_EUSAGE, "-%s %s: give a list of I Q U V, XX XY YX YY, RR RL LR LL, such as IQUV",
                                 option->name, argument[0]);
        for (int i = 0; i < n; i++)
            if (list[i] == pol)
                return msi_error_set(MSI_EUSAGE, "-%s %s: %.*s is given twice", option->name, argument[0], length, p);
        list[n++] = pol;
        p += length;
        if (p[0] == ',' && p[1]) p++;
    } while (*p);
    *n_pol = n;
    return MSI_OK;
}

int msi_read_pol(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    options->pol_given = 1;
    return read_pols(options->pol, &options->n_pol, option, argument);
}

int msi_read_link_pol(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    msi_pol list[MSI_MAX_POL];
    int n;
    MSI_TRY(read_pols(list, &n, option, argument));
    options->clean.join_pols = 1;
    options->clean.link_pols = 0;
    for (int i = 0; i < n; i++) options->clean.link_pols |= 1U << list[i];
    return MSI_OK;
}

/* Refuse words for weights that other programs use: robust, briggs=0.5, a number, superuniform. */
static int refuse_weight(const msi_option *option, const char *text)
{
    char *end;
    const char *number = text + strcspn(text, "+-.0123456789");
    const int is_briggs = strncasecmp(text, "briggs", 6) == 0 || strncasecmp(text, "robust", 6) == 0;
    const double robust = strtod(number, &end);
    const char *mode = strncasecmp(text, "briggsbwtaper", 13) == 0 ? "briggsbwtaper" : "briggs";
    if (strcasecmp(text, "superuniform") == 0)
        return msi_error_set(MSI_EUSAGE, "-%s %s: write -%s uniform -super-weight 3", option->name, text, option->name);
    if (!is_briggs && (number != text || end == number || *end)) return choice_index(option, text);
    if (end == number)
        return msi_error_set(MSI_EUSAGE, "-%s %s: write -%s %s and the robustness, such as -%s %s 0.5", option->name,
                             text, option->name, mode, option->name, mode);
    return msi_error_set(MSI_EUSAGE, "-%s %s: write -%s %s %g", option->name, text, option->name, mode, robust);
}

int msi_read_weight(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    double robust = 0;
    int choice = choice_index(option, argument[0]);
    if (choice < 0) return refuse_weight(option, argument[0]);
    if (n_argument > 1) {
        if (msi_parse_real(&robust, dashed(option).text, argument[1]) != MSI_OK || robust < -10 || robust > 10)
            return msi_error_set(MSI_EUSAGE,
                                 "-%s %s %s: give the robustness, a number from -10 to 10; -2 is close to "
                                 "uniform, 2 to natural",
                                 option->name, argument[0], argument[1]);
    }
    options->weight_given = 1;
    options->bandwidth_taper = choice > MSI_WEIGHT_BRIGGS;
    options->weighting.mode = options->bandwidth_taper ? MSI_WEIGHT_BRIGGS : (msi_weighting_mode)choice;
    options->weighting.robust = robust;
    return MSI_OK;
}

/* Read the width of a Gaussian taper: as an angle in the image, or as a length in wavelengths. */
static int taper_width(double *fwhm_rad, const msi_option *option, const char *text)
{
    static const struct {
        const char *unit;
        double lambda;
    } units[] = {{"mlambda", 1e6}, {"klambda", 1e3}, {"lambda", 1}};
    const size_t length = strlen(text);
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        char number[64];
        double value = 0;
        const size_t n = strlen(units[i].unit);
        if (length <= n || strcasecmp(text + length - n, units[i].unit) != 0) continue;
        snprintf(number, sizeof number, "%.*s", (int)(length - n), text);
        if (length - n >= sizeof number || msi_parse_real(&value, dashed(option).text, number) || !(value > 0))
            return msi_error_set(MSI_EUSAGE, "-%s %s: give a positive number of %s, such as 40%s", option->name, text,
                                 units[i].unit, units[i].unit);
        *fwhm_rad = msi_uv_taper_fwhm(value * units[i].lambda);
        return MSI_OK;
    }
    MSI_TRY(msi_parse_angle_or(fwhm_rad, dashed(option).text, text, ASEC_RAD));
    if (*fwhm_rad < 0)
        return msi_error_set(MSI_EUSAGE, "-%s %s: the width must not be below 0; 0 is no taper", option->name, text);
    return MSI_OK;
}

int msi_read_taper(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    enum { MOST = 3 };
    char word[MOST][64] = {{0}};
    const char *p;
    size_t length;
    int n = 0;
    for (; (p = msi_option_word(argument[0], ',', n, &length)); n++) {
        if (n == MOST || !length || length >= sizeof *word)
            return msi_error_set(MSI_EUSAGE,
                                 "-%s %s: give one width, or two and a position angle, such as "
                                 "20asec,10asec,30deg or 40klambda",
                                 option->name, argument[0]);
        snprintf(word[n], sizeof *word, "%.*s", (int)length, p);
    }
    msi_uv_taper *t = &options->weighting.taper;
    t->minor_rad = t->pa_rad = 0;
    MSI_TRY(taper_width(&t->major_rad, option, n ? word[0] : argument[0]));
    if (n > 1) {
        MSI_TRY(taper_width(&t->minor_rad, option, word[1]));
        if (!(t->major_rad > 0 && t->minor_rad > 0))
            return msi_error_set(MSI_EUSAGE, "-%s %s: both widths must be larger than 0", option->name, argument[0]);
    }
    return n > 2 ? msi_parse_angle_or(&t->pa_rad, dashed(option).text, word[2], DEG_RAD) : MSI_OK;
}

int msi_read_mgain(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    options->clean.mgain_given = 1;
    return msi_read_real(options, option, n_argument, argument);
}

int msi_read_horizon(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    double *rad = &options->clean.horizon_rad;
    (void)n_argument;
    MSI_TRY(msi_parse_angle_or(rad, dashed(option).text, argument[0], DEG_RAD));
    options->clean.has_horizon = 1;
    if (fabs(*rad) <= MSI_PI / 2) return MSI_OK;
    return msi_error_set(MSI_EUSAGE, "-%s %s: the distance from the horizon must be -90 to 90 degrees", option->name,
                         argument[0]);
}

int msi_read_local_rms(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    options->clean.local_rms = 1;
    return option->choices ? msi_read_choice(options, option, n_argument, argument)
                           : msi_read_real(options, option, n_argument, argument);
}

int msi_read_solutions(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    if (!*argument[0] || !*argument[1])
        return msi_error_set(MSI_EUSAGE, "-%s: an empty argument; give files and the names of tables", option->name);
    options->facets.files = argument[0];
    options->facets.tables = argument[1];
    return MSI_OK;
}

int msi_read_beam_shape(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    msi_beam *beam = &options->clean.beam.given;
    MSI_TRY(positive_angle(&beam->major_rad, option, argument[0], ASEC_RAD));
    if (n_argument < 3) {
        *beam = (msi_beam){beam->major_rad, beam->major_rad, 0};
        return MSI_OK;
    }
    MSI_TRY(positive_angle(&beam->minor_rad, option, argument[1], ASEC_RAD));
    MSI_TRY(msi_parse_angle_or(&beam->pa_rad, dashed(option).text, argument[2], DEG_RAD));
    if (beam->minor_rad > beam->major_rad)
        return msi_error_set(MSI_EUSAGE, "-%s %s %s: give the larger width first", option->name, argument[0],
                             argument[1]);
    beam->pa_rad = fmod(beam->pa_rad, MSI_PI);
    if (beam->pa_rad < 0) beam->pa_rad += MSI_PI;
    return MSI_OK;
}

int msi_read_restore(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    const int is_list = strcmp(option->name, "restore-list") == 0;
    for (int i = 0; i < n_argument; i++)
        if (!*argument[i]) return msi_error_set(MSI_EUSAGE, "-%s: a file name is empty", option->name);
    if (options->restore.residual && options->restore.is_list != is_list)
        return msi_error_set(MSI_EUSAGE, "-restore and -restore-list: give only one of them");
    options->restore = (msi_restore_options){argument[0], argument[1], argument[2], is_list};
    return MSI_OK;
}

int msi_read_draw_centre(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    MSI_TRY(msi_parse_ra(&options->draw.ra_rad, dashed(option).text, argument[0]));
    MSI_TRY(msi_parse_dec(&options->draw.dec_rad, dashed(option).text, argument[1]));
    options->draw.has_centre = 1;
    return MSI_OK;
}

int msi_read_scales(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    msi_clean_options *c = &options->clean;
    const char *p = argument[0];
    int n = 0;
    c->no_points = 0;
    for (;; n++) {
        char word[32];
        const size_t length = strcspn(p, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, p);
        double value = -1;
        if (length >= sizeof word || msi_parse_real(&value, dashed(option).text, word) || value < 0 ||
            (n && value <= c->scale[n - 1]))
            return msi_error_set(MSI_EUSAGE, "-%s %s: give widths in pixels, ascending, such as 0,8,16,32",
                                 option->name, argument[0]);
        /* The cleaner's list always begins with points. */
        if (!n && value > 0) {
            c->no_points = 1;
            c->scale[n++] = 0;
        }
        if (n == MSI_CLEAN_MAX_SCALE)
            return msi_error_set(MSI_EUSAGE, "-%s %s: give at most %d scales", option->name, argument[0],
                                 MSI_CLEAN_MAX_SCALE - c->no_points);
        c->scale[n] = value;
        if (!p[length]) break;
        p += length + 1;
    }
    c->n_scale = n + 1;
    return MSI_OK;
}

/* Read a list such as 0,2,5, without duplicates. Given and returned: *list  owned, replaced */
static int read_ids(const int **list, int *n_list, const msi_option *option, const char *text)
{
    int64_t n_max = 1;
    for (const char *p = text; *p; p++) n_max += *p == ',';
    int *ids, n = 0;
    MSI_TRY(msi_alloc(&ids, n_max, sizeof *ids, "option list"));
    const char *p = text;
    for (;;) {
        char digits[16];
        size_t length = strcspn(p, ",");
        int64_t id = -1;
        if (length > 0 && length < sizeof digits && strspn(p, "0123456789") >= length) {
            snprintf(digits, sizeof digits, "%.*s", (int)length, p);
            if (msi_parse_integer(&id, option->name, digits) != MSI_OK || id > INT_MAX) id = -1;
        }
        if (id < 0) {
            msi_free(ids);
            return msi_error_set(
                MSI_EUSAGE, "-%s %s: give numbers from 0, separated by commas, such as 0,2%s", option->name, text,
                strcmp(option->name, "field") == 0 ? ", or all" : "; for a CASA expression use -select-spw");
        }
        int seen = 0;
        for (int i = 0; i < n; i++) seen |= ids[i] == id;
        if (!seen) ids[n++] = (int)id;
        if (!p[length]) break;
        p += length + 1;
    }
    msi_free((void *)*list);
    *list = ids;
    *n_list = n;
    return MSI_OK;
}

static int has_letter(const char *text)
{
    while (*text && !isalpha((unsigned char)*text)) text++;
    return *text != 0;
}

/* Read the frequency in the first `length` characters. Returns: 0; another value if they are no frequency */
static int read_frequency(double *hz, const char *text, size_t length)
{
    char number[48];
    if (length >= sizeof number) return MSI_EUSAGE;
    snprintf(number, sizeof number, "%.*s", (int)length, text);
    return msi_parse_frequency(hz, "a frequency", number);
}

int msi_read_splits(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    msi_channel_division *d = &options->division;
    int64_t n_most = 1;
    double *hz;
    const char *word;
    size_t length;
    for (const char *p = argument[0]; *p; p++) n_most += *p == ',';
    MSI_TRY(msi_alloc(&hz, n_most, sizeof *hz, "option list"));
    msi_free((void *)d->split_hz);
    d->split_hz = hz;
    for (d->n_split = 0; (word = msi_option_word(argument[0], ',', (int)d->n_split, &length)); d->n_split++)
        if (read_frequency(&hz[d->n_split], word, length) || (d->n_split && hz[d->n_split] <= hz[d->n_split - 1]))
            break;
    if (d->n_split == n_most) return MSI_OK;
    d->n_split = 0;
    return msi_error_set(MSI_EUSAGE, "-%s %s: give ascending frequencies, such as 870e6,920e6 or 870MHz,0.92GHz",
                         option->name, argument[0]);
}

int msi_read_correction(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    msi_clean_options *c = &options->clean;
    const char *word;
    size_t length;
    int n = 0;
    if (read_frequency(&c->correction_hz, argument[0], strlen(argument[0])))
        return msi_error_set(MSI_EUSAGE, "-%s %s: give a frequency above 0, such as 150e6 or 150MHz", option->name,
                             argument[0]);
    for (; (word = msi_option_word(argument[1], ',', n, &length)); n++) {
        char text[64];
        snprintf(text, sizeof text, "%.*s", (int)length, word);
        if (n == MSI_CLEAN_MAX_TERM || length >= sizeof text ||
            msi_parse_real(&c->correction_term[n], dashed(option).text, text))
            break;
    }
    c->n_correction = n;
    if (!word && n && c->correction_term[0] > 0) return MSI_OK;
    return msi_error_set(MSI_EUSAGE,
                         "-%s %s: give a flux above 0, a spectral index and so on, at most %d numbers, "
                         "such as 83.084,-0.699,-0.110",
                         option->name, argument[1], MSI_CLEAN_MAX_TERM);
}

int msi_read_reference(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    /* tclean's default is an empty text. */
    if (!*argument[0] || read_frequency(&options->clean.reference_hz, argument[0], strlen(argument[0])) == 0)
        return MSI_OK;
    return msi_error_set(MSI_EUSAGE, "-%s %s: give a frequency above 0, such as 1.4e9 or 1.4GHz", option->name,
                         argument[0]);
}

int msi_read_draw_band(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    msi_draw_options *d = &options->draw;
    if (read_frequency(&d->freq_hz, argument[0], strlen(argument[0])))
        return msi_error_set(MSI_EUSAGE, "-%s %s: give a frequency above 0, such as 150e6 or 150MHz", option->name,
                             argument[0]);
    if (strcmp(argument[1], "0") == 0)
        d->bandwidth_hz = 0;
    else if (read_frequency(&d->bandwidth_hz, argument[1], strlen(argument[1])))
        return msi_error_set(MSI_EUSAGE, "-%s %s: give a width in Hz, such as 10e6 or 10MHz", option->name,
                             argument[1]);
    if (d->bandwidth_hz < 2 * d->freq_hz) return MSI_OK;
    return msi_error_set(MSI_EUSAGE, "-%s %s %s: the band begins below 0 Hz; give its centre and its whole width",
                         option->name, argument[0], argument[1]);
}

int msi_read_field(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    msi_ms_selection *s = &options->selection;
    if (strcmp(argument[0], "all") != 0) {
        if (has_letter(argument[0]))
            return msi_error_set(
                MSI_EUSAGE, "-%s %s: give field numbers, such as 0,2, or all; to select by name use -select-field %s",
                option->name, argument[0], argument[0]);
        s->all_fields = 0;
        return read_ids(&s->fields, &s->n_field, option, argument[0]);
    }
    s->all_fields = 1;
    s->n_field = 0;
    return MSI_OK;
}

int msi_read_spws(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    return read_ids(&options->selection.spws, &options->selection.n_spw, option, argument[0]);
}

int msi_read_name(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    const char *name = argument[0], *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    const int is_folder = strcmp(last, ".") == 0 || strcmp(last, "..") == 0;
    if (*last == 0 || is_folder)
        return msi_error_set(MSI_EUSAGE, "-%s %s: give a prefix for file names, such as %s%smyimage", option->name,
                             name, name, is_folder ? "/" : "");
    options->name = name;
    return MSI_OK;
}

int msi_read_help(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)option;
    options->action = MSI_ACTION_HELP;
    if (n_argument > 0) options->help_topic = argument[0];
    return MSI_OK;
}

int msi_read_version(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)option;
    (void)n_argument;
    (void)argument;
    options->action = MSI_ACTION_VERSION;
    return MSI_OK;
}

int msi_read_spectral(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    static const struct {
        const char *name;
        double size;
        int is_velocity;
    } units[] = {{"Hz", 1, 0}, {"kHz", 1e3, 0}, {"MHz", 1e6, 0}, {"GHz", 1e9, 0}, {"m/s", 1, 1}, {"km/s", 1e3, 1}};
    char *unit;
    const double number = strtod(argument[0], &unit);
    msi_spectral_value value = {0};
    if (unit > argument[0] && !*unit && fabs(number) < 1e9 && number == floor(number)) {
        value.unit = MSI_SPECTRAL_CHANNEL;
        value.value = number;
    }
    for (size_t i = 0; unit > argument[0] && isfinite(number) && i < sizeof units / sizeof *units; i++) {
        if (strcasecmp(unit, units[i].name) != 0) continue;
        value.unit = units[i].is_velocity ? MSI_SPECTRAL_M_S : MSI_SPECTRAL_HZ;
        value.value = number * units[i].size;
    }
    if (!value.unit)
        return msi_error_set(MSI_EUSAGE,
                             "-%s %s: give a number of channels, such as 10, or a frequency or velocity with its unit, "
                             "such as 1.42GHz or -30km/s",
                             option->name, argument[0]);
    memcpy(member_of(options, option), &value, sizeof value);
    return MSI_OK;
}

int msi_read_frequency(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    double hz;
    MSI_TRY(msi_parse_frequency(&hz, dashed(option).text, argument[0]));
    memcpy(member_of(options, option), &hz, sizeof hz);
    return MSI_OK;
}

int msi_read_frame(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    if (strcasecmp(argument[0], "data") == 0) {
        memset(member_of(options, option), 0, sizeof(char *));
        return MSI_OK;
    }
    static const char *const frames[] = {"LSRK", "BARY", "TOPO", "LSRD", "GEO", "GALACTO", "LGROUP", "CMB"};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++)
        if (strcasecmp(argument[0], frames[i]) == 0) {
            memcpy(member_of(options, option), &frames[i], sizeof frames[i]);
            return MSI_OK;
        }
    return msi_error_set(MSI_EUSAGE, "-%s %s: give LSRK, BARY, TOPO, LSRD, GEO, GALACTO, LGROUP, CMB or data",
                         option->name, argument[0]);
}

int msi_read_tclean(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)options, (void)n_argument, (void)argument;
    return msi_error_set(MSI_EUSAGE, "-%s: it is given twice; leave one of them out", option->name);
}

int msi_read_uvcontsub(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    int64_t order;
    MSI_TRY(integer_in_range(&order, option, argument[0]));
    options->cube.continuum.is_set = 1;
    options->cube.continuum.order = (int)order;
    return MSI_OK;
}

int msi_read_fit_channels(msi_options *options, const msi_option *option, int n_argument, const char *const *argument)
{
    (void)n_argument;
    return msi_continuum_parse(&options->cube.continuum, dashed(option).text, argument[0]);
}
