// Whether two runs are the same, bit for bit, but for what a clock measured.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"

namespace mneme::test {

inline void erase_times(Json& json) {
  if (!json.is_object()) return;
  for (const char* const key :
       {"seconds", "tokens_per_second", "mfu", "product_flops_per_second", "utilization"})
    json.erase(key);
  for (auto& item : json.items()) erase_times(item.value());
}

// The lines of metrics.jsonl without times.
inline std::vector<Json> timeless_metrics(const std::filesystem::path& run) {
  std::istringstream in(read_file(run / "metrics.jsonl"));
  std::vector<Json> lines;
  for (std::string line; std::getline(in, line);) {
    lines.push_back(Json::parse(line));
    erase_times(lines.back());
  }
  return lines;
}

// Every tensor and all metadata but times and what depends on them.
inline void expect_same_checkpoints(const std::filesystem::path& a,
                                    const std::filesystem::path& b) {
  const SafetensorsFile ours = SafetensorsFile::open(a), theirs = SafetensorsFile::open(b);
  ASSERT_EQ(ours.names(), theirs.names());
  const auto bytes = [](const TensorView& view) {
    return std::string_view(reinterpret_cast<const char*>(view.data), view.bytes);
  };
  for (const std::string& name : ours.names()) {
    EXPECT_EQ(ours.at(name).dtype, theirs.at(name).dtype) << name;
    EXPECT_EQ(ours.at(name).shape, theirs.at(name).shape) << name;
    EXPECT_TRUE(bytes(ours.at(name)) == bytes(theirs.at(name))) << name << " differs";
  }
  std::map<std::string, std::string> mine = ours.metadata(), other = theirs.metadata();
  for (const char* const key : {"seconds", "checksum"}) {
    mine.erase(key);
    other.erase(key);
  }
  EXPECT_EQ(mine, other);
}

// The same metrics, the same newest checkpoint, and no difference between others that both have: a
// stop writes one more, and retention then keeps others.
inline void expect_same_runs(const std::filesystem::path& a, const std::filesystem::path& b) {
  EXPECT_EQ(timeless_metrics(a), timeless_metrics(b));
  const auto names = [](const std::filesystem::path& run) {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(run / "checkpoints")) {
      found.insert(entry.path().filename().string());
    }
    return found;
  };
  const std::set<std::string> ours = names(a), theirs = names(b);
  ASSERT_FALSE(ours.empty());
  ASSERT_FALSE(theirs.empty());
  EXPECT_EQ(*ours.rbegin(), *theirs.rbegin());
  for (const std::string& file : ours) {
    if (!theirs.contains(file)) continue;
    SCOPED_TRACE(file);
    expect_same_checkpoints(a / "checkpoints" / file, b / "checkpoints" / file);
  }
}

}  // namespace mneme::test
