# Compiler options of all targets.

set(MSIMAGE_C_WARNINGS -Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla
                       -Wwrite-strings -Wformat=2 -Wundef)
# clang warns if it does not vectorise a loop that may be vectorised.
if(CMAKE_C_COMPILER_ID MATCHES "Clang")
  list(APPEND MSIMAGE_C_WARNINGS -Wno-pass-failed)
endif()
set(MSIMAGE_CXX_WARNINGS -Wall -Wextra -Wshadow)
if(MSIMAGE_WERROR)
  list(APPEND MSIMAGE_C_WARNINGS -Werror)
  list(APPEND MSIMAGE_CXX_WARNINGS -Werror)
endif()

# The oldest supported processor. Hot loops are also compiled for newer ones, and chosen at run time.
set(_base_arch "")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(_base_arch -march=x86-64-v2)
endif()
set(MSIMAGE_BASE_ARCH ${_base_arch} CACHE STRING "Compiler option for the oldest supported processor; empty: the compiler's default")

# msimage_target(NAME): set the include path to the source root, and the options for warnings, base architecture and sanitizers.
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
