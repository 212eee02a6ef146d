#include "host/weights/low_rank.hpp"

#include <string_view>

#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/pretrained/folder_tensors.hpp"

namespace mneme::weights {

at::Tensor merged_parameter(const run::Checkpoint& checkpoint, const std::string& name) {
  constexpr std::string_view kWeight = ".weight";
  const at::Tensor own = tensor_over(checkpoint.file().at(name));
  if (!name.ends_with(kWeight)) return own;
  const std::string update = str(name.substr(0, name.size() - kWeight.size()), ".update.");
  if (!checkpoint.file().contains(update + "a")) return own;
  const at::Tensor a = tensor_over(checkpoint.file().at(update + "a")).to(at::kDouble);
  const at::Tensor b = tensor_over(checkpoint.file().at(update + "b")).to(at::kDouble);
  if (!b.any().item<bool>()) return own;
  const config::ModelConfig& model = checkpoint.experiment().model;
  const double factor = model.lora_alpha / static_cast<double>(model.lora_rank);
  return (own.to(at::kDouble) + factor * at::mm(b, a)).to(own.scalar_type());
}

}  // namespace mneme::weights
