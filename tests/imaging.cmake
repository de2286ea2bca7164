# Tests of imaging: from the correlations of a set to the images of a run.
msimage_test(test_stokes SOURCES test_stokes.c LIBRARIES msi_app PkgConfig::CMOCKA)
msimage_test(test_phase_shift SOURCES test_phase_shift.c LIBRARIES msi_app PkgConfig::CMOCKA)
msimage_test(test_uv_plane SOURCES test_uv_plane.c LIBRARIES msi_app PkgConfig::CMOCKA)
msimage_test(test_output_channels SOURCES test_output_channels.c
             LIBRARIES msi_app msi_testdata msi_ms_fixture PkgConfig::CMOCKA)
msimage_test(test_outputs SOURCES test_outputs.c temp_folder.c LIBRARIES msi_app PkgConfig::CMOCKA)
set_tests_properties(test_outputs PROPERTIES ENVIRONMENT ${MSIMAGE_LSAN_ENVIRONMENT})

# msimage_image_test(NAME SCRIPT LABEL TIMEOUT ARG..): a Python script that runs the programs.
function(msimage_image_test name script label timeout)
  if(MSIMAGE_PYTHON)
    add_test(NAME ${name} COMMAND ${MSIMAGE_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/${script} $<TARGET_FILE:msimage> ${ARGN})
    set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77 TIMEOUT ${timeout}
                         ENVIRONMENT ${MSIMAGE_LSAN_ENVIRONMENT})
  endif()
endfunction()
msimage_image_test(image_truth image_truth.py unit 900 $<TARGET_FILE:msimage-makems>)
msimage_image_test(image_real image_real.py real 600 ${PROJECT_SOURCE_DIR})
msimage_image_test(peer_image peer_image.py peer 300 $<TARGET_FILE:msimage-makems>)
msimage_image_test(cli_inputs cli_inputs.py cli 900 $<TARGET_FILE:msimage-makems>)
msimage_image_test(cli_memory cli_memory.py cli 600 $<TARGET_FILE:msimage-makems>)
msimage_image_test(cli_signals cli_signals.py cli 600 $<TARGET_FILE:msimage-makems>)
msimage_image_test(cli_signals_huge cli_signals.py slow 1800 $<TARGET_FILE:msimage-makems> huge)
