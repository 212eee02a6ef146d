#include "host/run/failure.hpp"

#include <utility>

#include "host/run/footprint/memory_estimate.hpp"

namespace mneme::run {

Error failure_of(const std::exception& error, const std::string& where,
                 const std::string& memory_hint) {
  if (const auto* const ours = dynamic_cast<const Error*>(&error)) return *ours;
  const std::string text = error.what();
  ErrorText message{.where = where, .failed = text.substr(0, text.find('\n'))};
  if (is_out_of_memory(error)) {
    message.got = std::exchange(message.failed, "out of memory");
    message.hint = memory_hint;
  }
  return {ErrorKind::kRun, message};
}

}  // namespace mneme::run
