// The commands about plugins.
#pragma once

#include <string>

#include "host/base/text.hpp"
#include "host/cli/arguments.hpp"
#include "mneme/note.h"

namespace mneme::cli {

// Add mneme plugins describe, try, validate, new, wrap and lock.
void add_plugins_describe(const Command& plugins);
void add_plugins_try(const Command& plugins);
void add_plugins_validate(const Command& plugins);
void add_plugins_new(const Command& plugins);
void add_plugins_wrap(const Command& plugins);
void add_plugins_lock(const Command& plugins);

// A note as text (indented lines) and as JSON.
[[nodiscard]] std::string note_text(const mneme_note& note);
[[nodiscard]] Json note_json(const mneme_note& note);

}  // namespace mneme::cli
