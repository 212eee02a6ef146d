// The entry points of libFuzzer for one target, whose function MNEME_FUZZ_TARGET names. Beside
// libFuzzer's own arguments: --write-seeds DIR writes the target's seeds as files, and nothing
// else.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "tests/fuzz/target.hpp"

namespace {

const mneme::fuzz::Target& target() {
  static const mneme::fuzz::Target target = mneme::fuzz::MNEME_FUZZ_TARGET();
  return target;
}

void write_seeds(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  int number = 0;
  for (const std::string& seed : target().seeds()) {
    std::ofstream(folder / ("seed" + std::to_string(number++)), std::ios::binary) << seed;
  }
}

}  // namespace

// libFuzzer has no header for these two.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc == 3 && std::string_view((*argv)[1]) == "--write-seeds") {
    write_seeds((*argv)[2]);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    static_cast<void>(target().read({reinterpret_cast<const char*>(data), size}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "finding: an exception that is no mneme::Error: %s\n", error.what());
    std::abort();
  }
  return 0;
}
