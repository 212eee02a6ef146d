#include "host/plugin/plugin_memory.hpp"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace mneme::plugin {

bool read_plugin_bytes(const void* from, std::span<std::byte> to) {
  if (from == nullptr) return false;
  const iovec local{.iov_base = to.data(), .iov_len = to.size()};
  const iovec remote{.iov_base = const_cast<void*>(from), .iov_len = to.size()};
  const ssize_t count = ::process_vm_readv(::getpid(), &local, 1, &remote, 1, 0);
  if (count >= 0) return static_cast<std::size_t>(count) == to.size();
  if (errno == EFAULT) return false;
  std::memcpy(to.data(), from, to.size());  // a sandbox without this system call
  return true;
}

std::optional<std::string> read_plugin_text(const char* from, std::size_t limit) {
  // Pieces end at multiples of their size, so that none reaches into a page that the text does not.
  constexpr std::size_t kPiece = 64;
  std::array<std::byte, kPiece> piece{};
  std::string text;
  while (text.size() <= limit) {
    const char* const at = from + text.size();
    const std::size_t size = kPiece - reinterpret_cast<std::uintptr_t>(at) % kPiece;
    const std::span<std::byte> part(piece.data(), size);
    if (from == nullptr || !read_plugin_bytes(at, part)) return std::nullopt;
    const auto end = std::ranges::find(part, std::byte{0});
    text.append(reinterpret_cast<const char*>(part.data()),
                static_cast<std::size_t>(end - part.begin()));
    if (end != part.end()) return text.size() <= limit ? std::optional(text) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace mneme::plugin
