// The base class of a memory, and what its hooks get and give. Stages, and the contract of each
// hook: mneme/plugin.h.
#pragma once

#include "mneme/cpp/layer.hpp"
#include "mneme/cpp/ops_network.hpp"
#include "mneme/cpp/ops_shape.hpp"
#include "mneme/cpp/options.hpp"
#include "mneme/cpp/setup.hpp"

namespace mneme {
inline namespace sdk_0_1 {

// begin: rows that pass the layers with the tokens. Empty = none.
struct Riders {
  Tensor rows;         // [B,M,D], as embedded: after embedding scale and dropout
  Tensor valid;        // [B,M] bool; empty = all
  int64_t unseen = 0;  // the first `unseen` are seen by no token, and may attend to tokens
};

// ride: what the riders' attention works on, in the compute dtype.
struct Ride {
  int64_t riders = 0;    // M
  Tensor q;              // [B,M,H,d] the riders' queries
  Tensor k;              // [B,M+T,H,d] riders' keys, then tokens'
  Tensor v;              // as k
  Tensor valid;          // [B,M+T] bool; empty = all
  Tensor hidden;         // [B,M,D] the riders' input of this layer
  bool is_last = false;  // the last layer, and finish gets no riders: the result may be empty
};

// read: what the layer's attention made for the tokens. Tensors are empty unless wanted; using one
// that was not wanted fails with the name of the missing bit. A tier that replaces the attention
// (Setup::replaces_attention) gets k and v of the step's tokens alone, and no z, lse or projected.
struct Queries {
  uint32_t site = 0;  // MNEME_SITE_*
  Tensor q;           // [B,T,H,d] without position terms or biases
  Tensor k;           // [B,offset+T,H,d] likewise: all tokens of the segment so far
  Tensor v;           // as k
  Tensor z;           // [B,T,H,d] local attention's result
  Tensor lse;         // [B,H,T]
  Tensor projected;   // [B,T,D] at MNEME_SITE_OUT
  Tensor normed;      // [B,T,D] the projections' input: the layer's input behind its norm
};

// read: the result and how it joins the local one. Made by the functions below, which fail with
// MNEME_E_INVALID_ARGUMENT for a tensor that is empty because it was not wanted.
struct Read {
  uint32_t merge = MNEME_MERGE_NONE;
  Tensor out;   // HEADS [B,T,H,d] or [B,T,H*d]; OUT [B,T,D]; extents of 1 broadcast over B and T
  Tensor gate;  // broadcastable to out's whole shape
  Tensor lse;   // [B,H,T]
};

// Reads nothing this time.
inline Read nothing() { return {}; }
// local + out.
inline Read add(Tensor out, CallSite site = CallSite::here()) {
  detail::handle_of(out, site);
  return {MNEME_MERGE_ADD, std::move(out), {}, {}};
}
// a * out + (1 - a) * local; where a = 0 out is not looked at.
inline Read gate(Tensor out, Tensor a, CallSite site = CallSite::here()) {
  detail::handle_of(out, site);
  detail::handle_of(a, site);
  return {MNEME_MERGE_GATE, std::move(out), std::move(a), {}};
}
// HEADS only: exact joint softmax with the extra keys that out and log_sum summarise; a query whose
// log_sum is -inf reads nothing.
inline Read lse(Tensor out, Tensor log_sum, CallSite site = CallSite::here()) {
  detail::handle_of(out, site);
  detail::handle_of(log_sum, site);
  return {MNEME_MERGE_LSE, std::move(out), {}, std::move(log_sum)};
}
// out in place of the local result.
inline Read replace(Tensor out, CallSite site = CallSite::here()) {
  detail::handle_of(out, site);
  return {MNEME_MERGE_REPLACE, std::move(out), {}, {}};
}

// finish: results of the whole segment. Tensors are empty unless wanted; targets and logp also
// where there are no targets, as in generation.
struct Finish {
  Tensor top;                  // [B,T,D] the last layer's output
  Tensor targets;              // [B,T] i64; -1 = no target
  Tensor logp;                 // [B,T] log-probability of the target, 0 without one
  std::vector<Tensor> layers;  // [L] outputs of all layers, [B,T,D] each
  Tensor riders;               // [B,M,D] the last layer's output of the riders; empty without any
};

// A memory. Derive from it publicly, take a Setup& in the constructor, and override the hooks that
// the memory needs: the host calls those that the class overrides and no others. Instances hold
// configuration and ids of what they declared, never tensors or anything that a hook changes. Hooks
// may throw mneme::Failure or any std::exception, which ends the run; the host adds plugin, tier,
// hook and layer.
//
// A class may also define:
//   static constexpr auto kOptions = mneme::options(...);
//   static constexpr const char* kSummary = "one sentence with the mechanism's source";
//   static constexpr const char* kLosses = "first|second";  // names that hooks give to aux; absent
//                                                           // = none, and aux is then refused
class Tier {
 public:
  Tier() = default;
  virtual ~Tier() = default;
  Tier(const Tier&) = delete;
  Tier& operator=(const Tier&) = delete;

  // Stage 1, once a segment, before the first layer: gives riders [B,M,D]. Sees state of the model
  // alone.
  virtual Riders begin(Segment& /*segment*/) { return {}; }
  // Stage 2 or 7 of each layer served (Setup::absorbs_before_reading): takes into memory the rows
  // that are given, detached, at least one.
  virtual void absorb(Layer& /*layer*/, const Rows& /*rows*/) {}
  // Stage 3 of each layer served: emits blocks of rows that the tokens may attend to.
  virtual void context(Layer& /*layer*/) {}
  // Stage 5 of each layer, in segments with riders: the result of their attention, [B,M,H,d]; may
  // be empty in the last layer.
  virtual Tensor ride(Layer& /*layer*/, const Ride& /*in*/) { return {}; }
  // Stage 6 of each layer served, for each site: reads memory for the tokens.
  virtual Read read(Layer& /*layer*/, const Queries& /*queries*/) { return {}; }
  // Stage 8, once a segment, after the last layer. Sees state of the model alone.
  virtual void finish(Segment& /*segment*/, const Finish& /*in*/) {}

 protected:
  // Functions whose arguments may all be lists and numbers. By such arguments a compiler does not
  // find them in namespace mneme, so they are members here, and hooks call them as they call any
  // op. Elsewhere say mneme::cat(...).
  template <typename Use = void>
  static Tensor cat(const std::vector<Tensor>& parts, int64_t dim,
                    CallSite site = CallSite::here()) {
    return mneme::cat<Use>(parts, dim, site);
  }
  template <typename Use = void>
  static Tensor stack(const std::vector<Tensor>& parts, int64_t dim,
                      CallSite site = CallSite::here()) {
    return mneme::stack<Use>(parts, dim, site);
  }
  template <typename Use = void>
  static Tensor einsum(const char* equation, const std::vector<Tensor>& operands,
                       CallSite site = CallSite::here()) {
    return mneme::einsum<Use>(equation, operands, site);
  }
  template <typename Use = void>
  static Tensor full(const Shape& shape, double value, DType dtype = DType::kF32,
                     CallSite site = CallSite::here()) {
    return mneme::full<Use>(shape, value, dtype, site);
  }
  template <typename Use = void>
  static Tensor arange(double start, double end, double step = 1.0, DType dtype = DType::kF32,
                       CallSite site = CallSite::here()) {
    return mneme::arange<Use>(start, end, step, dtype, site);
  }
  template <typename Use = void>
  static Tensor linspace(double start, double end, int64_t steps, DType dtype = DType::kF32,
                         CallSite site = CallSite::here()) {
    return mneme::linspace<Use>(start, end, steps, dtype, site);
  }
  template <typename Use = void>
  static Tensor eye(int64_t n, DType dtype = DType::kF32, CallSite site = CallSite::here()) {
    return mneme::eye<Use>(n, dtype, site);
  }
  template <typename T>
  static Tensor from_data(const Shape& shape, const std::vector<T>& values,
                          CallSite site = CallSite::here()) {
    return mneme::from_data<T>(shape, values, site);
  }
  template <typename Make>
  static Tensor constant(const char* key, const Shape& shape, Make&& make,
                         CallSite site = CallSite::here()) {
    return mneme::constant(key, shape, std::forward<Make>(make), site);
  }
  static Read nothing() { return {}; }
};

}  // namespace sdk_0_1
}  // namespace mneme
