#include "tests/stats/golden.hpp"

#include <fstream>
#include <string>

namespace mneme::stats {

const nlohmann::json& golden(const std::string& name) {
  static const nlohmann::json kAll = [] {
    std::ifstream file(std::string(MNEME_SOURCE_DIR) + "/tests/stats/golden.json");
    return nlohmann::json::parse(file);
  }();
  return kAll.at(name);
}

}  // namespace mneme::stats
