# MNEME_HAVE_MPI says whether training and comparisons over several processes are built (host/ranks).
set(MNEME_HAVE_MPI OFF)
if(NOT MNEME_MPI STREQUAL "OFF")
  find_package(MPI QUIET COMPONENTS C)
  if(MPI_C_FOUND)
    set(MNEME_HAVE_MPI ON)
    # The C interface only; Open MPI's headers would pull in its C++ bindings.
    target_compile_definitions(MPI::MPI_C INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
    message(STATUS "MPI: ${MPI_C_VERSION}, ${MPI_C_LIBRARIES}")
  elseif(MNEME_MPI STREQUAL "ON")
    message(FATAL_ERROR "MNEME_MPI=ON, and no MPI library was found. Run scripts/setup.sh, install libopenmpi-dev, or on a "
                        "cluster load its MPI module, so that mpicc is on PATH.")
  else()
    message(STATUS "MPI: not found; the program runs in one process (MNEME_MPI=AUTO)")
  endif()
endif()
