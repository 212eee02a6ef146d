#include "host/certify/ways.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "host/eval/evaluator.hpp"
#include "host/eval/score.hpp"
#include "host/memory/stack/tier_outline.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::certify {
namespace {

eval::TokenRows rows_of(const Ids& text, const std::vector<std::int64_t>& starts,
                        const std::vector<std::int64_t>& lengths) {
  const auto columns = static_cast<std::int64_t>(text.size()) - 1;
  eval::TokenRows out{.rows = static_cast<std::int64_t>(starts.size()),
                      .columns = columns,
                      .input = {},
                      .target = {},
                      .lengths = lengths};
  for (const std::int64_t start : starts) {
    for (std::int64_t i = 0; i < columns; ++i) {
      const auto place = static_cast<std::size_t>((start + i) % columns);
      out.input.push_back(text[place]);
      out.target.push_back(text[place + 1]);
    }
  }
  return out;
}

Losses row_of(const eval::RowScores& scores, std::int64_t row, std::int64_t columns) {
  const auto begin = scores.nll.begin() + row * columns;
  return {begin, begin + columns};
}

// All rows, side by side.
class SideBySide final : public data::Stream {
 public:
  SideBySide(const eval::TokenRows& rows, std::int64_t length) : rows_(rows), length_(length) {}

  bool next(data::TokenSegment& segment) override {
    if (next_ >= rows_.columns) return false;
    const std::int64_t count = std::min(length_, rows_.columns - next_);
    segment.prepare(rows_.rows, count, false);
    for (std::int64_t b = 0; b < rows_.rows; ++b) {
      const auto from = static_cast<std::ptrdiff_t>(b * rows_.columns + next_);
      const auto to = static_cast<std::ptrdiff_t>(b * count);
      std::copy_n(rows_.input.begin() + from, count, segment.inputs.begin() + to);
      std::copy_n(rows_.target.begin() + from, count, segment.targets.begin() + to);
      segment.valid[data::at(b)] = count;
      segment.reset[data::at(b)] = next_ == 0 ? 1 : 0;
      segment.document[data::at(b)] = b;
      segment.offset[data::at(b)] = next_;
    }
    segment.index = next_ / length_;
    next_ += count;
    return true;
  }
  std::vector<std::int64_t> position() const override { return {next_}; }
  void seek(const std::vector<std::int64_t>& position) override { next_ = position.at(0); }
  std::int64_t segments_per_epoch() const override {
    return (rows_.columns + length_ - 1) / length_;
  }
  std::int64_t targets_per_epoch() const override { return rows_.rows * rows_.columns; }

 private:
  const eval::TokenRows& rows_;
  std::int64_t length_;
  std::int64_t next_ = 0;
};

generate::Generator generator_of(run::Runtime& runtime, std::int64_t segment) {
  return {runtime.model(), runtime.stack(), generate::Options{.segment = segment}};
}

void score_into(Losses& out, generate::Generator& generator, const std::vector<std::int32_t>& ids) {
  for (const generate::ScoredToken& one : generator.score(ids)) out.push_back(one.nll);
}

std::vector<std::int32_t> narrow(const Ids& text, std::size_t from, std::size_t to) {
  std::vector<std::int32_t> out;
  for (std::size_t i = from; i < to; ++i) out.push_back(static_cast<std::int32_t>(text[i]));
  return out;
}

// "<tier>.<slot>" of the state's tensor "<tier>.<layer>.<slot>...", and "<tier>.waiting" of waiting
// rows; "" for what is no part of the state's bytes: another tier's, and the marks of valid rows.
std::string declared_name(const std::string& tensor, const std::string& tier) {
  if (!tensor.starts_with(tier + '.') || tensor.ends_with(".valid")) return "";
  const std::size_t layer = tier.size() + 1;
  const std::size_t slot = tensor.find('.', layer) + 1;
  return tier + '.' + tensor.substr(slot, tensor.find('.', slot) - slot);
}

}  // namespace

Losses one_pass(run::Runtime& runtime, const Ids& text, std::int64_t segment, bool uses_cache) {
  const eval::TokenRows rows = rows_of(text, {0}, {});
  return eval::score(
             runtime.model(), runtime.stack(), rows,
             {.segment = segment, .lanes = 1, .use_cache = uses_cache, .shares_stream = true})
      .nll;
}

Losses beside_others(run::Runtime& runtime, const Ids& text, std::int64_t segment) {
  const auto columns = static_cast<std::int64_t>(text.size()) - 1;
  // The last lane: neither the one whose state a memory gives to all lanes by mistake, nor the one
  // that stays in its place where a memory turns their order.
  const eval::TokenRows rows = rows_of(text, {columns / 3, columns / 2, 0},
                                       {std::max<std::int64_t>(columns / 2, 1),
                                        std::max<std::int64_t>(2 * columns / 3, 1), columns});
  const eval::RowScores scores =
      eval::score(runtime.model(), runtime.stack(), rows,
                  {.segment = segment, .lanes = 3, .shares_stream = true});
  return row_of(scores, 2, columns);
}

Losses over_ranks(run::Runtime& runtime, const Ids& text, std::int64_t segment,
                  ranks::Communicator& ranks) {
  const auto columns = static_cast<std::int64_t>(text.size()) - 1;
  const eval::TokenRows rows = rows_of(text, {0, columns / 2}, {});
  SideBySide stream(rows, segment);
  Losses out;
  eval::Options options{.lanes = 2};
  options.ranks.all = &ranks;
  options.streams = {0, 0};
  options.on_segment = [&](const data::TokenSegment& read, const scores::SegmentLosses& losses) {
    out.insert(out.end(), losses.nll.begin(), losses.nll.begin() + read.length);
  };
  static_cast<void>(eval::evaluate_stream(runtime.model(), runtime.stack(), stream, options));
  return out;
}

Losses step_by_step(run::Runtime& runtime, const Ids& text, std::int64_t segment) {
  generate::Generator generator = generator_of(runtime, segment);
  Losses out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    score_into(out, generator, narrow(text, i, i + 1));
  }
  return out;
}

Losses resumed(run::Runtime& runtime, run::Runtime& other, const Ids& text, std::int64_t segment,
               const std::function<void(generate::Generator::Saved&)>& on_saved) {
  // The middle of the segment in the middle of the text.
  const auto tokens = static_cast<std::int64_t>(text.size());
  const std::int64_t half = std::max<std::int64_t>(tokens / 2 / segment, 1) * segment;
  const auto middle = static_cast<std::size_t>(std::min(half + segment / 2 + 1, tokens - 1));
  generate::Generator before = generator_of(runtime, segment);
  Losses out;
  score_into(out, before, narrow(text, 0, middle));
  generate::Generator::Saved saved = before.save();
  if (on_saved) on_saved(saved);
  generate::Generator after = generator_of(other, segment);
  after.restore(saved);
  score_into(out, after, narrow(text, middle, text.size()));
  return out;
}

std::unique_ptr<run::Runtime> copy_of(const run::Runtime& runtime, config::Precision precision) {
  run::RuntimeOptions options{.device = runtime.device(),
                              .precision = precision,
                              .dataset = runtime.dataset(),
                              .loader = runtime.loader(),
                              .weights_follow = true};
  auto copy = std::make_unique<run::Runtime>(runtime.experiment(), options);
  copy->copy_parameters(runtime);
  return copy;
}

StateBytes state_bytes(run::Runtime& runtime, const Ids& text, std::int64_t segment) {
  generate::Generator generator = generator_of(runtime, segment);
  static_cast<void>(generator.score(narrow(text, 0, text.size())));
  const memory::NamedState state = generator.state().save();
  StateBytes out;
  for (const memory::TierOutline& tier : runtime.stack().outlines(1, 1)) {
    std::map<std::string, std::optional<std::int64_t>> stated;
    const memory::InstanceOutline& made = tier.evaluation ? *tier.evaluation : tier.training;
    for (const auto& slot : made.slots) stated[tier.name + '.' + slot.name] = slot.bytes;
    for (const auto& queue : made.queues) stated[tier.name + '.' + queue.name] = queue.bytes;
    for (const auto& [name, bytes] : stated) {
      if (bytes)
        out.declared += *bytes;
      else
        out.undeclared.push_back(name);
    }
    for (const auto& [name, tensor] : state.tensors) {
      const std::string declared = declared_name(name, tier.name);
      const auto found = stated.find(declared);
      if (found == stated.end() && declared != tier.name + ".waiting") continue;
      (found == stated.end() ? out.waiting
       : found->second       ? out.held
                             : out.others) += static_cast<std::int64_t>(tensor.nbytes());
    }
  }
  return out;
}

}  // namespace mneme::certify
