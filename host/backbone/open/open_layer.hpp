// What a layer keeps of an open segment (generation), and the pass of a step through it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "host/backbone/attention/columns.hpp"
#include "host/backbone/attention/kernels/fused.hpp"
#include "host/backbone/layer_pass.hpp"
#include "host/memory/interface/backbone_interface.hpp"

namespace mneme::backbone {

// Keys as attention multiplies them, where they are not those that hooks see: turned to their
// places.
struct TurnedKeys {
  at::Tensor rows{};                              // [G,B,n,d] of the step; undefined = its k
  bool keeps_plain = true;                        // for newest_keys()
  std::function<at::Tensor()> context = nullptr;  // [G,B,rows,d]; called when it is new
};

// What even steps (OpenSegment) of a layer read: keys and values [G,B,rows,d], and in front of them
// those that lanes share, as OpenLayer::share made them; undefined = none.
struct EvenRows {
  at::Tensor k{}, v{};
  at::Tensor shared_k{};
};

// Keys and values of all columns in growing buffers, so that a step copies only its own rows; and
// the inputs of stage 7 (absorb), collected over the steps.
class OpenLayer {
 public:
  // Appends a step's k, v [B,n,G,d] (in the first step riders, then tokens) behind the context and
  // what came before. A context that differs from the previous step's replaces it.
  void extend(const ContextColumns& context, const at::Tensor& k, const at::Tensor& v,
              const TurnedKeys& used = {});
  // The columns of each lane alone, [G,B,K,d] with K = context + rows appended, in the order of the
  // blocks: views whose rows are contiguous. G is ContextColumns::key_heads.
  [[nodiscard]] at::Tensor keys() const { return k_.first(context_ + rows_ - shared_rows()); }
  [[nodiscard]] at::Tensor values() const { return v_.first(context_ + rows_ - shared_rows()); }
  // All columns, [B,K,G,d]: the rows that lanes share, if there are any, and those of each lane.
  [[nodiscard]] std::vector<KeyPiece> columns() const { return in_pieces(keys(), values()); }
  // Even steps, of a layer without context. Moves the rows to a room for that many, those that are
  // not in use zeros; true where that is other memory than the room was, or other rows are shared.
  bool move_to(EvenRows& room, std::int64_t rows);
  // The rows of a step, [G,B,1,d], at row [1] i64 of those that are not shared; that it was appended;
  // and all columns, with those that are free.
  void put(const at::Tensor& row, const at::Tensor& k, const at::Tensor& v);
  void count_row() { ++rows_; }
  [[nodiscard]] std::vector<KeyPiece> room() const { return in_pieces(k_.data, v_.data); }
  // The newest n rows as they were given, [B,n,G,d]: views.
  [[nodiscard]] at::Tensor newest_keys(std::int64_t n) const { return newest(plain_k_, k_, n); }
  [[nodiscard]] at::Tensor newest_values(std::int64_t n) const { return newest(plain_v_, v_, n); }

  // Which tensors of a step are kept for close().
  struct Wants {
    bool rows = false;
    bool queries = false;
    bool local = false;  // z and, when it is there, lse
    bool keys = false;   // k and v, those that are there: of a layer that keeps no columns
  };
  // x [B,n,D], local of the step. Errors: Error(kPlugin) when the attention mass is wanted and the
  // number of context rows is not that of the steps before.
  void keep(const at::Tensor& x, const memory::LocalAttention& local, const Wants& wants,
            std::int64_t layer);
  // Of all `tokens`: x [B,T,D], undefined unless wanted, and the result of attention as a whole
  // segment would have it.
  [[nodiscard]] at::Tensor all_rows() const;
  [[nodiscard]] memory::LocalAttention all_local(std::int64_t tokens) const;

  void select(const at::Tensor& lanes);
  // One lane becomes `lanes` that share its rows, which are not copied. Of a layer without context,
  // of which no hook sees the rows.
  void share(std::int64_t lanes);
  [[nodiscard]] std::int64_t shared_rows() const {
    return shared_k_.defined() ? shared_k_.size(2) : 0;
  }
  // Of the rows that are not shared.
  [[nodiscard]] std::int64_t lanes() const { return k_.data.size(1); }

 private:
  // Rows [G,B,capacity,d], of which the first are in use.
  struct Buffer {
    at::Tensor data;
    // Puts rows [G,B,n,d] behind the first `used` ones.
    void append(const at::Tensor& rows, std::int64_t used);
    bool move_to(at::Tensor& room, std::int64_t rows, std::int64_t used);
    [[nodiscard]] at::Tensor first(std::int64_t rows) const { return data.narrow(2, 0, rows); }
  };
  [[nodiscard]] std::vector<KeyPiece> in_pieces(const at::Tensor& k, const at::Tensor& v) const;
  void set_context(const ContextColumns& context, const TurnedKeys& used);
  [[nodiscard]] at::Tensor newest(const Buffer& plain, const Buffer& all, std::int64_t n) const;
  void add_mass(const at::Tensor& mass, std::int64_t layer);

  at::Tensor shared_k_, shared_v_;  // [G,B,n,d] of one lane, expanded: the first rows appended
  Buffer k_, v_;                    // the others, as attention uses them
  Buffer plain_k_, plain_v_;        // appended rows as they were given, where those differ
  std::int64_t context_ = 0;        // rows of the context
  std::int64_t rows_ = 0;           // rows appended
  // The context as it was gathered: keys and values of its blocks, and the places of turned keys.
  std::vector<at::Tensor> context_keys_, context_values_;
  ContextPlaces context_places_;
  std::vector<at::Tensor> x_, q_, step_k_, step_v_, z_, lse_;
  at::Tensor mass_;                // [B,K], summed over steps
  std::int64_t mass_context_ = 0;  // context rows in it
  std::vector<at::Tensor> context_k_, context_v_;
};

// A pass of a step: T counts its tokens. Stages 2 and 5 run in the first step, 7 in close().
class OpenLayerPass final : public LayerPass {
 public:
  // `open` outlives the pass.
  OpenLayerPass(Layer& layer, SegmentScope& scope, OpenLayer& open)
      : LayerPass(layer, scope), open_(open) {}

  // Stage 7 (absorb), over all tokens of the segment.
  void close(std::int64_t tokens);

 private:
  std::vector<KeyPiece> all_columns(const ContextColumns& columns, const at::Tensor& k,
                                    const at::Tensor& v) override;
  void keep_keys(memory::LocalAttention& local, const at::Tensor& own_values) override;
  void absorb(const at::Tensor& x, const memory::LocalAttention& local) override;

  OpenLayer& open_;
};

// A pass of an even step.
class EvenLayerPass final : public LayerPass {
 public:
  EvenLayerPass(Layer& layer, SegmentScope& scope, OpenLayer& open)
      : LayerPass(layer, scope), open_(open) {}

 private:
  std::vector<KeyPiece> all_columns(const ContextColumns& columns, const at::Tensor& k,
                                    const at::Tensor& v) override;

  OpenLayer& open_;
};

}  // namespace mneme::backbone
