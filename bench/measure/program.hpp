// The main program of a bench that takes numbers.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace mneme::bench {

// The number at a place of the command line, from 1 on.
class Arguments {
 public:
  Arguments(int argc, char** argv) : argc_(argc), argv_(argv) {}
  int64_t operator()(int place, int64_t fallback) const {
    return argc_ > place ? std::strtoll(argv_[place], nullptr, 10) : fallback;
  }

 private:
  int argc_;
  char** argv_;
};

// The exit status: what `body` gives, or 1 after saying what it threw.
int run_program(const char* name, const auto& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 1;
  }
}

}  // namespace mneme::bench
