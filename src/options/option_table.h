/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Options are rows of tables (table_*.c), which option_table.c joins to one list. The parser, -help, the man page and
 * the shell completions are made from this list.
 */
#ifndef MSI_SRC_OPTION_TABLE_H
#define MSI_SRC_OPTION_TABLE_H

#include <stddef.h>

#include "src/options/options.h"

typedef enum msi_option_group {
    MSI_GROUP_IMAGE,
    MSI_GROUP_SAMPLES,
    MSI_GROUP_WEIGHTING,
    MSI_GROUP_CLEAN,
    MSI_GROUP_BEAM,
    MSI_GROUP_FACETS,
    MSI_GROUP_CUBE,
    MSI_GROUP_OUTPUT,
    MSI_GROUP_PREDICT,
    MSI_GROUP_PERFORMANCE,
    MSI_GROUP_OTHER,
    MSI_N_GROUP
} msi_option_group;

typedef struct msi_option_group_text {
    const char *key;   /* the topic of -help */
    const char *title; /* the heading of the section */
} msi_option_group_text;

extern const msi_option_group_text msi_option_groups[MSI_N_GROUP];

/* How an argument without a list of choices is completed. */
typedef enum msi_completion { MSI_COMPLETE_NOTHING, MSI_COMPLETE_PATH, MSI_COMPLETE_DIRECTORY } msi_completion;

/* The kinds of run that an option applies to. */
typedef enum msi_option_use { MSI_USE_ALWAYS, MSI_USE_IMAGING, MSI_USE_PREDICT, MSI_USE_DRAW } msi_option_use;

typedef struct msi_option msi_option;

/*
 * Read the arguments of an option into the options.
 * Given:    option; argument [n_argument], n_argument as msi_option_arity counts them
 * Returns:  0, MSI_EUSAGE, MSI_ENOMEM
 */
typedef int msi_option_reader(msi_options *options, const msi_option *option, int n_argument,
                              const char *const *argument);

/* One option, a row of a table. Members that its reader does not use are zero. */
struct msi_option {
    const char *name;  /* without the dash */
    const char *alias; /* a second spelling, or NULL */
    msi_option_use use;
    const char *arguments; /* the names of its arguments, separated by spaces; one in [] is optional */
    /* the optional argument belongs only to first arguments that begin with this; NULL: to all */
    const char *more_after;
    const char *fallback;            /* the default as an argument, parsed before the command line; NULL: none */
    const char *fallback_words;      /* the default in words, for the help; NULL: print `fallback` */
    const char *choices;             /* allowed words of the first argument, separated by |; NULL: any */
    const char *(*choices_of)(void); /* returns such a list, if it is made from another table; else NULL */
    msi_completion completion;
    const char *help; /* sentences; the shells show the first one */
    msi_option_reader *read;
    size_t offset;    /* offset of the member of msi_options that `read` sets */
    double low, high; /* allowed range of a number, including both ends; a flag stores `high` */
};

/* A table has the options of one subject. Several tables may belong to one group. */
typedef struct msi_option_table {
    msi_option_group group;
    const msi_option *row;
    int n_row;
} msi_option_table;

extern const msi_option_table msi_table_image, msi_table_samples, msi_table_weighting, msi_table_clean_loop,
    msi_table_clean_mask, msi_table_clean_component, msi_table_clean_beam, msi_table_clean_run, msi_table_beam,
    msi_table_facets, msi_table_cube, msi_table_output, msi_table_predict, msi_table_performance, msi_table_other;

/* msi_option_count - return the number of options, without aliases. */
int msi_option_count(void);

/* msi_option_at - return the i-th option, in the order of the help; NULL past the last. */
const msi_option *msi_option_at(int i);

/* msi_option_group_of - return the group of a row of the tables; MSI_N_GROUP for other rows. */
msi_option_group msi_option_group_of(const msi_option *option);

/* msi_option_find - find the row with a name or alias, without dashes; NULL if there is none. */
const msi_option *msi_option_find(const char *name);

/* msi_option_arity - return the number of arguments, given the word that follows the option (NULL: none follows). */
int msi_option_arity(const msi_option *option, const char *first);

/* msi_option_choices - return the allowed words of the first argument, separated by |; NULL: any. Borrowed, static. */
const char *msi_option_choices(const msi_option *option);

/*
 * msi_option_choice_words - write the allowed words of the first argument as the help and the man page show them.
 * Returned: out, such as "auto, cpu or cuda", cut to size; "" if other words are allowed too
 * Returns:  out
 */
const char *msi_option_choice_words(char *out, size_t size, const msi_option *option);

/* msi_option_default - return the default as the help shows it; NULL if it shows none. */
const char *msi_option_default(const msi_option *option);

/*
 * msi_option_word - return the i-th of the words in a list such as "W H" or "auto|cpu|cuda".
 * Given:    list (NULL: empty), separator, i
 * Returned: *length of the word
 * Returns:  the beginning of the word; NULL past the last
 */
const char *msi_option_word(const char *list, char separator, int i, size_t *length);

/* ---- Readers. Each of these reads one type, into the member at the row's offset. ---- */
msi_option_reader msi_read_flag;      /* int: the row's `high` */
msi_option_reader msi_read_text;      /* const char *, not empty */
msi_option_reader msi_read_count;     /* int64_t in [low, high] */
msi_option_reader msi_read_auto;      /* int64_t in [low, high], or 0 for the word auto */
msi_option_reader msi_read_taper;     /* double: radians, 0 or more; a bare number is in arcseconds */
msi_option_reader msi_read_threads;   /* int in [low, high] */
msi_option_reader msi_read_real;      /* double in [low, high] */
msi_option_reader msi_read_angle;     /* double: radians, positive */
msi_option_reader msi_read_choice;    /* enum: the index of the word in `choices` */
msi_option_reader msi_read_word;      /* const char *: one of the choices */
msi_option_reader msi_read_range;     /* two adjacent int64_t, A < B */
msi_option_reader msi_read_pair;      /* two adjacent int64_t in [low, high] */
msi_option_reader msi_read_spectral;  /* msi_spectral_value */
msi_option_reader msi_read_frequency; /* double: Hz, above 0 */
msi_option_reader msi_read_frame;     /* const char *: the frame in upper case */
msi_option_reader msi_read_interval;  /* two adjacent int64_t, A < B, or A 0: from A to the end */
msi_option_reader msi_read_png_range; /* the range of the pictures, A < B; also sets `png` */

/* Each of these reads only one option. */
msi_option_reader msi_read_size;
msi_option_reader msi_read_scale;
msi_option_reader msi_read_shift;
msi_option_reader msi_read_flux;
msi_option_reader msi_read_pol;
msi_option_reader msi_read_link_pol;
msi_option_reader msi_read_weight;
msi_option_reader msi_read_scales;
msi_option_reader msi_read_mgain;
msi_option_reader msi_read_local_rms;
msi_option_reader msi_read_solutions;
msi_option_reader msi_read_horizon;
msi_option_reader msi_read_beam_shape;
msi_option_reader msi_read_restore;
msi_option_reader msi_read_draw_centre;
msi_option_reader msi_read_draw_band;
msi_option_reader msi_read_field;
msi_option_reader msi_read_spws;
msi_option_reader msi_read_splits;
msi_option_reader msi_read_correction;
msi_option_reader msi_read_reference;
msi_option_reader msi_read_name;
msi_option_reader msi_read_help;
msi_option_reader msi_read_gpus;
msi_option_reader msi_read_version;
msi_option_reader msi_read_tclean;
msi_option_reader msi_read_uvcontsub;
msi_option_reader msi_read_fit_channels;

/* The member of msi_options that the row's reader sets. */
#define AT(member) .offset = offsetof(msi_options, member)

#endif
