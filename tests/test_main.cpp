// main of the test programs, and the one source of mneme_test_main: a precompiled header has to
// belong to a target that compiles something.
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

// AddressSanitizer and ThreadSanitizer report at an ordinary exit.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MNEME_TEST_ORDINARY_EXIT
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define MNEME_TEST_ORDINARY_EXIT
#endif
#endif

int main(int argc, char** argv) {
  // No thread that watches the cores (host/tensor/thread_waits.hpp): some tests count threads.
  ::setenv("OMP_WAIT_POLICY", "PASSIVE", 0);
  testing::InitGoogleMock(&argc, argv);
  const int status = RUN_ALL_TESTS();
#ifndef MNEME_TEST_ORDINARY_EXIT
  // LibTorch's destructors take a tenth of a second, which more than a thousand processes of ctest
  // would each pay.
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(status);
#else
  return status;
#endif
}
