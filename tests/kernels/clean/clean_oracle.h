/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Methods of cleaning computed directly from their definitions, on arrays, in double: no transforms, tiles or separate
 * lists. Fits are solved again for every component. */
#ifndef MSI_TESTS_CLEAN_ORACLE_H
#define MSI_TESTS_CLEAN_ORACLE_H

#include <stdint.h>

enum { ORACLE_CHANNELS = 96, ORACLE_SCALES = 8, ORACLE_PSFS = 96, ORACLE_TERMS = 4 };

/* The images and parameters of cleaning. Planes are [n_channel][n_pol][ny][nx]. */
typedef struct clean_problem {
    int64_t nx, ny;
    int n_channel, n_pol;
    double weight[ORACLE_CHANNELS], freq_hz[ORACLE_CHANNELS];
    int grid_x, grid_y; /* cells of the image, each with separate PSFs; 0: 1 */
    double *psf;        /* [grid_y][grid_x][n_channel][ny][nx], at most ORACLE_PSFS of them */
    double *residual, *model;
    unsigned searched;    /* bit k: polarisation k is searched; 0: all are */
    const uint8_t *mask;  /* NULL: everywhere */
    const double *factor; /* of local noise, NULL: none */
} clean_problem;

typedef struct oracle_rules {
    double gain, threshold, mgain;
    int64_t n_iteration;
    int no_negative, squared, n_term; /* n_term: terms of the polynomial, 0: no fit */
    int64_t patch;                    /* hogbom; 0: all */
    int n_scale;
    double scale[ORACLE_SCALES], beam, bias, scale_gain;
    int gaussian;
    double small_scale_bias; /* for oracle_cornwell */
    int of_taylor; /* for oracle_cornwell: the masks and the end of tclean's mtmfs; with n_term its choice too */
} oracle_rules;

typedef struct oracle_component {
    int64_t x, y;
    int scale;
    double value[ORACLE_CHANNELS * 4];
} oracle_component;

/* Return the number of PSFs. */
int oracle_n_psf(const clean_problem *p);

/* Compute the joined quantity of pixel i. */
double oracle_quantity(const clean_problem *p, int squared, const double *planes, int64_t i);

/* oracle_hogbom, oracle_list, oracle_multiscale - clean; components [n_iteration] are those found. Returns their
 * number. */
int64_t oracle_hogbom(clean_problem *p, const oracle_rules *rules, oracle_component *out);
int64_t oracle_list(clean_problem *p, const oracle_rules *rules, oracle_component *out);
int64_t oracle_multiscale(clean_problem *p, const oracle_rules *rules, oracle_component *out);

/*
 * oracle_cornwell - the same, after T. J. Cornwell, IEEE J. Sel. Top. Signal Process. 2, 793 (2008), as in tclean:
 * every component is the one that removes most from the squares of the joined residual, times its scale's factor.
 */
int64_t oracle_cornwell(clean_problem *p, const oracle_rules *rules, oracle_component *out);

/* oracle_convolve - compute out = in (*) psf of one plane, the PSF's middle at (nx/2, ny/2), zero beyond both
 * images. */
void oracle_convolve(const clean_problem *p, const double *in, const double *psf, double *out);

#endif
