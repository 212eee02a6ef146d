// An open segment (generation) of backbone `xl`, and what each of its layers keeps.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "host/backbone/attention/columns.hpp"
#include "host/backbone/xl.hpp"
#include "host/memory/segment/segment_hooks.hpp"

namespace mneme::backbone {

// Keys and values of all columns in growing buffers, so that a step copies only its own rows; and
// the inputs of stage 7 (absorb), collected over the steps.
class OpenLayer {
 public:
  // Appends a step's k, v [B,n,H,d] (in the first step riders, then tokens) behind the context and
  // what came before. A context that differs from the previous step's replaces it.
  void extend(const ContextColumns& context, const at::Tensor& k, const at::Tensor& v);
  // All columns, [H,B,K,d] with K = context + rows appended, in the order of the blocks: views
  // whose rows are contiguous.
  at::Tensor keys() const { return columns_of(k_); }
  at::Tensor values() const { return columns_of(v_); }
  // The newest n rows, [B,n,H,d]: views.
  at::Tensor newest_keys(int64_t n) const { return newest(k_, n); }
  at::Tensor newest_values(int64_t n) const { return newest(v_, n); }

  // Which tensors of a step are kept for close().
  struct Wants {
    bool rows = false;
    bool queries = false;
    bool local = false;  // z and, when it is there, lse
  };
  // x [B,n,D], local of the step. Errors: Error(kPlugin) when the attention mass is wanted and the
  // number of context rows is not that of the steps before.
  void keep(const at::Tensor& x, const memory::LocalAttention& local, const Wants& wants,
            int64_t layer);
  // Of all `tokens`: x [B,T,D], undefined unless wanted, and the result of attention as a whole
  // segment would have it.
  at::Tensor all_rows() const;
  memory::LocalAttention all_local(int64_t tokens) const;

  void select(const at::Tensor& lanes);

 private:
  void set_context(const ContextColumns& context);
  void reserve(int64_t rows, const at::Tensor& like);
  at::Tensor columns_of(const at::Tensor& buffer) const;
  at::Tensor newest(const at::Tensor& buffer, int64_t n) const;
  void add_mass(const at::Tensor& mass, int64_t layer);

  at::Tensor k_, v_;     // [H,B,capacity,d]
  int64_t context_ = 0;  // rows of the context
  int64_t rows_ = 0;     // rows appended
  // The context as it was gathered: keys and values of its blocks.
  std::vector<at::Tensor> context_keys_, context_values_;
  std::vector<at::Tensor> x_, q_, z_, lse_;
  at::Tensor mass_;           // [B,K], summed over steps
  int64_t mass_context_ = 0;  // context rows in it
  std::vector<at::Tensor> context_k_, context_v_;
};

// --- An open segment of backbone `xl` ---

class XlOpenSegment final : public OpenSegment {
 public:
  // Both outlive the segment.
  XlOpenSegment(Xl& model, memory::SegmentHooks& hooks);

  at::Tensor step(const at::Tensor& ids) override;
  void close() override;
  void select(const std::vector<int64_t>& lanes) override;

 private:
  // The scope of the step that follows `past` tokens.
  SegmentScope scope(int64_t past);

  Xl& model_;
  memory::SegmentHooks& hooks_;
  std::vector<OpenLayer> layers_;
  int64_t tokens_ = 0;                            // of all steps
  std::vector<at::Tensor> tops_;                  // by step
  std::vector<std::vector<at::Tensor>> outputs_;  // by layer, by step; when a tier wants them
};

}  // namespace mneme::backbone
