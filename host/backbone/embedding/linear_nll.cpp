#include "host/backbone/embedding/linear_nll.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "host/backbone/attention/attention.hpp"
#include "host/backbone/linear.hpp"
#include "host/tensor/torch.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::backbone {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// The largest of each row of x [n,m] and its first place. LibTorch's max with index runs entry by
// entry; its max without index over a short piece is vectorised.
std::pair<at::Tensor, at::Tensor> max_of_rows(const at::Tensor& x) {
  constexpr int64_t kPiece = 128;
  const int64_t pieces = x.size(1) / kPiece, rest = x.size(1) % kPiece;
  if (pieces < 2) {
    auto [value, place] = x.max(1);
    return {value, place};
  }
  const at::Tensor whole = x.narrow(1, 0, pieces * kPiece).unflatten(1, {pieces, kPiece});
  const at::Tensor piece = std::get<1>(whole.amax(2).max(1)).view({-1, 1, 1});
  auto [value, place] = whole.gather(1, piece.expand({-1, 1, kPiece})).squeeze(1).max(1);
  place += piece.view(-1) * kPiece;
  if (rest > 0) {
    const auto [last, last_place] = x.narrow(1, pieces * kPiece, rest).max(1);
    place = at::where(last > value, last_place + pieces * kPiece, place);
    value = at::maximum(value, last);
  }
  return {value, place};
}

class LinearNll : public torch::autograd::Function<LinearNll> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const at::Tensor& bias, const at::Tensor& target, at::Tensor* best,
                            int64_t kept_logits) {
    const int64_t rows = x.size(0);
    const int64_t block = std::max<int64_t>(1, kept_logits / weight.size(0));
    const at::ScalarType type = score_dtype(x.scalar_type());
    at::Tensor nll = at::empty({rows}, x.options().dtype(type));
    if (best != nullptr) *best = at::empty({rows}, target.options());
    at::Tensor kept;
    for (int64_t from = 0; from < rows; from += block) {
      const int64_t n = std::min(block, rows - from);
      const at::Tensor logits = logits_of(x.narrow(0, from, n), weight, bias);
      if (best != nullptr) best->narrow(0, from, n).copy_(max_of_rows(logits).second);
      const at::Tensor logp = at::log_softmax(logits, 1);
      const at::Tensor part = target.narrow(0, from, n);
      const at::Tensor picked = logp.gather(1, part.clamp_min(0).unsqueeze(1)).squeeze(1).neg();
      nll.narrow(0, from, n).copy_(picked.masked_fill(part < 0, 0.0));
      if (rows <= block) kept = logp;
    }
    ctx->save_for_backward({x, weight, bias, target, kept});
    ctx->saved_data["block"] = block;
    return nll;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &target = saved[3];
    const at::Tensor& kept = saved[4];
    const int64_t rows = x.size(0);
    const int64_t block = ctx->saved_data["block"].toInt();
    const at::Tensor grad = grads[0].masked_fill(target < 0, 0.0);
    at::Tensor grad_x, grad_weight, grad_bias;
    for (int64_t from = 0; from < rows; from += block) {
      const int64_t n = std::min(block, rows - from);
      const at::Tensor x_part = x.narrow(0, from, n);
      const at::Tensor index = target.narrow(0, from, n).clamp_min(0).unsqueeze(1);
      const at::Tensor scale = grad.narrow(0, from, n).unsqueeze(1);
      at::Tensor p = kept.defined() ? kept.exp() : at::softmax(logits_of(x_part, weight, bias), 1);
      p.mul_(scale).scatter_add_(1, index, -scale);  // d nll / d logits
      const at::Tensor sum = p.sum(0);
      const at::Tensor low = p.to(x.scalar_type());
      const at::Tensor to_x = ctx->needs_input_grad(0) ? at::mm(low, weight) : at::Tensor();
      const bool is_only = rows <= block;
      const at::Tensor to_weight =
          ctx->needs_input_grad(1) ? at::mm(low.t(), x_part) : at::Tensor();
      if (is_only) {
        grad_x = to_x;
        grad_weight = to_weight;
        grad_bias = sum;
        break;
      }
      if (from == 0) {
        grad_x = at::empty_like(x);
        if (to_weight.defined()) {
          grad_weight = at::zeros(weight.sizes(), weight.options().dtype(p.scalar_type()));
        }
        grad_bias = at::zeros_like(sum);
      }
      if (to_x.defined()) grad_x.narrow(0, from, n).copy_(to_x);
      if (to_weight.defined()) grad_weight.add_(to_weight);
      grad_bias.add_(sum);
    }
    if (rows == 0) {
      return {at::zeros_like(x), at::zeros_like(weight), at::zeros_like(bias), {}, {}, {}};
    }
    if (grad_weight.defined()) grad_weight = grad_weight.to(weight.scalar_type());
    return {grad_x, grad_weight, grad_bias.to(bias.scalar_type()), {}, {}, {}};
  }

 private:
  static at::Tensor logits_of(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& bias) {
    return linear(x, weight, bias, x.scalar_type()).to(score_dtype(x.scalar_type()));
  }
};

// Numbers of a block of logits that stay in the processor's cache while they are summed up.
constexpr int64_t kBlockLogits = 1 << 21;
constexpr int64_t kMaxRows = 1024;  // of a block

// The summary of at most kMaxRows rows, into the tensors of `out`.
void summarize_block(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& target, const LogitSummary& out) {
  const int64_t ids = weight.size(0), rows = x.size(0);
  const int64_t block = std::clamp<int64_t>(kBlockLogits / std::max<int64_t>(1, rows), 1024,
                                            std::max<int64_t>(1024, kMaxFactor / x.size(1)));
  for (int64_t first = 0; first < ids; first += block) {
    const int64_t count = std::min(block, ids - first);
    const at::Tensor logits =
        linear(x, weight.narrow(0, first, count), bias.narrow(0, first, count), x.scalar_type())
            .to(out.log_sum.scalar_type());
    const at::Tensor place = target - first;
    const at::Tensor own = logits.gather(1, place.clamp(0, count - 1).unsqueeze(1)).squeeze(1);
    const at::Tensor sum = at::logsumexp(logits, 1);
    if (first == 0) {
      out.own.copy_(own);
      out.log_sum.copy_(sum);
    } else {
      out.own.copy_(at::where(place.ge(0), own, out.own));
      out.log_sum.copy_(at::logaddexp(out.log_sum, sum));
    }
    if (!out.best.defined()) continue;
    const auto [value, id] = max_of_rows(logits);
    if (first == 0) {
      out.best.copy_(id);
      out.highest.copy_(value);
    } else {
      // A NaN counts as the largest, as LibTorch's max has it.
      const at::Tensor is_higher =
          value.gt(out.highest)
              .logical_or_(value.isnan().logical_and_(out.highest.isnan().logical_not_()));
      out.best.copy_(at::where(is_higher, id + first, out.best));
      out.highest.copy_(at::where(is_higher, value, out.highest));
    }
  }
}

}  // namespace

LogitSummary summarize_logits(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& target, bool wants_best) {
  const int64_t rows = x.size(0);
  const at::TensorOptions options = x.options().dtype(score_dtype(x.scalar_type()));
  LogitSummary out{at::empty({rows}, options), at::empty({rows}, options), {}, {}};
  if (wants_best) {
    out.highest = at::empty({rows}, options);
    out.best = at::empty({rows}, target.options());
  }
  for (int64_t from = 0; from < rows; from += kMaxRows) {
    const int64_t n = std::min(kMaxRows, rows - from);
    const auto part = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, from, n) : all;
    };
    summarize_block(part(x), weight, bias, part(target),
                    {part(out.log_sum), part(out.own), part(out.highest), part(out.best)});
  }
  return out;
}

at::Tensor linear_nll(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      const at::Tensor& target, at::Tensor* best, int64_t kept_logits) {
  if (!at::GradMode::is_enabled() && x.device().is_cpu()) {
    const LogitSummary summary = summarize_logits(x, weight, bias, target, best != nullptr);
    if (best != nullptr) *best = summary.best;
    return (summary.log_sum - summary.own).masked_fill_(target < 0, 0.0);
  }
  return LinearNll::apply(x, weight, bias, target, best, kept_logits);
}

}  // namespace mneme::backbone
