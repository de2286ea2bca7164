# Tests of failures: the linker sends calls that can fail to failure_injection.c, which makes each of them fail in turn.
set(_WRAPPED malloc calloc realloc aligned_alloc strdup strndup mmap64 mkstemp64 posix_fallocate64 pthread_create
             fftwf_plan_many_dft fftw_plan_many_dft fftw_plan_dft_2d)
list(TRANSFORM _WRAPPED PREPEND -Wl,--wrap=)

msimage_test(test_failures SOURCES test_failures.c failure_injection.c temp_folder.c
             LIBRARIES msi_kernels msi_oracle PkgConfig::CMOCKA ARGS cpu TIMEOUT 600 THREADED)
target_link_options(test_failures PRIVATE ${_WRAPPED})
if(MSIMAGE_HAVE_CUDA)
  set(_CUDA_WRAPPED cudaGetDeviceCount cudaMemGetInfo cudaMalloc cudaFree cudaMemcpy cudaMemcpyAsync cudaMemset
                    cudaMemsetAsync cudaDeviceSynchronize cudaStreamSynchronize cudaFuncSetAttribute cudaGetLastError
                    cudaPeekAtLastError cufftPlan2d cufftPlanMany cufftDestroy cufftExecC2C cufftExecZ2Z)
  # What nvcc makes of <<< >>>.
  if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13)
    list(APPEND _CUDA_WRAPPED __cudaLaunchKernel)
  else()
    list(APPEND _CUDA_WRAPPED cudaLaunchKernel)
  endif()
  list(TRANSFORM _CUDA_WRAPPED PREPEND -Wl,--wrap=)
  target_sources(test_failures PRIVATE failure_injection_cuda.c)
  target_link_options(test_failures PRIVATE ${_CUDA_WRAPPED})
endif()
add_test(NAME test_failures_gpu COMMAND test_failures cuda)
set_tests_properties(test_failures_gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 600)

if(NOT MSIMAGE_KERNELS_ONLY)
  msimage_test(test_failures_run SOURCES test_failures_run.c failure_injection.c temp_folder.c
               LIBRARIES msi_app msi_testdata PkgConfig::CMOCKA TIMEOUT 900)
  target_link_options(test_failures_run PRIVATE ${_WRAPPED})
  # It draws text, for which libraries keep memory.
  set_tests_properties(test_failures_run PROPERTIES ENVIRONMENT
                       LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/lsan.supp:print_suppressions=0)
endif()
