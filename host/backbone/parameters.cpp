#include "host/backbone/parameters.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "host/base/random.hpp"
#include "host/tensor/dense_product.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

void fill(double* values, std::int64_t count, const InitRule& rule, Random random) {
  switch (rule.kind) {
    case InitRule::Kind::kConstant:
      std::fill_n(values, count, rule.mean);
      return;
    case InitRule::Kind::kUniform:
      for (std::int64_t i = 0; i < count; ++i) {
        values[i] = rule.mean + rule.spread * (2.0 * random.uniform() - 1.0);
      }
      return;
    case InitRule::Kind::kNormal:
      for (std::int64_t i = 0; i < count; i += 2) {
        const auto [first, second] = random.normal_pair();
        values[i] = rule.mean + rule.spread * first;
        if (i + 1 < count) values[i + 1] = rule.mean + rule.spread * second;
      }
      return;
  }
}

}  // namespace

bool is_low_rank_update(std::string_view parameter) {
  return parameter.find(".update.") != parameter.npos;
}

at::Tensor ParameterStore::make(const std::string& name, at::IntArrayRef shape,
                                const InitRule& rule, bool decays) {
  return add(name, shape, rule, decays, draws_);
}

at::Tensor ParameterStore::make_drawn(const std::string& name, at::IntArrayRef shape,
                                      const InitRule& rule) {
  return add(name, shape, rule, /*decays=*/true, /*draws=*/true);
}

at::Tensor ParameterStore::add(const std::string& name, at::IntArrayRef shape, const InitRule& rule,
                               bool decays, bool draws) {
  if (find(name) != nullptr) throw std::logic_error("parameter declared twice: " + name);
  at::Tensor leaf;
  if (device_.is_meta()) {  // an outline: nothing is stored, so nothing is drawn
    leaf = at::empty(shape, at::TensorOptions().dtype(dtype_).device(device_));
  } else if (!draws) {
    leaf = at::full(shape, std::numeric_limits<double>::quiet_NaN(),
                    at::TensorOptions().dtype(dtype_).device(device_));
  } else {
    at::Tensor values = at::empty(shape, at::kDouble);
    fill(values.mutable_data_ptr<double>(), values.numel(), rule,
         Random(seed_, {"parameter", name}));
    leaf = values.to(device_, dtype_).detach();
  }
  leaf.set_requires_grad(true);
  parameters_.push_back({name, leaf, decays});
  return leaf;
}

const Parameter* ParameterStore::find(const std::string& name) const {
  const auto it = std::find_if(parameters_.begin(), parameters_.end(),
                               [&](const Parameter& p) { return p.name == name; });
  return it == parameters_.end() ? nullptr : &*it;
}

InitRule InitScheme::linear(std::int64_t inputs) const {
  return is_article() ? InitRule::uniform(1.0 / std::sqrt(static_cast<double>(inputs)))
                      : InitRule::normal(0.0, 0.02);
}

InitRule InitScheme::residual(std::int64_t inputs) const {
  if (kind != config::Init::kGpt2) return linear(inputs);
  return InitRule::normal(0.0, 0.02 / std::sqrt(2.0 * static_cast<double>(layers)));
}

InitRule InitScheme::linear_bias(std::int64_t inputs) const {
  return is_article() ? linear(inputs) : InitRule::constant(0.0);
}

InitRule InitScheme::table() const { return InitRule::normal(0.0, is_article() ? 1.0 : 0.02); }

InitRule InitScheme::projection(std::int64_t inputs) const {
  if (is_article()) return linear(inputs);
  return InitRule::normal(0.0, kind == config::Init::kGpt2 ? 0.02 : 0.01);
}

InitRule InitScheme::norm() const {
  return kind == config::Init::kOfficial ? InitRule::normal(1.0, 0.02) : InitRule::constant(1.0);
}

}  // namespace mneme::backbone
