#include "host/weights/pretrained/model_folder.hpp"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/file_kind.hpp"
#include "host/base/json_text.hpp"

namespace mneme::weights {
namespace {

namespace fs = std::filesystem;

Json read_json(const fs::path& path, std::string& text) {
  text = read_file(path, kMaxConfigBytes);
  std::string failed = text.empty() ? "the file is empty" : "this holds no JSON object";
  try {
    Json json = parse_json_or_throw(json_of_python(text));
    if (json.is_object()) return json;
  } catch (const Json::exception& error) {
    const std::string_view what = error.what();  // "[its kind] line, column and reason"
    const std::size_t begin = std::min(what.find(' ') + 1, what.size());
    if (!text.empty()) failed = str("this is no JSON, or only a part of it: ", what.substr(begin));
  }
  throw_run({.where = path.string(), .failed = failed, .hint = "correct it, or copy it again"});
}

// Error (kRun) for a link to what is not there, as the Hub's cache has for a file that is missing.
bool is_there(const fs::path& path) {
  require_link_target(path);
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// Names of the folder's files that begin and end so, in order.
std::vector<std::string> files_like(const fs::path& folder, std::string_view begin,
                                    std::string_view end) {
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(begin) && name.ends_with(end)) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

constexpr const char* kShardBegin = "model-";
constexpr const char* kShardEnd = ".safetensors";
constexpr std::size_t kShown = 10;  // names that messages list

// Nothing where no packed file lies beside the missing one.
void refuse_packed(const fs::path& missing) {
  const std::optional<FileKind> packed = find_packed_beside(missing);
  if (!packed) return;
  throw_run({.where = missing.string(),
             .failed = packed->failed,
             .got = packed->got,
             .hint = packed->hint});
}

// What to name in place of a folder that is no model: GGUF files and models in it; the Hub's cache
// has these in snapshots/ID.
std::string hint_on_models_in(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const fs::path& parent : {folder, folder / "snapshots"}) {
    for (const fs::directory_entry& entry : fs::directory_iterator(parent, ignored)) {
      const fs::path& path = entry.path();
      if (path.extension() == ".gguf" || fs::exists(path / kConfigName, ignored)) {
        found.push_back(path.string());
      }
    }
  }
  std::ranges::sort(found);
  return found.empty() ? "" : str("name a model in it: ", first_names(found, kShown));
}

// The kind of a file that is no folder, or of a packed one beside a path where nothing is.
std::optional<FileKind> kind_in_place_of_folder(const fs::path& path) {
  std::error_code ignored;
  if (!is_there(path)) return find_packed_beside(path);
  if (!fs::is_regular_file(path, ignored)) return std::nullopt;
  const MappedFile file(path);
  return find_file_kind(path,
                        {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
}

[[noreturn]] void refuse_without_weights(const fs::path& folder) {
  for (const char* name : {kSingleName, kIndexName}) refuse_packed(folder / name);
  const std::vector<std::string> shards = files_like(folder, kShardBegin, kShardEnd);
  if (!shards.empty()) {
    throw_run({.where = folder.string(),
               .failed = "the index of the shards is missing",
               .expected = str(kIndexName, ", which says what each shard holds"),
               .got = first_names(shards, kShown),
               .hint = str("copy the index, too; a single file is named ", kSingleName)});
  }
  const std::string expected = str(kSingleName, ", or ", kIndexName, " with its shards");
  const std::vector<std::string> pickles = files_like(folder, "pytorch_model", ".bin");
  if (!pickles.empty()) {
    const std::string all = pickles.size() == 1 ? pickles.front() : "pytorch_model-*.bin";
    throw_run({.where = folder.string(),
               .failed = "the weights are pickles, which can run any code",
               .expected = expected,
               .got = join(pickles, ", "),
               .hint = str("scripts/pytorch_to_safetensors.py ", all, ' ', kSingleName,
                           " converts them")});
  }
  std::vector<std::string> others;
  for (const char* ending : {kShardEnd, ".bin", ".pth", ".pt", ".ckpt", ".h5", ".msgpack"}) {
    for (const std::string& name : files_like(folder, "", ending)) others.push_back(name);
  }
  const std::string models = hint_on_models_in(folder);
  throw_run(
      {.where = folder.string(),
       .failed = "there are no weights",
       .expected = expected,
       .got = others.empty() ? "neither" : first_names(others, kShown),
       .hint = others.empty() || !models.empty()
                   ? models
                   : str("rename a safetensors file that holds the whole model to ", kSingleName,
                         ", or write one with save_pretrained of transformers")});
}

// The index's map of tensors to files.
std::map<std::string, std::string> weight_map(const Json& index, const fs::path& path) {
  const auto found = index.find("weight_map");
  if (found == index.end() || !found->is_object() || found->empty()) {
    throw_run({.where = path.string(),
               .failed = "this is no index",
               .expected = "an object weight_map of tensors and their files",
               .got = found == index.end() ? "no such key" : found->dump().substr(0, 60)});
  }
  std::map<std::string, std::string> out;
  for (const auto& [tensor, file] : found->items()) {
    const std::string name = file.is_string() ? file.get<std::string>() : "";
    if (!is_inside(name)) {
      throw_run({.where = str(path.string(), ": weight_map: ", tensor),
                 .expected = "the name of a file of the folder",
                 .got = file.dump()});
    }
    out[tensor] = name;
  }
  return out;
}

// What is said about a total_size that is not the tensors' size; "" = nothing. The index was held
// against the shards tensor by tensor, and the tensors will be held against the model, so nothing
// depends on the number, which merging tools write by hand.
std::string note_on_total(const Json& index, std::uint64_t bytes, const fs::path& path) {
  const auto metadata = index.find("metadata");
  if (metadata == index.end() || !metadata->is_object()) return "";
  const auto total = metadata->find("total_size");
  if (total == metadata->end() || total->is_null()) return "";
  if (total->is_number() && total->get<double>() == static_cast<double>(bytes)) return "";
  return str(path.string(), ": metadata.total_size = ", total->dump(),
             " is passed over: the shards' tensors have ", bytes, " bytes");
}

}  // namespace

ModelFolder ModelFolder::open(const fs::path& path) {
  std::error_code error;
  if (is_gguf(path)) return of_gguf(path);
  if (!fs::is_directory(path, error)) {
    const std::optional<FileKind> kind = kind_in_place_of_folder(path);
    throw_usage(
        {.where = path.string(),
         .failed = "this is no model folder",
         .expected = str("a folder with ", kConfigName, " and ", kSingleName, ", or a GGUF file"),
         .got = kind             ? kind->got
                : is_there(path) ? "a file"
                                 : "nothing",
         .hint = kind ? kind->hint : ""});
  }
  ModelFolder folder;
  folder.path_ = path;
  const std::vector<std::string> adapter = adapter_files(path);
  if (!is_there(path / kConfigName) && !adapter.empty()) {
    throw_usage({.where = path.string(),
                 .failed = str("this is an adapter, ", join(adapter, ", "), ", and not a model"),
                 .expected = str("a folder with ", kConfigName, " and ", kSingleName),
                 .hint = "merge it into its base model (merge_and_unload of peft) and save that"});
  }
  if (!is_there(path / kConfigName)) {
    refuse_packed(path / kConfigName);
    throw_usage({.where = path.string(),
                 .failed = "this is no model folder",
                 .expected = str("a folder with ", kConfigName),
                 .got = "a folder without",
                 .hint = hint_on_models_in(path)});
  }
  folder.config_ = read_json(path / kConfigName, folder.config_text_);
  if (const fs::path generation = path / kGenerationName; is_there(generation)) {
    static_cast<void>(read_json(generation, folder.generation_text_));
  }
  if (is_there(path / kSingleName)) {
    folder.files_.push_back(SafetensorsFile::open(path / kSingleName));
  } else if (is_there(path / kIndexName)) {
    folder.open_shards();
  } else {
    refuse_without_weights(path);
  }
  for (const SafetensorsFile& file : folder.files_) {
    for (const std::string& name : file.names()) folder.tensors_[name] = file.find(name);
  }
  return folder;
}

ModelFolder ModelFolder::of_gguf(const fs::path& path) {
  ModelFolder folder;
  folder.path_ = path;
  folder.gguf_ = std::make_shared<const GgufModel>(GgufModel::open(path));
  folder.config_ = folder.gguf_->config();
  folder.config_text_ = folder.config_.dump(2) + "\n";
  folder.notes_ = folder.gguf_->notes();
  for (const TensorView& view : folder.gguf_->tensors()) folder.tensors_[view.name] = &view;
  return folder;
}

void ModelFolder::open_shards() {
  const fs::path index_path = path_ / kIndexName;
  const Json index = read_json(index_path, index_text_);
  const std::map<std::string, std::string> map = weight_map(index, index_path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) {
    if (!names.insert(file).second || is_there(path_ / file)) continue;
    refuse_packed(path_ / file);
    throw_run({.where = (path_ / file).string(),
               .failed = str("the shard is missing; ", kIndexName, " names it for ", tensor),
               .hint = "copy the file"});
  }
  for (const std::string& name : names) files_.push_back(SafetensorsFile::open(path_ / name));
  std::uint64_t bytes = 0;
  std::map<std::string, std::string> seen;
  for (const SafetensorsFile& file : files_) {
    const std::string shard = name_of(file);
    for (const std::string& tensor : file.names()) {
      bytes += file.at(tensor).bytes;
      const auto [first, is_new] = seen.emplace(tensor, shard);
      const auto expected = map.find(tensor);
      if (is_new && expected != map.end() && expected->second == shard) continue;
      throw_run({.where = file.path().string(),
                 .failed = str("tensor \"", tensor, '"'),
                 .expected = expected == map.end() ? str("a tensor that ", kIndexName, " names")
                                                   : str("it in ", expected->second, " alone"),
                 .got = is_new ? "it here" : str("it here and in ", first->second)});
    }
  }
  for (const auto& [tensor, file] : map) {
    if (seen.contains(tensor)) continue;
    throw_run({.where = (path_ / file).string(),
               .failed = str("tensor \"", tensor, "\" is missing, which ", kIndexName,
                             " names for this file"),
               .hint = "index and shards belong to different models, or a shard was changed"});
  }
  std::vector<std::string> unnamed = files_like(path_, kShardBegin, kShardEnd);
  std::erase_if(unnamed, [&](const std::string& name) { return names.contains(name); });
  if (!unnamed.empty()) {
    notes_.push_back(str(index_path.string(), ": it names no tensor of ",
                         first_names(unnamed, kShown),
                         ", which lies in the folder and is not read"));
  }
  if (std::string note = note_on_total(index, bytes, index_path); !note.empty()) {
    notes_.push_back(std::move(note));
  }
}

fs::path ModelFolder::main_file() const {
  if (gguf_ != nullptr) return path_;
  return path_ / (index_text_.empty() ? kSingleName : kIndexName);
}

std::vector<std::string> ModelFolder::names() const {
  std::vector<std::string> out;
  for (const auto& [name, view] : tensors_) out.push_back(name);
  return out;
}

const TensorView* ModelFolder::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : found->second;
}

std::string config_place(const fs::path& path) {
  return (is_gguf(path) ? path : path / kConfigName).string();
}

std::vector<std::string> adapter_files(const fs::path& folder) {
  std::vector<std::string> out;
  for (const char* name :
       {"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"}) {
    if (is_there(folder / name)) out.emplace_back(name);
  }
  return out;
}

bool is_inside(const std::string& name) {
  const fs::path path(name);
  return !name.empty() && name.find('\0') == name.npos && path.is_relative() &&
         std::ranges::none_of(path,
                              [](const fs::path& part) { return part == ".." || part == "."; });
}

std::string raw_header(const fs::path& path) {
  const MappedFile file(path);
  const std::string_view bytes(reinterpret_cast<const char*>(file.bytes().data()),
                               file.bytes().size());
  std::uint64_t length = 0;
  for (std::size_t i = std::min(bytes.size(), safetensors::kLengthBytes); i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  }
  if (length > 0 && length <= safetensors::kMaxHeaderBytes &&
      bytes.size() >= safetensors::kLengthBytes + length) {
    return std::string(bytes.substr(safetensors::kLengthBytes, length));
  }
  throw_run({.where = path.string(),
             .failed = "the header cannot be read again",
             .hint = "the file was changed while it was read"});
}

std::string digest_of(const ModelFolder& folder) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::string buffer(kPiece, '\0');
  Sha256 all;
  const auto digest_one = [&](const fs::path& path) {
    Sha256 one;
    std::ifstream file(path, std::ios::binary);
    while (file.read(buffer.data(), static_cast<std::streamsize>(kPiece)) || file.gcount() > 0) {
      one.update(std::string_view(buffer.data(), static_cast<std::size_t>(file.gcount())));
    }
    if (!file.eof()) {
      throw_run({.where = path.string(), .failed = "the file cannot be read to its end"});
    }
    return one.hex();
  };
  if (folder.index_text().empty()) return digest_one(folder.main_file());
  for (const SafetensorsFile& file : folder.files()) {
    all.update(str(file.path().filename().string(), ' ', digest_one(file.path()), '\n'));
  }
  return all.hex();
}

}  // namespace mneme::weights
