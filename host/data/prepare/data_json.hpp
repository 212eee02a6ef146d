// Reads the members of a prepared folder's data.json, and refuses folders that are damaged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "host/base/text.hpp"
#include "host/data/stream/stream.hpp"

namespace mneme::data {

// Error (kUsage) that ends in the advice to prepare the data again.
[[noreturn]] void refuse_prepared(const std::string& where, const std::string& failed,
                                  const std::string& expected, const std::string& got);

// A member that must be there, a whole number of at least 0, a text. `where` names the file and the
// object in it. Error (kUsage) as refuse_prepared.
[[nodiscard]] const Json& info_member(const Json& json, const std::string& where,
                                      const std::string& key);
[[nodiscard]] std::int64_t info_count(const Json& json, const std::string& where,
                                      const std::string& key);
[[nodiscard]] std::string info_text(const Json& json, const std::string& where,
                                    const std::string& key);

// Error (kUsage) unless the ids of `file` have the width of the folder's vocabulary.
void check_width(const std::filesystem::path& file, const TokenArray& tokens, int width);

}  // namespace mneme::data
