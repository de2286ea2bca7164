# Tests of io: the writer.
foreach(_name test_ms_writer test_ms_writer_ends)
  msimage_test(${_name} SOURCES ${_name}.c ms_write_fixture.c
               LIBRARIES msi_ms msi_ms_fixture casacore-c PkgConfig::CMOCKA m)
endforeach()

add_executable(ms_write_driver ms_write_driver.c)
msimage_target(ms_write_driver)
target_link_libraries(ms_write_driver PRIVATE msi_ms msi_core casacore-c)

# Every 19th point of failure; all of them in the slow one. The sanitizers' runtime ends a process whose writes fail.
if(NOT MSIMAGE_SANITIZE)
  set(_faults ${MSIMAGE_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/ms_writer_faults.py $<TARGET_FILE:ms_write_driver>
              $<TARGET_FILE:msimage-makems>)
  add_test(NAME ms_writer_faults COMMAND ${_faults} 19)
  add_test(NAME ms_writer_faults_all COMMAND ${_faults} 1)
  set_tests_properties(ms_writer_faults PROPERTIES LABELS unit SKIP_RETURN_CODE 77 TIMEOUT 900)
  set_tests_properties(ms_writer_faults_all PROPERTIES LABELS slow SKIP_RETURN_CODE 77 TIMEOUT 7200)
endif()
