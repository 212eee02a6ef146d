// A step of generation in bf16 reads copies of parameters that were made once.
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "host/backbone/model.hpp"
#include "host/tensor/torch.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::generate {
namespace {

std::set<const void*>* converted = nullptr;

std::unique_ptr<at::ObserverContext> note_converted(const at::RecordFunction& function) {
  if (std::string_view(function.name()) == "aten::_to_copy") {
    converted->insert(function.inputs()[0].toTensor().const_data_ptr());
  }
  return nullptr;
}

// Where tensors lie that were converted while it lives.
class Conversions {
 public:
  Conversions() {
    converted = &of_;
    handle_ =
        at::addThreadLocalCallback(at::RecordFunctionCallback(note_converted).needsInputs(true));
  }
  ~Conversions() {
    at::removeCallback(handle_);
    converted = nullptr;
  }
  Conversions(const Conversions&) = delete;
  Conversions& operator=(const Conversions&) = delete;

  [[nodiscard]] std::string of(const backbone::Model& model) const {
    std::string names;
    for (const backbone::Parameter& p : model.parameters()) {
      if (of_.contains(p.tensor.const_data_ptr())) names += p.name + " ";
    }
    return names;
  }

 private:
  std::set<const void*> of_;
  at::CallbackHandle handle_ = 0;
};

// In bf16 the first segment converts parameters, and later ones find the copies.
TEST(Conversions, AreNotOfParametersInALaterStep) {
  config::ModelConfig relative = backbone::small_config(), plain = backbone::small_config();
  relative.adaptive = {.cutoffs = {4, 7}, .div = 2, .tie_projection = {}};
  relative.position = config::PositionScheme::kRelative;
  plain.position = config::PositionScheme::kLearned;
  plain.qkv_bias = plain.output_bias = plain.ff_bias = true;
  backbone::ModelSetup s = backbone::small_setup();
  s.dtype = at::kFloat;
  s.bf16_autocast = true;
  for (const config::ModelConfig& c : {relative, plain}) {
    const auto model = backbone::make_model(c, s);
    model->train(false);
    backbone::Batch batch = backbone::batch_of(2, 6, 11);
    batch.target = at::Tensor();
    const at::NoGradGuard no_grad;
    const auto compute = [&] {
      static_cast<void>(
          model->log_probabilities(backbone::run_plain(*model, c, s, batch).top.flatten(0, 1)));
    };
    const auto converted_in = [&] {
      const Conversions conversions;
      compute();
      return conversions.of(*model);
    };
    EXPECT_NE(converted_in(), "");
    EXPECT_EQ(converted_in(), "");
  }
}

}  // namespace
}  // namespace mneme::generate
