#include "host/certify/certify.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/certify/ways.hpp"
#include "host/checks/memory_checks.hpp"
#include "host/data/corpus/corpus.hpp"
#include "host/memory/tier/tier.hpp"
#include "host/tensor/device.hpp"

namespace mneme::certify {
namespace {

using config::Precision;
using memory::Phase;
using scores::CertificateLine;
using scores::CheckResult;

// Why a line was not made.
struct NotApplicable {
  std::string reason;
};

// The largest difference and the token that has it, from 1, the second token of the text.
std::pair<double, std::size_t> largest_gap(const Losses& base, const Losses& got) {
  std::pair<double, std::size_t> out{0.0, 0};
  if (got.size() != base.size())
    throw_run("another number of losses: ", got.size(), " in place of ", base.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double gap = std::abs(base[i] - got[i]);
    if (gap <= out.first) continue;  // false for NaN
    out = {std::isnan(gap) ? std::numeric_limits<double>::infinity() : gap, i + 1};
  }
  return out;
}

class Certifier {
 public:
  Certifier(run::Runtime& runtime, const CertifyOptions& options)
      : runtime_(runtime),
        options_(options),
        segment_(runtime.experiment().eval.segment),
        tolerance_(scores::tolerance_of(config::to_word(runtime.precision()))) {}

  Findings run();

 private:
  void announce(const char* name) const {
    if (options_.on_line) options_.on_line(name);
  }
  // A line of losses that `work` gives of the text, or of its beginning.
  template <typename Work>
  void compare(const char* name, const char* question, const std::string& why, const Work& work);
  void add_laws();
  void add_bytes();
  void add_reference();
  void add_cuts();
  // Rows that the tiers' contexts hold at most for this layer, before a segment.
  [[nodiscard]] std::int64_t rows_of(std::int64_t layer) const;
  // The layers whose attention no tier replaces.
  [[nodiscard]] std::vector<std::int64_t> attending_layers() const;
  // Why the text's cut may change its losses; "" = it may not.
  [[nodiscard]] std::string against_cuts() const;

  run::Runtime& runtime_;
  const CertifyOptions& options_;
  std::int64_t segment_;
  double tolerance_;
  Losses base_;
  Findings out_;
};

template <typename Work>
void Certifier::compare(const char* name, const char* question, const std::string& why,
                        const Work& work) {
  announce(name);
  CertificateLine line{.name = name, .question = question, .tolerance = tolerance_, .text = why};
  try {
    const auto [gap, token] = largest_gap(base_, work());
    line.difference = gap;
    if (gap > tolerance_) {
      line.result = CheckResult::kFails;
      line.text = str("most at token ", token);
    }
  } catch (const NotApplicable& not_applicable) {
    line.result = CheckResult::kNotChecked;
    line.tolerance.reset();
    line.text = not_applicable.reason;
  } catch (const std::exception& error) {
    line.result = CheckResult::kFails;
    line.text = error.what();
  }
  out_.lines.push_back(std::move(line));
}

std::int64_t Certifier::rows_of(std::int64_t layer) const {
  std::int64_t rows = 0;
  for (const auto& tier : runtime_.stack().tiers()) {
    if (tier->served_index(layer) < 0) continue;
    rows += tier->instance(Phase::kEvaluation).traits().context_rows;
  }
  return rows;
}

std::vector<std::int64_t> Certifier::attending_layers() const {
  std::vector<std::int64_t> out;
  for (std::int64_t layer = 0; layer < runtime_.experiment().model.layers; ++layer) {
    if (runtime_.stack().replacing_tier(layer) == nullptr) out.push_back(layer);
  }
  return out;
}

std::string Certifier::against_cuts() const {
  const auto& tiers = runtime_.stack().tiers();
  const config::ModelConfig& model = runtime_.experiment().model;
  if (tiers.empty()) return "there is no memory: every segment is a text of its own";
  for (const auto& tier : tiers) {
    const auto flags = tier->instance(Phase::kEvaluation).traits().flags;
    if ((flags & MNEME_TIER_CUT_INVARIANT) == 0)
      return str(tier->name(), " does not say that its losses are the same for every cut");
  }
  if (model.position == config::PositionScheme::kLearned)
    return "learned positions are places in a segment";
  if (segment_ < 2) return "a segment is one token";
  for (const std::int64_t layer : attending_layers()) {
    const std::int64_t rows = rows_of(layer);
    if (rows == 0) return str("the attention of layer ", layer, " sees its segment alone");
    if (model.memory_position == config::MemoryPosition::kFixed)
      return "model.memory_position = \"fixed\" gives rows of all distances one place";
    if (rows < segment_) return "the memory holds less than a segment";
  }
  return "";
}

void Certifier::add_cuts() {
  const std::string why_not = against_cuts();
  // Tokens before which no layer has dropped a row, whatever the cut.
  std::size_t tokens = options_.text.size();
  for (const std::int64_t layer : attending_layers())
    tokens = std::min(tokens, static_cast<std::size_t>(rows_of(layer)) + 1);
  const bool is_whole = tokens == options_.text.size();
  compare("cuts", "the text in shorter segments",
          is_whole ? "" : str("of the first ", tokens, " tokens, before rows are dropped"), [&] {
            if (!why_not.empty()) throw NotApplicable{why_not};
            const Ids text(options_.text.begin(),
                           options_.text.begin() + static_cast<std::ptrdiff_t>(tokens));
            Losses worst = one_pass(runtime_, text, segment_ / 2);
            const Losses other = one_pass(runtime_, text, std::max<std::int64_t>(segment_ - 1, 1));
            for (std::size_t i = 0; i < other.size(); ++i) {
              const double far = std::abs(worst[i] - base_[i]);
              if (!std::isnan(far) && !(std::abs(other[i] - base_[i]) <= far)) worst[i] = other[i];
            }
            worst.insert(worst.end(), base_.begin() + static_cast<std::ptrdiff_t>(worst.size()),
                         base_.end());
            return worst;
          });
}

// --- The laws and the bytes ---

void Certifier::add_laws() {
  announce("laws");
  const scores::MemoryChecks found = checks::check_trained(runtime_, options_.step, options_.text);
  for (const scores::MemoryCheck& one : found.checks) {
    const char* const question =
        one.name == "causality" ? "no loss depends on its own token or a later one"
        : one.name == "reset"   ? "after a reset nothing of the text before it counts"
                                : "another text in a lane changes no loss beside it";
    const bool holds = one.result == CheckResult::kHolds;
    out_.lines.push_back(
        {.name = one.name == "lanes" ? "isolation" : one.name,
         .question = question,
         .result = one.result,
         .text = holds ? "in f64, in training and in evaluation, to 1e-8" : one.text});
  }
}

void Certifier::add_bytes() {
  announce("bytes");
  CertificateLine line{.name = "bytes", .question = "the state holds no more than it declares"};
  try {
    const StateBytes bytes = state_bytes(runtime_, options_.text, segment_);
    line.text = str(bytes.held, " of ", bytes.declared, " declared bytes a lane");
    if (!bytes.undeclared.empty()) {
      line.text += str("; ", bytes.others, " bytes of ", join(bytes.undeclared, ", "),
                       ", of which no size is declared");
    }
    if (bytes.waiting > 0)
      line.text += str("; ", bytes.waiting, " bytes of waiting rows, which count as state too");
    if (bytes.held > bytes.declared) line.result = CheckResult::kFails;
    if (bytes.declared == 0) line.result = CheckResult::kNotChecked;
    if (runtime_.stack().is_empty()) line.text = "there is no memory";
  } catch (const std::exception& error) {
    line.result = CheckResult::kFails;
    line.text = error.what();
  }
  out_.lines.push_back(std::move(line));
}

// --- Losses of another program ---

struct Reference {
  Ids ids;
  Losses losses;
  std::string precision;
};

Reference read_reference(const std::filesystem::path& path, std::int64_t vocabulary,
                         std::int64_t segment) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const data::IdRows input = data::read_ids(file, "input", vocabulary);
  const std::string of = file.metadata_or("segment", str(segment));
  if (of != str(segment)) {
    throw_usage({.where = path.string(),
                 .failed = "its losses are those of other segments",
                 .expected = str(segment, " tokens, as eval.segment says"),
                 .got = of,
                 .hint = "make it anew with --segment, or use --set eval.segment=" + of});
  }
  const TensorView& nll = file.at("nll", DType::F64, {input.columns - 1});
  Reference out{.ids = {input.ids.begin(), input.ids.begin() + input.columns},
                .losses = Losses(static_cast<std::size_t>(input.columns - 1)),
                .precision = file.metadata_or("precision", "f32")};
  if (!std::isfinite(scores::tolerance_of(out.precision))) {
    throw_usage({.where = path.string(),
                 .failed = "its losses are of a precision without a tolerance",
                 .expected = "f64, f32 or bf16 in the metadata `precision`",
                 .got = out.precision});
  }
  std::memcpy(out.losses.data(), nll.data, nll.bytes);
  return out;
}

void Certifier::add_reference() {
  const Losses losses = base_;
  const double tolerance = tolerance_;
  std::optional<Reference> reference;
  std::string of;
  if (!options_.reference.empty()) {
    reference = read_reference(options_.reference, runtime_.model().vocabulary(), segment_);
    base_ = reference->losses;
    tolerance_ = std::max(tolerance, scores::tolerance_of(reference->precision));
    of = str(base_.size(), " losses of the file, in ", reference->precision);
  }
  compare("reference", "the losses that another program computed", of, [&] {
    if (!reference) throw NotApplicable{"no --reference is given"};
    return one_pass(runtime_, reference->ids, segment_);
  });
  base_ = losses;
  tolerance_ = tolerance;
}

// --- All lines ---

Findings Certifier::run() {
  const std::vector<std::int64_t>& text = options_.text;
  announce("one pass");
  base_ = one_pass(runtime_, text, segment_);
  out_.loss = std::accumulate(base_.begin(), base_.end(), 0.0) / static_cast<double>(base_.size());
  // First: ranks that have done other work would wait for one another.
  compare("ranks", "two lanes over several processes", "", [&] {
    if (options_.ranks == nullptr)
      throw NotApplicable{"one process: mpirun -n 2 mneme certify compares"};
    return over_ranks(runtime_, text, segment_, *options_.ranks);
  });
  add_cuts();
  compare("generation", "one token at a time", "",
          [&] { return step_by_step(runtime_, text, segment_); });
  compare("lanes", "as one of three lanes, the others shorter", "",
          [&] { return beside_others(runtime_, text, segment_); });
  compare("resume", "saved inside a segment, continued by other instances", "", [&] {
    const auto other = copy_of(runtime_, runtime_.precision());
    return resumed(runtime_, *other, text, segment_, options_.on_saved);
  });
  compare("projections", "keys and values made anew in every segment", "",
          [&] { return one_pass(runtime_, text, segment_, /*uses_cache=*/false); });
  compare("threads", "another number of threads", "", [&] {
    if (!runtime_.device().is_cpu()) throw NotApplicable{"the device computes"};
    const std::int64_t threads = tensor::threads();
    tensor::set_threads(threads == 1 ? 2 : 1);
    Losses got;
    try {
      got = one_pass(runtime_, text, segment_);
    } catch (...) {
      tensor::set_threads(threads);
      throw;
    }
    tensor::set_threads(threads);
    return got;
  });
  compare("f64", "in double precision", "", [&] {
    if (runtime_.precision() == Precision::kF64) throw NotApplicable{"the pass is in f64"};
    return one_pass(*copy_of(runtime_, Precision::kF64), text, segment_);
  });
  add_reference();
  add_laws();
  add_bytes();
  return std::move(out_);
}

}  // namespace

Findings certify(run::Runtime& runtime, const CertifyOptions& options) {
  const std::int64_t segment = runtime.experiment().eval.segment;
  if (static_cast<std::int64_t>(options.text.size()) <= segment + 1) {
    throw_usage({.where = "certify",
                 .failed = "a memory is read from the second segment on: the text is too short",
                 .expected = str("at least ", segment + 2, " tokens"),
                 .got = str(options.text.size()),
                 .hint = "give another --text, or a shorter --set eval.segment"});
  }
  return Certifier(runtime, options).run();
}

}  // namespace mneme::certify
