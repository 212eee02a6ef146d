// What the user handed in.
#pragma once

#include <utility>

#include "host/base/error.hpp"

namespace mneme::cli {

// Runs `read`, in which every failure is one of the files or arguments given: a missing or damaged
// file is then wrong use (exit code 2), not a failed run.
template <typename Read>
auto read_input(Read&& read) {
  try {
    return std::forward<Read>(read)();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kRun) throw;
    throw Error(ErrorKind::kUsage, error.what());
  }
}

}  // namespace mneme::cli
