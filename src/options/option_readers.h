/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Read the arguments of each kind of option; the option table names these functions. */
#ifndef MSI_SRC_OPTION_READERS_H
#define MSI_SRC_OPTION_READERS_H

#include "src/options/option_table.h"

/* These read by type, into the member at the row's offset. */
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

#endif
