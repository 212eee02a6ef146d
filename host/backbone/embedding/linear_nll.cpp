#include "host/backbone/embedding/linear_nll.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "host/backbone/attention/attention.hpp"
#include "host/backbone/embedding/device_nll.hpp"
#include "host/backbone/embedding/shared_gradient.hpp"
#include "host/backbone/linear.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/recompute.hpp"
#include "host/tensor/row_summary.hpp"
#include "host/tensor/torch.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::backbone {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Gives the rows of the ids, or an empty tensor, and then the pieces.
class SplitFunction : public torch::autograd::Function<SplitFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& weight,
                               const std::optional<at::Tensor>& ids,
                               const std::vector<std::int64_t>& sizes,
                               const std::shared_ptr<SharedGradient>& gradient) {
    tensor::keep_pointer(ctx, gradient);
    ctx->save_for_backward({ids.value_or(at::Tensor())});
    ctx->saved_data["sizes"] = sizes;
    ctx->saved_data["type"] = static_cast<std::int64_t>(weight.scalar_type());
    ctx->saved_data["device"] = weight.device();
    ctx->set_materialize_grads(false);
    variable_list out = {ids ? at::embedding(weight, *ids) : at::empty({0}, weight.options())};
    for (const at::Tensor& piece : weight.split_with_sizes(sizes, 0)) out.push_back(piece);
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const std::vector<std::int64_t> sizes = ctx->saved_data["sizes"].toIntVector();
    const at::Tensor whole = tensor::kept_pointer<SharedGradient>(ctx)->take(
        at::TensorOptions()
            .dtype(static_cast<at::ScalarType>(ctx->saved_data["type"].toInt()))
            .device(ctx->saved_data["device"].toDevice()));
    std::int64_t first = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const at::Tensor piece = whole.narrow(0, first, sizes[i]);
      const at::Tensor& grad = grads[i + 1];
      first += sizes[i];
      if (!grad.defined()) {
        piece.zero_();
      } else if (grad.data_ptr() != piece.data_ptr()) {
        piece.copy_(grad);
      }
    }
    if (grads[0].defined()) add_rows(whole, ctx->get_saved_variables()[0], grads[0]);
    return {whole, {}, {}, {}};
  }

 private:
  // In the order of the ids, whatever the device: index_add_ has none on CUDA.
  static void add_rows(const at::Tensor& whole, const at::Tensor& ids, const at::Tensor& grad) {
    if (whole.is_cpu()) {
      whole.index_add_(0, ids.reshape(-1), grad.reshape({-1, whole.size(1)}));
    } else {
      whole.add_(at::embedding_dense_backward(grad, ids, whole.size(0), /*padding_idx=*/-1,
                                              /*scale_grad_by_freq=*/false));
    }
  }
};

constexpr std::int64_t kMaxRows = 1024;  // of a block

// Of rows of logits, of which own [n] is one a row, at `place` [n,1]. LibTorch's logsumexp is eight
// kernels on a device, its log_softmax one.
tensor::RowSummary summary_of(const at::Tensor& logits, const at::Tensor& own,
                              const at::Tensor& place, bool wants_best) {
  if (logits.is_cpu()) {
    return tensor::summarize_rows(logits,
                                  wants_best ? tensor::RowParts::kBoth : tensor::RowParts::kLogSum);
  }
  tensor::RowSummary out;
  out.log_sum = own - at::log_softmax(logits, 1).gather(1, place).squeeze(1);
  if (wants_best) std::tie(out.highest, out.best) = logits.max(1);
  return out;
}

// How many ids' logits of so many rows are made at once.
std::int64_t ids_at_once(const at::Tensor& x, std::int64_t rows, std::int64_t ids) {
  const std::int64_t logits = x.is_cpu() ? kBlockLogits : kKeptLogits;
  const std::int64_t widest =
      x.is_cpu() ? std::max<std::int64_t>(1024, kMaxFactor / x.size(1)) : ids;
  return std::clamp<std::int64_t>(logits / std::max<std::int64_t>(1, rows),
                                  std::min<std::int64_t>(1024, widest), widest);
}

// The summary of at most kMaxRows rows, into the tensors of `out`.
void summarize_block(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                     const at::Tensor& target, const LogitSummary& out) {
  const std::int64_t ids = weight.size(0), rows = x.size(0);
  const std::int64_t block = ids_at_once(x, rows, ids);
  for (std::int64_t first = 0; first < ids; first += block) {
    const std::int64_t count = std::min(block, ids - first);
    const at::Tensor logits =
        linear(x, weight.narrow(0, first, count), bias.narrow(0, first, count), x.scalar_type())
            .to(out.log_sum.scalar_type());
    const at::Tensor place = target - first;
    const at::Tensor within = place.clamp(0, count - 1).unsqueeze(1);
    const at::Tensor own = logits.gather(1, within).squeeze(1);
    const tensor::RowSummary found = summary_of(logits, own, within, out.best.defined());
    if (first == 0) {
      out.own.copy_(own);
      out.log_sum.copy_(found.log_sum);
    } else {
      out.own.copy_(at::where(place.ge(0), own, out.own));
      out.log_sum.copy_(at::logaddexp(out.log_sum, found.log_sum));
    }
    if (!out.best.defined()) continue;
    const at::Tensor &value = found.highest, &id = found.best;
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

class LinearNll : public torch::autograd::Function<LinearNll> {
 public:
  // Gives the losses, and behind them the logs of the sums where they are asked for.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                               const at::Tensor& bias, const at::Tensor& target, at::Tensor* best,
                               std::int64_t kept_logits,
                               const std::shared_ptr<SharedGradient>& gradient,
                               std::int64_t first_row, bool wants_log_sum) {
    LogitSummary summary;
    at::Tensor logits;
    if (x.size(0) * weight.size(0) <= kept_logits) {
      logits = logits_of(x, weight, bias);
      const at::Tensor place = target.clamp_min(0).unsqueeze(1);
      summary.own = logits.gather(1, place).squeeze(1);
      const tensor::RowSummary found = summary_of(logits, summary.own, place, best != nullptr);
      summary.log_sum = found.log_sum;
      summary.best = found.best;
    } else {
      summary = summarize_logits(x, weight, bias, target, best != nullptr);
    }
    if (best != nullptr) *best = summary.best;
    const at::Tensor nll = summary.log_sum - summary.own;
    ctx->save_for_backward({x, weight, bias, target, summary.log_sum, logits});
    if (gradient) {
      tensor::keep_pointer(ctx, gradient);
      ctx->saved_data["first_row"] = first_row;
    }
    variable_list out = {nll.masked_fill(target < 0, 0.0)};
    if (wants_log_sum) out.push_back(summary.log_sum.masked_fill(target < 0, 0.0));
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &target = saved[3];
    const at::Tensor &log_sum = saved[4], &logits = saved[5];
    const auto of_targets = [&](const at::Tensor& grad) {
      return grad.masked_fill(target < 0, 0.0).unsqueeze(1);
    };
    const at::Tensor own = of_targets(grads[0]);
    const at::Tensor scale = grads.size() > 1 ? own + of_targets(grads[1]) : own;
    Gradients out;
    if (ctx->needs_input_grad(1)) out.weight = empty_gradient(ctx, weight);
    out.bias = at::empty_like(bias);
    const std::int64_t ids = weight.size(0), block = ids_at_once(x, x.size(0), ids);
    for (std::int64_t first = 0; first < ids; first += block) {
      const std::int64_t count = std::min(block, ids - first);
      const at::Tensor rows = weight.narrow(0, first, count);
      at::Tensor p = logits.defined()
                         ? logits.narrow(1, first, count) - log_sum.unsqueeze(1)
                         : logits_of(x, rows, bias.narrow(0, first, count)) -= log_sum.unsqueeze(1);
      add(p.exp_(), scale, own, target, first, x, rows, ctx->needs_input_grad(0), out);
    }
    const at::Tensor grad_x = out.x.defined() ? out.x.to(x.scalar_type()) : out.x;
    return {grad_x, out.weight, out.bias, {}, {}, {}, {}, {}, {}};
  }

 private:
  struct Gradients {
    at::Tensor x, weight, bias;  // x: of the ids so far, in the dtype of probabilities
  };

  // What the probabilities p of ids from `first` on bring, which are overwritten. They count by
  // `scale`, the logits of targets by -own.
  static void add(at::Tensor p, const at::Tensor& scale, const at::Tensor& own,
                  const at::Tensor& target, std::int64_t first, const at::Tensor& x,
                  const at::Tensor& rows, bool wants_x, Gradients& out) {
    const std::int64_t count = p.size(1);
    const at::Tensor place = (target - first).unsqueeze(1);
    const at::Tensor is_here = place.ge(0).logical_and_(place.lt(count));
    p.mul_(scale).scatter_add_(1, place.clamp(0, count - 1),
                               at::where(is_here, -own, 0.0));  // gradients of the logits
    out.bias.narrow(0, first, count).copy_(p.sum(0));
    const at::Tensor low = p.to(x.scalar_type());
    if (out.weight.defined()) {
      at::Tensor of_ids = out.weight.narrow(0, first, count);
      at::mm_out(of_ids, low.t(), x);
    }
    if (!wants_x) return;
    const bool is_same = low.scalar_type() == p.scalar_type();
    if (!out.x.defined()) {
      out.x = at::mm(low, rows).to(p.scalar_type());
    } else if (is_same) {
      out.x.addmm_(low, rows);
    } else {
      out.x.add_(at::mm(low, rows));
    }
  }

  // In the rows of the shared gradient where there is one.
  static at::Tensor empty_gradient(AutogradContext* ctx, const at::Tensor& weight) {
    const std::shared_ptr<SharedGradient> gradient = tensor::kept_pointer<SharedGradient>(ctx);
    if (!gradient) return at::empty(weight.sizes(), weight.options().requires_grad(false));
    return gradient->rows(ctx->saved_data["first_row"].toInt(), weight.size(0),
                          weight.options().requires_grad(false));
  }

  static at::Tensor logits_of(const at::Tensor& x, const at::Tensor& weight,
                              const at::Tensor& bias) {
    return linear(x, weight, bias, x.scalar_type()).to(score_dtype(x.scalar_type()));
  }
};

}  // namespace

LogitSummary empty_summary(const at::Tensor& x, const at::Tensor& target, bool wants_best) {
  const at::TensorOptions options = x.options().dtype(score_dtype(x.scalar_type()));
  LogitSummary out{at::empty({x.size(0)}, options), at::empty({x.size(0)}, options), {}, {}};
  if (wants_best) {
    out.highest = at::empty({x.size(0)}, options);
    out.best = at::empty({x.size(0)}, target.options());
  }
  return out;
}

LogitSummary summarize_logits(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                              const at::Tensor& target, bool wants_best) {
  if (const auto* const kernels = tensor::cross_entropy_kernels(x)) {
    return summarize_by(*kernels, x, weight, bias, target, wants_best);
  }
  const std::int64_t rows = x.size(0);
  const LogitSummary out = empty_summary(x, target, wants_best);
  for (std::int64_t from = 0; from < rows; from += kMaxRows) {
    const std::int64_t n = std::min(kMaxRows, rows - from);
    const auto part = [&](const at::Tensor& all) {
      return all.defined() ? all.narrow(0, from, n) : all;
    };
    summarize_block(part(x), weight, bias, part(target),
                    {part(out.log_sum), part(out.own), part(out.highest), part(out.best)});
  }
  return out;
}

SplitWeight split_weight(const at::Tensor& weight, const std::vector<std::int64_t>& sizes,
                         const at::Tensor& ids) {
  SplitWeight out;
  if (!at::GradMode::is_enabled() || !weight.requires_grad()) {
    for (const at::Tensor& rows : weight.split_with_sizes(sizes, 0)) out.pieces.push_back({rows});
    if (ids.defined()) out.rows = at::embedding(weight, ids);
    return out;
  }
  const auto gradient = std::make_shared<SharedGradient>(weight.sizes());
  const variable_list all =
      SplitFunction::apply(weight, tensor::optional_input(ids), sizes, gradient);
  if (ids.defined()) out.rows = all[0];
  std::int64_t first = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    out.pieces.push_back({all[i + 1], gradient, first});
    first += sizes[i];
  }
  return out;
}

at::Tensor linear_nll(const at::Tensor& x, const WeightRows& weight, const at::Tensor& bias,
                      const at::Tensor& target, at::Tensor* best, std::int64_t kept_logits,
                      at::Tensor* log_sum) {
  if (const auto* const kernels = tensor::cross_entropy_kernels(x)) {
    return linear_nll_by(*kernels, x, weight, bias, target, best, {}, log_sum);
  }
  const at::Tensor shift =
      bias.defined() ? bias : at::zeros({weight.rows.size(0)}, x.options().requires_grad(false));
  if (!at::GradMode::is_enabled() && x.device().is_cpu()) {
    const LogitSummary summary = summarize_logits(x, weight.rows, shift, target, best != nullptr);
    if (best != nullptr) *best = summary.best;
    if (log_sum != nullptr) *log_sum = summary.log_sum.masked_fill(target < 0, 0.0);
    return (summary.log_sum - summary.own).masked_fill_(target < 0, 0.0);
  }
  const variable_list out = LinearNll::apply(x, weight.rows, shift, target, best, kept_logits,
                                             weight.gradient, weight.first, log_sum != nullptr);
  if (log_sum != nullptr) *log_sum = out[1];
  return out[0];
}

at::Tensor capped_nll(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                      double cap, const at::Tensor& target, at::Tensor* best,
                      std::int64_t kept_logits, at::Tensor* log_sum) {
  const std::int64_t rows = x.size(0), ids = weight.size(0);
  const bool keeps = rows * ids <= kept_logits;
  const std::int64_t block = std::max<std::int64_t>(keeps ? rows : kept_logits / ids, 1);
  const auto logits_of = [cap](const std::vector<at::Tensor>& in) {
    const at::ScalarType type = in[0].scalar_type();
    const at::Tensor plain = linear(in[0], in[1], in.size() > 2 ? in[2] : at::Tensor(), type);
    return softcapped(plain.to(score_dtype(type)), cap);
  };
  std::vector<at::Tensor> inputs = {at::Tensor(), weight.to(x.scalar_type())};
  if (bias.defined()) inputs.push_back(bias.to(x.scalar_type()));
  std::vector<at::Tensor> nll, bests;
  for (std::int64_t first = 0; first == 0 || first < rows; first += block) {
    const std::int64_t count = std::min(block, rows - first);
    // [count], or with the logs of the sums behind them [2,count].
    const auto nll_of = [own = target.narrow(0, first, count), wants_sum = log_sum != nullptr,
                         logits_of](const std::vector<at::Tensor>& in) {
      const at::Tensor logits = logits_of(in), sum = at::logsumexp(logits, 1);
      const at::Tensor of_target = logits.gather(1, own.clamp_min(0).unsqueeze(1)).squeeze(1);
      const at::Tensor out = wants_sum ? at::stack({sum - of_target, sum}) : sum - of_target;
      return out.masked_fill(own < 0, 0.0);
    };
    inputs[0] = x.narrow(0, first, count);
    nll.push_back(keeps ? nll_of(inputs) : tensor::recomputed(nll_of, inputs));
    if (best == nullptr) continue;
    const at::NoGradGuard no_grad;
    bests.push_back(logits_of(inputs).argmax(1));
  }
  if (best != nullptr) *best = at::cat(bests);
  const at::Tensor all = at::cat(nll, -1);
  if (log_sum == nullptr) return all;
  *log_sum = all.select(0, 1);
  return all.select(0, 0);
}

}  // namespace mneme::backbone
