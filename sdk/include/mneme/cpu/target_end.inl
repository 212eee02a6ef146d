// Ends avx512.inl or avx2.inl.
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
