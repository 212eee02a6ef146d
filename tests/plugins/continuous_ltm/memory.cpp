#include "tests/plugins/continuous_ltm/memory.hpp"

#include <stdexcept>

#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/tensor/torch.hpp"

namespace continuous_ltm_test {
namespace {

using mneme::str;
namespace memory = mneme::memory;

// Such that densities of all widths occur, some of them on the floor.
double scale_of(const std::string& name) {
  if (name == "mu_weight") return 8.0;
  if (name == "sigma_weight") return 40.0;
  return 0.5;
}

std::map<std::string, at::Tensor> last_parts(const std::map<std::string, memory::Reported>& from) {
  std::map<std::string, at::Tensor> out;
  for (const auto& [name, reported] : from) out[name.substr(name.rfind('.') + 1)] = reported.value;
  return out;
}

}  // namespace

at::Tensor random(at::IntArrayRef shape, uint64_t seed) {
  at::Tensor out = torch::empty(shape, at::kDouble);
  mneme::Random draws(seed, {"continuous_ltm_test"});
  for (int64_t i = 0; i < out.numel(); ++i) out.mutable_data_ptr<double>()[i] = draws.normal();
  return out;
}

double distance(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) throw std::runtime_error("distance of an undefined tensor");
  if (a.sizes() != b.sizes()) throw std::runtime_error("distance of different shapes");
  const at::Tensor expected = b.detach().to(at::kDouble);
  const double apart = (a.detach().to(at::kDouble) - expected).norm().item<double>();
  const double scale = expected.norm().item<double>();
  return scale == 0.0 ? apart : apart / scale;
}

mneme::config::MemoryConfig manifest(const std::string& options) {
  const std::string text =
      "[memory]\nplugins = [\"" MNEME_PLUGIN_DIR
      "\"]\n[[memory.tier]]\nplugin = \"continuous_ltm\"\n" +
      options +
      "\n[model]\nlayers = 1\nwidth = 8\nheads = 2\n[data]\ntask = \"motif\"\n[train]\nsteps = 1\n";
  return mneme::config::parse_experiment_text(text, "test.toml", "/").memory;
}

memory::BackboneInfo backbone(const Sizes& sizes) {
  memory::BackboneInfo info;
  info.layers = 1;
  info.width = sizes.width;
  info.heads = sizes.heads;
  info.head_width = sizes.head_width;
  info.compute_dtype = sizes.dtype;
  info.train_segment = info.eval_segment = sizes.segment;
  info.seed = sizes.seed;
  return info;
}

mneme::plugin::PluginLoader& loader() {
  static mneme::plugin::PluginLoader instance = memory::make_loader();
  return instance;
}

Memory::Memory(const std::string& options, const Sizes& sizes, memory::Phase phase)
    : sizes_(sizes),
      stack_(std::make_unique<memory::Stack>(manifest(options), backbone(sizes), loader())),
      state_(stack_->new_state(phase, sizes.lanes)),
      layer_({}, sizes.heads) {
  uint64_t seed = sizes.parameters * 100;
  for (const memory::TierParameter& declared : stack_->parameters()) {
    const std::string name = declared.name.substr(declared.name.rfind('.') + 1);
    parameters_[name] = declared.tensor;
    set(name, scale_of(name) * random(declared.tensor.sizes(), ++seed));
  }
}

at::Tensor Memory::parameter(const std::string& name) const { return parameters_.at(name); }

void Memory::set(const std::string& name, const at::Tensor& value) {
  const torch::NoGradGuard no_grad;
  parameter(name).copy_(value);
  stack_->weights_changed();
}

void Memory::use_norm(const at::Tensor& weight, const at::Tensor& bias) {
  memory::PlainLayer::Weights weights;
  weights.norm = weight;
  weights.norm_bias = bias;
  layer_ = memory::PlainLayer(weights, sizes_.heads);
}

at::Tensor Memory::x(uint64_t s, int64_t rows) const {
  const int64_t count = rows == 0 ? sizes_.segment : rows;
  return random({sizes_.lanes, count, sizes_.width}, 1000 + s).to(sizes_.dtype);
}

at::Tensor Memory::q(uint64_t s, int64_t queries) const {
  const int64_t count = queries == 0 ? sizes_.segment : queries;
  return random({sizes_.lanes, count, sizes_.heads, sizes_.head_width}, 2000 + s).to(sizes_.dtype);
}

std::string Memory::short_name(const std::string& key) const {
  const std::string scope = str("0.", stack_->identities().at(0).id, ".0.");
  return key.starts_with(scope) ? key.substr(scope.size()) : key;
}

Seen Memory::segment(const at::Tensor& x, const at::Tensor& q, const How& how) {
  return run(x, false, q, how, true);
}

Seen Memory::absorb(const at::Tensor& rows, const at::Tensor& q, const How& how) {
  return run(rows, true, q, how, true);
}

Seen Memory::try_absorb(const at::Tensor& rows, const at::Tensor& q, const How& how) {
  return run(rows, true, q, how, false);
}

Seen Memory::run(const at::Tensor& rows, bool is_given, const at::Tensor& q, const How& how,
                 bool commit) {
  std::map<std::string, at::Tensor> probes;
  memory::SegmentInput input;
  input.length = q.size(1);
  input.valid_count = how.valid_count;
  input.replay_draws = how.replay;
  input.recorded_draws = how.record;
  input.probes = &probes;
  for (const char* name : {"coefficients", "gate", "density.mean", "density.variance", "kl",
                           "scores", "expectation", "histogram", "drawn_bins", "samples"})
    input.wanted_probes.insert(str("memory.", name));
  memory::SegmentHooks hooks(*stack_, state_, input);
  memory::LocalAttention local;
  local.q = q;
  const at::Tensor nothing =
      torch::zeros({q.size(0), q.size(1), sizes_.width}, torch::dtype(sizes_.dtype));
  if (is_given) {
    memory::Rows given;
    given.count = rows.size(1);
    given.hidden = rows;
    hooks.absorb_rows(0, 0, given, nothing, local, layer_);
  } else {
    hooks.absorb_before(0, rows, layer_);
  }
  Seen seen;
  seen.z = hooks.read_out(0, nothing, local, layer_);
  if (!is_given) hooks.absorb_after(0, rows, local, layer_);
  seen.losses = last_parts(hooks.losses());
  seen.metrics = last_parts(hooks.metrics());
  for (const auto& [key, tensor] : probes) seen.probes[short_name(key)] = tensor;
  if (commit) hooks.commit();
  return seen;
}

}  // namespace continuous_ltm_test
