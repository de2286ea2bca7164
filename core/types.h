/* SPDX-License-Identifier: GPL-3.0-or-later */
/* C, C++ and CUDA read these small types alike. */
#ifndef MSI_CORE_TYPES_H
#define MSI_CORE_TYPES_H

#include <stdint.h>

typedef struct msi_c32 {
    float re, im;
} msi_c32;

typedef struct msi_c64 {
    double re, im;
} msi_c64;

typedef enum msi_precision { MSI_FP32, MSI_FP64 } msi_precision;

/* msi_complex_bytes - return the bytes of a complex number. */
static inline int64_t msi_complex_bytes(msi_precision precision)
{
    return precision == MSI_FP32 ? sizeof(msi_c32) : sizeof(msi_c64);
}

#define MSI_SPEED_OF_LIGHT 299792458.0
#define MSI_PI             3.14159265358979323846

/* Stokes parameters and correlations, numbered as CASA's CORR_TYPE; the FITS STOKES axis has its own numbers. */
typedef enum msi_pol {
    MSI_POL_I = 1,
    MSI_POL_Q,
    MSI_POL_U,
    MSI_POL_V,
    MSI_POL_RR,
    MSI_POL_RL,
    MSI_POL_LR,
    MSI_POL_LL,
    MSI_POL_XX,
    MSI_POL_XY,
    MSI_POL_YX,
    MSI_POL_YY
} msi_pol;

enum { MSI_MAX_CORR = 4 };

#endif
