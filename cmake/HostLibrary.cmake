# mneme_host_library(NAME SOURCES file... [DEPS target...] [TORCH | COMPUTES])
#
# A static library of the host: C++20, our warnings, include folders (PUBLIC) the project's root and sdk/include.
#   SOURCES  files of the calling folder; headers may be listed and need not be
#   DEPS     linked PUBLIC; dependencies go one way (tests/structure/host_folders.txt)
#   TORCH    links mneme::torch and uses the precompiled host/tensor/torch.hpp
#   COMPUTES has loops of its own over many numbers and is compiled with the build type's optimisation. The others call
#            LibTorch and kernels, format and read: -O1 takes a quarter less time to compile (cmake/BuildTools.cmake)
#
#   mneme_host_library(mneme_memory SOURCES stack.cpp tier.cpp DEPS mneme_plugin mneme_ops TORCH)
function(mneme_host_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH;COMPUTES" "" "SOURCES;DEPS")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES OR (arg_TORCH AND arg_COMPUTES))
    message(FATAL_ERROR "mneme_host_library(${name} SOURCES file... [DEPS target...] [TORCH | COMPUTES]): "
                        "no SOURCES, TORCH with COMPUTES, or not understood: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/sdk/include")
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PUBLIC ${arg_DEPS} PRIVATE mneme_warnings mneme_options)
  # The order of the list decides which files meet in one unit, and files of a folder stand together in it.
  set_target_properties(${name} PROPERTIES
    UNITY_BUILD ${MNEME_UNITY} UNITY_BUILD_MODE BATCH UNITY_BUILD_BATCH_SIZE ${MNEME_UNITY_BATCH})
  if(arg_TORCH)
    target_link_libraries(${name} PUBLIC mneme_torch)
    mneme_use_torch_pch(${name})
  elseif(NOT arg_COMPUTES)
    target_link_libraries(${name} PRIVATE mneme_light_optimisation)
  endif()
endfunction()
