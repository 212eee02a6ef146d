// What the parts of `mneme serve` share: a request, and who answers it. docs/serve.md has the format.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "host/base/error.hpp"
#include "host/cli/generate/generate.hpp"
#include "host/generate/generator.hpp"

namespace mneme::cli {

// One request, with its texts as tokens.
struct ServeRequest {
  enum class Kind { kScore, kGenerate, kReset, kDescribe };

  Json id;
  Kind kind = Kind::kDescribe;
  std::vector<std::int32_t> ids;  // the text with its context, or the prompt
  std::int64_t context = 0;       // of a scored text: tokens of its context, which are not scored
  std::int64_t unknown = 0;       // as generate::Prompt's
  bool carries = false;           // behind the text of the session
  bool wants_each = false;        // the log-probability of every token
  bool has_separate_windows = false;
  std::int64_t tokens = 256;  // to generate, at most
  std::vector<std::string> until = {};
  generate::Sampling sampling = {};
  std::uint64_t seed = 1;
};

// The id of a request, as far as it has one that an answer can repeat; else null.
[[nodiscard]] Json id_of(const Json& request);
// Error (kUsage) for an unknown or missing key, for a value of another type or out of range, and for a
// text that the vocabulary lacks.
[[nodiscard]] ServeRequest read_request(const Json& request, const OpenGeneration& opened);

// The answer to a request that failed.
[[nodiscard]] Json failed_answer(const Json& id, const Error& error);

// Answers requests. One thread at a time.
class ServeAnswers {
 public:
  ServeAnswers(const GenerateArguments& arguments, const OpenGeneration& opened)
      : arguments_(arguments), opened_(opened) {}

  // One for each request, in their order. Texts that are scored each from an empty memory run side by
  // side in eval.lanes lanes. A request that fails has its error as its answer and leaves the session
  // as it was. Throws Interrupted.
  [[nodiscard]] std::vector<Json> answer(const std::vector<ServeRequest>& requests);

 private:
  // Tokens of which the last ones are scored, from an empty memory.
  struct Row {
    std::vector<std::int32_t> ids;
    std::int64_t scored = 0;
  };
  using Scores = std::vector<generate::ScoredToken>;

  [[nodiscard]] bool is_batched(const ServeRequest& request) const;
  [[nodiscard]] std::vector<Row> rows_of(const ServeRequest& request) const;
  // Of each request the scores of its text.
  [[nodiscard]] std::vector<Scores> score(const std::vector<const ServeRequest*>& requests) const;
  // Scores rows, which are `lanes` at most, side by side.
  [[nodiscard]] std::vector<Scores> score_rows(const std::vector<const Row*>& rows) const;
  // The same, each request alone where they fail together.
  [[nodiscard]] std::vector<Json> score_batch(
      const std::vector<const ServeRequest*>& requests) const;
  [[nodiscard]] Json answer_one(const ServeRequest& request);
  // Behind the text of the session, which is as it was before where the request fails.
  [[nodiscard]] Json carry_on(const ServeRequest& request);
  // Error (kRun) where this is not possible either: the session is empty then.
  void restore_session(const generate::Generator::Saved& before, const std::exception& cause);
  [[nodiscard]] Json answer_behind(generate::Generator& text, const ServeRequest& request) const;
  [[nodiscard]] Json score_behind(generate::Generator& text, const ServeRequest& request) const;
  [[nodiscard]] Json generate_behind(generate::Generator& text, const ServeRequest& request) const;
  [[nodiscard]] Json describe(const ServeRequest& request) const;
  [[nodiscard]] std::unique_ptr<generate::Generator> new_text() const;

  const GenerateArguments& arguments_;
  const OpenGeneration& opened_;
  std::unique_ptr<generate::Generator> session_;  // null = no text yet
};

}  // namespace mneme::cli
