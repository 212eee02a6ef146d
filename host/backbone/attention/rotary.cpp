#include "host/backbone/attention/rotary.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

using config::RotaryConfig;
using config::RotaryScaling;

// The pair that turns `turns` times in the original context, as a real index.
double pair_of_turns(const RotaryConfig& config, double width, double turns) {
  const double context = static_cast<double>(config.original_positions);
  return width * std::log(context / (turns * 2.0 * std::numbers::pi)) /
         (2.0 * std::log(config.base));
}

// The share of pair i that keeps its frequency.
double kept_share(const RotaryConfig& config, std::int64_t width, std::int64_t i) {
  const auto d = static_cast<double>(width);
  double low = pair_of_turns(config, d, config.beta_fast);
  double high = pair_of_turns(config, d, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, d - 1.0);
  if (low == high) high += 0.001;
  return 1.0 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
}

double llama3_frequency(const RotaryConfig& config, double frequency) {
  const auto context = static_cast<double>(config.original_positions);
  const double period = 2.0 * std::numbers::pi / frequency;
  if (period < context / config.high_factor) return frequency;
  if (period > context / config.low_factor) return frequency / config.factor;
  const double share =
      (context / period - config.low_factor) / (config.high_factor - config.low_factor);
  return (1.0 - share) * frequency / config.factor + share * frequency;
}

}  // namespace

std::vector<double> rotary_frequencies(const RotaryConfig& config, std::int64_t width) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < width / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(width);
    const double plain = std::pow(config.base, -exponent);
    switch (config.scaling) {
      case RotaryScaling::kNone:
      case RotaryScaling::kDynamic:  // contexts that it would lower are refused
        out.push_back(plain);
        break;
      case RotaryScaling::kLinear:
        out.push_back(plain / config.factor);
        break;
      case RotaryScaling::kLlama3:
        out.push_back(llama3_frequency(config, plain));
        break;
      case RotaryScaling::kYarn: {
        const double kept = kept_share(config, width, i);
        out.push_back(plain * kept + plain / config.factor * (1.0 - kept));
      }
    }
  }
  return out;
}

double rotary_factor(const RotaryConfig& config) {
  if (config.scaling != RotaryScaling::kYarn) return 1.0;
  if (config.attention_factor > 0.0) return config.attention_factor;
  return 0.1 * std::log(config.factor) + 1.0;
}

RotaryTables::RotaryTables(const RotaryConfig& config, std::int64_t head_width, at::Device device)
    : frequencies_(at::tensor(rotary_frequencies(config, head_width), at::kDouble).to(device)),
      factor_(rotary_factor(config)) {}

Turn RotaryTables::at(const at::Tensor& places, at::ScalarType dtype) const {
  const at::NoGradGuard no_grad;
  const at::Tensor angle = places.to(at::kDouble).unsqueeze(-1) * frequencies_;
  return {(angle.cos() * factor_).to(dtype), (angle.sin() * factor_).to(dtype)};
}

Turn RotaryTables::range(std::int64_t first, std::int64_t count, at::ScalarType dtype) {
  const bool has_any = kept_.cos.defined() && kept_.cos.scalar_type() == dtype;
  std::int64_t begin = has_any ? first_ : first, end = has_any ? first_ + kept_.cos.size(0) : first;
  // A growing context asks for a place more at a time: half as many again are computed ahead.
  const std::int64_t spare = count / 2;
  const bool grows_left = first<begin, grows_right = first + count> end;
  if (grows_left) begin = first - spare;
  if (grows_right) end = first + count + spare;
  if (grows_left || grows_right) {
    kept_ = at(at::arange(begin, end, frequencies_.options().dtype(at::kLong)), dtype);
    first_ = begin;
  }
  return {kept_.cos.narrow(0, first - first_, count), kept_.sin.narrow(0, first - first_, count)};
}

}  // namespace mneme::backbone
