#include "host/backbone/norm.hpp"

#include "host/tensor/torch.hpp"

namespace mneme::backbone {

at::Tensor RowNorm::operator()(const at::Tensor& x) const {
  const std::int64_t width = weight.size(0);
  if (kind == config::NormKind::kLayer) return at::layer_norm(x, {width}, weight, bias, epsilon);
  return at::rms_norm(x, {width}, weight, epsilon);
}

RowNorm RowNorm::constant() const {
  return {.weight = weight.detach(),
          .bias = bias.defined() ? bias.detach() : bias,
          .kind = kind,
          .epsilon = epsilon};
}

RowNorm make_norm(const std::string& name, std::int64_t width, config::NormKind kind,
                  double epsilon, const InitScheme& init, ParameterStore& store) {
  RowNorm norm{.kind = kind, .epsilon = epsilon};
  norm.weight = store.make(name + ".weight", {width}, init.norm(), false);
  if (kind == config::NormKind::kLayer) {
    norm.bias = store.make(name + ".bias", {width}, InitRule::constant(0.0), false);
  }
  return norm;
}

}  // namespace mneme::backbone
