#include "host/backbone/rows/norm.hpp"

#include "host/backbone/rows/rows.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {

at::Tensor RowNorm::factor() const { return has_unit_offset ? weight + 1.0 : weight; }

at::Tensor RowNorm::operator()(const at::Tensor& x, at::ScalarType result) const {
  const kernel::RowKernels* const kernels = row_kernels(x);
  if (kernels != nullptr && are_taken_together(x.scalar_type(), weight.scalar_type()) &&
      are_taken_together(x.scalar_type(), result)) {
    return added_rows(*kernels, {.h = x, .following = {this, result}}).normed;
  }
  const std::int64_t width = weight.size(0);
  const at::Tensor rows = x.to(weight.scalar_type());
  const at::Tensor out = kind == config::NormKind::kLayer
                             ? at::layer_norm(rows, {width}, factor(), bias, epsilon)
                             : at::rms_norm(rows, {width}, factor(), epsilon);
  return out.to(result);
}

RowNorm RowNorm::constant() const {
  return {.weight = weight.detach(),
          .bias = bias.defined() ? bias.detach() : bias,
          .kind = kind,
          .epsilon = epsilon,
          .has_unit_offset = has_unit_offset};
}

RowNorm make_norm(const std::string& name, std::int64_t width, config::NormKind kind,
                  const config::ModelConfig& model, const InitScheme& init, ParameterStore& store) {
  RowNorm norm{
      .kind = kind, .epsilon = model.norm_epsilon, .has_unit_offset = model.norm_unit_offset};
  InitRule rule = init.norm();
  if (norm.has_unit_offset) rule.mean -= 1.0;
  norm.weight = store.make(name + ".weight", {width}, rule, false);
  if (kind == config::NormKind::kLayer) {
    norm.bias = store.make(name + ".bias", {width}, InitRule::constant(0.0), false);
  }
  return norm;
}

}  // namespace mneme::backbone
