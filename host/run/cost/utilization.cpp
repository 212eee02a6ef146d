#include "host/run/cost/utilization.hpp"

#include <exception>
#include <nlohmann/json.hpp>

#include "host/base/log.hpp"
#include "host/tensor/dense_product.hpp"

namespace mneme::run {

std::optional<double> Utilization::of(double tokens_a_second, std::int64_t devices) const {
  if (flops_a_token <= 0.0 || peak <= 0.0) return std::nullopt;
  const double share = flops_a_token * tokens_a_second / (peak * static_cast<double>(devices));
  if (share > 1.0) return std::nullopt;
  return share;
}

Utilization measure_utilization(const Runtime& runtime, double FlopsPerToken::*pass) {
  Utilization out;
  const LogListener silent([](LogLevel, std::string_view) { return false; });  // said by the run
  try {
    out.flops_a_token = count_flops(runtime).*pass;
    out.peak = tensor::product_rate(runtime.device(), runtime.precision());
  } catch (const std::exception& error) {
    out.problem = error.what();
  }
  return out;
}

namespace {

Json known(double value) { return value > 0.0 ? Json(value) : Json(nullptr); }

}  // namespace

Json to_json(const Utilization& utilization) {
  return {{"training_flops_per_token", known(utilization.flops_a_token)},
          {"product_flops_per_second", known(utilization.peak)},
          {"problem", utilization.problem}};
}

Json to_json(const Speed& speed) {
  const Utilization& evaluation = speed.evaluation;
  return {{"tokens_per_second", known(speed.tokens_a_second)},
          {"flops_per_token", known(evaluation.flops_a_token)},
          {"flops_per_second", known(evaluation.flops_a_token * speed.tokens_a_second)},
          {"product_flops_per_second", known(evaluation.peak)},
          {"mfu", known(evaluation.of(speed.tokens_a_second, speed.devices).value_or(0.0))},
          {"problem", evaluation.problem}};
}

Json generation_speed_json(const Runtime& runtime, std::int64_t state_bytes, std::int64_t samples,
                           std::int64_t steps, double seconds) {
  const std::int64_t number_bytes = runtime.precision() == config::Precision::kBf16  ? 2
                                    : runtime.precision() == config::Precision::kF64 ? 8
                                                                                     : 4;
  const std::int64_t bytes =
      (runtime.backbone_parameter_count() + runtime.memory_parameter_count()) * number_bytes +
      state_bytes;
  const double steps_a_second = seconds > 0.0 ? static_cast<double>(steps) / seconds : 0.0;
  const double rate = static_cast<double>(bytes) * steps_a_second;
  const double copied = tensor::copy_rate(runtime.device());
  return {{"tokens_per_second", known(static_cast<double>(samples) * steps_a_second)},
          {"bytes_per_step", bytes},
          {"bytes_per_second", known(rate)},
          {"copy_bytes_per_second", known(copied)},
          {"bandwidth_share", known(rate / copied)}};
}

}  // namespace mneme::run
