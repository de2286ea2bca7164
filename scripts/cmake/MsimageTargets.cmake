# How every target of this project is compiled, and how a test is declared.

set(MSIMAGE_C_WARNINGS -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla
                       -Wwrite-strings -Wformat=2 -Wundef)
set(MSIMAGE_CXX_WARNINGS -Wall -Wextra -Wshadow)
if(MSIMAGE_WERROR)
  list(APPEND MSIMAGE_C_WARNINGS -Werror)
  list(APPEND MSIMAGE_CXX_WARNINGS -Werror)
endif()

# The oldest processor that the binary runs on; hot loops are compiled again for newer ones and chosen at run time.
set(MSIMAGE_BASE_ARCH "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(MSIMAGE_BASE_ARCH -march=x86-64-v2)
endif()

# msimage_target(NAME): include path at the source root, warnings, base architecture, sanitizers.
function(msimage_target name)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_compile_definitions(${name} PRIVATE _GNU_SOURCE _FILE_OFFSET_BITS=64)
  target_compile_options(${name} PRIVATE
    $<$<COMPILE_LANGUAGE:C>:${MSIMAGE_C_WARNINGS} ${MSIMAGE_BASE_ARCH}>
    $<$<COMPILE_LANGUAGE:CXX>:${MSIMAGE_CXX_WARNINGS} ${MSIMAGE_BASE_ARCH}>)
  if(MSIMAGE_SANITIZE)
    target_compile_options(${name} PRIVATE $<$<NOT:$<COMPILE_LANGUAGE:CUDA>>:-fsanitize=address,undefined
                                           -fno-sanitize-recover=undefined -fno-omit-frame-pointer>)
    target_link_options(${name} PUBLIC -fsanitize=address,undefined)
  endif()
endfunction()

# msimage_test(NAME SOURCES f.. [LIBRARIES l..] [LABELS l..] [TIMEOUT s] [ARGS a..] [THREADED])
# One executable, one CTest entry; exit status 77 means skipped. THREADED: it uses every core, and runs alone.
function(msimage_test name)
  cmake_parse_arguments(T "THREADED" "TIMEOUT" "SOURCES;LIBRARIES;LABELS;ARGS" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  if(NOT T_LABELS)
    set(T_LABELS unit)
  endif()
  add_executable(${name} ${T_SOURCES})
  msimage_target(${name})
  target_link_libraries(${name} PRIVATE ${T_LIBRARIES})
  add_test(NAME ${name} COMMAND ${name} ${T_ARGS})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" SKIP_RETURN_CODE 77 TIMEOUT ${T_TIMEOUT}
                       RUN_SERIAL ${T_THREADED})
endfunction()
