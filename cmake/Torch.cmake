# Imports LibTorch as mneme::torch, and offers its headers precompiled.
#
#   mneme::torch                     headers (SYSTEM), libtorch_cpu and libc10; in the build a run path to both
#   mneme_use_torch_pch(TARGET)      TARGET gets host/tensor/torch.hpp precompiled; it must link mneme::torch
#
# Searched in this order: -DMNEME_TORCH=DIR, Torch_DIR (variable or environment), CMAKE_PREFIX_PATH, the project's .venv.
# find_package(Torch) is not used: with the CUDA wheel it fails where no CUDA toolkit is installed, and where one is,
# sets CUDA flags for its whole scope. The host links the CPU libraries only; libtorch_cuda.so, beside them, is opened
# at run time when a CUDA device is asked for.

set(MNEME_TORCH "" CACHE PATH "Folder of LibTorch: the one that holds include/ and lib/")

function(mneme_find_torch out_root out_tried)
  set(candidates "")
  if(MNEME_TORCH)
    list(APPEND candidates "${MNEME_TORCH}")
  else()
    foreach(torch_dir IN ITEMS "${Torch_DIR}" "$ENV{Torch_DIR}")
      if(torch_dir)  # either ROOT itself or ROOT/share/cmake/Torch
        cmake_path(ABSOLUTE_PATH torch_dir BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" NORMALIZE)
        list(APPEND candidates "${torch_dir}" "${torch_dir}/../../..")
      endif()
    endforeach()
    set(prefixes "${CMAKE_PREFIX_PATH}")
    if(DEFINED ENV{CMAKE_PREFIX_PATH})
      string(REPLACE ":" ";" environment_prefixes "$ENV{CMAKE_PREFIX_PATH}")
      list(APPEND prefixes ${environment_prefixes})
    endif()
    list(APPEND candidates ${prefixes})
    file(GLOB wheels LIST_DIRECTORIES true
         "${CMAKE_SOURCE_DIR}/.venv/lib/python3.*/site-packages/torch")
    list(APPEND candidates ${wheels})
  endif()
  set(${out_tried} "${candidates}" PARENT_SCOPE)
  foreach(candidate IN LISTS candidates)
    cmake_path(ABSOLUTE_PATH candidate BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" NORMALIZE)
    string(REGEX REPLACE "/+$" "" candidate "${candidate}")
    if(EXISTS "${candidate}/lib/libtorch_cpu.so" AND EXISTS "${candidate}/lib/libc10.so"
       AND EXISTS "${candidate}/include/torch/csrc/api/include/torch/torch.h")
      set(${out_root} "${candidate}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${out_root} "" PARENT_SCOPE)
endfunction()

# A CUDA build of libtorch_cpu needs libcudart and libcupti. The wheels' packages lie where its own run path looks;
# the linker wants to be told, and so does the loader where only a toolkit has them (out_toolkit).
function(mneme_find_torch_cuda_folders root out_folders out_toolkit)
  file(GLOB folders LIST_DIRECTORIES true
       "${root}/../nvidia/cu*/lib" "${root}/../nvidia/cuda_runtime/lib" "${root}/../nvidia/cuda_cupti/lib")
  set(is_toolkit OFF)
  if(NOT folders)
    set(is_toolkit ON)
    set(folders $ENV{CUDA_HOME}/lib64 $ENV{CUDA_HOME}/extras/CUPTI/lib64
        /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64)
  endif()
  set(found "")
  foreach(folder IN LISTS folders)
    file(GLOB libraries "${folder}/libcudart.so.*" "${folder}/libcupti.so.*")
    if(libraries)
      cmake_path(NORMAL_PATH folder)
      list(APPEND found "${folder}")
    endif()
  endforeach()
  set(${out_folders} "${found}" PARENT_SCOPE)
  if(NOT is_toolkit)
    set(found "")
  endif()
  set(${out_toolkit} "${found}" PARENT_SCOPE)
endfunction()

mneme_find_torch(mneme_torch_root mneme_torch_tried)
if(NOT mneme_torch_root)
  list(JOIN mneme_torch_tried "\n    " mneme_torch_tried)
  message(FATAL_ERROR
    "LibTorch was not found: no folder with lib/libtorch_cpu.so, lib/libc10.so and include/torch/csrc/api/include.\n"
    "  Looked in:\n    ${mneme_torch_tried}\n"
    "  Run scripts/setup.sh (it installs the wheel torch==2.11.0 into .venv), or name a LibTorch with "
    "-DMNEME_TORCH=DIR, Torch_DIR or CMAKE_PREFIX_PATH.")
endif()
mneme_find_torch_cuda_folders("${mneme_torch_root}" mneme_torch_cuda_folders mneme_torch_toolkit_folders)
set(mneme_torch_version "")
foreach(mneme_part IN ITEMS MAJOR MINOR PATCH)
  file(STRINGS "${mneme_torch_root}/include/torch/headeronly/version.h" mneme_line
       REGEX "#define TORCH_VERSION_${mneme_part} ")
  string(REGEX MATCH "[0-9]+" mneme_line "${mneme_line}")
  list(APPEND mneme_torch_version "${mneme_line}")
endforeach()
list(JOIN mneme_torch_version "." mneme_torch_version)
if(mneme_torch_version VERSION_LESS 2.11)
  message(FATAL_ERROR "LibTorch ${mneme_torch_version} in ${mneme_torch_root} is too old; expected 2.11 or newer. "
                      "Run scripts/setup.sh, or name another one with -DMNEME_TORCH=DIR.")
endif()
message(STATUS "LibTorch: ${mneme_torch_version} in ${mneme_torch_root}")

add_library(mneme_torch INTERFACE)
add_library(mneme::torch ALIAS mneme_torch)
target_include_directories(mneme_torch SYSTEM INTERFACE
  "${mneme_torch_root}/include" "${mneme_torch_root}/include/torch/csrc/api/include")
target_compile_definitions(mneme_torch INTERFACE _GLIBCXX_USE_CXX11_ABI=1)
target_link_libraries(mneme_torch INTERFACE
  "${mneme_torch_root}/lib/libtorch_cpu.so" "${mneme_torch_root}/lib/libc10.so")
foreach(mneme_folder IN LISTS mneme_torch_cuda_folders)
  target_link_options(mneme_torch INTERFACE "LINKER:-rpath-link,${mneme_folder}")
endforeach()
# Run paths are CMake's to write, so that an installation gets its own: the folder of a library that is linked by its
# path is among them by itself.
list(APPEND CMAKE_BUILD_RPATH ${mneme_torch_toolkit_folders})

# Every user of the precompiled header has to be compiled with the very same options; mneme_host_library and
# mneme_add_test take care of that by linking mneme_options and leaving position independence alone.
add_library(mneme_pch STATIC "${CMAKE_CURRENT_LIST_DIR}/torch_pch.cpp")
target_link_libraries(mneme_pch PRIVATE mneme_torch mneme_options)
target_include_directories(mneme_pch PRIVATE "${PROJECT_SOURCE_DIR}")
target_precompile_headers(mneme_pch PRIVATE "${PROJECT_SOURCE_DIR}/host/tensor/torch.hpp" <nlohmann/json.hpp>)

# ccache can only cache users of a precompiled header when the compiler keeps the header visible in its output (GCC)
# and does not store time stamps in it (clang).
add_library(mneme_pch_options INTERFACE)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(mneme_pch_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(mneme_pch_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:SHELL:-Xclang -fno-pch-timestamp>")
endif()
target_link_libraries(mneme_pch PRIVATE mneme_pch_options mneme_light_optimisation)

function(mneme_use_torch_pch target)
  target_link_libraries(${target} PRIVATE mneme_pch_options mneme_light_optimisation)
  target_precompile_headers(${target} REUSE_FROM mneme_pch)
endfunction()
