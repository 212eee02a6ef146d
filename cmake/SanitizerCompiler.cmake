# Sanitizer presets use clang when it is installed and nobody named a compiler; otherwise the default compiler.
set(MNEME_SANITIZE "" CACHE STRING "Sanitizer: address, undefined, \"address,undefined\", thread, fuzzer, or empty")
set_property(CACHE MNEME_SANITIZE PROPERTY STRINGS "" address undefined address,undefined thread fuzzer)
option(MNEME_FUZZ_SANITIZERS "With MNEME_SANITIZE=fuzzer: also the address and the undefined-behaviour sanitizer" ON)

if(MNEME_SANITIZE AND NOT CMAKE_CXX_COMPILER AND NOT DEFINED ENV{CXX})
  find_program(MNEME_CLANG clang)
  find_program(MNEME_CLANGXX clang++)
  mark_as_advanced(MNEME_CLANG MNEME_CLANGXX)
  if(MNEME_CLANG AND MNEME_CLANGXX)
    set(CMAKE_C_COMPILER "${MNEME_CLANG}")
    set(CMAKE_CXX_COMPILER "${MNEME_CLANGXX}")
  endif()
endif()
