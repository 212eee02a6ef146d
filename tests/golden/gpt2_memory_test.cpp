// GPT-2 with a continuous memory in every layer against the official infinity-former's language
// model (tests/golden/continuous_ltm, files of a whole GPT-2): segments in order, with the memory's
// reset, and the gradients of one segment.
//
// Every such file of the family is read when the test runs; every setting comes from its metadata.
#include <gtest/gtest.h>

#include <array>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "host/backbone/model.hpp"
#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/config/experiment.hpp"
#include "host/eval/run_segment.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"
#include "host/plugin/loader.hpp"
#include "host/tensor/torch.hpp"
#include "host/weights/official_weights.hpp"
#include "tests/golden/continuous_ltm/continuous_ltm_case.hpp"
#include "tests/golden/golden.hpp"

namespace mneme::golden {
namespace {

struct Gpt2Name {
  const char* official;
  const char* ours;
  bool is_transposed = false;  // stored [in, out]
};
constexpr std::array kOfLayer = {
    Gpt2Name{"ln_1.weight", "attention.norm.weight"},
    Gpt2Name{"ln_1.bias", "attention.norm.bias"},
    Gpt2Name{"attn.c_attn.weight", "attention.qkv.weight", true},
    Gpt2Name{"attn.c_attn.bias", "attention.qkv.bias"},
    Gpt2Name{"attn.c_proj.weight", "attention.output.weight", true},
    Gpt2Name{"attn.c_proj.bias", "attention.output.bias"},
    Gpt2Name{"ln_2.weight", "ff.norm.weight"},
    Gpt2Name{"ln_2.bias", "ff.norm.bias"},
    Gpt2Name{"mlp.c_fc.weight", "ff.in.weight", true},
    Gpt2Name{"mlp.c_fc.bias", "ff.in.bias"},
    Gpt2Name{"mlp.c_proj.weight", "ff.out.weight", true},
    Gpt2Name{"mlp.c_proj.bias", "ff.out.bias"},
};
constexpr std::array kOfModel = {
    Gpt2Name{"wte.weight", "embedding.0.weight"},
    Gpt2Name{"wpe.weight", "position.embedding"},
    Gpt2Name{"ln_f.weight", "final_norm.weight"},
    Gpt2Name{"ln_f.bias", "final_norm.bias"},
};
constexpr const char* kMemory = "attn.long_term_attention.";

bool is_whole_gpt2(const SafetensorsFile& file) {
  return file.contains("param.transformer.wte.weight");
}

class Gpt2Run {
 public:
  Gpt2Run(const SafetensorsFile& file, at::ScalarType dtype)
      : file_(file),
        settings_(Json::parse(file.metadata_at("settings"))),
        experiment_(config::parse_experiment_text(toml(), file.path().string())) {
    backbone::ModelSetup setup;
    setup.vocabulary = settings_.at("vocab");
    setup.train_segment = setup.eval_segment = settings_.at("L");
    setup.dtype = dtype;
    setup.device = test_device();
    setup.draws_parameters = false;
    model_ = backbone::make_model(experiment_.model, setup);
    stack_ = std::make_unique<memory::Stack>(
        experiment_.memory, backbone::backbone_info(experiment_.model, setup), loader_);
    for (const std::string& name : file_.names()) {
      if (!name.starts_with("param.transformer.")) continue;
      const auto [parameter, value] = of_official(name.substr(18), read(name));
      if (!parameter.defined()) continue;
      const at::NoGradGuard no_grad;
      at::Tensor(parameter).copy_(value);
    }
    stack_->weights_changed();
    state_ = stack_->new_state(memory::Phase::kTraining, 2);
    model_->train(true);
  }

  void run(Comparison& values, Comparison& gradients) {
    for (int64_t s = 0; file_.contains(str("seg", s, ".logits")); ++s) {
      segment(s, values, gradients);
    }
  }

 private:
  // The released language model's settings (reference: finetune_gpt2); its threshold is a reset.
  std::string toml() const {
    const auto number = [&](const char* key) { return settings_.at(key).dump(); };
    return str(
        "[model]\nbackbone = \"gpt2\"\nlayers = ", number("n_layer"),
        "\nheads = ", number("n_head"), "\nwidth = ", number("n_embd"),
        "\npositions = ", number("n_positions"), "\nnorm_epsilon = ", number("layer_norm_epsilon"),
        "\ndropout = 0.0\nattention_dropout = 0.0\n[memory]\nplugins = [\"", MNEME_PLUGIN_DIR,
        "\"]\n[[memory.tier]]\nplugin = \"continuous_ltm\"\nbasis = ", number("N"),
        "\nwidths = ", number("sigmas"), "\ntau = ", number("tau"), "\nsamples = ", number("M"),
        "\nridge = ", number("ridge"), "\nsigma_0 = ", number("sigma0"),
        "\nlambda_kl = ", file_.metadata_at("kl_weight_in_loss"),
        "\nreset_tokens = ", number("mem_threshold"),
        "\nkl_mean = ", settings_.value("mu0", 1.0) <= 0.0 ? "true" : "false",
        "\nsticky = ", settings_.value("sticky", false) ? "true" : "false",
        "\nbins = ", settings_.value("D", 128),
        "\n[data]\ntask = \"motif\"\nalphabet = ", number("vocab"),
        "\n[train]\nsteps = 1\nsegment = ", number("L"), "\n");
  }

  at::Tensor read(const std::string& name) const {
    return weights::read_tensor(file_, name, at::kDouble);
  }

  at::Tensor find(const std::string& name) const {
    for (const backbone::Parameter& p : model_->parameters()) {
      if (p.name == name) return p.tensor;
    }
    for (const memory::TierParameter& p : stack_->parameters()) {
      if (p.name.ends_with(name)) return p.tensor;
    }
    return {};
  }

  // Our parameter of an official name without "transformer.", and the value in our layout; an
  // undefined parameter for what the official code does not use.
  std::pair<at::Tensor, at::Tensor> of_official(const std::string& name, const at::Tensor& value) {
    for (const Gpt2Name& one : kOfModel) {
      if (name == one.official) return {find(one.ours), value};
    }
    const size_t dot = name.find('.', 2);
    const std::string layer = name.substr(2, dot - 2), rest = name.substr(dot + 1);
    for (const Gpt2Name& one : kOfLayer) {
      if (rest != one.official) continue;
      return {find(str("layers.", layer, ".", one.ours)), one.is_transposed ? value.t() : value};
    }
    EXPECT_TRUE(rest.starts_with(kMemory)) << name;
    const std::string own = rest.substr(std::string(kMemory).size());
    const std::string ours = continuous_parameter(own);
    EXPECT_TRUE(!ours.empty() || own == "proj_query.weight") << name;
    if (ours.empty()) return {};
    return {find(str(".", layer, ".", ours)), from_official(own, value)};
  }

  // The official draws of sticky samples, one entry a layer.
  std::map<std::string, at::Tensor> draws_in(const std::string& prefix) const {
    std::map<std::string, at::Tensor> out;
    for (int64_t l = 0; l < experiment_.model.layers; ++l) {
      const std::string at = str(prefix, "layer", l, ".");
      if (!file_.contains(at + "drawn_bins")) continue;
      out[str("0.", stack_->identities().at(0).id, ".", l, ".bins")] =
          draws_of(read(at + "hist_probs"), read(at + "drawn_bins"));
    }
    return out;
  }

  void segment(int64_t s, Comparison& values, Comparison& gradients) {
    const std::string prefix = str("seg", s, ".");
    const at::Tensor ids =
        weights::read_tensor(file_, prefix + "input_ids", at::kLong).to(test_device());
    const int64_t lanes = ids.size(0), tokens = ids.size(1);
    const at::Tensor target =
        at::cat({ids.narrow(1, 1, tokens - 1), at::full({lanes, 1}, -1, ids.options())}, 1);
    backbone::ForwardOptions::Tap tap;
    std::map<std::string, at::Tensor> probes;
    const std::map<std::string, at::Tensor> draws = draws_in(prefix);
    at::Tensor aux;
    eval::SegmentOptions with;
    with.memory.replay_draws = &draws;
    with.forward.tap = &tap;
    with.memory.wanted_probes = {"memory.coefficients", "memory.kl"};
    with.memory.probes = &probes;
    with.before_commit = [&](const backbone::Output&, const memory::SegmentHooks& hooks) {
      aux = hooks.total_loss();
    };
    const backbone::Output out = eval::run_segment(
        *model_, *stack_, state_,
        backbone::Batch{.input = ids, .target = target, .valid_count = {}}, std::move(with));
    const at::Tensor logp = model_->log_probabilities(out.top.detach().flatten(0, 1));
    values.check(prefix + "logits", logp.view({lanes, tokens, -1}),
                 at::log_softmax(read(prefix + "logits"), -1));
    const at::Tensor loss = out.nll.sum() / static_cast<double>(lanes * (tokens - 1));
    values.check(prefix + "loss", loss.view({1}).detach(), read(prefix + "loss"));
    const std::string id = stack_->identities().at(0).id;
    for (int64_t l = 0; l < experiment_.model.layers; ++l) {
      const std::string at = str(prefix, "layer", l, "."),
                        probe = str("0.", id, ".", l, ".memory.");
      if (!file_.contains(at + "B")) continue;
      values.check(at + "B", probes.at(probe + "coefficients"), read(at + "B"));
      values.check(at + "kl", probes.at(probe + "kl"), read(at + "kl"));
      values.check(at + "ltm_x", previous_.at(static_cast<size_t>(l)), read(at + "ltm_x"));
    }
    previous_ = {tap.embedded};
    previous_.insert(previous_.end(), tap.layer_out.begin(), tap.layer_out.end());
    if (file_.contains(prefix + "kl_mean")) {
      ASSERT_TRUE(aux.defined());
      const double weight = Json::parse(file_.metadata_at("kl_weight_in_loss")).get<double>();
      values.check(prefix + "kl_mean", aux.detach().view({1}) / weight, read(prefix + "kl_mean"));
    }
    if (str(s) != file_.metadata_at("grads_at_segment")) return;
    (aux.defined() ? loss + aux : loss).backward();
    const std::string grad = str("grad.", prefix, "transformer.");
    for (const std::string& name : file_.names()) {
      if (!name.starts_with(grad)) continue;
      const auto [parameter, value] = of_official(name.substr(grad.size()), read(name));
      ASSERT_TRUE(parameter.defined()) << name;
      gradients.check(name, parameter.grad(), value);
    }
  }

  const SafetensorsFile& file_;
  Json settings_;
  config::Experiment experiment_;
  plugin::PluginLoader loader_ = memory::make_loader();
  std::unique_ptr<backbone::Model> model_;
  std::unique_ptr<memory::Stack> stack_;
  memory::StackState state_;
  std::vector<at::Tensor> previous_;  // inputs of the layers in the segment before
};

TEST(GoldenGpt2Memory, EveryFileAgreesWithTheOfficialLanguageModel) {
  int64_t compared = 0;
  for (const auto& path : files("continuous_ltm")) {
    const SafetensorsFile file = SafetensorsFile::open(path);
    if (!is_whole_gpt2(file)) continue;
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      const bool is_double = dtype == at::kDouble;
      const std::string title = path.stem().string() + (is_double ? " f64" : " f32");
      Comparison values(title, is_double ? 1e-6 : 1e-4);
      Comparison gradients(title + " gradients", is_double ? 1e-6 : 5e-4);
      try {
        Gpt2Run(file, dtype).run(values, gradients);
      } catch (const std::exception& error) {
        ADD_FAILURE() << title << ": " << error.what();
      }
      EXPECT_GT(gradients.count(), 0) << title;
      std::cout << values.summary() << '\n' << gradients.summary() << std::endl;
      compared += values.count();
    }
  }
  EXPECT_GT(compared, 0) << "no file of a whole GPT-2 could be compared";
}

}  // namespace
}  // namespace mneme::golden
