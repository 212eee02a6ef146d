# Run by `cmake --install` for a Python wheel: copies the libraries of the distribution that the program needs, so that it works
# without these packages. The C and C++ runtimes, LibTorch, which is a package of its own, and MPI, which has to be the
# machine's, are left out.
#   mneme_program         the built program
#   mneme_library_folder  destination, relative to the prefix

cmake_policy(VERSION 3.25)
file(GET_RUNTIME_DEPENDENCIES
  EXECUTABLES "${mneme_program}"
  PRE_EXCLUDE_REGEXES "^lib(torch|c10|mpi|open-|stdc\\+\\+|gcc_s)" "^(lib(c|m|dl|rt|pthread)|ld-linux-.*)\\.so"
  RESOLVED_DEPENDENCIES_VAR mneme_needed
  UNRESOLVED_DEPENDENCIES_VAR mneme_missing)
if(mneme_missing)
  list(JOIN mneme_missing ", " mneme_missing)
  message(FATAL_ERROR "${mneme_program} needs libraries that were not found: ${mneme_missing}. Run scripts/setup.sh.")
endif()
# A wheel holds no links: each library under the one name that programs ask for.
foreach(mneme_library IN LISTS mneme_needed)
  cmake_path(GET mneme_library FILENAME mneme_name)
  file(REAL_PATH "${mneme_library}" mneme_library)
  file(MAKE_DIRECTORY "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${mneme_library_folder}")
  file(COPY_FILE "${mneme_library}" "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${mneme_library_folder}/${mneme_name}")
endforeach()
