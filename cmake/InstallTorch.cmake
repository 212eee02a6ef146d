# Run by `cmake --install`: copies LibTorch into the installation, with the licences of what is copied.
#   mneme_torch_root          the LibTorch that the build used
#   mneme_torch_cuda_folders  where libcudart and libcupti of a CUDA build lie
#   mneme_torch_folder        destination, relative to the prefix: .../torch/lib
#   mneme_licence_folder      destination of the licences, relative to the prefix
#   mneme_with_cuda           copy, or copy-cuda for the CUDA libraries too

cmake_policy(VERSION 3.25)
set(mneme_destination "${CMAKE_INSTALL_PREFIX}/${mneme_torch_folder}")

# What libtorch_cpu needs, as the loader would find it. What a distribution's packages put into /usr/lib stays out.
file(GET_RUNTIME_DEPENDENCIES
  LIBRARIES "${mneme_torch_root}/lib/libtorch_cpu.so" "${mneme_torch_root}/lib/libc10.so"
  DIRECTORIES "${mneme_torch_root}/lib" ${mneme_torch_cuda_folders}
  RESOLVED_DEPENDENCIES_VAR mneme_needed
  UNRESOLVED_DEPENDENCIES_VAR mneme_missing
  CONFLICTING_DEPENDENCIES_PREFIX mneme_ambiguous)
if(mneme_missing)
  list(JOIN mneme_missing ", " mneme_missing)
  message(FATAL_ERROR "LibTorch in ${mneme_torch_root} needs libraries that were not found: ${mneme_missing}. "
                      "Run scripts/setup.sh, or leave LibTorch where it is with -DMNEME_INSTALL_TORCH=link.")
endif()
foreach(mneme_name IN LISTS mneme_ambiguous_FILENAMES)  # found in several folders
  list(GET mneme_ambiguous_${mneme_name} 0 mneme_library)
  list(APPEND mneme_needed "${mneme_library}")
endforeach()
list(APPEND mneme_needed "${mneme_torch_root}/lib/libtorch_cpu.so" "${mneme_torch_root}/lib/libc10.so")
foreach(mneme_library IN LISTS mneme_needed)
  cmake_path(GET mneme_library PARENT_PATH mneme_folder)
  file(REAL_PATH "${mneme_folder}" mneme_folder)
  if(NOT mneme_folder MATCHES "^/(usr/)?lib[0-9]*(/|$)")
    file(INSTALL DESTINATION "${mneme_destination}" TYPE SHARED_LIBRARY FOLLOW_SYMLINK_CHAIN FILES "${mneme_library}")
  endif()
endforeach()

# The wheels' layout as it is: libtorch_cuda lies beside libtorch_cpu, NVIDIA's libraries in ../../nvidia/*/lib.
if(mneme_with_cuda STREQUAL "copy-cuda")
  if(NOT EXISTS "${mneme_torch_root}/lib/libtorch_cuda.so")
    message(FATAL_ERROR "LibTorch in ${mneme_torch_root} is a build for the CPU only: there is no lib/libtorch_cuda.so. "
                        "Name a CUDA build with -DMNEME_TORCH=DIR, or use -DMNEME_INSTALL_TORCH=copy.")
  endif()
  file(INSTALL DESTINATION "${mneme_destination}" TYPE DIRECTORY FILES "${mneme_torch_root}/lib/"
    FILES_MATCHING PATTERN "*.so*" PATTERN "libtorch_python*" EXCLUDE PATTERN "libshm*" EXCLUDE)
  cmake_path(GET mneme_torch_root PARENT_PATH mneme_packages)
  if(EXISTS "${mneme_packages}/nvidia")
    file(INSTALL DESTINATION "${mneme_destination}/../.." TYPE DIRECTORY FILES "${mneme_packages}/nvidia"
      FILES_MATCHING PATTERN "*.so*")
  endif()
endif()

# A wheel brings its licences beside it, an archive of LibTorch brings none: THIRD_PARTY_NOTICES.md names it then.
cmake_path(GET mneme_torch_root PARENT_PATH mneme_packages)
file(GLOB mneme_infos LIST_DIRECTORIES true "${mneme_packages}/torch-*.dist-info" "${mneme_packages}/nvidia_*.dist-info")
foreach(mneme_info IN LISTS mneme_infos)
  cmake_path(GET mneme_info STEM LAST_ONLY mneme_name)
  if(EXISTS "${mneme_info}/licenses")
    file(INSTALL DESTINATION "${CMAKE_INSTALL_PREFIX}/${mneme_licence_folder}/${mneme_name}" TYPE DIRECTORY
      FILES "${mneme_info}/licenses/")
  endif()
endforeach()
