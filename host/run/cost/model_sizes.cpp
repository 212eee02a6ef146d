#include "host/run/cost/model_sizes.hpp"

#include <algorithm>

#include "host/backbone/parameters.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::run {

void ModelSizes::add(const optim::TrainableParameter& parameter) {
  const std::int64_t numbers = parameter.tensor.numel();
  if (parameter.name.starts_with("model.") && backbone::is_low_rank_update(parameter.name))
    update_parameters += numbers;
  if (parameter.by_muon && !parameter.is_frozen) muon_parameters += numbers;
  largest_parameter = std::max(largest_parameter, numbers);
}

}  // namespace mneme::run
