// Waits until the memories of a command may run something else.
#pragma once

#include <filesystem>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "host/base/file/file_watch.hpp"
#include "host/config/experiment.hpp"

namespace mneme::trial {

// Adds the files whose change may change what a memory runs: where a tier's plugin lies, and where
// it would be found first if it were there.
void add_plugin_files(const config::MemoryConfig& memory, std::set<std::filesystem::path>& files);

// One thread at a time.
class MemoryWatch {
 public:
  // As FileWatch::watch; `files` as add_plugin_files gives them, and others.
  void watch(std::set<std::filesystem::path> files);
  // False when `is_cancelled` said so before a file changed.
  [[nodiscard]] bool wait(const std::function<bool()>& is_cancelled) {
    return !watch_.wait(is_cancelled).empty();
  }
  // The files that are there, or the folder in place of those in it.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] WatchMethod method() const { return watch_.method(); }

 private:
  FileWatch watch_;
  std::set<std::filesystem::path> files_;
};

}  // namespace mneme::trial
