/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * The options are rows of tables, table_*.c, which one list joins. The parser, -help, the man page and the shell
 * completions come from it.
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
    MSI_GROUP_OUTPUT,
    MSI_GROUP_PREDICT,
    MSI_GROUP_PERFORMANCE,
    MSI_GROUP_OTHER,
    MSI_N_GROUP
} msi_option_group;

typedef struct msi_option_group_text {
    const char *key;   /* the word that `-help` takes */
    const char *title; /* the section's heading */
} msi_option_group_text;

extern const msi_option_group_text msi_option_groups[MSI_N_GROUP];

/* A shell offers these for an argument that has no fixed words. */
typedef enum msi_completion { MSI_COMPLETE_NOTHING, MSI_COMPLETE_PATH, MSI_COMPLETE_DIRECTORY } msi_completion;

/* The kind of run that an option has a meaning for. */
typedef enum msi_option_use { MSI_USE_ALWAYS, MSI_USE_IMAGING, MSI_USE_PREDICT } msi_option_use;

typedef struct msi_option msi_option;

/*
 * Read an option's arguments into the options.
 * Given:    option; argument [n_argument] as the option's arity says
 * Returns:  0, MSI_EUSAGE, MSI_ENOMEM
 */
typedef int msi_option_reader(msi_options *options, const msi_option *option, int n_argument,
                              const char *const *argument);

/* One row. Members that a reader does not use are zero. */
struct msi_option {
    const char *name;  /* without the dash */
    const char *alias; /* a second spelling, or NULL */
    msi_option_use use;
    const char *arguments;  /* their names, separated by blanks; "" takes none. One in [] is may be left out */
    const char *more_after; /* the first argument after which that in [] follows; NULL: whatever stands there is it */
    const char *fallback;   /* default in the option's own syntax, parsed before the command line; NULL: none */
    const char *fallback_words; /* how the default is told where it is no such text; NULL: as fallback, or nothing */
    const char *choices;        /* words for the first argument, separated by |; NULL: any, or those of the next */
    const char *(*choices_of)(void); /* makes the same list where another table has the words */
    msi_completion completion;
    const char *help; /* sentences; the first one also serves the shells */
    msi_option_reader *read;
    size_t offset;    /* of the member of msi_options that read fills */
    double low, high; /* range of a number, both ends included; of a flag, high is the value that it stores */
};

/* A table holds the options about one subject, in a file of its own; several tables may make one group. */
typedef struct msi_option_table {
    msi_option_group group;
    const msi_option *row;
    int n_row;
} msi_option_table;

extern const msi_option_table msi_table_image, msi_table_samples, msi_table_weighting, msi_table_clean_loop,
    msi_table_clean_mask, msi_table_clean_component, msi_table_clean_beam, msi_table_clean_run, msi_table_output,
    msi_table_predict, msi_table_performance, msi_table_other;

/* msi_option_count - the number of all options; aliases do not count. */
int msi_option_count(void);

/* msi_option_at - give the i-th option, those of a group side by side, in the order of help; NULL past the last. */
const msi_option *msi_option_at(int i);

/* msi_option_group_of - the group of a row that msi_option_at or msi_option_find gave; MSI_N_GROUP of another. */
msi_option_group msi_option_group_of(const msi_option *option);

/* msi_option_find - find the row of a name or alias without its dashes; NULL if there is none. */
const msi_option *msi_option_find(const char *name);

/* msi_option_arity - tell how many arguments follow, given the first one (NULL: none follows). */
int msi_option_arity(const msi_option *option, const char *first);

/* msi_option_choices - return the words that the first argument may be, separated by |; NULL: any. Borrowed, static. */
const char *msi_option_choices(const msi_option *option);

/*
 * msi_option_choice_words - return the words that the first argument must be one of, as help and manual tell them.
 * Returned: out, such as "auto, cpu or cuda", cut to size; "" where there are none, or other words may stand there
 * Returns:  out
 */
const char *msi_option_choice_words(char *out, size_t size, const msi_option *option);

/* msi_option_default - tell the default; NULL where there is nothing to tell. */
const char *msi_option_default(const msi_option *option);

/*
 * msi_option_word - return the i-th of the words in a list such as "W H" or "auto|cpu|cuda".
 * Given:    list (NULL: empty), separator, i
 * Returned: *length of the word
 * Returns:  where it begins; NULL past the last
 */
const char *msi_option_word(const char *list, char separator, int i, size_t *length);

/* Readers of the arguments; the tables name them. These read by type, into the member at the row's offset. */
msi_option_reader msi_read_flag;      /* int: the row's `high` */
msi_option_reader msi_read_text;      /* const char *: not empty */
msi_option_reader msi_read_count;     /* int64_t in [low, high] */
msi_option_reader msi_read_auto;      /* int64_t in [low, high]; 0 for the word auto */
msi_option_reader msi_read_threads;   /* int in [low, high] */
msi_option_reader msi_read_real;      /* double in [low, high] */
msi_option_reader msi_read_angle;     /* double: radians, positive */
msi_option_reader msi_read_choice;    /* enum: the index of the word in `choices` */
msi_option_reader msi_read_word;      /* const char *: one of the choices */
msi_option_reader msi_read_range;     /* two int64_t one after the other: A < B */
msi_option_reader msi_read_png_range; /* picture: A < B; sets png too */

/* Each of these reads one option. */
msi_option_reader msi_read_size;
msi_option_reader msi_read_scale;
msi_option_reader msi_read_shift;
msi_option_reader msi_read_flux;
msi_option_reader msi_read_pol;
msi_option_reader msi_read_link_pol;
msi_option_reader msi_read_weight;
msi_option_reader msi_read_scales;
msi_option_reader msi_read_mgain;
msi_option_reader msi_read_beam_shape;
msi_option_reader msi_read_restore;
msi_option_reader msi_read_field;
msi_option_reader msi_read_spws;
msi_option_reader msi_read_name;
msi_option_reader msi_read_help;
msi_option_reader msi_read_gpus;
msi_option_reader msi_read_version;

/* The member of msi_options that a row's reader fills. */
#define AT(member) .offset = offsetof(msi_options, member)

#endif
