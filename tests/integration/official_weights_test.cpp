// Official weights through the real binary: imported, they give the losses of the official code,
// before and after a trip through export; a new run begins with them.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

#ifdef MNEME_HAS_XL_CACHE

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// Rows of a file of the family transformer_xl: lanes side by side, segments one after another.
struct Texts {
  std::int64_t lanes = 0;
  std::int64_t length = 0;
  std::vector<std::int64_t> input, target;  // [lanes, length]
  std::vector<double> nll;
};

// Reads seg<t>/<name> of all segments, stored [T,B], into [B, all T].
template <typename Stored, typename Number>
void read_segments(const SafetensorsFile& file, const std::string& name, Texts& texts,
                   std::vector<Number>& out) {
  std::vector<std::vector<Number>> lanes;
  for (int t = 0; file.contains(str("seg", t, "/", name)); ++t) {
    const TensorView& view = file.at(str("seg", t, "/", name));
    const auto count = static_cast<std::size_t>(view.shape.at(1));
    lanes.resize(count);
    for (std::size_t i = 0; i < view.bytes / sizeof(Stored); ++i) {
      Stored value;
      std::memcpy(&value, view.data + i * sizeof(Stored), sizeof(Stored));
      lanes[i % count].push_back(static_cast<Number>(value));
    }
  }
  texts.lanes = static_cast<std::int64_t>(lanes.size());
  texts.length = static_cast<std::int64_t>(lanes.at(0).size());
  for (const auto& lane : lanes) out.insert(out.end(), lane.begin(), lane.end());
}

class OfficialWeights : public CliTest, public ::testing::WithParamInterface<const char*> {
 protected:
  OfficialWeights()
      : path_(fs::path(MNEME_SOURCE_DIR) / "tests/golden" /
              (is_look_ahead() ? "lamemo" : "transformer_xl") /
              (std::string(GetParam()) + ".safetensors")),
        golden_(SafetensorsFile::open(path_)) {
    read_segments<std::int32_t>(golden_, "input", texts_, texts_.input);
    read_segments<std::int32_t>(golden_, "target", texts_, texts_.target);
    read_segments<float>(golden_, "nll", texts_, texts_.nll);
    SafetensorsWriter writer;
    writer.add("input", DType::I64, {texts_.lanes, texts_.length}, texts_.input.data());
    writer.add("target", DType::I64, {texts_.lanes, texts_.length}, texts_.target.data());
    writer.write(folder_ / "ids.safetensors");
    SafetensorsWriter tokens;
    tokens.add("tokens", DType::I64, {texts_.lanes, texts_.length}, texts_.input.data());
    tokens.write(folder_ / "tokens.safetensors");
  }

  static bool is_look_ahead() { return std::string(GetParam()).starts_with("lamemo"); }
  std::string meta(const char* key) const { return golden_.metadata_at(key); }

  std::string memory() const {
    const std::string rows = "rows = " + meta("mem_len");
    if (!is_look_ahead()) return memory_with("xl_cache", MNEME_PLUGIN_DIR, rows);
    return memory_with("lamemo", MNEME_PLUGIN_DIR, rows + "\nepsilon = 1e-6");  // as released
  }

  // The file's settings as an experiment.
  std::string settings() const {
    std::ostringstream text;
    const std::string embedding = meta("d_embed") == "null" ? meta("d_model") : meta("d_embed");
    text << "[model]\nlayers = " << meta("n_layer") << "\nheads = " << meta("n_head")
         << "\nhead_width = " << meta("d_head") << "\nwidth = " << meta("d_model")
         << "\nff = " << meta("d_inner") << "\nembedding = " << embedding << "\nposition = \""
         << (is_look_ahead() ? "disentangled" : "relative") << "\"\ndropout = 0.0\nnorm = \""
         << (meta("pre_lnorm") == "true" ? "pre" : "post")
         << "\"\ntie_embedding = " << meta("tie_weight") << '\n';
    if (meta("cutoffs") != "[]") {
      text << "[model.adaptive]\ncutoffs = " << meta("cutoffs") << "\ndiv = " << meta("div_val")
           << "\ntie_projection = " << meta("tie_projs") << '\n';
    }
    text << memory()
         << "[data]\ntask = \"tokens\"\ntrain = \"tokens.safetensors\"\nreset = \"never\"\n"
         << "vocabulary_size = " << meta("n_token") << "\n[train]\nsegment = " << meta("tgt_len")
         << "\nlanes = " << texts_.lanes << "\nsteps = 2\nlr = 1e-4\nprecision = \"f64\"\n";
    return text.str();
  }

  void expect_official_losses(const std::string& run) const {
    expect_done(run_mneme({"score", run, "--tokens", file("ids.safetensors"), "--dump",
                           file("nll.safetensors"), "--quiet"}));
    const SafetensorsFile out = SafetensorsFile::open(folder_ / "nll.safetensors");
    const TensorView& view = out.at("nll", DType::F64, {texts_.lanes, texts_.length});
    std::vector<double> ours(texts_.nll.size());
    std::memcpy(ours.data(), view.data, view.bytes);
    for (std::size_t i = 0; i < ours.size(); ++i) {
      ASSERT_NEAR(ours[i], texts_.nll[i], 2e-6) << "place " << i;  // stored as f32
    }
  }

  // Losses by step; times differ from run to run.
  std::vector<std::string> losses(const std::string& run) const {
    std::vector<std::string> out;
    std::istringstream lines(read_file(folder_ / (run + "/metrics.jsonl")));
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line);
      if (json.at("kind") == "step") out.push_back(json.at("loss").dump());
    }
    return out;
  }

  fs::path path_;
  SafetensorsFile golden_;
  Texts texts_;
};

TEST_P(OfficialWeights, GiveTheOfficialLossesBeforeAndAfterExport) {
  const std::string experiment = this->experiment(settings());
  expect_done(run_mneme(
      {"import", path_.string(), experiment, "--prefix", "param/", "--run", file("run")}));
  expect_official_losses(file("run"));
  expect_done(run_mneme({"export", file("run"), file("out.safetensors")}));
  expect_done(run_mneme({"import", file("out.safetensors"), experiment, "--run", file("again")}));
  expect_official_losses(file("again"));
}

TEST_P(OfficialWeights, BeginARunThatIsResumedFromItsFirstCheckpoint) {
  const std::string experiment = this->experiment(settings());
  expect_done(run_mneme(
      {"import", path_.string(), experiment, "--prefix", "param/", "--run", file("run")}));
  expect_done(
      run_mneme({"train", experiment, "--init", file("run"), "--run", file("tuned"), "--set",
                 "train.keep_checkpoints=9", "--set", "train.log_every=1", "--quiet"}));
  const std::vector<std::string> whole = losses("tuned");
  EXPECT_EQ(whole.size(), 2U);
  const ProgramResult again =
      run_mneme({"train", "--resume", file("tuned"), "--checkpoint", "0", "--quiet"});
  expect_done(again);
  EXPECT_EQ(losses("tuned"), whole);
}

INSTANTIATE_TEST_SUITE_P(Golden, OfficialWeights,
                         ::testing::Values("txl_pre_lnorm", "txl_adaptive_div2_demb"),
                         [](const auto& file) { return std::string(file.param); });

#ifdef MNEME_HAS_LAMEMO
INSTANTIATE_TEST_SUITE_P(LookAhead, OfficialWeights,
                         ::testing::Values("lamemo", "lamemo_pre_lnorm"),
                         [](const auto& file) { return std::string(file.param); });

// Sums over lanes, heads and tokens of the attention to each distance.
struct AttentionSums {
  std::vector<double> weight, tokens;  // [distances]; tokens count every lane's
};

class OfficialAttention : public OfficialWeights {
 protected:
  static constexpr std::int64_t kDistances = 20;
  static constexpr std::int64_t kLayer = 1;  // whose probabilities the files have

  // Of the last segment, [N,K,B,H] in the file.
  AttentionSums official() const {
    const TensorView& p = golden_.at("seg3/attn_prob/1");
    const std::int64_t tokens = p.shape.at(0), keys = p.shape.at(1);
    const std::int64_t rest = p.shape.at(2) * p.shape.at(3);
    AttentionSums sums{std::vector<double>(kDistances), std::vector<double>(kDistances)};
    for (std::int64_t i = 0; i < tokens; ++i) {
      for (std::int64_t d = 1; d <= std::min(kDistances, keys - tokens + i); ++d) {
        const std::int64_t row = (i * keys + keys - tokens + i - d) * rest;
        for (std::int64_t r = 0; r < rest; ++r) {
          float value;
          std::memcpy(&value, p.data + static_cast<std::size_t>(row + r) * sizeof(float),
                      sizeof value);
          sums.weight.at(static_cast<std::size_t>(d - 1)) += value;
        }
        sums.tokens.at(static_cast<std::size_t>(d - 1)) += static_cast<double>(p.shape.at(2));
      }
    }
    return sums;
  }

  // Of the first segments, as `mneme analyze distance` measures them.
  AttentionSums ours(int segments) const {
    expect_done(run_mneme({"analyze",    "distance",        file("run"),  "--out",
                           file("out"),  "--quiet",         "--json",     file("distance.json"),
                           "--lanes",    str(texts_.lanes), "--segments", str(segments),
                           "--layer",    str(kLayer),       "--width",    "1",
                           "--distance", str(kDistances),   "--threads",  "1"}));
    const Json layer =
        Json::parse(read_file(folder_ / "distance.json")).at("memories").at(0).at("layers").at(0);
    AttentionSums sums;
    const double heads = std::stod(meta("n_head"));
    for (std::size_t d = 0; d < kDistances; ++d) {
      sums.tokens.push_back(layer.at("tokens").at(d));
      sums.weight.push_back(layer.at("weight").at(d).get<double>() * sums.tokens.back() * heads);
    }
    return sums;
  }
};

TEST_P(OfficialAttention, IsMeasuredByDistance) {
  // Every token is fed: the last target stands behind the last input.
  std::vector<std::int64_t> text;
  for (std::int64_t b = 0; b < texts_.lanes; ++b) {
    const auto begin = texts_.input.begin() + b * texts_.length;
    text.insert(text.end(), begin, begin + texts_.length);
    text.push_back(texts_.target.at(static_cast<std::size_t>((b + 1) * texts_.length - 1)));
  }
  SafetensorsWriter tokens;
  tokens.add("tokens", DType::I64, {texts_.lanes, texts_.length + 1}, text.data());
  tokens.write(folder_ / "tokens.safetensors");
  expect_done(
      run_mneme({"import", path_.string(), experiment(settings()), "--prefix", "param/", "--run",
                 file("run"), "--set", "data.valid=" + file("tokens.safetensors")}));
  const AttentionSums before = ours(3), all = ours(4), theirs = official();
  for (std::size_t d = 0; d < kDistances; ++d) {
    EXPECT_EQ(all.tokens[d] - before.tokens[d], theirs.tokens[d]) << "distance " << d + 1;
    EXPECT_NEAR(all.weight[d] - before.weight[d], theirs.weight[d], 1e-5) << "distance " << d + 1;
  }
}

INSTANTIATE_TEST_SUITE_P(LookAhead, OfficialAttention,
                         ::testing::Values("lamemo", "lamemo_pre_lnorm"),
                         [](const auto& file) { return std::string(file.param); });
#endif

#endif

}  // namespace
}  // namespace mneme::test
