/* SPDX-License-Identifier: GPL-3.0-or-later */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"
#include "io/uv/uv_state.h"

void msi_uv_note(msi_uv_set *s, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text - 1, format, arguments);
    va_end(arguments);
    strcat(text, "\n");
    if (!strstr(s->notes, text) && strlen(s->notes) + strlen(text) < sizeof s->notes) strcat(s->notes, text);
}

enum { XYZ = 3 };

/* Antennas with one name are the same if their coordinates differ by less than this. */
static const double SAME_PLACE_M = 1e-3;

static const double DEGREE = MSI_PI / 180;

static int is_named(const msi_uv_set *s, const msi_uv_header *h, const char *of_uvfits, const char *of_idi)
{
    return *h->extension && strcmp(h->name, msi_uv_is_idi(s) ? of_idi : of_uvfits) == 0;
}

static const msi_uv_header *find_table(const msi_uv_set *s, const char *of_uvfits, const char *of_idi)
{
    for (int i = 1; i < s->state->n_header; i++)
        if (is_named(s, &s->state->header[i], of_uvfits, of_idi)) return &s->state->header[i];
    return NULL;
}

static int64_t count_rows(const msi_uv_header *h)
{
    return h->n_axis == 2 ? h->length[1] : 0;
}

/* Read the number in a row; -1 if it is not an integer from 0 to `most`. */
static int read_number(msi_uv_set *s, const msi_uv_header *h, int column, int64_t row, int64_t most, int64_t *number)
{
    double value;
    MSI_TRY(msi_uv_table_numbers(&s->state->bytes, h, column, row, 1, NAN, &value));
    *number = value >= 0 && value <= (double)most && value == floor(value) ? (int64_t)value : -1;
    return MSI_OK;
}

/* ---- Antennas ---- */

/* A row of a table of antennas. */
typedef struct station {
    int64_t subarray, number;
    int table;
    msi_uv_antenna antenna;
} station;

typedef struct stations {
    int64_t n, n_allocated;
    station *of;
} stations;

static const char *mount_of(int64_t code)
{
    static const char *const mounts[] = {"ALT-AZ",       "EQUATORIAL",       "ORBITING",
                                         "X-Y",          "ALT-AZ+NASMYTH-R", "ALT-AZ+NASMYTH-L",
                                         "ALT-AZ+BWG-R", "ALT-AZ+BWG-L",     "BIZARRE"};
    return code >= 0 && code < (int64_t)(sizeof mounts / sizeof *mounts) ? mounts[code] : "ALT-AZ";
}

static void read_centre(const msi_uv_header *h, double centre_m[XYZ])
{
    static const char *const keys[XYZ] = {"ARRAYX", "ARRAYY", "ARRAYZ"};
    for (int k = 0; k < XYZ; k++) {
        centre_m[k] = msi_uv_header_number(h, keys[k], 0);
        if (!isfinite(centre_m[k])) centre_m[k] = 0;
    }
}

static int read_feed(msi_uv_set *s, const msi_uv_header *h, int64_t row, msi_uv_antenna *a)
{
    static const char *const kinds[] = {"POLTYA", "POLTYB"}, *const angles[] = {"POLAA", "POLAB"};
    for (int k = 0; k < 2; k++) {
        char text[8];
        double angle_deg;
        MSI_TRY(msi_uv_table_text(&s->state->bytes, h, msi_uv_header_column(h, kinds[k]), row, text, sizeof text));
        MSI_TRY(msi_uv_table_numbers(&s->state->bytes, h, msi_uv_header_column(h, angles[k]), row, 1, 0, &angle_deg));
        if (*text && strchr("RLXY", *text)) a->feed[k] = *text;
        a->feed_angle_rad[k] = isfinite(angle_deg) ? angle_deg * DEGREE : 0;
    }
    return MSI_OK;
}

/* Read a row of a table of antennas. The position stays relative to the centre of the array. */
static int read_station(msi_uv_set *s, const msi_uv_header *h, int64_t row, station *to)
{
    msi_uv_bytes *b = &s->state->bytes;
    msi_uv_antenna *a = &to->antenna;
    int64_t mount;
    MSI_TRY(read_number(s, h, msi_uv_header_column(h, "NOSTA"), row, MSI_UV_MOST_STATIONS - 1, &to->number));
    MSI_TRY(msi_uv_table_text(b, h, msi_uv_header_column(h, "ANNAME"), row, a->station, sizeof a->station));
    MSI_TRY(msi_uv_table_numbers(b, h, msi_uv_header_column(h, "STABXYZ"), row, XYZ, 0, a->itrf_m));
    MSI_TRY(msi_uv_table_numbers(b, h, msi_uv_header_column(h, "STAXOF"), row, 1, 0, &a->offset_m));
    MSI_TRY(msi_uv_table_numbers(b, h, msi_uv_header_column(h, "DIAMETER"), row, 1, 0, &a->diameter_m));
    MSI_TRY(read_number(s, h, msi_uv_header_column(h, "MNTSTA"), row, 100, &mount));
    if (!isfinite(a->offset_m)) a->offset_m = 0;
    if (!(a->diameter_m > 0 && a->diameter_m < 1e6)) a->diameter_m = 0;
    a->mount = mount_of(mount);
    return read_feed(s, h, row, a);
}

static int add_stations(msi_uv_set *s, const msi_uv_header *h, int table, int64_t subarray, stations *all)
{
    const int64_t n = count_rows(h);
    char hand[8];
    double centre_m[XYZ];
    if (n > MSI_UV_MOST_STATIONS - all->n)
        return msi_error_set(MSI_EINPUT, "%s: its tables %s have more than %d antennas", s->state->bytes.path, h->name,
                             MSI_UV_MOST_STATIONS);
    MSI_TRY(msi_grow(&all->of, all->n, all->n + n + 1, sizeof *all->of, "antennas"));
    read_centre(h, centre_m);
    msi_uv_header_text(h, "XYZHAND", hand, sizeof hand);
    for (int64_t i = 0; i < n; i++) {
        station *to = &all->of[all->n];
        *to = (station){.subarray = subarray, .table = table};
        MSI_TRY(read_station(s, h, i, to));
        if (to->number < 0) continue;
        if (strcmp(hand, "LEFT") == 0) to->antenna.itrf_m[1] = -to->antenna.itrf_m[1];
        for (int k = 0; k < XYZ; k++) to->antenna.itrf_m[k] += centre_m[k];
        all->n++;
    }
    return MSI_OK;
}

static int read_stations(msi_uv_set *s, stations *all)
{
    struct msi_uv_state *t = s->state;
    for (int i = 1; i < t->n_header; i++) {
        const msi_uv_header *h = &t->header[i];
        if (!is_named(s, h, "AIPS AN", "ARRAY_GEOMETRY")) continue;
        const double version = msi_uv_header_number(h, "EXTVER", (double)t->n_station_table + 1);
        const int64_t subarray = version >= 1 && version < MSI_UV_MOST_NUMBERS ? (int64_t)version : 1;
        MSI_TRY(msi_grow(&t->station_table, t->n_station_table, t->n_station_table + 1, sizeof *t->station_table,
                         "tables of antennas"));
        t->station_table[t->n_station_table].subarray = subarray;
        if (t->n_station_table == 0) read_centre(h, t->centre_m);
        MSI_TRY(add_stations(s, h, (int)t->n_station_table, subarray, all));
        t->n_station_table++;
    }
    if (all->n > 0) return MSI_OK;
    return msi_error_set(MSI_EINPUT, t->n_station_table ? "%s: %s with an empty table %s" : "%s: %s without a table %s",
                         t->bytes.path, msi_uv_is_idi(s) ? "FITS-IDI" : "UVFITS",
                         msi_uv_is_idi(s) ? "ARRAY_GEOMETRY" : "AIPS AN");
}

static int is_same(const msi_uv_antenna *a, const msi_uv_antenna *b)
{
    for (int k = 0; k < XYZ; k++)
        if (!(fabs(a->itrf_m[k] - b->itrf_m[k]) < SAME_PLACE_M)) return 0;
    return strcmp(a->station, b->station) == 0;
}

/* Find the same antenna in another subarray, first by its number, then by name and position. Returns -1 if there is
 * none. */
static int64_t find_same(const msi_uv_set *s, const station *a, int64_t first, int64_t n)
{
    const int64_t alike = a->number - first;
    if (alike >= 0 && alike < n && is_same(&s->antenna[alike], &a->antenna)) return alike;
    for (int64_t i = 0; i < n; i++)
        if (is_same(&s->antenna[i], &a->antenna)) return i;
    return -1;
}

/* Let a number of a table refer to an antenna. If several rows have a number, the first one is used. */
static int map_number(msi_uv_station_table *t, int64_t number, int64_t antenna)
{
    if (number >= t->n_number) {
        const int64_t n = number + 1 > 2 * t->n_number ? number + 1 : 2 * t->n_number;
        MSI_TRY(msi_grow(&t->antenna, t->n_number, n, sizeof *t->antenna, "numbers of antennas"));
        for (int64_t i = t->n_number; i < n; i++) t->antenna[i] = -1;
        t->n_number = n;
    }
    if (t->antenna[number] < 0) t->antenna[number] = (int32_t)antenna;
    return MSI_OK;
}

/* Make one list of all antennas. An antenna of the first table of UVFITS has the index of its number, as CASA counts
 * antennas; an antenna of FITS-IDI has the index of its row. */
static int join_stations(msi_uv_set *s, const stations *all)
{
    int64_t first = 1, last = 0, n_first = 0, n_most;
    for (int64_t i = 0; i < all->n; i++) {
        if (all->of[i].number == 0) first = 0;
        if (all->of[i].table == 0) n_first++;
        if (all->of[i].table == 0 && all->of[i].number > last) last = all->of[i].number;
    }
    const int is_by_number = !msi_uv_is_idi(s);
    s->n_antenna = is_by_number && n_first ? last + 1 - first : 0;
    n_most = s->n_antenna + all->n;
    MSI_TRY(msi_alloc(&s->antenna, n_most, sizeof *s->antenna, "antennas"));
    for (int64_t i = 0; i < n_most; i++) s->antenna[i].mount = "ALT-AZ";
    for (int64_t i = 0; i < all->n; i++) {
        const station *a = &all->of[i];
        int64_t at = is_by_number && a->table == 0 ? a->number - first : find_same(s, a, first, s->n_antenna);
        if (at < 0) at = s->n_antenna++;
        if (!*s->antenna[at].station) s->antenna[at] = a->antenna;
        MSI_TRY(map_number(&s->state->station_table[a->table], a->number, at));
    }
    return MSI_OK;
}

static int compare_stations(const void *a, const void *b)
{
    return strcmp((*(const msi_uv_antenna *const *)a)->station, (*(const msi_uv_antenna *const *)b)->station);
}

/* Name antennas by their stations; by numbers if several stations have the same name. */
static int name_antennas(msi_uv_set *s)
{
    msi_uv_antenna **sorted;
    int is_distinct = 1;
    MSI_TRY(msi_alloc(&sorted, s->n_antenna, sizeof *sorted, "antennas"));
    for (int64_t i = 0; i < s->n_antenna; i++) sorted[i] = &s->antenna[i];
    qsort(sorted, (size_t)s->n_antenna, sizeof *sorted, compare_stations);
    for (int64_t i = 1; i < s->n_antenna; i++)
        if (*sorted[i]->station && strcmp(sorted[i - 1]->station, sorted[i]->station) == 0) is_distinct = 0;
    msi_free(sorted);
    for (int64_t i = 0; i < s->n_antenna; i++) {
        msi_uv_antenna *a = &s->antenna[i];
        if (is_distinct)
            snprintf(a->name, sizeof a->name, "%s", a->station);
        else
            snprintf(a->name, sizeof a->name, "%lld", (long long)i + 1);
    }
    return MSI_OK;
}

/* Set unknown diameters of antennas to that of the telescope's dishes. Source: casacore, MSFitsInput.cc. */
static void set_diameters(msi_uv_set *s)
{
    static const struct {
        const char *telescope;
        double diameter_m;
    } known[] = {{"VLA", 25},  {"EVLA", 25},     {"JVLA", 25},    {"VLBA", 25},      {"WSRT", 25},
                 {"ATCA", 22}, {"SMA", 6},       {"ATA", 6.1},    {"HATCREEK", 6.1}, {"BIMA", 6.1},
                 {"GMRT", 45}, {"IRAM_PDB", 15}, {"IRAM PDB", 15}};
    double diameter_m = 0;
    for (int64_t i = 0; i < s->n_antenna; i++)
        if (s->antenna[i].diameter_m > 0) return;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (strcmp(s->telescope, known[k].telescope) == 0) diameter_m = known[k].diameter_m;
    for (int64_t i = 0; i < s->n_antenna; i++) s->antenna[i].diameter_m = diameter_m;
}

/* Read the digital levels of the antennas of FITS-IDI, for the corrections of DiFX and VLBA correlators. */
static int read_levels(msi_uv_set *s)
{
    struct msi_uv_state *t = s->state;
    const msi_uv_header *h = find_table(s, "", "ANTENNA");
    if (!msi_uv_is_idi(s) || !t->needs_levels) return MSI_OK;
    MSI_TRY(msi_alloc(&t->level, s->n_antenna, sizeof *t->level, "antennas"));
    for (int64_t i = 0; h && i < count_rows(h); i++) {
        int64_t number;
        double level;
        MSI_TRY(read_number(s, h, msi_uv_header_column(h, "ANTENNA_NO"), i, MSI_UV_MOST_STATIONS - 1, &number));
        MSI_TRY(msi_uv_table_numbers(&t->bytes, h, msi_uv_header_column(h, "NO_LEVELS"), i, 1, 0, &level));
        const int32_t a = number >= 0 ? msi_uv_tables_antenna(s, 1, number) : -1;
        if (a >= 0) t->level[a] = level;
    }
    return MSI_OK;
}

/* Read the time scale of the first table of antennas. */
static int read_time_scale(msi_uv_set *s)
{
    static const char *const of_utc[] = {"UTC", "UT"}, *const of_tai[] = {"IAT", "TAI"};
    const msi_uv_header *h = find_table(s, "AIPS AN", "ARRAY_GEOMETRY");
    char text[16] = "";
    const char *key = "TIMSYS";
    if (!h || !msi_uv_header_text(h, key, text, sizeof text) || !*text)
        msi_uv_header_text(h, key = "TIMESYS", text, sizeof text);
    for (int i = 0; i < 2; i++) {
        if (strcmp(text, of_utc[i]) == 0) s->time_scale = "UTC";
        if (strcmp(text, of_tai[i]) == 0) s->time_scale = "TAI";
    }
    if (s->time_scale) return MSI_OK;
    if (*text)
        return msi_error_set(MSI_EINPUT, "%s: its times are in %s (%s of table %s), not UTC or IAT",
                             s->state->bytes.path, text, key, h->name);
    s->time_scale = "TAI";
    msi_uv_note(s, "the time scale is missing (TIMSYS of table %s): IAT (TAI) is assumed", h->name);
    return MSI_OK;
}

static int read_antennas(msi_uv_set *s)
{
    stations all = {0};
    int status = read_stations(s, &all);
    if (!status) status = join_stations(s, &all);
    msi_free(all.of);
    if (!status) status = name_antennas(s);
    if (!status) set_diameters(s);
    if (!status) status = read_levels(s);
    return status ? status : read_time_scale(s);
}

int32_t msi_uv_tables_antenna(const msi_uv_set *s, int64_t subarray, int64_t number)
{
    const msi_uv_station_table *first = s->state->station_table, *t = first;
    for (int64_t i = 0; i < s->state->n_station_table; i++)
        if (first[i].subarray == subarray) {
            t = &first[i];
            break;
        }
    if (number >= 0 && number < t->n_number && t->antenna[number] >= 0) return t->antenna[number];
    return number >= 0 && number < first->n_number ? first->antenna[number] : -1;
}

/* ---- Sources ---- */

static int is_near(double a, double b)
{
    return fabs(a - b) < 0.01;
}

static const char *frame_of_year(double year)
{
    return is_near(year, 1950) ? "B1950" : is_near(year, 2000) ? "J2000" : NULL;
}

static void add_line(msi_uv_source *to, double line_hz)
{
    if (!(line_hz > 0) || !isfinite(line_hz) || to->n_line == MSI_UV_MOST_LINES) return;
    for (int i = 0; i < to->n_line; i++)
        if (to->line_hz[i] == line_hz) return;
    to->line_hz[to->n_line++] = line_hz;
}

static int read_lines(msi_uv_set *s, const msi_uv_header *h, int64_t row, msi_uv_source *to)
{
    double line_hz[MSI_UV_MOST_LINES];
    MSI_TRY(msi_uv_table_numbers(&s->state->bytes, h, msi_uv_header_column(h, "RESTFREQ"), row, MSI_UV_MOST_LINES, 0,
                                 line_hz));
    for (int i = 0; i < MSI_UV_MOST_LINES; i++) add_line(to, line_hz[i]);
    return MSI_OK;
}

static int read_source(msi_uv_set *s, const msi_uv_header *h, int64_t row, msi_uv_source *to)
{
    msi_uv_bytes *b = &s->state->bytes;
    double place_deg[2];
    MSI_TRY(msi_uv_table_text(b, h, msi_uv_header_column(h, "SOURCE"), row, to->name, sizeof to->name));
    MSI_TRY(msi_uv_table_text(b, h, msi_uv_header_column(h, "CALCODE"), row, to->code, sizeof to->code));
    MSI_TRY(msi_uv_table_numbers(b, h, msi_uv_header_column(h, "RAEPO"), row, 1, NAN, &place_deg[0]));
    MSI_TRY(msi_uv_table_numbers(b, h, msi_uv_header_column(h, "DECEPO"), row, 1, NAN, &place_deg[1]));
    to->ra_rad = place_deg[0] * DEGREE;
    to->dec_rad = place_deg[1] * DEGREE;
    strcpy(to->frame, "J2000");
    return read_lines(s, h, row, to);
}

static int read_source_table(msi_uv_set *s, const msi_uv_header *h)
{
    struct msi_uv_state *t = s->state;
    const int64_t n = count_rows(h);
    int column = msi_uv_header_column(h, msi_uv_is_idi(s) ? "SOURCE_ID" : "ID. NO.");
    if (column < 0) column = msi_uv_header_column(h, msi_uv_is_idi(s) ? "ID_NO." : "ID_NO");
    if (n < 1 || n > INT32_MAX || column < 0)
        return msi_error_set(MSI_EINPUT, "%s: its table %s has %s", t->bytes.path, h->name,
                             n < 1 ? "no row" : "no column of numbers");
    MSI_TRY(msi_alloc(&s->source, n, sizeof *s->source, "sources"));
    MSI_TRY(msi_alloc(&t->source_of, MSI_UV_MOST_NUMBERS, sizeof *t->source_of, "sources"));
    t->n_source_number = MSI_UV_MOST_NUMBERS;
    for (int64_t i = 0; i < t->n_source_number; i++) t->source_of[i] = -1;
    s->n_source = n;
    for (int64_t i = 0; i < n; i++) {
        int64_t number;
        MSI_TRY(read_source(s, h, i, &s->source[i]));
        MSI_TRY(read_number(s, h, column, i, MSI_UV_MOST_NUMBERS - 1, &number));
        if (number >= 0 && t->source_of[number] < 0) t->source_of[number] = (int32_t)i;
    }
    /* Some programs write 0 if there is only one source. */
    if (n == 1 && t->source_of[0] < 0) t->source_of[0] = 0;
    return MSI_OK;
}

/* Find the frame of the position in the primary header. EPOCH has precedence over EQUINOX. Only the equinoxes 1950 and
 * 2000 exist in sets. */
static int read_header_frame(msi_uv_set *s, const msi_uv_header *h, char *frame)
{
    const int has_epoch = msi_uv_header_has(h, "EPOCH"), has_equinox = msi_uv_header_has(h, "EQUINOX");
    const double epoch = msi_uv_header_number(h, "EPOCH", 0), equinox = msi_uv_header_number(h, "EQUINOX", 0);
    const double year = has_epoch ? epoch : equinox;
    const char *path = s->state->bytes.path;
    char system[16];
    if (has_epoch && has_equinox && !is_near(epoch, equinox))
        return msi_error_set(MSI_EINPUT, "%s: its position is of the year %g by EPOCH, of %g by EQUINOX", path, epoch,
                             equinox);
    if (year != 0 && !frame_of_year(year))
        return msi_error_set(MSI_EINPUT,
                             "%s: its position is of the equinox %g (%s), but a set needs B1950 or J2000; precess RA "
                             "and DEC first",
                             path, year, has_epoch ? "EPOCH" : "EQUINOX");
    if (year == 0 && has_epoch) msi_uv_note(s, "the equinox of the position is missing (EPOCH = 0): J2000 is assumed");
    strcpy(frame, year == 0 ? "J2000" : frame_of_year(year));
    msi_uv_header_text(h, "RADESYS", system, sizeof system);
    for (char *p = system; *p; p++)
        if (*p >= 'a' && *p <= 'z') *p = (char)(*p - 'a' + 'A');
    if (strcmp(system, "ICRS") == 0 && strcmp(frame, "J2000") == 0) strcpy(frame, "ICRS");
    return MSI_OK;
}

/* Read the position of the only source from the primary header. */
static int read_header_source(msi_uv_set *s)
{
    const msi_uv_header *h = &s->state->header[0];
    MSI_TRY(msi_alloc(&s->source, 1, sizeof *s->source, "sources"));
    s->n_source = 1;
    msi_uv_source *to = &s->source[0];
    MSI_TRY(read_header_frame(s, h, to->frame));
    msi_uv_header_text(h, "OBJECT", to->name, sizeof to->name);
    to->ra_rad = to->dec_rad = NAN;
    for (int i = h->n_axis - 1; i > 0; i--) {
        const msi_uv_axis *a = &h->axis[i];
        if (strcmp(a->name, "RA") == 0 || strncmp(a->name, "RA---", 5) == 0) to->ra_rad = a->value * DEGREE;
        if (strcmp(a->name, "DEC") == 0 || strncmp(a->name, "DEC--", 5) == 0) to->dec_rad = a->value * DEGREE;
    }
    add_line(to, msi_uv_header_number(h, "RESTFREQ", 0));
    return MSI_OK;
}

static int read_sources(msi_uv_set *s)
{
    const msi_uv_header *h = s->state->sources = find_table(s, "AIPS SU", "SOURCE");
    s->state->has_source_table = h != NULL;
    if (h) MSI_TRY(read_source_table(s, h));
    if (!h && msi_uv_is_idi(s))
        return msi_error_set(MSI_EINPUT, "%s: FITS-IDI without a table SOURCE", s->state->bytes.path);
    if (!h) return read_header_source(s);
    /* If the table has no line frequencies, use that of the primary header. */
    for (int64_t i = 0; !msi_uv_is_idi(s) && i < s->n_source; i++)
        if (!s->source[i].n_line) add_line(&s->source[i], msi_uv_header_number(&s->state->header[0], "RESTFREQ", 0));
    return MSI_OK;
}

int32_t msi_uv_tables_source(const msi_uv_set *s, int64_t number)
{
    if (!s->state->has_source_table) return 0;
    return number >= 0 && number < s->state->n_source_number ? s->state->source_of[number] : -1;
}

/* Check EQUINOX of FITS-IDI, which is a text such as J2000, 2000.0 or 1950.0B. */
static int check_text_equinox(msi_uv_set *s, const msi_uv_header *h, int column, int32_t source)
{
    char text[32], *end;
    MSI_TRY(msi_uv_table_text(&s->state->bytes, h, column, source, text, sizeof text));
    const char *at = text + strspn(text, "JB ");
    const double year = strtod(at, &end);
    const char *frame = end > at && strspn(end, "JB ") == strlen(end) ? frame_of_year(year) : NULL;
    if (!frame)
        return msi_error_set(MSI_EINPUT,
                             "%s: the position in row %d of table %s has EQUINOX '%s'; a Measurement Set needs J2000 "
                             "or B1950",
                             s->state->bytes.path, source + 1, h->name, text);
    strcpy(s->source[source].frame, frame);
    return MSI_OK;
}

/* Check the equinox of a source. The year -1 stands for a body of the solar system. */
static int check_equinox(msi_uv_set *s, const msi_uv_header *h, int32_t source)
{
    const int text = msi_uv_header_column(h, "EQUINOX"), number = msi_uv_header_column(h, "EPOCH");
    double year;
    if (text >= 0 && h->column[text].kind == 'A') return check_text_equinox(s, h, text, source);
    MSI_TRY(msi_uv_table_numbers(&s->state->bytes, h, number >= 0 ? number : text, source, 1, 2000, &year));
    const char *frame = is_near(year, -1) ? "J2000" : frame_of_year(year);
    if (!frame) {
        int64_t id;
        MSI_TRY(read_number(s, h, msi_uv_header_column(h, msi_uv_is_idi(s) ? "SOURCE_ID" : "ID. NO."), source,
                            MSI_UV_MOST_NUMBERS, &id));
        return msi_error_set(MSI_EINPUT,
                             "%s: the position of source %lld has equinox %g (EPOCH in table %s); a Measurement Set "
                             "needs B1950 or J2000",
                             s->state->bytes.path, (long long)id, year, h->name);
    }
    strcpy(s->source[source].frame, frame);
    return MSI_OK;
}

int msi_uv_tables_check_source(msi_uv_set *s, int32_t source)
{
    static const char *const motions[] = {"PMRA", "PMDEC"};
    const msi_uv_header *h = s->state->sources;
    if (!h) return MSI_OK;
    MSI_TRY(check_equinox(s, h, source));
    for (int k = 0; k < 2; k++) {
        double motion;
        MSI_TRY(msi_uv_table_numbers(&s->state->bytes, h, msi_uv_header_column(h, motions[k]), source, 1, 0, &motion));
        if (motion != 0 && isfinite(motion))
            msi_uv_note(s, "source '%s' moves on the sky: its position (RAEPO, DECEPO) is kept, but not its motion",
                        s->source[source].name);
    }
    return MSI_OK;
}

/* ---- Frequencies ---- */

static int index_settings(msi_uv_set *s)
{
    struct msi_uv_state *t = s->state;
    const msi_uv_header *h = t->settings = find_table(s, "AIPS FQ", "FREQUENCY");
    if (!h && msi_uv_is_idi(s))
        return msi_error_set(MSI_EINPUT, "%s: FITS-IDI without a table FREQUENCY", t->bytes.path);
    if (!h) return MSI_OK;
    const int64_t n = count_rows(h);
    const int column = msi_uv_header_column(h, msi_uv_is_idi(s) ? "FREQID" : "FRQSEL");
    t->n_setting_number = MSI_UV_MOST_NUMBERS;
    MSI_TRY(msi_alloc(&t->setting_row, t->n_setting_number, sizeof *t->setting_row, "frequencies"));
    for (int64_t i = 0; i < t->n_setting_number; i++) t->setting_row[i] = -1;
    for (int64_t i = 0; i < n; i++) {
        int64_t number;
        MSI_TRY(read_number(s, h, column, i, MSI_UV_MOST_NUMBERS - 1, &number));
        if (number >= 0 && t->setting_row[number] < 0) t->setting_row[number] = i;
    }
    /* If there is one row, its number has no meaning. */
    if (n == 1 && t->setting_row[0] < 0) t->setting_row[0] = 0;
    return MSI_OK;
}

/* The axis FREQ of UVFITS, or the keywords of the table FREQUENCY of FITS-IDI. */
typedef struct frequency_axis {
    double value_hz, step_hz, pixel;
} frequency_axis;

static frequency_axis read_axis(const msi_uv_set *s)
{
    const msi_uv_header *h = s->state->part[0].h;
    frequency_axis f = {0, 0, 1};
    for (int i = MSI_UV_MOST_AXES - 1; i >= 0; i--)
        if (strcmp(h->axis[i].name, "FREQ") == 0)
            f = (frequency_axis){h->axis[i].value, h->axis[i].step, h->axis[i].pixel};
    if (!msi_uv_is_idi(s)) return f;
    f.value_hz = msi_uv_header_number(s->state->settings, "REF_FREQ", f.value_hz);
    f.pixel = msi_uv_header_number(s->state->settings, "REF_PIXL", f.pixel);
    f.step_hz = msi_uv_header_number(s->state->settings, "CHAN_BW", f.step_hz);
    return f;
}

/* Return the step of the axis if it agrees with a width of the table: the axis has more digits. */
static double refine_step(double width_hz, double step_hz)
{
    return (float)fabs(step_hz) == (float)fabs(width_hz) ? copysign(step_hz, width_hz) : width_hz;
}

/* The columns of a row of a table of frequencies. */
enum { OFFSET, WIDTH, SIDE, N_VALUE };

static const char *const value_names[2][N_VALUE] = {{"IF FREQ", "CH WIDTH", "SIDEBAND"},
                                                    {"BANDFREQ", "CH_WIDTH", "SIDEBAND"}};

/* Read a row of the table for all windows; row -1: use only the axis. Returned: *values [N_VALUE][n_if] */
static int read_setting(msi_uv_set *s, const frequency_axis *axis, int64_t row, double **values)
{
    const msi_uv_header *h = s->state->settings;
    const double missing[N_VALUE] = {0, axis->step_hz, 0};
    MSI_TRY(msi_alloc(values, N_VALUE * (int64_t)s->n_if, sizeof **values, "frequencies"));
    for (int k = 0; k < N_VALUE; k++) {
        const int column = row >= 0 ? msi_uv_header_column(h, value_names[msi_uv_is_idi(s)][k]) : -1;
        const int status =
            msi_uv_table_numbers(&s->state->bytes, h, column, row, s->n_if, missing[k], *values + k * (int64_t)s->n_if);
        if (!status) continue;
        msi_free(*values);
        *values = NULL;
        return status;
    }
    return MSI_OK;
}

static int make_windows(msi_uv_set *s, const frequency_axis *axis, int64_t row)
{
    double *values;
    int status = read_setting(s, axis, row, &values);
    for (int32_t i = 0; !status && i < s->n_if; i++) {
        msi_uv_window *w = &s->window[s->n_window++];
        const double first_hz = axis->value_hz + values[OFFSET * (int64_t)s->n_if + i];
        const double step_hz = refine_step(values[WIDTH * (int64_t)s->n_if + i], axis->step_hz);
        if (step_hz * values[SIDE * (int64_t)s->n_if + i] < 0)
            msi_uv_note(
                s, "SIDEBAND and the sign of %s contradict each other: the sign is used, as in casacore and pyuvdata",
                value_names[msi_uv_is_idi(s)][WIDTH]);
        status = msi_alloc(&w->freq_hz, s->n_chan, sizeof *w->freq_hz, "channels");
        if (!status) status = msi_alloc(&w->width_hz, s->n_chan, sizeof *w->width_hz, "channels");
        for (int32_t c = 0; !status && c < s->n_chan; c++) {
            w->freq_hz[c] = first_hz + (c + 1 - axis->pixel) * step_hz;
            w->width_hz[c] = fabs(step_hz);
        }
    }
    msi_free(values);
    return status;
}

/* Read the frame of the frequencies from SPECSYS, and name it as casacore does. */
static void read_frame(msi_uv_set *s)
{
    static const char *const names[][2] = {{"TOPOCENT", "TOPO"}, {"LSRK", "LSRK"},        {"LSRD", "LSRD"},
                                           {"BARYCENT", "BARY"}, {"GEOCENTR", "GEO"},     {"SOURCE", "REST"},
                                           {"CMBDIPOL", "CMB"},  {"GALACTOC", "GALACTO"}, {"LOCALGRP", "LGROUP"}};
    const msi_uv_header *h = &s->state->header[0];
    char system[16];
    strcpy(s->freq_frame, "TOPO");
    msi_uv_header_text(h, "SPECSYS", system, sizeof system);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(system, names[i][0]) == 0) strcpy(s->freq_frame, names[i][1]);
    if (msi_uv_header_has(h, "ALTRVAL") && msi_uv_header_number(h, "RESTFREQ", 0) > 0)
        msi_uv_note(s, "frequencies come from the axis FREQ and from AIPS FQ; the velocity of the line (ALTRVAL) is "
                       "ignored");
}

int msi_uv_tables_windows(msi_uv_set *s, const uint8_t *is_used)
{
    struct msi_uv_state *t = s->state;
    const frequency_axis axis = read_axis(s);
    int64_t n = 0;
    for (int64_t k = 0; k < MSI_UV_MOST_NUMBERS; k++) n += is_used[k];
    if (!t->settings && (n > 1 || s->n_if > 1))
        return msi_error_set(MSI_EINPUT, "%s: has several windows, but no table AIPS FQ with their frequencies",
                             t->bytes.path);
    if (n * s->n_if > INT32_MAX)
        return msi_error_set(MSI_EINPUT, "%s: invalid header: %lld settings of %d windows", t->bytes.path, (long long)n,
                             s->n_if);
    MSI_TRY(msi_alloc(&s->window, n * s->n_if, sizeof *s->window, "spectral windows"));
    MSI_TRY(msi_alloc(&t->setting_of, MSI_UV_MOST_NUMBERS, sizeof *t->setting_of, "frequencies"));
    for (int64_t k = 0; k < MSI_UV_MOST_NUMBERS; k++) {
        if (!is_used[k]) continue;
        t->setting_of[k] = (int32_t)s->n_window;
        MSI_TRY(make_windows(s, &axis, t->settings ? t->setting_row[k] : -1));
    }
    read_frame(s);
    return MSI_OK;
}

int msi_uv_tables_read(msi_uv_set *s)
{
    msi_uv_header_text(msi_uv_is_idi(s) ? s->state->part[0].h : &s->state->header[0], "OBSCODE", s->project,
                       sizeof s->project);
    MSI_TRY(read_antennas(s));
    MSI_TRY(read_sources(s));
    return index_settings(s);
}
