# Degridding from stacks of subgrids.
msimage_test(test_stacks SOURCES test_stacks.c LIBRARIES msi_kernels PkgConfig::CMOCKA m ARGS cpu)
add_test(NAME test_stacks_gpu COMMAND test_stacks cuda)
set_tests_properties(test_stacks_gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 300)
