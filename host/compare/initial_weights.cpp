// The weights with which every arm begins, kept in the comparison's folder:
//
//   DIR/initial/checkpoints/weights.safetensors   a link to the file that was given, or a copy
//   DIR/initial/run.json, pretrained.json         of the run that it is from, if it is from one
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/compare/runs.hpp"
#include "host/run/run_folder.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;

// What the comparison in a folder was given; "" = nothing, or no comparison is there.
std::string given_before(const fs::path& folder) {
  const fs::path file = folder / "comparison.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return "";
  const Json json = parse_json(read_file(file));
  const Json weights = json.is_object() ? json.value("initial_weights", Json()) : Json();
  return weights.is_object() ? weights.value("given", "") : "";
}

}  // namespace

fs::path kept_weights(const fs::path& folder) {
  return folder / "initial" / "checkpoints" / "weights.safetensors";
}

void find_initial_weights(const fs::path& given, Options& options) {
  options.given_weights = fs::absolute(given).lexically_normal();
  std::error_code ignored;
  const fs::path kept = kept_weights(options.folder);
  if (fs::exists(kept, ignored) && given_before(options.folder) == options.given_weights) {
    options.initial_weights = kept;
  } else {
    options.initial_weights =
        fs::is_directory(given) ? run::RunFolder::open(given).checkpoint() : options.given_weights;
  }
  options.initial_weights_sha256 = sha256_file(options.initial_weights);
}

void keep_initial_weights(const Options& options) {
  const fs::path kept = kept_weights(options.folder);
  if (options.initial_weights == kept) return;
  std::error_code failure;
  fs::remove_all(kept.parent_path().parent_path(), failure);
  fs::create_directories(kept.parent_path(), failure);
  if (!failure) {
    std::error_code no_link;  // another file system
    fs::create_hard_link(options.initial_weights, kept, no_link);
    if (no_link) fs::copy_file(options.initial_weights, kept, failure);
  }
  const run::RunFolder from =
      run::RunFolder::at(fs::absolute(options.initial_weights).parent_path().parent_path());
  const run::RunFolder to = run::RunFolder::at(kept.parent_path().parent_path());
  for (const auto& [source, target] : {std::pair(from.info_file(), to.info_file()),
                                       std::pair(from.pretrained_file(), to.pretrained_file())}) {
    if (!failure && fs::exists(source)) fs::copy_file(source, target, failure);
  }
  if (!failure) return;
  throw_run({.where = kept.string(),
             .failed = "the first weights cannot be kept",
             .got = failure.message()});
}

}  // namespace mneme::compare
