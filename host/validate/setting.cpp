#include "host/validate/setting.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "host/base/error.hpp"
#include "host/base/random.hpp"
#include "host/config/memory_file.hpp"
#include "host/plugin/plugin_options.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/interposer.hpp"

namespace mneme::validate {
namespace {

using config::PositionScheme;

constexpr std::int64_t kLength = 6;

config::ModelConfig small_model() {
  config::ModelConfig model;
  model.layers = 2;
  model.heads = 3;
  model.head_width = 4;
  model.width = 14;  // not heads * head_width, nor a multiple of 4
  model.ff = 16;
  model.embedding = 14;
  model.dropout = 0.0;
  model.attention_dropout = 0.0;
  model.norm = config::Norm::kPre;
  model.init = config::Init::kArticle;
  return model;
}

backbone::ModelSetup small_setup(const Subject& subject) {
  backbone::ModelSetup setup;
  setup.vocabulary = kVocabulary;
  setup.train_segment = setup.eval_segment = 1;  // tiers with a longest segment refuse more
  setup.dtype = at::kDouble;
  setup.seed = subject.seed;
  return setup;
}

}  // namespace

Setting setting_with(const Subject& subject, PositionScheme position) {
  Setting setting{.model = small_model(), .setup = small_setup(subject)};
  setting.model.position = position;
  if (position == PositionScheme::kLearned) setting.model.positions = 512;
  const std::unique_ptr<Session> session = open(subject, setting);
  const std::int64_t longest = session->stack.longest_segment(memory::Phase::kTraining);
  setting.setup.train_segment = longest == 0 ? kLength : std::min(kLength, longest);
  const std::int64_t evaluated = session->stack.longest_segment(memory::Phase::kEvaluation);
  setting.setup.eval_segment = evaluated == 0 ? kLength : std::min(kLength, evaluated);
  return setting;
}

Setting small_setting(const Subject& subject) {
  for (const PositionScheme scheme : kSchemes) {
    try {
      return setting_with(subject, scheme);
    } catch (const Error& error) {
      if (scheme == PositionScheme::kNone) throw;
    }
  }
  throw std::logic_error("there is a scheme");
}

namespace {

// As a tier names it: a memory in Python by its path.
std::string plugin_name(const Subject& subject) {
  const bool is_python = config::is_python_memory(subject.file);
  return is_python ? subject.file.string() : subject.file.filename().string();
}

}  // namespace

config::MemoryConfig memory_of(const Subject& subject, const Setting& setting) {
  std::vector<std::string> settings;
  for (const auto* const options : {&subject.options, &setting.options}) {
    for (const std::string& option : *options) settings.push_back("tier.0." + option);
  }
  return memory_of({subject.file.parent_path().string()},
                   str("[[memory.tier]]\nplugin = ", quoted_list({plugin_name(subject)}), "\n",
                       setting.tier_keys, "\n"),
                   settings);
}

std::unique_ptr<Session> open(const Subject& subject, const Setting& setting) {
  interposer().start_notes();
  return std::make_unique<Session>(setting.model, setting.setup, memory_of(subject, setting),
                                   interposed_group);
}

std::unique_ptr<Session> open_past_zeros(const Subject& subject) {
  auto session = open(subject);
  const at::NoGradGuard no_grad;
  for (const memory::TierParameter& parameter : session->stack.parameters()) {
    if (parameter.tensor.any().item<bool>()) continue;
    Random random(subject.seed, {"past zeros", parameter.name});
    const at::Tensor values = at::empty(parameter.tensor.sizes(), at::kDouble);
    double* const value = values.mutable_data_ptr<double>();
    for (std::int64_t i = 0; i < values.numel(); ++i) value[i] = 0.5 * random.normal();
    parameter.tensor.copy_(values);
  }
  session->stack.weights_changed();
  return session;
}

std::int64_t segment_length(const Session& session) {
  const std::int64_t longest = session.stack.longest_segment(memory::Phase::kTraining);
  return longest == 0 ? kLength : std::min(kLength, longest);
}

at::Tensor ids_of(const Subject& subject, const Session& session, std::int64_t segments,
                  std::uint64_t salt, std::int64_t lanes) {
  // Without the last id, which checks use for a token of their own.
  return random_ids(subject.seed * 1000 + salt, lanes, segments * segment_length(session) + 1,
                    kVocabulary - 1);
}

at::Tensor losses_of(Session& session, memory::StackState& state, const at::Tensor& ids) {
  return losses_of(session, state, ids, segment_length(session));
}

Trial trial_of(const Subject& subject, Session& session) {
  return {.session = session,
          .ids = ids_of(subject, session, kSegments),
          .other = ids_of(subject, session, kSegments, 1),
          .vocabulary = kVocabulary - 1,
          .length = segment_length(session),
          .tolerance = kSame};
}

void expect_equal(const at::Tensor& got, const at::Tensor& expected, const std::string& what,
                  const std::string& why, double tolerance) {
  const double difference = largest_difference(got, expected);
  if (difference > tolerance) throw Failed(str(what, " by ", short_text(difference), why));
}

std::size_t entries_of(const char* folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder),
                                                std::filesystem::directory_iterator()));
}

const plugin::LoadedPlugin& load(const Subject& subject, plugin::PluginLoader& loader) {
  return loader.load(subject.file.filename().string(), {subject.file.parent_path().string()}, "",
                     "");
}

std::vector<config::OptionSpec> options_of(const Subject& subject) {
  plugin::PluginLoader loader(interposed_group);
  return plugin::option_specs(*load(subject, loader).table, subject.file.string());
}

bool is_given(const Subject& subject, const std::string& option) {
  return std::ranges::any_of(subject.options, [&](const std::string& text) {
    return text.substr(0, text.find('=')) == option;
  });
}

}  // namespace mneme::validate
