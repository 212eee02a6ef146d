// Lines for the host's log.
#pragma once

#include <string>

#include "mneme/cpp/host.hpp"

namespace mneme {
inline namespace sdk_0_1 {

enum class LogLevel : uint32_t {
  kDebug = MNEME_LOG_DEBUG,
  kInfo = MNEME_LOG_INFO,
  kWarning = MNEME_LOG_WARNING,
  kError = MNEME_LOG_ERROR
};

// Logs one line; the host puts `plugin_id`, the plugin's own, before it. From any thread, at any
// time after negotiation. A host without a log drops it.
inline void log_line(LogLevel level, const char* plugin_id, const std::string& line,
                     CallSite site = CallSite::here()) {
  const mneme_log_api* api = detail::optional_group(detail::groups.log, MNEME_GROUP_LOG, site);
  if (api == nullptr) return;
  api->write(detail::groups.host, static_cast<uint32_t>(level), plugin_id, line.data(),
             line.size());
}

}  // namespace sdk_0_1
}  // namespace mneme
