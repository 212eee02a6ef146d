#include "tests/golden/official_run.hpp"

#include <gtest/gtest.h>

#include <iostream>
#include <utility>

#include "host/base/error.hpp"
#include "host/eval/run_segment.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/official_weights.hpp"
#include "tests/golden/official_settings.hpp"

namespace mneme::golden {

at::Tensor lanes_first(const at::Tensor& t) { return t.transpose(0, 1).contiguous(); }

at::Tensor saved(const memory::StackState& state, const std::string& end) {
  std::map<int64_t, at::Tensor> blocks;
  const std::string inside = "." + end + ".";
  for (const auto& [name, tensor] : state.save().tensors) {
    if (name.ends_with("." + end)) return tensor;
    const size_t at = name.find(inside);
    if (at == std::string::npos || !name.ends_with(".hidden")) continue;
    blocks[std::stoll(name.substr(at + inside.size()))] = tensor;
  }
  std::vector<at::Tensor> rows;
  for (const auto& [index, tensor] : blocks) rows.push_back(tensor);
  return rows.empty() ? at::Tensor() : at::cat(rows, 1);
}

OfficialRun::OfficialRun(const SafetensorsFile& file, const config::ModelConfig& model,
                         const config::MemoryConfig& memory, at::ScalarType dtype,
                         memory::Phase phase)
    : file_(file), config_(model), phase_(phase), memory_(memory) {
  backbone::ModelSetup setup;
  setup.vocabulary = setting(file, "n_token");
  setup.train_segment = setup.eval_segment = setting(file, "tgt_len");
  setup.dtype = dtype;
  setup.device = test_device();
  setup.seed = 5;
  model_ = backbone::make_model(config_, setup);
  stack_ =
      std::make_unique<memory::Stack>(memory_, backbone::backbone_info(config_, setup), loader_);
  names_ = weights::find_names(*stack_, file, "param/");
  weights::load_official({*model_, config_, stack_.get(), names_ ? &*names_ : nullptr, &memory_},
                         file, "param/");
  if (config_.same_length) model_->set_context_rows(stack_->context_rows(phase));
  state_ = stack_->new_state(phase, setting(file, "batch").get<int64_t>());
  model_->train(phase == memory::Phase::kTraining);
}

at::Tensor OfficialRun::read(const std::string& name) const {
  return weights::read_tensor(file_, name, at::kDouble);
}

at::Tensor OfficialRun::ids(const std::string& name) const {
  return lanes_first(weights::read_tensor(file_, name, at::kLong)).to(test_device());
}

void OfficialRun::compare(Comparison& comparison, const std::string& name,
                          const at::Tensor& ours) const {
  if (file_.contains(name)) comparison.check(name, ours, lanes_first(read(name)));
}

backbone::Output OfficialRun::forward(const backbone::Batch& batch, Tap& tap,
                                      std::map<std::string, at::Tensor>& probes) {
  eval::SegmentOptions with;
  with.forward.tap = &tap;
  with.memory.wanted_probes = {"memory.alpha"};
  with.memory.probes = &probes;
  return eval::run_segment(*model_, *stack_, state_, batch, std::move(with));
}

void OfficialRun::run(Comparison& comparison) {
  const auto lengths = setting(file_, "segments").get<std::vector<int64_t>>();
  for (size_t t = 0; t < lengths.size(); ++t) segment(t, t + 1 == lengths.size(), comparison);
  finish(comparison);
}

void OfficialRun::segment(size_t t, bool is_last, Comparison& comparison) {
  const std::string prefix = str("seg", t, "/");
  Tap tap;
  std::map<std::string, at::Tensor> probes;
  const backbone::Output out =
      forward({ids(prefix + "input"), ids(prefix + "target"), {}}, tap, probes);
  compare(comparison, prefix + "nll", out.nll);
  for (int64_t l = 0; l < config_.layers; ++l) {
    compare(comparison, str(prefix, "attn_out/", l), tap.attention_out[static_cast<size_t>(l)]);
    compare(comparison, str(prefix, "layer_out/", l), tap.layer_out[static_cast<size_t>(l)]);
  }
  compare_memory(comparison, prefix, tap, probes);
  if (!is_last) return;
  const at::Tensor loss = out.nll.mean();
  comparison.check("last_mean_loss", loss.view({1}), read("last_mean_loss"));
  if (phase_ == memory::Phase::kTraining) gradients(loss, comparison);
}

void OfficialRun::gradients(const at::Tensor& loss, Comparison& comparison) {
  loss.backward();
  std::map<std::string, at::Tensor> of_parameter;
  for (const backbone::Parameter& p : model_->parameters()) of_parameter[p.name] = p.tensor;
  for (const memory::TierParameter& p : stack_->parameters()) of_parameter[p.name] = p.tensor;
  std::map<std::string, at::Tensor> ours;
  for (const weights::OfficialTensor& t : weights::official_tensors(
           {*model_, config_, stack_.get(), names_ ? &*names_ : nullptr, &memory_})) {
    const at::Tensor& parameter = of_parameter.at(t.parameter);
    at::Tensor grad = parameter.grad();
    if (grad.defined() && t.value.numel() != parameter.numel()) {
      // Rows of the parameter: as far from its start as the rows themselves.
      const int64_t row = parameter.numel() / parameter.size(0);
      grad = grad.narrow(0, (t.value.storage_offset() - parameter.storage_offset()) / row,
                         t.value.size(0));
    }
    for (const std::string& name : t.names) ours[name] = grad;
  }
  for (const std::string& name : file_.names()) {
    if (!name.starts_with("grad/")) continue;
    ASSERT_TRUE(ours.contains(name.substr(5))) << name;
    comparison.check(name, ours.at(name.substr(5)), read(name));
  }
}

namespace {

int64_t compare_file(const Family& family, const SafetensorsFile& file, const std::string& title) {
  int64_t compared = 0;
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    for (const memory::Phase phase : {memory::Phase::kTraining, memory::Phase::kEvaluation}) {
      const bool is_training = phase == memory::Phase::kTraining;
      Comparison comparison(str(title, dtype == at::kDouble ? " f64" : " f32",
                                is_training ? " training" : " evaluation"),
                            family.tolerance(file, dtype));
      try {
        const at::AutoGradMode grad(is_training);
        family.make(file, dtype, phase)->run(comparison);
      } catch (const std::exception& error) {
        ADD_FAILURE() << title << ": " << error.what();
      }
      EXPECT_GT(comparison.count(), 0) << title;
      std::cout << comparison.summary() << std::endl;
      compared += comparison.count();
    }
  }
  return compared;
}

}  // namespace

void compare_family(const Family& family) {
  int64_t compared = 0;
  for (const auto& path : files(family.name)) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    const std::string title = path.stem().string();
    if (const std::string reason = family.left_out(file); !reason.empty()) {
      std::cout << title << ": skipped by setting " << reason << std::endl;
      continue;
    }
    compared += compare_file(family, file, title);
  }
  EXPECT_GT(compared, 0) << "no file of the family could be compared";
}

}  // namespace mneme::golden
