// How a function of the host refuses a call of a plugin.
#pragma once

#include <stdexcept>
#include <string>

#include "mneme/abi.h"

namespace mneme::plugin {

// Thrown inside a function of a host group; becomes the mneme_status and text that the plugin gets.
class CallError : public std::runtime_error {
 public:
  CallError(mneme_status code, const std::string& message)
      : std::runtime_error(message), code_(code) {}
  mneme_status code() const { return code_; }

 private:
  mneme_status code_;
};

}  // namespace mneme::plugin
