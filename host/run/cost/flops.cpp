#include "host/run/cost/flops.hpp"

#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "host/backbone/attention/attention.hpp"
#include "host/eval/run_segment.hpp"
#include "host/memory/abi/kernel_function.hpp"
#include "host/memory/segment/segment_hooks.hpp"
#include "host/optim/parameter_groups.hpp"
#include "host/tensor/dispatch/shapes_alone.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::run {
namespace {

constexpr std::int64_t kMaxFilling = 64;  // segments before the counted ones
constexpr std::size_t kCounted = 8;       // segments at most
constexpr std::int64_t kVocabulary = 64;  // of the model that is measured

// Counts what this thread executes while it lives; a backward pass of tensors on the meta device
// runs in the thread that asks for it.
class FlopCounter {
 public:
  FlopCounter() : before_(std::exchange(current_, this)) {
    handle_ = at::addThreadLocalCallback(
        at::RecordFunctionCallback(&FlopCounter::begin, &FlopCounter::end)
            .needsInputs(true)
            .needsOutputs(true)
            .scopes({at::RecordScope::FUNCTION, at::RecordScope::USER_SCOPE}));
  }
  ~FlopCounter() {
    at::removeCallback(handle_);
    current_ = before_;
  }
  FlopCounter(const FlopCounter&) = delete;
  FlopCounter& operator=(const FlopCounter&) = delete;

  [[nodiscard]] double flops() const { return flops_; }
  [[nodiscard]] const std::set<std::string>& kernels() const { return kernels_; }

 private:
  static constexpr std::array<std::string_view, 2> kProducts = {"aten::mm", "aten::bmm"};
  static constexpr std::array<std::string_view, 6> kAddedProducts = {
      "aten::addmm",    "aten::addmm_", "aten::baddbmm",
      "aten::baddbmm_", "aten::addbmm", "aten::addbmm_"};
  static constexpr std::array<std::string_view, 2> kVectorProducts = {"aten::mv", "aten::dot"};
  static constexpr std::array<std::string_view, 2> kAddedVectorProducts = {"aten::addmv",
                                                                           "aten::addmv_"};
  static constexpr std::string_view kOneDnnLinear = "mkldnn::_linear_pointwise";

  static bool is_product(std::string_view name) {
    return is_in(kProducts, name) || is_in(kAddedProducts, name) || is_in(kVectorProducts, name) ||
           is_in(kAddedVectorProducts, name) || name == kOneDnnLinear;
  }
  template <typename Names>
  static bool is_in(const Names& names, std::string_view name) {
    return std::ranges::find(names, name) != names.end();
  }

  using Values = c10::ArrayRef<const c10::IValue>;

  // What `begin` knows and `end` needs: a convolution's operations for each output.
  struct Convolution final : at::ObserverContext {
    explicit Convolution(double flops) : flops_an_output(flops) {}
    double flops_an_output;
  };

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    const std::string_view name = function.name();
    if (name.starts_with(memory::kKernelScope)) {
      current_->kernels_.emplace(name.substr(memory::kKernelScope.size()));
      return nullptr;
    }
    if (name == backbone::kAttentionScope) {
      current_->hidden_.push_back(static_cast<double>(function.inputs().at(0).toInt()));
    }
    // A convolution may be computed by products, which are its own then.
    const bool is_inside = current_->inside_convolution_ > 0;
    if (is_convolution(name)) ++current_->inside_convolution_;
    if (is_inside) return nullptr;
    // Not every function has inputs to ask for.
    if (!is_convolution(name) && !is_product(name)) return nullptr;
    // Attention's products are of all queries with all columns.
    if (!current_->hidden_.empty()) current_->flops_ -= current_->hidden_.back();
    const Values inputs = function.inputs();
    if (name == "aten::convolution" && !inputs.at(6).toBool()) {
      return std::make_unique<Convolution>(filter_flops(inputs.at(1).toTensor()));
    }
    current_->flops_ += flops_of(name, inputs);
    return nullptr;
  }
  static void end(const at::RecordFunction& function, at::ObserverContext* context) {
    if (function.name() == std::string_view(backbone::kAttentionScope))
      current_->hidden_.pop_back();
    if (!is_convolution(function.name())) return;
    --current_->inside_convolution_;
    if (const auto* const convolution = dynamic_cast<const Convolution*>(context)) {
      const at::Tensor output = function.outputs().at(0).toTensor();
      current_->flops_ += convolution->flops_an_output * static_cast<double>(output.numel());
    }
  }

  static bool is_convolution(std::string_view name) {
    return name == "aten::convolution" || name == "aten::convolution_backward";
  }

  static double flops_of(std::string_view name, Values inputs);
  static double filter_flops(const at::Tensor& weight);

  static thread_local FlopCounter* current_;
  FlopCounter* before_;
  tensor::WithoutHostKernels observable_;
  at::CallbackHandle handle_ = 0;
  double flops_ = 0.0;
  // Of the layer's attention (stage 4) that is computed: what lengths and windows hide of a product.
  std::vector<double> hidden_;
  int inside_convolution_ = 0;
  std::set<std::string> kernels_;
};

thread_local FlopCounter* FlopCounter::current_ = nullptr;

// [m,k] by [k,n], or [b,m,k] by [b,k,n].
double product_flops(const at::Tensor& a, const at::Tensor& b) {
  return 2.0 * static_cast<double>(a.numel()) * static_cast<double>(b.size(-1));
}

// For one output of a convolution with this weight, or one input of a transposed one.
double FlopCounter::filter_flops(const at::Tensor& weight) {
  return 2.0 * static_cast<double>(weight.numel() / std::max<std::int64_t>(weight.size(0), 1));
}

double FlopCounter::flops_of(std::string_view name, Values inputs) {
  const auto tensor = [&](std::size_t i) { return inputs.at(i).toTensor(); };
  if (is_in(kProducts, name)) return product_flops(tensor(0), tensor(1));
  if (is_in(kAddedProducts, name)) return product_flops(tensor(1), tensor(2));
  if (is_in(kVectorProducts, name)) return 2.0 * static_cast<double>(tensor(0).numel());
  if (is_in(kAddedVectorProducts, name)) return 2.0 * static_cast<double>(tensor(1).numel());
  if (name == kOneDnnLinear) return product_flops(tensor(0), tensor(1).t());
  const auto numbers = [&](std::size_t i) { return static_cast<double>(tensor(i).numel()); };
  if (name == "aten::convolution") return numbers(0) * filter_flops(tensor(1));  // transposed
  if (name == "aten::convolution_backward") {
    const bool is_transposed = inputs.at(7).toBool();
    const auto wanted = inputs.at(10).toBoolList();
    return numbers(is_transposed ? 1 : 0) * filter_flops(tensor(2)) *
           ((wanted[0] ? 1.0 : 0.0) + (wanted[1] ? 1.0 : 0.0));
  }
  return 0.0;
}

// Operations of one segment, and the kernels that ran beside them.
struct Measured {
  double flops = 0.0;
  std::set<std::string> kernels;
};

// Whether a parameter that train.freeze freezes has no gradient in the model that is measured.
using StaysFrozen = bool (*)(std::string_view name);

bool is_any(std::string_view) { return true; }
// Gradients flow to the last layer's output, which may need one.
bool is_outside_layers(std::string_view name) { return !name.starts_with("model.layers."); }

// A model of an experiment's sizes with a vocabulary of its own, in f32 on the meta device: its
// tensors have shapes and no numbers, so that every size is counted at once.
class MeasuredModel {
 public:
  MeasuredModel(const config::Experiment& experiment, std::int64_t vocabulary,
                plugin::PluginLoader& loader, StaysFrozen stays_frozen = &is_any)
      : vocabulary_(vocabulary), bptt_segments_(experiment.train.bptt_segments) {
    backbone::ModelSetup setup =
        model_setup(experiment, vocabulary, config::Precision::kF32, c10::kMeta);
    stack_ = std::make_unique<memory::Stack>(
        experiment.memory, backbone::backbone_info(experiment.model, setup), loader);
    setup.replaced = stack_->replaced_layers();
    model_ = backbone::make_model(experiment.model, setup);
    for (const optim::TrainableParameter& parameter :
         optim::group_parameters(experiment.train, model_->parameters(), stack_->parameters())) {
      at::Tensor tensor = parameter.tensor;
      if (parameter.is_frozen && stays_frozen(parameter.name)) tensor.set_requires_grad(false);
    }
  }

  Measured evaluation(std::int64_t lanes, std::int64_t length) {
    const at::NoGradGuard no_grad;
    begin(memory::Phase::kEvaluation, lanes, length);
    return count([&] { run(); });
  }
  Measured training(std::int64_t lanes, std::int64_t length) {
    begin(memory::Phase::kTraining, lanes, length);
    Measured out = count([&] { window(); });
    out.flops /= static_cast<double>(bptt_segments_);
    return out;
  }

 private:
  // An empty state, filled.
  void begin(memory::Phase phase, std::int64_t lanes, std::int64_t length) {
    const std::int64_t rows = stack_->context_rows(phase);
    model_->train(phase == memory::Phase::kTraining);
    model_->set_context_rows(rows);
    state_ = stack_->new_state(phase, lanes);
    batch_.input = at::empty({lanes, length}, at::TensorOptions(at::kLong).device(at::kMeta));
    batch_.target = batch_.input;
    const at::NoGradGuard no_grad;
    const std::int64_t filling = std::min((rows + length - 1) / length + 1, kMaxFilling);
    for (std::int64_t i = 0; i < filling; ++i) run();
  }

  // The mean of a few; when the first two are equal, of these two. Memories that do not work in
  // every segment need more.
  [[nodiscard]] Measured count(const std::function<void()>& one) const {
    Measured out;
    std::vector<double> flops;
    do {
      const FlopCounter counter;
      one();
      flops.push_back(counter.flops());
      out.kernels.insert(counter.kernels().begin(), counter.kernels().end());
    } while (flops.size() < 2 || (flops[0] != flops[1] && flops.size() < kCounted));
    out.flops =
        std::accumulate(flops.begin(), flops.end(), 0.0) / static_cast<double>(flops.size());
    return out;
  }

  // One segment; its loss.
  at::Tensor run() {
    at::Tensor loss;
    eval::SegmentOptions with;
    with.before_commit = [&](const backbone::Output& out, const memory::SegmentHooks& hooks) {
      loss = out.nll.sum();
      const at::Tensor auxiliary = hooks.total_loss();
      if (auxiliary.defined()) loss = loss + auxiliary;
    };
    eval::run_segment(*model_, *stack_, state_, batch_, std::move(with));
    return loss;
  }

  // What one backward pass of a training reaches.
  void window() {
    at::Tensor loss;
    for (std::int64_t i = 0; i < bptt_segments_; ++i) {
      const at::Tensor one = run();
      loss = loss.defined() ? loss + one : one;
    }
    std::vector<at::Tensor> parameters;
    const auto add = [&](const at::Tensor& tensor) {
      if (tensor.requires_grad()) parameters.push_back(tensor);
    };
    for (const backbone::Parameter& parameter : model_->parameters()) add(parameter.tensor);
    for (const memory::TierParameter& parameter : stack_->parameters()) add(parameter.tensor);
    static_cast<void>(torch::autograd::grad({loss}, parameters, {}, std::nullopt, false,
                                            /*allow_unused=*/true));
    state_.cut_graph();
  }

  std::int64_t vocabulary_;
  std::int64_t bptt_segments_;
  std::unique_ptr<memory::Stack> stack_;
  std::unique_ptr<backbone::Model> model_;
  memory::StackState state_;
  backbone::Batch batch_;
};

// Of a token, when so many lanes run side by side. Some work, such as the projection of the
// relative positions, is done once for all lanes; so one lane and two tell how it grows.
double per_token(const std::function<Measured(std::int64_t lanes)>& measure, std::int64_t lanes,
                 std::int64_t length, std::set<std::string>& kernels) {
  const Measured one = measure(1), two = measure(2);
  kernels.insert(one.kernels.begin(), one.kernels.end());
  const double each = two.flops - one.flops;
  const double shared = one.flops - each;
  return (shared / static_cast<double>(lanes) + each) / static_cast<double>(length);
}

// Of a token, what each word of the vocabulary adds.
struct PerWord {
  double training = 0.0;
  double evaluation = 0.0;
};

// The softmax does not depend on the layers below it: one of them, without memory, is enough.
PerWord softmax_flops(config::Experiment experiment, plugin::PluginLoader& loader) {
  constexpr std::int64_t kLength = 4;
  experiment.model.layers = 1;
  experiment.model.same_length = false;
  experiment.memory.tiers.clear();
  experiment.train.segment = experiment.eval.segment = kLength;
  experiment.train.bptt_segments = 1;
  MeasuredModel small(experiment, kVocabulary, loader, &is_outside_layers);
  MeasuredModel large(experiment, 2 * kVocabulary, loader, &is_outside_layers);
  constexpr auto kAdded = static_cast<double>(kVocabulary * kLength);
  return {
      .training = (large.training(1, kLength).flops - small.training(1, kLength).flops) / kAdded,
      .evaluation =
          (large.evaluation(1, kLength).flops - small.evaluation(1, kLength).flops) / kAdded};
}

}  // namespace

FlopsPerToken count_flops(const config::Experiment& given, std::int64_t vocabulary,
                          plugin::PluginLoader& loader) {
  FlopsPerToken out;
  config::Experiment experiment = given;
  if (experiment.model.adaptive) {
    // Of each token the frequent words and one entry for each cluster of rare ones are computed.
    const config::AdaptiveConfig& adaptive = *experiment.model.adaptive;
    vocabulary = adaptive.cutoffs.front() + static_cast<std::int64_t>(adaptive.cutoffs.size());
    experiment.model.adaptive.reset();
    out.not_counted.emplace_back("the rare words of the adaptive softmax");
  }
  const tensor::ShapesAlone shapes_alone;
  std::set<std::string> kernels;
  const PerWord word = softmax_flops(experiment, loader);
  const auto added = static_cast<double>(vocabulary - kVocabulary);
  MeasuredModel model(experiment, kVocabulary, loader);
  const auto training = [&](std::int64_t lanes) {
    return model.training(lanes, experiment.train.segment);
  };
  const auto evaluation = [&](std::int64_t lanes) {
    return model.evaluation(lanes, experiment.eval.segment);
  };
  out.training = per_token(training, experiment.train.lanes, experiment.train.segment, kernels) +
                 added * word.training;
  out.evaluation = per_token(evaluation, experiment.eval.lanes, experiment.eval.segment, kernels) +
                   added * word.evaluation;
  for (const std::string& kernel : kernels) out.not_counted.push_back("the kernel " + kernel);
  std::ranges::sort(out.not_counted);
  return out;
}

FlopsPerToken count_flops(const Runtime& runtime) {
  return count_flops(runtime.experiment(), runtime.dataset()->vocabulary_size(), *runtime.loader());
}

std::string to_text(const FlopsPerToken& flops) {
  const auto scaled = [](double number) {
    constexpr std::array kUnits = {"", " k", " M", " G", " T", " P"};
    std::size_t unit = 0;
    for (; number >= 1000.0 && unit + 1 < kUnits.size(); ++unit) number /= 1000.0;
    return str(format_number(number, 1), kUnits[unit]);
  };
  const std::string rest =
      flops.not_counted.empty() ? "" : "; not counted: " + join(flops.not_counted, ", ");
  return str("training ", scaled(flops.training), ", evaluation ", scaled(flops.evaluation),
             " (2 a multiply-add)", rest);
}

Json to_json(const FlopsPerToken& flops) {
  return {{"training", flops.training},
          {"evaluation", flops.evaluation},
          {"not_counted", flops.not_counted}};
}

}  // namespace mneme::run
