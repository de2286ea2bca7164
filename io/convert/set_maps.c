/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/convert/set_maps.h"

#include <math.h>
#include <string.h>

#include "core/memory.h"
#include "core/status.h"

/* What identifies a row of a subtable, so that the same row is found in another set. A subtable uses only some of the
 * members. */
typedef struct entity {
    char name[64], frame[16];
    double place[3];       /* antenna: ITRF position in m; field: RA and Dec in rad */
    const msi_ms_spw *spw; /* window: its channels, borrowed from the reader */
    int32_t n_group;       /* window: number of groups of channels */
    /* polarization: number of correlations, and their numbers packed in 5 bits each;
     * data description: output rows of its window and polarization */
    int32_t id[2];
    int set; /* the first set that has this row */
} entity;

typedef struct entities {
    entity *item;
    int32_t n;
    int64_t n_allocated;
} entities;

struct msi_set_maps {
    int n_set;
    msi_set_map *map; /* [n_set] */
    entities antenna, field, window, polarization, data_desc;
};

/* Largest differences within one antenna, one field, and one channel (as a fraction of its width). */
static const double SAME_PLACE_M = 1e-2, SAME_PLACE_RAD = 1e-9, SAME_CHANNEL = 1e-3;

int msi_set_maps_make(msi_set_maps **out, int n_set)
{
    MSI_TRY(msi_alloc(out, 1, sizeof **out, "index maps"));
    (*out)->n_set = n_set;
    const int status = msi_alloc(&(*out)->map, n_set, sizeof *(*out)->map, "index maps");
    if (status) msi_set_maps_free(*out);
    if (status) *out = NULL;
    return status;
}

msi_set_map *msi_set_maps_of(msi_set_maps *maps, int set)
{
    return &maps->map[set];
}

/* ---- Comparison ---- */

static int same_antenna(const entity *a, const entity *b)
{
    double d2 = 0;
    for (int i = 0; i < 3; i++) d2 += (a->place[i] - b->place[i]) * (a->place[i] - b->place[i]);
    return strcmp(a->name, b->name) == 0 && d2 < SAME_PLACE_M * SAME_PLACE_M;
}

static int same_field(const entity *a, const entity *b)
{
    const double across = remainder(a->place[0] - b->place[0], 2 * MSI_PI) * cos(a->place[1]);
    return strcmp(a->name, b->name) == 0 && strcmp(a->frame, b->frame) == 0 &&
           hypot(across, a->place[1] - b->place[1]) < SAME_PLACE_RAD;
}

static int same_window(const entity *a, const entity *b)
{
    const msi_ms_spw *p = a->spw, *q = b->spw;
    if (!p || !q || p->n_chan != q->n_chan || a->n_group != b->n_group || strcmp(a->frame, b->frame) != 0) return 0;
    for (int32_t c = 0; c < p->n_chan; c++) {
        const double most_hz = SAME_CHANNEL * p->width_hz[c];
        if (fabs(p->freq_hz[c] - q->freq_hz[c]) > most_hz || fabs(p->width_hz[c] - q->width_hz[c]) > most_hz) return 0;
    }
    return 1;
}

static int same_ids(const entity *a, const entity *b)
{
    return a->id[0] == b->id[0] && a->id[1] == b->id[1];
}

/* Find the number that an entity has from an earlier set, or assign the next number. */
static int number_entity(entities *list, const entity *e, int (*same)(const entity *, const entity *), int32_t *id,
                         uint8_t *is_new)
{
    for (int32_t i = 0; i < list->n; i++)
        if (list->item[i].set != e->set && same(&list->item[i], e)) {
            *id = i;
            *is_new = 0;
            return MSI_OK;
        }
    if (list->n == list->n_allocated) {
        const int64_t more = list->n_allocated ? 2 * list->n_allocated : 64;
        MSI_TRY(msi_grow(&list->item, list->n, more, sizeof *list->item, "index maps"));
        list->n_allocated = more;
    }
    list->item[list->n] = *e;
    *id = list->n++;
    *is_new = 1;
    return MSI_OK;
}

/* ---- Numbering the entities of a set ---- */

static int add_antennas(msi_set_maps *m, msi_set_map *map, ccc_table *table, const msi_ms_set *set, int k)
{
    ccc_table *t;
    MSI_CCC(ccc_subtable_open(&t, table, "ANTENNA"));
    int status = MSI_OK;
    for (int32_t i = 0; !status && i < map->n_antenna; i++) {
        entity e = {.set = k};
        char *name = NULL;
        status = msi_set_read(ccc_get_string(t, "NAME", i, &name));
        if (name) strncpy(e.name, name, sizeof e.name - 1);
        ccc_free(name);
        memcpy(e.place, set->antenna_itrf_m + 3 * i, sizeof e.place);
        if (!status) status = number_entity(&m->antenna, &e, same_antenna, &map->antenna[i], &map->antenna_is_new[i]);
    }
    ccc_table_close(t);
    return status;
}

static int add_fields(msi_set_maps *m, msi_set_map *map, const msi_ms_set *set, int k)
{
    for (int32_t i = 0; i < map->n_field; i++) {
        const msi_ms_field *f = &set->field[i];
        map->field[i] = -1;
        if (!f->n_row) continue;
        entity e = {.set = k, .place = {f->ra_rad, f->dec_rad}};
        memcpy(e.name, f->name, sizeof e.name);
        memcpy(e.frame, f->frame, sizeof e.frame);
        MSI_TRY(number_entity(&m->field, &e, same_field, &map->field[i], &map->field_is_new[i]));
    }
    return MSI_OK;
}

/* The subtables with the rows of a setup. */
typedef enum row_of { WINDOW, POLARIZATION, DATA_DESC } row_of;

static int32_t row_in(const msi_set_map *map, const msi_ms_spw *spw, row_of which)
{
    if (which == WINDOW) return spw->spw_id;
    return which == POLARIZATION ? map->polarization_of[spw->data_desc_id] : spw->data_desc_id;
}

static int add_window(msi_set_maps *m, msi_set_map *map, const msi_ms_set *set, const msi_ms_spw *spw, int32_t n_group)
{
    const int32_t w = spw->spw_id;
    entity e = {.set = spw->set, .spw = spw, .n_group = n_group};
    memcpy(e.frame, set->window[w].frame, sizeof e.frame);
    return number_entity(&m->window, &e, same_window, &map->window[w], &map->window_is_new[w]);
}

static int add_polarization(msi_set_maps *m, msi_set_map *map, const msi_ms_spw *spw)
{
    const int32_t p = map->polarization_of[spw->data_desc_id];
    entity e = {.set = spw->set, .id = {spw->n_corr, 0}};
    /* msi_pol is below 32. */
    for (int c = 0; c < spw->n_corr; c++) e.id[1] = 32 * e.id[1] + (int32_t)spw->corr[c];
    return number_entity(&m->polarization, &e, same_ids, &map->polarization[p], &map->polarization_is_new[p]);
}

static int add_data_desc(msi_set_maps *m, msi_set_map *map, const msi_ms_spw *spw)
{
    const int32_t d = spw->data_desc_id;
    const entity e = {.set = spw->set, .id = {map->window[spw->spw_id], map->polarization[map->polarization_of[d]]}};
    return number_entity(&m->data_desc, &e, same_ids, &map->data_desc[d], &map->data_desc_is_new[d]);
}

/* Find the first selected setup of a row. Returns -1 if there is none. */
static int setup_of_row(const msi_set_map *map, const msi_ms_reader *reader, int k, row_of which, int32_t row)
{
    for (int i = 0; i < reader->n_spw; i++)
        if (reader->spw[i].set == k && reader->spw[i].n_row > 0 && row_in(map, &reader->spw[i], which) == row) return i;
    return -1;
}

/* Number windows, polarizations and data descriptions of selected setups, each in the order of rows, because subtables
 * are copied in this order. Data descriptions may refer to windows in any order. */
static int add_setups(msi_set_maps *m, msi_set_map *map, const msi_ms_reader *reader, int k,
                      const msi_channel_groups *groups)
{
    const int32_t n[] = {map->n_window, map->n_polarization, map->n_data_desc};
    for (int which = WINDOW; which <= DATA_DESC; which++)
        for (int32_t row = 0; row < n[which]; row++) {
            const int i = setup_of_row(map, reader, k, (row_of)which, row);
            if (i < 0) continue;
            const msi_ms_spw *spw = &reader->spw[i];
            if (which == WINDOW) MSI_TRY(add_window(m, map, &reader->set[k], spw, groups[i].n_group));
            if (which == POLARIZATION) MSI_TRY(add_polarization(m, map, spw));
            if (which == DATA_DESC) MSI_TRY(add_data_desc(m, map, spw));
        }
    return MSI_OK;
}

static int check_polarizations(const msi_set_map *map, const msi_ms_reader *reader, int k)
{
    for (int i = 0; i < reader->n_spw; i++) {
        const msi_ms_spw *spw = &reader->spw[i];
        if (spw->set != k || !spw->n_row) continue;
        const int32_t d = spw->data_desc_id, p = map->polarization_of[d];
        if (p < 0 || p >= map->n_polarization)
            return msi_error_set(MSI_EINPUT, "%s/DATA_DESCRIPTION: column POLARIZATION_ID, row %d: is %d; there are %d",
                                 reader->set[k].path, d, p, map->n_polarization);
    }
    return MSI_OK;
}

static int allocate(msi_set_map *map, const msi_ms_set *set)
{
    map->n_antenna = (int32_t)set->n_antenna;
    map->n_field = set->n_field;
    map->n_window = set->n_window;
    map->n_data_desc = set->n_setup;
    const struct {
        int32_t **id;
        uint8_t **is_new;
        int32_t n;
    } lists[] = {{&map->antenna, &map->antenna_is_new, map->n_antenna},
                 {&map->field, &map->field_is_new, map->n_field},
                 {&map->window, &map->window_is_new, map->n_window},
                 {&map->polarization, &map->polarization_is_new, map->n_polarization},
                 {&map->data_desc, &map->data_desc_is_new, map->n_data_desc}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        MSI_TRY(msi_alloc(lists[i].id, lists[i].n, sizeof **lists[i].id, "index maps"));
        MSI_TRY(msi_alloc(lists[i].is_new, lists[i].n, 1, "index maps"));
        for (int32_t k = 0; k < lists[i].n; k++) (*lists[i].id)[k] = -1;
    }
    return msi_alloc(&map->polarization_of, map->n_data_desc, sizeof *map->polarization_of, "index maps");
}

static int read_descriptions(msi_set_map *map, ccc_table *table)
{
    ccc_table *t;
    MSI_CCC(ccc_subtable_open(&t, table, "DATA_DESCRIPTION"));
    const int status = msi_set_read(ccc_get_range(t, "POLARIZATION_ID", 0, map->n_data_desc, NULL, CCC_INT32,
                                                  map->polarization_of, map->n_data_desc));
    ccc_table_close(t);
    return status;
}

int msi_set_maps_add(msi_set_maps *maps, ccc_table *table, const msi_ms_reader *reader, int k,
                     const msi_channel_groups *groups)
{
    msi_set_map *map = &maps->map[k];
    const msi_ms_set *set = &reader->set[k];
    ccc_table *t;
    MSI_CCC(ccc_subtable_open(&t, table, "POLARIZATION"));
    map->n_polarization = (int32_t)ccc_table_n_row(t);
    ccc_table_close(t);
    MSI_TRY(allocate(map, set));
    MSI_TRY(read_descriptions(map, table));
    MSI_TRY(add_antennas(maps, map, table, set, k));
    MSI_TRY(add_fields(maps, map, set, k));
    MSI_TRY(check_polarizations(map, reader, k));
    return add_setups(maps, map, reader, k, groups);
}

static void free_map(msi_set_map *map)
{
    void *const all[] = {map->antenna,          map->field,          map->window,
                         map->polarization,     map->data_desc,      map->antenna_is_new,
                         map->window_is_new,    map->field_is_new,   map->polarization_is_new,
                         map->data_desc_is_new, map->polarization_of};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) msi_free(all[i]);
}

void msi_set_maps_free(msi_set_maps *m)
{
    if (!m) return;
    for (int k = 0; m->map && k < m->n_set; k++) free_map(&m->map[k]);
    msi_free(m->map);
    msi_free(m->antenna.item);
    msi_free(m->field.item);
    msi_free(m->window.item);
    msi_free(m->polarization.item);
    msi_free(m->data_desc.item);
    msi_free(m);
}
