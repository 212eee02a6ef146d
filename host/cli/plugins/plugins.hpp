// The commands about plugins.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "host/config/options.hpp"
#include "mneme/note.h"

namespace mneme::cli {

// Add mneme plugins describe, try, validate, same, new, port, wrap and lock.
void add_plugins_describe(const Command& plugins);
void add_plugins_try(const Command& plugins);
void add_plugins_validate(const Command& plugins);
void add_plugins_same(const Command& plugins);
void add_plugins_new(const Command& plugins);
void add_plugins_port(const Command& plugins);
void add_plugins_wrap(const Command& plugins);
void add_plugins_lock(const Command& plugins);

// The file that a name stands for: a path, or what the folders hold. Error (kUsage, kPlugin).
[[nodiscard]] std::filesystem::path plugin_file(const std::string& name,
                                                const std::vector<std::filesystem::path>& folders,
                                                const std::string& command);
// The absolute path of a memory in Python. Error (kUsage) for another file.
[[nodiscard]] std::filesystem::path python_memory(const std::filesystem::path& file);
// OPTION=VALUE of --set, without spaces. Error (kUsage) for one without a value.
[[nodiscard]] std::vector<std::string> tier_options(const std::vector<std::string>& words);

// A note as text (indented lines) and as JSON.
[[nodiscard]] std::string note_text(const mneme_note& note);
[[nodiscard]] Json note_json(const mneme_note& note);
// The schema of an option from what `plugins describe --json` writes of it, to judge values that
// are given: its default is another one.
[[nodiscard]] config::OptionSpec option_spec(const Json& option);

}  // namespace mneme::cli
