// The keys of an experiment file, as its readers ask for them: `mneme config keys`.
#pragma once

#include <string>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/config/toml/schema.hpp"

namespace mneme::config {

// A key with its type, default and meaning. Where they depend on data.task, the tasks stand beside
// each: "4000 (sorting), 20 (digit_sorting)".
struct KeyInfo {
  std::string key;
  std::string type;
  std::string fallback;
  std::string text;
  std::vector<std::string> tasks;  // that have the key; empty = all
};

struct TableInfo {
  std::string name;  // "[model]", "[[memory.tier]]"
  std::string text;
  std::vector<KeyInfo> keys;
};

// Every table of an experiment file, in the order of the files.
[[nodiscard]] const std::vector<TableInfo>& experiment_keys();

// The spelling of every choice in an experiment file, for reading and writing. Only for this
// folder; others use to_word of experiment.hpp.

// `false`: a value that is planned but not built; it is refused with a message that says so.
inline constexpr Word<Backbone> kBackboneWords[] = {{"xl", Backbone::kXl},
                                                    {"gpt2", Backbone::kGpt2, false}};
inline constexpr Word<PositionScheme> kPositionWords[] = {
    {"relative", PositionScheme::kRelative},
    {"disentangled", PositionScheme::kDisentangled},
    {"alibi", PositionScheme::kAlibi},
    {"learned", PositionScheme::kLearned},
    {"none", PositionScheme::kNone}};
inline constexpr Word<Norm> kNormWords[] = {{"post", Norm::kPost}, {"pre", Norm::kPre}};
inline constexpr Word<EmbeddingScale> kEmbeddingScaleWords[] = {{"sqrt", EmbeddingScale::kSqrt},
                                                                {"none", EmbeddingScale::kNone}};
inline constexpr Word<Init> kInitWords[] = {{"official", Init::kOfficial},
                                            {"article", Init::kArticle}};
inline constexpr Word<Carry> kCarryWords[] = {{"refuse", Carry::kRefuse}, {"reset", Carry::kReset}};
inline constexpr Word<Feed> kFeedWords[] = {{"released", Feed::kReleased},
                                            {"segment", Feed::kSegment}};
inline constexpr Word<Task> kTaskWords[] = {{"text", Task::kText},
                                            {"tokens", Task::kTokens},
                                            {"motif", Task::kMotif},
                                            {"sorting", Task::kSorting},
                                            {"digit_sorting", Task::kDigitSorting}};
inline constexpr Word<Vocabulary> kVocabularyWords[] = {{"byte", Vocabulary::kByte},
                                                        {"char", Vocabulary::kChar},
                                                        {"word", Vocabulary::kWord},
                                                        {"gpt2", Vocabulary::kGpt2, false}};
inline constexpr Word<Reset> kResetWords[] = {
    {"document", Reset::kDocument}, {"segment", Reset::kSegment}, {"never", Reset::kNever}};
inline constexpr Word<Documents> kDocumentsWords[] = {{"file", Documents::kFile},
                                                      {"heading", Documents::kHeading},
                                                      {"mark", Documents::kMark},
                                                      {"line", Documents::kLine}};
inline constexpr Word<Optimizer> kOptimizerWords[] = {{"adam", Optimizer::kAdam},
                                                      {"adamw", Optimizer::kAdamW}};
inline constexpr Word<Schedule> kScheduleWords[] = {{"cosine", Schedule::kCosine},
                                                    {"linear", Schedule::kLinear},
                                                    {"constant", Schedule::kConstant},
                                                    {"inverse_sqrt", Schedule::kInverseSqrt}};
inline constexpr Word<Precision> kPrecisionWords[] = {
    {"f64", Precision::kF64}, {"f32", Precision::kF32}, {"bf16", Precision::kBf16}};

}  // namespace mneme::config
