#include <cmath>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;

class ScoreRun : public CliTest {
 protected:
  void SetUp() override {
    expect_done(run_mneme({"train", experiment(tiny()), "--run", file("run"), "--quiet"}));
  }
  ProgramResult score() const {
    return run_mneme({"score", file("run"), "--tokens", file("ids.safetensors"), "--dump",
                      file("nll.safetensors"), "--quiet", "--json", file("scored.json")});
  }
  std::vector<double> nll(const std::vector<std::int64_t>& shape) const {
    const SafetensorsFile out = SafetensorsFile::open(folder_ / "nll.safetensors");
    const TensorView& view = out.at("nll", DType::F64, shape);
    std::vector<double> values(static_cast<std::size_t>(view.elements()));
    std::memcpy(values.data(), view.data, view.bytes);
    return values;
  }
};

TEST_F(ScoreRun, WritesTheLossOfEveryNextToken) {
  std::vector<std::int64_t> ids(3 * 21);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i * 5 % 8);
  SafetensorsWriter writer;
  writer.add("input", DType::I64, {3, 21}, ids.data());
  writer.write(folder_ / "ids.safetensors");
  const ProgramResult result = score();
  expect_done(result);
  EXPECT_THAT(result.out, HasSubstr("scored 60 targets in 3 rows"));
  double sum = 0.0;
  for (const double value : nll({3, 20})) {
    EXPECT_TRUE(std::isfinite(value));
    EXPECT_GT(value, 0.0);
    sum += value;
  }
  EXPECT_LT(sum / 60, 2 * std::log(8.0));
  const Json json = Json::parse(read_file(folder_ / "scored.json"));
  EXPECT_EQ(json.at("targets"), 60);
  EXPECT_NEAR(json.at("nll").get<double>(), sum, 1e-9);
  EXPECT_GT(json.at("seconds").get<double>(), 0.0);
  EXPECT_GT(json.at("speed").at("mfu").get<double>(), 0.0);
  const ProgramResult old = run_mneme({"eval", file("run"), "--tokens", file("ids.safetensors"),
                                       "--dump=" + file("again.safetensors"), "--quiet"});
  expect_done(old);
  EXPECT_THAT(old.err, HasSubstr("warning an old spelling, which the next release refuses; now it "
                                 "is: mneme score " +
                                 file("run") + " --tokens"));
  EXPECT_EQ(read_file(folder_ / "again.safetensors"), read_file(folder_ / "nll.safetensors"));
}

TEST_F(ScoreRun, TakesTargets) {
  const std::vector<std::int64_t> ids{1, 2, 3, 4};
  const std::vector<std::int64_t> targets{2, -1, 4, 5};
  SafetensorsWriter writer;
  writer.add("input", DType::I64, {1, 4}, ids.data());
  writer.add("target", DType::I64, {1, 4}, targets.data());
  writer.write(folder_ / "ids.safetensors");
  expect_done(score());
  const auto values = nll({1, 4});
  EXPECT_GT(values[0], 0.0);
  EXPECT_EQ(values[1], 0.0);
  EXPECT_GT(values[3], 0.0);
}

}  // namespace
}  // namespace mneme::test
