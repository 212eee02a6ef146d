# Sources of the kernel, with absolute paths: for the plugin, and for tests and benches that compile them in.
set(lamemo_kernels
  look_ahead.cpp cpu/kernel_table.cpp cpu/kernels_portable.cpp cpu/kernels_avx2.cpp cpu/kernels_avx512.cpp)
list(TRANSFORM lamemo_kernels PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
set(lamemo_cuda cuda/look_ahead.cu cuda/look_ahead_backward.cu)
list(TRANSFORM lamemo_cuda PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
