#include "host/generate/session.hpp"

#include <algorithm>
#include <numeric>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::generate {
namespace {

constexpr memory::Phase kPhase = memory::Phase::kEvaluation;

void prepare(backbone::Model& model, const memory::Stack& stack) {
  model.train(false);
  backbone::set_context_window(model, stack.context_rows(kPhase));
}

}  // namespace

Session::Session(backbone::Model& model, memory::Stack& stack)
    : model_(model), stack_(stack), state_(stack.new_state(kPhase, 1)) {
  prepare(model, stack);
}

Session::Session(backbone::Model& model, memory::Stack& stack, const Saved& saved)
    : model_(model), stack_(stack), state_(stack.restore(kPhase, saved.lanes, saved.state)) {
  prepare(model, stack);
  stack.restore_projections(state_, saved.state);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& ids : saved.steps) step(ids.to(stack.backbone().device));
  tokens_ = saved.tokens;
}

Session::~Session() = default;

std::int64_t Session::held() const {
  return std::accumulate(steps_.begin(), steps_.end(), std::int64_t{0},
                         [](std::int64_t sum, const at::Tensor& ids) { return sum + ids.size(1); });
}

at::Tensor Session::step(const at::Tensor& ids) {
  if (!open_) {
    memory::SegmentInput input;
    input.length = ids.size(1);
    input.is_open = true;
    run_ = std::make_unique<memory::SegmentRun>(stack_, state_, input);
    open_ = model_.open(*run_);
  }
  const at::Tensor top = open_->step(ids);
  steps_.push_back(ids);
  tokens_ += ids.size(1);
  return top.select(1, ids.size(1) - 1);
}

void Session::close() {
  open_->close();
  run_->commit();
  open_.reset();
  run_.reset();
  steps_.clear();
}

at::Tensor Session::feed(const at::Tensor& ids, std::int64_t segment) {
  const at::NoGradGuard no_grad;
  at::Tensor last;
  for (std::int64_t from = 0; from < ids.size(1);) {
    if (open_ && held() >= segment) close();
    const std::int64_t n = std::min(ids.size(1) - from, segment - held());
    last = step(ids.narrow(1, from, n));
    from += n;
    if (held() >= segment) close();
  }
  return last;
}

void Session::multiply(std::int64_t lanes) {
  const at::NoGradGuard no_grad;
  const std::vector<std::int64_t> all(static_cast<std::size_t>(lanes), 0);
  open_ ? open_->select(all) : state_.select(all);
  std::vector<std::uint64_t> streams(all.size());
  std::iota(streams.begin(), streams.end(), std::uint64_t{0});
  state_.set_streams(std::move(streams));
  for (at::Tensor& ids : steps_) ids = ids.expand({lanes, ids.size(1)});
}

Session::Saved Session::save() const {
  Saved saved{.state = state_.save(), .steps = steps_, .lanes = lanes(), .tokens = tokens_};
  const auto projections = stack_.save_projections(state_);
  saved.state.tensors.insert(saved.state.tensors.end(), projections.begin(), projections.end());
  return saved;
}

}  // namespace mneme::generate
