// The layers without attention against layers of transformers and flash-linear-attention, f64:
// results, last states and gradients (tests/golden/recurrences/README.md).
#include <gtest/gtest.h>

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "host/base/text.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/hook_driver.hpp"
#include "host/plugin/loader.hpp"
#include "host/tensor/torch.hpp"
#include "tests/golden/text_tensors.hpp"
#include "tests/plugins/tier_run.hpp"

namespace recurrences_test {
namespace {

using mneme::str;

struct GoldenLayer {
  const char* name;
  std::string file;  // layer_<file>.txt
  std::string plugin;
  std::string options;

  friend std::ostream& operator<<(std::ostream& out, const GoldenLayer& l) { return out << l.name; }
};

class GoldenTensors {
 public:
  explicit GoldenTensors(const std::string& file) : tensors_(mneme::golden::text_tensors(file)) {}
  bool has(const std::string& name) const { return tensors_.count(name) != 0; }
  // Errors: std::out_of_range when there is none.
  at::Tensor of(const std::string& name) const {
    const mneme::golden::TextTensor& tensor = tensors_.at(name);
    return at::tensor(tensor.values, at::kDouble).reshape(tensor.shape);
  }
  int64_t count(const std::string& prefix) const {
    int64_t count = 0;
    for (const auto& [name, tensor] : tensors_) count += name.starts_with(prefix) ? 1 : 0;
    return count;
  }

 private:
  std::map<std::string, mneme::golden::TextTensor> tensors_;
};

// The layer's tier with the file's parameters, and the text that it reads in segments.
class GoldenRun {
 public:
  GoldenRun(const GoldenTensors& golden, const GoldenLayer& layer, const std::string& way)
      : golden_(golden),
        what_(str(layer.file, ", recurrence = ", way)),
        driver_(mneme::backbone::memory_of(
                    {MNEME_PLUGIN_DIR},
                    tier_test::tier(layer.plugin, layer.options + "recurrence = \"" + way + '"')),
                backbone(golden), loader_, mneme::memory::Phase::kTraining,
                golden.of("in.x").size(0)),
        x_(golden.of("in.x").requires_grad_()) {}

  void compare(const std::vector<int64_t>& lengths) {
    what_ += str(", segments of ", mneme::list_text(lengths));
    take_parameters();
    std::vector<at::Tensor> parts;
    int64_t from = 0;
    for (const int64_t length : lengths) {
      parts.push_back(segment(x_.narrow(1, from, length)));
      from += length;
    }
    const at::Tensor out = at::cat(parts, 1);
    (out * golden_.of("in.out_grad")).sum().backward();
    expect("out", out);
    expect("state", tier_test::slot_at(driver_.state(), "0.state"));
    if (golden_.has("convolution")) {
      expect("convolution", tier_test::slot_at(driver_.state(), "0.convolution"));
    }
    int64_t gradients = 1;
    expect("grad.x", x_.grad());
    for (const mneme::memory::TierParameter& parameter : driver_.stack().parameters()) {
      const std::string name = "grad." + name_of(parameter);
      if (!golden_.has(name)) continue;  // not in the program (README.md)
      expect(name, parameter.tensor.grad());
      ++gradients;
    }
    EXPECT_EQ(gradients, golden_.count("grad.")) << what_;
  }

 private:
  static std::string name_of(const mneme::memory::TierParameter& parameter) {
    return parameter.name.substr(parameter.name.rfind('.') + 1);
  }
  static mneme::memory::BackboneInfo backbone(const GoldenTensors& golden) {
    const at::Tensor x = golden.of("in.x");
    mneme::memory::BackboneInfo info;
    info.layers = 1;
    info.heads = 1;
    info.width = info.head_width = x.size(2);
    info.is_pre_norm = true;
    info.compute_dtype = at::kDouble;
    info.train_segment = info.eval_segment = x.size(1);
    info.bptt_segments = 2;
    return info;
  }
  void take_parameters() {
    const at::NoGradGuard no_grad;
    for (const mneme::memory::TierParameter& parameter : driver_.stack().parameters()) {
      const at::Tensor value = golden_.of("in." + name_of(parameter));
      ASSERT_EQ(parameter.tensor.sizes(), value.sizes()) << what_ << ": " << parameter.name;
      parameter.tensor.copy_(value);
    }
    driver_.stack().weights_changed();
  }
  at::Tensor segment(const at::Tensor& normed) {
    mneme::memory::SegmentInput input;
    input.length = normed.size(1);
    driver_.begin(input);
    static_cast<void>(driver_.hooks().context(0, normed, services_));
    mneme::memory::LocalAttention local;
    local.normed = normed;
    const at::Tensor out = driver_.hooks().read_in_place(0, local, services_);
    driver_.commit();
    return out;
  }
  // Largest difference, as a share of the largest element.
  void expect(const std::string& name, const at::Tensor& ours) const {
    const at::Tensor theirs = golden_.of(name);
    ASSERT_TRUE(ours.defined()) << what_ << ": " << name << ": there is none";
    ASSERT_EQ(ours.sizes(), theirs.sizes()) << what_ << ": " << name;
    const double largest = theirs.abs().max().item<double>();
    EXPECT_LT(mneme::backbone::largest_difference(ours, theirs), 1e-10 * largest)
        << what_ << ": " << name << ", whose largest element is " << largest;
  }

  const GoldenTensors& golden_;
  std::string what_;
  mneme::plugin::PluginLoader loader_ = mneme::memory::make_loader();
  mneme::memory::HookDriver driver_;
  mneme::memory::PlainLayer services_{{}, 1};
  at::Tensor x_;
};

std::vector<GoldenLayer> golden_layers() {
  const std::string widths = "heads = 2\nkey_width = 6\nvalue_width = 8\n";
  const std::string negative = widths + "negative_eigenvalues = true\n";
  return {
      {"Gla", "gla", "gla", widths + "gate_rank = 3\ngate_divisor = 4.0\n"},
      {"Mamba2", "mamba2", "mamba2", "heads = 2\nkey_width = 6\nvalue_width = 10\n"},
      {"Mamba2OfTwoGroups", "mamba2_groups", "mamba2",
       "heads = 4\nkey_width = 6\nvalue_width = 5\ngroups = 2\n"},
      {"GatedDeltaNet", "gated_deltanet", "gated_deltanet", widths},
      {"NegativeGatedDeltaNet", "gated_deltanet_negative", "gated_deltanet", negative},
      {"Kda", "kda", "kda", "heads = 2\nkey_width = 6\nvalue_width = 6\n"},
      {"NegativeKda", "kda_negative", "kda", negative},
  };
}

class RecurrentLayersGolden : public testing::TestWithParam<GoldenLayer> {};
INSTANTIATE_TEST_SUITE_P(Recurrences, RecurrentLayersGolden, testing::ValuesIn(golden_layers()),
                         [](const auto& l) { return std::string(l.param.name); });

// A text at once, and in two segments, of which one has fewer tokens than the filter has taps: so
// results and gradients go through both states.
TEST_P(RecurrentLayersGolden, EqualPublicPrograms) {
  const GoldenTensors golden("recurrences/layer_" + GetParam().file + ".txt");
  for (const std::string way : {"auto", "operations"}) {
    for (const std::vector<int64_t>& lengths :
         std::vector<std::vector<int64_t>>{{26}, {23, 3}, {1, 25}}) {
      GoldenRun(golden, GetParam(), way).compare(lengths);
    }
  }
}

}  // namespace
}  // namespace recurrences_test
