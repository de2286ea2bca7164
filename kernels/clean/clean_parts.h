/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Channels are made of parts, and spectra whose means over a channel are its values. */
#ifndef MSI_CLEAN_PARTS_H
#define MSI_CLEAN_PARTS_H

#include "kernels/clean/clean_state.h"

/*
 * msi_clean_parts_make - check c->spec's parts, or its channels where it has none, and copy them to c->parts.
 * Returns: 0, MSI_EARGUMENT, MSI_ENOMEM; what was made is freed by msi_clean_parts_free
 */
int msi_clean_parts_make(msi_cleaner *c);
void msi_clean_parts_free(msi_clean_parts *p);

/* msi_clean_parts_fit - make the matrices of spec's polynomial, once shares are known. Returns: 0, MSI_EARGUMENT,
 * MSI_ENOMEM */
int msi_clean_parts_fit(msi_cleaner *c);

/* msi_clean_log_nodes - fill setup.log: where, within channels, spectra are evaluated. */
void msi_clean_log_nodes(msi_cleaner *c);

/* msi_clean_parts_release - give the engine's memory back. */
void msi_clean_parts_release(msi_cleaner *c);

#endif
