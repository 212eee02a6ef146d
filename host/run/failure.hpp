// What ended an evaluation or a training, as an error of ours.
#pragma once

#include <exception>
#include <string>

#include "host/base/error.hpp"

namespace mneme::run {

// An Error as it is. What LibTorch throws becomes an Error (kRun) of `where` with its first line,
// and with `memory_hint`, what to lower, when memory ran out.
[[nodiscard]] Error failure_of(const std::exception& error, const std::string& where,
                               const std::string& memory_hint);

}  // namespace mneme::run
