#include "host/scores/certificate.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "host/base/file/file.hpp"
#include "host/base/json_text.hpp"

namespace mneme::scores {
namespace {

constexpr std::string_view kCertificateFormat = "mneme-certificate";

Json difference_json(const std::optional<double>& value) {
  return value ? number_or_null(*value) : Json(nullptr);
}

}  // namespace

std::int64_t Certificate::count(CheckResult result) const {
  return std::ranges::count(lines, result, &CertificateLine::result);
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
  return {{"format", kCertificateFormat},
          {"version", 1},
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
}

std::filesystem::path certificate_file(const std::filesystem::path& run_folder) {
  return run_folder / "certificate.json";
}

void write_certificate(const std::filesystem::path& run_folder, const Certificate& certificate) {
  write_file_atomic(certificate_file(run_folder), json_text(to_json(certificate), 2) + "\n");
}

}  // namespace mneme::scores
