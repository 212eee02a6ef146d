#include "host/weights/pretrained/folder_record.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/hex.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/run/run_folder.hpp"

namespace mneme::weights {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecordFormat = "mneme.pretrained";
constexpr int kRecordRevision = 1;

// tokenizer.model is binary; the others are texts.
constexpr const char* kTokenizerSettings = "tokenizer_config.json";
constexpr std::array kTokenizerFiles = {
    "tokenizer.json", kTokenizerSettings, "special_tokens_map.json", "added_tokens.json",
    "vocab.json",     "merges.txt",       "tokenizer.model"};
constexpr std::array kTemplates = {"chat_template.jinja", "chat_template.json"};
constexpr const char* kMoreTemplates = "additional_chat_templates";  // a folder

std::map<std::string, std::string> read_beside(const fs::path& folder) {
  std::map<std::string, std::string> out;
  std::error_code ignored;
  const auto read = [&](const fs::path& name) {
    require_link_target(folder / name);
    if (!fs::is_regular_file(folder / name, ignored)) return;
    out[name.generic_string()] = read_file(folder / name);
  };
  for (const char* name : kTokenizerFiles) read(name);
  for (const char* name : kTemplates) read(name);
  require_link_target(folder / kMoreTemplates);
  for (const fs::directory_entry& entry :
       fs::directory_iterator(folder / kMoreTemplates, ignored)) {
    if (entry.path().extension() == ".jinja") read(kMoreTemplates / entry.path().filename());
  }
  return out;
}

// Reads typed members of pretrained.json.
class RecordReader {
 public:
  RecordReader(const std::string& text, const std::string& source)
      : json_(parse_json(text)), source_(source) {
    const bool is_ours = json_.is_object() && json_.value("format", Json()) == kRecordFormat;
    if (!is_ours) fail("format", str("a file of ", kRecordFormat));
    if (json_.value("revision", Json()) != kRecordRevision) {
      fail("revision", str(kRecordRevision, ", what this version of mneme reads"));
    }
  }

  [[noreturn]] void fail(const std::string& key, const std::string& expected) const {
    throw_run({.where = str(source_, ": ", key),
               .failed = "the record of the imported folder cannot be read",
               .expected = expected,
               .hint = "import the folder again, or export with --family"});
  }
  std::string string(const Json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_string()) fail(key, "a string");
    return found->get<std::string>();
  }
  // Of an absent key there are none.
  std::vector<std::string> strings(const char* key) const {
    const Json list = json_.value(key, Json::array());
    const bool is_list = list.is_array() &&
                         std::ranges::all_of(list, [](const Json& one) { return one.is_string(); });
    if (!is_list) fail(key, "a list of strings");
    return list.get<std::vector<std::string>>();
  }
  const Json& json() const { return json_; }
  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) fail(key, "such a key");
    return *found;
  }
  std::string bytes(const std::string& hex, const char* key = "kept") const {
    std::optional<std::string> out = bytes_of_hex(hex);
    if (!out) fail(key, "hexadecimal digits");
    return std::move(*out);
  }

 private:
  Json json_;
  const std::string& source_;
};

std::string padded_header(const Json& json) {
  std::string header = json.dump();
  header.append((8 - header.size() % 8) % 8, ' ');
  return header;
}

// The header of a file with these tensors, one behind the other.
std::string header_in_f32(const std::vector<TensorView>& tensors) {
  Json json = {{safetensors::kMetadataKey, {{"format", "pt"}}}};
  std::uint64_t begin = 0;
  for (const TensorView& view : tensors) {
    const std::uint64_t end = begin + view.bytes;
    json[view.name] = {
        {"dtype", dtype_name(DType::F32)}, {"shape", view.shape}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  return padded_header(json);
}

// A header without some of its tensors, whose bytes are gone too; `total` grows by those that stay.
std::string trimmed(const RecordedFile& file, const std::set<std::string>& dropped,
                    std::uint64_t& total) {
  Json json = parse_json(file.header);
  std::uint64_t begin = 0;
  for (const RecordedTensor& tensor : tensors_of(file, "the folder")) {
    if (dropped.contains(tensor.name)) {
      json.erase(tensor.name);
      continue;
    }
    const std::uint64_t end = begin + (tensor.end - tensor.begin);
    json[tensor.name]["data_offsets"] = {begin, end};
    begin = end;
  }
  total += begin;
  return padded_header(json);
}

void drop_tensors(const std::set<std::string>& dropped, FolderRecord& record) {
  if (dropped.empty()) return;
  std::uint64_t total = 0;
  for (RecordedFile& file : record.files) file.header = trimmed(file, dropped, total);
  if (record.index.empty()) return;
  Json index = parse_json(record.index);
  for (const std::string& name : dropped) index["weight_map"].erase(name);
  if (index.contains("metadata") && index["metadata"].contains("total_size")) {
    index["metadata"]["total_size"] = total;
  }
  record.index = index.dump(2) + "\n";
}

}  // namespace

FolderRecord FolderRecord::of(const ModelFolder& folder, const FolderNames& names) {
  FolderRecord record{.family = names.family.model_type,
                      .has_prefix = names.has_prefix,
                      .config = folder.config_text(),
                      .index = folder.index_text()};
  if (const GgufModel* const gguf = folder.gguf()) {
    record.stored_types = gguf->types();
    record.beside = gguf->texts();
    if (const auto ends = record.beside.extract(kGenerationName)) {
      record.generation_config = ends.mapped();
    }
    record.files.push_back({kSingleName, header_in_f32(gguf->tensors())});
    drop_tensors({names.ignored.begin(), names.ignored.end()}, record);
    return record;
  }
  record.generation_config = folder.generation_text();
  for (const SafetensorsFile& file : folder.files()) {
    record.files.push_back({folder.name_of(file), raw_header(file.path())});
  }
  std::set<std::string> dropped;
  for (const std::string& name : folder.names()) {
    const TensorView& view = *folder.find(name);
    if (names.is_dropped(view)) dropped.insert(name);
    if (names.is_dropped(view) || names.constant_kind(name) != "kept") continue;
    record.kept[name] = std::string(reinterpret_cast<const char*>(view.data), view.bytes);
  }
  drop_tensors(dropped, record);
  record.beside = read_beside(folder.path());
  return record;
}

std::string FolderRecord::chat_template() const {
  for (const char* name : kTemplates) {
    if (beside.contains(name)) return name;
  }
  for (const auto& [name, bytes] : beside) {
    if (name.starts_with(str(kMoreTemplates, '/'))) return name;
  }
  const auto settings = beside.find(kTokenizerSettings);
  if (settings == beside.end()) return "";
  const Json json = parse_json(json_of_python(settings->second));
  const bool has_one = json.is_object() && !json.value("chat_template", Json()).is_null();
  return has_one ? kTokenizerSettings : "";
}

std::string FolderRecord::stored_types_text() const {
  std::vector<std::pair<std::int64_t, std::string>> counts;
  for (const auto& [type, count] : stored_types) counts.emplace_back(count, type);
  std::ranges::sort(counts, std::greater<>());
  std::vector<std::string> parts;
  for (const auto& [count, type] : counts) {
    parts.push_back(str(count, parts.empty() ? " tensors of " : " of ", type));
  }
  return join(parts, ", ");
}

std::string FolderRecord::chat_template_text() const {
  const std::string name = chat_template();
  if (name.empty()) return "";
  if (name.ends_with(".jinja")) return beside.at(name);
  const Json json = parse_json(json_of_python(beside.at(name)));
  const Json text = json.is_object() ? json.value("chat_template", Json()) : Json();
  return text.is_string() ? text.get<std::string>() : "";
}

std::string FolderRecord::text() const {
  Json json;
  json["format"] = kRecordFormat;
  json["revision"] = kRecordRevision;
  json["family"] = family;
  json["has_prefix"] = has_prefix;
  json["config"] = config;
  json["generation_config"] = generation_config;
  if (!ignored.empty()) json["ignored"] = ignored;
  if (!stored_types.empty()) json["stored_types"] = stored_types;
  json["index"] = index;
  json["files"] = Json::array();
  for (const RecordedFile& file : files) {
    json["files"].push_back({{"name", file.name}, {"header", file.header}});
  }
  json["kept"] = Json::object();
  for (const auto& [name, bytes] : kept) json["kept"][name] = hex_of(bytes);
  json["beside"] = Json::object();
  for (const auto& [name, bytes] : beside) {
    // JSON holds texts alone.
    json["beside"][name] = is_utf8(bytes) ? Json(bytes) : Json{{"hex", hex_of(bytes)}};
  }
  return json.dump(2) + "\n";
}

FolderRecord FolderRecord::parse(const std::string& text, const std::string& source) {
  const RecordReader reader(text, source);
  FolderRecord record;
  record.family = reader.string(reader.json(), "family");
  const Json& prefix = reader.at("has_prefix");
  if (!prefix.is_boolean()) reader.fail("has_prefix", "a boolean");
  record.has_prefix = prefix.get<bool>();
  record.config = reader.string(reader.json(), "config");
  record.generation_config = reader.string(reader.json(), "generation_config");
  record.ignored = reader.strings("ignored");
  record.index = reader.string(reader.json(), "index");
  const Json& files = reader.at("files");
  if (!files.is_array() || files.empty()) reader.fail("files", "a list of files");
  for (const Json& file : files) {
    if (!file.is_object()) reader.fail("files", "objects with name and header");
    record.files.push_back({reader.string(file, "name"), reader.string(file, "header")});
    if (!is_inside(record.files.back().name)) reader.fail("files", "names inside the folder");
  }
  const Json& kept = reader.at("kept");
  if (!kept.is_object()) reader.fail("kept", "an object");
  for (const auto& [name, hex] : kept.items()) {
    if (!hex.is_string()) reader.fail("kept", "strings");
    record.kept[name] = reader.bytes(hex.get<std::string>());
  }
  const Json beside = reader.json().value("beside", Json::object());  // older records lack it
  if (!beside.is_object()) reader.fail("beside", "an object");
  for (const auto& [name, content] : beside.items()) {
    if (!is_inside(name)) reader.fail("beside", "names inside the folder");
    record.beside[name] = content.is_object()
                              ? reader.bytes(reader.string(content, "hex"), "beside")
                          : content.is_string() ? content.get<std::string>()
                                                : (reader.fail("beside", "texts"), "");
  }
  const Json types = reader.json().value("stored_types", Json::object());  // a folder has none
  if (!types.is_object()) reader.fail("stored_types", "an object");
  for (const auto& [type, count] : types.items()) {
    if (!count.is_number_integer()) reader.fail("stored_types", "numbers of tensors");
    record.stored_types[type] = count.get<std::int64_t>();
  }
  return record;
}

bool is_tokenizer_file(const std::string& name) {
  return std::ranges::find(kTokenizerFiles, name) != kTokenizerFiles.end();
}

std::string find_record_text(const fs::path& source) {
  std::error_code ignored;
  const fs::path absolute = fs::absolute(source, ignored);
  const fs::path run =
      fs::is_directory(absolute, ignored) ? absolute : absolute.parent_path().parent_path();
  const fs::path path = run::RunFolder::at(run).pretrained_file();
  return fs::exists(path, ignored) ? read_file(path) : "";
}

std::optional<FolderRecord> FolderRecord::find(const fs::path& source) {
  const std::string text = find_record_text(source);
  if (text.empty()) return std::nullopt;
  return parse(text, str(source.string(), ": pretrained.json"));
}

std::vector<RecordedTensor> tensors_of(const RecordedFile& file, const std::string& source) {
  const auto fail = [&](const std::string& name) {
    throw_run({.where = str(source, ": ", file.name, ": ", name),
               .failed = "the recorded header cannot be read",
               .hint = "import the folder again, or export with --family"});
  };
  const Json json = parse_json(file.header);
  if (!json.is_object()) fail("header");
  std::vector<RecordedTensor> out;
  for (const auto& [name, entry] : json.items()) {
    if (name == safetensors::kMetadataKey) continue;
    RecordedTensor tensor{.name = name};
    const Json dtype = entry.is_object() ? entry.value("dtype", Json()) : Json();
    const Json shape = entry.is_object() ? entry.value("shape", Json()) : Json();
    const Json offsets = entry.is_object() ? entry.value("data_offsets", Json()) : Json();
    const auto are_counts = [](const Json& list) {
      return list.is_array() && std::ranges::all_of(list, [](const Json& one) {
               return one.is_number_integer() && one.get<std::int64_t>() >= 0;
             });
    };
    if (!dtype.is_string() || !parse_dtype(dtype.get<std::string>(), tensor.dtype) ||
        !are_counts(shape) || !are_counts(offsets) || offsets.size() != 2) {
      fail(name);
    }
    tensor.shape = shape.get<std::vector<std::int64_t>>();
    tensor.begin = offsets[0].get<std::uint64_t>();
    tensor.end = offsets[1].get<std::uint64_t>();
    out.push_back(std::move(tensor));
  }
  std::ranges::sort(out, [](const RecordedTensor& a, const RecordedTensor& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  });
  std::uint64_t end = 0;
  for (const RecordedTensor& tensor : out) {
    std::size_t bytes = 0;
    if (tensor.begin != end || tensor.end < tensor.begin ||
        !safetensors::checked_bytes(tensor.shape, tensor.dtype, bytes) ||
        bytes != tensor.end - tensor.begin) {
      fail(tensor.name);
    }
    end = tensor.end;
  }
  return out;
}

}  // namespace mneme::weights
