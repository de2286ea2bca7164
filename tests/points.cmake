# Degridding with tabulated kernels on the GPU.
if(MSIMAGE_HAVE_CUDA)
  msimage_test(test_wproj_points SOURCES test_wproj_points.c LIBRARIES msi_kernels PkgConfig::CMOCKA CUDA::cudart m
               LABELS gpu TIMEOUT 600)
endif()
