# Sources of the kernels, with absolute paths: for the plugin, and for tests and benches that compile them in.
set(compressive_kernels
  reconstruction.cpp pool.cpp cpu/kernel_table.cpp cpu/kernels_portable.cpp cpu/kernels_avx2.cpp cpu/kernels_avx512.cpp)
list(TRANSFORM compressive_kernels PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
set(compressive_cuda cuda/reconstruction.cu cuda/pool.cu)
list(TRANSFORM compressive_cuda PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
