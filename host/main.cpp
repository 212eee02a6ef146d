#include "host/cli/cli.hpp"

int main(int argc, char** argv) {
  return mneme::cli::main_entry(argc, argv, mneme::cli::standard_streams());
}
