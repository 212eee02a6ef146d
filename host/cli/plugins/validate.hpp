// mneme plugins validate
#pragma once

namespace mneme::cli {

class Command;

void add_plugins_validate(const Command& plugins);

}  // namespace mneme::cli
