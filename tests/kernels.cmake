# Tests of core's consumers in kernels/: they need neither casacore nor cfitsio.
add_library(msi_oracle STATIC direct_sum.c wgrid_cases.c)
msimage_target(msi_oracle)
target_link_libraries(msi_oracle PUBLIC msi_kernels PkgConfig::CMOCKA OpenMP::OpenMP_C m)

msimage_test(test_window SOURCES test_window.c LIBRARIES msi_kernels PkgConfig::CMOCKA)
msimage_test(test_wgrid SOURCES test_wgrid.c LIBRARIES msi_kernels msi_oracle PkgConfig::CMOCKA TIMEOUT 600)
