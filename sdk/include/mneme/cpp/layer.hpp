// The layer of the backbone that a hook runs in: its context, projections and attention.
#pragma once

#include "mneme/cpp/segment.hpp"

namespace mneme {
inline namespace sdk_0_1 {

enum class Project : uint32_t {
  kQ = MNEME_PROJECT_Q,
  kK = MNEME_PROJECT_K,
  kV = MNEME_PROJECT_V,
  kO = MNEME_PROJECT_O
};
enum class Weight : uint32_t {
  kQ = MNEME_WEIGHT_Q,  // [H*d, D]
  kK = MNEME_WEIGHT_K,
  kV = MNEME_WEIGHT_V,
  kO = MNEME_WEIGHT_O,  // [D, H*d]
  kNorm = MNEME_WEIGHT_NORM,
  kNormBias = MNEME_WEIGHT_NORM_BIAS,
  kContentBias = MNEME_WEIGHT_CONTENT_BIAS,   // [H,d], relative schemes only
  kPositionBias = MNEME_WEIGHT_POSITION_BIAS  // as kContentBias
};
// What an offset between a query and a key means to a table of positions.
enum class Offset : uint32_t { kDistance = 0, kSigned = MNEME_POSITIONS_SIGNED };
// Whether gradients flow into the layer's weights; into the rows they always do.
enum class WeightGradient : uint32_t { kFlows = 0, kStops = MNEME_NO_WEIGHT_GRADIENT };

// Where the rows of a block stand, and what is added to their scores.
struct BlockSettings {
  uint32_t position = MNEME_POSITION_PLACE;
  Tensor distance;  // MNEME_POSITION_EXPLICIT: [B|1,m] i64, to the segment's first token
  Tensor bias;      // [B|1,H|1,T|1,m], differentiable; -inf = absent
};

// What local attention made, in absorb after the segment; empty tensors unless wanted. (read gets
// the same in Queries.)
struct Local {
  Tensor z;               // [B,T,H,d]
  Tensor lse;             // [B,H,T]
  Tensor q;               // [B,T,H,d] without position terms or biases
  Tensor k;               // as q
  Tensor v;               // as q
  Tensor mass;            // [B,R+T] attention mass per key column
  int64_t mass_rows = 0;  // R, this tier's columns
  Tensor context_k;       // [B,R,H,d] keys of this tier's own blocks, first to last, detached
  Tensor context_v;       // as context_k
  // The rows that absorb was given are this segment's tokens: row i is column R+i of `mass`.
  bool is_own_segment = false;
};

// One call of the backbone's attention; fields as in mneme_attention (layer.h).
struct Attention {
  Tensor q;  // [B,Tq,H,d]
  Tensor k;  // [B,K,H,d]
  Tensor v;
  uint32_t mask = MNEME_MASK_CAUSAL;
  int64_t query_offset = 0;
  int64_t window_before = 0;
  int64_t window_after = 0;
  int64_t first_key = 0;
  int64_t key_count = 0;
  bool has_positions = false;     // MNEME_ATTENTION_POSITIONS
  bool has_content_bias = false;  // MNEME_ATTENTION_CONTENT_BIAS
  bool has_dropout = false;       // MNEME_ATTENTION_DROPOUT
  Tensor key_valid;
  Tensor bias;
  Tensor content_bias;
  Tensor position_bias;
  Tensor virtual_logit;
  Tensor virtual_value;
  double scale = 0.0;
};
struct AttentionResult {
  Tensor z;    // [B,Tq,H,d]
  Tensor lse;  // [B,H,Tq]
};

// A layer during absorb, context, ride or read.
class Layer : public Segment {
 public:
  Layer(const mneme_segment& segment, const detail::Directory& directory, int64_t index, Tensor x,
        Local local) noexcept
      : Segment(segment, directory), index_(index), x_(std::move(x)), local_(std::move(local)) {}

  // The layer's index in the backbone. (Segment::index counts segments.)
  int64_t layer() const noexcept { return index_; }
  // [B,T,D] the layer's input: always in context, in absorb and read when wanted, else empty.
  const Tensor& x() const noexcept { return x_; }
  const Local& local() const noexcept { return local_; }

  // The norm before attention as the layer does it; identity in a post-norm layer.
  Tensor norm(const Tensor& rows, WeightGradient gradient = WeightGradient::kFlows) const {
    mneme_tensor out = 0;
    detail::HostError error;
    detail::check(layer_api().norm(detail::ctx(), rows.raw(), static_cast<uint32_t>(gradient), &out,
                                   &error.raw),
                  error);
    return Tensor::adopt(out);
  }
  // Q, K, V: normed rows [B,m,D] -> [B,m,H,d]; O: [B,m,H,d] -> [B,m,D].
  Tensor project(Project which, const Tensor& rows,
                 WeightGradient gradient = WeightGradient::kFlows) const {
    mneme_tensor out = 0;
    detail::HostError error;
    detail::check(layer_api().project(detail::ctx(), static_cast<uint32_t>(which), rows.raw(),
                                      static_cast<uint32_t>(gradient), &out, &error.raw),
                  error);
    return Tensor::adopt(out);
  }
  Tensor weight(Weight which, WeightGradient gradient = WeightGradient::kFlows) const {
    mneme_tensor out = 0;
    detail::HostError error;
    detail::check(layer_api().weight(detail::ctx(), static_cast<uint32_t>(which),
                                     static_cast<uint32_t>(gradient), &out, &error.raw),
                  error);
    return Tensor::borrow(out);
  }
  // Projected positions of keys that stand least .. least+count-1 places after their query,
  // [H,count,d] in the compute dtype. Relative schemes only.
  Tensor positions(int64_t least, int64_t count, Offset offset = Offset::kDistance) const {
    mneme_tensor out = 0;
    detail::HostError error;
    detail::check(layer_api().positions(detail::ctx(), least, count, static_cast<uint32_t>(offset),
                                        &out, &error.raw),
                  error);
    return Tensor::adopt(out);
  }
  AttentionResult attention(const Attention& call) const {
    mneme_attention raw = MNEME_INIT(mneme_attention);
    raw.flags = (call.has_positions ? MNEME_ATTENTION_POSITIONS : 0U) |
                (call.has_content_bias ? MNEME_ATTENTION_CONTENT_BIAS : 0U) |
                (call.has_dropout ? MNEME_ATTENTION_DROPOUT : 0U);
    raw.q = call.q.raw();
    raw.k = call.k.raw();
    raw.v = call.v.raw();
    raw.mask = call.mask;
    raw.query_offset = call.query_offset;
    raw.window_before = call.window_before;
    raw.window_after = call.window_after;
    raw.first_key = call.first_key;
    raw.key_count = call.key_count;
    raw.key_valid = call.key_valid.raw();
    raw.bias = call.bias.raw();
    raw.content_bias = call.content_bias.raw();
    raw.position_bias = call.position_bias.raw();
    raw.virtual_logit = call.virtual_logit.raw();
    raw.virtual_value = call.virtual_value.raw();
    raw.scale = call.scale;
    mneme_tensor z = 0;
    mneme_tensor lse = 0;
    detail::HostError error;
    detail::check(layer_api().attention(detail::ctx(), &raw, &z, &lse, &error.raw), error);
    return {Tensor::adopt(z), Tensor::adopt(lse)};
  }

  // absorb and ride only: lets rows go to the next tier that is fed with released rows.
  // Needs Setup::releases().
  void release(const Rows& rows) const {
    const mneme_rows raw = rows.raw();
    detail::HostError error;
    detail::check(layer_api().release(detail::ctx(), &raw, &error.raw), error);
  }

  // context only: the whole content of a queue as a block; its keys and values are kept in
  // evaluation.
  void emit(Queue queue, const BlockSettings& settings = {}) const {
    emit_block(queue, nullptr, settings);
  }
  void emit(const char* queue, const BlockSettings& settings = {}) const {
    emit(detail::Directory::find(directory().queues, "queue", queue), settings);
  }
  // context only: rows of any kind as a block; gradients flow back into them.
  void emit(const Rows& rows, const BlockSettings& settings = {}) const {
    const mneme_rows raw = rows.raw();
    emit_block(Queue{}, &raw, settings);
  }
  // context only: a bias on the token columns [B|1,H|1,T|1,offset()+T]. Needs
  // Setup::emits_token_bias().
  void emit_token_bias(const Tensor& bias) const {
    detail::HostError error;
    detail::check(layer_api().emit_token_bias(detail::ctx(), bias.raw(), &error.raw), error);
  }

 private:
  static void emit_block(Queue queue, const mneme_rows* rows, const BlockSettings& settings) {
    mneme_block block = MNEME_INIT(mneme_block);
    block.position_kind = settings.position;
    block.queue = queue.id;
    block.rows = rows;
    block.distance = settings.distance.raw();
    block.bias = settings.bias.raw();
    detail::HostError error;
    detail::check(layer_api().emit_block(detail::ctx(), &block, &error.raw), error);
  }

  int64_t index_;
  Tensor x_;
  Local local_;
};

}  // namespace sdk_0_1
}  // namespace mneme
