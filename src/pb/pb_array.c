/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "src/pb/pb_array.h"

#include <math.h>
#include <string.h>

#include "core/log.h"
#include "core/memory.h"
#include "core/status.h"
#include "core/units.h"
#include "src/sky/phase_shift.h"

/* ---- Sites and times ---- */

/* Compute the matrix from J2000 to the mean equator and equinox of a date (J. H. Lieske et al., A&A 58, 1, 1977).
 * Given: centuries since J2000 */
static void precession(double t, double p[3][3])
{
    const double asec = MSI_PI / 180 / 3600;
    const double zeta = (2306.2181 * t + 0.30188 * t * t + 0.017998 * t * t * t) * asec;
    const double z = (2306.2181 * t + 1.09468 * t * t + 0.018203 * t * t * t) * asec;
    const double theta = (2004.3109 * t - 0.42665 * t * t - 0.041833 * t * t * t) * asec;
    const double cx = cos(zeta), sx = sin(zeta), cz = cos(z), sz = sin(z), ct = cos(theta), st = sin(theta);
    const double rows[3][3] = {{cx * ct * cz - sx * sz, -sx * ct * cz - cx * sz, -st * cz},
                               {cx * ct * sz + sx * cz, -sx * ct * sz + cx * cz, -st * sz},
                               {cx * st, -sx * st, ct}};
    memcpy(p, rows, sizeof rows);
}

/* Rotate a vector from the equator and equinox of date to J2000. */
static void to_j2000(const double p[3][3], const double *of_date, double *out)
{
    for (int i = 0; i < 3; i++) out[i] = p[0][i] * of_date[0] + p[1][i] * of_date[1] + p[2][i] * of_date[2];
}

/* Compute the geodetic latitude and longitude of a place (B. R. Bowring, Survey Review 181, 323, 1976; WGS 84). */
static void geodetic(const double *itrf_m, double *latitude, double *longitude)
{
    const double a = 6378137, f = 1 / 298.257223563, b = a * (1 - f), e2 = f * (2 - f), d2 = e2 / (1 - e2);
    const double r = hypot(itrf_m[0], itrf_m[1]), u = atan2(itrf_m[2] * a, r * b);
    *latitude = atan2(itrf_m[2] + d2 * b * pow(sin(u), 3), r - e2 * a * pow(cos(u), 3));
    *longitude = atan2(itrf_m[1], itrf_m[0]);
}

/* Compute unit vectors along east, north and up at a place. */
static void site_axes(const double *itrf_m, double axes[3][3])
{
    double latitude, longitude;
    geodetic(itrf_m, &latitude, &longitude);
    const double cl = cos(longitude), sl = sin(longitude), cb = cos(latitude), sb = sin(latitude);
    const double rows[3][3] = {{-sl, cl, 0}, {-sb * cl, -sb * sl, cb}, {cb * cl, cb * sl, sb}};
    memcpy(axes, rows, sizeof rows);
}

static msi_pb_horizon horizon_at(const double *itrf_m, double mjd_s, double weight)
{
    double latitude, longitude, p[3][3];
    msi_pb_horizon t = {.mjd_s = mjd_s, .weight = weight};
    geodetic(itrf_m, &latitude, &longitude);
    const double lst = 2 * MSI_PI * msi_sidereal_turns(mjd_s / 86400) + longitude;
    precession((mjd_s / 86400 - 51544.5) / 36525, p);
    const double cl = cos(lst), sl = sin(lst), cb = cos(latitude), sb = sin(latitude);
    to_j2000(p, (const double[]){cb * cl, cb * sl, sb}, t.zenith);
    to_j2000(p, (const double[]){-sb * cl, -sb * sl, cb}, t.north);
    to_j2000(p, (const double[]){-sl, cl, 0}, t.east);
    return t;
}

static void find_times(msi_pb_site *s, const msi_ms_row_times *t)
{
    s->n_time = 0;
    for (int i = 0; s->is_placed && i < MSI_MS_TIME_BINS; i++)
        if (t->weight[i] > 0)
            s->time[s->n_time++] = horizon_at(s->position_itrf_m, t->time_s[i] / t->weight[i], t->weight[i]);
}

/* Compute the share of the baselines that each pair of kinds of dishes has, with the same weight for all antennas. */
static int find_pairs(msi_pb_site *s, const msi_ms_beam_facts *f)
{
    const uint8_t *class_of;
    double n[MSI_PB_STATIONS] = {0}, all = 0;
    const int n_class = s->n_class = msi_pb_model_classes(s->model, &class_of);
    s->is_by_antenna = msi_pb_model_has_stations(s->model);
    MSI_TRY(msi_alloc(&s->pair, (int64_t)n_class * n_class, sizeof *s->pair, "primary beams"));
    if (s->is_by_antenna)
        MSI_TRY(msi_alloc(&s->counted, (int64_t)n_class * n_class, sizeof *s->counted, "primary beams"));
    int first[MSI_MS_KINDS] = {0}; /* 1 + the first antenna of each kind */
    for (int64_t i = 0; i < f->n_antenna; i++) {
        const int k = n_class > 1 ? class_of[i] : 0, of = f->kind[i];
        n[k]++;
        if (!s->is_by_antenna && first[of] && s->class_of_kind[of] != k)
            return msi_error_set(MSI_EINPUT,
                                 "antennas %d and %lld have different primary beams, but the same DISH_DIAMETER; give "
                                 "them different diameters",
                                 first[of] - 1, (long long)i);
        if (!first[of]) first[of] = (int)i + 1;
        s->class_of_kind[f->kind[i]] = s->is_by_antenna ? 0 : k;
    }
    for (int p = 0; p < n_class; p++)
        for (int q = p; q < n_class; q++)
            all += s->pair[p * n_class + q] = p == q ? n[p] * (n[p] - 1) / 2 : n[p] * n[q];
    if (!(all > 0)) s->pair[0] = all = 1;
    for (int i = 0; i < n_class * n_class; i++) s->pair[i] /= all;
    return MSI_OK;
}

/* Return 1 if the response in a direction of the sky depends on the time. */
static int model_turns(const msi_pb_model *m)
{
    return msi_pb_model_mount(m) == MSI_PB_FIXED ||
           (msi_pb_model_mount(m) == MSI_PB_ALTAZ && !msi_pb_model_is_scalar(m));
}

/* Return 1 if the feeds of a set are R and L. */
static int has_circular_feeds(const msi_ms_reader *reader, int set)
{
    for (int i = 0; i < msi_ms_reader_n_spw(reader); i++) {
        const msi_ms_spw *s = msi_ms_reader_spw(reader, i);
        if (s->set == set) return s->corr[0] >= MSI_POL_RR && s->corr[0] <= MSI_POL_LL;
    }
    return 0;
}

/* Find the part of the response for which the data are already corrected. Given: is_logged  1: log it.
 * Returns: 0, MSI_EINPUT (the model does not have this part separately) */
static int find_applied(msi_pb_site *s, const msi_ms_stations *stations, int is_differential, int is_logged)
{
    static const char *const words[] = {"", "beams of dipoles", "array factors", "beams"};
    s->applied = is_differential ? MSI_MS_APPLIED_FULL : (msi_ms_applied)stations->applied;
    memcpy(s->applied_rad, stations->applied_rad, sizeof s->applied_rad);
    if (msi_pb_model_is_on_sky(s->model) && s->applied != MSI_MS_APPLIED_NONE && s->applied != MSI_MS_APPLIED_FULL)
        return msi_error_set(MSI_EINPUT,
                             "%s: the data are corrected for the %s in a direction, which the file does not have; give "
                             "-pb lofar, or data that are not corrected",
                             msi_pb_model_name(s->model), words[s->applied]);
    if (s->applied == MSI_MS_APPLIED_NONE || !is_logged) return MSI_OK;
    if (isfinite(s->applied_rad[0]))
        msi_log_info("primary beam: relative to the %s at %.4f, %.4f degrees, for which the data are corrected",
                     words[s->applied], s->applied_rad[0] * 180 / MSI_PI, s->applied_rad[1] * 180 / MSI_PI);
    else
        msi_log_info("primary beam: relative to the %s in the direction in which the stations point",
                     words[s->applied]);
    return MSI_OK;
}

static int make_set(msi_pb_site *s, const char *word, const msi_ms_beam_facts *f, const char *const *name,
                    int is_circular, double low_hz, double high_hz, char note[MSI_PB_NOTE])
{
    msi_pb_set of = {.telescope = f->telescope,
                     .low_hz = low_hz,
                     .high_hz = high_hz,
                     .n_antenna = f->n_antenna,
                     .name = name,
                     .is_circular = is_circular,
                     .diameter_m = f->diameter_m,
                     .delay = f->has_delay ? f->delay : NULL,
                     .delays_differ = f->has_delay == 2,
                     .stations = f->stations,
                     .itrf_m = f->itrf_m,
                     .first_s = INFINITY,
                     .last_s = -INFINITY};
    for (int i = 0; i < MSI_MS_TIME_BINS; i++) {
        if (!(f->row_times.weight[i] > 0)) continue;
        const double mean_s = f->row_times.time_s[i] / f->row_times.weight[i];
        of.first_s = fmin(of.first_s, mean_s);
        of.last_s = fmax(of.last_s, mean_s);
    }
    const double *p = f->position_itrf_m;
    site_axes(p, of.site_axes);
    MSI_TRY(msi_pb_model_make(&s->model, word, &of, note));
    MSI_TRY(find_pairs(s, f));
    const int is_placed = hypot(hypot(p[0], p[1]), p[2]) > 1e6;
    s->turns = model_turns(s->model);
    if (s->turns && !is_placed)
        return msi_error_set(MSI_EINPUT,
                             "the primary beam of %s turns on the sky, but ANTENNA has no positions on the Earth",
                             msi_pb_model_name(s->model));
    s->is_placed = is_placed;
    memcpy(s->position_itrf_m, p, sizeof s->position_itrf_m);
    find_times(s, &f->row_times);
    return MSI_OK;
}

void msi_pb_array_weigh(msi_pb_array *a, int set, const double *pair, const msi_ms_row_times *times)
{
    double all = 0;
    if (set >= a->n_set) return;
    msi_pb_site *s = &a->set[set];
    for (int i = 0; i < MSI_MS_PAIRS; i++) all += pair[i];
    if (!(all > 0)) return;
    find_times(s, times);
    if (s->is_by_antenna) {
        double counted = 0;
        for (int i = 0; i < s->n_class * s->n_class; i++) counted += s->counted[i];
        for (int i = 0; counted > 0 && i < s->n_class * s->n_class; i++) s->pair[i] = s->counted[i] / counted;
        return;
    }
    memset(s->pair, 0, (size_t)(s->n_class * s->n_class) * sizeof *s->pair);
    for (int i = 0; i < MSI_MS_PAIRS; i++) {
        const int p = s->class_of_kind[i / MSI_MS_KINDS], q = s->class_of_kind[i % MSI_MS_KINDS];
        s->pair[(p < q ? p : q) * s->n_class + (p < q ? q : p)] += pair[i] / all;
    }
}

void msi_pb_array_count(msi_pb_array *a, const msi_ms_block *block, int32_t n_chan, const float *weight)
{
    if (block->set >= a->n_set || !a->set[block->set].is_by_antenna) return;
    const msi_pb_site *s = &a->set[block->set];
    for (int64_t i = 0; i < block->n_row; i++) {
        const int32_t p = block->antenna[2 * i], q = block->antenna[2 * i + 1];
        double of_row = 0;
        for (int32_t c = 0; c < n_chan; c++) of_row += (double)weight[i * n_chan + c];
        if (p < 0 || q < 0 || p >= s->n_class || q >= s->n_class || !(of_row > 0) || !isfinite(of_row)) continue;
        s->counted[(p < q ? p : q) * s->n_class + (p < q ? q : p)] += of_row;
    }
}

int64_t msi_pb_array_pointing(const msi_pb_array *a, int set, int field_id)
{
    for (int64_t i = 0; i < a->n_pointing; i++)
        if (a->pointing[i].set == set && a->pointing[i].field_id == field_id) return i;
    return -1;
}

/* Pointings of the fields in the table POINTING. */
typedef struct pointing_summary {
    int64_t n_known, n_unknown;  /* numbers of fields with and without a pointing */
    double farthest_rad;         /* largest distance of a pointing from the phase centre */
    double spread_rad;           /* largest movement of the dishes during a field */
    int far_field, spread_field; /* rows of FIELD of these two fields */
} pointing_summary;

static int list_pointings(msi_pb_array *a, const msi_ms_reader *reader, int by_table, pointing_summary *summary)
{
    int64_t at = 0, n = 0, n_row;
    msi_pb_pointing p = {0};
    *summary = (pointing_summary){0};
    while (msi_ms_reader_pointing(reader, &at, &p.set, &p.field_id, &p.ra_rad, &p.dec_rad, &n_row)) n++;
    MSI_TRY(msi_alloc(&a->pointing, n ? n : 1, sizeof *a->pointing, "pointings"));
    for (at = 0; msi_ms_reader_pointing(reader, &at, &p.set, &p.field_id, &p.ra_rad, &p.dec_rad, &n_row);) {
        const msi_ms_aim aim = msi_ms_reader_aim(reader, at);
        p.weight = (double)n_row;
        p.beam = msi_ms_reader_beam_dir(reader, at);
        a->pointing[a->n_pointing++] = p;
        summary->n_known += aim.is_known;
        summary->n_unknown += !aim.is_known;
        if (!aim.is_known) continue;
        const double off = msi_phase_shift_angle(p.ra_rad, p.dec_rad, aim.ra_rad, aim.dec_rad);
        if (off > summary->farthest_rad) summary->far_field = p.field_id;
        if (aim.spread_rad > summary->spread_rad) summary->spread_field = p.field_id;
        summary->farthest_rad = fmax(summary->farthest_rad, off);
        summary->spread_rad = fmax(summary->spread_rad, aim.spread_rad);
        if (!by_table) continue;
        a->pointing[a->n_pointing - 1].ra_rad = aim.ra_rad;
        a->pointing[a->n_pointing - 1].dec_rad = aim.dec_rad;
    }
    return MSI_OK;
}

/* Log pointings that differ from the phase centres. */
static void log_pointings(const msi_pb_array *a, int by_table, const pointing_summary *summary)
{
    static const double NOTED = 0.05; /* part of the beam's width; changes the power by 1 % at half power */
    const double amin = 60 * 180 / MSI_PI, widths = summary->farthest_rad / a->width_rad;
    if (a->n_set && msi_pb_model_mount(a->set[0].model) == MSI_PB_FIXED) return;
    if (!by_table) {
        if (widths > NOTED)
            msi_log_warning("primary beam: in field %d the dishes point %.3g arcmin from the phase centre by POINTING, "
                            "%.2g of the beam's width; -use-pointing places the beam there",
                            summary->far_field, summary->farthest_rad * amin, widths);
        return;
    }
    if (summary->n_known)
        msi_log_info(
            "primary beam: pointings of %lld field%s by POINTING, up to %.3g arcmin from the phase centre, %.2g "
            "of the beam's width",
            (long long)summary->n_known, msi_plural(summary->n_known), summary->farthest_rad * amin, widths);
    if (summary->n_unknown)
        msi_log_warning("-use-pointing: POINTING has no directions for %lld field%s; the beam is at the phase centre "
                        "there",
                        (long long)summary->n_unknown, msi_plural(summary->n_unknown));
    if (summary->spread_rad > NOTED * a->width_rad)
        msi_log_warning("primary beam: the dishes move by %.3g arcmin while they observe field %d, %.2g of the beam's "
                        "width; the beam is at their median",
                        summary->spread_rad * amin, summary->spread_field, summary->spread_rad / a->width_rad);
}

/* List the names of a set's antennas. Returned: *name  owned */
static int list_names(const char ***name, const msi_ms_reader *reader, int set)
{
    int64_t n;
    const msi_ms_name *of = msi_ms_reader_antenna_names(reader, set, &n);
    MSI_TRY(msi_alloc(name, n + 1, sizeof **name, "names of antennas"));
    for (int64_t i = 0; i < n; i++) (*name)[i] = of ? of[i].text : "";
    return MSI_OK;
}

int msi_pb_array_make(msi_pb_array **out, const msi_pb_choice *choice, const msi_ms_reader *reader, double low_hz,
                      double high_hz, const char *frame)
{
    msi_pb_array *a;
    pointing_summary summary;
    *out = NULL;
    if (strcmp(frame, "J2000") && strcmp(frame, "ICRS"))
        return msi_error_set(MSI_EINPUT, "primary beams need directions in J2000 or ICRS, not in %s", frame);
    MSI_TRY(msi_alloc(&a, 1, sizeof *a, "primary beams"));
    a->width_rad = MSI_PI;
    int rc = list_pointings(a, reader, choice->by_table, &summary);
    for (int64_t i = 0; i < a->n_pointing; i++)
        if (a->pointing[i].set >= a->n_set) a->n_set = a->pointing[i].set + 1;
    if (!rc) rc = msi_alloc(&a->set, a->n_set ? a->n_set : 1, sizeof *a->set, "primary beams");
    char last[MSI_PB_NOTE] = "";
    for (int i = 0; !rc && i < a->n_set; i++) {
        const msi_ms_beam_facts f = msi_ms_reader_beam_facts(reader, i);
        char note[MSI_PB_NOTE] = "";
        const char **name = NULL;
        rc = list_names(&name, reader, i);
        if (!rc)
            rc = make_set(&a->set[i], choice->word, &f, name, has_circular_feeds(reader, i), low_hz, high_hz, note);
        msi_free(name);
        if (!rc && strcmp(note, last) != 0 && !choice->is_quiet) msi_log_info("primary beam: %s", note);
        if (!rc && f.stations && (a->set[i].is_by_antenna || msi_pb_model_is_on_sky(a->set[i].model)))
            rc = find_applied(&a->set[i], f.stations, choice->is_differential,
                              strcmp(note, last) != 0 && !choice->is_quiet);
        memcpy(last, note, sizeof last);
        for (int k = 0; !rc && k < a->set[i].n_class; k++)
            a->width_rad = fmin(a->width_rad, msi_pb_model_width(a->set[i].model, k, high_hz));
    }
    if (!rc && !choice->is_quiet) log_pointings(a, choice->by_table, &summary);
    if (rc)
        msi_pb_array_free(a);
    else
        *out = a;
    return rc;
}

void msi_pb_array_free(msi_pb_array *a)
{
    if (!a) return;
    for (int i = 0; a->set && i < a->n_set; i++) {
        msi_pb_model_free(a->set[i].model);
        msi_free(a->set[i].pair);
        msi_free(a->set[i].counted);
    }
    msi_free(a->set);
    msi_free(a->pointing);
    msi_free(a);
}

const char *msi_pb_array_name(const msi_pb_array *a)
{
    return msi_pb_model_name(a->set[0].model);
}

int msi_pb_array_refuse_stations(const msi_pb_array *a, const char *option)
{
    for (int i = 0; i < a->n_set; i++)
        if (a->set[i].is_by_antenna)
            return msi_error_set(MSI_EINPUT,
                                 "%s: each station of %s has its own beam, which is possible by facets only: give "
                                 "-facet-regions or -facet-auto, with -apply-facet-beam",
                                 option, msi_pb_array_name(a));
    return MSI_OK;
}

/* ---- Jones matrices ---- */

static double dot(const double *a, const double *b)
{
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

/* Compute the unit vector of a direction. */
static void unit_vector(const double *ra_dec, double *out)
{
    double axes[3][3];
    msi_phase_shift_axes(ra_dec[0], ra_dec[1], axes);
    memcpy(out, axes[2], sizeof axes[2]);
}

void msi_pb_view_make(msi_pb_view *v, const msi_pb_array *a, const msi_pb_pointing *p, const double centre[2])
{
    const double own[2] = {p->ra_rad, p->dec_rad};
    msi_phase_shift shift;
    double axes[3][3];
    v->site = &a->set[p->set];
    msi_phase_shift_make(&shift, centre[0], centre[1], p->ra_rad, p->dec_rad);
    memcpy(v->rotation, shift.rotation, sizeof v->rotation);
    msi_phase_shift_axes(p->ra_rad, p->dec_rad, axes);
    unit_vector(p->beam ? p->beam->station_rad : own, v->station);
    unit_vector(p->beam ? p->beam->tile_rad : own, v->tile);
    if (isfinite(v->site->applied_rad[0]))
        unit_vector(v->site->applied_rad, v->applied);
    else
        memcpy(v->applied, v->station, sizeof v->applied);
    memcpy(v->east, axes[0], sizeof v->east);
    memcpy(v->north, axes[1], sizeof v->north);
    msi_phase_shift_axes(centre[0], centre[1], v->axes);
}

int msi_pb_array_views(const msi_pb_array *a, const double centre[2], msi_pb_view **view)
{
    MSI_TRY(msi_alloc(view, a->n_pointing + 1, sizeof **view, "pointings"));
    for (int64_t i = 0; i < a->n_pointing; i++) msi_pb_view_make(&(*view)[i], a, &a->pointing[i], centre);
    return MSI_OK;
}

/* Convert a direction to components along east, north and up. */
static void to_horizon(const msi_pb_horizon *h, const double *direction, double *out)
{
    out[0] = dot(direction, h->east);
    out[1] = dot(direction, h->north);
    out[2] = dot(direction, h->zenith);
}

msi_pb_moment msi_pb_view_under(const msi_pb_view *v, const msi_pb_horizon *horizon)
{
    const double e = dot(horizon->zenith, v->east), n = dot(horizon->zenith, v->north), r = hypot(e, n);
    msi_pb_moment m = {.horizon = *horizon, .cos_up = r > 0 ? n / r : 1, .sin_up = r > 0 ? e / r : 0};
    to_horizon(horizon, v->station, m.aim.station);
    to_horizon(horizon, v->tile, m.aim.tile);
    return m;
}

msi_pb_moment msi_pb_view_at(const msi_pb_view *v, double mjd_s)
{
    if (!v->site->turns) return (msi_pb_moment){.cos_up = 1};
    const msi_pb_horizon horizon = horizon_at(v->site->position_itrf_m, mjd_s, 1);
    return msi_pb_view_under(v, &horizon);
}

/* Compute the Jones matrix of a station in the basis of north and east, or a part of it. */
static void station_jones(const msi_pb_site *s, int class_id, double freq_hz, const msi_pb_moment *moment,
                          const double *direction, msi_pb_part_of part, msi_pb_jones out)
{
    double axes[3][3], theta[3], phi[3];
    msi_c64 j[4];
    const msi_pb_horizon *when = &moment->horizon;
    const double up = dot(direction, when->zenith), n = dot(direction, when->north), e = dot(direction, when->east);
    const double flat = hypot(n, e);
    const msi_pb_direction d = {.azimuth_rad = atan2(e, n),
                                .zenith_rad = atan2(flat, up),
                                .aim = &moment->aim,
                                .part = part,
                                .sky = direction,
                                .mjd_s = when->mjd_s};
    msi_pb_model_jones(s->model, class_id, freq_hz, &d, j);
    if (part == MSI_PB_PART_ARRAY || msi_pb_model_is_on_sky(s->model)) {
        for (int k = 0; k < 4; k++) out[k / 2][k % 2] = j[k].re + I * j[k].im;
        return;
    }
    msi_phase_shift_axes(atan2(direction[1], direction[0]), atan2(direction[2], hypot(direction[0], direction[1])),
                         axes);
    const double *east = axes[0], *north = axes[1];
    for (int k = 0; k < 3; k++) {
        /* theta is the zenith angle, phi increases with azimuth. */
        phi[k] = flat > 0 ? (n * when->east[k] - e * when->north[k]) / flat : when->east[k];
        const double level = flat > 0 ? (n * when->north[k] + e * when->east[k]) / flat : when->north[k];
        theta[k] = up * level - flat * when->zenith[k];
    }
    for (int f = 0; f < 2; f++) {
        const double complex a = j[2 * f].re + I * j[2 * f].im, b = j[2 * f + 1].re + I * j[2 * f + 1].im;
        out[f][0] = a * dot(theta, north) + b * dot(phi, north);
        out[f][1] = a * dot(theta, east) + b * dot(phi, east);
    }
}

/* Compute the Jones matrix of a station relative to the response for which the data are corrected. */
static void relative_jones(const msi_pb_view *v, int class_id, double freq_hz, const msi_pb_moment *when,
                           const double *direction, msi_pb_jones out)
{
    static const msi_pb_part_of part[] = {MSI_PB_PART_ALL, MSI_PB_PART_ELEMENT, MSI_PB_PART_ARRAY, MSI_PB_PART_ALL};
    msi_pb_jones c, b;
    station_jones(v->site, class_id, freq_hz, when, v->applied, part[v->site->applied], c);
    station_jones(v->site, class_id, freq_hz, when, direction, MSI_PB_PART_ALL, b);
    const double complex d = c[0][0] * c[1][1] - c[0][1] * c[1][0];
    for (int k = 0; k < 2; k++) {
        /* If the response in that direction is 0, the data have no signal. */
        out[0][k] = cabs(d) > 1e-12 ? (c[1][1] * b[0][k] - c[0][1] * b[1][k]) / d : 0;
        out[1][k] = cabs(d) > 1e-12 ? (c[0][0] * b[1][k] - c[1][0] * b[0][k]) / d : 0;
    }
}

/* Compute the Jones matrix of a dish. Its columns are north and east with feeds derotated by the parallactic angle, or
 * the directions of the feeds (in_feeds). */
static void dish_jones(const msi_pb_site *s, int class_id, double freq_hz, const msi_pb_moment *when, double x_east,
                       double y_north, int in_feeds, msi_pb_jones out)
{
    msi_pb_direction d = {.x_rad = x_east, .y_rad = y_north};
    msi_c64 j[4];
    const double c = s->turns ? when->cos_up : 0, si = s->turns ? when->sin_up : 0;
    if (s->turns) {
        /* x is towards increasing azimuth, y towards the zenith. South of the zenith on the meridian: west and
         * north. */
        d.x_rad = -x_east * c + y_north * si;
        d.y_rad = y_north * c + x_east * si;
    }
    msi_pb_model_jones(s->model, class_id, freq_hz, &d, j);
    double complex of[2][2];
    for (int f = 0; f < 2; f++)
        for (int k = 0; k < 2; k++) of[f][k] = j[2 * f + k].re + I * j[2 * f + k].im;
    if (!s->turns || in_feeds) {
        memcpy(out, of, sizeof of);
        return;
    }
    /* The rotation from components along north and east to those along x and y; its inverse is applied to the feeds. */
    const double turn[2][2] = {{si, -c}, {c, si}};
    double complex half[2][2];
    for (int f = 0; f < 2; f++)
        for (int k = 0; k < 2; k++) half[f][k] = of[f][0] * turn[0][k] + of[f][1] * turn[1][k];
    for (int f = 0; f < 2; f++)
        for (int k = 0; k < 2; k++) out[f][k] = turn[0][f] * half[0][k] + turn[1][f] * half[1][k];
}

void msi_pb_view_jones(const msi_pb_view *v, const msi_pb_moment *when, int class_id, double freq_hz, const double *lmn,
                       int in_feeds, msi_pb_jones out)
{
    if (msi_pb_model_mount(v->site->model) == MSI_PB_FIXED) {
        double direction[3];
        for (int k = 0; k < 3; k++)
            direction[k] = lmn[0] * v->axes[0][k] + lmn[1] * v->axes[1][k] + lmn[2] * v->axes[2][k];
        if (v->site->applied != MSI_MS_APPLIED_NONE)
            relative_jones(v, class_id, freq_hz, when, direction, out);
        else
            station_jones(v->site, class_id, freq_hz, when, direction, MSI_PB_PART_ALL, out);
        return;
    }
    const double e = dot(v->rotation[0], lmn), n = dot(v->rotation[1], lmn), rho = hypot(e, n);
    const double stretch = rho > 0 ? atan2(rho, dot(v->rotation[2], lmn)) / rho : 1;
    dish_jones(v->site, class_id, freq_hz, when, e * stretch, n * stretch, in_feeds, out);
}

double msi_pb_view_angle(const msi_pb_view *v, const double *lmn)
{
    return atan2(hypot(dot(v->rotation[0], lmn), dot(v->rotation[1], lmn)), dot(v->rotation[2], lmn));
}

double msi_pb_view_limit(const msi_pb_view *v, double freq_hz)
{
    double limit = MSI_PI;
    for (int k = 0; k < v->site->n_class; k++) limit = fmin(limit, msi_pb_model_limit(v->site->model, k, freq_hz));
    return limit;
}

int msi_pb_view_check(const msi_pb_view *v, const double low[2], const double high[2])
{
    for (int i = 0; i < 9; i++) {
        const double l = low[0] + 0.5 * (i % 3) * (high[0] - low[0]), m = low[1] + 0.5 * (i / 3) * (high[1] - low[1]),
                     r2 = l * l + m * m;
        double sky[3];
        if (r2 >= 1) continue;
        for (int k = 0; k < 3; k++) sky[k] = l * v->axes[0][k] + m * v->axes[1][k] + sqrt(1 - r2) * v->axes[2][k];
        if (!msi_pb_model_covers(v->site->model, sky))
            return msi_error_set(MSI_EINPUT,
                                 "%s: the beam does not cover the images: it has to reach an eighth of their size "
                                 "beyond each edge; give -size, -scale and -shift of the images to the program that "
                                 "makes it",
                                 msi_pb_model_name(v->site->model));
    }
    return MSI_OK;
}

/* Coherencies of unit Stokes parameters, XX XY; YX YY. */
static const double complex unit[4][2][2] = {{{1, 0}, {0, 1}}, {{1, 0}, {0, -1}}, {{0, 1}, {1, 0}}, {{0, I}, {-I, 0}}};

static void to_stokes(double complex v[2][2], double complex out[4])
{
    out[0] = (v[0][0] + v[1][1]) / 2;
    out[1] = (v[0][0] - v[1][1]) / 2;
    out[2] = (v[0][1] + v[1][0]) / 2;
    out[3] = (v[0][1] - v[1][0]) / (2 * I);
}

void msi_pb_respond_pairs(const msi_pb_site *site, msi_pb_jones *of, double m[4][4])
{
    const int n = site->n_class;
    double complex sum[2][2][2][2] = {{{{0}}}};
    for (int p = 0; p < n; p++) {
        double complex second[2][2] = {{0}};
        for (int q = p; q < n; q++) {
            const double w = site->pair[p * n + q];
            for (int j = 0; w > 0 && j < 2; j++)
                for (int l = 0; l < 2; l++) second[j][l] += w * conj(of[q][j][l]);
        }
        for (int k = 0; k < 16; k++)
            sum[k / 8][k / 4 % 2][k / 2 % 2][k % 2] += of[p][k / 8][k / 4 % 2] * second[k / 2 % 2][k % 2];
    }
    for (int b = 0; b < 4; b++) {
        double complex v[2][2] = {{0}}, seen[4];
        for (int k = 0; k < 16; k++)
            v[k / 8][k / 2 % 2] += unit[b][k / 4 % 2][k % 2] * sum[k / 8][k / 4 % 2][k / 2 % 2][k % 2];
        to_stokes(v, seen);
        for (int a = 0; a < 4; a++) m[a][b] = creal(seen[a]);
    }
}

void msi_pb_respond(msi_pb_jones p, msi_pb_jones q, int stokes, double complex out[4])
{
    double complex left[2][2], v[2][2];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) left[i][j] = p[i][0] * unit[stokes][0][j] + p[i][1] * unit[stokes][1][j];
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++) v[i][j] = left[i][0] * conj(q[j][0]) + left[i][1] * conj(q[j][1]);
    to_stokes(v, out);
}
