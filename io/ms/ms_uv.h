/* SPDX-License-Identifier: GPL-3.0-or-later */
/* UVFITS and FITS-IDI files as sets of the reader: they have the metadata that the subtables of a set have. */
#ifndef MSI_MS_UV_H
#define MSI_MS_UV_H

#include "io/ms/ms_metadata.h"

/* msi_ms_uv_open - open the file at a set's path. Returns: 0, MSI_EINPUT, MSI_ENOMEM, MSI_EINTERRUPTED. */
int msi_ms_uv_open(msi_ms_set *set);

/* msi_ms_uv_describe - implement msi_ms_set_describe for such a file. Returns: 0, MSI_ENOMEM, MSI_EINPUT (also if the
 * selection needs a set's tables or columns). */
int msi_ms_uv_describe(msi_ms_set *set, const msi_ms_selection *selection);

/* msi_ms_uv_rest_frequency - return the first rest frequency of a field, 0 if it is unknown. */
double msi_ms_uv_rest_frequency(const msi_ms_set *set, int field);

/* msi_ms_uv_observe - fill the part of an observation that msi_ms_set_observe reads from subtables. */
void msi_ms_uv_observe(const msi_ms_set *set, msi_observation *o);

#endif
