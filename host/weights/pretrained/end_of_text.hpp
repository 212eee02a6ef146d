// The ids with which texts of a pretrained model end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host/weights/pretrained/folder_record.hpp"

namespace mneme::weights {

struct EndOfText {
  std::vector<std::int32_t> ids = {};  // any of them ends a text; empty = none does
  std::string source = {};             // the file that names them
};

// As eos_token_id says, a number, a list or null: that of generation_config.json, where the file
// has the key, else that of config.json. `source` of the record is for messages. Error (kRun) for
// any other value.
[[nodiscard]] EndOfText end_of_text(const FolderRecord& record, const std::string& source);

}  // namespace mneme::weights
