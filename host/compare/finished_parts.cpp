#include "host/compare/finished_parts.hpp"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/run/host_commit.hpp"
#include "host/run/run_description.hpp"
#include "host/run/run_folder.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/generated.hpp"

namespace mneme::compare {

namespace fs = std::filesystem;

std::string why_unfit(const scores::StoredEvaluation& stored, std::int64_t last_step,
                      const std::string& experiment,
                      const std::vector<memory::TierIdentity>& plugins) {
  if (stored.step() != last_step) return str("it is of step ", stored.step());
  if (!stored.info().at("result").at("loss").is_number()) return "its loss is not finite";
  if (stored.info().at("experiment") != experiment) return "it is of another experiment";
  const bool has_same_plugins =
      std::ranges::equal(run::read_plugins(stored.info()), plugins, {},
                         &memory::TierIdentity::sha256, &memory::TierIdentity::sha256);
  return has_same_plugins ? "" : "it was made with other plugin files";
}

void check_same_files(const Json& info, const std::vector<memory::TierIdentity>& plugins,
                      const std::string& where) {
  const std::string hint =
      "a file was replaced while the comparison ran: run the same command again; runs of the old "
      "file keep their folders and are made anew";
  const std::string commit = info.value("commit", std::string());
  if (commit != run::host_commit()) {
    throw_run({.where = where,
               .failed = "it was trained by another program than this one",
               .expected = str("commit ", run::host_commit()),
               .got = str("commit ", commit),
               .hint = hint});
  }
  const std::vector<memory::TierIdentity> used = run::read_plugins(info);
  for (std::size_t i = 0; i < std::min(used.size(), plugins.size()); ++i) {
    if (used[i].sha256 == plugins[i].sha256) continue;
    throw_run({.where = where,
               .failed = str("it was trained with another file of the plugin ", plugins[i].path),
               .expected = str("sha256 ", plugins[i].sha256),
               .got = str("sha256 ", used[i].sha256),
               .hint = hint});
  }
}

std::optional<FoundEvaluation> find_evaluation(const fs::path& folder, data::Split split,
                                               std::int64_t last_step,
                                               const std::vector<memory::TierIdentity>& plugins,
                                               std::vector<std::string>& others) {
  const std::string experiment = read_file(folder / "experiment.toml");
  std::optional<FoundEvaluation> found;
  for (const fs::path& path : scores::list_evaluations(folder)) {
    std::string word = path.filename().string();
    const auto name = scores::parse_evaluation_name(word);
    if (!name || name->split != data::to_word(split)) continue;
    try {
      const auto stored = scores::StoredEvaluation::open(path);
      const std::string reason = why_unfit(stored, last_step, experiment, plugins);
      if (reason.empty()) {
        found = {.name = std::move(word),
                 .loss = stored.info().at("result").at("loss").get<double>()};
      } else {
        others.push_back(str(word, ": ", reason));
      }
    } catch (const std::exception& error) {
      others.push_back(error.what());  // damaged: it is made again
    }
  }
  return found;
}

bool is_complete(const fs::path& folder, const Record& record,
                 const std::vector<memory::TierIdentity>& plugins, std::int64_t last_step) {
  try {
    const run::RunFolder files = run::RunFolder::at(folder);
    const std::vector<std::int64_t> steps = files.checkpoints().steps();
    if (!fs::exists(files.experiment_file()) || steps.empty() || steps.back() != last_step) {
      return false;
    }
    std::vector<std::string> others;
    return std::ranges::all_of(record.splits, [&](data::Split split) {
      return find_evaluation(folder, split, last_step, plugins, others).has_value();
    });
  } catch (const std::exception&) {
    return false;  // its process says why
  }
}

bool has_samples(const fs::path& file, const Record& record) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return false;
  try {
    const scores::Generated stored = scores::read_generated(file);
    return stored.samples_wanted == record.samples && stored.prompt_tokens == record.prompt_tokens;
  } catch (const std::exception&) {
    return false;  // damaged: they are made again
  }
}

bool has_diagnostics(const fs::path& file, const Record& record) {
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return false;
  try {
    return scores::read_diagnostics(file).segments_wanted == record.diagnostics;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace mneme::compare
