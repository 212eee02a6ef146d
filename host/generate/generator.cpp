#include "host/generate/generator.hpp"

#include <algorithm>
#include <atomic>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::generate {

namespace {

constexpr memory::Phase kPhase = memory::Phase::kEvaluation;

void prepare(backbone::Model& model, const memory::Stack& stack) {
  model.train(false);
  model.set_context_rows(stack.context_rows(kPhase));
}

}  // namespace

TokenFeeder::TokenFeeder(backbone::Model& model, memory::Stack& stack, TypeMarks marks)
    : model_(model), stack_(stack), state_(stack.new_state(kPhase, 1)), marks_(std::move(marks)) {
  if (!marks_.empty()) types_ = {marks_.front()};
  prepare(model, stack);
}

TokenFeeder::TokenFeeder(backbone::Model& model, memory::Stack& stack, const FedText& saved,
                         TypeMarks marks)
    : model_(model),
      stack_(stack),
      state_(stack.restore(kPhase, saved.lanes, saved.state)),
      marks_(std::move(marks)) {
  if (!marks_.empty()) types_.assign(static_cast<std::size_t>(saved.lanes), marks_.front());
  if (!marks_.empty() && saved.types.size() == types_.size()) types_ = saved.types;
  prepare(model, stack);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& ids : saved.steps) step(ids);
  tokens_ = saved.tokens;
}

std::int64_t TokenFeeder::held() const {
  return std::accumulate(steps_.begin(), steps_.end(), std::int64_t{0},
                         [](std::int64_t sum, const at::Tensor& ids) { return sum + ids.size(1); });
}

at::Tensor TokenFeeder::types_of(const at::Tensor& ids) {
  if (marks_.empty()) return {};
  const at::Tensor given = ids.to(at::kCPU).contiguous();
  at::Tensor out = at::empty_like(given);
  const std::int64_t* const id = given.const_data_ptr<std::int64_t>();
  std::int64_t* const type = out.mutable_data_ptr<std::int64_t>();
  const std::int64_t columns = given.size(1);
  for (std::int64_t i = 0; i < given.numel(); ++i) {
    std::int64_t& current = types_[static_cast<std::size_t>(i / columns)];
    if (std::ranges::find(marks_, id[i]) != marks_.end()) current = id[i];
    type[i] = current;
  }
  return out;
}

at::Tensor TokenFeeder::step(const at::Tensor& ids) {
  if (!open_) {
    open_types_ = types_;
    memory::SegmentInput input;
    input.length = ids.size(1);
    input.is_open = true;
    hooks_ = std::make_unique<memory::SegmentHooks>(stack_, state_, input);
    open_.emplace(model_, *hooks_);
  }
  const at::Tensor top = open_->step(sent(ids), sent(types_of(ids)));
  count_step(ids);
  return top;
}

void TokenFeeder::count_step(const at::Tensor& ids) {
  steps_.push_back(ids);
  tokens_ += ids.size(1);
}

at::Tensor TokenFeeder::sent(const at::Tensor& t) const {
  return t.defined() ? tensor::to_device(t, stack_.backbone().device) : t;
}

void TokenFeeder::close() {
  open_->close();
  hooks_->commit();
  open_.reset();
  hooks_.reset();
  steps_.clear();
}

at::Tensor TokenFeeder::feed(const at::Tensor& ids, std::int64_t segment,
                             const std::function<void(const at::Tensor& top)>& on_step) {
  const at::NoGradGuard no_grad;
  at::Tensor last;
  for (std::int64_t from = 0; from < ids.size(1);) {
    if (open_ && held() >= segment) close();
    const std::int64_t n = std::min(ids.size(1) - from, segment - held());
    const at::Tensor top = step(ids.narrow(1, from, n));
    if (on_step) on_step(top);
    last = top.select(1, n - 1);
    from += n;
    if (held() >= segment) close();
  }
  return last;
}

std::vector<at::Tensor> TokenFeeder::feed_one(const at::Tensor& ids, std::int64_t segment,
                                              std::vector<at::Tensor> inputs,
                                              const AfterStep& after) {
  const at::NoGradGuard no_grad;
  if (open_ && held() >= segment) close();
  const bool is_even = runner_ && marks_.empty() && open_ && open_->can_step_evenly();
  if (!is_even) return after(feed(ids, segment));
  inputs.push_back(sent(ids));
  if (open_->begin_even_step(segment, even_room_)) change_steps();
  std::vector<at::Tensor> results =
      runner_(kind_, inputs, [&] { return after(open_->even_step(inputs.back()).select(1, 0)); });
  count_step(ids);
  if (held() >= segment) close();
  return results;
}

void TokenFeeder::change_steps() {
  static std::atomic<std::uint64_t> kinds = 0;  // of all texts, which may have one runner
  kind_ = ++kinds;
}

void TokenFeeder::multiply(std::int64_t lanes) {
  const at::NoGradGuard no_grad;
  const std::vector<std::int64_t> all(static_cast<std::size_t>(lanes), 0);
  open_ ? open_->select(all) : state_.select(all);
  std::vector<std::uint64_t> streams(all.size());
  std::iota(streams.begin(), streams.end(), std::uint64_t{0});
  state_.set_streams(std::move(streams));
  for (at::Tensor& ids : steps_) ids = ids.expand({lanes, ids.size(1)});
  for (std::vector<std::int64_t>* types : {&types_, &open_types_}) {
    if (!types->empty()) types->assign(all.size(), types->front());
  }
}

TokenFeeder::Mark TokenFeeder::mark() const {
  return {state_.clone(), steps_, tokens_, types_, open_types_};
}

// In pieces as large as those that the memory of the device had room for.
void TokenFeeder::feed_again(const std::vector<at::Tensor>& steps) {
  std::int64_t longest = 64;
  std::vector<at::Tensor> sent;  // drawn ids lie on the device, those of a prompt on the CPU
  for (const at::Tensor& ids : steps) {
    longest = std::max(longest, ids.size(1));
    sent.push_back(tensor::to_device(ids, stack_.backbone().device));
  }
  const at::Tensor all = at::cat(sent, 1);
  for (std::int64_t from = 0; from < all.size(1); from += longest)
    step(all.narrow(1, from, std::min(longest, all.size(1) - from)));
}

void TokenFeeder::return_to(Mark mark) {
  const at::NoGradGuard no_grad;
  open_.reset();
  hooks_.reset();
  state_ = std::move(mark.state);
  steps_.clear();
  const bool is_open = !mark.steps.empty();
  types_ = is_open ? std::move(mark.open_types) : std::move(mark.types);
  if (is_open) feed_again(mark.steps);
  tokens_ = mark.tokens;
}

FedText TokenFeeder::save() const {
  std::vector<at::Tensor> steps;
  for (const at::Tensor& ids : steps_) steps.push_back(ids.to(at::kCPU));
  return {.state = state_.save(stack_.weights_version()),
          .steps = std::move(steps),
          .lanes = lanes(),
          .tokens = tokens_,
          .types = open_ ? open_types_ : types_};
}

namespace {

void check_segment(const char* key, std::int64_t segment, std::int64_t longest,
                   const std::string& why) {
  if (segment < 1) {
    throw_usage({.where = key,
                 .failed = "no token fits into such a segment",
                 .expected = "at least 1",
                 .got = str(segment)});
  }
  if (longest > 0 && segment > longest) {
    throw_usage({.where = key,
                 .failed = "the segment is longer than " + why,
                 .expected = str("at most ", longest, " tokens"),
                 .got = str(segment),
                 .hint = str("generate in segments of ", longest, ": --segment ", longest)});
  }
}

// What ends at longest_segment().
std::string model_bound(const backbone::Model& model) {
  return model.info().position == "learned" ? "learned positions" : "contexts";
}

at::Tensor row_of(const std::vector<std::int32_t>& ids) {
  return at::tensor(ids, at::kInt).to(at::kLong).unsqueeze(0);
}

}  // namespace

Generator::Generator(backbone::Model& model, memory::Stack& stack, const Options& options)
    : model_(model), stack_(stack), options_(options), has_own_chunk_(options.prompt_segment != 0) {
  if (!has_own_chunk_) options_.prompt_segment = options_.segment;
  check(options_.sampling);
  prepare(model_, stack_);  // the model's longest segment depends on it
  for (const auto& [key, segment] : {std::pair("generate.segment", options_.segment),
                                     std::pair("prompt segment", options_.prompt_segment)}) {
    check_segment(key, segment, model.longest_segment(), str("the model's ", model_bound(model)));
    check_segment(key, segment, stack.longest_segment(memory::Phase::kEvaluation),
                  "the memory can serve");
  }
  feeder_ = std::make_unique<TokenFeeder>(model_, stack_, options_.type_marks);
  feeder_->step_evenly(options_.run_even_step);
}

void Generator::check_one_sample(const char* what) const {
  if (samples() == 1) return;
  throw_usage({.where = what,
               .failed = "the texts of several samples differ by now",
               .expected = "one sample",
               .got = str(samples()),
               .hint = "use --samples 1"});
}

void Generator::check_vocabulary(const std::vector<std::int32_t>& ids, const char* what) const {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < model_.vocabulary()) continue;
    throw_usage({.where = str(what, ", token ", i + 1),
                 .failed = "the vocabulary has no such id",
                 .expected = str("0 to ", model_.vocabulary() - 1),
                 .got = str(ids[i])});
  }
}

void Generator::check_ids(const std::vector<std::int32_t>& ids) const {
  if (ids.empty() && !pending_.defined()) {
    const bool has_text = tokens() > 0;
    throw_usage({.where = "prompt",
                 .failed = has_text ? "it is empty, and the last answer has ended" : "it is empty",
                 .expected = has_text ? "the next turn" : "at least one token",
                 .got = "none",
                 .hint = has_text ? "give a text" : "give a text; a model needs a first token"});
  }
  check_vocabulary(ids, "prompt");
  if (stack_.is_empty() && !ids.empty() && !options_.takes_forgotten_prompts)
    check_prompt_fits(static_cast<std::int64_t>(ids.size()));
}

// Without a memory the first draw sees the open segment, while it stays open under both lengths.
void Generator::check_prompt_fits(std::int64_t ids) const {
  const std::int64_t context_tokens = std::min(options_.prompt_segment, options_.segment);
  const std::int64_t all = open_tokens() + ids;
  if (all <= context_tokens) return;
  const std::int64_t longest = model_.longest_segment();
  std::string hint = str("shorten it, raise --segment to ", all, " or more, or add a memory");
  if (longest > 0 && all > longest) {
    hint = str("shorten it, or add a memory; ", model_bound(model_), " end at ", longest);
  } else if (has_own_chunk_ && all > options_.prompt_segment) {
    hint = str("shorten it, or add a memory; a prompt's chunks end at ", options_.prompt_segment);
  }
  throw_usage({.where = "prompt",
               .failed = "it is longer than the model's context: there is no memory",
               .expected = str("at most ", context_tokens, " tokens, one segment"),
               .got = open_tokens() == 0
                          ? str(all)
                          : str(all, " with ", open_tokens(), " of the turns before"),
               .hint = hint});
}

void Generator::prompt(const std::vector<std::int32_t>& ids) {
  check_one_sample("prompt");
  check_ids(ids);
  if (ids.empty()) return;
  at::Tensor all = row_of(ids);
  if (pending_.defined()) all = at::cat({pending_.to(at::kCPU), all}, 1);
  const std::int64_t fed = all.size(1) - 1;
  if (fed > 0) feeder_->feed(all.narrow(1, 0, fed), options_.prompt_segment);
  pending_ = all.narrow(1, fed, 1);
}

void Generator::prompt_pieces(const std::vector<std::vector<std::int32_t>>& pieces) {
  check_one_sample("prompt");
  for (const std::vector<std::int32_t>& piece : pieces) {
    check_ids(piece);
    if (pending_.defined() || feeder_->held() > 0) {
      throw std::logic_error("pieces of a prompt begin a text");
    }
    const at::Tensor ids = row_of(piece);
    const bool is_last = &piece == &pieces.back();
    const std::int64_t fed = ids.size(1) - (is_last ? 1 : 0);
    if (fed > 0) feeder_->feed(ids.narrow(1, 0, fed), is_last ? options_.segment : fed);
    if (is_last) pending_ = ids.narrow(1, fed, 1);
  }
}

void Generator::multiply(std::int64_t samples) {
  if (samples < 1) {
    throw_usage({.where = "--samples",
                 .failed = "nothing would be generated",
                 .expected = "at least 1",
                 .got = str(samples)});
  }
  check_one_sample("--samples");
  if (!pending_.defined()) check_ids({});
  feeder_->multiply(samples);
  pending_ = pending_.expand({samples, 1}).contiguous();
}

// [n,B] f64 on the device.
at::Tensor Generator::uniforms(std::int64_t n) const {
  at::Tensor out = at::empty({n, samples()}, at::kDouble);
  double* next = out.mutable_data_ptr<double>();
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t s = 0; s < samples(); ++s) {
      Random random(options_.seed, {"generate", static_cast<std::uint64_t>(s),
                                    static_cast<std::uint64_t>(tokens() + i)});
      *next++ = random.uniform();
    }
  }
  return tensor::to_device(out, stack_.backbone().device);
}

bool Generator::draws_on_device() const {
  return draws_on(stack_.backbone().device, model_.vocabulary());
}

at::Tensor Generator::next_ids(const at::Tensor& uniform) {
  const bool draws = draws_on_device();
  const auto draw = [&](const at::Tensor& logits) {
    return draw_rows(options_.ids > 0 ? logits.narrow(1, 0, options_.ids) : logits,
                     options_.sampling, uniform);
  };
  const auto after = [&](const at::Tensor& top) {
    std::vector<at::Tensor> out = {top.is_cpu() ? model_.log_probabilities(top)
                                                : model_.logits(top)};
    if (draws) out.push_back(draw(out[0]));
    return out;
  };
  std::vector<at::Tensor> inputs;
  if (draws) inputs.push_back(uniform);
  const std::vector<at::Tensor> got =
      feeder_->feed_one(pending_, options_.segment, std::move(inputs), after);
  return draws ? got[1] : draw(got[0]);
}

at::Tensor Generator::drawn(std::int64_t n) {
  const at::Tensor uniform = uniforms(n);
  std::vector<at::Tensor> all;
  for (std::int64_t i = 0; i < n; ++i) {
    all.push_back(next_ids(uniform[i]));
    // An id that is fed before it was looked at is one of the vocabulary.
    pending_ = i + 1 < n ? all.back().clamp_min(0) : all.back();
  }
  return at::cat(all, 1).to(at::kCPU);
}

std::int64_t Generator::most_at_once() const {
  constexpr std::int64_t kOnDevices = 8;
  if (!options_.type_marks.empty()) return 1;  // types are made of ids on the CPU
  if (options_.ids_at_once > 0) return options_.ids_at_once;
  return draws_on_device() ? kOnDevices : 1;
}

namespace {

// Passes one token of each sample [B] on, those that run; `place` is for the message.
void pass_on(const at::Tensor& ids, std::int64_t place, std::vector<std::uint8_t>& runs,
             const OnToken& on_token) {
  for (std::size_t s = 0; s < runs.size(); ++s) {
    const auto id = ids[static_cast<std::int64_t>(s)].item<std::int64_t>();
    if (id < 0) {
      throw_run(
          {.where = str("token ", place + 1, ", sample ", s),
           .failed = "the model's distribution of the next token holds NaN or infinite values",
           .expected = "finite log-probabilities",
           .hint = "the weights or the memory's state overflowed: generate from an earlier "
                   "checkpoint, or in higher precision with --set eval.precision=f32"});
    }
  }
  for (std::size_t s = 0; s < runs.size(); ++s) {
    if (runs[s] == 0) continue;
    const auto id = ids[static_cast<std::int64_t>(s)].item<std::int64_t>();
    runs[s] = on_token(static_cast<std::int64_t>(s), static_cast<std::int32_t>(id)) ? 1 : 0;
  }
}

}  // namespace

void Generator::generate(std::int64_t count, const OnToken& on_token) {
  if (!pending_.defined()) check_ids({});
  std::vector<std::uint8_t> runs(static_cast<std::size_t>(samples()), 1);
  for (std::int64_t made = 0, n = 1; made < count; made += n, n *= 2) {
    n = std::min({n, most_at_once(), count - made});
    std::optional<TokenFeeder::Mark> before;
    if (n > 1) before = feeder_->mark();
    const at::Tensor newest = pending_;
    const std::int64_t place = tokens();
    const at::Tensor ids = drawn(n);
    for (std::int64_t i = 0; i < n; ++i) {
      pass_on(ids.select(1, i), place + i, runs, on_token);
      if (std::any_of(runs.begin(), runs.end(), [](std::uint8_t r) { return r != 0; })) continue;
      if (i + 1 == n) return;
      // The tokens behind are dropped.
      feeder_->return_to(std::move(*before));
      feeder_->feed(at::cat({newest.to(at::kCPU), ids.narrow(1, 0, i)}, 1), options_.segment);
      pending_ = ids.narrow(1, i, 1);
      return;
    }
  }
}

Generator::Saved Generator::save() const {
  check_one_sample("--save-state");
  Saved saved{.text = feeder_->save(),
              .pending = std::nullopt,
              .seed = options_.seed,
              .segment = options_.segment};
  if (pending_.defined()) saved.pending = static_cast<std::int32_t>(pending_.item<std::int64_t>());
  return saved;
}

void Generator::restore(const Saved& saved) {
  feeder_ = std::make_unique<TokenFeeder>(model_, stack_, saved.text, options_.type_marks);
  feeder_->step_evenly(options_.run_even_step);
  pending_ = saved.pending ? row_of({*saved.pending}) : at::Tensor();
}

}  // namespace mneme::generate
