#include "host/memory/segment/merge.hpp"

#include "host/tensor/torch.hpp"
#include "mneme/plugin.h"

namespace mneme::memory {
namespace {

// [B,H,T] -> [B,T,H,1]
at::Tensor over_heads(const at::Tensor& per_query) {
  return per_query.transpose(1, 2).unsqueeze(-1);
}

// Softmax over {local, extra keys of every result}: weights exp(lse_i - max) / sum. -inf has weight
// and gradient exactly 0.
at::Tensor join_by_lse(const at::Tensor& local, const at::Tensor& local_lse,
                       const std::vector<const ReadResult*>& results) {
  std::vector<at::Tensor> lses = {local_lse};
  std::vector<at::Tensor> values = {local};
  for (const ReadResult* result : results) {
    lses.push_back(result->lse.to(local_lse.scalar_type()));
    values.push_back(result->out.to(local.scalar_type()));
  }
  const at::Tensor all = at::stack(lses);
  at::Tensor largest = all.detach().amax(0);
  largest = at::where(largest.isinf(), torch::zeros_like(largest), largest);
  const at::Tensor weights = (all - largest).exp();
  const at::Tensor total = weights.sum(0);
  const at::Tensor normed = weights / at::where(total == 0, torch::ones_like(total), total);
  at::Tensor out;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const at::Tensor absent = over_heads(lses[i].isneginf());
    const at::Tensor value =
        values[i].masked_fill(absent, 0);  // what nobody reads may hold anything
    const at::Tensor term =
        over_heads(normed[static_cast<int64_t>(i)]).to(local.scalar_type()) * value;
    out = out.defined() ? out + term : term;
  }
  return out;
}

}  // namespace

at::Tensor merge_reads(const at::Tensor& local, const at::Tensor& lse,
                       const std::vector<ReadResult>& results) {
  std::vector<const ReadResult*> joint;
  for (const ReadResult& result : results) {
    if (result.merge == MNEME_MERGE_LSE) joint.push_back(&result);
  }
  at::Tensor out = joint.empty() ? local : join_by_lse(local, lse, joint);
  const auto type = local.scalar_type();
  for (const ReadResult& result : results) {
    if (result.merge == MNEME_MERGE_LSE) continue;
    at::Tensor value = result.out.to(type);
    if (result.merge == MNEME_MERGE_GATE) {
      const at::Tensor gate = result.gate.to(type);
      value = at::where(gate == 0, torch::zeros({}, value.options()),
                        value);  // what nobody reads may hold anything
      out = gate * value + (1 - gate) * out;
    } else {
      out = result.merge == MNEME_MERGE_REPLACE ? value.expand_as(local) : out + value;
    }
  }
  return out;
}

}  // namespace mneme::memory
