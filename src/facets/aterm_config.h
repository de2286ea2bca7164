/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The file of -aterm-config, in WSClean's format: lines KEY = VALUE, a list as [A, B], comments after #. The list
 * `aterms` names the terms; NAME.type is the kind of a term, otherwise its name is.
 */
#ifndef MSI_ATERM_CONFIG_H
#define MSI_ATERM_CONFIG_H

typedef enum msi_aterm_kind {
    MSI_ATERM_TEC,      /* total electron content: a phase that is inverse to the frequency */
    MSI_ATERM_DLDM,     /* shifts of sources in l and m */
    MSI_ATERM_DIAGONAL, /* complex gains of both feeds */
    MSI_ATERM_BEAM      /* the primary beam */
} msi_aterm_kind;

enum { MSI_ATERM_MOST = 8 };

typedef struct msi_aterm {
    msi_aterm_kind kind;
    const char *name;
    int n_image;
    const char **image; /* [n_image] FITS files */
} msi_aterm;

typedef struct msi_aterm_config {
    char *text; /* owned; names point into it */
    int n;
    msi_aterm term[MSI_ATERM_MOST];
    int has_beam;
    double beam_update_s; /* negative: not given */
} msi_aterm_config;

/* Stands for the path of a file with `aterms = [beam]`. */
extern const char MSI_ATERMS_BEAM[];

/*
 * msi_aterm_config_read - read the file.
 * Returned: *out  emptied by msi_aterm_config_free; empty on failure
 * Returns:  0, MSI_EINPUT (not such a file; an unknown or unsupported kind; no images), MSI_ENOMEM
 */
int msi_aterm_config_read(msi_aterm_config *out, const char *path);
void msi_aterm_config_free(msi_aterm_config *c);

#endif
