#include "host/weights/pretrained/folder_tensors.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::weights {
namespace {

constexpr const char* kTable = "embedding.0.weight";
constexpr const char* kHead = "softmax.0.weight";

std::int64_t rows_of(const std::string& word, const config::ModelConfig& model, std::int64_t all) {
  if (word == "query") return model.heads * model.head_width;
  if (word == "key") return model.key_heads() * model.head_width;
  if (word == "ff") return model.ff;
  return all;
}

}  // namespace

bool holds_reals(DType dtype) {
  return dtype == DType::F64 || dtype == DType::F32 || dtype == DType::F16 || dtype == DType::BF16;
}

at::Tensor tensor_over(const TensorView& view) {
  const std::size_t unit = std::max<std::size_t>(dtype_bits(view.dtype) / 8, 1);
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(view.data) % unit == 0;
  if (!is_aligned || view.bytes == 0) return tensor::to_tensor(view);
  // LibTorch has no constant tensors; nothing writes into this one.
  return at::from_blob(const_cast<std::byte*>(view.data), view.shape,
                       at::TensorOptions().dtype(tensor::scalar_type_of(view.dtype).value()));
}

namespace {

at::Tensor numbers_of_gguf(const GgufModel& model, const TensorView& view) {
  const std::vector<float> numbers = model.numbers(view.name);
  return at::tensor(numbers, at::kFloat).view(view.shape);
}

bool are_equal(const TensorView& a, const TensorView& b) {
  if (a.shape != b.shape) return false;
  if (a.dtype == b.dtype) return a.bytes == 0 || std::memcmp(a.data, b.data, a.bytes) == 0;
  const auto numbers = [](const TensorView& view) { return tensor_over(view).to(at::kDouble); };
  return holds_reals(a.dtype) && holds_reals(b.dtype) && at::equal(numbers(a), numbers(b));
}

// What is wrong with a constant; "" when nothing is.
std::string problem_of_constant(const TensorView& view, const std::string& kind) {
  if (kind == "kept") return "";
  const std::optional<at::ScalarType> type = tensor::scalar_type_of(view.dtype);
  const bool has_shape = type && view.shape.size() == 4 && view.shape[0] == 1 &&
                         view.shape[1] == 1 && view.shape[2] == view.shape[3];
  if (has_shape && at::equal(tensor_over(view), causal_mask(view.shape[2], *type))) return "";
  return str(
      "expected the mask of a causal model, the lower triangle of ones, [1, 1, n, n]; got "
      "other values, ",
      list_text(view.shape));
}

// Error (kRun) for weights whose names a wrapper of the model changed: all of them with a part in
// front, or those of adapted layers.
void refuse_wrapped(const ModelFolder& folder, const FolderNames& names) {
  const std::vector<std::string> given = folder.names();
  for (const std::string& name : given) {
    if (name.find(".base_layer.") == name.npos) continue;
    throw_run({.where = str(folder.path().string(), ": ", name),
               .failed = "these are the weights of a model with an adapter (peft)",
               .hint = "save it after merge_and_unload"});
  }
  const std::string table = names.family.parts_of(kTable).front().name;
  for (const std::string& name : given) {
    const std::string front = name.substr(0, name.size() - std::min(name.size(), table.size()));
    const auto has_front = [&](const std::string& one) { return one.starts_with(front); };
    if (front.empty() || name != front + table || !std::ranges::all_of(given, has_front)) continue;
    throw_run({.where = folder.path().string(),
               .failed = str("all names of tensors begin with \"", front, '"'),
               .expected = table,
               .got = name,
               .hint = "save the model inside of the wrapper that has put this in front: _orig_mod "
                       "of torch.compile, module of DistributedDataParallel, merge_and_unload of "
                       "peft"});
  }
}

// Compares a folder's tensors with the parameters.
class TensorChecker {
 public:
  TensorChecker(const ModelFolder& folder, const FolderNames& names,
                const config::ModelConfig& model, const std::vector<ParameterShape>& parameters)
      : folder_(folder),
        names_(names),
        is_tied_(model.tie_embedding),
        tensors_(folder_tensors(names, model, parameters, &unnamed_)) {
    for (const FolderTensor& tensor : tensors_) {
      for (const std::string& name : tensor.names) by_name_.emplace(name, &tensor);
    }
  }

  std::vector<std::string> problems() {
    for (const FolderTensor& tensor : tensors_) check_present(tensor);
    for (const std::string& name : folder_.names()) {
      if (!names_.is_ignored(name)) {
        check_given(name, *folder_.find(name));
      } else if (by_name_.contains(name)) {
        problems_.push_back(str(name, ": a parameter of the model cannot be passed over"));
      }
    }
    for (const std::string& name : unnamed_) {
      problems_.push_back(str(name, ": models of the family \"", names_.family.model_type,
                              "\" have no such parameter"));
    }
    return std::move(problems_);
  }

 private:
  void check_present(const FolderTensor& tensor) {
    std::vector<const TensorView*> found;
    for (const std::string& name : tensor.names) {
      if (const TensorView* const view = folder_.find(name)) found.push_back(view);
    }
    if (found.empty()) {
      const bool is_head = !is_tied_ && tensor.parameter == kHead;
      problems_.push_back(str(tensor.names.front(), ": missing: expected ", list_text(tensor.shape),
                              is_head ? ", because tie_word_embeddings is false" : ""));
    }
    for (std::size_t i = 1; i < found.size(); ++i) {
      if (are_equal(*found[0], *found[i])) continue;
      problems_.push_back(str(found[i]->name, ": differs from ", found[0]->name,
                              ", to which tie_word_embeddings ties it"));
    }
    if (found.size() < 2) return;
    for (const TensorView* const view : found) release(*view);
  }

  void check_given(const std::string& name, const TensorView& view) {
    const auto add = [&](const std::string& text) { problems_.push_back(str(name, ": ", text)); };
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) {
      const std::string kind = names_.constant_kind(name);
      if (kind.empty()) {
        add(str("unexpected: the model has no such parameter: ", list_text(view.shape)));
      } else if (const std::string problem = problem_of_constant(view, kind); !problem.empty()) {
        add(problem);
      }
    } else if (view.shape != found->second->shape) {
      add(str("wrong shape: expected ", list_text(found->second->shape), ", got ",
              list_text(view.shape)));
    } else if (!holds_reals(view.dtype)) {
      add(str("wrong dtype: expected F32, BF16, F16 or F64, got ", dtype_name(view.dtype)));
    }
  }

  const ModelFolder& folder_;
  const FolderNames& names_;
  bool is_tied_;
  std::vector<std::string> unnamed_;
  std::vector<FolderTensor> tensors_;
  std::map<std::string, const FolderTensor*> by_name_;
  std::vector<std::string> problems_;
};

}  // namespace

FolderNames FolderNames::of(const Family& family, const std::vector<std::string>& names) {
  const bool has_prefix = std::ranges::any_of(
      names, [&](const std::string& name) { return name.starts_with(family.prefix); });
  return {.family = family, .has_prefix = has_prefix};
}

std::string FolderNames::name(const std::string& of_family) const {
  const bool is_cut = !has_prefix && of_family.starts_with(family.prefix);
  return is_cut ? of_family.substr(family.prefix.size()) : of_family;
}

std::string FolderNames::constant_kind(const std::string& name) const {
  return family.constant_kind(has_prefix ? name : family.prefix + name);
}

bool FolderNames::is_ignored(const std::string& name) const {
  return std::ranges::find(ignored, name) != ignored.end();
}

bool FolderNames::is_dropped(const TensorView& tensor) const {
  constexpr std::uint64_t kMaxKeptBytes = 65536;
  return is_ignored(tensor.name) ||
         (constant_kind(tensor.name) == "kept" && tensor.bytes > kMaxKeptBytes);
}

std::vector<FolderTensor> folder_tensors(const FolderNames& names, const config::ModelConfig& model,
                                         const std::vector<ParameterShape>& parameters,
                                         std::vector<std::string>* unnamed) {
  std::vector<FolderTensor> out;
  for (const ParameterShape& parameter : parameters) {
    const std::vector<FamilyPart> parts = names.family.parts_of(parameter.name);
    if (backbone::is_low_rank_update(parameter.name)) continue;  // no part of the folder
    if (parts.empty() && unnamed != nullptr) unnamed->push_back(parameter.name);
    std::int64_t first = 0;
    for (const FamilyPart& part : parts) {
      FolderTensor tensor{.names = {names.name(part.name)},
                          .parameter = parameter.name,
                          .first = first,
                          .rows = rows_of(part.rows, model, parameter.shape.at(0)),
                          .is_transposed = part.is_transposed,
                          .shape = parameter.shape};
      first += tensor.rows;
      tensor.shape.at(0) = tensor.rows;
      if (part.is_transposed) std::ranges::reverse(tensor.shape);
      if (parameter.name == kTable && model.tie_embedding) {
        for (const FamilyPart& head : names.family.parts_of(kHead)) {
          tensor.names.push_back(names.name(head.name));
        }
      }
      out.push_back(std::move(tensor));
    }
    if (!parts.empty() && first != parameter.shape.at(0)) {
      throw_usage({.where = parameter.name,
                   .failed = "a memory that replaces the attention wants another projection than "
                             "models of this family have",
                   .expected = str(first, " rows"),
                   .got = str(parameter.shape.at(0)),
                   .hint = "let the memory project by itself, and pass over the projections of the "
                           "folder with --ignore NAME"});
    }
  }
  return out;
}

std::vector<ParameterShape> shapes_of(const backbone::Model& model) {
  std::vector<ParameterShape> out;
  for (const backbone::Parameter& parameter : model.parameters()) {
    out.push_back({parameter.name, parameter.tensor.sizes().vec()});
  }
  return out;
}

std::vector<std::string> check_tensors(const ModelFolder& folder, const FolderNames& names,
                                       const config::ModelConfig& model,
                                       const std::vector<ParameterShape>& parameters) {
  return TensorChecker(folder, names, model, parameters).problems();
}

bool has_row_for_each_id(std::string_view parameter) {
  return parameter == kTable || parameter == kHead;
}

void load_tensors(const ModelFolder& folder, const FolderNames& names,
                  const config::ModelConfig& config, backbone::Model& model,
                  std::int64_t vocabulary) {
  std::vector<ParameterShape> shapes = shapes_of(model);
  for (ParameterShape& parameter : shapes) {
    if (vocabulary > 0 && has_row_for_each_id(parameter.name)) {
      parameter.shape.front() = vocabulary;
    }
  }
  const std::vector<std::string> problems = check_tensors(folder, names, config, shapes);
  if (!problems.empty()) {
    refuse_wrapped(folder, names);
    throw_run({.where = folder.path().string(),
               .failed = str("the tensors are not those of the model that ", kConfigName,
                             " describes:\n  ", join(problems, "\n  "), "\n"),
               .hint = "files of different models are mixed, or one is not complete; a tensor that "
                       "the model does not need is passed over with --ignore NAME"});
  }
  std::map<std::string, at::Tensor> values;
  for (const backbone::Parameter& parameter : model.parameters()) {
    values.emplace(parameter.name, parameter.tensor.detach());
  }
  const at::NoGradGuard no_grad;
  for (const FolderTensor& tensor : folder_tensors(names, config, shapes)) {
    const auto own = std::ranges::find_if(
        tensor.names, [&](const std::string& name) { return folder.find(name) != nullptr; });
    const TensorView& view = *folder.find(*own);
    const at::Tensor source =
        folder.gguf() == nullptr ? tensor_over(view) : numbers_of_gguf(*folder.gguf(), view);
    values.at(tensor.parameter)
        .narrow(0, tensor.first, tensor.rows)
        .copy_(tensor.is_transposed ? source.t() : source);
    release(view);
  }
}

at::Tensor value_for_folder(const FolderTensor& tensor, const at::Tensor& parameter,
                            at::ScalarType dtype) {
  const at::Tensor rows = parameter.narrow(0, tensor.first, tensor.rows);
  return (tensor.is_transposed ? rows.t() : rows).to(dtype).contiguous();
}

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

at::Tensor causal_mask(std::int64_t n, at::ScalarType dtype) {
  return at::ones({n, n}, dtype).tril().view({1, 1, n, n});
}

}  // namespace mneme::weights
