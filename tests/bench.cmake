# The benchmark program, and the GPU kernels that it alone drives.
find_program(MSIMAGE_PYTHON python3 HINTS /usr/bin)
if(MSIMAGE_PYTHON)
  add_test(NAME bench_rows COMMAND ${MSIMAGE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/bench_rows.py
                                   $<TARGET_FILE:msimage-bench>)
  set_tests_properties(bench_rows PROPERTIES LABELS unit SKIP_RETURN_CODE 77 TIMEOUT 120)
  add_test(NAME bench_seeds COMMAND ${MSIMAGE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/bench_seeds.py
                                    $<TARGET_FILE:msimage-bench> cpu)
  set_tests_properties(bench_seeds PROPERTIES LABELS unit SKIP_RETURN_CODE 77 TIMEOUT 600)
  if(MSIMAGE_HAVE_CUDA)
    add_test(NAME bench_seeds_gpu COMMAND ${MSIMAGE_PYTHON} ${CMAKE_CURRENT_SOURCE_DIR}/bench_seeds.py
                                          $<TARGET_FILE:msimage-bench> cuda)
    set_tests_properties(bench_seeds_gpu PROPERTIES LABELS gpu SKIP_RETURN_CODE 77 TIMEOUT 600)
  endif()
endif()
if(MSIMAGE_HAVE_CUDA)
  msimage_test(test_wproj_tile SOURCES test_wproj_tile.c LIBRARIES msi_kernels PkgConfig::CMOCKA LABELS gpu
               TIMEOUT 600)
endif()
