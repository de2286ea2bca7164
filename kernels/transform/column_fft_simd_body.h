/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Column transforms of fft_cpu.h in one precision. Included by column_simd.c with REAL, CPLX and SUFFIX set.
 *
 * A transform of N1 N2 points: (1) for each residue modulo N2, gather N1 rows, transform them and multiply by the turns
 * exp(-2 pi i k1 n2 / n); (2) for each k1, transform N2 points, and write them out, or multiply them by the factor and
 * transform them back; (3) on the way back, do step 1 in reverse.
 */

#define VEC     NAME(column_vector)
#define ELEMENT NAME(column_element)
#define LANES   (MSI_COLUMN_LINE / (int)sizeof(REAL))

typedef REAL VEC __attribute__((vector_size(MSI_VECTOR_BYTES)));

/* One element of all columns. part[0] has the real parts, part[1] the imaginary parts. */
typedef struct ELEMENT {
    VEC part[2][PER_LINE];
} ELEMENT;

/* Transform p values in place, exponent -2 pi i. */
ALWAYS_INLINE void NAME(butterfly2)(VEC *re, VEC *im)
{
    const VEC r = re[0] - re[1], i = im[0] - im[1];
    re[0] += re[1];
    im[0] += im[1];
    re[1] = r;
    im[1] = i;
}

ALWAYS_INLINE void NAME(butterfly4)(VEC *re, VEC *im)
{
    const VEC r0 = re[0] + re[2], i0 = im[0] + im[2], r1 = re[0] - re[2], i1 = im[0] - im[2];
    const VEC r2 = re[1] + re[3], i2 = im[1] + im[3], r3 = re[1] - re[3], i3 = im[1] - im[3];
    re[0] = r0 + r2;
    im[0] = i0 + i2;
    re[1] = r1 + i3;
    im[1] = i1 - r3;
    re[2] = r0 - r2;
    im[2] = i0 - i2;
    re[3] = r1 - i3;
    im[3] = i1 + r3;
}

/* Transform an odd number of values, by sums and differences of values at the same distance from both ends. cosine and
 * sine [(p - 1) / 2] belong to 2 pi k / p. */
ALWAYS_INLINE void NAME(butterfly_odd)(int p, const double *cosine, const double *sine, VEC *re, VEC *im)
{
    const int half = (p - 1) / 2;
    VEC sum_re[3], sum_im[3], gap_re[3], gap_im[3], out_re = re[0], out_im = im[0];
    const VEC first_re = re[0], first_im = im[0];
    for (int k = 1; k <= half; k++) {
        sum_re[k - 1] = re[k] + re[p - k];
        sum_im[k - 1] = im[k] + im[p - k];
        gap_re[k - 1] = re[k] - re[p - k];
        gap_im[k - 1] = im[k] - im[p - k];
        out_re += sum_re[k - 1];
        out_im += sum_im[k - 1];
    }
    re[0] = out_re;
    im[0] = out_im;
    for (int t = 1; t <= half; t++) {
        VEC even_re = first_re, even_im = first_im, odd_re = first_re * 0, odd_im = odd_re;
        for (int k = 1; k <= half; k++) {
            const int turn = k * t % p, mirrored = turn > half;
            const REAL c = (REAL)cosine[mirrored ? p - turn - 1 : turn - 1];
            const REAL s = (REAL)(mirrored ? -sine[p - turn - 1] : sine[turn - 1]);
            even_re += c * sum_re[k - 1];
            even_im += c * sum_im[k - 1];
            odd_re += s * gap_im[k - 1];
            odd_im += s * gap_re[k - 1];
        }
        re[t] = even_re + odd_re;
        im[t] = even_im - odd_im;
        re[p - t] = even_re - odd_re;
        im[p - t] = even_im + odd_im;
    }
}

ALWAYS_INLINE void NAME(butterfly)(int p, VEC *re, VEC *im)
{
    static const double cos3[] = {-0.5}, sin3[] = {0.86602540378443864676};
    static const double cos5[] = {0.30901699437494742410, -0.80901699437494742410};
    static const double sin5[] = {0.95105651629515357212, 0.58778525229247312917};
    static const double cos7[] = {0.62348980185873353053, -0.22252093395631440429, -0.90096886790241912624};
    static const double sin7[] = {0.78183148246802980871, 0.97492791218182360702, 0.43388373911755812048};
    if (p == 2)
        NAME(butterfly2)(re, im);
    else if (p == 3)
        NAME(butterfly_odd)(3, cos3, sin3, re, im);
    else if (p == 4)
        NAME(butterfly4)(re, im);
    else if (p == 5)
        NAME(butterfly_odd)(5, cos5, sin5, re, im);
    else
        NAME(butterfly_odd)(7, cos7, sin7, re, im);
}

/* Do one stage: transform values that are `done` left / p apart, multiply each by its turn, and store them `done`
 * apart. `re` is the part that is used as the real part; with re = 1 the transform is the inverse. */
ALWAYS_INLINE void NAME(run_stage)(int p, int left, int done, const CPLX *turn, int re, const ELEMENT *in, ELEMENT *out)
{
    const int m = left / p;
    for (int j = 0; j < m; j++)
        for (int q = 0; q < done; q++)
            for (int v = 0; v < PER_LINE; v++) {
                VEC r[7], i[7];
                for (int k = 0; k < p; k++) {
                    r[k] = in[q + done * (j + m * k)].part[re][v];
                    i[k] = in[q + done * (j + m * k)].part[1 - re][v];
                }
                NAME(butterfly)(p, r, i);
                ELEMENT *to = &out[q + done * p * j];
                to->part[re][v] = r[0];
                to->part[1 - re][v] = i[0];
                for (int t = 1; t < p; t++) {
                    const CPLX w = turn[j * (p - 1) + t - 1];
                    to[done * t].part[re][v] = r[t] * w.re - i[t] * w.im;
                    to[done * t].part[1 - re][v] = r[t] * w.im + i[t] * w.re;
                }
            }
}

/* Transform x [n], with a workspace `scratch` of the same size. Returns: the array that has the result, one of the
 * two */
static ELEMENT *NAME(transform_part)(const msi_column_part *part, int re, ELEMENT *x, ELEMENT *scratch)
{
    int left = part->n, done = 1;
    for (int s = 0; s < part->n_stage; s++) {
        const int p = part->radix[s];
        switch (p) {
        case 2:
            NAME(run_stage)(2, left, done, part->turn[s], re, x, scratch);
            break;
        case 3:
            NAME(run_stage)(3, left, done, part->turn[s], re, x, scratch);
            break;
        case 4:
            NAME(run_stage)(4, left, done, part->turn[s], re, x, scratch);
            break;
        case 5:
            NAME(run_stage)(5, left, done, part->turn[s], re, x, scratch);
            break;
        default:
            NAME(run_stage)(7, left, done, part->turn[s], re, x, scratch);
            break;
        }
        ELEMENT *const was = x;
        x = scratch;
        scratch = was;
        left /= p;
        done *= p;
    }
    return x;
}

/* Load a row of the columns into an element. */
ALWAYS_INLINE void NAME(get_row)(const msi_column_rows *rows, int64_t row, ELEMENT *to)
{
    const REAL *from = (const REAL *)((const CPLX *)rows->data + row * rows->pitch);
    REAL part[2][LANES];
    if (rows->given && !rows->given[row]) {
        memset(to, 0, sizeof *to);
        return;
    }
    if (rows->n_column < LANES) memset(part, 0, sizeof part);
    for (int k = 0; k < (rows->n_column < LANES ? rows->n_column : LANES); k++) {
        part[0][k] = from[2 * k];
        part[1][k] = from[2 * k + 1];
    }
    memcpy(to, part, sizeof part);
}

ALWAYS_INLINE void NAME(put_row)(const msi_column_rows *rows, int64_t row, const ELEMENT *from)
{
    REAL *to = (REAL *)((CPLX *)rows->data + row * rows->pitch);
    REAL part[2][LANES];
    if (rows->wanted && !rows->wanted[row]) return;
    memcpy(part, from, sizeof part);
    for (int k = 0; k < (rows->n_column < LANES ? rows->n_column : LANES); k++) {
        to[2 * k] = part[0][k];
        to[2 * k + 1] = part[1][k];
    }
}

/* Multiply an element by a row of the factor, times `scale`. */
ALWAYS_INLINE void NAME(multiply_row)(const msi_column_rows *rows, int64_t row, REAL scale, ELEMENT *x)
{
    const CPLX *factor = (const CPLX *)rows->factor + row * rows->pitch;
    REAL part[2][LANES];
    memcpy(part, x, sizeof part);
    for (int k = 0; k < (rows->n_column < LANES ? rows->n_column : LANES); k++) {
        const REAL re = part[0][k] * scale, im = part[1][k] * scale;
        part[0][k] = re * factor[k].re - im * factor[k].im;
        part[1][k] = re * factor[k].im + im * factor[k].re;
    }
    memcpy(x, part, sizeof part);
}

/* Multiply an element by w, or by its conjugate if re = 1. */
ALWAYS_INLINE void NAME(turn_element)(CPLX w, int re, ELEMENT *x)
{
    for (int v = 0; v < PER_LINE; v++) {
        const VEC r = x->part[re][v], i = x->part[1 - re][v];
        x->part[re][v] = r * w.re - i * w.im;
        x->part[1 - re][v] = r * w.im + i * w.re;
    }
}

/* Do the second step for one k1, whose elements begin at `line` of the workspace: forward, backward, or both with the
 * product between them. */
static void NAME(middle_step)(const msi_column_fft *f, msi_column_way way, const msi_column_rows *rows, int k1,
                              ELEMENT *line, ELEMENT *scratch)
{
    const int n1 = f->part[0].n, n2 = f->part[1].n;
    ELEMENT *x = scratch, *other = scratch + n2;
    const CPLX *turn = (const CPLX *)f->turn + (int64_t)k1 * n2;
    if (way == MSI_COLUMN_BACKWARD)
        for (int k = 0; k < n2; k++) NAME(get_row)(rows, k1 + (int64_t)n1 * k, &x[k]);
    else
        memcpy(x, line, (size_t)n2 * sizeof *x);
    if (way != MSI_COLUMN_BACKWARD && NAME(transform_part)(&f->part[1], 0, x, other) == other) {
        other = x;
        x = scratch + n2;
    }
    if (way == MSI_COLUMN_FORWARD) {
        for (int k = 0; k < n2; k++) NAME(put_row)(rows, k1 + (int64_t)n1 * k, &x[k]);
        return;
    }
    if (way == MSI_COLUMN_CONVOLVE)
        for (int k = 0; k < n2; k++) NAME(multiply_row)(rows, k1 + (int64_t)n1 * k, (REAL)(1 / (double)f->n), &x[k]);
    x = NAME(transform_part)(&f->part[1], 1, x, other);
    for (int k = 0; k < n2; k++) NAME(turn_element)(turn[k], 1, &x[k]);
    memcpy(line, x, (size_t)n2 * sizeof *x);
}

static void NAME(run_columns)(const msi_column_fft *f, msi_column_way way, const msi_column_rows *rows, void *work)
{
    const int n1 = f->part[0].n, n2 = f->part[1].n;
    ELEMENT *all = work, *scratch = all + f->n;
    const CPLX *turn = f->turn;
    for (int i = 0; i < n2 && way != MSI_COLUMN_BACKWARD; i++) {
        for (int k = 0; k < n1; k++) NAME(get_row)(rows, i + (int64_t)n2 * k, &scratch[k]);
        ELEMENT *x = NAME(transform_part)(&f->part[0], 0, scratch, scratch + n1);
        for (int k = 0; k < n1; k++) {
            NAME(turn_element)(turn[(int64_t)k * n2 + i], 0, &x[k]);
            all[(int64_t)k * n2 + i] = x[k];
        }
    }
    for (int k = 0; k < n1; k++) NAME(middle_step)(f, way, rows, k, all + (int64_t)k * n2, scratch);
    for (int i = 0; i < n2 && way != MSI_COLUMN_FORWARD; i++) {
        for (int k = 0; k < n1; k++) scratch[k] = all[(int64_t)k * n2 + i];
        const ELEMENT *x = NAME(transform_part)(&f->part[0], 1, scratch, scratch + n1);
        for (int k = 0; k < n1; k++) NAME(put_row)(rows, i + (int64_t)n2 * k, &x[k]);
    }
}

#undef VEC
#undef ELEMENT
#undef LANES
