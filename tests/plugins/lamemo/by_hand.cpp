#include "tests/plugins/lamemo/by_hand.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace lamemo_test {
namespace {

using mneme::str;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// [sin(D w_0 ..), cos(D w_0 ..)], w_k = 10000^(-2k/D) [Transformer-XL, released code].
at::Tensor sinusoid(const at::Tensor& distances, int64_t width) {
  const at::Tensor k = at::arange(0, width, 2, at::kDouble) / static_cast<double>(width);
  const at::Tensor angle =
      distances.to(at::kDouble).unsqueeze(-1) * at::pow(10000.0, -k).unsqueeze(0);
  return at::cat({angle.sin(), angle.cos()}, -1);
}

at::Tensor last_rows(const at::Tensor& t, int64_t rows) {
  const int64_t held = t.size(1), kept = std::min(held, rows);
  return t.narrow(1, held - kept, kept);
}

}  // namespace

ByHandSettings ByHandSettings::parse(const std::string& options, int64_t rows) {
  const auto has = [&](const char* line) { return options.find(line) != std::string::npos; };
  ByHandSettings s;
  s.rows = rows;
  s.is_official = has("window = \"official\"");
  if (const std::size_t at = options.find("epsilon = "); at != std::string::npos) {
    s.epsilon = std::stod(options.substr(at + 10));
  }
  s.interpolates = !has("interpolation = false");
  s.is_full = has("full_mask = true");
  s.is_signed = has("signed_ablation = true");
  s.has_content_bias = has("content_bias_ahead = true");
  return s;
}

ByHand::ByHand(const MemorySession& session, const ModelConfig& config,
               const ByHandSettings& settings)
    : session_(session), config_(config), settings_(settings) {
  const auto layers = static_cast<std::size_t>(config.layers);
  context_.resize(layers);
  lse_.resize(layers);
  alpha_.resize(layers);
  fresh_.resize(layers);
}

at::Tensor ByHand::norm(const std::string& name, const at::Tensor& x) const {
  return at::layer_norm(x, {config_.width}, weight(name + ".weight"), weight(name + ".bias"));
}

at::Tensor ByHand::feed(const std::string& layer, const at::Tensor& x) const {
  const at::Tensor inner =
      at::linear(x, weight(layer + "ff.in.weight"), weight(layer + "ff.in.bias")).relu();
  return at::linear(inner, weight(layer + "ff.out.weight"), weight(layer + "ff.out.bias"));
}

ByHand::Heads ByHand::project(const std::string& layer, const at::Tensor& x) const {
  const auto parts = at::linear(x, weight(layer + "attention.qkv.weight"))
                         .view({x.size(0), x.size(1), 3, config_.heads, config_.head_width})
                         .permute({2, 0, 3, 1, 4})
                         .unbind(0);
  return {parts[0], parts[1], parts[2]};
}

at::Tensor ByHand::scores(const std::string& layer, const Heads& heads, int64_t first,
                          int64_t count, const at::Tensor& content_bias,
                          const at::Tensor& position_bias, bool is_signed) const {
  const int64_t keys = heads.k.size(2), h = config_.heads, d = config_.head_width;
  const at::Tensor q = heads.q.narrow(2, first, count);
  at::Tensor distance =
      at::arange(first, first + count).unsqueeze(1) - at::arange(keys).unsqueeze(0);
  if (!is_signed) distance = distance.abs();
  if (config_.clamp_distance > 0) distance = distance.clamp_max(config_.clamp_distance);
  const at::Tensor table =
      at::linear(sinusoid(distance, config_.width), weight(layer + "attention.position.weight"))
          .view({count, keys, h, d});
  const auto biased = [&](const at::Tensor& bias) { return q + bias.view({1, h, 1, d}); };
  const at::Tensor content = at::einsum("bhid,bhjd->bhij", {biased(content_bias), heads.k});
  const at::Tensor position = at::einsum("bhid,ijhd->bhij", {biased(position_bias), table});
  return (content + position) / std::sqrt(static_cast<double>(d));
}

// [Transformer-XL] over riders and tokens.
ByHand::Attended ByHand::attend_tokens(const std::string& layer, const Heads& heads,
                                       int64_t riders) const {
  const int64_t keys = heads.k.size(2), tokens = keys - riders;
  const at::Tensor is_later = at::ones({tokens, keys}, at::kBool).triu(riders + 1);
  const at::Tensor a = scores(layer, heads, riders, tokens, weight("attention.content_bias"),
                              weight("attention.position_bias"), true)
                           .masked_fill(is_later, kMinusInfinity);
  return {at::einsum("bhij,bhjd->bihd", {a.softmax(-1), heads.v}), a.logsumexp(-1).transpose(1, 2)};
}

// [LaMemo, eq. 7], before interpolation.
ByHand::Attended ByHand::look_ahead(const std::string& layer, const Heads& heads,
                                    int64_t riders) const {
  const int64_t keys = heads.k.size(2);
  const int64_t window = settings_.is_official ? keys - riders : previous_;
  const at::Tensor content = settings_.has_content_bias ? weight("model.content_bias_ahead")
                                                        : weight("attention.content_bias");
  const at::Tensor position =
      settings_.is_signed ? weight("attention.position_bias") : weight("model.position_bias_ahead");
  const at::Tensor i = at::arange(riders).unsqueeze(1), j = at::arange(keys).unsqueeze(0);
  at::Tensor is_seen = j.ge(std::max<int64_t>(riders - window + 1, 1)).logical_and(j.le(riders));
  is_seen = settings_.is_full ? is_seen.expand({riders, keys}) : is_seen.logical_and(j.gt(i));
  const at::Tensor a = scores(layer, heads, 0, riders, content, position, settings_.is_signed)
                           .masked_fill(is_seen.logical_not(), kMinusInfinity);
  return {at::einsum("bhij,bhjd->bihd", {a.softmax(-1), heads.v}), a.logsumexp(-1).transpose(1, 2)};
}

// [LaMemo, eq. 8 to 11]; epsilon in alpha alone, after division by the larger term.
ByHand::Attended ByHand::refresh(int64_t layer, const Heads& heads, int64_t riders) {
  const auto l = static_cast<std::size_t>(layer);
  const Attended ahead = look_ahead(str("layers.", layer, "."), heads, riders);
  if (!settings_.interpolates) {
    alpha_[l] = at::zeros_like(ahead.lse);
    return ahead;
  }
  const at::Tensor top = at::maximum(lse_[l], ahead.lse);
  const at::Tensor before = (lse_[l] - top).exp(), after = (ahead.lse - top).exp();
  const at::Tensor alpha = before / (before + after + settings_.epsilon);
  alpha_[l] = alpha.detach();
  return {alpha.unsqueeze(-1) * context_[l] + (1.0 - alpha).unsqueeze(-1) * ahead.context,
          at::logaddexp(lse_[l], ahead.lse)};
}

at::Tensor ByHand::layer(int64_t index, const at::Tensor& h, int64_t riders) {
  const std::string name = str("layers.", index, ".");
  const bool is_pre = config_.norm == Norm::kPre;
  const Heads heads = project(name, is_pre ? norm(name + "attention.norm", h) : h);
  Attended all = attend_tokens(name, heads, riders);
  if (riders > 0) {
    const Attended ridden = refresh(index, heads, riders);
    all = {at::cat({ridden.context, all.context}, 1), at::cat({ridden.lse, all.lse}, 1)};
  }
  fresh_[static_cast<std::size_t>(index)] = {all.context.detach(), all.lse.detach()};
  const at::Tensor attended =
      at::linear(all.context.flatten(2), weight(name + "attention.output.weight"));
  if (is_pre) {
    const at::Tensor middle = h + attended;
    return middle + feed(name, norm(name + "ff.norm", middle));
  }
  const at::Tensor middle = norm(name + "attention.norm", h + attended);
  return norm(name + "ff.norm", middle + feed(name, middle));
}

void ByHand::keep(const at::Tensor& embedded) {
  embedded_ = last_rows(
      embedded_.defined() ? at::cat({embedded_, embedded.detach()}, 1) : embedded.detach(),
      settings_.rows);
  for (std::size_t l = 0; l < fresh_.size(); ++l) {
    context_[l] = last_rows(fresh_[l].context, settings_.rows);
    lse_[l] = last_rows(fresh_[l].lse, settings_.rows);
  }
  previous_ = embedded.size(1);
}

at::Tensor ByHand::forward(const at::Tensor& embedded) {
  const int64_t riders = embedded_.defined() ? embedded_.size(1) : 0;
  at::Tensor h = riders > 0 ? at::cat({embedded_, embedded}, 1) : embedded;
  for (int64_t l = 0; l < config_.layers; ++l) {
    h = layer(l, h, riders);
    if (settings_.detaches_riders) {
      h = at::cat({h.narrow(1, 0, riders).detach(), h.narrow(1, riders, embedded.size(1))}, 1);
    }
  }
  keep(embedded);
  return h.narrow(1, riders, embedded.size(1));
}

}  // namespace lamemo_test
