# The moving window of w-projection: tuning everywhere, gridder and degridder on a GPU.
msimage_test(test_window_tuning SOURCES test_window_tuning.c temp_folder.c LIBRARIES msi_kernels PkgConfig::CMOCKA)
if(MSIMAGE_HAVE_CUDA)
  msimage_test(test_wproj_window SOURCES test_wproj_window.c device_numbers.c LIBRARIES msi_kernels msi_oracle PkgConfig::CMOCKA LABELS gpu)
  msimage_test(test_window_gridder SOURCES test_window_gridder.c device_numbers.c temp_folder.c LIBRARIES msi_kernels msi_oracle PkgConfig::CMOCKA LABELS gpu)
endif()
