// Settings of copy, selective_copy and mqar.
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/data/dataset.hpp"
#include "host/data/tasks/answer_task.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using config::DataConfig;
using InContextTestIds = std::vector<std::int64_t>;

DataConfig in_context(const std::string& lines) {
  return config::parse_experiment_text("[data]\n" + lines + "\n[train]\nsteps = 1\n", "row").data;
}

std::shared_ptr<const AnswerTask> task_of(const std::string& lines) {
  return make_answer_task(in_context(lines));
}

std::vector<Source> sources_of(const std::shared_ptr<const AnswerTask>& task,
                               std::int64_t segment) {
  AnswerStream stream(task, "valid", {.lanes = 1, .segment = segment, .epochs = 1});
  std::vector<Source> out;
  for (const TokenSegment& one : read_all(stream)) {
    if (one.document[0] > 0) break;
    for (std::size_t cell = 0; cell < one.targets.size(); ++cell) {
      if (one.targets[cell] != kNoTarget) out.push_back(static_cast<Source>(one.source[cell]));
    }
  }
  return out;
}

// The same symbols with and without; a blank answer may lie in several segments.
TEST(TeacherForcing, WithoutItTheAnswerIsTargetsAlone) {
  for (const std::string task : {"copy", "selective_copy"}) {
    const std::string lines = "task = \"" + task + "\"\nvalid_sequences = 2";
    const auto with = task_of(lines), without = task_of(lines + "\nteacher_forcing = false");
    EXPECT_EQ(without->shape().inputs(), with->shape().inputs());
    EXPECT_EQ(without->shape().answer, 1);
    EXPECT_EQ(without->shape().questions, 8);
    const AnswerSequence read = with->sequence("valid", 0), blank = without->sequence("valid", 0);
    for (std::size_t i = 0; i < 8; ++i) {
      EXPECT_EQ(blank.questions[i].target, read.ids[at(read.questions[i].place)]);
      EXPECT_EQ(blank.questions[i].source, read.questions[i].source);
      EXPECT_EQ(blank.ids[at(blank.questions[i].place)], i < 7 ? 16 : read.ids.back());
    }
    EXPECT_EQ(sources_of(without, 5).size(), 8U) << "segments that are shorter than the answer";
    EXPECT_EQ(
        Dataset(in_context(lines + "\nteacher_forcing = false")).describe()["teacher_forcing"], 0);
  }
}

// Half of a chain's pairs come after the pair that leads to them, half before.
TEST(Mqar, ChainsAreToldInRandomOrder) {
  const auto task = task_of("task = \"mqar\"\nhops = 2\nquestions = 4");
  EXPECT_EQ(task->shape().questions, 4);
  int later = 0;
  for (std::int64_t i = 0; i < 100; ++i) {
    const AnswerSequence one = task->sequence("train", i);
    for (const Question& question : one.questions) {
      const auto place_of = [&](std::int64_t id) {
        return std::ranges::find(one.ids, id) - one.ids.begin();
      };
      const std::int64_t first = place_of(one.ids[at(question.place - 1)]);
      const std::int64_t link = one.ids[at(first + 1)];
      EXPECT_LT(link, 32) << "a key";
      const auto second = std::find(one.ids.begin() + (first + 2), one.ids.end(), link);
      const bool is_later = second != one.ids.end();
      const std::int64_t key = is_later ? second - one.ids.begin() : place_of(link);
      EXPECT_EQ(one.ids[at(key + 1)], one.ids[at(question.place)]);
      EXPECT_EQ(question.source, std::min(first, key) + 1) << "both tell it; the older counts";
      later += is_later ? 1 : 0;
    }
  }
  EXPECT_NEAR(later, 200, 40);
}

}  // namespace
}  // namespace mneme::data
