#include "host/scores/json_record.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/scores/evaluation_files.hpp"

namespace mneme::scores {

namespace fs = std::filesystem;

void write_record(const fs::path& file, const RecordKind& kind, const Json& record) {
  Json json = {{"format", kind.format}, {"version", kind.version}};
  json.update(record);
  json["checksum"] = checksum_of_info(json);
  std::error_code code;
  fs::create_directories(file.parent_path(), code);
  if (code) fail_file(file.parent_path(), "make the folder", code.value());
  remove_temporaries(file.parent_path(), Writers::kAny);
  write_file_atomic(file, json_text(json, 1) + '\n');
}

void fail_record(const fs::path& file, const RecordKind& kind, const std::string& expected,
                 const std::string& got) {
  throw_run({.where = file.string(),
             .failed = str(kind.words, " are damaged"),
             .expected = expected,
             .got = got,
             .hint = std::string(kind.remedy)});
}

Json read_record(const fs::path& file, const RecordKind& kind) {
  Json json = parse_json(read_file(file));
  if (!json.is_object()) fail_record(file, kind, "a JSON object", "something else");
  const Json format = json.value("format", Json());
  const Json version = json.value("version", Json());
  if (format != Json(kind.format) || version != Json(kind.version)) {
    throw_run({.where = file.string(),
               .failed = str("this program cannot read ", kind.words),
               .expected = str("format ", kind.format, ", version ", kind.version),
               .got = str("format ", format.dump(), ", version ", version.dump()),
               .hint = std::string(kind.remedy)});
  }
  const Json checksum = json.value("checksum", Json());
  const std::string expected = checksum_of_info(json);
  if (checksum != Json(expected)) {
    fail_record(file, kind, "the checksum " + expected, checksum.dump());
  }
  return json;
}

std::vector<fs::path> list_records(const fs::path& folder) {
  std::vector<fs::path> out;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    if (entry.path().extension() == ".json") out.push_back(entry.path());
  }
  std::ranges::sort(out);
  return out;
}

void remove_later_records(const fs::path& folder, std::int64_t step) {
  for (const fs::path& file : list_records(folder)) {
    const auto name = parse_evaluation_name(file.stem().string());
    if (!name || name->step <= step) continue;
    std::error_code code;
    fs::remove(file, code);
    if (code) {
      throw_run({.where = file.string(), .failed = "cannot be removed", .got = code.message()});
    }
  }
}

}  // namespace mneme::scores
