#include "host/eval/result.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numbers>

namespace mneme::eval {
namespace {

using testing::HasSubstr;
using testing::Not;

Result word_result() {
  Result result;
  result.total = {.targets = 90, .nll = 180.0, .correct = 9};
  result.protocol = {.unit = "word",
                     .reset = "document",
                     .segment = 16,
                     .lanes = 3,
                     .context_rows = 32,
                     .tokens = 100,
                     .dropped = 1,
                     .words = 80,
                     .bytes = 400,
                     .characters = 390,
                     .unknown = 4,
                     .eos_id = 0,
                     .unknown_id = 7};
  result.end_of_line = scores::Sums{.targets = 18, .nll = 1.0, .correct = 0};
  result.unknown = scores::Sums{.targets = 3, .nll = 9.0, .correct = 0};
  return result;
}

// Loss 2 nats a token; 100 tokens are 80 words, 400 bytes, 390 characters.
TEST(Result, NormalisesByWordByteAndCharacter) {
  const Result result = word_result();
  EXPECT_DOUBLE_EQ(result.perplexity(), std::exp(2.0));
  EXPECT_DOUBLE_EQ(result.perplexity_per_word().value(), std::exp(2.5));
  EXPECT_DOUBLE_EQ(result.perplexity_per_byte().value(), std::exp(0.5));
  EXPECT_DOUBLE_EQ(result.bits_per_byte().value(), 0.5 / std::numbers::ln2);
  EXPECT_DOUBLE_EQ(result.bits_per_character().value(), 200.0 / 390.0 / std::numbers::ln2);
  const Json json = to_json(result);
  EXPECT_DOUBLE_EQ(json.at("perplexity_per_word").get<double>(), std::exp(2.5));
  EXPECT_DOUBLE_EQ(json.at("bits_per_byte").get<double>(), 0.5 / std::numbers::ln2);
  EXPECT_EQ(json.at("end_of_line").at("tokens"), 18);
  EXPECT_EQ(json.at("unknown").at("nll"), 9.0);
  EXPECT_EQ(json.at("protocol"), Json::parse(R"({"unit": "word", "reset": "document",
      "segment": 16, "lanes": 3, "context_rows": 32, "tokens": 100, "dropped": 1, "words": 80,
      "bytes": 400, "characters": 390, "unknown": 4})"));
}

TEST(Result, StatesTheRowsThatMemoriesRead) {
  Result result = word_result();
  EXPECT_EQ(context_text(result.protocol), "16 + 32");
  EXPECT_FALSE(to_json(result).at("protocol").contains("read_rows"));
  result.protocol.read_rows = 64;
  EXPECT_EQ(context_text(result.protocol), "16 + 32 + 64 read");
  EXPECT_EQ(to_json(result).at("protocol").at("read_rows"), 64);
  EXPECT_THAT(statement(result),
              HasSubstr("at most 32 memory rows, and at most 64 rows that memories read"));
}

TEST(Result, StatesWhatItsPerplexityMeans) {
  Result result = word_result();
  const std::string text = statement(result);
  for (const char* part :
       {"per token; a token is a word or the <eos> of a line, which counts (18 of the targets)",
        "90 tokens counted of the split's 100: 1 dropped by cutting into 3 equal lanes, 9 without",
        "segment of at most 16 tokens and at most 32 memory rows",
        "each of the 3 lanes starts with an empty memory, which is emptied where a document begins",
        "<unk>: 3 of the targets (3.33 %)."}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  result.protocol.reset = "segment";
  EXPECT_THAT(statement(result), HasSubstr("emptied at the segment after a document's start"));
  result.protocol.reset = "never";
  EXPECT_THAT(statement(result), HasSubstr("emptied never again"));
  result.protocol.reset = "mask";
  EXPECT_THAT(statement(result), HasSubstr("emptied never again, tokens see their document alone"));
  result.protocol.unit = "char";
  EXPECT_THAT(statement(result), HasSubstr("a token is a character;"));
  result.protocol.unit = "byte";
  EXPECT_THAT(statement(result), HasSubstr("a token is a byte;"));
}

TEST(Result, StatesATaskWithoutText) {
  Result result;
  result.total = {.targets = 10, .nll = 1.0, .correct = 0};
  result.protocol.lanes = 2;
  const std::string text = statement(result);
  EXPECT_THAT(text, HasSubstr("a token is an id of the task or file"));
  EXPECT_THAT(text, HasSubstr("10 tokens counted;"));
  EXPECT_THAT(text, HasSubstr("emptied where a sequence of the task begins"));
  EXPECT_THAT(text, Not(HasSubstr("<unk>")));
}

TEST(Result, WritesEveryNumber) {
  Result result;
  result.total = {.targets = 10, .nll = 20.0, .correct = 4};
  result.by_source.emplace();
  (*result.by_source)[2] = {.targets = 4, .nll = 4.0, .correct = 3};
  result.metrics["0.test.usage"] = 0.25;
  result.seconds = 2.0;
  result.state_bytes = 64;
  EXPECT_DOUBLE_EQ(result.tokens_per_second(), 5.0);
  EXPECT_DOUBLE_EQ(result.outside_accuracy().value(), 0.75);
  const Json json = to_json(result);
  EXPECT_EQ(json.at("loss"), 2.0);
  EXPECT_EQ(json.at("nll"), 20.0);
  EXPECT_EQ(json.at("accuracy"), 0.4);
  EXPECT_EQ(json.at("by_source").at("outside").at("accuracy"), 0.75);
  EXPECT_EQ(json.at("by_source").at("none").at("tokens"), 0);
  EXPECT_EQ(json.at("metrics").at("0.test.usage"), 0.25);
  EXPECT_EQ(json.at("state_bytes"), 64);
}

TEST(Result, SaysWhichPartOfTheSplitWasRead) {
  Result result = word_result();
  EXPECT_FALSE(result.partial_share().has_value());
  result.protocol.targets = 90;
  EXPECT_FALSE(result.partial_share().has_value());
  EXPECT_THAT(statement(result), Not(HasSubstr("eval.steps")));
  result.protocol.targets = 120;
  EXPECT_DOUBLE_EQ(result.partial_share().value(), 0.75);
  EXPECT_THAT(statement(result), HasSubstr("(a lane's or document's first, or not reached); "
                                           "eval.steps ended the evaluation after 75.00 % of the "
                                           "split's 120 targets; "));
  EXPECT_EQ(to_json(result).at("protocol").at("targets"), 120);
  // Of a generated task, whose split has no text.
  result.protocol.tokens = 0;
  EXPECT_THAT(statement(result), HasSubstr("90 tokens counted; eval.steps ended the evaluation"));
}

// e^(5.6 x the loss of a byte) has many digits and says little.
TEST(Result, BytesAndCharactersHaveNoPerplexityOfAWord) {
  for (const char* unit : {"byte", "char"}) {
    Result result = word_result();
    result.protocol.unit = unit;
    EXPECT_FALSE(result.perplexity_per_word().has_value()) << unit;
    EXPECT_FALSE(to_json(result).contains("perplexity_per_word")) << unit;
    EXPECT_TRUE(result.bits_per_byte().has_value()) << unit;
  }
}

TEST(Result, LeavesOutWhatIsNotKnown) {
  Result result;
  result.total = {.targets = 1, .nll = std::numeric_limits<double>::infinity(), .correct = 0};
  const Json json = to_json(result);
  EXPECT_TRUE(json.at("loss").is_null());
  for (const char* key : {"by_source", "bits_per_character", "bits_per_byte", "perplexity_per_word",
                          "perplexity_per_byte", "end_of_line", "unknown"}) {
    EXPECT_FALSE(json.contains(key)) << key;
  }
  for (const char* key : {"unit", "reset", "tokens", "words", "bytes", "characters", "unknown"}) {
    EXPECT_FALSE(json.at("protocol").contains(key)) << key;
  }
  EXPECT_FALSE(result.outside_accuracy().has_value());
  EXPECT_EQ(result.tokens_per_second(), 0.0);
}

}  // namespace
}  // namespace mneme::eval
