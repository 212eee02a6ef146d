// Files of the published algorithms on a Transformer-XL: the host's own backbone with the tier.
#include <map>
#include <set>
#include <utility>

#include "host/backbone/model.hpp"
#include "host/base/error.hpp"
#include "host/eval/run_segment.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/official_weights.hpp"
#include "tests/golden/compressive/compressive_case.hpp"
#include "tests/golden/official_settings.hpp"

namespace mneme::golden {
namespace {

const std::set<std::string, std::less<>> kProbes = {"memory.evicted", "memory.usage",
                                                    "memory.kept_index"};

config::ModelConfig model_config(const SafetensorsFile& file) {
  config::ModelConfig c;
  c.layers = whole(file, "layers");
  c.heads = whole(file, "heads");
  c.head_width = file.at("param.u").shape.at(1);
  c.width = c.embedding = whole(file, "d");
  c.ff = whole(file, "d_ff");
  c.dropout = c.attention_dropout = 0.0;
  c.attention_kernel = test_attention();
  c.norm = config::Norm::kPost;
  c.tie_embedding = false;
  c.embedding_scale = config::EmbeddingScale::kNone;
  return c;
}

config::MemoryConfig memory_config(const SafetensorsFile& file) {
  return compressive_memory(
      str("rows = ", whole(file, "mem_len"), "\ncompressed_rows = ", whole(file, "cmem_len"),
          "\nrate = ", whole(file, "rate"), "\nfunction = \"", file.metadata_at("compression"),
          "\"\nloss = \"attention\"\nreport_loss = true\nstart = \"",
          setting(file, "zero_init").get<bool>() ? "zeros" : "empty", "\"\n"));
}

// Our names of a layer's parameters; queries, keys and values are the three parts of one.
const std::map<std::string, std::string>& layer_names() {
  static const std::map<std::string, std::string> names = {
      {"q", "attention.qkv.weight"},       {"k", "attention.qkv.weight"},
      {"v", "attention.qkv.weight"},       {"r", "attention.position.weight"},
      {"o", "attention.output.weight"},    {"ln1.weight", "attention.norm.weight"},
      {"ln1.bias", "attention.norm.bias"}, {"ff1.weight", "ff.in.weight"},
      {"ff1.bias", "ff.in.bias"},          {"ff2.weight", "ff.out.weight"},
      {"ff2.bias", "ff.out.bias"},         {"ln2.weight", "ff.norm.weight"},
      {"ln2.bias", "ff.norm.bias"},
  };
  return names;
}
const std::map<std::string, std::string>& model_names() {
  static const std::map<std::string, std::string> names = {{"emb", "embedding.0.weight"},
                                                           {"out.weight", "softmax.0.weight"},
                                                           {"out.bias", "softmax.0.bias"},
                                                           {"u", "attention.content_bias"},
                                                           {"v", "attention.position_bias"}};
  return names;
}

// "layer3.q" -> (3, "q"); (-1, name) for a name of the whole model.
std::pair<int64_t, std::string> split(const std::string& name) {
  const std::size_t dot = name.find('.');
  if (!name.starts_with("layer") || dot == std::string::npos) return {-1, name};
  return {std::stoll(name.substr(5, dot - 5)), name.substr(dot + 1)};
}

class PaperRun {
 public:
  PaperRun(const SafetensorsFile& file, at::ScalarType dtype, memory::Phase phase, Comparison& to)
      : file_(file), config_(model_config(file)), phase_(phase), to_(to) {
    backbone::ModelSetup setup;
    setup.vocabulary = whole(file, "vocab");
    setup.train_segment = setup.eval_segment = whole(file, "seq_len");
    setup.dtype = dtype;
    setup.device = test_device();
    setup.seed = 5;
    model_ = backbone::make_model(config_, setup);
    stack_ = std::make_unique<memory::Stack>(
        memory_config(file), backbone::backbone_info(config_, setup), plugin_loader());
    state_ = stack_->new_state(phase, whole(file, "batch"));
    load();
    model_->train(phase == memory::Phase::kTraining);
  }

  void run() {
    for (int64_t s = 0; s < whole(file_, "segments"); ++s) segment(s);
  }

 private:
  at::Tensor read(const std::string& name) const {
    return weights::read_tensor(file_, name, at::kDouble);
  }
  at::Tensor model_parameter(const std::string& name) const {
    for (const backbone::Parameter& parameter : model_->parameters()) {
      if (parameter.name == name) return parameter.tensor;
    }
    throw_run("the model has no parameter \"", name, '"');
  }
  // The parameter that has a file's name, or its gradient, as a view in the file's layout.
  at::Tensor part(const std::string& name, bool is_gradient) const {
    const auto [layer, of_layer] = split(name);
    const auto which = [&](const at::Tensor& t) { return is_gradient ? t.grad() : t; };
    if (layer < 0) return which(model_parameter(model_names().at(name)));
    if (of_layer.starts_with("compress.")) {
      const std::string ours = of_layer.substr(9);
      return file_layout(ours, which(tier_parameter(*stack_, layer, ours)));
    }
    const at::Tensor whole =
        which(model_parameter(str("layers.", layer, ".", layer_names().at(of_layer))));
    const std::size_t third = std::string("qkv").find(of_layer);
    if (third == std::string::npos || !whole.defined()) return whole;
    const int64_t rows = whole.size(0) / 3;
    return whole.narrow(0, static_cast<int64_t>(third) * rows, rows);
  }

  void load() {
    const torch::NoGradGuard no_grad;
    int64_t loaded = 0;
    for (const std::string& name : file_.names()) {
      if (!name.starts_with("param.")) continue;
      const at::Tensor target = part(name.substr(6), false);
      if (target.sizes() != read(name).sizes())
        throw_run(name, ": the model's parameter has another shape");
      target.copy_(read(name));
      loaded += target.numel();
    }
    int64_t all = 0;
    for (const backbone::Parameter& p : model_->parameters()) all += p.tensor.numel();
    for (const memory::TierParameter& p : stack_->parameters()) all += p.tensor.numel();
    if (loaded != all) throw_run("the file gives ", loaded, " of the model's ", all, " parameters");
    model_->weights_changed();
    stack_->weights_changed();
  }

  void segment(int64_t s) {
    const int64_t length = whole(file_, "seq_len");
    const at::Tensor tokens = weights::read_tensor(file_, "tokens", at::kLong).to(test_device());
    const backbone::Batch batch{tokens.narrow(1, s * length, length).contiguous(),
                                tokens.narrow(1, s * length + 1, length).contiguous(),
                                {}};
    std::map<std::string, at::Tensor> probes;
    at::Tensor aux;
    eval::SegmentOptions with;
    with.memory.wanted_probes = kProbes;
    with.memory.probes = &probes;
    with.before_commit = [&](const backbone::Output&, const memory::SegmentHooks& hooks) {
      aux = hooks.total_loss();
    };
    const backbone::Output out =
        eval::run_segment(*model_, *stack_, state_, batch, std::move(with));
    const std::string prefix = str("seg", s, ".");
    const at::Tensor logits = at::linear(out.top.detach(), part("out.weight", false).detach(),
                                         part("out.bias", false).detach());
    check(prefix + "logits", logits);
    at::Tensor loss = out.nll.mean();
    check(prefix + "loss", loss.view({1}));
    to_.check(phase_name() + prefix + "aux_loss", aux.defined() ? aux.view({1}) : aux,
              read_loss(file_, prefix + "aux_loss"));
    memories(prefix);
    evicted(prefix, probes);
    if (aux.defined()) loss = loss + aux;
    if (s + 1 == whole(file_, "segments") && phase_ == memory::Phase::kTraining) gradients(loss);
  }

  std::string phase_name() const {
    return phase_ == memory::Phase::kTraining ? "training " : "evaluation ";
  }
  void check(const std::string& name, const at::Tensor& ours) {
    to_.check(phase_name() + name, ours, read(name));
  }

  void memories(const std::string& prefix) {
    const auto compare = [&](const std::string& theirs, const std::string& queue) {
      std::vector<at::Tensor> layers;
      for (int64_t l = 0; l < config_.layers; ++l) {
        const at::Tensor rows = queue_rows(state_, l, queue);
        if (rows.defined()) layers.push_back(rows);
      }
      if (!file_.contains(theirs)) {  // empty
        if (!layers.empty()) throw_run(theirs, ": expected no rows, got some");
        return;
      }
      check(theirs, layers.empty() ? at::Tensor() : at::stack(layers));
    };
    compare(prefix + "mem", "memory");
    compare(prefix + "cmem", "compressed");
  }

  void evicted(const std::string& prefix, const std::map<std::string, at::Tensor>& probes) {
    const auto compare = [&](const std::string& theirs, const std::string& probe) {
      const auto found = probes.find(probe);
      if (file_.contains(theirs)) {
        check(theirs, found == probes.end() ? at::Tensor() : found->second);
      } else if (found != probes.end() && probe.ends_with(".evicted")) {
        throw_run(theirs, ": expected nothing evicted, got ", found->second.size(1), " rows");
      }
    };
    for (int64_t l = 0; l < config_.layers; ++l) {
      const std::string layer = str(prefix, "layer", l, ".");
      const std::string ours = str("0.", stack_->identities().at(0).id, ".", l, ".memory.");
      for (const char* name : {"evicted", "usage", "kept_index"})
        compare(layer + name, ours + name);
    }
  }

  void gradients(const at::Tensor& loss) {
    loss.backward();
    for (const std::string& name : file_.names()) {
      if (name.starts_with("grad.")) check(name, part(name.substr(5), true));
    }
  }

  const SafetensorsFile& file_;
  config::ModelConfig config_;
  memory::Phase phase_;
  Comparison& to_;
  std::unique_ptr<backbone::Model> model_;
  std::unique_ptr<memory::Stack> stack_;
  memory::StackState state_;
};

}  // namespace

void compare_paper(const SafetensorsFile& file, at::ScalarType dtype, Comparison& to,
                   LeftOut& left_out) {
  if (file.metadata_at("compression") == "dilated") {
    if (const std::string line = left_out_of_dilated(file); !line.empty()) {
      left_out.insert(line);
      return;
    }
  }
  for (const memory::Phase phase : {memory::Phase::kTraining, memory::Phase::kEvaluation}) {
    const at::AutoGradMode grad(phase == memory::Phase::kTraining);
    PaperRun(file, dtype, phase, to).run();
  }
}

}  // namespace mneme::golden
