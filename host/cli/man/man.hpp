// The manual page of a program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mneme::cli {

class Command;

struct ManEntry {
  std::string_view name;
  std::string_view text;
};

// What the page says beside the commands.
struct Manual {
  std::string_view summary;  // "runtime for transformer memory"
  std::vector<ManEntry> exit_status = {}, environment = {}, files = {};
  std::string_view see_also;
};

// Adds the command that prints the page. `manual` must outlive the program.
void add_man(const Command& app, const Manual& manual);

// That of `mneme`.
[[nodiscard]] const Manual& mneme_manual();

}  // namespace mneme::cli
