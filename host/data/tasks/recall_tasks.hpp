// Generated tasks whose answers are copies of earlier tokens: copy, selective copy, needle in a
// haystack, multi-query associative recall, recall over documents.
//
// Symbols, keys and values that are asked for are drawn uniformly and independently, so a model
// that does not see the source of a question has accuracy 1 / alphabet (1 / values) at best. Which
// sequences are asked within one segment varies: a layer learns to look things up only where
// gradients reach what it reads, and cached rows are detached.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/data/tasks/answer_task.hpp"

namespace mneme::data {

// What all of them share: a sequence is drawn as a whole, ids and questions together.
class RecallTask : public AnswerTask {
 public:
  [[nodiscard]] std::vector<std::int64_t> sequence(std::string_view split,
                                                   std::int64_t index) const final {
    return draw(split, index).ids;
  }
  [[nodiscard]] std::vector<Question> questions(std::string_view split,
                                                std::int64_t index) const final {
    return draw(split, index).questions;
  }
  [[nodiscard]] std::map<std::string, std::string> slices(std::string_view split,
                                                          std::int64_t index) const final {
    return draw(split, index).slices;
  }
  [[nodiscard]] bool has_sources() const final { return true; }

 protected:
  explicit RecallTask(const config::DataConfig& data) : AnswerTask(data), recall_(data.recall) {}

  struct Drawn {
    std::vector<std::int64_t> ids;    // P + A
    std::vector<Question> questions;  // by place
    std::map<std::string, std::string> slices = {};
  };
  [[nodiscard]] virtual Drawn draw(std::string_view split, std::int64_t index) const = 0;

  [[nodiscard]] const config::RecallConfig& recall() const { return recall_; }

 private:
  config::RecallConfig recall_;
};

// The task that data.task names; nullptr when config::is_recall is false. Errors as AnswerTask's.
[[nodiscard]] std::unique_ptr<AnswerTask> make_recall_task(const config::DataConfig& data);

// --- Copy: n symbols, blanks, the same n symbols ---

// With n = data.length, g drawn from 0 .. G = data.gap, blanks (id a = data.alphabet) and marks
// (id a + 1):
//   G - g blanks, mark, n symbols, g blanks, mark | the n symbols
//   P = G + n + 2, A = n, V = a + 2
// Slice "gap": the quarter of 0 .. G in which g lies, such as "0-7".
class CopyTask final : public RecallTask {
 public:
  explicit CopyTask(const config::DataConfig& data) : RecallTask(data) {}
  [[nodiscard]] std::int64_t vocabulary_size() const override { return settings().alphabet + 2; }
  [[nodiscard]] std::int64_t prompt_length() const override {
    return recall().gap + settings().length + 2;
  }
  [[nodiscard]] std::int64_t answer_length() const override { return settings().length; }
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> sizes() const override {
    return {{"gap", recall().gap}};
  }

 private:
  [[nodiscard]] Drawn draw(std::string_view split, std::int64_t index) const override;
};

// --- Selective copy [Gu and Dao 2023, 3.1]: the symbols that lie among blanks, in order ---

// n = data.length tokens, A = data.answer of them symbols at places drawn without replacement, the
// others blanks (id a = data.alphabet); a mark (id a + 1); the symbols in order:
//   P = n + 1, A = data.answer, V = a + 2
class SelectiveCopyTask final : public RecallTask {
 public:
  explicit SelectiveCopyTask(const config::DataConfig& data) : RecallTask(data) {}
  [[nodiscard]] std::int64_t vocabulary_size() const override { return settings().alphabet + 2; }
  [[nodiscard]] std::int64_t prompt_length() const override { return settings().length + 1; }
  [[nodiscard]] std::int64_t answer_length() const override { return recall().answer; }
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> sizes() const override {
    return {{"answer", recall().answer}};
  }

 private:
  [[nodiscard]] Drawn draw(std::string_view split, std::int64_t index) const override;
};

// --- Needle in a haystack: what followed the mark? ---

// n = data.length tokens: symbols drawn uniformly from a = data.alphabet (the hay), and among them
// the needle, a mark (id a) and A = data.answer symbols. Then the mark again, and the A symbols:
//   P = n + 1, A = data.answer, V = a + 1
// The needle begins at a place drawn from config::needle_places; its depth is that place divided by
// the last possible one, n - A - 1: 0 = the prompt's beginning, 1 = just before the question.
// Needle and hay are made of the same symbols, so the mark alone tells them apart.
// Slices "depth": the tenth in which the depth lies, "0.0-0.1" to "0.9-1.0"; "length": n.
class NeedleTask final : public RecallTask {
 public:
  explicit NeedleTask(const config::DataConfig& data)
      : RecallTask(data), places_(config::needle_places(data)) {}
  [[nodiscard]] std::int64_t vocabulary_size() const override { return settings().alphabet + 1; }
  [[nodiscard]] std::int64_t prompt_length() const override { return settings().length + 1; }
  [[nodiscard]] std::int64_t answer_length() const override { return recall().answer; }
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> sizes() const override {
    return {{"answer", recall().answer},
            {"first_place", places_.first},
            {"last_place", places_.second}};
  }

 private:
  [[nodiscard]] Drawn draw(std::string_view split, std::int64_t index) const override;

  std::pair<std::int64_t, std::int64_t> places_;  // of the needle's mark, both included
};

// --- Multi-query associative recall (MQAR) [Arora et al. 2023] ---

// data.pairs pairs of a key and a value are at the beginning; the keys differ. Then slots of two
// tokens follow up to data.length tokens. data.questions of them hold one of the keys again and its
// value, which is asked for; the others are blank. Which keys are asked is drawn without
// replacement. Slot i = 1, 2, ... is drawn with weight 1 / i, the power law of the paper's code
// (exponent -0.99 there), so that most questions come soon after the pairs; the last slot always
// holds a question. Ids: keys, then values, then the blank.
//   P = data.length - 1, A = 1 (the last question), V = keys + values + 1
class MqarTask final : public RecallTask {
 public:
  explicit MqarTask(const config::DataConfig& data) : RecallTask(data) {}
  [[nodiscard]] std::int64_t vocabulary_size() const override {
    return recall().keys + recall().values + 1;
  }
  [[nodiscard]] std::int64_t prompt_length() const override { return settings().length - 1; }
  [[nodiscard]] std::int64_t answer_length() const override { return 1; }
  [[nodiscard]] std::int64_t question_count() const override { return recall().questions; }
  [[nodiscard]] std::int64_t first_question() const override { return 2 * recall().pairs + 1; }
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> sizes() const override {
    return {{"pairs", recall().pairs},
            {"questions", recall().questions},
            {"keys", recall().keys},
            {"values", recall().values}};
  }

 private:
  [[nodiscard]] Drawn draw(std::string_view split, std::int64_t index) const override;
};

// --- Recall over documents: what is the value of a key in a document? ---

// data.document_count documents D. Each has F = data.facts facts of three tokens, the document's
// name, a key and a value (the keys of a document differ, those of different documents may be
// equal), and Q = data.questions questions: the name of a document up to this one, one of its keys,
// and the value, which is asked for. Names are a random permutation of ids 0 .. D-1; then come the
// ids of keys and of values. The source of a question is the newest place where the same value was
// told or asked. A fact repeats its document's name because two layers learn to read it from the
// token before the key, but hardly from a heading.
//   P = 3 D (F + Q) - 1, A = 1 (the last question), V = D + keys + values
class DocumentRecallTask final : public RecallTask {
 public:
  explicit DocumentRecallTask(const config::DataConfig& data) : RecallTask(data) {}
  [[nodiscard]] std::int64_t vocabulary_size() const override {
    return recall().document_count + recall().keys + recall().values;
  }
  [[nodiscard]] std::int64_t prompt_length() const override {
    return 3 * recall().document_count * (recall().facts + recall().questions) - 1;
  }
  [[nodiscard]] std::int64_t answer_length() const override { return 1; }
  [[nodiscard]] std::int64_t question_count() const override {
    return recall().document_count * recall().questions;
  }
  [[nodiscard]] std::int64_t first_question() const override { return 3 * recall().facts + 2; }
  [[nodiscard]] std::vector<std::pair<std::string, std::int64_t>> sizes() const override {
    return {{"document_count", recall().document_count},
            {"facts", recall().facts},
            {"questions", recall().questions},
            {"keys", recall().keys},
            {"values", recall().values}};
  }

 private:
  [[nodiscard]] Drawn draw(std::string_view split, std::int64_t index) const override;
};

}  // namespace mneme::data
