#include "host/compare/rank_agreement.hpp"

#include <unistd.h>

#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/base/progress.hpp"

namespace mneme::compare {
namespace {

namespace fs = std::filesystem;

constexpr useconds_t kPauseUs = 100'000;

// What has to be equal on all ranks. The processor need not be where another device computes; that
// of the CPU is a part of the device's name.
Json described(const Record& record) {
  Json json = to_json(record);
  json["machine"].erase("processor");
  for (Json& arm : json["arms"]) arm.erase("checks");  // they tell of last bits
  json["samples"] = record.samples;
  json["prompt_tokens"] = record.prompt_tokens;
  json["diagnostics"] = record.diagnostics;
  return json;
}

// The part of a JSON value at a place that may not be there, short enough for a message.
std::string text_at(const Json& json, const Json::json_pointer& place) {
  std::string text = json.contains(place) ? json.at(place).dump() : "nothing";
  constexpr std::size_t kLongest = 200;
  if (text.size() > kLongest) text.replace(kLongest, std::string::npos, "...");
  return text;
}

// What a person may do where records differ at this place.
std::string hint_for(const std::string& place) {
  if (place.find("/folder") != std::string::npos || place.ends_with("/state")) {
    return "the ranks do not see the same runs: put the comparison's folder on a file system that "
           "all hosts share";
  }
  if (place.starts_with("/machine")) {
    return "numbers depend on it in the last bits: use hosts that are alike, or fewer";
  }
  return "start the same program, plugins and files on all hosts, from a file system that they "
         "share";
}

std::string name_of(const ranks::Communicator& ranks, std::size_t rank) {
  return ranks::name_of(ranks, static_cast<int>(rank));
}

// The newest contents of a file; "" when it cannot be read.
std::string contents(const fs::path& file) {
  try {
    return read_file(file);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

void check_alike(ranks::Communicator& ranks, const Record& record) {
  const std::vector<std::string> all =
      ranks.all_gather(json_text(described(record)), "compare: what is compared");
  const Json first = Json::parse(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const Json other = Json::parse(all[rank]);
    const Json differences = Json::diff(first, other);
    if (differences.empty()) continue;
    const std::string place = differences.front().at("path").get<std::string>();
    const Json::json_pointer pointer(place);
    throw_usage({.where = name_of(ranks, rank),
                 .failed = str("it compares something else than rank 0: in comparison.json, ",
                               place, " differs"),
                 .expected = text_at(first, pointer),
                 .got = text_at(other, pointer),
                 .hint = hint_for(place)});
  }
}

void check_folder_is_shared(ranks::Communicator& ranks, const Options& options, double seconds) {
  // The lock names process and machine, so that no other file is taken for it.
  const fs::path file = options.folder / "lock";
  const std::string mine = ranks.is_first() ? contents(file) : std::string();
  const std::string holder = ranks.all_gather(mine, "compare: the folder").front();
  const auto sees_it = [&] {
    std::error_code ignored;
    return contents(file) == holder &&
           (options.initial_weights.empty() || fs::exists(kept_weights(options.folder), ignored));
  };
  const double start = steady_clock().seconds();
  bool is_seen = sees_it();
  while (!is_seen && steady_clock().seconds() - start < seconds) {
    ::usleep(kPauseUs);
    is_seen = sees_it();
  }
  const std::vector<std::string> all =
      ranks.all_gather(is_seen ? "seen" : "not seen", "compare: the folder");
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] == "seen") continue;
    throw_usage({.where = name_of(ranks, rank),
                 .failed = str("it does not see the comparison's folder as rank 0 does: ",
                               fs::absolute(options.folder).string()),
                 .expected = str("the file lock that rank 0 (host ", ranks.host(0), ") has made"),
                 .got = "another file, or none",
                 .hint = "put it on a file system that all hosts share (--run DIR)"});
  }
}

}  // namespace mneme::compare
