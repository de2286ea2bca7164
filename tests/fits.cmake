# Tests of FITS images, pictures, and the publishing of files.
set(_FITS msi_fits msi_core PkgConfig::CMOCKA m)
msimage_test(test_publish SOURCES test_publish.c temp_folder.c LIBRARIES ${_FITS})
msimage_test(test_fits_image SOURCES test_fits_image.c temp_folder.c LIBRARIES ${_FITS} PkgConfig::CFITSIO)
msimage_test(test_psf_fit SOURCES test_psf_fit.c ${PROJECT_SOURCE_DIR}/src/sky/psf_fit.c LIBRARIES ${_FITS})
msimage_test(test_picture SOURCES test_picture.c LIBRARIES ${_FITS} PkgConfig::CAIRO)
add_test(NAME fits_image_beyond_2_gib COMMAND test_fits_image --large)
set_tests_properties(fits_image_beyond_2_gib PROPERTIES LABELS slow SKIP_RETURN_CODE 77 TIMEOUT 600)

add_executable(fits_examples fits_examples.c)
msimage_target(fits_examples)
target_link_libraries(fits_examples PRIVATE msi_fits msi_core m)
if(MSIMAGE_PYTHON)
  add_test(NAME check_fits COMMAND ${MSIMAGE_PYTHON} ${CMAKE_CURRENT_LIST_DIR}/check_fits.py $<TARGET_FILE:fits_examples>)
  set_tests_properties(check_fits PROPERTIES LABELS peer SKIP_RETURN_CODE 77 TIMEOUT 300)
endif()
add_test(NAME check_fits_faults COMMAND ${CMAKE_CURRENT_LIST_DIR}/check_fits_faults.sh $<TARGET_FILE:fits_examples>)
set_tests_properties(check_fits_faults PROPERTIES LABELS unit SKIP_RETURN_CODE 77 TIMEOUT 600)
# Whatever draws text, under the leak checker of a sanitizer build.
set(MSIMAGE_LSAN_ENVIRONMENT LSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/lsan.supp:print_suppressions=0)
set_tests_properties(test_picture PROPERTIES ENVIRONMENT ${MSIMAGE_LSAN_ENVIRONMENT})
if(TEST check_fits)
  set_tests_properties(check_fits PROPERTIES ENVIRONMENT ${MSIMAGE_LSAN_ENVIRONMENT})
endif()
# From good files: random bytes alone never pass the first card.
if(MSIMAGE_HAVE_LIBFUZZER)
  set(_io ${PROJECT_SOURCE_DIR}/io/fits)
  msimage_fuzzer(fuzz_fits SOURCES ${_io}/fits_read.c ${_io}/fits_image.c ${_io}/sky_wcs.c ${_io}/publish.c
                 LIBRARIES PkgConfig::CFITSIO PkgConfig::WCSLIB)
  target_compile_definitions(fuzz_fits PRIVATE MSIMAGE_VERSION="${PROJECT_VERSION}")
  add_test(NAME fuzz_fits COMMAND sh -c "d=$(mktemp -d) && mkdir $d/seed && $<TARGET_FILE:fits_examples> $d/seed && \
$<TARGET_FILE:fuzz_fits> -max_total_time=60 -max_len=12000 -rss_limit_mb=4096 $d $d/seed; s=$?; rm -rf $d; exit $s")
  set_tests_properties(fuzz_fits PROPERTIES LABELS slow TIMEOUT 180)
endif()
