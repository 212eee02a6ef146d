// How sequences with an answer become segments.
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <vector>

#include "host/data/dataset.hpp"
#include "host/data/tasks/answer_task.hpp"
#include "tests/data/data_files.hpp"

namespace mneme::data {
namespace {

using config::Task;
using Ids = std::vector<std::int64_t>;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

config::DataConfig answer_stream_settings(Task task, std::int64_t length, std::int64_t alphabet) {
  config::DataConfig data;
  data.task = task;
  data.sequences = {.length = length,
                    .alphabet = alphabet,
                    .train_sequences = 11,
                    .valid_sequences = 5,
                    .test_sequences = 4};
  return data;
}

std::shared_ptr<const AnswerTask> sorting(std::int64_t length, std::int64_t alphabet) {
  return make_answer_task(answer_stream_settings(Task::kSorting, length, alphabet));
}

Ids lengths(const AnswerTask& task, std::int64_t segment) {
  const AnswerCut cut(task, segment, "train");
  Ids out;
  for (std::int64_t part = 0; part < cut.segments(); ++part) {
    EXPECT_EQ(cut.begin(part), std::accumulate(out.begin(), out.end(), std::int64_t{0}));
    out.push_back(cut.length(part));
  }
  return out;
}

// What every lane read: inputs and targets by sequence number.
struct Read {
  Ids inputs, targets;
};
std::map<std::int64_t, Read> by_sequence(const std::vector<TokenSegment>& segments) {
  std::map<std::int64_t, Read> out;
  for (const TokenSegment& segment : segments) {
    for (std::int64_t b = 0; b < segment.lanes; ++b) {
      if (segment.valid[at(b)] == 0) continue;
      Read& read = out[segment.document[at(b)]];
      EXPECT_EQ(segment.reset[at(b)], read.inputs.empty() ? 1 : 0);
      const auto cell = b * segment.length;
      read.inputs.insert(read.inputs.end(), segment.inputs.begin() + cell,
                         segment.inputs.begin() + cell + segment.length);
      read.targets.insert(read.targets.end(), segment.targets.begin() + cell,
                          segment.targets.begin() + cell + segment.length);
    }
  }
  return out;
}

Ids numbers(const std::vector<TokenSegment>& segments) {
  Ids out;
  for (const TokenSegment& segment : segments) {
    for (std::int64_t b = 0; b < segment.lanes; ++b) {
      if (segment.valid[at(b)] > 0 && segment.reset[at(b)] != 0) {
        out.push_back(segment.document[at(b)]);
      }
    }
  }
  return out;
}

TEST(AnswerCut, IsThatOfThePaperAtItsSizes) {
  EXPECT_EQ(lengths(*sorting(4000, 20), 1024), (Ids{1024, 1024, 1024, 948}));
  EXPECT_EQ(lengths(*sorting(8000, 20), 1024).back(), 8020 - 7 * 1024);
  EXPECT_EQ(lengths(*sorting(16000, 20), 1024).back(), 16020 - 15 * 1024);
}

TEST(AnswerCut, KeepsTheAnswerInTheLastSegment) {
  const auto task = sorting(20, 6);  // 26 inputs
  EXPECT_EQ(lengths(*task, 30), (Ids{26}));
  EXPECT_EQ(lengths(*task, 26), (Ids{26}));
  EXPECT_EQ(lengths(*task, 13), (Ids{13, 13}));
  EXPECT_EQ(lengths(*task, 25), (Ids{20, 6}));      // 1 would be left
  EXPECT_EQ(lengths(*task, 8), (Ids{4, 8, 8, 6}));  // 2 would be left
  EXPECT_EQ(lengths(*task, 6), (Ids{2, 6, 6, 6, 6}));
  expect_error(ErrorKind::kUsage,
               {"train.segment", "the answer does not fit", "at least 6", "got 5"},
               [&] { lengths(*task, 5); });
}

TEST(AnswerStream, AsksForTheAnswerInTheLastSegmentOnly) {
  for (const std::int64_t segment : {6, 7, 8, 13, 25, 26, 40}) {
    const auto task = sorting(20, 6);
    AnswerStream stream(task, "valid", {.lanes = 2, .segment = segment, .epochs = 1});
    const std::vector<TokenSegment> segments = read_all(stream, 1000);
    std::int64_t with_targets = 0;
    for (const TokenSegment& one : segments) {
      const bool is_last = (one.index + 1) % (stream.segments_per_epoch() / 3) == 0;
      const auto lanes = std::count_if(one.valid.begin(), one.valid.end(),
                                       [](std::int64_t valid) { return valid > 0; });
      EXPECT_EQ(one.target_count(), is_last ? 6 * lanes : 0) << segment;
      if (one.target_count() > 0) ++with_targets;
    }
    EXPECT_EQ(with_targets, stream.target_segments_per_epoch());
    EXPECT_EQ(static_cast<std::int64_t>(segments.size()), stream.segments_per_epoch());
    EXPECT_EQ(stream.targets_per_epoch(), 5 * 6);
  }
}

// A sequence is the same whatever cuts it, and its targets are the answer, each at the token that
// comes before it.
TEST(AnswerStream, DoesNotDependOnTheCut) {
  for (const Task kind : {Task::kSorting, Task::kDigitSorting}) {
    const std::shared_ptr<const AnswerTask> task =
        make_answer_task(answer_stream_settings(kind, 20, 6));
    const auto answer = task->shape().answer;
    for (const std::int64_t segment : {20, 23, 26, 64}) {
      for (const std::int64_t lanes : {1, 2, 7}) {
        AnswerStream stream(task, "valid", {.lanes = lanes, .segment = segment, .epochs = 1});
        const auto read = by_sequence(read_all(stream, 1000));
        ASSERT_EQ(read.size(), 5U);
        for (const auto& [number, sequence] : read) {
          const Ids ids = task->sequence("valid", number).ids;
          EXPECT_EQ(sequence.inputs, Ids(ids.begin(), ids.end() - 1));
          Ids targets(at(task->shape().prompt - 1), kNoTarget);
          targets.insert(targets.end(), ids.end() - answer, ids.end());
          EXPECT_EQ(sequence.targets, targets);
        }
      }
    }
  }
}

TEST(AnswerStream, PadsTheLanesOfTheLastBatch) {
  AnswerStream stream(sorting(20, 6), "valid", {.lanes = 3, .segment = 16, .epochs = 1});
  const std::vector<TokenSegment> segments = read_all(stream, 100);
  ASSERT_EQ(segments.size(), 4U);
  EXPECT_EQ(longest_between_resets(segments), stream.tokens_between_resets());
  EXPECT_EQ(segments[2].valid, (Ids{16, 16, 0}));
  EXPECT_EQ(segments[3].valid, (Ids{10, 10, 0}));
  EXPECT_EQ(segments[3].document, (Ids{3, 4, -1}));
  EXPECT_EQ(segments[3].offset, (Ids{16, 16, -1}));
  for (std::int64_t t = 0; t < 10; ++t) {
    EXPECT_EQ(segments[3].inputs[at(20 + t)], 0);
    EXPECT_EQ(segments[3].targets[at(20 + t)], kNoTarget);
  }
}

TEST(AnswerStream, TrainingShufflesEveryEpochAnew) {
  const auto task = sorting(20, 6);
  const auto epochs = [&](std::uint64_t seed) {
    AnswerStream stream(
        task, "train", {.lanes = 2, .segment = 26, .epochs = 2, .is_training = true, .seed = seed});
    return numbers(read_all(stream, 1000));
  };
  const Ids read = epochs(1);
  ASSERT_EQ(read.size(), 22U);
  const Ids first(read.begin(), read.begin() + 11);
  const Ids second(read.begin() + 11, read.end());
  EXPECT_NE(first, second);
  for (const Ids& epoch : {first, second}) {
    EXPECT_EQ(std::set<std::int64_t>(epoch.begin(), epoch.end()).size(), 11U);
    EXPECT_FALSE(std::is_sorted(epoch.begin(), epoch.end()));
  }
  EXPECT_EQ(epochs(1), read);
  EXPECT_NE(epochs(2), read);

  AnswerStream evaluation(task, "train", {.lanes = 2, .segment = 26, .epochs = 1, .seed = 5});
  const Ids in_order = numbers(read_all(evaluation, 1000));
  EXPECT_TRUE(std::is_sorted(in_order.begin(), in_order.end()));
}

TEST(AnswerStream, ContinuesWhereItStopped) {
  const auto task = sorting(20, 6);
  const auto make = [&]() -> std::unique_ptr<Stream> {
    return std::make_unique<AnswerStream>(
        task, "train",
        StreamOptions{.lanes = 2, .segment = 8, .epochs = 3, .is_training = true, .seed = 4});
  };
  const std::int64_t all = 3 * make()->segments_per_epoch();
  for (const std::int64_t skip : {std::int64_t{0}, std::int64_t{1}, std::int64_t{30}, all}) {
    expect_resumes(make, skip, all);
  }
}

TEST(AnswerStream, RefusesThePlaceOfOtherData) {
  AnswerStream stream(sorting(20, 6), "train", {.lanes = 2, .segment = 8});
  const auto refuse = [&](const std::vector<std::string>& parts, const StreamOptions& options,
                          const std::shared_ptr<const AnswerTask>& task) {
    expect_error(ErrorKind::kRun, parts,
                 [&] { AnswerStream(task, "train", options).seek(stream.position()); });
  };
  refuse({"lanes", "expected 3", "got 2"}, {.lanes = 3, .segment = 8}, sorting(20, 6));
  refuse({"segment", "expected 9", "got 8"}, {.lanes = 2, .segment = 9}, sorting(20, 6));
  refuse({"length", "expected 21", "got 20"}, {.lanes = 2, .segment = 8}, sorting(21, 6));
  refuse({"alphabet", "expected 7", "got 6"}, {.lanes = 2, .segment = 8}, sorting(20, 7));
  refuse({"task"}, {.lanes = 2, .segment = 8},
         make_answer_task(answer_stream_settings(Task::kDigitSorting, 8, 6)));
  std::vector<std::int64_t> position = stream.position();
  position.back() = -1;
  expect_error(ErrorKind::kRun, {"data position", "negative"}, [&] { stream.seek(position); });
}

TEST(AnswerStream, ComesFromADataset) {
  const config::DataConfig data = answer_stream_settings(Task::kSorting, 20, 6);
  const Dataset dataset(data);
  EXPECT_EQ(dataset.vocabulary_size(), 7);
  EXPECT_FALSE(dataset.is_endless());
  EXPECT_FALSE(dataset.has_sources());
  ASSERT_NE(dataset.answer_task(), nullptr);
  EXPECT_EQ(dataset.answer_task()->count("valid"), 5);
  EXPECT_EQ(dataset.corpus(Split::kTrain), nullptr);
  for (const Split split : kSplits) EXPECT_TRUE(dataset.has(split));
  TokenSegment segment;
  ASSERT_TRUE(dataset.make_stream(Split::kTest, {.lanes = 4, .segment = 26})->next(segment));
  EXPECT_EQ(segment.target_count(), 24);
  expect_error(ErrorKind::kUsage, {"eval.lanes", "at least 1", "got 0"}, [&] {
    static_cast<void>(dataset.make_stream(Split::kTest, {.lanes = 0, .segment = 26}));
  });

  const Json json = dataset.describe();
  EXPECT_EQ(json["task"], "sorting");
  EXPECT_EQ(json["length"], 20);
  EXPECT_EQ(json["alphabet"], 6);
  EXPECT_EQ(json["train_sequences"], 11);
  EXPECT_EQ(json["test_sequences"], 4);
  EXPECT_EQ(json["seed"], 1);
}

}  // namespace
}  // namespace mneme::data
