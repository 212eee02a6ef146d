// Stage 6 (read): the tiers' results, checked and merged with the local result.
#include <algorithm>

#include "host/base/error.hpp"
#include "host/memory/call/normalise.hpp"
#include "host/memory/segment/segment_impl.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// Whether t broadcasts to `full`; lanes and tokens always may, the other dimensions only with
// any_dimension.
bool fits(const at::Tensor& t, const std::vector<std::int64_t>& full, bool any_dimension) {
  if (t.dim() != static_cast<std::int64_t>(full.size())) return false;
  for (std::size_t d = 0; d < full.size(); ++d) {
    const std::int64_t size = t.size(static_cast<std::int64_t>(d));
    if (size != full[d] && !(size == 1 && (d < 2 || any_dimension))) return false;
  }
  return true;
}

}  // namespace

at::Tensor SegmentHooks::Impl::checked_out(const mneme_read& out,
                                           const std::vector<std::int64_t>& full) const {
  at::Tensor result = ctx.handles.get(out.out);
  const bool is_flat_heads =
      full.size() == 4 && result.dim() == 3 && result.size(2) == full[2] * full[3];
  if (is_flat_heads) result = result.unflatten(2, {full[2], full[3]});
  if (!fits(result, full, false))
    throw CallError(MNEME_E_SHAPE,
                    str("read: out: expected ", list_text(full), " (B and T may be 1), got ",
                        list_text(result.sizes().vec()), other_site(result, full.size() == 4)));
  if (!result.is_floating_point())
    throw CallError(MNEME_E_DTYPE, str("read: out: expected a floating-point tensor, got ",
                                       tensor::dtype_text(result.scalar_type()),
                                       ": no gradient passes through it"));
  return result;
}

// A hint for a result that does not fit its site but fits the other one; "" when it fits neither.
std::string SegmentHooks::Impl::other_site(const at::Tensor& result, bool is_heads) const {
  const BackboneInfo& backbone = stack.backbone();
  const std::int64_t width = ctx.instance->value_width(), inner = backbone.heads * width;
  const auto fits_as = [&](std::vector<std::int64_t> full) { return fits(result, full, false); };
  const bool fits_other = is_heads
                              ? fits_as({shared.lanes, shared.length, backbone.width})
                              : fits_as({shared.lanes, shared.length, backbone.heads, width}) ||
                                    fits_as({shared.lanes, shared.length, inner});
  if (!fits_other) return "";
  const char* const own = is_heads ? "MNEME_SITE_HEADS" : "MNEME_SITE_OUT";
  const char* const other = is_heads ? "MNEME_SITE_OUT" : "MNEME_SITE_HEADS";
  const bool names_both =
      (ctx.instance->traits().sites & ~(is_heads ? MNEME_SITE_HEADS : MNEME_SITE_OUT)) != 0;
  return names_both ? str(": this is a result for ", other, ", but the site of this call is ", own)
                    : str(": this is a result for ", other, ", but traits.sites says ", own,
                          ": say reads_at(", other, ") in the constructor, or set traits.sites");
}

at::Tensor SegmentHooks::Impl::checked_gate(const mneme_read& out,
                                            const std::vector<std::int64_t>& full) const {
  at::Tensor gate = ctx.handles.get(out.gate);
  while (gate.dim() < static_cast<std::int64_t>(full.size())) gate = gate.unsqueeze(0);
  if (!fits(gate, full, true))
    throw CallError(MNEME_E_SHAPE,
                    str("read: gate: expected something that broadcasts to ", list_text(full),
                        ", got ", list_text(ctx.handles.get(out.gate).sizes().vec())));
  return gate;
}

at::Tensor SegmentHooks::Impl::checked_lse(const mneme_read& out) const {
  const at::Tensor lse = ctx.handles.get(out.lse);
  const std::vector<std::int64_t> expected = {shared.lanes, stack.backbone().heads, shared.length};
  if (lse.sizes() != at::IntArrayRef(expected))
    throw CallError(MNEME_E_SHAPE, str("read: lse: expected ", list_text(expected), ", got ",
                                       list_text(lse.sizes().vec())));
  return lse;
}

std::vector<std::int64_t> SegmentHooks::Impl::result_shape(const Instance& instance,
                                                           std::uint32_t site) const {
  const BackboneInfo& backbone = stack.backbone();
  if (site == MNEME_SITE_OUT) return {shared.lanes, shared.length, backbone.width};
  return {shared.lanes, shared.length, backbone.heads, instance.value_width()};
}

ReadResult SegmentHooks::Impl::checked_result(const mneme_read& out, std::uint32_t site) const {
  if (out.merge == MNEME_MERGE_LSE && site != MNEME_SITE_HEADS)
    throw CallError(MNEME_E_INVALID_ARGUMENT, "read: MNEME_MERGE_LSE belongs to MNEME_SITE_HEADS");
  const std::vector<std::int64_t> full = result_shape(*ctx.instance, site);
  ReadResult result;
  result.merge = out.merge;
  result.out = checked_out(out, full);
  if (out.merge == MNEME_MERGE_GATE) result.gate = checked_gate(out, full);
  if (out.merge == MNEME_MERGE_LSE) result.lse = checked_lse(out);
  if (input.watch != nullptr) check_finite(result);
  return result;
}

// A value with weight 0 may be NaN: merge_reads() leaves it out.
void SegmentHooks::Impl::check_finite(const ReadResult& result) const {
  at::Tensor out = result.out;
  ctx.check_output("gate", result.gate);
  ctx.check_output("lse", result.lse, Holds::kAbsent);
  if (result.gate.defined())
    out = at::where(result.gate == 0, torch::zeros({}, out.options()), out);
  if (result.lse.defined())
    out = out.masked_fill(result.lse.isneginf().transpose(1, 2).unsqueeze(-1), 0);
  ctx.check_output("result", out);
}

void SegmentHooks::Impl::count_read_rows(std::size_t i) {
  std::int64_t rows = 0;
  for (const auto& [queue, count] : ctx.rows_read) rows += count;
  read_rows.resize(work.size(), 0);
  read_rows[i] = std::max(read_rows[i], rows);
  const std::int64_t declared = work[i].instance().traits().read_rows;
  if (declared == 0 || rows <= declared) return;
  throw CallError(MNEME_E_INVALID_ARGUMENT,
                  str("reads ", rows, " rows of its queues, but read_rows declares at most ",
                      declared, "; declare the most that it reads: reports rely on the number"));
}

std::int64_t SegmentHooks::read_rows() const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < impl_->stack.tiers().size(); ++i) {
    const std::int64_t declared =
        impl_->tier(i).instance(impl_->state.counters().phase).traits().read_rows;
    sum += std::max(declared, i < impl_->read_rows.size() ? impl_->read_rows[i] : 0);
  }
  return sum;
}

ReadResult SegmentHooks::Impl::read(std::size_t i, std::int64_t layer, std::uint32_t site,
                                    const LocalAttention& local, const at::Tensor& projected,
                                    LayerServices& services) {
  ReadResult result;
  enter(i, Hook::kRead, layer, &services, {});
  check_input(layer_input, local.z, projected);
  mneme_queries in = MNEME_INIT(mneme_queries);
  in.segment = &seen_segment;
  in.layer = layer;
  in.site = site;
  const auto wants = [&](std::uint64_t bit) { return ctx.instance->wants(bit); };
  if (wants(MNEME_WANT_READ_Q)) in.q = ctx.handles.borrow(local.q);
  if (wants(MNEME_WANT_READ_K)) in.k = ctx.handles.borrow(ctx.instance->seen_keys(local.k));
  if (wants(MNEME_WANT_READ_V)) in.v = ctx.handles.borrow(ctx.instance->seen_keys(local.v));
  if (wants(MNEME_WANT_READ_Z)) in.z = ctx.handles.borrow(local.z);
  if (wants(MNEME_WANT_READ_LSE)) in.lse = ctx.handles.borrow(local.lse);
  if (wants(MNEME_WANT_READ_PROJECTED) && site == MNEME_SITE_OUT)
    in.projected = ctx.handles.borrow(projected);
  if (wants(MNEME_WANT_READ_X)) in.x = ctx.handles.borrow(layer_input);
  if (wants(MNEME_WANT_READ_NORMED)) in.normed = ctx.handles.borrow(local.normed);
  plugin::PluginFilled<mneme_read> filled;
  mneme_read& out = filled.value;
  run(&mneme_plugin::read, &in, &out);
  check_given([&] {
    count_read_rows(i);
    check_fields(out, "mneme_read");
    if (ctx.instance->replaces_attention() && out.merge != MNEME_MERGE_REPLACE)
      throw CallError(MNEME_E_INVALID_ARGUMENT,
                      str("read: merge: a tier that replaces the attention gives "
                          "MNEME_MERGE_REPLACE in every call, got ",
                          out.merge, ": there is nothing to merge with"));
    if (out.merge != MNEME_MERGE_NONE) result = checked_result(out, site);
  });
  leave();
  return result;
}

std::vector<ReadResult> SegmentHooks::Impl::read_all(std::int64_t layer, std::uint32_t site,
                                                     const LocalAttention& local,
                                                     const at::Tensor& projected,
                                                     LayerServices& services) {
  std::vector<ReadResult> results;
  for (std::size_t i = 0; i < work.size(); ++i) {
    const Instance& instance = work[i].instance();
    if (tier(i).served_index(layer) < 0 || (instance.traits().sites & site) == 0 ||
        instance.replaces_attention())
      continue;
    ReadResult result = read(i, layer, site, local, projected, services);
    if (result.merge != MNEME_MERGE_NONE) results.push_back(std::move(result));
  }
  return results;
}

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
    const at::Tensor value = values[i].masked_fill(absent, 0);  // a value with weight 0 may be NaN
    const at::Tensor term =
        over_heads(normed[static_cast<std::int64_t>(i)]).to(local.scalar_type()) * value;
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
                        value);  // a value with weight 0 may be NaN
      out = gate * value + (1 - gate) * out;
    } else {
      out = result.merge == MNEME_MERGE_REPLACE ? value.expand_as(local) : out + value;
    }
  }
  return out;
}

at::Tensor SegmentHooks::read_in_place(std::int64_t layer, const LocalAttention& local,
                                       LayerServices& services) {
  const Tier* const tier = impl_->stack.replacing_tier(layer);
  const auto i = static_cast<std::size_t>(tier->index());
  const Instance& instance = impl_->work[i].instance();
  const std::uint32_t site = instance.traits().sites;
  const ReadResult result = impl_->read(i, layer, site, local, {}, services);
  return result.out.to(impl_->layer_input.scalar_type())
      .expand(impl_->result_shape(instance, site));
}

at::Tensor SegmentHooks::read_heads(std::int64_t layer, const LocalAttention& local,
                                    LayerServices& services) {
  const std::vector<ReadResult> results =
      impl_->read_all(layer, MNEME_SITE_HEADS, local, {}, services);
  return results.empty() ? local.z : merge_reads(local.z, local.lse, results);
}

at::Tensor SegmentHooks::read_out(std::int64_t layer, const at::Tensor& projected,
                                  const LocalAttention& local, LayerServices& services) {
  const std::vector<ReadResult> results =
      impl_->read_all(layer, MNEME_SITE_OUT, local, projected, services);
  return results.empty() ? projected : merge_reads(projected, {}, results);
}

}  // namespace mneme::memory
