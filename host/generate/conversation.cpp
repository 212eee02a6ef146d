#include "host/generate/conversation.hpp"

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/integer.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/run/checkpoint/checkpoint_files.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::generate {
namespace {

const std::string kFormat = "mneme-conversation";
const std::string kRevision = "1";
const std::string kStatePrefix = "state/";
const std::string kIdentityPrefix = "identity.";
const std::string kOpen = "open";
const std::string kSegment = "segment";

[[noreturn]] void throw_damaged(const std::filesystem::path& path, const std::string& what) {
  throw_run({.where = path.string(),
             .failed = "this conversation cannot be read",
             .got = what,
             .hint = "it is damaged or of another program: begin a new one with --prompt"});
}

template <typename Number>
Number number_at(const SafetensorsFile& file, const std::string& key) {
  const std::string& text = file.metadata_at(key);
  const auto value = integer_of<Number>(text);
  if (!value) throw_damaged(file.path(), str("metadata \"", key, "\" is \"", text, '"'));
  return *value;
}

void check_format(const SafetensorsFile& file) {
  const std::string format = file.metadata_or("format", "none");
  const std::string revision = file.metadata_or("revision", "none");
  if (format == kFormat && revision == kRevision) return;
  throw_run({.where = file.path().string(),
             .failed = "this is no conversation that mneme can read",
             .expected = str("metadata format = ", kFormat, ", revision = ", kRevision),
             .got = str("format = ", format, ", revision = ", revision),
             .hint = "name a file that `mneme generate --save-state` wrote"});
}

void check_identity(const SafetensorsFile& file, const Identity& identity) {
  for (const auto& [key, expected] : identity) {
    const std::string got = file.metadata_or(kIdentityPrefix + key, "none");
    if (got == expected) continue;
    throw_usage({.where = file.path().string(),
                 .failed = "the conversation was written with another model: " + key,
                 .expected = expected,
                 .got = got,
                 .hint = "continue it with the run, checkpoint and memory that wrote it, or begin "
                         "a new one with --prompt"});
  }
}

// 0 where the file, of an earlier program, has none.
std::int64_t segment_of(const SafetensorsFile& file) {
  if (!file.metadata().contains(kSegment)) return 0;
  const auto segment = number_at<std::int64_t>(file, kSegment);
  if (segment < 1) throw_damaged(file.path(), str("segments of ", segment, " tokens"));
  return segment;
}

// The open segment's tokens, [1,n]; n = 0 where the last segment is closed.
at::Tensor open_tokens(const SafetensorsFile& file, std::int64_t vocabulary) {
  if (!file.contains(kOpen)) return at::empty({1, 0}, at::kLong);
  const TensorView& view = file.at(kOpen);
  if (view.dtype != DType::I64 || view.shape.size() != 2 || view.shape[0] != 1) {
    throw_damaged(file.path(), str("tensor \"", kOpen, "\" is ", dtype_name(view.dtype), ' ',
                                   list_text(view.shape), ", not I64 [1, n]"));
  }
  at::Tensor open = tensor::to_tensor(view);
  if ((open.lt(0) | open.ge(vocabulary)).any().item<bool>()) {
    throw_damaged(file.path(),
                  str("tensor \"", kOpen, "\" holds ids that are not from 0 to ", vocabulary - 1));
  }
  return open;
}

// The tokens, split into the steps in which they were fed.
std::vector<at::Tensor> steps_of(const SafetensorsFile& file, const at::Tensor& open) {
  std::vector<at::Tensor> steps;
  std::int64_t from = 0;
  for (const std::int64_t n : json_integers(parse_json_or_throw(file.metadata_at("steps")))) {
    if (n < 1 || n > open.size(1) - from) {
      throw_damaged(file.path(), str("a step of ", n, " tokens where ", open.size(1) - from,
                                     " of the open segment are left"));
    }
    steps.push_back(open.narrow(1, from, n));
    from += n;
  }
  if (from != open.size(1)) {
    throw_damaged(file.path(),
                  str("steps of ", from, " tokens, an open segment of ", open.size(1)));
  }
  return steps;
}

}  // namespace

void write_conversation(const std::filesystem::path& path, const Generator::Saved& saved,
                        const Identity& identity) {
  run::CheckedTensors tensors;
  for (const auto& [name, tensor] : saved.text.state.tensors)
    tensors.add(kStatePrefix + name, tensor);
  Json lengths = Json::array();
  for (const at::Tensor& ids : saved.text.steps) lengths.push_back(ids.size(1));
  if (!saved.text.steps.empty()) tensors.add(kOpen, at::cat(saved.text.steps, 1));
  std::map<std::string, std::string> metadata = {
      {"format", kFormat},
      {"revision", kRevision},
      {"state", Json(saved.text.state.metadata).dump()},
      {"steps", lengths.dump()},
      {"lanes", str(saved.text.lanes)},
      {"tokens", str(saved.text.tokens)},
      {"types", Json(saved.text.types).dump()},
      {"pending", saved.pending ? str(*saved.pending) : "-1"},
      {"seed", str(saved.seed)}};
  if (saved.segment > 0) metadata[kSegment] = str(saved.segment);
  for (const auto& [key, value] : identity) metadata[kIdentityPrefix + key] = value;
  tensors.write(path, std::move(metadata));
}

Generator::Saved read_conversation(const std::filesystem::path& path, const Identity& identity,
                                   std::int64_t vocabulary) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  check_format(file);
  run::verify_checksums(file);
  check_identity(file, identity);
  Generator::Saved saved;
  const at::Tensor open = open_tokens(file, vocabulary);
  try {
    saved.text.state.metadata =
        parse_json_or_throw(file.metadata_at("state")).get<std::map<std::string, std::string>>();
    saved.text.steps = steps_of(file, open);
    if (const auto types = file.metadata().find("types"); types != file.metadata().end()) {
      saved.text.types = json_integers(parse_json_or_throw(types->second));
    }
  } catch (const Json::exception& error) {
    throw_damaged(path, error.what());
  }
  saved.text.state.tensors = run::tensors_below(file, kStatePrefix);
  saved.text.lanes = number_at<std::int64_t>(file, "lanes");
  saved.text.tokens = number_at<std::int64_t>(file, "tokens");
  if (saved.text.lanes != 1) throw_damaged(path, str(saved.text.lanes, " lanes, not one"));
  if (saved.text.tokens < open.size(1)) {
    throw_damaged(
        path, str("a text of ", saved.text.tokens, " tokens, an open segment of ", open.size(1)));
  }
  for (const std::int64_t type : saved.text.types) {
    if (type < 0 || type >= vocabulary || saved.text.types.size() > 1) {
      throw_damaged(path, str("types are ", list_text(saved.text.types),
                              ", not at most one id from 0 to ", vocabulary - 1));
    }
  }
  const auto pending = number_at<std::int32_t>(file, "pending");
  if (pending < -1 || pending >= vocabulary) {
    throw_damaged(path, str("pending is ", pending, ", not an id from 0 to ", vocabulary - 1));
  }
  if (pending >= 0) saved.pending = pending;
  saved.seed = number_at<std::uint64_t>(file, "seed");
  saved.segment = segment_of(file);
  return saved;
}

std::int64_t segment_of_conversation(const std::filesystem::path& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  check_format(file);
  return segment_of(file);
}

}  // namespace mneme::generate
