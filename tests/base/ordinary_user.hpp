// Permissions of files mean nothing to the superuser.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace mneme::test {

// While one lives, a process of the superuser has the permissions of the user "nobody". Throws
// std::system_error where the system has no such user.
class OrdinaryUser {
 public:
  OrdinaryUser() {
    constexpr uid_t kNobody = 65534;
    if (is_superuser_ && ::seteuid(kNobody) != 0) {
      throw std::system_error(errno, std::generic_category(), "seteuid");
    }
  }
  ~OrdinaryUser() {
    if (is_superuser_) static_cast<void>(!::seteuid(0));
  }
  OrdinaryUser(const OrdinaryUser&) = delete;
  OrdinaryUser& operator=(const OrdinaryUser&) = delete;

 private:
  bool is_superuser_ = ::geteuid() == 0;
};

}  // namespace mneme::test
