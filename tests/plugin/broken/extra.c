/* A shared library that is no C or C++ runtime. */
int extra_answer(void);
__attribute__((visibility("default"))) int extra_answer(void) { return 42; }
