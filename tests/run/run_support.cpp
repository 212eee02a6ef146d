#include "tests/run/run_support.hpp"

#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::test {
namespace {

constexpr const char* kMotif = R"(
[data]
task = "motif"
alphabet = 8
period_min = 3
period_max = 11
)";
constexpr const char* kModelAndTraining = R"(
[model]
backbone = "xl"
layers = 2
heads = 2
head_width = 8
width = 16
ff = 24
dropout = 0.1
attention_dropout = 0.1
[train]
segment = 6
lanes = 4
steps = 8
lr = 1e-2
warmup = 2
clip = 0.25
precision = "f64"
log_every = 2
[eval]
steps = 5
)";

}  // namespace

config::Experiment small_experiment(const std::string& memory,
                                    const std::vector<std::string>& overrides) {
  std::vector<config::Override> parsed;
  bool is_motif = true;
  for (const std::string& override : overrides) {
    parsed.push_back(config::parse_override(override));
    is_motif = is_motif && parsed.back().key != "data.task";
  }
  std::string text = kModelAndTraining;
  if (is_motif) text += kMotif;
  if (!memory.empty()) {
    text += str("[memory]\nplugins = [\"", MNEME_PLUGIN_DIR, "\", \"", MNEME_BINARY_DIR,
                "/tests/abi_plugins\"]\n", memory);
  }
  return config::parse_experiment_text(text, "small.toml", ".", parsed);
}

std::string tier(const std::string& plugin, const std::string& options) {
  return "[[memory.tier]]\nplugin = \"" + plugin + "\"\n" + options + "\n";
}

std::string xl_cache(int64_t rows, const std::string& more) {
  return str("[[memory.tier]]\nplugin = \"xl_cache\"\nrows = ", rows, "\n", more, "\n");
}

std::string infini(const std::string& more) {
  return str("[[memory.tier]]\nplugin = \"test_infini\"\n", more, "\n");
}

std::string fitted(const std::string& more) {
  return str("[[memory.tier]]\nplugin = \"test_fitted\"\n", more, "\n");
}

bool ListStream::next(data::TokenSegment& segment) {
  if (next_ >= static_cast<std::int64_t>(segments_.size())) return false;
  segment = segments_[static_cast<std::size_t>(next_)];
  segment.index = next_++;
  return true;
}

train::TrainerOptions with_stream(std::vector<data::TokenSegment> segments) {
  train::TrainerOptions options;
  options.stream = std::make_unique<ListStream>(std::move(segments));
  return options;
}

data::TokenSegment random_segment(std::int64_t lanes, std::int64_t length, std::int64_t vocabulary,
                                  std::uint64_t seed) {
  Random random(seed, {"segment"});
  data::TokenSegment segment;
  segment.prepare(lanes, length, false);
  for (auto& id : segment.inputs) id = random.between(0, vocabulary - 1);
  for (auto& id : segment.targets) id = random.between(0, vocabulary - 1);
  segment.valid.assign(static_cast<std::size_t>(lanes), length);
  return segment;
}

std::vector<at::Tensor> weights_of(const run::Runtime& runtime) {
  std::vector<at::Tensor> out;
  for (const auto& parameter : runtime.parameters()) {
    out.push_back(parameter.tensor.detach().clone());
  }
  return out;
}

bool is_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!at::equal(a[i], b[i])) return false;
  }
  return true;
}

}  // namespace mneme::test
