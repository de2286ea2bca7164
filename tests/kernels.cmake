# Tests of core's consumers in kernels/: they need neither casacore nor cfitsio.
add_library(msi_oracle STATIC direct_sum.c wgrid_cases.c)
msimage_target(msi_oracle)
target_link_libraries(msi_oracle PUBLIC msi_kernels PkgConfig::CMOCKA OpenMP::OpenMP_C m)

msimage_test(test_window SOURCES test_window.c LIBRARIES msi_kernels PkgConfig::CMOCKA)
msimage_test(test_wgrid SOURCES test_wgrid.c LIBRARIES msi_kernels msi_oracle PkgConfig::CMOCKA ARGS cpu TIMEOUT 600 THREADED)
add_test(NAME test_wgrid_gpu COMMAND test_wgrid cuda)
set_tests_properties(test_wgrid_gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 600)

msimage_test(test_degrid SOURCES test_degrid.c LIBRARIES msi_kernels msi_oracle PkgConfig::CMOCKA ARGS cpu TIMEOUT 600 THREADED)
add_test(NAME test_degrid_gpu COMMAND test_degrid cuda)
set_tests_properties(test_degrid_gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 600)
