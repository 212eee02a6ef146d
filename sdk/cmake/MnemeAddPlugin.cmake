# mneme_add_plugin(NAME SOURCES file... [CPU_KERNELS file...] [CUDA file...] [LIBRARIES library...] [NAMES file])
#
# A memory plugin NAME.so: one exported symbol, everything else hidden, no undefined symbols left, CUDA runtime linked
# statically. It lands in CMAKE_LIBRARY_OUTPUT_DIRECTORY, or else in the current binary folder.
#   SOURCES      C and C++ files (C11 and C++17 unless the target's properties say otherwise afterwards)
#   CPU_KERNELS  C++ files compiled once an instruction set (portable and, on x86-64, AVX2 with FMA, and AVX-512 F), of
#                which the plugin takes one when it runs: mneme_kernels/cpu/instruction_sets.hpp says how. Keep all but
#                kernels out of them
#   CUDA         .cu files; left out, and MNEME_HAS_CUDA not defined, unless the language CUDA is enabled (mneme_enable_cuda)
#   LIBRARIES    linked privately; shared ones beyond the C and C++ runtimes are named in the plugin's note
#   NAMES        the name map of official weights for `mneme import` and `export`; lands beside the library as NAME.names.toml
#
# Tests and benches of parts of a plugin link NAME_objects: a static library of the same objects, built when something
# links it, with the folder of the plugin's sources among the include directories.
#
# mneme_enable_cuda()
#
# Enables the language CUDA as MNEME_CUDA says: AUTO (default; when nvcc is found), ON, OFF. At file scope, before
# mneme_add_plugin. Projects that name CUDA in project() need it not.

# Without a build type a compiler does not optimise, and a memory is many times as slow.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()

set(MNEME_SDK_CMAKE_DIR "${CMAKE_CURRENT_LIST_DIR}" CACHE INTERNAL "Where mneme_add_plugin finds its files")

macro(mneme_enable_cuda)
  if(NOT DEFINED MNEME_CUDA)
    set(MNEME_CUDA AUTO)
  endif()
  if(NOT MNEME_CUDA MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "MNEME_CUDA is '${MNEME_CUDA}'; expected AUTO, ON or OFF.")
  endif()
  if(NOT MNEME_CUDA STREQUAL "OFF")
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80 90)
    endif()
    include(CheckLanguage)
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      enable_language(CUDA)
    elseif(MNEME_CUDA STREQUAL "ON")
      message(FATAL_ERROR "MNEME_CUDA=ON, but no working nvcc was found. Put nvcc on PATH, set CUDACXX, or use -DMNEME_CUDA=OFF.")
    endif()
  endif()
endmacro()

function(mneme_add_plugin name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAMES" "SOURCES;CPU_KERNELS;CUDA;LIBRARIES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_SOURCES)
    message(FATAL_ERROR "mneme_add_plugin(${name} SOURCES file... [CPU_KERNELS file...] [CUDA file...] [LIBRARIES "
                        "library...] [NAMES file]): no SOURCES, or not understood: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
    message(FATAL_ERROR "mneme_add_plugin(${name}): plugins are ELF libraries; this system is ${CMAKE_SYSTEM_NAME}")
  endif()
  mneme_plugin_kernels(${name} kernel_objects "${arg_LIBRARIES}" ${arg_CPU_KERNELS})
  add_library(${name} MODULE ${arg_SOURCES} ${kernel_objects})
  mneme_plugin_compile(${name} ${arg_LIBRARIES})
  set_target_properties(${name} PROPERTIES
    PREFIX "" SUFFIX ".so" OUTPUT_NAME "${name}" LINK_DEPENDS "${MNEME_SDK_CMAKE_DIR}/mneme_plugin.map")
  target_link_options(${name} PRIVATE
    "LINKER:--version-script=${MNEME_SDK_CMAKE_DIR}/mneme_plugin.map" "LINKER:-z,now" "LINKER:--exclude-libs,ALL")
  if(NOT MNEME_SANITIZE)  # a sanitizer's runtime is in the program, so its symbols are open here
    target_link_options(${name} PRIVATE "LINKER:-z,defs")
  endif()
  add_library(${name}_objects STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${name}> ${kernel_objects})
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if("CXX" IN_LIST languages)
    set_target_properties(${name}_objects PROPERTIES LINKER_LANGUAGE CXX)
  else()
    set_target_properties(${name}_objects PROPERTIES LINKER_LANGUAGE C)
  endif()
  target_include_directories(${name}_objects INTERFACE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${name}_objects INTERFACE mneme::sdk mneme::kernels ${arg_LIBRARIES})
  mneme_plugin_commit(${name})
  if(arg_NAMES)
    mneme_plugin_names(${name} "${arg_NAMES}")
  endif()
  if(arg_CUDA)
    mneme_plugin_cuda(${name} ${arg_CUDA})
  endif()
endfunction()

# How a plugin's files are compiled.
function(mneme_plugin_compile target)
  set_target_properties(${target} PROPERTIES
    C_STANDARD 11 C_STANDARD_REQUIRED ON CXX_STANDARD 17 CXX_STANDARD_REQUIRED ON CXX_EXTENSIONS OFF
    POSITION_INDEPENDENT_CODE ON
    C_VISIBILITY_PRESET hidden CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON)
  target_include_directories(${target} PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
  target_link_libraries(${target} PRIVATE mneme::sdk mneme::kernels ${ARGN})
  # Unique symbols would keep a library from ever being two isolated copies.
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fno-gnu-unique>)
  # Our own tree: compiler cache, linker, sanitizer, warnings.
  foreach(mneme_settings IN ITEMS mneme_options mneme_warnings)
    if(TARGET ${mneme_settings})
      target_link_libraries(${target} PRIVATE ${mneme_settings})
    endif()
  endforeach()
endfunction()

# CPU_KERNELS: an object library for each instruction set; `objects` receives what to link.
function(mneme_plugin_kernels name objects libraries)
  set(all "")
  if(ARGN)
    set(sets 128:portable)
    if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND CMAKE_SIZEOF_VOID_P EQUAL 8)
      list(APPEND sets 256:avx2 512:avx512)
    endif()
    foreach(pair IN LISTS sets)
      string(REPLACE ":" ";" pair "${pair}")
      list(GET pair 0 bits)
      list(GET pair 1 set)
      add_library(${name}_${set} OBJECT EXCLUDE_FROM_ALL ${ARGN})
      mneme_plugin_compile(${name}_${set} ${libraries})
      target_compile_definitions(${name}_${set} PRIVATE MNEME_VECTOR_BITS=${bits})
      # The target's pragmas are not made for several files in one unit.
      set_target_properties(${name}_${set} PROPERTIES UNITY_BUILD OFF)
      list(APPEND all $<TARGET_OBJECTS:${name}_${set}>)
    endforeach()
  endif()
  set(${objects} "${all}" PARENT_SCOPE)
endfunction()

# Beside the library, where mneme looks for it.
function(mneme_plugin_names name file)
  cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
  set_property(TARGET ${name} APPEND PROPERTY LINK_DEPENDS "${file}")
  add_custom_command(TARGET ${name} POST_BUILD
    COMMAND "${CMAKE_COMMAND}" -E copy_if_different "${file}" "$<TARGET_FILE_DIR:${name}>/${name}.names.toml" VERBATIM)
endfunction()

# The source's commit for the note, looked up when building, not when configuring.
function(mneme_plugin_commit name)
  set(header "${CMAKE_BINARY_DIR}/mneme_source_commit.h")
  if(NOT TARGET mneme_source_commit)
    add_custom_target(mneme_source_commit
      COMMAND "${CMAKE_COMMAND}" "-DSOURCE_DIR=${CMAKE_SOURCE_DIR}" "-DOUTPUT=${header}"
              -P "${MNEME_SDK_CMAKE_DIR}/MnemeSourceCommit.cmake"
      BYPRODUCTS "${header}" COMMENT "" VERBATIM)
  endif()
  add_dependencies(${name} mneme_source_commit)
  target_compile_options(${name} PRIVATE "$<$<COMPILE_LANGUAGE:C,CXX>:SHELL:-include \"${header}\">")
endfunction()

function(mneme_plugin_cuda name)
  get_property(languages GLOBAL PROPERTY ENABLED_LANGUAGES)
  if(NOT "CUDA" IN_LIST languages OR MNEME_CUDA STREQUAL "OFF")
    message(STATUS "${name}: CUDA sources left out (the language CUDA is not enabled)")
    return()
  endif()
  if(ARGN)
    target_sources(${name} PRIVATE ${ARGN})
  endif()
  set_target_properties(${name} PROPERTIES
    CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static CUDA_VISIBILITY_PRESET hidden)
  target_include_directories(${name} SYSTEM PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  get_target_property(architectures ${name} CUDA_ARCHITECTURES)
  string(REGEX REPLACE "([0-9]+[a-z]?)(-real|-virtual)?" "sm_\\1" architectures "${architectures}")
  list(JOIN architectures " " architectures)
  string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" version "${CMAKE_CUDA_COMPILER_VERSION}")
  math(EXPR version "${CMAKE_MATCH_1} * 1000 + ${CMAKE_MATCH_2} * 10")
  set_target_properties(${name}_objects PROPERTIES LINKER_LANGUAGE CUDA CUDA_RUNTIME_LIBRARY Static)
  target_compile_definitions(${name}_objects INTERFACE MNEME_HAS_CUDA=1)
  target_include_directories(${name}_objects SYSTEM INTERFACE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
  foreach(set IN ITEMS portable avx2 avx512)  # the kernels' headers ask too
    if(TARGET ${name}_${set})
      target_compile_definitions(${name}_${set} PRIVATE MNEME_HAS_CUDA=1)
    endif()
  endforeach()
  target_compile_definitions(${name} PRIVATE MNEME_HAS_CUDA=1
    "$<$<COMPILE_LANGUAGE:C,CXX>:MNEME_PLUGIN_CUDA_RUNTIME=${version}>"
    "$<$<COMPILE_LANGUAGE:C,CXX>:MNEME_PLUGIN_ARCHITECTURES=\"${architectures}\">")
endfunction()
