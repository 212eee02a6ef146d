#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/report/archive/tar.hpp"
#include "host/report/bundle.hpp"
#include "host/report/bundle_files.hpp"
#include "mneme/abi.h"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxFindingsOfReport = 20;
constexpr const char* kReportFile = "report/report.json";

using Files = std::map<std::string, std::string_view>;

std::string_view text_of_bytes(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The head of a bundle.
struct Head {
  std::string mneme;
  std::vector<std::string> folders;
  Choice choice;
  std::map<std::string, std::string> sha256;
};

Head head_of(const Files& files, const std::string& label) {
  const auto found = files.find(std::string(kBundleFile));
  const Json json = found == files.end() ? Json() : parse_json(found->second);
  const auto refuse = [&](const std::string& got) {
    throw_run(
        {.where = label,
         .failed = "is no bundle that this program can read",
         .expected = str(kBundleFile, " with format ", kBundleFormat, ", version ", kBundleVersion),
         .got = got,
         .hint = "verify it with the version of mneme that wrote it"});
  };
  if (found == files.end()) refuse("an archive without it");
  if (!json.is_object()) refuse("no JSON object");
  if (json.value("format", Json()) != kBundleFormat ||
      json.value("version", Json()) != kBundleVersion) {
    refuse(str("format ", json.value("format", Json()).dump(), ", version ",
               json.value("version", Json()).dump()));
  }
  try {
    Head out{.mneme = json.at("mneme").get<std::string>(),
             .folders = json.at("folders").get<std::vector<std::string>>(),
             .choice = {json.at("baseline").get<std::string>(), json.at("pairs").get<bool>(),
                        json.value("margin", 0.0)},
             .sha256 = json.at("sha256").get<std::map<std::string, std::string>>()};
    for (const std::string& folder : out.folders) {
      if (!is_inside(folder)) refuse(str("the folder ", folder));
    }
    return out;
  } catch (const Json::exception& error) {
    refuse(error.what());
  }
  return {};
}

void check_files(const Files& files, const Head& head, Verification& out) {
  for (const auto& [name, sha256] : head.sha256) {
    const auto found = files.find(name);
    if (found == files.end()) {
      out.findings.push_back(str(name, ": is listed, but not in the bundle"));
    } else if (sha256_hex(found->second) != sha256) {
      out.findings.push_back(str(name, ": was changed: its checksum is another"));
    } else {
      ++out.files;
    }
  }
  for (const auto& [name, bytes] : files) {
    if (name != kBundleFile && !head.sha256.contains(name))
      out.findings.push_back(str(name, ": is in the bundle, but not listed"));
  }
}

// --- The report ---

// Compares two report.json, value by value.
class ReportCheck {
 public:
  explicit ReportCheck(Verification& out) : out_(out) {}

  void compare(const Json& stated, const Json& own, const std::string& place) {
    if (stated.is_number() && own.is_number()) return compare_numbers(stated, own, place);
    if (stated.is_object() && own.is_object()) {
      for (const auto& [key, value] : own.items())
        compare(stated.value(key, Json()), value, joined(place, key));
      for (const auto& [key, value] : stated.items()) {
        if (!own.contains(key)) find(value, Json(), joined(place, key));
      }
      return;
    }
    if (stated.is_array() && own.is_array()) {
      if (stated.size() != own.size()) {
        find(str(stated.size(), " entries"), str(own.size(), " entries"), place);
        return;
      }
      for (std::size_t i = 0; i < own.size(); ++i)
        compare(stated[i], own[i], joined(place, label_of(own[i], i)));
      return;
    }
    if (stated != own) find(stated, own, place);
  }

  void finish() {
    if (found_ > kMaxFindingsOfReport) {
      out_.findings.push_back(
          str("report.json: ", found_ - kMaxFindingsOfReport, " more values differ"));
    }
  }

 private:
  static std::string joined(const std::string& place, const std::string& name) {
    return place.empty() ? name : place + ", " + name;
  }

  // "cache valid loss", "seed 2", or the number of an entry, from 1.
  static std::string label_of(const Json& entry, std::size_t i) {
    std::vector<std::string> words;
    if (entry.is_object()) {
      for (const char* key : {"arm", "baseline", "name", "key", "split", "measure"}) {
        const auto found = entry.find(key);
        if (found != entry.end() && found->is_string() &&
            !found->get_ref<const std::string&>().empty())
          words.push_back(found->get<std::string>());
      }
      if (words.empty() && entry.contains("seed"))
        words.push_back(str("seed ", entry["seed"].dump()));
    }
    return words.empty() ? str(i + 1) : join(words, " ");
  }

  void compare_numbers(const Json& stated, const Json& own, const std::string& place) {
    const auto a = stated.get<double>(), b = own.get<double>();
    const bool is_equal = stated == own || std::abs(a - b) <= kEqualNumbers * std::abs(b);
    if (is_equal) {
      ++out_.numbers;
    } else {
      find(stated, own, place);
    }
  }

  void find(const Json& stated, const Json& own, const std::string& place) {
    if (++found_ > kMaxFindingsOfReport) return;
    const auto shown = [](const Json& value) {
      const std::string text = value.is_null() ? "nothing" : json_text(value);
      return text.size() <= 160 ? text : text.substr(0, 160) + "...";
    };
    out_.findings.push_back(str("report.json: ", place, ": says ", shown(stated),
                                ", but the report computed anew has ", shown(own)));
  }

  Verification& out_;
  std::size_t found_ = 0;
};

// The number of the first line in which two texts differ, from 1.
std::size_t first_other_line(std::string_view a, std::string_view b) {
  const auto [end, ignored] = std::ranges::mismatch(a, b);
  return 1 + static_cast<std::size_t>(std::count(a.begin(), end, '\n'));
}

void check_report(const Files& files, const fs::path& root, Verification& out) {
  const std::vector<std::string> own = files_below(root, root / "report");
  for (const std::string& name : own) {
    const std::string text = read_file(root / name);
    const auto found = files.find(name);
    if (found == files.end()) {
      out.findings.push_back(str(name, ": is part of the report, but not in the bundle"));
    } else if (name == kReportFile) {
      ReportCheck check(out);
      const Json stated = parse_json(found->second);
      check.compare(stated.is_discarded() ? Json() : stated, parse_json(text), "");
      check.finish();
    } else if (found->second != text) {
      out.findings.push_back(str(name, ": line ", first_other_line(found->second, text),
                                 " is not that of the report computed anew"));
    }
  }
  for (const auto& [name, bytes] : files) {
    if (name.starts_with("report/") && !std::ranges::binary_search(own, name))
      out.findings.push_back(str(name, ": is no part of the report computed anew"));
  }
}

void unpack(const Files& files, const fs::path& root) {
  for (const auto& [name, bytes] : files) {
    if (!name.starts_with("runs/")) continue;
    std::error_code code;
    fs::create_directories((root / name).parent_path(), code);
    if (code) fail_file(name, "unpack", code.value());
    write_file_atomic(root / name, bytes);
  }
}

std::vector<std::string> unchecked_of(const Files& files, const std::set<std::string>& uncounted) {
  std::vector<std::string> out = {
      "that the losses are those of the trained models: a bundle has no weights. Whoever makes "
      "losses up and a report on them makes a bundle that agrees",
      "times, FLOPs, bytes and curves of the training, samples, diagnostics and checks of the "
      "memories: they are as the runs state them",
      "that no other runs were made and left out",
      "counts that evaluations state of their data, on which bits, perplexities of a word and "
      "shares of a split rest: words, bytes, characters, targets; and, of questions, "
      "normalised_accuracy, chance and numbers of groups"};
  if (!uncounted.empty()) {
    out.push_back(str(join(std::vector<std::string>(uncounted.begin(), uncounted.end()), ", "),
                      ": evaluations state them without the counts that they are computed from"));
  }
  const auto certificates = std::ranges::count_if(
      files, [](const auto& file) { return file.first.ends_with("/certificate.json"); });
  if (certificates > 0) {
    out.push_back(str(certificates, certificates == 1 ? " certificate" : " certificates",
                      " of runs: `mneme certify` makes them anew from the weights"));
  }
  return out;
}

}  // namespace

Verification verify_bundle(const fs::path& file) {
  const MappedFile map(file);
  Files files;
  for (const TarEntry& entry : read_tar(map.bytes(), file.string()))
    files.emplace(entry.name, text_of_bytes(entry.bytes));
  const Head head = head_of(files, file.string());
  Verification out{.sha256 = sha256_hex(map.bytes())};
  check_files(files, head, out);
  const WorkFolder work;
  unpack(files, work.path());
  check_runs(work.path(), head.folders, out);
  const std::size_t before = out.findings.size();
  try {
    write_bundle_report(work.path(), head.folders, head.choice);
    check_report(files, work.path(), out);
  } catch (const std::exception& error) {
    out.findings.push_back(str("the report cannot be computed: ", error.what()));
  }
  if (out.findings.size() > before && head.mneme != MNEME_SDK_VERSION) {
    out.findings.push_back(str("the report is of mneme ", head.mneme, ", and computed anew by ",
                               MNEME_SDK_VERSION,
                               ", which may write other words, tables and "
                               "figures: whether it was changed, mneme ",
                               head.mneme, " says"));
  }
  out.unchecked = unchecked_of(files, out.uncounted);
  return out;
}

std::string Verification::text() const {
  std::string out =
      str("sha256 ", sha256, '\n', files, " files have their checksums\n", runs, " runs, ",
          evaluations, " evaluations, ", losses, " losses: their sums are those stated\n", numbers,
          " numbers of the report computed anew: equal\n\nNot checked:\n");
  for (const std::string& one : unchecked) out += str("- ", one, '\n');
  if (findings.empty()) return out + "\nVerified: everything else agrees.\n";
  out += str("\nNOT verified, ", findings.size(), findings.size() == 1 ? " finding" : " findings",
             ":\n");
  for (const std::string& one : findings) out += str("- ", one, '\n');
  return out;
}

Json Verification::json() const {
  return {{"format", "mneme-verification"},
          {"version", 1},
          {"verified", findings.empty()},
          {"sha256", sha256},
          {"files", files},
          {"runs", runs},
          {"evaluations", evaluations},
          {"losses", losses},
          {"numbers", numbers},
          {"findings", findings},
          {"unchecked", unchecked}};
}

}  // namespace mneme::report
