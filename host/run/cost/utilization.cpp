#include "host/run/cost/utilization.hpp"

#include <exception>
#include <nlohmann/json.hpp>

#include "host/base/log.hpp"
#include "host/tensor/dense_product.hpp"

namespace mneme::run {

std::optional<double> Utilization::of(double tokens_a_second, std::int64_t devices) const {
  if (flops_a_token <= 0.0 || peak <= 0.0) return std::nullopt;
  return flops_a_token * tokens_a_second / (peak * static_cast<double>(devices));
}

Utilization measure_utilization(const Runtime& runtime) {
  Utilization out;
  const LogListener silent([](LogLevel, std::string_view) { return false; });  // said by the run
  try {
    out.flops_a_token = count_flops(runtime).training;
    out.peak = tensor::product_rate(runtime.device(), runtime.precision());
  } catch (const std::exception& error) {
    out.problem = error.what();
  }
  return out;
}

Json to_json(const Utilization& utilization) {
  const auto known = [](double value) { return value > 0.0 ? Json(value) : Json(nullptr); };
  return {{"training_flops_per_token", known(utilization.flops_a_token)},
          {"product_flops_per_second", known(utilization.peak)},
          {"problem", utilization.problem}};
}

}  // namespace mneme::run
