// Lets run_mneme fork the program from the test (program.hpp).
#include <unistd.h>

#include <cstdlib>

#include "tests/cli/program.hpp"

int mneme_main(int argc, char** argv);  // host/main.cpp, compiled with this name for its main

namespace mneme::test {
namespace {

[[maybe_unused]] const bool is_set = [] {
  if (std::getenv(kForkVariable) != nullptr) ::_exit(126);
  program_main = mneme_main;
  return true;
}();

}  // namespace
}  // namespace mneme::test
