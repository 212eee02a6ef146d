#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

class CertifyRun : public CliTest {
 protected:
  void SetUp() override {
    folder_.write("train.txt", std::string(400, 'a') + std::string(400, 'b'));
    folder_.write("valid.txt", std::string(60, 'a') + std::string(60, 'b'));
    expect_done(run_mneme({"train",
                           experiment(tiny_on("task = \"text\"\ntrain = \"train.txt\"\n"
                                              "valid = \"valid.txt\"\n")),
                           "--run", file("run"), "--quiet"}));
  }
  ProgramResult certify(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"certify", file("run"), "--quiet"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_mneme(arguments);
  }
};

TEST_F(CertifyRun, WritesACertificateIntoTheRun) {
  const ProgramResult result = certify({"--split", "valid", "--tokens", "60"});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("60 tokens of split valid, step "));
  EXPECT_THAT(result.out, HasSubstr(" 0 fail,"));
  EXPECT_THAT(result.out, HasSubstr(" nats a token, over all of these tokens as one text; mneme "
                                    "eval\n    counts the targets of the data alone, and resets "));
  EXPECT_THAT(result.out,
              HasSubstr("there is no memory: every segment is a\n        text of its own"));
  const Json json = Json::parse(read_file(folder_ / "run/certificate.json"));
  EXPECT_EQ(json.at("tokens"), 60);
  EXPECT_EQ(json.at("failed"), 0);
  EXPECT_EQ(json.at("checkpoint_sha256").get<std::string>().size(), 64U);
  EXPECT_EQ(json.at("seed"), 1);
  EXPECT_THAT(json.at("memory").get<std::string>(), HasSubstr("[memory]"));
}

TEST_F(CertifyRun, ReadsAGivenTextAndKeepsNothingOfAnotherMemory) {
  folder_.write("text.txt", std::string(50, 'b') + std::string(50, 'a'));
  folder_.write("none.toml", "[memory]\n");
  const ProgramResult result = certify({"--text", file("text.txt"), "--memory", file("none.toml"),
                                        "--json", file("certificate.json")});
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr(" nats a token, over all of these tokens as one text\n"));
  const Json json = Json::parse(read_file(folder_ / "certificate.json"));
  EXPECT_EQ(json.at("text"), "text.txt");
  for (const std::vector<std::string>& changed :
       std::vector<std::vector<std::string>>{{"--set", "memory.carry=reset"},
                                             {"--unset", "memory"},
                                             {"--set", "model.clamp_distance=4"}}) {
    std::vector<std::string> arguments{"--split", "valid", "--tokens", "20"};
    arguments.insert(arguments.end(), changed.begin(), changed.end());
    expect_done(certify(arguments));
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "run/certificate.json"));
}

TEST_F(CertifyRun, SaysWhatCannotBeCertified) {
  folder_.write("none.toml", "[memory]\n");
  folder_.write("short.txt", "ab");
  expect_refusal(certify({}), 2, {"data.test", "there is no test data"});
  expect_refusal(certify({"--split", "valid", "--tokens", "5000"}), 2,
                 {"the text is shorter than --tokens", "5000"});
  expect_refusal(certify({"--text", file("short.txt")}), 2, {"the text is too short"});
  expect_refusal(certify({"--text", file("absent.txt")}), 2, {"absent.txt"});
  expect_refusal(
      certify({"--split", "valid", "--memory", file("none.toml"), "--memory", file("none.toml")}),
      2, {"expected at most one --memory, got 2"});
  expect_refusal(certify({"--split", "valid", "--reference", file("none.toml")}), 2, {"none.toml"});
}

#ifdef MNEME_HAS_EXAMPLES
// RanksWithMemory.AreCertified does it with the four memories.
class CertifyTrained : public CliTest {};

TEST_F(CertifyTrained, ExamplesHold) {
  for (const auto& [plugin, options] :
       {std::pair("sinks", "sinks = 2\nwindow = 9\n"), std::pair("infini", "update = \"delta\"\n"),
        std::pair("gated_delta", "")}) {
    SCOPED_TRACE(plugin);
    const std::string memory = memory_with(plugin, MNEME_BINARY_DIR "/examples", options);
    expect_done(run_mneme({"train", experiment(tiny(memory)), "--run", file(plugin), "--quiet"}));
    const ProgramResult result = run_mneme(
        {"certify", file(plugin), "--split", "valid", "--tokens", "60", "--quiet", "--json", "-"});
    expect_done(result);
    const Json json = Json::parse(result.out);
    EXPECT_EQ(json.at("failed"), 0) << json.dump(1);
    EXPECT_GT(json.at("step"), 0);
  }
}
#endif

// --- An imported decoder against the logits of transformers (tests/golden/decoder) ---

struct TransformersLosses {
  std::vector<std::int64_t> ids;
  std::vector<double> nll;
};

// Of the first of the golden sequences.
TransformersLosses transformers_losses(const std::filesystem::path& golden) {
  const SafetensorsFile file = SafetensorsFile::open(golden);
  const TensorView& logits = file.at("logits", DType::F64, file.at("logits").shape);
  const auto tokens = static_cast<std::size_t>(logits.shape.at(1)),
             vocabulary = static_cast<std::size_t>(logits.shape.at(2));
  TransformersLosses out{.ids = std::vector<std::int64_t>(tokens), .nll = {}};
  std::memcpy(out.ids.data(), file.at("input_ids", DType::I64, {2, logits.shape[1]}).data,
              tokens * sizeof(std::int64_t));
  std::vector<double> row(vocabulary);
  for (std::size_t i = 0; i + 1 < tokens; ++i) {
    std::memcpy(row.data(), logits.data + i * vocabulary * sizeof(double),
                vocabulary * sizeof(double));
    double sum = 0.0;
    for (const double logit : row) sum += std::exp(logit);
    out.nll.push_back(std::log(sum) - row[static_cast<std::size_t>(out.ids[i + 1])]);
  }
  return out;
}

class CertifyImported : public CliTest {
 protected:
  // Its losses `shift` tokens late.
  void write_reference(const TransformersLosses& losses, std::ptrdiff_t shift) const {
    std::vector<double> nll = losses.nll;
    std::rotate(nll.begin(), nll.end() - shift, nll.end());
    SafetensorsWriter writer;
    writer.add("input", DType::I64, {std::ssize(losses.ids)}, losses.ids.data());
    writer.add("nll", DType::F64, {std::ssize(nll)}, nll.data());
    writer.set_metadata("segment", "24");
    writer.write(folder_ / "reference.safetensors");
  }
  void write_ids() const {
    std::vector<std::int64_t> ids;
    for (std::int64_t i = 0; i < 64; ++i) ids.push_back((i * i + i / 5) % 61);
    SafetensorsWriter writer;
    writer.add("tokens", DType::I64, {64}, ids.data());
    writer.write(folder_ / "ids.safetensors");
  }
};

TEST_F(CertifyImported, HoldsTheLossesOfTransformers) {
  write_ids();
  for (const std::string family : {"llama_grouped_llama3", "gpt2"}) {
    SCOPED_TRACE(family);
    const std::filesystem::path golden =
        std::filesystem::path(MNEME_SOURCE_DIR) / "tests/golden/decoder" / family;
    ASSERT_TRUE(std::filesystem::exists(golden)) << golden;
    expect_done(run_mneme({"import", "--from", golden.string(), "--run", file(family),
                           experiment("[data]\ntask = \"tokens\"\ntrain = \"ids.safetensors\"\n"
                                      "valid = \"ids.safetensors\"\n[train]\nsegment = 24\n"
                                      "lanes = 1\nsteps = 1\nprecision = \"f32\"\n")}));
    const TransformersLosses losses = transformers_losses(golden / "golden.safetensors");
    for (const int shift : {0, 1}) {
      write_reference(losses, shift);
      const ProgramResult result =
          run_mneme({"certify", file(family), "--split", "valid", "--quiet", "--reference",
                     file("reference.safetensors"), "--json", "-"});
      EXPECT_EQ(result.exit_code, shift) << result.err;
      const Json json = Json::parse(result.out);
      EXPECT_EQ(json.at("failed"), shift) << json.dump(1);
      const Json& line = json.at("lines").at(8);
      EXPECT_EQ(line.at("name"), "reference");
      EXPECT_EQ(line.at("result"), shift == 0 ? "holds" : "fails");
      if (shift == 0) {
        EXPECT_LT(line.at("difference").get<double>(), 2e-5);
      }
    }
  }
}

TEST_F(CertifyRun, RefusesATextForARunOfIds) {
  expect_done(run_mneme({"train", experiment(tiny()), "--run", file("ids"), "--quiet"}));
  folder_.write("text.txt", "a text");
  expect_refusal(run_mneme({"certify", file("ids"), "--text", file("text.txt"), "--quiet"}), 2,
                 {"it has no text vocabulary"});
}

}  // namespace
}  // namespace mneme::test
