/* SPDX-License-Identifier: GPL-3.0-or-later */
/* libFuzzer target: any bytes as a FITS file. Build with clang -fsanitize=fuzzer,address. */
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/fits/fits_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd = memfd_create("fits", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size) return -1;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    msi_fits_image image;
    msi_fits_read(&image, path, size % 2 ? MSI_FP64 : MSI_FP32);
    msi_fits_image_free(&image);
    close(fd);
    return 0;
}
