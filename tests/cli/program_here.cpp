// Lets run_mneme fork the program from the test (program.hpp).
#include "tests/cli/program.hpp"

int mneme_main(int argc, char** argv);  // host/main.cpp, compiled with this name for its main

namespace mneme::test {
namespace {

[[maybe_unused]] const bool is_set = [] {
  program_main = mneme_main;
  return true;
}();

}  // namespace
}  // namespace mneme::test
