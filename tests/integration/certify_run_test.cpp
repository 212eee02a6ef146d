#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
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
  EXPECT_THAT(result.out,
              HasSubstr("there is no memory: every segment is a\n        text of its own"));
  const Json json = Json::parse(read_file(folder_ / "run/certificate.json"));
  EXPECT_EQ(json.at("tokens"), 60);
  EXPECT_EQ(json.at("failed"), 0);
  EXPECT_EQ(json.at("checkpoint_sha256").get<std::string>().size(), 64U);
}

TEST_F(CertifyRun, ReadsAGivenTextAndKeepsNothingOfAnotherMemory) {
  folder_.write("text.txt", std::string(50, 'b') + std::string(50, 'a'));
  folder_.write("none.toml", "[memory]\n");
  const ProgramResult result =
      certify({"--text", file("text.txt"), "--memory", file("none.toml"), "--json", "-"});
  expect_done(result);
  const Json json = Json::parse(result.out);
  EXPECT_EQ(json.at("text"), "text.txt");
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

TEST_F(CertifyRun, RefusesATextForARunOfIds) {
  expect_done(run_mneme({"train", experiment(tiny()), "--run", file("ids"), "--quiet"}));
  folder_.write("text.txt", "a text");
  expect_refusal(run_mneme({"certify", file("ids"), "--text", file("text.txt"), "--quiet"}), 2,
                 {"it has no text vocabulary"});
}

}  // namespace
}  // namespace mneme::test
