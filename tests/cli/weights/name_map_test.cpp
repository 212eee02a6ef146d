// import, export and train --init of weights whose names a name map beside the memory's library
// tells: the test memory "fitted", a gain in every layer, and its fitted.names.toml.
#include <cstring>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using Shape = std::vector<std::int64_t>;
using Shapes = std::map<std::string, Shape>;

const std::filesystem::path kPlugins =
    std::filesystem::path(MNEME_BINARY_DIR) / "tests/abi_plugins";

// A model of one layer, width 4, 2 heads of 2, ff 6, vocabulary 5.
const Shapes kWeights = {{"word_emb.emb_layers.0.weight", {5, 4}},
                         {"crit.out_layers.0.weight", {5, 4}},
                         {"crit.out_layers.0.bias", {5}},
                         {"u", {2, 2}},
                         {"r_r_bias", {2, 2}},
                         {"layers.0.query", {4, 4}},
                         {"layers.0.rest", {8, 4}},
                         {"layers.0.gain", {1}},
                         {"layers.0.constant", {1, 2}},
                         {"layers.0.dec_attn.r_net.weight", {4, 4}},
                         {"layers.0.dec_attn.o_net.weight", {4, 4}},
                         {"layers.0.dec_attn.layer_norm.weight", {4}},
                         {"layers.0.dec_attn.layer_norm.bias", {4}},
                         {"layers.0.pos_ff.CoreNet.0.weight", {6, 4}},
                         {"layers.0.pos_ff.CoreNet.0.bias", {6}},
                         {"layers.0.pos_ff.CoreNet.3.weight", {4, 6}},
                         {"layers.0.pos_ff.CoreNet.3.bias", {4}},
                         {"layers.0.pos_ff.layer_norm.weight", {4}},
                         {"layers.0.pos_ff.layer_norm.bias", {4}},
                         {"pos_emb.inv_freq", {2}}};

class NameMapProgram : public CliTest {
 protected:
  void SetUp() override { write_weights(kWeights); }

  // Numbers that differ from tensor to tensor; tied ones are equal, frequencies the official ones.
  void write_weights(const Shapes& tensors,
                     const std::map<std::string, std::string>& metadata = {}) const {
    SafetensorsWriter writer;
    std::size_t start = 0;
    for (const auto& [name, shape] : tensors) {
      std::int64_t count = 1;
      for (const std::int64_t extent : shape) count *= extent;
      std::vector<float> values(static_cast<std::size_t>(count));
      const bool is_tied =
          name == "crit.out_layers.0.weight" || name == "word_emb.emb_layers.0.weight";
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<float>(i + (is_tied ? 0 : start)) / 64.0F;
      }
      if (name == "pos_emb.inv_freq") values = {1.0F, 0.01F};
      writer.add_copy(name, DType::F32, shape, values.data());
      start += 7;
    }
    for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
    writer.write(folder_ / "weights.safetensors");
  }

  static std::string memory(const std::string& options = "") {
    return memory_with("test_fitted", kPlugins, options);
  }
  std::string settings(const std::string& memory_text, const std::string& model = "") const {
    return experiment("[model]\nlayers = 1\nheads = 2\nhead_width = 2\nwidth = 4\nff = 6\n" +
                      model + memory_text +
                      "[data]\ntask = \"tokens\"\ntrain = \"tokens.safetensors\"\n"
                      "vocabulary_size = 5\n[train]\nsegment = 4\nlanes = 1\nsteps = 1\n");
  }
  ProgramResult import(const std::string& path, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"import", file("weights.safetensors"), path, "--run", file("run")});
    return run_mneme(more);
  }
  ProgramResult export_to(const std::string& name, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), {"export", file("run"), file(name)});
    return run_mneme(more);
  }

  void expect_same_tensors(const std::string& name) const {
    const SafetensorsFile in = SafetensorsFile::open(folder_ / "weights.safetensors");
    const SafetensorsFile out = SafetensorsFile::open(folder_ / name);
    EXPECT_EQ(in.names(), out.names());
    for (const std::string& tensor : in.names()) {
      const TensorView& ours = out.at(tensor, in.at(tensor).dtype, in.at(tensor).shape);
      EXPECT_EQ(std::memcmp(ours.data, in.at(tensor).data, ours.bytes), 0) << tensor;
    }
  }
};

TEST_F(NameMapProgram, ImportAndExportGiveBackEveryTensor) {
  const ProgramResult imported = import(settings(memory()), {"--json", "-"});
  expect_done(imported);
  const Json json = Json::parse(imported.out);
  EXPECT_EQ(json.at("names"), "fitted");
  EXPECT_EQ(json.at("memory_parameters"), 1);
  EXPECT_EQ(json.at("initial"), Json::array()) << "no parameter kept its first value";
  const ProgramResult exported = export_to("out.safetensors", {"--json", "-"});
  expect_done(exported);
  EXPECT_EQ(Json::parse(exported.out).at("names"), "fitted");
  EXPECT_EQ(Json::parse(exported.out).at("left_out"), Json::array());
  expect_same_tensors("out.safetensors");
  const SafetensorsFile out = SafetensorsFile::open(folder_ / "out.safetensors");
  EXPECT_EQ(out.metadata_at("format"), "fitted");
  EXPECT_EQ(out.metadata_at("attn_type"), "7");
}

TEST_F(NameMapProgram, MakesUnusedTensorsThatNoFileHad) {
  Shapes without = kWeights;
  without.erase("layers.0.constant");
  write_weights(without);
  expect_done(import(settings(memory())));
  expect_done(export_to("out.safetensors"));
  const SafetensorsFile out = SafetensorsFile::open(folder_ / "out.safetensors");
  const TensorView& made = out.at("layers.0.constant", DType::F32, {1, 2});
  float values[2];
  std::memcpy(values, made.data, made.bytes);
  EXPECT_EQ(values[0], 0.5F);
  EXPECT_EQ(values[1], 0.5F);
}

TEST_F(NameMapProgram, KeepsUnusedTensorsOfOtherDtypes) {
  const std::filesystem::path map = folder_.write(
      "more.toml", read_file(kPlugins / "test_fitted.names.toml") +
                       "[unused.\"count\"]\nshape = [1]\n[unused.\"half\"]\nshape = [2]\n");
  const SafetensorsFile plain = SafetensorsFile::open(folder_ / "weights.safetensors");
  SafetensorsWriter writer;
  for (const std::string& name : plain.names()) {
    const TensorView& view = plain.at(name);
    writer.add(name, view.dtype, view.shape, view.data);
  }
  const std::int64_t count = 7;
  const std::uint16_t half[] = {0x3F80, 0x4000};  // 1 and 2
  writer.add("count", DType::I64, {1}, &count);
  writer.add("half", DType::BF16, {2}, half);
  writer.write(folder_ / "more.safetensors");
  expect_done(run_mneme({"import", file("more.safetensors"), settings(memory()), "--run",
                         file("run"), "--names", map.string()}));
  expect_done(export_to("out.safetensors", {"--names", map.string()}));
  const SafetensorsFile out = SafetensorsFile::open(folder_ / "out.safetensors");
  EXPECT_EQ(std::memcmp(out.at("count", DType::I64, {1}).data, &count, sizeof count), 0);
  const float wide[] = {1.0F, 2.0F};
  EXPECT_EQ(std::memcmp(out.at("half", DType::F32, {2}).data, wide, sizeof wide), 0);
}

TEST_F(NameMapProgram, AMapDoesNotHoldForTheOptionsOfUnless) {
  const std::filesystem::path map = folder_.write(
      "but.toml", "unless = { unit = \"sum\" }\n" + read_file(kPlugins / "test_fitted.names.toml"));
  const std::string path = settings(memory("unit = \"sum\""));
  expect_refusal(import(path, {"--names", map.string()}), 2,
                 {"memory.tier.0: the names are those of a memory without { unit = \"sum\" }",
                  "change [model], [memory] or data.vocabulary_size"});
  expect_done(import(path));
  expect_refusal(export_to("out.safetensors", {"--names", map.string()}), 2,
                 {"but.toml: the map is for every memory of test.fitted but those with { unit = "
                  "\"sum\" }",
                  "leave out --format and --names"});
}

TEST_F(NameMapProgram, ListsEveryMisfit) {
  Shapes tensors = kWeights;
  tensors["layers.0.query"] = {5, 4};
  tensors["layers.0.constant"] = {3};
  tensors["layers.1.gain"] = {1};
  tensors.erase("layers.0.gain");
  tensors.erase("u");
  write_weights(tensors, {{"attn_type", "7"}, {"pre_lnorm", "true"}});
  expect_refusal(import(settings(memory("unit = \"sum\""), "position = \"none\"\n")), 2,
                 {"model.position: expected \"relative\" or \"alibi\", got \"none\"",
                  "the file says pre_lnorm = true",
                  "memory.tier.0: its options mean attn_type = 8, but the file says attn_type = 7",
                  "layers.0.query: wrong shape: expected [4, 4], got [5, 4]",
                  "layers.0.constant: wrong shape: expected [1, 2], got [3]",
                  "layers.1.gain: unexpected", "layers.0.gain: missing in the file"});
}

TEST_F(NameMapProgram, TakesTheMapThatIsNamed) {
  const std::string map = (kPlugins / "test_fitted.names.toml").string();
  expect_refusal(import(settings("[memory]\n")), 2, {"layers.0.query: unexpected"});
  expect_refusal(import(settings("[memory]\n"), {"--names", file("absent.toml")}), 2,
                 {"absent.toml"});
  expect_refusal(import(settings("[memory]\n"), {"--names", map}), 2,
                 {"layers.0.gain: unexpected: the model has no such parameter"});
  Shapes without = kWeights;
  without.erase("layers.0.gain");
  write_weights(without);
  expect_done(import(settings("[memory]\n"), {"--names", map}));
  expect_refusal(export_to("out.safetensors", {"--format", "fitted"}), 2,
                 {"there is no format \"fitted\"", "expected transformer_xl", "--names FILE"});
  expect_done(export_to("out.safetensors", {"--names", map}));
  expect_same_tensors("out.safetensors");
  expect_done(export_to("xl.safetensors"));
  EXPECT_TRUE(SafetensorsFile::open(folder_ / "xl.safetensors")
                  .contains("layers.0.dec_attn.qkv_net.weight"));
}

TEST_F(NameMapProgram, ExportsTheOfficialTransformerXlOfTheSameRun) {
  expect_done(import(settings(memory())));
  const ProgramResult result = export_to("xl.safetensors", {"--format", "transformer_xl"});
  expect_done(result);
  EXPECT_THAT(result.err, HasSubstr("memory.0.test.fitted.0.gain"));
  const SafetensorsFile out = SafetensorsFile::open(folder_ / "xl.safetensors");
  EXPECT_TRUE(out.contains("layers.0.dec_attn.qkv_net.weight"));
  EXPECT_FALSE(out.contains("layers.0.gain"));
  EXPECT_EQ(out.metadata_at("format"), "transformer_xl");
}

TEST_F(NameMapProgram, AFileWithoutTheMapsNamesIsReadAsTransformerXl) {
  Shapes plain = kWeights;
  for (const char* name :
       {"layers.0.query", "layers.0.rest", "layers.0.gain", "layers.0.constant", "u"}) {
    plain.erase(name);
  }
  plain["r_w_bias"] = {2, 2};
  plain["layers.0.dec_attn.qkv_net.weight"] = {12, 4};
  write_weights(plain);
  const ProgramResult result = import(settings(memory()), {"--json", "-"});
  expect_done(result);
  EXPECT_EQ(Json::parse(result.out).at("names"), "transformer_xl");
  EXPECT_EQ(Json::parse(result.out).at("initial"), Json::array({"memory.0.test.fitted.0.gain"}));
}

TEST_F(NameMapProgram, RefusesTwoTiersOfTheMapsPlugin) {
  const std::string two = memory() + "\n[[memory.tier]]\nplugin = \"test_fitted\"\n";
  expect_refusal(import(settings(two)), 2,
                 {"memory.tier.1: the official code has one memory of test.fitted, the experiment "
                  "has 2"});
  Shapes plain = kWeights;
  for (const char* name :
       {"layers.0.query", "layers.0.rest", "layers.0.gain", "layers.0.constant", "u"}) {
    plain.erase(name);
  }
  plain["r_w_bias"] = {2, 2};
  plain["layers.0.dec_attn.qkv_net.weight"] = {12, 4};
  write_weights(plain);
  expect_done(import(settings(two)));
  expect_refusal(export_to("out.safetensors"), 2,
                 {"memory.tier.1: expected one tier of test.fitted, got 2"});
}

TEST_F(NameMapProgram, TrainBeginsWithThem) {
  const std::vector<std::int64_t> ids = {0, 1, 2, 3, 4, 3, 2, 1, 0, 1, 2, 3};
  SafetensorsWriter writer;
  writer.add("tokens", DType::I64, {1, 12}, ids.data());
  writer.write(folder_ / "tokens.safetensors");
  expect_done(import(settings(memory())));
  std::vector<std::string> losses;
  for (const std::string source : {"run", "weights.safetensors"}) {
    const std::string to = file("from_" + source);
    expect_done(run_mneme({"train", settings(memory()), "--init", file(source), "--run", to,
                           "--set", "train.log_every=1", "--quiet"}));
    const std::string lines = read_file(to + "/metrics.jsonl");
    losses.push_back(Json::parse(lines.substr(0, lines.find('\n'))).at("loss").dump());
  }
  EXPECT_EQ(losses[0], losses[1]);
}

TEST_F(NameMapProgram, ACheckpointTakesNoNameMap) {
  expect_done(import(settings(memory())));
  std::filesystem::path checkpoint;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder_ / "run")) {
    if (entry.path().extension() == ".safetensors") checkpoint = entry.path();
  }
  expect_refusal(run_mneme({"import", checkpoint.string(), settings(memory()), "--run",
                            file("other"), "--names", "x.toml"}),
                 2, {"the name map x.toml is given", "expected official weights"});
}

}  // namespace
}  // namespace mneme::test
