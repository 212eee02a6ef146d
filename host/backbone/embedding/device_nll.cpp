#include "host/backbone/embedding/device_nll.hpp"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "host/backbone/attention/attention.hpp"
#include "host/backbone/embedding/shared_gradient.hpp"
#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/padded_product.hpp"
#include "host/tensor/torch.hpp"
#include "host/tensor/torch_function.hpp"

namespace mneme::backbone {
namespace {

using kernel::CrossEntropyKernels;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr std::int64_t kLeastIds = 1024;  // of a block, so that its products stay large

// The ids whose logits of all rows of x fit into `bytes`.
std::int64_t ids_in(std::int64_t bytes, const at::Tensor& x) {
  return bytes / std::max<std::int64_t>(1, x.size(0) * x.element_size());
}
// The same as a block.
std::int64_t block_in(std::int64_t bytes, const at::Tensor& x) {
  return std::max(kLeastIds, ids_in(bytes, x) / tensor::kPaddedTo * tensor::kPaddedTo);
}

// Calls body(first, count) for every block of ids.
template <typename Body>
void for_each_block(std::int64_t ids, std::int64_t block, const Body& body) {
  for (std::int64_t first = 0; first < ids; first += block) {
    body(first, std::min(block, ids - first));
  }
}

// Consecutive ids, whose products are padded or not (padded_product.hpp).
struct IdBlock {
  at::Tensor weight;  // their rows, in the dtype of the products
  at::Tensor bias;    // undefined = none
  std::int64_t first = 0;
  std::int64_t count = 0;
  bool is_padded = false;

  IdBlock(const at::Tensor& all, const at::Tensor& biases, std::int64_t from, std::int64_t ids)
      : weight(all.narrow(0, from, ids)), first(from), count(ids), is_padded(pads(all)) {
    if (biases.defined()) bias = biases.narrow(0, from, ids).to(all.scalar_type());
    if (!is_padded) return;
    weight = tensor::padded(weight);
    if (bias.defined()) bias = tensor::padded(bias);
  }
  static bool pads(const at::Tensor& weight) {
    return tensor::pads_products(weight.device(), weight.scalar_type(), weight.sizes());
  }
};

// x [n,d] as the products with the weight [V,d] take it.
at::Tensor rows_for(const at::Tensor& x, const at::Tensor& weight) {
  return IdBlock::pads(weight) ? tensor::padded_rows(x) : x;
}

// [n,count] of x from rows_for(), whose rows lie padded_size(count) numbers apart.
at::Tensor aligned_logits(const at::Tensor& x, const IdBlock& ids) {
  const at::Tensor whole = at::empty({x.size(0), tensor::padded_size(ids.count)}, x.options());
  at::Tensor out = whole.narrow(1, 0, ids.weight.size(0));
  if (ids.bias.defined()) {
    at::addmm_out(out, ids.bias, x, ids.weight.t());
  } else {
    at::mm_out(out, x, ids.weight.t());
  }
  return whole.narrow(1, 0, ids.count);
}

// Gradients [n,count] that lie where aligned_logits() did, as products take them: zeros behind
// those of a padded block.
at::Tensor rows_of_gradients(const at::Tensor& p, const IdBlock& ids) {
  if (!ids.is_padded) return p;
  const at::Tensor whole = p.as_strided({p.size(0), p.stride(0)}, p.strides());
  whole.narrow(1, ids.count, whole.size(1) - ids.count).zero_();
  return whole;
}

kernel::LogitBlock block_of(const at::Tensor& logits, const at::Tensor& target,
                            std::int64_t first) {
  const at::ScalarType type = logits.scalar_type();
  return {.element = type == at::kDouble     ? kernel::Element::kF64
                     : type == at::kBFloat16 ? kernel::Element::kBF16
                                             : kernel::Element::kF32,
          .rows = logits.size(0),
          .ids = logits.size(1),
          .first = first,
          .stride = logits.stride(0),
          .target = target.const_data_ptr<std::int64_t>()};
}

void check_kernel(const char* failed) {
  if (failed != nullptr) throw_device({.where = "softmax over the vocabulary", .failed = failed});
}

void* data_of(const at::Tensor& t) { return t.defined() ? t.mutable_data_ptr() : nullptr; }

// Adds a block's logits to `out` and `nll`.
void summarize_ids(const CrossEntropyKernels& kernels, const at::Tensor& logits,
                   const at::Tensor& target, std::int64_t first, const LogitSummary& out,
                   const at::Tensor& nll) {
  const std::vector<at::Tensor> results = {out.log_sum, out.own, nll, out.highest, out.best};
  std::vector<at::Tensor> reads = {logits, target};
  if (first > 0) reads.insert(reads.end(), results.begin(), results.end());
  tensor::run_traced(
      str("summary of logits from ", first), reads, results,
      [&kernels, first](const std::vector<at::Tensor>& t, std::int64_t) {
        const c10::DeviceGuard current(t[0].device());
        const at::Tensor* const to = t.data() + t.size() - 5;
        check_kernel(kernels.summarize(
            block_of(t[0], t[1], first), t[0].const_data_ptr(),
            {.log_sum = data_of(to[0]),
             .own = data_of(to[1]),
             .nll = data_of(to[2]),
             .highest = data_of(to[3]),
             .best = to[4].defined() ? to[4].mutable_data_ptr<std::int64_t>() : nullptr},
            tensor::stream_of(t[0].device())));
      });
}

// Of all ids, `block` of them at a time. Returns the last block's logits.
at::Tensor summarize_in_blocks(const CrossEntropyKernels& kernels, const at::Tensor& x,
                               const at::Tensor& weight, const at::Tensor& bias,
                               const at::Tensor& target, std::int64_t block,
                               const LogitSummary& out, const at::Tensor& nll) {
  at::Tensor logits;
  for_each_block(weight.size(0), block, [&](std::int64_t first, std::int64_t count) {
    logits.reset();
    logits = aligned_logits(x, {weight, bias, first, count});
    summarize_ids(kernels, logits, target, first, out, nll);
  });
  return logits;
}

// Makes gradients of a block's logits; `sum_scale`, undefined = none, lies densely; `bias` [count]
// receives their sums, where it is defined.
void differentiate_block(const CrossEntropyKernels& kernels, const at::Tensor& logits,
                         const at::Tensor& target, std::int64_t first, const at::Tensor& log_sum,
                         const at::Tensor& scale, const at::Tensor& sum_scale,
                         const at::Tensor& bias) {
  tensor::run_traced(
      str("gradients of logits from ", first), {logits, target, log_sum, scale, sum_scale},
      {logits, bias}, [&kernels, first](const std::vector<at::Tensor>& t, std::int64_t) {
        const at::Tensor& own = t[6];
        const c10::DeviceGuard current(t[0].device());
        const kernel::LogitBlock block = block_of(t[0], t[1], first);
        at::Tensor workspace;
        if (own.defined()) {
          workspace = at::empty({static_cast<std::int64_t>(kernels.workspace(block))},
                                own.options().dtype(at::kByte));
        }
        check_kernel(kernels.differentiate(block, t[5].mutable_data_ptr(),
                                           {.log_sum = t[2].const_data_ptr(),
                                            .scale = t[3].const_data_ptr(),
                                            .scale_stride = t[3].stride(0),
                                            .bias = data_of(own),
                                            .sum_scale = data_of(t[4])},
                                           data_of(workspace), tensor::stream_of(t[0].device())));
      });
}

// What a backward pass needs beside tensors.
struct DevicePass {
  const CrossEntropyKernels& kernels;
  std::int64_t block_bytes;
  std::shared_ptr<SharedGradient> gradient;
  std::int64_t first_row;
  at::Tensor weight;      // in the dtype of the products
  bool is_spent = false;  // gradients lie where the kept logits were
};

class DeviceNll : public torch::autograd::Function<DeviceNll> {
 public:
  // As LinearNll.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                               const std::optional<at::Tensor>& bias, const at::Tensor& target,
                               at::Tensor* best, const std::shared_ptr<DevicePass>& pass,
                               const LogitLimits& limits, bool wants_log_sum) {
    const at::Tensor shift = bias.value_or(at::Tensor()), low = std::exchange(pass->weight, {});
    const std::int64_t ids = weight.size(0);
    const bool is_kept = ids_in(limits.kept, x) >= ids;
    const LogitSummary summary = empty_summary(x, target, best != nullptr);
    const at::Tensor nll = at::empty_like(summary.log_sum), rows = rows_for(x, low);
    at::Tensor logits =
        summarize_in_blocks(pass->kernels, rows, low, shift, target,
                            is_kept ? ids : block_in(limits.block, x), summary, nll);
    if (!is_kept) logits.reset();
    if (best != nullptr) *best = summary.best;
    tensor::keep_pointer(ctx, pass);
    ctx->saved_data["type"] = static_cast<std::int64_t>(weight.scalar_type());
    ctx->save_for_backward({rows, low, shift, target, summary.log_sum, logits});
    variable_list out = {nll};
    if (wants_log_sum) out.push_back(summary.log_sum.masked_fill(target < 0, 0.0));
    return out;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    const variable_list saved = ctx->get_saved_variables();
    const at::Tensor &x = saved[0], &weight = saved[1], &bias = saved[2], &target = saved[3];
    const std::shared_ptr<DevicePass> pass = tensor::kept_pointer<DevicePass>(ctx);
    const bool is_there = saved[5].defined() && !std::exchange(pass->is_spent, true);
    const std::int64_t ids = weight.size(0);
    Gradients out = empty_gradients(ctx, *pass, weight, bias, saved[4]);
    const at::Tensor sum_scale = grads.size() > 1 ? grads[1].contiguous() : at::Tensor();
    for_each_block(ids, is_there ? ids : block_in(pass->block_bytes, x),
                   [&](std::int64_t first, std::int64_t count) {
                     const IdBlock block(weight, bias, first, count);
                     const at::Tensor p = is_there ? saved[5] : aligned_logits(x, block);
                     differentiate_block(
                         pass->kernels, p, target, first, saved[4], grads[0], sum_scale,
                         out.bias.defined() ? out.bias.narrow(0, first, count) : at::Tensor());
                     multiply(rows_of_gradients(p, block), x, block, ctx->needs_input_grad(0),
                              count == ids, out);
                   });
    if (out.x.defined()) out.x = out.x.narrow(1, 0, weight.size(1));
    const auto in_type_of = [](const at::Tensor& grad, const at::Tensor& of) {
      return grad.defined() ? grad.to(of.scalar_type()) : grad;
    };
    return {in_type_of(out.x, x), out.weight, in_type_of(out.bias, bias), {}, {}, {}, {}, {}};
  }

 private:
  struct Gradients {
    at::Tensor x;       // of the ids so far; of several blocks in the dtype of sums
    at::Tensor weight;  // in the rows of the shared gradient where there is one
    at::Tensor bias;    // in the dtype of sums
  };

  static Gradients empty_gradients(AutogradContext* ctx, const DevicePass& pass,
                                   const at::Tensor& weight, const at::Tensor& bias,
                                   const at::Tensor& log_sum) {
    Gradients out;
    const at::TensorOptions options = weight.options().requires_grad(false).dtype(
        static_cast<at::ScalarType>(ctx->saved_data["type"].toInt()));
    if (ctx->needs_input_grad(1)) {
      out.weight = pass.gradient ? pass.gradient->rows(pass.first_row, weight.size(0), options)
                                 : at::empty(weight.sizes(), options);
    }
    if (bias.defined() && ctx->needs_input_grad(2)) {
      out.bias = at::empty({weight.size(0)}, log_sum.options());
    }
    return out;
  }

  // What the gradients p of a block's logits bring.
  static void multiply(const at::Tensor& p, const at::Tensor& x, const IdBlock& ids, bool wants_x,
                       bool is_one_block, Gradients& out) {
    if (out.weight.defined()) {
      at::Tensor own = out.weight.narrow(0, ids.first, ids.count);
      if (own.scalar_type() == x.scalar_type() && !ids.is_padded) {
        at::mm_out(own, p.t(), x);
      } else {
        own.copy_(at::mm(p.t(), x).narrow(0, 0, ids.count).narrow(1, 0, own.size(1)));
      }
    }
    if (!wants_x) return;
    const at::Tensor own = at::mm(p, ids.weight);
    if (is_one_block) {
      out.x = own;
    } else if (!out.x.defined()) {
      out.x = own.to(score_dtype(x.scalar_type()));
    } else {
      out.x.add_(own);
    }
  }
};

}  // namespace

bool has_device_nll() { return CrossEntropyKernels::for_cuda() != nullptr; }

at::Tensor linear_nll_by(const CrossEntropyKernels& kernels, const at::Tensor& x,
                         const WeightRows& weight, const at::Tensor& bias, const at::Tensor& target,
                         at::Tensor* best, const LogitLimits& limits, at::Tensor* log_sum) {
  const at::Tensor ids = target.contiguous();
  const at::Tensor low =
      weight.converted.defined() ? weight.converted : weight.rows.detach().to(x.scalar_type());
  if (at::GradMode::is_enabled()) {
    const auto pass = std::make_shared<DevicePass>(
        DevicePass{kernels, limits.block, weight.gradient, weight.first, low});
    const variable_list out = DeviceNll::apply(x, weight.rows, tensor::optional_input(bias), ids,
                                               best, pass, limits, log_sum != nullptr);
    if (log_sum != nullptr) *log_sum = out[1];
    return out[0];
  }
  at::Tensor nll;
  const LogitSummary summary =
      summarize_by(kernels, x, low, bias, ids, best != nullptr, &nll, limits);
  if (best != nullptr) *best = summary.best;
  if (log_sum != nullptr) *log_sum = summary.log_sum.masked_fill(ids < 0, 0.0);
  return nll;
}

LogitSummary summarize_by(const CrossEntropyKernels& kernels, const at::Tensor& x,
                          const at::Tensor& weight, const at::Tensor& bias,
                          const at::Tensor& target, bool wants_best, at::Tensor* nll,
                          const LogitLimits& limits) {
  const at::Tensor ids = target.contiguous();
  const LogitSummary out = empty_summary(x, ids, wants_best);
  if (nll != nullptr) *nll = at::empty_like(out.log_sum);
  summarize_in_blocks(kernels, rows_for(x, weight), weight, bias, ids, block_in(limits.block, x),
                      out, nll != nullptr ? *nll : at::Tensor());
  return out;
}

}  // namespace mneme::backbone
