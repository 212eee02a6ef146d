// Reading what a plugin's pointers point to without trusting the pointers.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace mneme::plugin {

// Copies to.size() bytes from an address that a plugin gave. False when the memory is not readable;
// the process does not fault. (Where the system forbids asking, the bytes are copied directly.)
[[nodiscard]] bool read_plugin_bytes(const void* from, std::span<std::byte> to);

// The NUL-terminated text at an address, at most `limit` bytes long; nothing when the address is
// not readable or the text is longer.
[[nodiscard]] std::optional<std::string> read_plugin_text(const char* from, std::size_t limit);

}  // namespace mneme::plugin
