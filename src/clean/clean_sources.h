/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Components of a cleaner on their way into a list of sources. */
#ifndef MSI_SRC_CLEAN_SOURCES_H
#define MSI_SRC_CLEAN_SOURCES_H

#include "src/clean/source_list.h"

/* Tells whose components they are. */
typedef struct msi_clean_sources_spec {
    int n_channel, n_pol; /* of the cleaner */
    int pol;              /* the one of n_pol whose values are kept */
    msi_precision precision;
} msi_clean_sources_spec;

typedef struct msi_clean_sources {
    msi_clean_sources_spec spec;
    msi_source_list *list;
    msi_clean_component *component; /* [room] of a call */
    void *value;                    /* [room][n_channel][n_pol] */
    int64_t room;
} msi_clean_sources;

/* msi_clean_sources_bytes - count what a call's components take: as many as one major cycle may have. */
int64_t msi_clean_sources_bytes(void);

/*
 * msi_clean_sources_create - make an empty list, with room for the components of a call.
 * Returned: *out  freed by msi_clean_sources_free; NULL on failure
 * Returns:  0, MSI_ENOMEM
 */
int msi_clean_sources_create(msi_clean_sources **out, const msi_clean_sources_spec *spec);

/* msi_clean_sources_free - NULL is fine. */
void msi_clean_sources_free(msi_clean_sources *s);

/* msi_clean_sources_limit - let a call of msi_cleaner_minor record its components: no more than there is room for. */
void msi_clean_sources_limit(const msi_clean_sources *s, msi_clean_limits *limits);

/* msi_clean_sources_add - add what a call recorded; msi_source_list_keep keeps it. Returns: 0, MSI_ENOMEM */
int msi_clean_sources_add(msi_clean_sources *s, const msi_clean_report *report);

/*
 * msi_clean_sources_model - keep every pixel of a model that is not zero as a point.
 * Given:   model  [n_channel][n_pol] planes
 * Returns: 0, MSI_ENOMEM, MSI_EGPU
 */
int msi_clean_sources_model(msi_clean_sources *s, const msi_planes *model);

#endif
