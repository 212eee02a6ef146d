#include "host/run/metrics/host_name.hpp"

#include <unistd.h>

#include <array>

namespace mneme::run {

std::string host_name() {
  std::array<char, 256> name{};
  const bool is_known = ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0';
  return is_known ? name.data() : "unknown";
}

}  // namespace mneme::run
