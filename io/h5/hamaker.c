/* SPDX-License-Identifier: GPL-3.0-or-later */
#include "io/h5/hamaker.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#include "core/status.h"
#include "io/h5/h5parm.h"

#ifndef MSI_HAVE_HDF5

static int read_file(int fd, const char *path, void *of)
{
    (void)fd;
    (void)of;
    return msi_error_set(MSI_EUSAGE, "%s: this build of msimage cannot read HDF5 files; build it with libhdf5-dev",
                         path);
}

#else

#include <hdf5.h>

static int read_attribute(hid_t of, const char *name, double *value)
{
    const hid_t a = H5Aexists(of, name) > 0 ? H5Aopen(of, name, H5P_DEFAULT) : -1;
    const hid_t space = a < 0 ? -1 : H5Aget_space(a);
    const int ok = space >= 0 && H5Sget_simple_extent_npoints(space) == 1 && H5Aread(a, H5T_NATIVE_DOUBLE, value) >= 0;
    if (space >= 0) H5Sclose(space);
    if (a >= 0) H5Aclose(a);
    return ok;
}

/* Read the dataset. Returns: 1; 0 if it is of another format */
static int read_coefficients(hid_t file, msi_hamaker *h)
{
    hsize_t size[H5S_MAX_RANK] = {0};
    const hid_t d = H5Lexists(file, "coeff", H5P_DEFAULT) > 0 ? H5Dopen2(file, "coeff", H5P_DEFAULT) : -1;
    const hid_t space = d < 0 ? -1 : H5Dget_space(d);
    int ok = space >= 0 && H5Sget_simple_extent_ndims(space) == 4 && H5Sget_simple_extent_dims(space, size, NULL) == 4;
    for (int i = 0; i < 4; i++) ok = ok && size[i] >= 1 && size[i] <= 32;
    ok = ok && size[3] == 2 && size[0] * size[1] * size[2] * size[3] <= MSI_HAMAKER_MOST;
    if (ok) {
        const hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(msi_c64));
        H5Tinsert(type, "r", HOFFSET(msi_c64, re), H5T_NATIVE_DOUBLE);
        H5Tinsert(type, "i", HOFFSET(msi_c64, im), H5T_NATIVE_DOUBLE);
        ok = H5Dread(d, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, h->coefficient) >= 0;
        H5Tclose(type);
        h->n_harmonic = (int32_t)size[0];
        h->n_angle = (int32_t)size[1];
        h->n_freq = (int32_t)size[2];
    }
    ok = ok && read_attribute(d, "freq_center", &h->centre_hz) && read_attribute(d, "freq_range", &h->range_hz);
    if (space >= 0) H5Sclose(space);
    if (d >= 0) H5Dclose(d);
    return ok;
}

static int read_file(int fd, const char *path, void *of)
{
    msi_hamaker h = {0};
    (void)of;
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    if (access(path, R_OK) != 0) return msi_error_set(MSI_EINPUT, "%s: cannot be read; give the folder with it", path);
    const hid_t file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (file < 0) return msi_error_set(MSI_EINPUT, "%s: not an HDF5 file, or damaged", path);
    const int ok = read_coefficients(file, &h);
    H5Fclose(file);
    return ok ? msi_h5_put(fd, &h, sizeof h)
              : msi_error_set(MSI_EINPUT,
                              "%s: has no coefficients of dipoles: a dataset coeff [harmonics][powers][powers][2] of "
                              "complex numbers with the attributes freq_center and freq_range",
                              path);
}

#endif

static int take_file(void *of, const char *path, const char *bytes, int64_t n_byte)
{
    msi_hamaker *h = of;
    int ok = n_byte == (int64_t)sizeof *h;
    if (ok) memcpy(h, bytes, sizeof *h);
    ok = ok && h->n_harmonic >= 1 && h->n_freq >= 1 && h->n_angle >= 1 && h->n_harmonic <= 32 && h->n_freq <= 32 &&
         h->n_angle <= 32 && 2 * h->n_harmonic * h->n_freq * h->n_angle <= MSI_HAMAKER_MOST;
    ok = ok && isfinite(h->centre_hz) && isfinite(h->range_hz) && h->range_hz > 0;
    for (int i = 0; ok && i < 2 * h->n_harmonic * h->n_freq * h->n_angle; i++)
        ok = isfinite(h->coefficient[i].re) && isfinite(h->coefficient[i].im);
    return ok ? MSI_OK : msi_error_set(MSI_EINPUT, "%s: truncated or corrupt: coefficients that are not numbers", path);
}

int msi_hamaker_read(msi_hamaker *out, const char *path)
{
    *out = (msi_hamaker){0};
    return msi_h5_apart(path, read_file, take_file, out);
}
