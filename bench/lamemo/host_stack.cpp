#include "bench/lamemo/host_stack.hpp"

#include <cmath>
#include <stdexcept>

#include "host/base/text.hpp"
#include "host/run/runtime.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::bench {
namespace {

constexpr int64_t kVocabulary = 256;

std::unique_ptr<run::Runtime> make_runtime(const StackSizes& s, at::ScalarType dtype,
                                           double epsilon) {
  const std::string text =
      str("[model]\nlayers = ", s.layers, "\nheads = ", s.heads, "\nhead_width = ", s.head_width,
          "\nwidth = ", s.width, "\nff = ", s.ff,
          "\ndropout = 0.0\nposition = \"disentangled\"\n[data]\ntask = \"motif\"\nalphabet = ",
          kVocabulary, "\n[train]\nsteps = 1\nlanes = ", s.lanes, "\nsegment = ", s.segment,
          "\nprecision = \"", dtype == at::kDouble ? "f64" : "f32", "\"\n[memory]\nplugins = [\"",
          MNEME_PLUGIN_DIR, "\"]\n[[memory.tier]]\nplugin = \"lamemo\"\nrows = ", s.rows,
          epsilon > 0.0 ? str("\nepsilon = ", epsilon) : std::string(), "\n");
  return std::make_unique<run::Runtime>(config::parse_experiment_text(text, "lamemo_bench.toml"),
                                        run::RuntimeOptions{});
}

}  // namespace

struct HostStack::Parts {
  std::unique_ptr<run::Runtime> runtime;
  memory::StackState state;

  at::Tensor parameter(const std::string& name) const {
    for (const optim::TrainableParameter& p : runtime->parameters()) {
      if (p.name.ends_with(name)) return p.tensor;
    }
    throw std::runtime_error("no parameter " + name);
  }
};

HostStack::HostStack(const StackSizes& sizes, at::ScalarType dtype, double epsilon,
                     bool is_training)
    : sizes_(sizes), parts_(std::make_unique<Parts>()) {
  parts_->runtime = make_runtime(sizes, dtype, epsilon);
  parts_->runtime->model().train(is_training);
  parts_->state = parts_->runtime->stack().new_state(
      is_training ? memory::Phase::kTraining : memory::Phase::kEvaluation, sizes.lanes);
}

HostStack::~HostStack() = default;

at::Tensor HostStack::segment(const at::Tensor& ids) {
  memory::SegmentInput input;
  input.length = ids.size(1);
  memory::SegmentHooks hooks(parts_->runtime->stack(), parts_->state, input);
  backbone::Batch batch;
  batch.input = ids;
  const at::Tensor top = parts_->runtime->model().forward(batch, hooks).top;
  hooks.commit();
  return top;
}

at::Tensor HostStack::table() const { return parts_->parameter("embedding.0.weight"); }

at::Tensor HostStack::embedded(const at::Tensor& ids, const at::Tensor& table) const {
  return at::embedding(table, ids.t()) * std::sqrt(static_cast<double>(sizes_.width));
}

OfficialLaMemo HostStack::official() const {
  pairs_.clear();
  // A leaf of its own for rows of one of our parameters.
  const auto copy = [&](const std::string& name, int64_t first, int64_t rows) {
    const at::Tensor ours = parts_->parameter(name);
    at::Tensor theirs = ours.detach().narrow(0, first, rows).clone().set_requires_grad(true);
    if (first == 0 && rows == ours.size(0)) pairs_.push_back({ours, theirs});
    return theirs;
  };
  const auto whole = [&](const std::string& name) {
    return copy(name, 0, parts_->parameter(name).size(0));
  };
  std::vector<OfficialLayer> layers;
  for (int64_t l = 0; l < sizes_.layers; ++l) {
    const std::string at = str("layers.", l, ".");
    OfficialLayer w;
    w.q = copy(at + "attention.qkv.weight", 0, sizes_.inner());
    w.kv = copy(at + "attention.qkv.weight", sizes_.inner(), 2 * sizes_.inner());
    w.positions = whole(at + "attention.position.weight");
    w.output = whole(at + "attention.output.weight");
    w.norm = whole(at + "attention.norm.weight");
    w.norm_bias = whole(at + "attention.norm.bias");
    w.ff_in = whole(at + "ff.in.weight");
    w.ff_in_bias = whole(at + "ff.in.bias");
    w.ff_out = whole(at + "ff.out.weight");
    w.ff_out_bias = whole(at + "ff.out.bias");
    w.ff_norm = whole(at + "ff.norm.weight");
    w.ff_norm_bias = whole(at + "ff.norm.bias");
    layers.push_back(std::move(w));
  }
  at::Tensor content = whole("attention.content_bias");
  at::Tensor position = whole("attention.position_bias");
  at::Tensor ahead = whole("position_bias_ahead");
  return {sizes_, std::move(layers), std::move(content), std::move(position), std::move(ahead)};
}

void HostStack::drop_gradients() {
  for (const optim::TrainableParameter& p : parts_->runtime->parameters()) {
    at::Tensor tensor = p.tensor;
    tensor.mutable_grad().reset();
  }
  for (Pair& pair : pairs_) pair.theirs.mutable_grad().reset();
}

}  // namespace mneme::bench
