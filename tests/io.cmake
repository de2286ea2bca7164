# Tests of io: the casacore bindings and the reader.
add_library(msi_ms_fixture STATIC ms_fixture.c temp_folder.c)
msimage_target(msi_ms_fixture)
target_link_libraries(msi_ms_fixture PUBLIC casacore-c)

msimage_test(test_casacore_c SOURCES test_casacore_c.c LIBRARIES msi_ms_fixture casacore-c PkgConfig::CMOCKA m)
msimage_test(test_ms_reader SOURCES test_ms_reader.c LIBRARIES msi_ms msi_ms_fixture casacore-c PkgConfig::CMOCKA m)
msimage_test(test_ms_crew SOURCES test_ms_crew.c LIBRARIES msi_ms msi_ms_fixture casacore-c PkgConfig::CMOCKA m)
msimage_test(test_ms_defects SOURCES test_ms_defects.c LIBRARIES msi_ms msi_ms_fixture casacore-c PkgConfig::CMOCKA m)
msimage_test(test_ms_reader_real SOURCES test_ms_reader_real.c
             LIBRARIES msi_ms msi_ms_fixture casacore-c PkgConfig::CMOCKA m LABELS real)
target_compile_definitions(test_ms_reader_real PRIVATE MSIMAGE_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
