#include "host/analyze/report/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "host/base/file/file.hpp"
#include "host/figure/page.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme::analyze {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// One lane of six tokens in segments of two, ids 10 .. 15, each predicting the next id.
data::TokenSegment report_segment_of(std::int64_t index) {
  data::TokenSegment segment;
  segment.prepare(1, 2, false);
  segment.inputs = {10 + 2 * index, 11 + 2 * index};
  segment.targets = {11 + 2 * index, 12 + 2 * index};
  segment.valid = {2};
  segment.reset = {index == 0 ? std::uint8_t{1} : std::uint8_t{0}};
  return segment;
}

at::Tensor report_row(const std::vector<double>& values) {
  return torch::tensor(values, at::kDouble).unsqueeze(0);
}

// Segment 1 stores tokens 0 and 1 at .25 and .75 and reads token 1 twice; segment 2 stores tokens 2
// and 3 (cells as in token_cells_test.cpp: [0, .625] of token 1, [.625, .875], [.875, 1]) and reads
// tokens 1 and 3.
void fill(MemoryAnalysis& analysis) {
  const std::string key = "0.org.example.wave.4.memory.";
  const at::Tensor variance = torch::full({1, 1, 2}, 1e-6);
  analysis.add(report_segment_of(0), {1.0, 1.0}, {});
  analysis.add(report_segment_of(1), {1.0, 1.0},
               {{key + "written", torch::tensor({2, 1}).unsqueeze(0)},
                {key + "places", report_row({0.25, 0.75})},
                {key + "density.mean", report_row({0.6, 0.9}).unsqueeze(0)},
                {key + "density.variance", variance}});
  analysis.add(report_segment_of(2), {1.0, 0.5},
               {{key + "written", torch::tensor({2, 0}).unsqueeze(0)},
                {key + "places", report_row({0.25, 0.5, 0.75, 1.0})},
                {key + "density.mean", report_row({0.1, 0.95}).unsqueeze(0)},
                {key + "density.variance", variance}});
}

class Report : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::int64_t i = 0; i < 3; ++i) other_.add(report_segment_of(i), {1.0, 2.5});
    study_.gains.emplace(other_, 1, 0.05);
    fill(study_);
  }
  std::string read(const std::string& name) const { return read_file(folder_ / name); }
  Json spec_of(const std::string& name) const { return Json::parse(read(name + ".vl.json")); }

  test::TemporaryFolder folder_;
  TargetLosses other_;
  MemoryAnalysis study_{{.bins = 2, .stretch = 2, .first_write = 0, .updates = 1}};
  AnalysisReport report_{folder_.path(), {{"wave", &study_}}, TokenText(nullptr)};
};

// Queries at .6, .9, .1, .95.
TEST_F(Report, Attention) {
  report_.write_attention();
  EXPECT_EQ(read("attention.csv"),
            "memory,tier,layer,head,from,to,mass\r\n"
            "wave,0.org.example.wave,4,0,0.0,0.5,0.25\r\n"
            "wave,0.org.example.wave,4,0,0.5,1.0,0.75\r\n");
  const Json spec = spec_of("attention");
  EXPECT_EQ(spec.at("title"), "Attention over the memory");
  EXPECT_EQ(spec.at("data").at("values").at(1), Json({{"memory", "wave"},
                                                      {"panel", "layer 4, head 0"},
                                                      {"from", 0.5},
                                                      {"to", 1.0},
                                                      {"mass", 0.75}}));
  EXPECT_THAT(report_.files(), ElementsAre("attention.csv", "attention.vl.json"));
}

TEST_F(Report, Space) {
  report_.write_space();
  EXPECT_EQ(read("space.csv"),
            "memory,tier,layer,age_from,age_to,share,tokens_left\r\n"
            "wave,0.org.example.wave,4,0,1,0.6875,2.0\r\n"
            "wave,0.org.example.wave,4,2,3,0.3125,0.5\r\n");
  const Json last = spec_of("space").at("data").at("values").at(1);
  EXPECT_EQ(last.at("panel"), "0.org.example.wave, layer 4");
  EXPECT_EQ(last.at("to"), 4);
  EXPECT_EQ(last.at("share"), 0.3125);
}

TEST_F(Report, Tokens) {
  report_.write_tokens(1);
  EXPECT_EQ(read("tokens.csv"),
            "memory,tier,layer,head,rank,lane,position,token,mass,share\r\n"
            "wave,all,all,all,1,0,1,11,3.0,0.75\r\n"
            "wave,0.org.example.wave,4,0,1,0,1,11,3.0,0.75\r\n");
  const Json bar = spec_of("tokens").at("data").at("values").at(0);
  EXPECT_EQ(bar.at("name"), "11  (1)");
  EXPECT_EQ(bar.at("share"), 0.75);
}

TEST_F(Report, Words) {
  report_.write_words();
  EXPECT_EQ(read("words.csv"),
            "memory,tier,layer,updates,position,write,token,share\r\n"
            "wave,0.org.example.wave,4,0,0,0,10,0.5\r\n"
            "wave,0.org.example.wave,4,0,1,0,11,0.5\r\n"
            "wave,0.org.example.wave,4,1,0,0,10,0.0\r\n"
            "wave,0.org.example.wave,4,1,1,0,11,0.625\r\n"
            "wave,0.org.example.wave,4,1,2,1,12,0.25\r\n"
            "wave,0.org.example.wave,4,1,3,1,13,0.125\r\n");
  EXPECT_EQ(read("updates.csv"),
            "memory,tier,layer,updates,words_left,share\r\n"
            "wave,0.org.example.wave,4,0,2,1.0\r\n"
            "wave,0.org.example.wave,4,1,1,0.625\r\n");
  // Of words the last update alone, of the segment each.
  EXPECT_EQ(spec_of("words").at("data").at("values").size(), 4U);
  EXPECT_EQ(spec_of("words").at("data").at("values").at(2).at("token"), "12");
  EXPECT_EQ(spec_of("updates").at("data").at("values").at(1).at("share"), 0.625);
  EXPECT_THAT(report_.files(),
              ElementsAre("words.csv", "words.vl.json", "updates.csv", "updates.vl.json"));
}

// The last target gains 2 nats and looked at token 3.
TEST_F(Report, Better) {
  report_.write_better();
  EXPECT_THAT(read("better.csv"),
              StartsWith("lane,position,target,text_before,nll,other_nll,gain,tier,layer,"
                         "word_position,word,mass\r\n"
                         "0,6,16,10 11 12 13 14 15,0.5,2.5,2.0,0.org.example.wave,4,3,13,"));
  const Json bar = spec_of("better").at("data").at("values").at(0);
  EXPECT_EQ(bar.at("name"), "15 > 16  (6)");
  EXPECT_EQ(bar.at("before"), "10 11 12 13 14 15");
  EXPECT_EQ(bar.at("gain"), 2.0);
  const Json json = to_json(*study_.gains, study_, TokenText(nullptr));
  EXPECT_EQ(json.at("targets"), 6);
  EXPECT_EQ(json.at("better"), 3);
  EXPECT_EQ(json.at("words").at(0).at("looked_at").at(0).at("word"), "13");
}

TEST_F(Report, JsonHasTheSameNumbers) {
  const Json json = to_json(study_, TokenText(nullptr), 1);
  EXPECT_EQ(json.at("attention").at(0).at("queries"), 4);
  EXPECT_EQ(json.at("space").at("layers").at(0).at("share"), Json({0.6875, 0.3125}));
  EXPECT_EQ(json.at("tokens").at(0).at("token"), "11");
  EXPECT_EQ(json.at("updates").at(0).at("share"), Json({1.0, 0.625}));
}

TEST_F(Report, AnUncomparedStudyHasNoBetterWords) {
  MemoryAnalysis alone({.bins = 2, .stretch = 2, .first_write = 0, .updates = 1});
  EXPECT_FALSE(alone.has_found());
  AnalysisReport report(folder_.path(), {{"a", &alone}, {"b", &study_}}, TokenText(nullptr));
  report.write_better();
  EXPECT_TRUE(report.files().empty());
  report.write_tokens(1);
  EXPECT_THAT(report.files(), ElementsAre("tokens.csv", "tokens.vl.json"));
}

// Steps of both memories in one panel, told apart by colour.
TEST_F(Report, SeveralMemoriesShareTheirPanels) {
  MemoryAnalysis same({.bins = 2, .stretch = 2, .first_write = 0, .updates = 1});
  fill(same);
  AnalysisReport report(folder_.path(), {{"wave", &study_}, {"same", &same}}, TokenText(nullptr));
  report.write_attention();
  const Json spec = spec_of("attention");
  EXPECT_EQ(spec.at("data").at("values").size(), 4U);
  EXPECT_EQ(spec.at("layer").at(0).at("encoding").at("color").at("scale").at("domain"),
            Json({"wave", "same"}));
}

TEST_F(Report, ThePageHoldsEveryFigure) {
  report_.write_attention();
  report_.write_words();
  report_.write_page("Memories of a < b", {"Split valid."});
  EXPECT_EQ(report_.files().back(), "analysis.html");
  const std::string page = read("analysis.html");
  EXPECT_THAT(page, HasSubstr("<h1>Memories of a &lt; b</h1>"));
  EXPECT_THAT(page, HasSubstr("Split valid."));
  for (const char* key : {"attention", "words", "updates"}) {
    const std::string figure = str("data-file=\"", key, "\">{");
    EXPECT_EQ(page.find(figure) != std::string::npos, figure::has_vega()) << key;
  }
}

}  // namespace
}  // namespace mneme::analyze
