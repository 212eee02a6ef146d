#include "host/compare/finished_parts.hpp"

#include <exception>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/compare/run_checks.hpp"
#include "host/scores/diagnostics.hpp"
#include "host/scores/generated.hpp"
#include "host/scores/stored_evaluation.hpp"

namespace mneme::compare {

namespace fs = std::filesystem;

std::string find_evaluation(const fs::path& folder, data::Split split, std::int64_t last_step,
                            const std::vector<memory::TierIdentity>& plugins,
                            std::vector<std::string>& others) {
  const std::string experiment = read_file(folder / "experiment.toml");
  std::string found;
  for (const fs::path& path : scores::list_evaluations(folder)) {
    std::string word = path.filename().string();
    const auto name = scores::parse_evaluation_name(word);
    if (!name || name->split != data::to_word(split)) continue;
    try {
      const auto stored = scores::StoredEvaluation::open(path);
      const std::string reason = why_unfit(stored, last_step, experiment, plugins);
      if (reason.empty()) {
        found = std::move(word);
      } else {
        others.push_back(str(word, ": ", reason));
      }
    } catch (const std::exception& error) {
      others.push_back(error.what());  // damaged: it is made again
    }
  }
  return found;
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
