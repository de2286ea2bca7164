# w-projection: kernels, plan, gridder and degridder on the CPU.
add_library(msi_wproj_oracle STATIC wproj_cases.c)
msimage_target(msi_wproj_oracle)
target_link_libraries(msi_wproj_oracle PUBLIC msi_oracle)

msimage_test(test_wkernel SOURCES test_wkernel.c LIBRARIES msi_kernels msi_oracle PkgConfig::CMOCKA)
msimage_test(test_wproj SOURCES test_wproj.c LIBRARIES msi_kernels msi_wproj_oracle PkgConfig::CMOCKA TIMEOUT 600 THREADED)
msimage_test(test_wproj_forms SOURCES test_wproj_forms.c LIBRARIES msi_kernels msi_wproj_oracle PkgConfig::CMOCKA
             TIMEOUT 600 THREADED)
if(MSIMAGE_HAVE_CUDA)
  msimage_test(test_wproj_gpu SOURCES test_wproj_gpu.c LIBRARIES msi_kernels msi_wproj_oracle PkgConfig::CMOCKA
               CUDA::cudart LABELS gpu TIMEOUT 600)
endif()
