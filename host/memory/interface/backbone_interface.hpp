// What a backbone gives to the memory: its sizes and settings (BackboneInfo), and the operations of
// its layers that hooks may call (LayerServices, behind the ABI group mneme.layer). Every backbone
// implements LayerServices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>

namespace mneme::memory {

// The backbone as tiers see it.
struct BackboneInfo {
  std::int64_t layers = 0;
  std::int64_t width = 0;       // D
  std::int64_t heads = 0;       // H
  std::int64_t kv_heads = 0;    // G, of keys and values; divides H; 0 = H
  std::int64_t head_width = 0;  // d
  bool is_pre_norm = false;
  std::string position = "relative";
  double attention_dropout = 0.0;
  at::ScalarType compute_dtype = at::kFloat;  // kDouble, kFloat or kBFloat16
  at::Device device = at::kCPU;
  std::int64_t train_segment = 0;
  std::int64_t eval_segment = 0;
  std::int64_t bptt_segments = 1;
  std::uint64_t seed = 0;
  // False: the values will be loaded. Parameters are NaN until they are filled, or drawn by
  // Stack::draw_parameters.
  bool draws_parameters = true;

  [[nodiscard]] std::int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
};

enum class Phase { kTraining, kEvaluation };

// What a layer has in place of attention, where a tier replaces it (MNEME_TIER_REPLACES_ATTENTION):
// the projections that the tier wants, and that of its result.
struct ReplacedAttention {
  bool queries = false, keys = false, values = false, output = false;
  std::int64_t key_width = 0, value_width = 0;  // of a head

  friend bool operator==(const ReplacedAttention&, const ReplacedAttention&) = default;
};
// By layer; a layer that is not in it has attention.
using ReplacedLayers = std::map<std::int64_t, ReplacedAttention>;

enum class Projector : std::uint32_t { kQuery = 1, kKey = 2, kValue = 3, kOutput = 4 };
enum class LayerWeight : std::uint32_t {
  kQuery = 1,
  kKey = 2,
  kValue = 3,
  kOutput = 4,
  kNorm = 5,
  kNormBias = 6,
  kContentBias = 7,  // [H,d], relative schemes
  kPositionBias = 8
};
enum class AttentionMask : std::uint32_t { kCausal = 0, kFull = 1, kWindow = 2 };

// One call of the backbone's own attention; see mneme_attention in mneme/layer.h for every field.
struct AttentionCall {
  at::Tensor q, k, v;  // [B,Tq,H,d], [B,K,H,d]
  AttentionMask mask = AttentionMask::kCausal;
  std::int64_t query_offset = 0;
  std::int64_t window_before = 0;
  std::int64_t window_after = 0;
  std::int64_t first_key = 0;              // of a window
  std::int64_t last_key = 0;               // inclusive
  bool positions = false;                  // the layer's position scheme: both biases and table
  bool with_content_bias = false;          // u alone
  bool dropout = false;                    // attention dropout on the probabilities that form z
  at::Tensor key_valid;                    // [B,K] bool
  at::Tensor bias;                         // [B|1,H|1,Tq|1,K]
  at::Tensor content_bias, position_bias;  // [H,d]
  at::Tensor virtual_logit,
      virtual_value;  // [B,H,Tq], [B,Tq,H,d]; z comes in virtual_value's dtype when defined
  double scale = 0.0;
};

struct AttentionResult {
  at::Tensor z;    // [B,Tq,H,d]
  at::Tensor lse;  // [B,H,Tq], at least f32, before dropout
};

class LayerServices {
 public:
  virtual ~LayerServices() = default;
  // The norm before attention, identity when the layer is post-norm. [B,m,D] -> [B,m,D].
  virtual at::Tensor norm(const at::Tensor& rows, bool weight_gradient) = 0;
  // q, k, v: [B,m,D] -> [B,m,H,d]; output: [B,m,H,d] -> [B,m,D]. Undefined when the layer has no
  // such projection.
  virtual at::Tensor project(Projector which, const at::Tensor& rows, bool weight_gradient) = 0;
  // Undefined when the layer has none: the biases outside the relative schemes, projections that a
  // tier which replaces the attention does not want.
  virtual at::Tensor weight(LayerWeight which) = 0;
  // Projected positions of offsets least .. least+count-1 (places of a key after its query),
  // [H,count,d] in the compute dtype; R of the distance, or with is_signed of minus the offset.
  // Undefined outside the relative schemes.
  virtual at::Tensor positions(std::int64_t least, std::int64_t count, bool is_signed) = 0;
  // What the layer multiplies q.k by.
  virtual double scale() = 0;
  virtual AttentionResult attention(const AttentionCall& call) = 0;
};

}  // namespace mneme::memory
