// Pretrained decoders against PyPI transformers (tests/golden/decoder): logits whole, in chunks and
// token by token, residual streams, loss, gradients and one AdamW step.
//
// Every folder of the family is read when the test runs; every setting comes from its config.json.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>

#include "host/backbone/open/open_segment.hpp"
#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/eval/run_segment.hpp"
#include "host/optim/optimizer.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/official_weights.hpp"
#include "tests/golden/decoder/decoder_case.hpp"
#include "tests/golden/golden.hpp"

namespace mneme::golden {
namespace {

constexpr double kLogits64 = 1e-10, kLogits32 = 1e-5;  // absolute
constexpr double kStored = 1e-6;                       // of values that are stored in f32

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kCPU, at::kDouble) - b.to(at::kCPU, at::kDouble)).abs().max().item<double>();
}

// Segments of `chunk` tokens, each attending to the `rows` before it; log-probabilities [B,T,V].
at::Tensor in_chunks(DecoderCase& decoder, const at::Tensor& ids, int64_t chunk, int64_t rows) {
  const at::NoGradGuard no_grad;
  DecoderModel model = decoder.make(at::kDouble, rows, memory::Phase::kEvaluation);
  std::vector<at::Tensor> out;
  for (int64_t from = 0; from < ids.size(1); from += chunk) {
    const backbone::Output one = eval::run_segment(
        *model.model, *model.stack, model.state,
        backbone::Batch{
            .input = ids.narrow(1, from, chunk).contiguous(), .target = {}, .valid_count = {}});
    out.push_back(model.log_probabilities(one.top));
  }
  return at::cat(out, 1);
}

// The same in open segments of `segment` tokens, which grow token by token.
at::Tensor token_by_token(DecoderCase& decoder, const at::Tensor& ids, int64_t segment,
                          int64_t rows) {
  const at::NoGradGuard no_grad;
  DecoderModel model = decoder.make(at::kDouble, rows, memory::Phase::kEvaluation);
  std::vector<at::Tensor> out;
  for (int64_t from = 0; from < ids.size(1); from += segment) {
    memory::SegmentInput input;
    input.length = 1;
    input.is_open = true;
    memory::SegmentHooks hooks(*model.stack, model.state, input);
    backbone::OpenSegment open(*model.model, hooks);
    for (int64_t t = from; t < from + segment; ++t) {
      out.push_back(model.log_probabilities(open.step(ids.narrow(1, t, 1).contiguous())));
    }
    open.close();
    hooks.commit();
  }
  return at::cat(out, 1);
}

class Golden {
 public:
  Golden(DecoderCase& decoder, Comparison& comparison)
      : decoder_(decoder),
        comparison_(comparison),
        ids_(decoder.read("input_ids", at::kLong).to(test_device())) {}

  void whole(at::ScalarType dtype) {
    const at::NoGradGuard no_grad;
    DecoderModel model = decoder_.make(dtype, 0, memory::Phase::kEvaluation);
    backbone::ForwardOptions::Tap tap;
    eval::SegmentOptions with;
    with.forward.tap = &tap;
    const backbone::Output out = eval::run_segment(
        *model.model, *model.stack, model.state,
        backbone::Batch{.input = ids_, .target = {}, .valid_count = {}}, std::move(with));
    const bool is_double = dtype == at::kDouble;
    near(str("logits", is_double ? " f64" : " f32"), model.log_probabilities(out.top),
         logits("logits"), is_double ? kLogits64 : kLogits32);
    if (!is_double) return;
    comparison_.check("hidden.0", tap.embedded, decoder_.read("hidden.0", at::kDouble));
    for (size_t l = 0; l < tap.layer_out.size(); ++l) {
      const std::string name = str("hidden.", l + 1);
      comparison_.check(name, tap.layer_out[l], decoder_.read(name, at::kDouble));
    }
    comparison_.check("hidden.norm", out.top, decoder_.read("hidden.norm", at::kDouble));
  }

  // Keys of earlier chunks are made anew of the rows that the memory keeps, and turned by their
  // distance, where the library has kept them turned.
  void chunked() {
    const int64_t tokens = ids_.size(1);
    const at::Tensor want = logits("chunked.logits");
    near("chunks of 8", in_chunks(decoder_, ids_, 8, tokens), want, kLogits64);
    near("chunks of 1", in_chunks(decoder_, ids_, 1, tokens), want, kLogits64);
    near("open segments of 8", token_by_token(decoder_, ids_, 8, tokens), want, kLogits64);
    near("open segment", token_by_token(decoder_, ids_, tokens, 1), want, kLogits64);
    if (!decoder_.has("windowed_m16.logits")) return;
    const at::Tensor ids = decoder_.read("windowed.input_ids", at::kLong).to(test_device());
    const at::Tensor dropped = logits("windowed_m16.logits");
    near("windowed", in_chunks(decoder_, ids, 8, 16), dropped, kLogits64);
    near("windowed, open", token_by_token(decoder_, ids, 8, 16), dropped, kLogits64);
  }

  void gradients() {
    DecoderModel model = decoder_.make(at::kDouble, 0, memory::Phase::kTraining);
    const at::Tensor none = at::full({ids_.size(0), 1}, -1, ids_.options());
    const at::Tensor target = at::cat({ids_.narrow(1, 1, ids_.size(1) - 1), none}, 1);
    const backbone::Output out =
        eval::run_segment(*model.model, *model.stack, model.state,
                          backbone::Batch{.input = ids_, .target = target, .valid_count = {}});
    const at::Tensor loss = out.nll.sum() / static_cast<double>(ids_.size(0) * (ids_.size(1) - 1));
    comparison_.check("loss", loss.view({1}).detach(), decoder_.read("loss", at::kDouble));
    loss.backward();
    std::vector<optim::TrainableParameter> trained;
    for (const backbone::Parameter& p : model.model->parameters()) {
      trained.push_back({.name = p.name,
                         .tensor = p.tensor,
                         .lr = 1e-2,
                         .weight_decay = p.tensor.dim() > 1 ? 0.1 : 0.0});
    }
    std::map<std::string, at::Tensor> grads;
    for (const auto& p : trained) grads[p.name] = p.tensor.grad();
    decoder_.compare("grad.", grads, comparison_);
    optim::Optimizer adam(trained,
                          {.kind = config::Optimizer::kAdamW, .beta1 = 0.9, .beta2 = 0.95});
    adam.step(1.0);
    std::map<std::string, at::Tensor> values;
    for (const auto& p : trained) values[p.name] = p.tensor.detach();
    decoder_.compare("adamw.", values, comparison_);
  }

 private:
  // Logits are known up to a constant of each token.
  at::Tensor logits(const std::string& name) const {
    return at::log_softmax(decoder_.read(name, at::kDouble), -1);
  }
  void near(const std::string& what, const at::Tensor& ours, const at::Tensor& theirs,
            double limit) {
    ASSERT_EQ(ours.sizes(), theirs.sizes()) << what;
    EXPECT_LE(distance(ours, theirs), limit) << decoder_.name() << ": " << what;
  }

  DecoderCase& decoder_;
  Comparison& comparison_;
  at::Tensor ids_;
};

TEST(GoldenDecoder, EveryFolderAgreesWithTransformers) {
  int64_t compared = 0;
  for (const auto& folder : decoder_folders()) {
    DecoderCase decoder(folder);
    Comparison comparison(str(decoder.name(), " f64"), kStored);
    try {
      Golden golden(decoder, comparison);
      golden.whole(at::kDouble);
      golden.whole(at::kFloat);
      golden.gradients();
      // Learned positions begin anew in every segment, as in the infinity-former's GPT-2.
      if (decoder.config().position != config::PositionScheme::kLearned) golden.chunked();
    } catch (const std::exception& error) {
      ADD_FAILURE() << decoder.name() << ": " << error.what();
    }
    std::cout << comparison.summary() << std::endl;
    compared += comparison.count();
  }
  EXPECT_GT(compared, 0) << "no folder of the family could be compared";
}

}  // namespace
}  // namespace mneme::golden
