// A process that may open no more files.
#pragma once

#include <sys/resource.h>

#include <cerrno>
#include <system_error>

namespace mneme::test {

// While one lives, new descriptors must be below this number (RLIMIT_NOFILE).
class DescriptorLimit {
 public:
  explicit DescriptorLimit(rlim_t number) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit limit{number, before_.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
      throw std::system_error(errno, std::generic_category(), "setrlimit");
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace mneme::test
