# FITS images and pictures.
add_library(msi_fits STATIC publish.c sky_wcs.c fits_image.c fits_read.c picture.c picture_axes.c picture_colour.c)
msimage_target(msi_fits)
target_compile_definitions(msi_fits PRIVATE MSIMAGE_VERSION="${PROJECT_VERSION}")
target_link_libraries(msi_fits PUBLIC msi_core PRIVATE PkgConfig::CFITSIO PkgConfig::WCSLIB PkgConfig::CAIRO m)
