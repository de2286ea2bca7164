/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Images in tiles, for images whose grid does not fit in memory: the image is cut into n x n tiles. The samples are
 * turned to the centre of each in turn, and a grid of its size makes it, by any strategy of the default gridder on the
 * CPU. All samples are gridded n^2 times, but the transforms of all tiles together take about the time of those of the
 * image. A prediction is the sum of those of the tiles.
 */
#ifndef MSI_TILES_H
#define MSI_TILES_H

#include "kernels/method/method.h"

/* msi_tiles_strategy - the strategy of specifications with n_tile > 1. It is not in the table, since the memory of a run
 * decides on tiles before a strategy is chosen. */
extern const msi_strategy msi_tiles_strategy;

#endif
