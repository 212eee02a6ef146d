// The checks of `mneme doctor`. Every check returns findings and never throws.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/cli/streams.hpp"
#include "host/tensor/device.hpp"

namespace mneme::cli {

// One line of the report.
struct Finding {
  enum class State {
    kOk,
    kAbsent,  // something that not everybody needs is missing
    kBroken,  // ordinary use fails
  };
  std::string subject = {};  // "CUDA driver"
  State state = State::kOk;
  std::string text = {};    // what was found, or why it is missing
  std::string advice = {};  // what to do; "" when fine
  Json details = nullptr;   // for --json
};

// Compilers, CMake and nvcc on PATH with their versions: what building plugins needs.
[[nodiscard]] std::vector<Finding> check_toolchain();
// LibTorch's version, threads and instruction set.
[[nodiscard]] std::vector<Finding> check_libtorch();
// The NVIDIA driver and its devices; LibTorch's use of them; how fast they are.
[[nodiscard]] std::vector<Finding> check_cuda(const std::filesystem::path& executable);
using tensor::DriverLookUp;
// The part of check_cuda about the driver; `look_up` is null where there is none. `runtime`: the
// CUDA version that LibTorch was built with, 13000 for 13.0; 0 = not known.
[[nodiscard]] std::vector<Finding> check_driver(const DriverLookUp& look_up, int runtime);
// Whether the installation of an executable has all files that cmake --install listed at its end,
// and the SDK likewise.
[[nodiscard]] std::vector<Finding> check_installation(const std::filesystem::path& executable);
// What to do where the installation has LibTorch without the CUDA that it was built with; "" where
// it is another one.
[[nodiscard]] std::string advice_on_cuda(const std::filesystem::path& executable);
// Every library of the folders given, or of the program's own folder. Executes nothing of a plugin.
[[nodiscard]] std::vector<Finding> check_plugins(const std::vector<std::filesystem::path>& given);
// Whether the current folder, runs/ and the temporary folder can be written, and their free space.
[[nodiscard]] std::vector<Finding> check_folders();
// The allocator; sealed memory files, in which plugins are loaded; MPI.
[[nodiscard]] std::vector<Finding> check_system();
// The interpreter of memories in Python, its libpython and torch, and the program's bridge.
[[nodiscard]] std::vector<Finding> check_python();
// Character encoding and terminal.
[[nodiscard]] std::vector<Finding> check_terminal(const Streams& streams);

}  // namespace mneme::cli
