// The backbone with a segment cache against the official Transformer-XL (fixtures/transformer_xl).
//
// Every file of the family is read when the test runs; every setting comes from its metadata.
#include <gtest/gtest.h>

#include <iostream>
#include <map>

#include "host/backbone/model.hpp"
#include "host/backbone/official_weights.hpp"
#include "host/base/error.hpp"
#include "host/base/safetensors.hpp"
#include "host/memory/loader.hpp"
#include "host/memory/stack.hpp"
#include "host/torch.hpp"
#include "tests/golden/golden.hpp"
#include "tests/golden/official_settings.hpp"

namespace mneme {
namespace {

using golden::Comparison;
using golden::setting;

at::Tensor lanes_first(const at::Tensor& t) { return t.transpose(0, 1).contiguous(); }

// The rows of a layer's queue, [B,m,D]: "<tier>.<layer>.<queue>.<block>.hidden" of a saved state.
at::Tensor cached_rows(const memory::StackState& state, int64_t layer) {
  std::map<int64_t, at::Tensor> blocks;
  for (const auto& [name, tensor] : state.save().tensors) {
    std::vector<std::string> parts;
    std::istringstream in(name);
    for (std::string part; std::getline(in, part, '.');) parts.push_back(part);
    if (parts.size() < 4 || parts.back() != "hidden" ||
        parts[parts.size() - 4] != std::to_string(layer))
      continue;
    blocks[std::stoll(parts[parts.size() - 2])] = tensor;
  }
  std::vector<at::Tensor> rows;
  for (const auto& [index, tensor] : blocks) rows.push_back(tensor);
  return rows.empty() ? at::Tensor() : at::cat(rows, 1);
}

// One file at one dtype.
class GoldenRun {
 public:
  GoldenRun(const SafetensorsFile& file, at::ScalarType dtype, memory::Phase phase)
      : file_(file),
        dtype_(dtype),
        config_(golden::official_model(file)),
        rows_(setting(file, "mem_len")),
        phase_(phase) {
    backbone::ModelSetup setup;
    setup.vocabulary = setting(file, "n_token");
    setup.train_segment = setup.eval_segment = setting(file, "tgt_len");
    setup.dtype = dtype;
    setup.seed = 5;
    model_ = backbone::make_model(config_, setup);
    backbone::load_official(*model_, config_, file, "param/");
    stack_ = std::make_unique<memory::Stack>(golden::segment_cache(rows_),
                                             backbone::backbone_info(config_, setup), loader_);
    if (config_.same_length) backbone::set_context_window(*model_, stack_->context_rows(phase));
    lanes_ = setting(file, "batch");
    state_ = stack_->new_state(phase, lanes_);
    model_->train(phase == memory::Phase::kTraining);
  }

  // Segments in order; gradients of the last one in training.
  void run(Comparison& comparison) {
    const auto lengths = setting(file_, "segments").get<std::vector<int64_t>>();
    for (size_t t = 0; t < lengths.size(); ++t) segment(t, t + 1 == lengths.size(), comparison);
  }

 private:
  at::Tensor read(const std::string& name) const {
    return backbone::read_tensor(file_, name, at::kDouble);
  }
  at::Tensor ids(const std::string& name) const {
    return lanes_first(backbone::read_tensor(file_, name, at::kLong));
  }

  void compare(Comparison& comparison, const std::string& name, const at::Tensor& ours) const {
    if (file_.contains(name)) comparison.check(name, ours, lanes_first(read(name)));
  }

  void segment(size_t t, bool is_last, Comparison& comparison) {
    const std::string prefix = str("seg", t, "/");
    const backbone::Batch batch{ids(prefix + "input"), ids(prefix + "target"), {}};
    memory::SegmentInput input;
    input.length = batch.input.size(1);
    memory::SegmentRun run(*stack_, state_, input);
    backbone::ForwardOptions::Tap tap;
    backbone::ForwardOptions options;
    options.tap = &tap;
    const backbone::Output out = model_->forward(batch, run, options);
    run.commit();
    compare(comparison, prefix + "nll", out.nll);
    for (int64_t l = 0; l < config_.layers; ++l) {
      compare(comparison, str(prefix, "attn_out/", l), tap.attention_out[static_cast<size_t>(l)]);
      compare(comparison, str(prefix, "layer_out/", l), tap.layer_out[static_cast<size_t>(l)]);
      // The official code's last memory (of the top layer's output) is never read; ours has none.
      const std::string memory = str(prefix, "mem_after/", l);
      if (file_.contains(memory)) compare(comparison, memory, cached_rows(state_, l));
    }
    if (!is_last) return;
    const at::Tensor loss = out.nll.mean();
    comparison.check("last_mean_loss", loss.view({1}), read("last_mean_loss"));
    if (phase_ == memory::Phase::kTraining) gradients(loss, comparison);
  }

  void gradients(const at::Tensor& loss, Comparison& comparison) {
    loss.backward();
    for (const std::string& name : file_.names()) {
      if (!name.starts_with("grad/")) continue;
      const backbone::Parameter* parameter =
          backbone::find_official(*model_, config_, name.substr(5));
      ASSERT_NE(parameter, nullptr) << name;
      comparison.check(name, parameter->tensor.grad(), read(name));
    }
  }

  const SafetensorsFile& file_;
  at::ScalarType dtype_;
  config::ModelConfig config_;
  int64_t rows_;
  memory::Phase phase_;
  int64_t lanes_ = 0;
  memory::PluginLoader loader_;
  std::unique_ptr<backbone::Model> model_;
  std::unique_ptr<memory::Stack> stack_;
  memory::StackState state_;
};

TEST(GoldenTransformerXl, EveryFileAgreesWithTheOfficialCode) {
  int64_t compared = 0;
  for (const auto& path : golden::files("transformer_xl")) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    const std::string title = path.stem().string();
    if (const std::string reason = golden::left_out_setting(file); !reason.empty()) {
      std::cout << title << ": skipped by setting " << reason << std::endl;
      continue;
    }
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      for (const memory::Phase phase : {memory::Phase::kTraining, memory::Phase::kEvaluation}) {
        const bool is_training = phase == memory::Phase::kTraining;
        Comparison comparison(str(title, dtype == at::kDouble ? " f64" : " f32",
                                  is_training ? " training" : " evaluation"),
                              dtype == at::kDouble ? 1e-6 : 1e-4);
        try {
          const at::AutoGradMode grad(is_training);
          GoldenRun(file, dtype, phase).run(comparison);
        } catch (const std::exception& error) {
          ADD_FAILURE() << title << ": " << error.what();
        }
        EXPECT_GT(comparison.count(), 0) << title;
        std::cout << comparison.summary() << std::endl;
        compared += comparison.count();
      }
    }
  }
  EXPECT_GT(compared, 0) << "no file of the family could be compared";
}

}  // namespace
}  // namespace mneme
