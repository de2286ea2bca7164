/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Fourier transforms of some tens to hundreds of points, in the registers of a block's threads.
 *
 * N = A B points j = B a + b become frequencies x = r + A s in two steps. (1) Thread b of B transforms the A points of
 * remainder b, multiplies them by exp(-2 pi i b r / N) and stores them in shared memory. (2) Thread r of A transforms
 * the B values of remainder r. The inverse takes the same steps in reverse, so a thread has the same frequencies in
 * both directions. Only the first GIVEN of A points may be nonzero. Points and results that the compiler knows to be
 * zero or unused take no time.
 *
 * Source: Cooley & Tukey 1965; Singleton 1969 for odd factors.
 */
#ifndef MSI_KERNELS_SMALL_FFT_CUDA_CUH
#define MSI_KERNELS_SMALL_FFT_CUDA_CUH

#include "kernels/gpu/complex_cuda.cuh"

namespace small_fft {

using complex_cuda::cplx;

/* ---- Roots of unity, computed at compile time -------------------------------------------------------------------- */

struct root {
    double re, im;
};

constexpr double PI = 3.14159265358979323846264338327950288;

/* Return exp(2 pi i k / n), 0 <= k/n <= 1/8, by its Taylor series. */
__host__ __device__ constexpr root first_octant_root(int k, int n)
{
    double x = 2 * PI * k / n, term = 1, sum[2] = {0, 0};
    for (int i = 0; i < 24; i++) {
        sum[i % 2] += i % 4 < 2 ? term : -term;
        term *= x / (i + 1);
    }
    return {sum[0], sum[1]};
}

/* Return exp(2 pi i k / n), 0 <= k < n. */
__host__ __device__ constexpr root root_of(int k, int n)
{
    if (2 * k > n) {
        const root r = root_of(n - k, n);
        return {r.re, -r.im};
    }
    if (4 * k > n) {
        const root r = root_of(n - 2 * k, 2 * n);
        return {-r.re, r.im};
    }
    if (8 * k > n) {
        const root r = root_of(n - 4 * k, 4 * n);
        return {r.im, r.re};
    }
    return first_octant_root(k, n);
}

/* A number known at compile time. */
template <int VALUE> struct number {
    static constexpr int value = VALUE;
    __host__ __device__ constexpr operator int() const
    {
        return VALUE;
    }
};

/* Call f with the numbers FIRST .. END - 1. */
template <int FIRST, int END, typename F> __device__ __forceinline__ void unroll(F f)
{
    if constexpr (FIRST < END) {
        f(number<FIRST>());
        unroll<FIRST + 1, END>(f);
    }
}

/* ---- Transforms of one thread's numbers ------------------------------------------------------------------------- */

template <typename T> __device__ __forceinline__ cplx<T> operator+(cplx<T> a, cplx<T> b)
{
    return {a.re + b.re, a.im + b.im};
}

template <typename T> __device__ __forceinline__ cplx<T> operator-(cplx<T> a, cplx<T> b)
{
    return {a.re - b.re, a.im - b.im};
}

template <typename T> __device__ __forceinline__ cplx<T> scaled(T factor, cplx<T> a)
{
    return {factor * a.re, factor * a.im};
}

/* Return x times w, or times its conjugate if CONJUGATE. */
template <bool CONJUGATE, typename T> __device__ __forceinline__ cplx<T> turned(cplx<T> x, cplx<T> w)
{
    return CONJUGATE ? cplx<T>{x.re * w.re + x.im * w.im, x.im * w.re - x.re * w.im}
                     : cplx<T>{x.re * w.re - x.im * w.im, x.im * w.re + x.re * w.im};
}

/* Return x times -i (FORWARD) or i. */
template <bool FORWARD, typename T> __device__ __forceinline__ cplx<T> quarter_turned(cplx<T> x)
{
    return FORWARD ? cplx<T>{x.im, -x.re} : cplx<T>{-x.im, x.re};
}

/* Return x times exp(-+2 pi i K / N). */
template <int K, int N, bool FORWARD, typename T> __device__ __forceinline__ cplx<T> turned_by(cplx<T> x)
{
    if constexpr (K == 0) {
        return x;
    } else if constexpr (4 * K == N) {
        return quarter_turned<FORWARD>(x);
    } else if constexpr (8 * K == N) {
        constexpr T HALF = (T)root_of(1, 8).re;
        return FORWARD ? cplx<T>{HALF * (x.re + x.im), HALF * (x.im - x.re)}
                       : cplx<T>{HALF * (x.re - x.im), HALF * (x.im + x.re)};
    } else {
        constexpr root w = root_of(K % N, N);
        return turned<FORWARD>(x, cplx<T>{(T)w.re, (T)w.im});
    }
}

/* Transform two numbers. Butterflies read only the first GIVEN numbers; the others are zero. */
template <int GIVEN, typename T> __device__ __forceinline__ void butterfly_2(cplx<T> *x)
{
    const cplx<T> a = x[0];
    if constexpr (GIVEN == 1) {
        x[1] = a;
    } else {
        x[0] = a + x[1];
        x[1] = a - x[1];
    }
}

template <bool FORWARD, int GIVEN, typename T> __device__ __forceinline__ void butterfly_4(cplx<T> *x)
{
    if constexpr (GIVEN == 1) {
        x[1] = x[2] = x[3] = x[0];
    } else {
        const cplx<T> even = GIVEN > 2 ? x[0] + x[2] : x[0], odd = GIVEN > 2 ? x[0] - x[2] : x[0];
        const cplx<T> sum = GIVEN > 3 ? x[1] + x[3] : x[1];
        const cplx<T> rest = quarter_turned<FORWARD>(GIVEN > 3 ? x[1] - x[3] : x[1]);
        x[0] = even + sum;
        x[1] = odd + rest;
        x[2] = even - sum;
        x[3] = odd - rest;
    }
}

/* Transform an odd prime number of values: sums of opposite values are multiplied by cosines, differences by sines. */
template <int N, bool FORWARD, typename T> __device__ __forceinline__ void butterfly_odd(cplx<T> *x)
{
    cplx<T> sum[N / 2], rest[N / 2], y[N];
    y[0] = x[0];
    unroll<0, N / 2>([&](auto j) {
        sum[j] = x[1 + j] + x[N - 1 - j];
        rest[j] = x[1 + j] - x[N - 1 - j];
        y[0] = y[0] + sum[j];
    });
    unroll<1, N / 2 + 1>([&](auto k) {
        constexpr int k_ = decltype(k)::value;
        cplx<T> even = x[0], odd = {0, 0};
        unroll<0, N / 2>([&](auto j) {
            constexpr root w = root_of((decltype(j)::value + 1) * k_ % N, N);
            even = even + scaled((T)w.re, sum[j]);
            odd = odd + scaled((T)w.im, rest[j]);
        });
        odd = quarter_turned<FORWARD>(odd);
        y[k_] = even + odd;
        y[N - k_] = even - odd;
    });
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = y[i];
}

/*
 * transform - transform N numbers, not normalised, in natural order.
 * Given and returned: x [N], of which only the first GIVEN are nonzero
 */
template <int N, bool FORWARD, int GIVEN, typename T> __device__ __forceinline__ void transform(cplx<T> *x)
{
    static_assert(N >= 1 && GIVEN >= 1 && GIVEN <= N);
    if constexpr (N == 2) {
        butterfly_2<GIVEN>(x);
    } else if constexpr (N == 3 || N == 5 || N == 7) {
#pragma unroll
        for (int i = GIVEN; i < N; i++) x[i] = {0, 0};
        butterfly_odd<N, FORWARD>(x);
    } else if constexpr (N == 4) {
        butterfly_4<FORWARD, GIVEN>(x);
    } else if constexpr (N > 1) {
        constexpr int P = N % 4 == 0 ? 4 : N % 2 == 0 ? 2 : N % 3 == 0 ? 3 : N % 5 == 0 ? 5 : 7, Q = N / P;
        static_assert(P * Q == N && Q > 1, "sizes have factors 2, 3, 5 and 7 alone");
        cplx<T> part[P][Q];
        unroll<0, Q>([&](auto q) {
            constexpr int q_ = decltype(q)::value, PART_GIVEN = GIVEN > q_ ? (GIVEN - q_ + Q - 1) / Q : 0;
            cplx<T> y[P];
            if constexpr (PART_GIVEN > 0) {
                unroll<0, PART_GIVEN>([&](auto p) { y[p] = x[q_ + Q * p]; });
                transform<P, FORWARD, PART_GIVEN>(y);
            }
            unroll<0, P>([&](auto k) {
                if constexpr (PART_GIVEN > 0) part[k][q_] = turned_by<q_ *decltype(k)::value, N, FORWARD>(y[k]);
            });
        });
        unroll<0, P>([&](auto k) {
            transform<Q, FORWARD, (GIVEN < Q ? GIVEN : Q)>(part[k]);
            unroll<0, Q>([&](auto m) { x[k + P * m] = part[k][m]; });
        });
    }
}

/* ---- Transforms of turned numbers ------------------------------------------------------------------------------- */

constexpr bool is_power_of_two(int n)
{
    return (n & (n - 1)) == 0;
}

/*
 * The transform of N numbers x w^j is combined from two halves. With the transforms E of even j and O of odd j, of
 * (w^2)^j, results s and s + N/2 are E[s] +- c O[s], c = w exp(-+2 pi i s / N). This takes six multiply-adds, as many
 * as without w. Twists are the factors c of one w for all sizes, s < N/4 (or 0): the one of size 2 comes first, those
 * of size n begin at n / 4. The other factors are a quarter turn from these.
 */
template <int N> constexpr int N_TWIST = N < 4 ? 1 : N / 2;

/* Return the number of turns of twist k, in units of 1 / (N unit), where w is exp(2 pi i turns / (N unit)). */
constexpr int turns_of_twist(int k, int n, int unit, int turns)
{
    int size = 2;
    while (size < n && k >= size / 2) size *= 2;
    const int s = size == 2 ? 0 : k - size / 4;
    return n / size * (turns + s * unit);
}

/* Combine the halves at result s, turned by w. */
template <typename T>
__device__ __forceinline__ void join_halves(cplx<T> even, cplx<T> odd, cplx<T> w, cplx<T> *sum, cplx<T> *rest)
{
    *sum = {even.re + w.re * odd.re - w.im * odd.im, even.im + w.re * odd.im + w.im * odd.re};
    /* 2 even - sum as one fma. */
    *rest = {fma((T)2, even.re, -sum->re), fma((T)2, even.im, -sum->im)};
}

/* Transform x[0], x[STEP], .. to y: N numbers, of which only the first GIVEN are nonzero. IS_TURNED: times powers of w,
 * whose twists are given. */
template <int N, int STEP, bool FORWARD, bool IS_TURNED, int GIVEN, typename T>
__device__ __forceinline__ void transform_halves(const cplx<T> *x, const cplx<T> *twist, cplx<T> *y)
{
    if constexpr (N == 1) {
        y[0] = x[0];
    } else {
        constexpr int HALF = N / 2, GIVEN_ODD = GIVEN / 2;
        cplx<T> even[HALF], odd[HALF];
        transform_halves<HALF, 2 * STEP, FORWARD, IS_TURNED, GIVEN - GIVEN_ODD>(x, twist, even);
        if constexpr (GIVEN_ODD > 0)
            transform_halves<HALF, 2 * STEP, FORWARD, IS_TURNED, GIVEN_ODD>(x + STEP, twist, odd);
        unroll<0, HALF>([&](auto s) {
            constexpr int s_ = decltype(s)::value;
            if constexpr (GIVEN_ODD == 0) {
                y[s_] = y[s_ + HALF] = even[s_];
            } else if constexpr (IS_TURNED) {
                constexpr int QUARTER = N / 4;
                constexpr bool is_far = N > 2 && s_ >= QUARTER;
                const cplx<T> w = twist[N == 2 ? 0 : QUARTER + s_ - (is_far ? QUARTER : 0)];
                join_halves(even[s_], odd[s_], is_far ? quarter_turned<FORWARD>(w) : w, &y[s_], &y[s_ + HALF]);
            } else if constexpr (4 * s_ % N == 0) {
                const cplx<T> o = s_ ? quarter_turned<FORWARD>(odd[s_]) : odd[s_];
                y[s_] = even[s_] + o;
                y[s_ + HALF] = even[s_] - o;
            } else {
                constexpr root w = root_of(FORWARD ? N - s_ : s_, N);
                join_halves(even[s_], odd[s_], cplx<T>{(T)w.re, (T)w.im}, &y[s_], &y[s_ + HALF]);
            }
        });
    }
}

/* ---- The two steps ---------------------------------------------------------------------------------------------- */

/* Return the largest even B, at most 16, with N = A B and A >= B; 1 if there is none. */
constexpr int inner_of(int n)
{
    for (int b = 16; b > 1; b -= 2)
        if (n % b == 0 && b * b <= n) return b;
    return 1;
}

/* A transform of N points in two steps of A and B. roots [A][PITCH]: exp(2 pi i b r / N), made by fill_roots. */
template <typename T, int N> struct steps {
    static constexpr int B = inner_of(N), A = N / B;
    static_assert(B >= 4 && A <= 32, "no thread holds this many numbers");
    /* Rows of roots begin in different banks of shared memory. */
    static constexpr int PITCH = B + 1, N_ROOT = A * PITCH;
    /* GIVEN of A points whose nonzero ones end shortly after the middle. */
    static constexpr int HALF = A / 2 + 1;
    /* If both are powers of two, the second step of either direction may include the turn. Rows of twists, [A] forward
     * and [B] back, follow the roots. Threads with 32 numbers have no registers left for twists. */
    static constexpr bool HAS_TWISTS = is_power_of_two(A) && is_power_of_two(B) && A <= 16;
    static constexpr int TWISTS_FORWARD = HAS_TWISTS ? A * N_TWIST<B> : 0,
                         TWISTS_BACK = HAS_TWISTS ? B * N_TWIST<A> : 0;
    static constexpr int N_TABLE = N_ROOT + TWISTS_FORWARD + TWISTS_BACK;

    template <int GIVEN>
    static __device__ __forceinline__ void forward_first(cplx<T> (&x)[A], const cplx<T> *roots, int b)
    {
        transform<A, true, GIVEN>(x);
#pragma unroll
        for (int r = 1; r < A; r++) x[r] = turned<true>(x[r], roots[r * PITCH + b]);
    }
    static __device__ __forceinline__ void forward_second(cplx<T> (&y)[B])
    {
        transform<B, true, B>(y);
    }
    static __device__ __forceinline__ void inverse_first(cplx<T> (&y)[B], const cplx<T> *roots, int r)
    {
        transform<B, false, B>(y);
#pragma unroll
        for (int b = 1; b < B; b++) y[b] = turned<false>(y[b], roots[r * PITCH + b]);
    }
    static __device__ __forceinline__ void inverse_second(cplx<T> (&x)[A])
    {
        transform<A, false, A>(x);
    }
    /* The same steps with the turn in the second one, by a row of twists. */
    template <int GIVEN> static __device__ __forceinline__ void forward_unturned(cplx<T> (&x)[A])
    {
        cplx<T> y[A];
        transform_halves<A, 1, true, false, GIVEN>(x, (const cplx<T> *)nullptr, y);
#pragma unroll
        for (int r = 0; r < A; r++) x[r] = y[r];
    }
    static __device__ __forceinline__ void forward_turned(cplx<T> (&y)[B], const cplx<T> *row)
    {
        cplx<T> twist[N_TWIST<B>], x[B];
        load_twists(twist, row);
#pragma unroll
        for (int b = 0; b < B; b++) x[b] = y[b];
        transform_halves<B, 1, true, true, B>(x, twist, y);
    }
    static __device__ __forceinline__ void inverse_unturned(cplx<T> (&y)[B])
    {
        cplx<T> x[B];
        transform_halves<B, 1, false, false, B>(y, (const cplx<T> *)nullptr, x);
#pragma unroll
        for (int b = 0; b < B; b++) y[b] = x[b];
    }
    static __device__ __forceinline__ void inverse_turned(cplx<T> (&x)[A], const cplx<T> *row)
    {
        cplx<T> twist[N_TWIST<A>], y[A];
        load_twists(twist, row);
#pragma unroll
        for (int r = 0; r < A; r++) y[r] = x[r];
        transform_halves<A, 1, false, true, A>(y, twist, x);
    }
    /* Load a row of twists, 16 bytes at a time. */
    template <int N_> static __device__ __forceinline__ void load_twists(cplx<T> (&twist)[N_], const cplx<T> *row)
    {
        if constexpr (sizeof(cplx<T>) == sizeof(float4)) {
#pragma unroll
            for (int k = 0; k < N_; k++) twist[k] = row[k];
        } else {
            static_assert(N_ % 2 == 0, "rows of twists are whole vectors");
#pragma unroll
            for (int k = 0; k < N_; k += 2) {
                const float4 two = *reinterpret_cast<const float4 *>(row + k);
                twist[k] = {two.x, two.y};
                twist[k + 1] = {two.z, two.w};
            }
        }
    }
    /* Fill the table: roots, then twists. */
    static void fill_roots(cplx<T> *roots)
    {
        for (int r = 0; r < A; r++)
            for (int b = 0; b < PITCH; b++) roots[r * PITCH + b] = value_of(r * b);
        for (int i = 0; i < TWISTS_FORWARD; i++)
            roots[N_ROOT + i] = value_of(N - turns_of_twist(i % N_TWIST<B>, B, A, i / N_TWIST<B>) % N);
        for (int i = 0; i < TWISTS_BACK; i++)
            roots[N_ROOT + TWISTS_FORWARD + i] = value_of(turns_of_twist(i % N_TWIST<A>, A, B, i / N_TWIST<A>));
    }
    /* Return exp(2 pi i turns / N). */
    static cplx<T> value_of(int turns)
    {
        const root w = root_of(turns % N, N);
        return {(T)w.re, (T)w.im};
    }
};

} // namespace small_fft

#endif
