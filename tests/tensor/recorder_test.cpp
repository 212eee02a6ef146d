// Work that is recorded and run again without its code.
#include "host/tensor/dispatch/recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/tensor/fake_graph_device.hpp"

namespace mneme::tensor {
namespace {

using test::error_of;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const RecorderNames kNames = {
    .key = "some.replay", .work = "piece", .remedy = "compute with some.replay = \"off\""};

// Small work with a parameter and a draw, and what may be wrong with it.
struct Work {
  std::string key = "one";
  int runs = 0;
  at::Tensor weight = torch::full({2}, 3.0, at::kDouble);
  double addend = 1.0;  // an operation's number
  double hidden = 1.0;  // a factor that no operation shows, where the code runs
  bool reads_value = false;
  Capture capture = Capture::kAhead;  // of the draw
  std::string text = "a draw";
  std::vector<std::string> lines;

  at::Tensor step(Recorder& recorder, std::int64_t position) {
    const LogListener listener([this](LogLevel, std::string_view line) {
      lines.emplace_back(line);
      return false;
    });
    const at::Tensor x = torch::full({2}, static_cast<double>(position), at::kDouble);
    const RecordedResults results = recorder.run(
        {.key = key,
         .inputs = {x},
         .position = position,
         .run =
             [&] {
               ++runs;
               is_code = true;
               const at::Tensor drawn = torch::empty({2}, at::kDouble);
               run_traced(
                   text, {}, {drawn},
                   [position, this](const std::vector<at::Tensor>& tensors, std::int64_t ahead) {
                     const double factor = is_code ? hidden : 1.0;
                     tensors[0].fill_(factor * static_cast<double>(position + ahead));
                   },
                   capture);
               at::Tensor out = x * weight + drawn + addend;
               if (reads_value) out = out + out[0].item<double>();
               is_code = false;
               return RecordedResults{{out, at::Tensor()}, nullptr};
             },
         .name_of = [](std::size_t i) { return str("result ", i); }});
    EXPECT_FALSE(results.tensors.at(1).defined());
    return results.tensors.at(0);
  }

 private:
  bool is_code = false;
};

at::Tensor expected(double weight, std::int64_t position) {
  const auto p = static_cast<double>(position);
  return torch::full({2}, p * weight + p + 1.0, at::kDouble);
}

TEST(Recorder, RunsTheOperationsAfterTwoLikeTracesAndAComparison) {
  Recorder recorder(kNames, 0);
  Work work;
  for (std::int64_t i = 0; i < 6; ++i) {
    work.weight.fill_(3.0 + static_cast<double>(i));  // where it lies, as an optimiser does
    EXPECT_TRUE(at::equal(work.step(recorder, i), expected(3.0 + static_cast<double>(i), i))) << i;
  }
  EXPECT_EQ(work.runs, 3);
  EXPECT_EQ(recorder.replays(), 3);
  EXPECT_EQ(recorder.recordings(), 1U);
  EXPECT_THAT(work.lines, IsEmpty());
}

TEST(Recorder, ForgetsWorkWhoseTensorsAreOthersFromNowOn) {
  Recorder recorder(kNames, 0);
  Work work;
  for (std::int64_t i = 0; i < 10; ++i) {
    if (i == 5) {
      recorder.forget();
      work.weight = torch::full({2}, 4.0, at::kDouble);
    }
    EXPECT_TRUE(at::equal(work.step(recorder, i), expected(i < 5 ? 3.0 : 4.0, i))) << i;
  }
  EXPECT_EQ(work.runs, 2 * 3);
  EXPECT_EQ(recorder.replays(), 2 * 2);
  EXPECT_EQ(recorder.recordings(), 1U);
  work.key = "value";
  work.reads_value = true;
  for (std::int64_t i = 0; i < 3; ++i) {
    work.step(recorder, i);
    recorder.forget();
  }
  EXPECT_EQ(work.lines.size(), 1U);  // what is refused stays so
}

TEST(Recorder, RunsTheCodeBesideEveryFewReplays) {
  Recorder recorder(kNames, 5);
  Work work;
  for (std::int64_t i = 0; i < 11; ++i) work.step(recorder, i);
  EXPECT_EQ(work.runs, 3 + 2);  // the 5th and the 10th
  EXPECT_EQ(recorder.replays(), 6);
}

// As the windows of a step before its last one, and that one, do: every fourth piece has one key.
TEST(Recorder, RunsTheCodeBesideReplaysOfEachKeyThatTakesTurns) {
  Recorder recorder(kNames, 4);
  Work work;
  for (std::int64_t i = 0; i < 4; ++i) {
    for (const char* const key : {"one", "two"}) {
      work.key = key;
      EXPECT_TRUE(at::equal(work.step(recorder, i), expected(3.0, i)));
    }
  }
  EXPECT_EQ(work.runs, 3 + 4);  // the eighth piece beside its replay
  work.hidden = 2.0;
  work.key = "one";
  EXPECT_THAT(error_of([&] { work.step(recorder, 4); }), HasSubstr("result 0 differs by 4"));
}

TEST(Recorder, NeverRecordsWhatDoesOtherOperationsEachTime) {
  Recorder recorder(kNames, 0);
  Work work;
  for (std::int64_t i = 0; i < 8; ++i) {
    work.addend = static_cast<double>(i);
    work.step(recorder, i);
  }
  EXPECT_EQ(work.runs, 8);
  EXPECT_EQ(recorder.recordings(), 0U);
  EXPECT_THAT(work.lines, ElementsAre(AllOf(HasSubstr("a piece is not recorded: operation "),
                                            HasSubstr("aten::add."))));
}

TEST(Recorder, RecordsWhatSettlesAfterTheFirstTime) {
  Recorder recorder(kNames, 0);
  Work work;
  work.addend = 7.0;
  work.step(recorder, 0);
  work.addend = 1.0;
  for (std::int64_t i = 1; i < 5; ++i)
    EXPECT_TRUE(at::equal(work.step(recorder, i), expected(3.0, i)));
  EXPECT_EQ(work.runs, 4);
  EXPECT_THAT(work.lines, IsEmpty());
}

TEST(Recorder, NeverRecordsWhatReadsValuesOrTensorsOfItsOwn) {
  Recorder recorder(kNames, 0);
  Work reads;
  reads.reads_value = true;
  for (std::int64_t i = 0; i < 4; ++i) reads.step(recorder, i);
  EXPECT_EQ(reads.runs, 4);
  EXPECT_THAT(reads.lines, ElementsAre(HasSubstr("depends on values: aten::_local_scalar_dense")));
  Work own;
  own.key = "own";
  for (std::int64_t i = 0; i < 6; ++i) {
    own.weight = torch::full({2}, static_cast<double>(i), at::kDouble);
    EXPECT_TRUE(at::equal(own.step(recorder, i), expected(static_cast<double>(i), i)));
  }
  EXPECT_EQ(own.runs, 6);
  EXPECT_THAT(own.lines, ElementsAre(HasSubstr("is another one each time")));
}

TEST(Recorder, DropsARecordingWhoseFirstReplayDiffers) {
  Recorder recorder(kNames, 0);
  Work work;
  work.hidden = 2.0;
  for (std::int64_t i = 0; i < 6; ++i) work.step(recorder, i);
  EXPECT_EQ(work.runs, 6);
  EXPECT_THAT(work.lines, ElementsAre(HasSubstr("result 0 differs by 2")));
}

TEST(Recorder, FailsWhereALaterReplayDiffers) {
  Recorder recorder(kNames, 5);
  Work work;
  for (std::int64_t i = 0; i < 4; ++i) work.step(recorder, i);
  work.hidden = 2.0;
  EXPECT_THAT(error_of([&] { work.step(recorder, 4); }),
              AllOf(HasSubstr("some.replay"), HasSubstr("result 0 differs by 4"),
                    HasSubstr("some.replay = \"off\"")));
  EXPECT_EQ(recorder.recordings(), 0U);
  work.step(recorder, 5);  // by the code from then on
  EXPECT_EQ(work.runs, 5);
}

TEST(Recorder, ForgetsTheRecordingThatWasNotUsedForLongest) {
  Recorder recorder(kNames, 0);
  Work work;
  const auto several = [&](const std::string& key, int times) {
    work.key = key;
    const int before = work.runs;
    for (int i = 0; i < times; ++i) work.step(recorder, i);
    return work.runs - before;
  };
  for (std::size_t i = 0; i < Recorder::kMost; ++i) EXPECT_EQ(several(str(i), 4), 3);
  EXPECT_EQ(several("0", 1), 0);  // "1" is the oldest now
  EXPECT_EQ(several("more", 4), 3);
  EXPECT_EQ(recorder.recordings(), Recorder::kMost);
  EXPECT_EQ(several("0", 1), 0);
  EXPECT_EQ(several("1", 4), 3);
}

TEST(Recorder, LaunchesAGraphAfterItsFirstLaunchWasCompared) {
  test::WithFakeGraphs graphs;
  {
    Recorder recorder(kNames, 0);
    Work work;
    for (std::int64_t i = 0; i < 8; ++i) {
      work.weight.fill_(3.0 + static_cast<double>(i));
      EXPECT_TRUE(at::equal(work.step(recorder, i), expected(3.0 + static_cast<double>(i), i)));
    }
    EXPECT_EQ(work.runs, 4);
    EXPECT_EQ(recorder.replays(), 4);
    EXPECT_EQ(recorder.launches(), 4);
    EXPECT_THAT(work.lines, IsEmpty());
  }
  EXPECT_EQ(graphs.all.captures, 1);
  EXPECT_EQ(graphs.all.launches, 5);
  EXPECT_EQ(graphs.all.ended, 1);
}

// Work that depends on its position and does not say so, and a graph that computes nothing.
TEST(Recorder, LeavesAGraphWhoseFirstLaunchDiffers) {
  for (const bool is_draw : {true, false}) {
    test::WithFakeGraphs graphs;
    Recorder recorder(kNames, 0);
    Work work;
    if (is_draw) work.capture = Capture::kByTensors;
    graphs.all.launches_nothing = !is_draw;
    for (std::int64_t i = 0; i < 8; ++i)
      EXPECT_TRUE(at::equal(work.step(recorder, i), expected(3.0, i))) << i;
    EXPECT_EQ(work.runs, 4);
    EXPECT_EQ(recorder.replays(), 4);  // one by one
    EXPECT_EQ(recorder.launches(), 0);
    EXPECT_EQ(graphs.all.ended, 1);
    EXPECT_THAT(work.lines,
                ElementsAre(AllOf(HasSubstr("a piece are run again one by one"),
                                  HasSubstr("the first launch of a graph gave other numbers"))));
  }
}

TEST(Recorder, RunsOneByOneWhatIsNoGraph) {
  test::WithFakeGraphs graphs;
  Recorder recorder(kNames, 0);
  Work work;
  work.capture = Capture::kNever;
  for (std::int64_t i = 0; i < 6; ++i)
    EXPECT_TRUE(at::equal(work.step(recorder, i), expected(3.0, i)));
  EXPECT_EQ(work.runs, 3);
  EXPECT_EQ(graphs.all.captures, 0);
  EXPECT_THAT(work.lines, ElementsAre(HasSubstr("no graph may hold this kernel, which does not say "
                                                "that it can be captured: a draw(")));
}

// A key goes on without a graph; the others have theirs, unless the device captures no more.
TEST(Recorder, RunsOneByOneTheKeyWhoseCaptureFails) {
  for (const bool is_left_open : {false, true}) {
    test::WithFakeGraphs graphs;
    Recorder recorder(kNames, 0);
    Work work;
    graphs.all.is_left_open = is_left_open;
    for (const char* const key : {"one", "one", "two", "one"}) {
      work.key = key;
      graphs.all.has_no_memory = work.key == "one";
      for (std::int64_t i = 0; i < 5; ++i)
        EXPECT_TRUE(at::equal(work.step(recorder, i), expected(3.0, i)));
      if (work.key == "one") recorder.forget();  // and records it again, without a graph
    }
    EXPECT_EQ(graphs.all.captures, is_left_open ? 1 : 2);
    EXPECT_EQ(recorder.launches(), is_left_open ? 0 : 1);
    const std::string more = is_left_open ? "; no other graph is made" : "";
    EXPECT_THAT(work.lines, ElementsAre(testing::EndsWith("of the device: out of memory" + more)));
  }
}

// A graph of before, which has not been launched, is compared and left all the same.
TEST(Recorder, LeavesAGraphAfterTheCaptureThatEndedAll) {
  test::WithFakeGraphs graphs;
  Recorder recorder(kNames, 0);
  Work work;
  for (std::int64_t i = 0; i < 3; ++i) work.step(recorder, i);
  EXPECT_EQ(graphs.all.captures, 1);
  graphs.all.has_no_memory = graphs.all.is_left_open = graphs.all.launches_nothing = true;
  work.key = "two";
  for (std::int64_t i = 0; i < 3; ++i) work.step(recorder, i);
  work.key = "one";
  for (std::int64_t i = 3; i < 6; ++i)
    EXPECT_TRUE(at::equal(work.step(recorder, i), expected(3.0, i))) << i;
  EXPECT_EQ(recorder.launches(), 0);
  EXPECT_EQ(recorder.replays(), 2);
  EXPECT_THAT(work.lines, ElementsAre(testing::EndsWith("no other graph is made"),
                                      HasSubstr("the first launch of a graph gave other numbers")));
}

// One line where the reason is the same.
TEST(Recorder, SaysOnceWhyCapturesFail) {
  test::WithFakeGraphs graphs;
  graphs.all.has_no_memory = true;
  Recorder recorder(kNames, 0);
  Work work;
  for (const char* const key : {"one", "two"}) {
    work.key = key;
    for (std::int64_t i = 0; i < 5; ++i) work.step(recorder, i);
  }
  EXPECT_EQ(work.runs, 6);
  EXPECT_EQ(graphs.all.captures, 2);
  EXPECT_THAT(work.lines, ElementsAre(testing::EndsWith("of the device: out of memory")));
}

// The line names the kernel that waits for the device, or fails, while it is captured.
TEST(Recorder, NamesWorkThatCannotBeCaptured) {
  for (const bool fails : {false, true}) {
    test::WithFakeGraphs graphs;
    Recorder recorder(kNames, 0);
    std::vector<std::string> lines;
    const LogListener listener([&](LogLevel, std::string_view line) {
      lines.emplace_back(line);
      return false;
    });
    int calls = 0;
    const auto kernel = [&](const std::vector<at::Tensor>& tensors, std::int64_t) {
      tensors[1].copy_(tensors[0]);
      if (++calls != 4)
        return;  // twice by the code, again, and captured before the code runs beside it
      graphs.all.is_waited_for = !fails;
      if (fails) throw std::runtime_error("not while a stream is captured\nand more");
    };
    for (int i = 0; i < 6; ++i) {
      const at::Tensor x = torch::full({2}, i, at::kDouble);
      const auto results = recorder.run({.key = "one",
                                         .inputs = {x},
                                         .run =
                                             [&] {
                                               const at::Tensor out = torch::empty_like(x);
                                               run_traced("kernel org.a/b", {x}, {out}, kernel);
                                               return RecordedResults{{out}, nullptr};
                                             },
                                         .name_of = [](std::size_t) { return "a result"; }});
      EXPECT_TRUE(at::equal(results.tensors.at(0), x)) << i;
    }
    const char* const reason =
        fails ? ": not while a stream is captured" : ": it waits for the device";
    EXPECT_THAT(lines, ElementsAre(AllOf(HasSubstr("kernel org.a/b("), HasSubstr(reason))));
    EXPECT_EQ(recorder.launches(), 0);
  }
}

TEST(Recorder, FailsWhereALaterLaunchDiffers) {
  test::WithFakeGraphs graphs;
  Recorder recorder(kNames, 6);
  Work work;
  for (std::int64_t i = 0; i < 5; ++i) work.step(recorder, i);
  graphs.all.launches_nothing = true;
  EXPECT_THAT(error_of([&] { work.step(recorder, 5); }), HasSubstr("result 0 differs by"));
  EXPECT_EQ(graphs.all.ended, 1);
}

// Work that adds to a tensor where it lies.
struct AddingWork {
  at::Tensor sum = torch::zeros({2}, at::kDouble);
  double hidden = 1.0;  // a factor that no operation shows, where the code runs
  bool says_so = true;  // that it changes the sum

  void step(Recorder& recorder, int number) {
    const at::Tensor x = torch::full({2}, number, at::kDouble);
    RecordedWork work{.key = "one",
                      .inputs = {x},
                      .run =
                          [&] {
                            is_code = true;
                            run_traced("an addition", {x}, {sum},
                                       [this](const std::vector<at::Tensor>& t, std::int64_t) {
                                         t[1].add_(t[0] * (is_code ? hidden : 1.0));
                                       });
                            is_code = false;
                            return RecordedResults{{x * 2.0}, nullptr};
                          },
                      .name_of = [](std::size_t) { return "twice"; }};
    if (says_so)
      work.changed = [this] {
        return std::vector<std::pair<std::string, at::Tensor>>{{"the sum", sum}};
      };
    const RecordedResults results = recorder.run(work);
    EXPECT_TRUE(at::equal(results.tensors.at(0), x * 2.0));
  }

 private:
  bool is_code = false;
};

TEST(Recorder, UndoesWhatAReplayBesideTheCodeChanges) {
  for (const bool has_graphs : {false, true}) {
    std::optional<test::WithFakeGraphs> graphs;
    if (has_graphs) graphs.emplace();
    Recorder recorder(kNames, 4);
    AddingWork work;
    for (int i = 0, sum = 0; i < 14; ++i) {
      work.step(recorder, i);
      sum += i;
      EXPECT_TRUE(at::equal(work.sum, torch::full({2}, sum, at::kDouble))) << i;
    }
    EXPECT_GT(recorder.replays(), 5);
    EXPECT_EQ(recorder.launches(), has_graphs ? recorder.replays() : 0);
    // The comparison is needed: such a replay counts as well.
    Recorder other(kNames, 0);
    AddingWork silent;
    silent.says_so = false;
    for (int i = 0; i < 3; ++i) silent.step(other, 1);
    EXPECT_FALSE(at::equal(silent.sum, torch::full({2}, 3, at::kDouble)));
  }
}

TEST(Recorder, ComparesWhatTheWorkChanges) {
  Recorder recorder(kNames, 5);
  AddingWork work;
  for (int i = 0; i < 4; ++i) work.step(recorder, 1);
  work.hidden = 3.0;
  EXPECT_THAT(error_of([&] { work.step(recorder, 1); }), HasSubstr("the sum differs by 2"));
  EXPECT_TRUE(at::equal(work.sum, torch::full({2}, 4, at::kDouble)));  // as before the work
  work.step(recorder, 1);                                              // by the code from then on
  EXPECT_TRUE(at::equal(work.sum, torch::full({2}, 7, at::kDouble)));
}

// And the code has run once.
TEST(Recorder, DropsARecordingWhoseFirstReplayChangesOtherwise) {
  for (const bool has_graphs : {false, true}) {
    std::optional<test::WithFakeGraphs> graphs;
    if (has_graphs) graphs.emplace();
    Recorder recorder(kNames, 0);
    AddingWork work;
    work.hidden = 3.0;
    for (int i = 0; i < 6; ++i) work.step(recorder, 1);
    EXPECT_TRUE(at::equal(work.sum, torch::full({2}, 18, at::kDouble)));
    EXPECT_EQ(recorder.replays(), 0);
  }
}

TEST(Recorder, LeavesThingsAsTheyWereWhereTheCodeFailsBesideAReplay) {
  Recorder recorder(kNames, 0);
  AddingWork work;
  for (int i = 0; i < 2; ++i) work.step(recorder, 1);
  RecordedWork fails{.key = "one",
                     .inputs = {torch::ones({2}, at::kDouble)},
                     .run = []() -> RecordedResults { throw_run("a hook failed"); },
                     .name_of = [](std::size_t) { return "twice"; }};
  fails.changed = [&] {
    return std::vector<std::pair<std::string, at::Tensor>>{{"the sum", work.sum}};
  };
  EXPECT_THAT(error_of([&] { recorder.run(fails); }), HasSubstr("a hook failed"));
  EXPECT_TRUE(at::equal(work.sum, torch::full({2}, 2, at::kDouble)));
  work.step(recorder, 1);
  EXPECT_TRUE(at::equal(work.sum, torch::full({2}, 3, at::kDouble)));
}

// Such as one on all parameters.
TEST(Recorder, CutsALongReason) {
  test::WithFakeGraphs graphs;
  Recorder recorder(kNames, 0);
  Work work;
  work.capture = Capture::kNever;
  work.text = std::string(2000, 'x');
  for (std::int64_t i = 0; i < 4; ++i) work.step(recorder, i);
  ASSERT_EQ(work.lines.size(), 1U);
  EXPECT_THAT(work.lines[0], testing::EndsWith("xxx..."));
  EXPECT_LT(work.lines[0].size(), 800U);
}

TEST(Recorder, GivesUpWhereEveryPieceOfWorkIsNew) {
  Recorder recorder(kNames, 0);
  Work work;
  for (std::int64_t i = 0; i < 80; ++i) {
    work.key = str(i);
    work.step(recorder, i);
  }
  EXPECT_THAT(work.lines,
              ElementsAre(HasSubstr("64 pieces in a row had shapes or counts of their own")));
  work.key = "one";
  for (std::int64_t i = 0; i < 5; ++i) work.step(recorder, i);
  EXPECT_EQ(work.runs, 85);
}

}  // namespace
}  // namespace mneme::tensor
