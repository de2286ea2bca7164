# Tests of cli.
msimage_test(test_units SOURCES test_units.c LIBRARIES msi_app PkgConfig::CMOCKA)
msimage_test(test_options SOURCES test_options.c LIBRARIES msi_app PkgConfig::CMOCKA)
msimage_test(test_help SOURCES test_help.c ${PROJECT_SOURCE_DIR}/src/options/manual.c LIBRARIES msi_app PkgConfig::CMOCKA)

# msimage_cli_test(NAME ARG..): bash NAME.sh ARG..
function(msimage_cli_test name)
  add_test(NAME ${name} COMMAND bash ${CMAKE_CURRENT_SOURCE_DIR}/${name}.sh ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS cli SKIP_RETURN_CODE 77 TIMEOUT 300)
endfunction()
msimage_cli_test(cli_usage $<TARGET_FILE:msimage>)
msimage_cli_test(cli_help $<TARGET_FILE:msimage> ${CMAKE_CURRENT_SOURCE_DIR}/golden/help.txt)
msimage_cli_test(cli_completion ${CMAKE_BINARY_DIR}/completions)
msimage_cli_test(cli_man ${CMAKE_BINARY_DIR}/man/msimage.1)

if(MSIMAGE_HAVE_LIBFUZZER)
  set(_src ${PROJECT_SOURCE_DIR}/src)
  msimage_fuzzer(fuzz_options SOURCES ${_src}/options.c ${_src}/option_table.c ${_src}/option_readers.c
                 ${_src}/units.c ${_src}/cpu_count.c ${_src}/gridder_choice.c ${PROJECT_SOURCE_DIR}/core/log.c)
  add_test(NAME fuzz_options COMMAND fuzz_options -max_total_time=60 -max_len=400)
  set_tests_properties(fuzz_options PROPERTIES LABELS slow TIMEOUT 180)
endif()
