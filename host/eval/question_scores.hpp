// Which answers to questions are right. docs/tasks.md, "Own questions".
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/text.hpp"
#include "host/data/questions/question_data.hpp"
#include "host/data/stream/stream.hpp"
#include "host/scores/columns.hpp"

namespace mneme::eval {

// Numbers of questions.
struct QuestionCounts {
  std::int64_t questions = 0;
  std::int64_t right = 0;
  // The same with the losses of choices divided by the bytes of their texts. A free answer has no
  // choices, and counts as in `right`.
  std::int64_t normalised = 0;
  // That a guess answers right on average: 1 / its choices of each question, of a free answer 0.
  double guessed = 0.0;
  double nll = 0.0;        // of the right answers' tokens
  std::int64_t bytes = 0;  // of the right answers' texts
  // Of questions that name their unit, by unit: questions and right ones.
  std::map<std::string, std::pair<std::int64_t, std::int64_t>> units = {};

  // Of the questions, in 0 .. 1; 0 without any.
  [[nodiscard]] double accuracy() const { return share(right); }
  [[nodiscard]] double normalised_accuracy() const { return share(normalised); }
  [[nodiscard]] double chance() const { return share(guessed); }
  [[nodiscard]] std::optional<double> bits_per_byte() const;  // absent without bytes
  // The 95 % interval of accuracy() [Wilson 1927], of effective() questions.
  [[nodiscard]] std::pair<double, double> interval() const;
  // The number of independent questions whose accuracy is as uncertain: accuracy() (1 - accuracy())
  // over its variance between units, at most `questions`; the number of units where all questions
  // are right, or none.
  [[nodiscard]] double effective() const;

 private:
  template <typename Number>
  [[nodiscard]] double share(Number part) const {
    return questions == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(questions);
  }
};

struct QuestionScores {
  QuestionCounts all;
  bool has_choices = false;  // some question has
  // By name and group, as the file gives them.
  std::map<std::string, std::map<std::string, QuestionCounts>> groups = {};
};

// Every number under its name, with intervals of `accuracy`.
[[nodiscard]] Json to_json(const QuestionScores& scores);

// Judges the answers in the segments of a data::QuestionStream that evaluates. A free answer is right
// when each of its tokens is the likeliest one; a choice when the sum of its tokens' losses is lower
// than that of every other choice.
class QuestionJudge {
 public:
  explicit QuestionJudge(std::shared_ptr<const data::QuestionData> data);

  // Takes a segment with its losses, in the order of the stream, and leaves of it what is counted:
  // the targets of right answers, with the number of the question as their document, and `correct`
  // at the last target of an answer that was judged right alone.
  void judge(data::TokenSegment& segment, scores::SegmentLosses& losses);
  [[nodiscard]] const QuestionScores& scores() const { return scores_; }

 private:
  static constexpr double kNone = std::numeric_limits<double>::infinity();
  // The sequence that a lane reads.
  struct Read {
    double nll = 0.0;  // of its targets so far
    bool is_greedy = true;
  };
  // The lowest losses among a question's wrong choices.
  struct Lowest {
    double nll = kNone, by_bytes = kNone;
  };

  // Adds what `count` does to the counts of the question and to those of its groups.
  template <typename Count>
  void add(const data::OwnQuestion& question, Count count);
  // Whether the answer that a lane has read to its end is right.
  bool decide(const data::QuestionSequence& sequence, const Read& read);

  std::shared_ptr<const data::QuestionData> data_;
  std::vector<Read> lanes_;
  std::map<std::int64_t, Lowest> lowest_;  // of questions whose right answer is still to come
  QuestionScores scores_;
};

}  // namespace mneme::eval
