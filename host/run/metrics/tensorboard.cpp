#include "host/run/metrics/tensorboard.hpp"

#include <map>
#include <string>
#include <system_error>

#include "host/base/text.hpp"

namespace mneme::run {
namespace {

namespace fs = std::filesystem;

void add_all(std::vector<Scalar>& out, const std::string& folder,
             const std::map<std::string, double>& values) {
  for (const auto& [name, value] : values) out.push_back({folder + name, value});
}

}  // namespace

std::vector<Scalar> scalars_of(const StepReport& report, std::int64_t tokens, double seconds) {
  std::vector<Scalar> out = {
      {"train/loss", report.loss}, {"train/grad_norm", report.grad_norm}, {"train/lr", report.lr}};
  if (report.seconds > seconds) {
    const auto more = static_cast<double>(report.tokens - tokens);
    out.push_back({"train/tokens_per_second", more / (report.seconds - seconds)});
  }
  add_all(out, "loss/", report.losses);
  add_all(out, "memory/", report.metrics);
  return out;
}

std::vector<Scalar> scalars_of(const EvalReport& report) {
  const std::string split = str(data::to_word(report.split), '/');
  const eval::Result& result = report.result;
  std::vector<Scalar> out = {{split + "loss", result.loss()},
                             {split + "perplexity", result.perplexity()},
                             {split + "accuracy", result.accuracy()}};
  if (const auto bits = result.bits_per_character()) {
    out.push_back({split + "bits_per_character", *bits});
  }
  out.push_back({split + "state_bytes", static_cast<double>(result.state_bytes)});
  out.push_back({split + "tokens_per_second", result.tokens_per_second()});
  add_all(out, split + "loss/", result.losses);
  add_all(out, split + "memory/", result.metrics);
  return out;
}

EventFile& TensorBoard::file() {
  if (file_) return *file_;
  // A run that was killed before its first checkpoint begins again at step 0, with files.
  std::error_code ignored;
  const bool has_files = fs::exists(folder_, ignored) && !fs::is_empty(folder_, ignored);
  return file_.emplace(EventFile::create(folder_, step_ > 0 || has_files ? step_ + 1 : 0));
}

void TensorBoard::add(const StepReport& report) {
  file().add(report.step, scalars_of(report, tokens_, seconds_));
  tokens_ = report.tokens;
  seconds_ = report.seconds;
}

void TensorBoard::add(const EvalReport& report) { file().add(report.step, scalars_of(report)); }

}  // namespace mneme::run
