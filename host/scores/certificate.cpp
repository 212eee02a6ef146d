#include "host/scores/certificate.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"

namespace mneme::scores {
namespace {

constexpr std::string_view kCertificateFormat = "mneme-certificate";
constexpr int kCertificateVersion = 1;

Json difference_json(const std::optional<double>& value) {
  return value ? number_or_null(*value) : Json(nullptr);
}

// As difference_json writes it; a difference that is no number, such as NaN, is written as null too,
// and its line fails.
std::optional<double> difference_of(const Json& json) {
  if (json.is_null()) return std::nullopt;
  return json.get<double>();
}

Certificate certificate_of(const Json& json) {
  Certificate out{.date = json.at("date").get<std::string>(),
                  .checkpoint = json.at("checkpoint").get<std::string>(),
                  .checkpoint_sha256 = json.at("checkpoint_sha256").get<std::string>(),
                  .step = json.at("step").get<std::int64_t>(),
                  .memory = json.value("memory", ""),
                  .text = json.at("text").get<std::string>(),
                  .text_sha256 = json.at("text_sha256").get<std::string>(),
                  .tokens = json.at("tokens").get<std::int64_t>(),
                  .segment = json.at("segment").get<std::int64_t>(),
                  .precision = json.at("precision").get<std::string>(),
                  .machine = json.at("machine").get<std::string>()};
  if (json.contains("seed")) out.seed = json_unsigned(json.at("seed"));
  const Json& loss = json.at("loss");
  out.loss = loss.is_null() ? std::numeric_limits<double>::quiet_NaN() : loss.get<double>();
  for (const Json& one : json.at("plugins")) {
    out.plugins.emplace_back(one.at("name").get<std::string>(),
                             one.at("sha256").get<std::string>());
  }
  for (const Json& one : json.at("lines")) {
    const auto result = result_of(one.at("result").get<std::string>());
    out.lines.push_back({.name = one.at("name").get<std::string>(),
                         .question = one.at("question").get<std::string>(),
                         .result = result,
                         .difference = difference_of(one.at("difference")),
                         .tolerance = difference_of(one.at("tolerance")),
                         .text = one.at("text").get<std::string>()});
  }
  return out;
}

// Losses of another program may be of a lower precision.
bool has_own_tolerance(const CertificateLine& line, const std::string& precision) {
  const bool is_others = line.name == "reference";
  return line.tolerance == tolerance_of(precision) ||
         (is_others &&
          (line.tolerance == tolerance_of("f32") || line.tolerance == tolerance_of("bf16")));
}

}  // namespace

std::int64_t Certificate::count(CheckResult result) const {
  return std::ranges::count(lines, result, &CertificateLine::result);
}

double tolerance_of(std::string_view precision) {
  if (precision == "f64") return 1e-8;
  if (precision == "f32") return 1e-3;
  return precision == "bf16" ? 0.25 : std::numeric_limits<double>::infinity();
}

std::vector<std::string> contradictions(const Certificate& certificate) {
  std::vector<std::string> out;
  for (const char* const name : kCertificateLines) {
    const auto count = std::ranges::count(certificate.lines, name, &CertificateLine::name);
    if (count == 1) continue;
    out.push_back(str(count == 0 ? "lacks the line " : "has more than once the line ", name));
  }
  for (const CertificateLine& one : certificate.lines) {
    if (!one.tolerance || one.result == CheckResult::kNotChecked) continue;
    if (!has_own_tolerance(one, certificate.precision)) {
      out.push_back(str("the line ", one.name, " has the tolerance ", *one.tolerance,
                        ", not that of ", certificate.precision));
    }
    const bool is_within = one.difference && *one.difference <= *one.tolerance;
    if (!one.fails() && !is_within)
      out.push_back(
          str("the line ", one.name, " holds, but its difference is beyond its tolerance"));
    if (one.fails() && is_within)
      out.push_back(
          str("the line ", one.name, " fails, but its difference is within its tolerance"));
  }
  return out;
}

Json to_json(const Certificate& certificate) {
  Json plugins = Json::array(), lines = Json::array();
  for (const auto& [name, sha256] : certificate.plugins) {
    plugins.push_back({{"name", name}, {"sha256", sha256}});
  }
  for (const CertificateLine& one : certificate.lines) {
    lines.push_back({{"name", one.name},
                     {"question", one.question},
                     {"result", to_word(one.result)},
                     {"difference", difference_json(one.difference)},
                     {"tolerance", difference_json(one.tolerance)},
                     {"text", one.text}});
  }
  Json json = {{"format", kCertificateFormat},
               {"version", kCertificateVersion},
               {"date", certificate.date},
               {"checkpoint", certificate.checkpoint},
               {"checkpoint_sha256", certificate.checkpoint_sha256},
               {"step", certificate.step},
               {"plugins", std::move(plugins)},
               {"text", certificate.text},
               {"text_sha256", certificate.text_sha256},
               {"tokens", certificate.tokens},
               {"segment", certificate.segment},
               {"precision", certificate.precision},
               {"machine", certificate.machine},
               {"loss", number_or_null(certificate.loss)},
               {"failed", certificate.count(CheckResult::kFails)},
               {"lines", std::move(lines)}};
  if (certificate.seed) {
    json["seed"] = *certificate.seed;
    json["memory"] = certificate.memory;
  }
  return json;
}

std::filesystem::path certificate_file(const std::filesystem::path& run_folder) {
  return run_folder / "certificate.json";
}

void write_certificate(const std::filesystem::path& run_folder, const Certificate& certificate) {
  write_file_atomic(certificate_file(run_folder), json_text(to_json(certificate), 2) + "\n");
}

std::optional<Certificate> read_certificate(const std::filesystem::path& run_folder) {
  std::error_code ignored;
  const std::filesystem::path file = certificate_file(run_folder);
  if (!std::filesystem::exists(file, ignored)) return std::nullopt;
  const Json json = parse_json(read_file(file));
  std::string got = "something else";
  try {
    if (json.is_object() && json.value("format", Json()) == kCertificateFormat) {
      const Json version = json.value("version", Json());
      if (version == kCertificateVersion) return certificate_of(json);
      got = "version " + version.dump();
    }
  } catch (const Json::exception& error) {
    got = error.what();
  }
  throw_run({.where = file.string(),
             .failed = "is no certificate that this version reads",
             .expected = str(kCertificateFormat, ", version ", kCertificateVersion),
             .got = got,
             .hint = "mneme certify RUN writes it anew"});
}

}  // namespace mneme::scores
