#include "lamemo.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "mneme/cpp/ops.hpp"
#include "mneme/plugin.hpp"

namespace lamemo {
namespace {

using mneme::Layer;
using mneme::Rows;
using mneme::Tensor;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();
// Below every log-sum-exp of f32: stands in for -infinity where two of them would give NaN.
constexpr double kLowest = -1e30;

// The last `count` of x along dimension 1.
Tensor newest(const Tensor& x, int64_t count) {
  const int64_t held = x.dim(1);
  return count == held ? x : slice(x, 1, held - count, held);
}

// Rows `from` to `to` of hidden [B,m,D].
Rows rows_between(const Tensor& hidden, const Tensor& valid, int64_t from, int64_t to) {
  return Rows::of_hidden(slice(hidden, 1, from, to), valid ? slice(valid, 1, from, to) : Tensor());
}

void refuse(const std::string& text) { mneme::fail(MNEME_E_UNSUPPORTED, text); }

// Without look-ahead there is one direction, and the two schemes are the same.
void check_position(const mneme::Setup& s, bool is_signed, bool looks_ahead) {
  const bool is_relative = s.position() == "relative", is_split = s.position() == "disentangled";
  if (is_signed ? is_relative : is_split || (is_relative && !looks_ahead)) return;
  refuse("the backbone has model.position = \"" + std::string(s.position()) + "\", and " +
         (is_signed ? "signed_ablation = true is Transformer-XL's encoding: set [model] position = "
                      "\"relative\""
                    : "look-ahead needs distances that both directions share: set [model] position "
                      "= \"disentangled\" (\"relative\" only with signed_ablation = true)"));
}

void check_layers(const mneme::Setup& s) {
  const int64_t served = static_cast<int64_t>(s.served().size());
  if (served == s.layers()) return;
  refuse("memory rows pass every layer, and this tier serves " + std::to_string(served) + " of " +
         std::to_string(s.layers()) + " layers: remove the tier's key `layers`");
}

}  // namespace

Settings::Settings(const mneme::Setup& s)
    : rows(s.integer("rows")),
      is_official_window(s.text("window") == "official"),
      epsilon(s.real("epsilon")),
      interpolates(s.boolean("interpolation")),
      looks_ahead(s.boolean("lookahead")),
      is_full(s.boolean("full_mask")),
      has_content_bias(s.boolean("content_bias_ahead")),
      is_signed(s.boolean("signed_ablation")) {
  check_position(s, is_signed, looks_ahead);
  if (looks_ahead) check_layers(s);
  if (!looks_ahead && (is_full || has_content_bias || is_signed || !interpolates)) {
    refuse(
        "lookahead = false leaves nothing for interpolation, full_mask, content_bias_ahead "
        "and signed_ablation to change: leave them out");
  }
  if (is_signed && has_content_bias) {
    refuse(
        "signed_ablation = true shares both biases, content_bias_ahead = true does not: give one "
        "of them");
  }
  const bool adds_epsilon = epsilon > 0.0 && !s.is_evaluation();  // where nothing is dropped
  if (s.attention_dropout() > 0.0 && (is_signed || adds_epsilon || !interpolates)) {
    refuse(
        "attention dropout on the look-ahead is offered for the memory as published alone: set "
        "[model] attention_dropout = 0, or leave out signed_ablation, epsilon and "
        "interpolation = false");
  }
}

LaMemo::LaMemo(mneme::Setup& s)
    : settings_(s),
      scale_(1.0 / std::sqrt(static_cast<double>(s.head_width()))),
      drops_attention_(s.attention_dropout() > 0.0),
      sums_(s.compute_dtype() == mneme::DType::kF64 ? mneme::DType::kF64 : mneme::DType::kF32) {
  declare(s);
  s.absorbs_after_segment();
  s.context_rows(settings_.rows);
  s.releases();
  if (settings_.looks_ahead) {
    s.wants(MNEME_WANT_ABSORB_Z | MNEME_WANT_ABSORB_LSE);
  } else {
    s.is_cut_invariant();
    s.has_no_riders();
  }
}

void LaMemo::declare(mneme::Setup& s) {
  mneme::QueueSettings queue;
  queue.capacity = settings_.rows;
  if (!settings_.looks_ahead) {
    embedded_ = s.queue("cache", queue);
    return;
  }
  queue.scope = mneme::Scope::kModel;
  embedded_ = s.queue("embedded", queue);
  mneme::SlotSettings slot;
  slot.dtype = sums_;
  context_ = s.slot("context", {mneme::kLanes, mneme::kAny, s.heads(), s.head_width()},
                    mneme::zeros(), slot);
  lse_ = s.slot("lse", {mneme::kLanes, mneme::kAny, s.heads()},
                mneme::constant_value(kMinusInfinity), slot);
  mneme::ParameterSettings shared;
  shared.scope = mneme::Scope::kModel;
  shared.group = "none";
  const mneme::Shape shape = {s.heads(), s.head_width()};
  if (!settings_.is_signed) {
    position_bias_ = s.parameter("position_bias_ahead", shape, mneme::xavier_uniform(), shared);
  }
  if (settings_.has_content_bias) {
    content_bias_ = s.parameter("content_bias_ahead", shape, mneme::xavier_uniform(), shared);
  }
  look_ahead_id_ = s.kernel(look_ahead_);
  // An open segment's length is known at its end only, and with it how many riders leave.
  slot.lifetime = mneme::Lifetime::kSegment;
  slot.dtype = s.compute_dtype();
  riders_ = s.slot("riders", {mneme::kLanes, mneme::kAny, s.width()}, mneme::zeros(), slot);
  slot.dtype = mneme::DType::kBool;
  riders_valid_ = s.slot("riders_valid", {mneme::kLanes, mneme::kAny}, mneme::zeros(), slot);
}

mneme::Riders LaMemo::begin(mneme::Segment& segment) {
  if (!settings_.looks_ahead) return {};
  const Rows rows = segment.queue(embedded_).rows();
  return {rows.hidden, rows.valid};
}

void LaMemo::context(Layer& l) {
  if (!settings_.looks_ahead && l.queue(embedded_).size() > 0) l.emit(embedded_);
}

LaMemo::Window LaMemo::window(const Layer& l, int64_t riders) const {
  const int64_t fresh = settings_.is_official_window ? l.length() : l.previous_length();
  Window w;
  // The last key is the first token: attending to a later one would leak tokens that are still to
  // be predicted.
  w.first = std::max<int64_t>(riders - fresh + 1, 1);
  w.keys = riders - w.first + 1;
  w.least = settings_.is_full ? w.first - (riders - 1) : 1;
  return w;
}

LaMemo::Attended LaMemo::carried(const Layer& l, int64_t riders) const {
  const Tensor context = l.slot(context_), lse = l.slot(lse_);
  const int64_t held = std::min(context.dim(1), lse.dim(1));
  if (held < riders) {
    mneme::fail(MNEME_E_STATE, "the state has " + std::to_string(riders) +
                                   " embedded rows, but attended contexts of " +
                                   std::to_string(held) +
                                   " rows: it is not one that this memory made; start from an "
                                   "empty memory");
  }
  return {newest(context, riders), newest(lse, riders)};
}

LaMemo::Attended LaMemo::nothing_like(const Attended& a) {
  return {zeros_like(a.context), full_like(a.lse, kMinusInfinity)};
}

LaMemo::Biases LaMemo::biases(const Layer& l) const {
  Biases b;
  b.content = settings_.has_content_bias ? l.parameter(content_bias_)
                                         : l.weight(mneme::Weight::kContentBias);
  b.position =
      settings_.is_signed ? l.weight(mneme::Weight::kPositionBias) : l.parameter(position_bias_);
  return b;
}

LaMemo::Attended LaMemo::look_ahead(Layer& l, const mneme::Ride& in, const Attended& before) const {
  const Window w = window(l, in.riders);
  const int64_t end = w.first + w.keys;
  const Biases b = biases(l);
  const Tensor table =
      l.positions(w.least, in.riders - w.least + 1,
                  settings_.is_signed ? mneme::Offset::kSigned : mneme::Offset::kDistance);
  const Tensor valid = in.valid ? slice(in.valid, 1, w.first, end)
                                : mneme::full({l.lanes(), w.keys}, 1.0, mneme::DType::kBool);
  const auto out = l.call(look_ahead_id_,
                          {in.q, slice(in.k, 1, w.first, end), slice(in.v, 1, w.first, end), table,
                           b.content, b.position, valid, before.lse, before.context},
                          {w.first, w.least}, {scale_});
  return {out[0], out[1]};
}

LaMemo::Attended LaMemo::look_ahead_with_dropout(Layer& l, const mneme::Ride& in,
                                                 const Attended& before) const {
  const Window w = window(l, in.riders);
  const Biases b = biases(l);
  mneme::Attention call;
  call.q = in.q;
  call.k = in.k;
  call.v = in.v;
  call.mask = MNEME_MASK_WINDOW;
  call.window_before = -w.least;
  call.window_after = in.riders;
  call.first_key = w.first;
  call.key_count = w.keys;
  call.has_positions = true;
  call.has_dropout = true;
  call.key_valid = in.valid;
  call.content_bias = b.content;
  call.position_bias = b.position;
  call.virtual_logit = transpose(before.lse, 1, 2);
  call.virtual_value = before.context;
  const mneme::AttentionResult out = l.attention(call);
  return {out.z, transpose(out.lse, 1, 2)};
}

// As released: alpha = e^s / (e^s + e^s_a + epsilon) after division by the larger term, and the
// carried sum without epsilon [LaMemo, eq. 11; released code].
LaMemo::Attended LaMemo::interpolate(const Attended& before, const Attended& ahead,
                                     Tensor& alpha) const {
  const Tensor top = maximum(maximum(before.lse, ahead.lse), full_like(before.lse, kLowest));
  const Tensor old = exp(before.lse - top), fresh = exp(ahead.lse - top);
  alpha = old / (old + fresh + settings_.epsilon);
  const Tensor share = unsqueeze(alpha, 3);
  return {share * before.context + (1.0 - share) * ahead.context, top + log(old + fresh)};
}

LaMemo::Attended LaMemo::refresh(Layer& l, const mneme::Ride& in) const {
  const Attended before = carried(l, in.riders);
  Tensor alpha;
  Attended after;
  if (drops_attention_ && l.is_training()) {
    after = look_ahead_with_dropout(l, in, before);
  } else if (!settings_.interpolates) {
    after = look_ahead(l, in, nothing_like(before));
    alpha = zeros_like(before.lse);
  } else if (settings_.epsilon > 0.0) {
    after = interpolate(before, look_ahead(l, in, nothing_like(before)), alpha);
  } else {
    after = look_ahead(l, in, before);
  }
  if (!l.wants_probe("memory.alpha")) return after;
  if (!alpha) alpha = exp(before.lse - maximum(after.lse, full_like(after.lse, kLowest)));
  if (in.valid) {
    const Tensor is_there = unsqueeze(slice(in.valid, 1, 0, in.riders), 2);
    alpha = where(is_there, alpha, std::numeric_limits<double>::quiet_NaN());
  }
  l.probe("memory.alpha", alpha);
  return after;
}

Tensor LaMemo::ride(Layer& l, const mneme::Ride& in) {
  l.slot(riders_) = in.hidden;
  if (in.valid) l.slot(riders_valid_) = slice(in.valid, 1, 0, in.riders);
  // In the last layer the riders' result is used by a probe only.
  if (in.is_last && !l.wants_probe("memory.alpha")) return {};
  const Attended after = refresh(l, in);
  l.slot(context_) = detach(after.context);
  l.slot(lse_) = detach(after.lse);
  return cast(after.context, l.compute_dtype());
}

void LaMemo::keep_attended(Layer& l) const {
  const int64_t rows = l.queue(embedded_).size();
  const auto keep = [&](mneme::Slot slot, const Tensor& fresh) {
    const Tensor old = l.slot(slot);
    const int64_t stays = std::min(std::max<int64_t>(rows - fresh.dim(1), 0), old.dim(1));
    const Tensor own = newest(cast(detach(fresh), sums_), std::min(fresh.dim(1), rows));
    l.slot(slot) = stays > 0 ? mneme::cat({newest(old, stays), own}, 1) : own;
  };
  keep(context_, l.local().z);
  keep(lse_, transpose(l.local().lse, 1, 2));
}

void LaMemo::keep_cached(Layer& l, const Rows& fed) const {
  const mneme::QueueValue cache = l.queue(embedded_);
  cache.append(fed);
  const int64_t leaving = cache.size() - settings_.rows;
  if (leaving > 0) l.release(cache.pop_oldest(leaving));
}

void LaMemo::release_oldest(Layer& l, const Rows& fed) const {
  const Tensor riders = l.slot(riders_), valid = l.slot(riders_valid_);
  const int64_t held = riders.dim(1);
  const int64_t leaving = std::clamp<int64_t>(held + fed.count - settings_.rows, 0, held);
  if (leaving > 0) {
    l.release(rows_between(riders, valid.dim(1) == held ? valid : Tensor(), 0, leaving));
  }
  const int64_t unkept = fed.count - settings_.rows;
  if (unkept > 0) l.release(rows_between(fed.hidden, fed.valid, 0, unkept));
}

void LaMemo::absorb(Layer& l, const Rows& fed) {
  if (!l.local().is_own_segment) {
    mneme::fail(MNEME_E_STATE,
                "this memory keeps the segment's own rows, and it is fed with what an earlier tier "
                "let go: put it before that tier, or set feed = \"segment\"");
  }
  if (!settings_.looks_ahead) {
    keep_cached(l, fed);
    return;
  }
  if (l.layer() == 0) {
    const mneme::QueueValue embedded = l.queue(embedded_);
    embedded.append(fed);
    embedded.drop_oldest(std::max<int64_t>(embedded.size() - settings_.rows, 0));
  }
  keep_attended(l);
  release_oldest(l, fed);
}

}  // namespace lamemo

MNEME_PLUGIN_WITH_FEATURES(lamemo::LaMemo, "org.mneme.lamemo", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
