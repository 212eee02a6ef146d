// Stopping and resuming equals never having stopped, bit for bit (architecture.md, 9.6).
#include <gtest/gtest.h>

#include "host/base/safetensors.hpp"
#include "host/torch.hpp"
#include "host/train/session.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/train/run_support.hpp"

namespace mneme::train {
namespace {

using test::infini;
using test::is_same;
using test::small_experiment;
using test::weights_of;
using test::xl_cache;

// 2k steps against k steps, a checkpoint, and k steps of another session.
void expect_resumes(const config::Experiment& experiment, int steps = 4) {
  const test::TemporaryFolder folder;
  Session whole(experiment), first(experiment), second(experiment);
  for (int i = 0; i < steps; ++i) {
    whole.train_step();
    first.train_step();
  }
  first.save(folder / "checkpoint.safetensors");
  second.train_step();  // a session that has moved already is set back
  second.load(folder / "checkpoint.safetensors");
  EXPECT_EQ(second.step(), steps);
  EXPECT_EQ(second.tokens(), whole.tokens());
  for (int i = 0; i < steps; ++i) {
    const StepReport ours = second.train_step();
    const StepReport expected = whole.train_step();
    EXPECT_EQ(ours.loss, expected.loss) << "step " << expected.step;
    EXPECT_EQ(ours.grad_norm, expected.grad_norm) << "step " << expected.step;
    EXPECT_EQ(ours.lr, expected.lr);
    EXPECT_EQ(ours.tokens, expected.tokens);
  }
  EXPECT_TRUE(is_same(weights_of(whole.runtime()), weights_of(second.runtime())));
  EXPECT_EQ(whole.state().bytes(), second.state().bytes());
}

TEST(Resume, EqualsNeverHavingStoppedWithoutMemory) { expect_resumes(small_experiment()); }

TEST(Resume, EqualsNeverHavingStoppedWithACache) {
  for (const char* precision : {"f64", "f32", "bf16"}) {
    SCOPED_TRACE(precision);
    // 15 rows: the cache keeps a part of a segment's block.
    expect_resumes(small_experiment(xl_cache(15), {str("train.precision=", precision)}));
  }
}

TEST(Resume, EqualsNeverHavingStoppedWithTwoTiersAndGradientThroughTheState) {
  expect_resumes(small_experiment(xl_cache(7) + infini("lr = 0.05"),
                                  {"train.bptt_segments=2", "train.accumulate=2"}));
}

// Documents of different lengths: lanes are padded, reset at different times, and on their way
// through different documents when the checkpoint is written.
TEST(Resume, EqualsNeverHavingStoppedInTheMiddleOfDocuments) {
  const test::TemporaryFolder folder;
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 13 * 17; ++i) ids.push_back((i * i + i / 5) % 8);
  SafetensorsWriter writer;
  writer.add("tokens", DType::I32, {13, 17}, ids.data());
  writer.write(folder / "ids.safetensors");
  expect_resumes(small_experiment(
      xl_cache(9), {"data.task=tokens", "data.train=" + (folder / "ids.safetensors").string(),
                    "data.vocabulary_size=8", "data.reset=document", "train.lanes=3"}));
}

TEST(Resume, RepeatsARunExactly) {
  const auto experiment = small_experiment(xl_cache(12));
  Session a(experiment), b(experiment);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(a.train_step().loss, b.train_step().loss);
  config::Experiment other = experiment;
  other.train.seed = 2;
  EXPECT_NE(Session(other).train_step().loss, Session(experiment).train_step().loss);
}

}  // namespace
}  // namespace mneme::train
