// A seed that is drawn anew for each run of a test program, and can be given to repeat one.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>

namespace mneme::test {

// From MNEME_TEST_SEED or, without it, from the system; printed with what it is `of`.
inline uint32_t drawn_seed(const char* of) {
  const char* given = std::getenv("MNEME_TEST_SEED");
  const auto seed = given != nullptr ? static_cast<uint32_t>(std::strtoul(given, nullptr, 10))
                                     : std::random_device{}();
  std::printf("%s: seed %u (MNEME_TEST_SEED repeats it)\n", of, seed);
  return seed;
}

}  // namespace mneme::test
