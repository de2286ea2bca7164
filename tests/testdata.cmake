# Tests of testdata.
msimage_test(test_point_model SOURCES test_point_model.c LIBRARIES msi_testdata PkgConfig::CMOCKA m)
msimage_test(test_makems SOURCES test_makems.c temp_folder.c LIBRARIES msi_testdata casacore-c PkgConfig::CMOCKA m)
add_test(NAME cli_makems COMMAND bash ${CMAKE_CURRENT_LIST_DIR}/cli_makems.sh $<TARGET_FILE:msimage-makems>)
set_tests_properties(cli_makems PROPERTIES LABELS cli TIMEOUT 300)
if(MSIMAGE_PYTHON)
  add_test(NAME peer_makems COMMAND ${MSIMAGE_PYTHON} -B ${CMAKE_CURRENT_LIST_DIR}/peer_makems.py
                                    $<TARGET_FILE:msimage-makems>)
  set_tests_properties(peer_makems PROPERTIES LABELS peer SKIP_RETURN_CODE 77 TIMEOUT 600)
endif()
