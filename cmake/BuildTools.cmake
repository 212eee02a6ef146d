# Compiler cache, linker and sanitizer. Targets of ours get them by linking mneme_options.
add_library(mneme_options INTERFACE)

# GCC by itself collects garbage often, and walks a precompiled header each time: a tenth of the time for 3 % of memory.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(mneme_options INTERFACE
    "$<$<COMPILE_LANGUAGE:C,CXX>:SHELL:--param ggc-min-heapsize=500000 --param ggc-min-expand=100>")
endif()

# Tests need no speed of their own: the kernels that they test are in libraries, which are optimised. GCC compiles them with
# -Og in seven tenths of the time of -O1. Clang takes -Og for -O1: with the sanitizers -O0 takes four tenths of that.
add_library(mneme_test_optimisation INTERFACE)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(mneme_test_level -O0)
else()
  set(mneme_test_level -Og)
endif()
target_compile_options(mneme_test_optimisation INTERFACE
  "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:${mneme_test_level}>")

# For code whose own loops do not matter: it calls LibTorch and kernels, reads, formats.
add_library(mneme_light_optimisation INTERFACE)
target_compile_options(mneme_light_optimisation INTERFACE
  "$<$<AND:$<COMPILE_LANGUAGE:C,CXX>,$<NOT:$<CONFIG:Debug>>>:-O1>")

find_program(MNEME_CCACHE ccache)
mark_as_advanced(MNEME_CCACHE)
if(MNEME_CCACHE)
  # Without these settings ccache refuses every file that uses a precompiled header.
  set(mneme_launcher "${CMAKE_COMMAND}" -E env
      "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
      "${MNEME_CCACHE}")
  foreach(mneme_language IN ITEMS C CXX CUDA)
    if(NOT CMAKE_${mneme_language}_COMPILER_LAUNCHER)
      set(CMAKE_${mneme_language}_COMPILER_LAUNCHER ${mneme_launcher})
    endif()
  endforeach()
endif()

find_program(MNEME_LINKER NAMES mold ld.lld)
mark_as_advanced(MNEME_LINKER)
if(MNEME_LINKER MATCHES "mold$")
  target_link_options(mneme_options INTERFACE -fuse-ld=mold)
elseif(MNEME_LINKER MATCHES "lld$")
  target_link_options(mneme_options INTERFACE -fuse-ld=lld)
endif()

if(MNEME_SANITIZE)
  if(NOT MNEME_SANITIZE MATCHES "^(address|undefined|address,undefined|thread|fuzzer)$")
    message(FATAL_ERROR "MNEME_SANITIZE is '${MNEME_SANITIZE}'; expected address, undefined, \"address,undefined\", thread, fuzzer "
                        "or nothing.")
  endif()
  set(mneme_sanitizers ${MNEME_SANITIZE})
  if(MNEME_SANITIZE STREQUAL "fuzzer")  # coverage for libFuzzer, whose main only the targets of tests/fuzz link
    if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      message(FATAL_ERROR "MNEME_SANITIZE=fuzzer needs clang, which brings libFuzzer; the compiler is "
                          "${CMAKE_CXX_COMPILER}. Run scripts/setup.sh, or install clang and libclang-rt-dev.")
    endif()
    set(mneme_sanitizers fuzzer-no-link)
    if(MNEME_FUZZ_SANITIZERS)
      string(APPEND mneme_sanitizers ,address,undefined)
    endif()
  endif()
  target_compile_options(mneme_options INTERFACE -fsanitize=${mneme_sanitizers} -fno-omit-frame-pointer)
  target_link_options(mneme_options INTERFACE -fsanitize=${mneme_sanitizers})
  if(mneme_sanitizers MATCHES "undefined")
    target_compile_options(mneme_options INTERFACE -fno-sanitize-recover=all)
  endif()
endif()
