#include "host/data/tasks/answer_task.hpp"

#include "host/base/error.hpp"
#include "host/data/tasks/digit_sorting.hpp"
#include "host/data/tasks/sorting.hpp"

namespace mneme::data {

AnswerTask::AnswerTask(const config::DataConfig& data)
    : task_(data.task), settings_(data.sequences), seed_(data.seed) {
  const auto require = [](std::string_view key, std::int64_t value, std::int64_t least) {
    if (value >= least) return;
    throw_usage({.where = str("data.", key),
                 .failed = "no sequence can be generated",
                 .expected = str("at least ", least),
                 .got = str(value)});
  };
  require("length", settings_.length, 2);
  require("alphabet", settings_.alphabet, 2);
  require("train_sequences", settings_.train_sequences, 1);
  require("valid_sequences", settings_.valid_sequences, 1);
  require("test_sequences", settings_.test_sequences, 1);
}

std::int64_t AnswerTask::count(std::string_view split) const {
  if (split == "train") return settings_.train_sequences;
  return split == "valid" ? settings_.valid_sequences : settings_.test_sequences;
}

std::unique_ptr<AnswerTask> make_answer_task(const config::DataConfig& data) {
  switch (data.task) {
    case config::Task::kSorting:
      return std::make_unique<SortingTask>(data);
    case config::Task::kDigitSorting:
      return std::make_unique<DigitSortingTask>(data);
    case config::Task::kText:
    case config::Task::kTokens:
    case config::Task::kMotif:
      break;
  }
  return nullptr;
}

}  // namespace mneme::data
