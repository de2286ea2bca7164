# libFuzzer, with sanitizers of its own, on what reads the world's input; only clang has it.
if(CMAKE_C_COMPILER_ID MATCHES "Clang" AND NOT MSIMAGE_SANITIZE)
  include(CheckCSourceCompiles)
  set(CMAKE_REQUIRED_FLAGS -fsanitize=fuzzer,address,undefined)
  check_c_source_compiles("int LLVMFuzzerTestOneInput(const char *p, unsigned long n);
                           int LLVMFuzzerTestOneInput(const char *p, unsigned long n) { return p && n ? 0 : 0; }"
                          MSIMAGE_HAVE_LIBFUZZER)
  unset(CMAKE_REQUIRED_FLAGS)
endif()

# msimage_fuzzer(NAME SOURCES file.. [LIBRARIES lib..]): a program of NAME.c, of the files that it tries and of those of
# core that all need.
function(msimage_fuzzer name)
  cmake_parse_arguments(_FUZZ "" "" "SOURCES;LIBRARIES" ${ARGN})
  set(_core ${PROJECT_SOURCE_DIR}/core)
  add_executable(${name} ${name}.c ${_FUZZ_SOURCES} ${_core}/status.c ${_core}/memory.c ${_core}/interrupt.c
                 ${_core}/pol.c)
  msimage_target(${name})
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer,address,undefined)
  target_link_libraries(${name} PRIVATE ${_FUZZ_LIBRARIES} m)
endfunction()
