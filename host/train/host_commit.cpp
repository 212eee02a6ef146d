#include "host/train/host_commit.hpp"

#include "mneme_host_commit.h"

namespace mneme::train {

std::string host_commit() { return MNEME_PLUGIN_COMMIT; }
bool is_host_dirty() { return MNEME_PLUGIN_DIRTY != 0; }

}  // namespace mneme::train
