// Steps whose numbers are read late, as on a GPU, are those of steps that are read at once: numbers,
// weights, metrics, what is said of a failure and what it leaves behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::error_of;
using test::infini;
using test::is_same;
using test::random_segment;
using test::small_experiment;
using test::weights_of;
using test::xl_cache;
using testing::HasSubstr;
using testing::StartsWith;

struct StoppedByReport {};  // by an observer

// A training and what it reported.
class LateSide final : public run::Observer {
 public:
  LateSide(const config::Experiment& experiment, bool reads_late, TrainerOptions options = {}) {
    options.reads_late = reads_late;
    trainer_ = std::make_unique<Trainer>(experiment, std::move(options));
  }
  void on_step(const run::StepReport& report) override {
    reports_.push_back(report);
    late_ += trainer_->step() == report.step + 1 ? 1 : 0;
    if (report.step == stops_at_) throw StoppedByReport();
  }
  // Trains, until the report of a step where one is named.
  std::string train(std::int64_t stops_at = 0) {
    stops_at_ = stops_at;
    try {
      return error_of([&] { trainer_->train(this); });
    } catch (const StoppedByReport&) {
      return "stopped";
    }
  }
  Trainer& trainer() { return *trainer_; }
  // Reports that came when the next step had been begun.
  int late() const { return late_; }
  const std::vector<run::StepReport>& reports() const { return reports_; }

 private:
  std::unique_ptr<Trainer> trainer_;
  std::vector<run::StepReport> reports_;
  int late_ = 0;
  std::int64_t stops_at_ = 0;
};

void expect_same_training(LateSide& late, LateSide& plain) {
  ASSERT_EQ(late.reports().size(), plain.reports().size());
  for (std::size_t i = 0; i < late.reports().size(); ++i) {
    const run::StepReport &ours = late.reports()[i], &theirs = plain.reports()[i];
    SCOPED_TRACE(str("report ", i + 1));
    EXPECT_EQ(ours.step, theirs.step);
    EXPECT_EQ(ours.loss, theirs.loss);
    EXPECT_EQ(ours.grad_norm, theirs.grad_norm);
    EXPECT_EQ(ours.lr, theirs.lr);
    EXPECT_EQ(ours.tokens, theirs.tokens);
    EXPECT_EQ(ours.losses, theirs.losses);
    EXPECT_EQ(ours.metrics, theirs.metrics);
    if (i > 0) {
      EXPECT_GE(ours.seconds, late.reports()[i - 1].seconds);
    }
  }
  EXPECT_EQ(late.trainer().step(), plain.trainer().step());
  EXPECT_EQ(late.trainer().tokens(), plain.trainer().tokens());
  EXPECT_EQ(late.trainer().state().segments(), plain.trainer().state().segments());
  EXPECT_EQ(late.trainer().runtime().model().noise_position(),
            plain.trainer().runtime().model().noise_position());
  EXPECT_TRUE(is_same(weights_of(late.trainer().runtime()), weights_of(plain.trainer().runtime())));
}

// The steps of a run's metrics, without what depends on the clock.
std::vector<std::string> metrics_of(const std::filesystem::path& run) {
  std::vector<std::string> out;
  std::istringstream lines(read_file(run / "metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    Json json = Json::parse(line);
    if (json.at("kind") != "step") continue;
    for (const char* const key : {"seconds", "mfu", "product_flops_per_second"}) json.erase(key);
    out.push_back(json.dump());
  }
  return out;
}

std::string gives_nan(const std::string& what, int from) {
  return str("[[memory.tier]]\nplugin = \"test_unfinite\"\ngives = \"", what,
             "\"\nlayer = 1\nfrom = ", from, "\n");
}

TEST(LateNumbers, AreThoseOfStepsThatAreReadAtOnce) {
  for (const std::string& memory : {std::string(), xl_cache(8), infini()}) {
    for (const char* const also : {"train.clip=0.1", "train.eval_every=3"}) {
      SCOPED_TRACE(memory + also);
      const config::Experiment experiment =
          small_experiment(memory, {"train.steps=11", "train.log_every=4", also});
      LateSide late(experiment, true), plain(experiment, false);
      EXPECT_EQ(late.train(), "no error");
      EXPECT_EQ(plain.train(), "no error");
      EXPECT_EQ(late.reports().size(), 11U);
      expect_same_training(late, plain);
      EXPECT_GE(late.late(), 1);
      EXPECT_EQ(plain.late(), 0);
    }
  }
}

// Windows that are recorded and run again, also behind one whose numbers are not read yet.
TEST(LateNumbers, OfReplayedWindows) {
  std::vector<data::TokenSegment> segments;
  for (std::uint64_t i = 0; i < 24; ++i) segments.push_back(random_segment(4, 6, 8, i));
  for (const std::string& memory : {std::string(), infini()}) {
    for (const char* const replay : {"train.replay_check=0", "train.replay_check=3"}) {
      SCOPED_TRACE(memory + replay);
      const std::vector<std::string> settings = {"train.steps=11", "train.log_every=9",
                                                 "train.accumulate=2", "train.clip=0.1"};
      std::vector<std::string> recorded = settings;
      recorded.insert(recorded.end(), {"train.replay=on", replay});
      LateSide late(small_experiment(memory, recorded), true, test::with_stream(segments)),
          plain(small_experiment(memory, settings), false, test::with_stream(segments));
      EXPECT_EQ(late.train(), "no error");
      EXPECT_EQ(plain.train(), "no error");
      expect_same_training(late, plain);
      EXPECT_GE(late.late(), 5);
      EXPECT_GT(late.trainer().recorder()->replays(), 0);
    }
  }
}

// What is written when the steps were logged, saved and stopped in between.
TEST(LateNumbers, AreWrittenAsThoseThatAreReadAtOnce) {
  const config::Experiment experiment =
      small_experiment(infini(), {"train.steps=12", "train.log_every=6", "train.save_every=5"});
  const test::TemporaryFolder folder;
  std::vector<std::vector<std::string>> written;
  std::vector<std::vector<at::Tensor>> weights;
  for (const bool is_late : {true, false}) {
    TrainerOptions options;
    options.folder = folder / (is_late ? "late" : "plain");
    LateSide side(experiment, is_late, std::move(options));
    EXPECT_EQ(side.train(2), "stopped");
    // The step that had been begun counts.
    EXPECT_EQ(side.trainer().step(), is_late ? 3 : 2);
    EXPECT_EQ(side.train(), "no error");
    written.push_back(metrics_of(folder / (is_late ? "late" : "plain")));
    weights.push_back(weights_of(side.trainer().runtime()));
  }
  EXPECT_EQ(written[0].size(), 2U);  // steps 6 and 12
  EXPECT_EQ(written[0], written[1]);
  EXPECT_TRUE(is_same(weights[0], weights[1]));
}

// The step behind stop_at is not begun.
TEST(LateNumbers, EndAtTheStepThatEndsTheTraining) {
  const config::Experiment experiment =
      small_experiment(infini(), {"train.log_every=100", "train.steps=200"});
  const auto stopped = [](std::int64_t stop_at) {
    TrainerOptions options;
    options.stop_at = stop_at;
    return options;
  };
  for (const std::int64_t stop_at : {1, 5}) {
    LateSide late(experiment, true, stopped(stop_at)), plain(experiment, false, stopped(stop_at));
    for (int again = 0; again < 2; ++again) {
      EXPECT_EQ(late.train(), "no error");
      EXPECT_EQ(plain.train(), "no error");
      EXPECT_EQ(late.trainer().step(), stop_at);
      expect_same_training(late, plain);
    }
    EXPECT_EQ(late.late(), stop_at > 1 ? stop_at - 2 : 0);
    EXPECT_EQ(plain.late(), 0);
  }
}

class LateFailure : public testing::TestWithParam<const char*> {};

// Also where the step behind the failed one has run: it has changed nothing.
TEST_P(LateFailure, IsNamedAndLeavesWhatWasBeforeIt) {
  const config::Experiment experiment =
      small_experiment(gives_nan(GetParam(), 2), {"train.log_every=100", "train.steps=200"});
  LateSide late(experiment, true), plain(experiment, false);
  const std::string error = plain.train();
  EXPECT_THAT(error, HasSubstr("the training reached numbers that are not finite"));
  EXPECT_EQ(late.train(), error);
  EXPECT_GE(late.late(), 1);
  expect_same_training(late, plain);
  // A second attempt fails alike.
  EXPECT_EQ(late.train(), error);
  expect_same_training(late, plain);
}

INSTANTIATE_TEST_SUITE_P(Kinds, LateFailure,
                         testing::Values("read", "gradient", "constant_aux", "slot", "queue"),
                         [](const auto& one) { return std::string(one.param); });

// Stopped by a signal, a run goes back to what is finite without an error, and can be saved.
TEST(LateNumbers, OfAFailedStepAreUndoneWhereTheRunIsStopped) {
  const config::Experiment experiment =
      small_experiment(gives_nan("read", 2), {"train.log_every=100", "train.steps=200"});
  LateSide late(experiment, true), plain(experiment, false);
  EXPECT_EQ(late.train(2), "stopped");
  EXPECT_EQ(late.trainer().step(), 2);
  EXPECT_EQ(plain.train(2), "stopped");
  expect_same_training(late, plain);
  EXPECT_THAT(late.train(), StartsWith("1: step 3: "));
}

// A step that cannot run is behind one that is not read yet: its report comes, or its own error.
TEST(LateNumbers, AreReadBeforeAnErrorOfTheNextStep) {
  for (const char* const what : {"none", "read"}) {
    const config::Experiment experiment =
        small_experiment(gives_nan(what, 2), {"train.log_every=100", "train.steps=200"});
    std::vector<data::TokenSegment> segments;
    for (std::uint64_t i = 0; i < 3; ++i) segments.push_back(random_segment(4, 6, 8, i));
    LateSide late(experiment, true, test::with_stream(segments)),
        plain(experiment, false, test::with_stream(segments));
    const std::string error = plain.train();
    EXPECT_THAT(error, HasSubstr(std::string(what) == "none" ? "they ended at step 4"
                                                             : "step 3: the training reached"));
    EXPECT_EQ(late.train(), error);
    expect_same_training(late, plain);
  }
}

}  // namespace
}  // namespace mneme::train
