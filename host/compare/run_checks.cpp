#include "host/compare/run_checks.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "host/base/error.hpp"
#include "host/run/host_commit.hpp"
#include "host/run/run_description.hpp"

namespace mneme::compare {

std::string why_unfit(const scores::StoredEvaluation& stored, std::int64_t last_step,
                      const std::string& experiment,
                      const std::vector<memory::TierIdentity>& plugins) {
  if (stored.step() != last_step) return str("it is of step ", stored.step());
  if (stored.info().at("experiment") != experiment) return "it is of another experiment";
  const bool has_same_plugins =
      std::ranges::equal(run::read_plugins(stored.info()), plugins, {},
                         &memory::TierIdentity::sha256, &memory::TierIdentity::sha256);
  return has_same_plugins ? "" : "it was made with other plugin files";
}

void check_same_files(const Json& info, const std::vector<memory::TierIdentity>& plugins,
                      const std::string& run) {
  const std::string hint =
      "a file was replaced while the comparison ran: run the same command again; runs of the old "
      "file keep their folders and are made anew";
  const std::string commit = info.value("commit", std::string());
  if (commit != run::host_commit()) {
    throw_run({.where = run,
               .failed = "it was trained by another program than this one",
               .expected = str("commit ", run::host_commit()),
               .got = str("commit ", commit),
               .hint = hint});
  }
  const std::vector<memory::TierIdentity> used = run::read_plugins(info);
  for (std::size_t i = 0; i < std::min(used.size(), plugins.size()); ++i) {
    if (used[i].sha256 == plugins[i].sha256) continue;
    throw_run({.where = run,
               .failed = str("it was trained with another file of the plugin ", plugins[i].path),
               .expected = str("sha256 ", plugins[i].sha256),
               .got = str("sha256 ", used[i].sha256),
               .hint = hint});
  }
}

}  // namespace mneme::compare
