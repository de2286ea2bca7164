/* SPDX-License-Identifier: GPL-3.0-or-later */
/* The algebra of gains: the baseline of antennas p and q measures J_p M J_q^H, with the matrix M of correlations of the
 * sky. Shared by C and CUDA. */
#ifndef MSI_SAMPLE_GAINS_H
#define MSI_SAMPLE_GAINS_H

#include "kernels/method/geometry.h"

/* Forms of a Jones matrix: one number for both feeds, one number for each feed, or all elements XX, XY, YX, YY. */
typedef enum msi_gain_form { MSI_GAIN_SCALAR = 1, MSI_GAIN_DIAGONAL = 2, MSI_GAIN_FULL = 4 } msi_gain_form;

/* Indices of the planes of Stokes I, Q, U, V, or of the correlations XX, XY, YX, YY, among n planes. -1: no plane, the
 * element is 0. */
typedef struct msi_gain_planes {
    int is_stokes, is_circular, n;
    int plane[4];
} msi_gain_planes;

MSI_HD msi_c64 msi_times(msi_c64 a, msi_c64 b)
{
    msi_c64 c;
    c.re = a.re * b.re - a.im * b.im;
    c.im = a.re * b.im + a.im * b.re;
    return c;
}

/* msi_times_conj - return a times the conjugate of b. */
MSI_HD msi_c64 msi_times_conj(msi_c64 a, msi_c64 b)
{
    msi_c64 c;
    c.re = a.re * b.re + a.im * b.im;
    c.im = a.im * b.re - a.re * b.im;
    return c;
}

MSI_HD msi_c64 msi_plus(msi_c64 a, msi_c64 b)
{
    msi_c64 c;
    c.re = a.re + b.re;
    c.im = a.im + b.im;
    return c;
}

MSI_HD msi_c64 msi_minus(msi_c64 a, msi_c64 b)
{
    msi_c64 c;
    c.re = a.re - b.re;
    c.im = a.im - b.im;
    return c;
}

/* msi_halved - return half of a number. */
MSI_HD msi_c64 msi_halved(msi_c64 a)
{
    a.re *= 0.5;
    a.im *= 0.5;
    return a;
}

/* msi_gains_to_matrix - compute the matrix m [4] of correlations from the planes v of a sample. */
MSI_HD void msi_gains_to_matrix(const msi_gain_planes *p, const msi_c64 *v, msi_c64 *m)
{
    msi_c64 s[4], none;
    none.re = none.im = 0;
    for (int e = 0; e < 4; e++) s[e] = p->plane[e] >= 0 ? v[p->plane[e]] : none;
    if (!p->is_stokes) {
        for (int e = 0; e < 4; e++) m[e] = s[e];
        return;
    }
    const msi_c64 a = s[p->is_circular ? 3 : 1], b = s[p->is_circular ? 1 : 2], c = s[p->is_circular ? 2 : 3];
    m[0] = msi_plus(s[0], a);
    m[3] = msi_minus(s[0], a);
    m[1].re = b.re - c.im;
    m[1].im = b.im + c.re;
    m[2].re = b.re + c.im;
    m[2].im = b.im - c.re;
}

/* msi_gains_from_matrix - compute the planes v of a sample from the matrix m [4] of correlations. */
MSI_HD void msi_gains_from_matrix(const msi_gain_planes *p, const msi_c64 *m, msi_c64 *v)
{
    msi_c64 s[4];
    if (p->is_stokes) {
        const msi_c64 d = msi_halved(msi_minus(m[1], m[2]));
        s[0] = msi_halved(msi_plus(m[0], m[3]));
        s[p->is_circular ? 3 : 1] = msi_halved(msi_minus(m[0], m[3]));
        s[p->is_circular ? 1 : 2] = msi_halved(msi_plus(m[1], m[2]));
        s[p->is_circular ? 2 : 3].re = d.im;
        s[p->is_circular ? 2 : 3].im = -d.re;
    } else {
        for (int e = 0; e < 4; e++) s[e] = m[e];
    }
    for (int e = 0; e < 4; e++)
        if (p->plane[e] >= 0) v[p->plane[e]] = s[e];
}

/* msi_gains_matrix - apply gains p and q to a matrix m [4] of correlations: J_p M J_q^H, or J_p^H M J_q. Given: form 
 * not MSI_GAIN_SCALAR */
MSI_HD void msi_gains_matrix(msi_gain_form form, int is_adjoint, const msi_c64 *p, const msi_c64 *q, msi_c64 *m)
{
    if (form == MSI_GAIN_DIAGONAL) {
        for (int e = 0; e < 4; e++) {
            const msi_c64 g = is_adjoint ? msi_times_conj(q[e % 2], p[e / 2]) : msi_times_conj(p[e / 2], q[e % 2]);
            m[e] = msi_times(m[e], g);
        }
        return;
    }
    msi_c64 t[4];
    for (int row = 0; row < 2; row++)
        for (int col = 0; col < 2; col++)
            t[2 * row + col] = is_adjoint
                                   ? msi_plus(msi_times_conj(m[col], p[row]), msi_times_conj(m[2 + col], p[2 + row]))
                                   : msi_plus(msi_times(p[2 * row], m[col]), msi_times(p[2 * row + 1], m[2 + col]));
    for (int row = 0; row < 2; row++)
        for (int col = 0; col < 2; col++)
            m[2 * row + col] =
                is_adjoint
                    ? msi_plus(msi_times(t[2 * row], q[col]), msi_times(t[2 * row + 1], q[2 + col]))
                    : msi_plus(msi_times_conj(t[2 * row], q[2 * col]), msi_times_conj(t[2 * row + 1], q[2 * col + 1]));
}

/* msi_gains_apply - apply gains p and q [form] to the planes v of a sample. */
MSI_HD void msi_gains_apply(const msi_gain_planes *map, msi_gain_form form, int is_adjoint, const msi_c64 *p,
                            const msi_c64 *q, msi_c64 *v)
{
    msi_c64 m[4];
    if (form == MSI_GAIN_SCALAR) {
        const msi_c64 g = is_adjoint ? msi_times_conj(*q, *p) : msi_times_conj(*p, *q);
        for (int i = 0; i < map->n; i++) v[i] = msi_times(v[i], g);
        return;
    }
    msi_gains_to_matrix(map, v, m);
    msi_gains_matrix(form, is_adjoint, p, q, m);
    msi_gains_from_matrix(map, m, v);
}

/* A phase gradient over a facet changes u and v of a sample, differently in each channel. Such samples are stored as
 * rows of one channel with this frequency. */
#define MSI_FACET_BENT_HZ 1e8

/* The parts of a row's tag: its two antennas, and its slot, the index of a time with gains. */
MSI_HD int msi_tag_first(uint64_t tag)
{
    return (int)(tag & 0xffff);
}

MSI_HD int msi_tag_second(uint64_t tag)
{
    return (int)(tag >> 16 & 0xffff);
}

MSI_HD int64_t msi_tag_slot(uint64_t tag)
{
    return (int64_t)(tag >> 32);
}

#endif
