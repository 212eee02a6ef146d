# Sources of the kernels, with absolute paths: for the plugin, and for tests and benches that compile them in.
set(continuous_ltm_kernels
  expectation.cpp histogram.cpp signal.cpp grid_options.cpp cpu/kernel_table.cpp cpu/kernels_portable.cpp
  cpu/kernels_avx2.cpp cpu/kernels_avx512.cpp)
list(TRANSFORM continuous_ltm_kernels PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
set(continuous_ltm_cuda
  cuda/expectation.cu cuda/expectation_backward.cu cuda/histogram.cu cuda/signal.cu)
list(TRANSFORM continuous_ltm_cuda PREPEND "${CMAKE_CURRENT_LIST_DIR}/")
