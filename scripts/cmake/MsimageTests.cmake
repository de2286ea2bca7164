# Functions that declare tests: C programs, scripts, fuzzers. A test without its GPU, data or peer exits with 77: skipped.

pkg_check_modules(CMOCKA REQUIRED IMPORTED_TARGET cmocka)
find_program(MSIMAGE_PYTHON python3 HINTS /usr/bin)
set(MSIMAGE_TEST_SUPPORT ${PROJECT_SOURCE_DIR}/tests/support)

# gold links a test in a third of the time of the default linker.
include(CheckLinkerFlag)
check_linker_flag(CXX -fuse-ld=gold MSIMAGE_FAST_LINKER)

# The longest tests. CTest starts them first, so that none of them runs alone at the end.
set(MSIMAGE_LONG_TESTS predict_truth clean_truth test_wgrid_subgrid convert_sets image_truth clean_products ms_writer_faults
    test_workers_subgrid docs_commands test_failures_run convert_fits clean_goes_on test_degrid_subgrid test_tower peer_clean
    clean_choices packages)

# msimage_add_test(NAME LABEL TIMEOUT COMMAND..): add an entry of CTest. Scripts find the modules of tests/support. The leak
# checker of a sanitizer build ignores memory that libraries keep. Waiting threads do not spin, because next to other tests
# spinning would take several times the processor time of the work itself.
function(msimage_add_test name label timeout)
  add_test(NAME ${name} COMMAND ${ARGN})
  set_tests_properties(${name} PROPERTIES LABELS ${label} SKIP_RETURN_CODE 77 TIMEOUT ${timeout}
    ENVIRONMENT "LSAN_OPTIONS=suppressions=${MSIMAGE_TEST_SUPPORT}/lsan.supp:print_suppressions=0;OMP_WAIT_POLICY=passive"
    ENVIRONMENT_MODIFICATION PYTHONPATH=path_list_prepend:${MSIMAGE_TEST_SUPPORT})
  if(name IN_LIST MSIMAGE_LONG_TESTS)
    set_tests_properties(${name} PROPERTIES COST 100)
  endif()
endfunction()

# msimage_test(NAME SOURCES f.. [LIBRARIES l..] [RUNS run..] [LABEL l] [TIMEOUT s] [CUDA])
# Build one C program, and add an entry of CTest for each of its runs (without RUNS, one run without arguments). A run is a list
# of arguments, "cpu subgrid", and may end in a label, "--large:slow". Without a label it has LABEL (unit), or gpu if one of its
# arguments is cuda. The entry is NAME[_VARIANT][_gpu]; the variant is the arguments except cpu and cuda. CUDA: the program is
# built only with a CUDA toolkit, and every run needs a GPU.
function(msimage_test name)
  cmake_parse_arguments(_T "CUDA" "LABEL;TIMEOUT" "SOURCES;LIBRARIES;RUNS" ${ARGN})
  if(_T_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "msimage_test(${name}): unknown arguments ${_T_UNPARSED_ARGUMENTS}")
  endif()
  if(_T_CUDA AND NOT MSIMAGE_HAVE_CUDA)
    return()
  endif()
  foreach(_default IN ITEMS LABEL=unit TIMEOUT=300 RUNS=:)
    string(REGEX MATCH "(.*)=(.*)" _ ${_default})
    if(NOT _T_${CMAKE_MATCH_1})
      set(_T_${CMAKE_MATCH_1} ${CMAKE_MATCH_2})
    endif()
  endforeach()

  add_executable(${name} ${_T_SOURCES})
  msimage_target(${name})
  # Optimising a test takes longer than the optimised test saves.
  target_compile_options(${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:C>>:-O1>)
  target_link_libraries(${name} PRIVATE ${_T_LIBRARIES} PkgConfig::CMOCKA)
  if(MSIMAGE_FAST_LINKER)
    target_link_options(${name} PRIVATE -fuse-ld=gold)
  endif()

  string(REGEX REPLACE "_gpu$" "" _stem ${name})
  foreach(_run IN LISTS _T_RUNS)
    string(REGEX MATCH "^([^:]*):?(.*)$" _ "${_run}")
    set(_label "${CMAKE_MATCH_2}")
    separate_arguments(_arguments UNIX_COMMAND "${CMAKE_MATCH_1}")
    set(_entry ${_stem})
    set(_on_gpu ${_T_CUDA})
    foreach(_word IN LISTS _arguments)
      if(_word STREQUAL cuda)
        set(_on_gpu ON)
      elseif(NOT _word STREQUAL cpu)
        string(REGEX REPLACE "^-+" "" _word ${_word})
        string(APPEND _entry _${_word})
      endif()
    endforeach()
    if(_on_gpu)
      string(APPEND _entry _gpu)
    endif()
    if(NOT _label AND _on_gpu)
      set(_label gpu)
    elseif(NOT _label)
      set(_label ${_T_LABEL})
    endif()
    msimage_add_test(${_entry} ${_label} ${_T_TIMEOUT} ${name} ${_arguments})
  endforeach()
endfunction()

# msimage_script_test(NAME SCRIPT LABEL TIMEOUT ARG..): add a Python or shell script of this directory, with its arguments.
function(msimage_script_test name script label timeout)
  if(script MATCHES "\\.sh$")
    set(_shell bash)
  elseif(MSIMAGE_PYTHON)
    set(_shell ${MSIMAGE_PYTHON} -B)
  else()
    return()
  endif()
  msimage_add_test(${name} ${label} ${timeout} ${_shell} ${CMAKE_CURRENT_SOURCE_DIR}/${script} ${ARGN})
endfunction()

# libFuzzer, with its own sanitizers, for code that reads input files; only clang has it.
if(CMAKE_C_COMPILER_ID MATCHES "Clang" AND NOT MSIMAGE_SANITIZE)
  include(CheckCSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer,address,undefined)
  check_c_source_compiles("int LLVMFuzzerTestOneInput(const char *p, unsigned long n);
                           int LLVMFuzzerTestOneInput(const char *p, unsigned long n) { return p && n ? 0 : 0; }"
                          MSIMAGE_HAVE_LIBFUZZER)
  unset(CMAKE_REQUIRED_FLAGS)
endif()

# msimage_fuzzer(NAME SOURCES file.. [LIBRARIES lib..]): build a fuzzer from NAME.c, the files that it tests, and core. For
# compilers with libFuzzer only.
function(msimage_fuzzer name)
  cmake_parse_arguments(_FUZZ "" "" "SOURCES;LIBRARIES" ${ARGN})
  get_target_property(_core msi_core SOURCES)
  list(TRANSFORM _core PREPEND ${PROJECT_SOURCE_DIR}/core/)
  add_executable(${name} ${name}.c ${_FUZZ_SOURCES} ${_core})
  msimage_target(${name})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(${name} PRIVATE ${_FUZZ_LIBRARIES} OpenMP::OpenMP_C m)
endfunction()
