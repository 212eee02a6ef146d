// Ends begin.inl.
#if MNEME_VECTOR_BITS != 128
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
