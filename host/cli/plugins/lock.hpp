// mneme plugins lock
#pragma once

namespace mneme::cli {

class Command;

void add_plugins_lock(const Command& plugins);

}  // namespace mneme::cli
