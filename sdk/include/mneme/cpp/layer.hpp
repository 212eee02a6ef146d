// The layer of the backbone that a hook runs in: its context, projections and attention. Errors of
// its functions are those of mneme_layer_api (mneme/layer.h).
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
// What an offset o of a key from its query means to a table of positions: the distance |o|, or -o.
enum class Offset : uint32_t { kDistance = 0, kSigned = MNEME_POSITIONS_SIGNED };
// Whether gradients flow into the layer's weights; into the rows they always do.
enum class WeightGradient : uint32_t { kFlows = 0, kStops = MNEME_NO_WEIGHT_GRADIENT };

// The places of a block's rows (MNEME_POSITION_*), and what is added to their scores.
struct BlockSettings {
  uint32_t position = MNEME_POSITION_PLACE;
  // MNEME_POSITION_EXPLICIT, i64: [B|1,m] to the segment's first token, or [B|1,T|1,m] to each
  // token (mneme_block.distance).
  Tensor distance;
  // [B|1,H|1,T|1,m] in any dtype but bool, differentiable; -inf = absent.
  Tensor bias;
};

// What the layer's attention made, for absorb at stage 7; tensors are empty unless wanted. (read
// gets the same in Queries.)
struct Local {
  Tensor z;               // [B,T,H,d]
  Tensor lse;             // [B,H,T]
  Tensor q;               // [B,T,H,d] without position terms or biases
  Tensor k;               // as q
  Tensor v;               // as q
  Tensor mass;            // [B,R+T] f32, detached: attention mass of each key column
  int64_t mass_rows = 0;  // R, this tier's columns
  Tensor context_k;       // [B,R,H,d] keys of this tier's own blocks, first to last, detached
  Tensor context_v;       // as context_k
  // The rows that absorb was given are this segment's tokens: row i is column R+i of `mass`.
  bool is_own_segment = false;
};

// One call of the backbone's attention; fields as in mneme_attention (mneme/layer.h).
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
  Tensor key_valid;               // [B,K] bool; empty = all
  Tensor bias;                    // [B|1,H|1,Tq|1,K] added to the scaled scores
  Tensor content_bias;            // [H,d] in place of the layer's
  Tensor position_bias;           // [H,d] in place of the layer's
  Tensor virtual_logit;           // [B,H,Tq] f32 or f64: one extra key a query ...
  Tensor virtual_value;           // [B,Tq,H,d]: ... and its value
  double scale = 0.0;             // 0 = the layer's, Layer::scale
};
struct AttentionResult {
  Tensor z;    // [B,Tq,H,d]
  Tensor lse;  // [B,H,Tq], at least f32, before dropout
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

  // The norm before attention as the layer does it, [B,m,D] -> [B,m,D]; identity in a post-norm
  // layer.
  Tensor norm(const Operand& rows, WeightGradient gradient = WeightGradient::kFlows) const {
    const CallSite site = rows.site();
    mneme_tensor out = 0;
    detail::HostError error;
    detail::check(layer_api(site).norm(detail::ctx(site), rows.raw(),
                                       static_cast<uint32_t>(gradient), &out, &error.raw),
                  error, site);
    return Tensor::adopt(out);
  }
  // Q, K, V: normed rows [B,m,D] -> [B,m,H,d]; O: [B,m,H,d] -> [B,m,D].
  Tensor project(Project which, const Operand& rows,
                 WeightGradient gradient = WeightGradient::kFlows) const {
    const CallSite site = rows.site();
    mneme_tensor out = 0;
    detail::HostError error;
    detail::check(
        layer_api(site).project(detail::ctx(site), static_cast<uint32_t>(which), rows.raw(),
                                static_cast<uint32_t>(gradient), &out, &error.raw),
        error, site);
    return Tensor::adopt(out);
  }
  // A weight itself, f32, f64 in f64 runs. Errors: MNEME_E_UNSUPPORTED for a bias that the position
  // scheme does not have.
  Tensor weight(Weight which, WeightGradient gradient = WeightGradient::kFlows,
                CallSite site = CallSite::here()) const {
    mneme_tensor out = 0;
    detail::HostError error;
    detail::check(layer_api(site).weight(detail::ctx(site), static_cast<uint32_t>(which),
                                         static_cast<uint32_t>(gradient), &out, &error.raw),
                  error, site);
    return Tensor::borrow(out);
  }
  // Projected positions of keys that are least .. least+count-1 places after their query,
  // [H,count,d] in the compute dtype. Errors: MNEME_E_UNSUPPORTED outside the relative schemes.
  Tensor positions(int64_t least, int64_t count, Offset offset = Offset::kDistance,
                   CallSite site = CallSite::here()) const {
    mneme_tensor out = 0;
    detail::HostError error;
    detail::check(layer_api(site).positions(detail::ctx(site), least, count,
                                            static_cast<uint32_t>(offset), &out, &error.raw),
                  error, site);
    return Tensor::adopt(out);
  }
  // What the layer multiplies q.k by: for scores that a memory makes of the layer's queries and
  // keys.
  double scale(CallSite site = CallSite::here()) const {
    double out = 0.0;
    detail::HostError error;
    detail::check(layer_api(site).scale(detail::ctx(site), &out, &error.raw), error, site);
    return out;
  }
  // The backbone's attention. A query without keys gives z = 0, lse = -inf.
  AttentionResult attention(const Attention& call, CallSite site = CallSite::here()) const {
    mneme_attention raw = MNEME_INIT(mneme_attention);
    raw.flags = (call.has_positions ? MNEME_ATTENTION_POSITIONS : 0U) |
                (call.has_content_bias ? MNEME_ATTENTION_CONTENT_BIAS : 0U) |
                (call.has_dropout ? MNEME_ATTENTION_DROPOUT : 0U);
    raw.q = detail::handle_of(call.q, site);
    raw.k = detail::handle_of(call.k, site);
    raw.v = detail::handle_of(call.v, site);
    raw.mask = call.mask;
    raw.query_offset = call.query_offset;
    raw.window_before = call.window_before;
    raw.window_after = call.window_after;
    raw.first_key = call.first_key;
    raw.key_count = call.key_count;
    raw.key_valid = detail::handle_of(call.key_valid, site);
    raw.bias = detail::handle_of(call.bias, site);
    raw.content_bias = detail::handle_of(call.content_bias, site);
    raw.position_bias = detail::handle_of(call.position_bias, site);
    raw.virtual_logit = detail::handle_of(call.virtual_logit, site);
    raw.virtual_value = detail::handle_of(call.virtual_value, site);
    raw.scale = call.scale;
    mneme_tensor z = 0;
    mneme_tensor lse = 0;
    detail::HostError error;
    detail::check(layer_api(site).attention(detail::ctx(site), &raw, &z, &lse, &error.raw), error,
                  site);
    return {Tensor::adopt(z), Tensor::adopt(lse)};
  }

  // absorb and ride only: lets rows (kHidden) go to the later tiers that this one feeds, detached.
  // Needs Setup::releases().
  void release(const Rows& rows, CallSite site = CallSite::here()) const {
    const mneme_rows raw = rows.raw(site);
    detail::HostError error;
    detail::check(layer_api(site).release(detail::ctx(site), &raw, &error.raw), error, site);
  }

  // context only: the whole content of a queue as a block; its keys and values are kept in
  // evaluation.
  void emit(Queue queue, const BlockSettings& settings = {},
            CallSite site = CallSite::here()) const {
    emit_block(queue, nullptr, settings, site);
  }
  void emit(const char* queue, const BlockSettings& settings = {},
            CallSite site = CallSite::here()) const {
    emit(detail::Directory::find(directory().queues, "queue", queue, site), settings, site);
  }
  // context only: rows of any kind as a block; gradients flow back into them.
  void emit(const Rows& rows, const BlockSettings& settings = {},
            CallSite site = CallSite::here()) const {
    const mneme_rows raw = rows.raw(site);
    emit_block(Queue{}, &raw, settings, site);
  }
  // context only: a bias on the token columns [B|1,H|1,T|1,offset()+T]. Needs
  // Setup::emits_token_bias().
  void emit_token_bias(const Operand& bias) const {
    const CallSite site = bias.site();
    detail::HostError error;
    detail::check(layer_api(site).emit_token_bias(detail::ctx(site), bias.raw(), &error.raw), error,
                  site);
  }

 private:
  static void emit_block(Queue queue, const mneme_rows* rows, const BlockSettings& settings,
                         CallSite site) {
    mneme_block block = MNEME_INIT(mneme_block);
    block.position_kind = settings.position;
    block.queue = queue.id;
    block.rows = rows;
    block.distance = detail::handle_of(settings.distance, site);
    block.bias = detail::handle_of(settings.bias, site);
    detail::HostError error;
    detail::check(layer_api(site).emit_block(detail::ctx(site), &block, &error.raw), error, site);
  }

  int64_t index_;
  Tensor x_;
  Local local_;
};

}  // namespace sdk_0_1
}  // namespace mneme
