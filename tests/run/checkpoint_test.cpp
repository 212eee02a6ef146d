#include "host/run/checkpoint/checkpoint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "host/base/file/file.hpp"
#include "host/run/checkpoint/checkpoint_files.hpp"
#include "host/tensor/torch.hpp"
#include "host/train/trainer.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/run/run_support.hpp"

namespace mneme::train {
namespace {

using test::error_of;
using test::fitted;
using test::infini;
using test::is_same;
using test::small_experiment;
using test::weights_of;
using test::xl_cache;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A folder with the checkpoint of two steps of an experiment.
class CheckpointFile {
 public:
  explicit CheckpointFile(const config::Experiment& experiment) {
    Trainer trainer(experiment);
    trainer.train_step();
    trainer.train_step();
    trainer.save(path());
  }
  std::filesystem::path path() const { return folder_ / "checkpoint.safetensors"; }

  // The checkpoint with a tensor or a metadata value changed, and checksums that agree with it.
  std::filesystem::path without(const std::string& tensor) const {
    return rewrite([&](SafetensorsWriter&, const std::string& name) { return name != tensor; }, {});
  }
  std::filesystem::path with(const std::string& key, const std::string& value) const {
    return rewrite([](SafetensorsWriter&, const std::string&) { return true; }, {{key, value}});
  }
  std::filesystem::path without_metadata(const std::string& key) const {
    return rewrite([](SafetensorsWriter&, const std::string&) { return true; }, {}, key);
  }

 private:
  template <typename Keep>
  std::filesystem::path rewrite(Keep keep, const std::map<std::string, std::string>& more,
                                const std::string& dropped = "") const {
    const SafetensorsFile file = SafetensorsFile::open(path());
    SafetensorsWriter writer;
    std::vector<TensorView> kept;
    for (const std::string& name : file.names()) {
      const TensorView& view = file.at(name);
      if (!keep(writer, name)) continue;
      writer.add(name, view.dtype, view.shape, view.data);
      kept.push_back(view);
    }
    std::map<std::string, std::string> metadata = file.metadata();
    for (const auto& [key, value] : more) metadata[key] = value;
    metadata.erase(dropped);
    run::add_checksums(metadata, kept);
    for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
    writer.write(folder_ / "changed.safetensors");
    return folder_ / "changed.safetensors";
  }

  test::TemporaryFolder folder_;
};

std::string load_error(const config::Experiment& experiment, const std::filesystem::path& path) {
  Trainer trainer(experiment);
  const auto before = weights_of(trainer.runtime());
  const double untouched = Trainer(experiment).train_step().loss;
  std::string error = error_of([&] { trainer.load(path); });
  EXPECT_TRUE(is_same(before, weights_of(trainer.runtime()))) << "a failed load changed weights";
  EXPECT_EQ(trainer.train_step().loss, untouched) << "a failed load changed the session";
  return error;
}

TEST(Checkpoint, TellsWhatItHolds) {
  const auto experiment = small_experiment(xl_cache(12));
  const CheckpointFile file(experiment);
  const run::Checkpoint checkpoint = run::Checkpoint::open(file.path());
  EXPECT_EQ(checkpoint.experiment(), experiment);
  EXPECT_EQ(checkpoint.progress().step, 2);
  EXPECT_EQ(checkpoint.progress().tokens, 2 * 4 * 6);
  EXPECT_EQ(checkpoint.progress().noise_position, 2U);
  EXPECT_EQ(checkpoint.precision(), "f64");
  ASSERT_EQ(checkpoint.plugins().size(), 1U);
  EXPECT_EQ(checkpoint.plugins()[0].sha256.size(), 64U);
}

// No evaluation had a finite loss: there is no best one, and the others are counted all the same.
TEST(Checkpoint, CountsEvaluationsWithoutABestOne) {
  const auto experiment = small_experiment();
  run::RunProgress progress;
  progress.valid.add(2, std::nan(""));
  progress.valid.add(4, std::nan(""));
  Trainer trainer(experiment);
  const test::TemporaryFolder folder;
  optim::Optimizer optimizer(trainer.runtime().parameters(), {});
  run::write_checkpoint(folder / "nan.safetensors", trainer.runtime(), optimizer.moments(),
                        trainer.state().save(), progress);
  EXPECT_EQ(run::Checkpoint::open(folder / "nan.safetensors").progress().valid, progress.valid);
}

TEST(Checkpoint, RefusesFilesThatAreNone) {
  const auto experiment = small_experiment();
  const CheckpointFile file(experiment);
  const test::TemporaryFolder folder;
  const std::string bytes = read_file(file.path());
  const auto cut = folder.write("cut.safetensors", bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(load_error(experiment, cut), AllOf(StartsWith("1: "), HasSubstr("cut.safetensors")));
  const auto text = folder.write("text.safetensors", "no safetensors at all");
  EXPECT_THAT(load_error(experiment, text), HasSubstr("text.safetensors"));
  EXPECT_THAT(load_error(experiment, folder / "missing.safetensors"),
              AllOf(StartsWith("1: "), HasSubstr("missing.safetensors")));
  SafetensorsWriter foreign;
  const float value = 1.0F;
  foreign.add("weight", DType::F32, {1}, &value);
  foreign.write(folder / "foreign.safetensors");
  EXPECT_THAT(
      load_error(experiment, folder / "foreign.safetensors"),
      AllOf(HasSubstr("this is no checkpoint that mneme can read"), HasSubstr("format = none")));
  EXPECT_THAT(load_error(experiment, file.with("revision", "99")), HasSubstr("revision = 99"));
}

TEST(Checkpoint, RefusesDamagedMetadata) {
  const auto experiment = small_experiment();
  const CheckpointFile file(experiment);
  for (const auto& [key, value] :
       {std::pair{"step", "x"}, std::pair{"tokens", "-3"}, std::pair{"data_position", "[1,"},
        std::pair{"plugins", "[{}]"}, std::pair{"state", "7"}, std::pair{"experiment", "[model"},
        std::pair{"seconds", "soon"}, std::pair{"metrics_lines", "-1"}, std::pair{"valid", "[]"}}) {
    EXPECT_THAT(
        load_error(experiment, file.with(key, value)),
        AllOf(StartsWith("1: "), HasSubstr(str("metadata \"", key, "\"")), HasSubstr("damaged")));
  }
}

// Every byte of the file counts (one in 389 is tried): a flipped bit anywhere is found, and named
// where it can be.
TEST(Checkpoint, FindsFlippedBits) {
  const auto experiment = small_experiment(xl_cache(12));
  const CheckpointFile file(experiment);
  const std::string bytes = read_file(file.path());
  const test::TemporaryFolder folder;
  const auto damaged = [&](std::size_t place) {
    std::string text = bytes;
    text[place] = static_cast<char>(text[place] ^ 4);
    const auto path = folder.write("flipped.safetensors", text);
    return error_of([&] { static_cast<void>(run::Checkpoint::open(path)); });
  };
  for (std::size_t place = 0; place < bytes.size(); place += 389) {
    EXPECT_THAT(damaged(place), AllOf(StartsWith("1: "), HasSubstr("flipped.safetensors")))
        << place;
  }
  EXPECT_THAT(damaged(bytes.size() - 1),
              AllOf(HasSubstr(": tensor \""), HasSubstr("damaged after it was written"),
                    HasSubstr("expected checksum")));
  const std::size_t step = bytes.find("\"step\":\"2\"");
  ASSERT_NE(step, std::string::npos);
  EXPECT_THAT(damaged(step + 8), HasSubstr(": metadata: the file was damaged"));
}

TEST(Checkpoint, IsComparedWithItsChecksumsAsFarAsItIsUsed) {
  const auto experiment = small_experiment(xl_cache(12));
  const CheckpointFile file(experiment);
  const SafetensorsFile whole = SafetensorsFile::open(file.path());
  const test::TemporaryFolder folder;
  const auto error_with = [&](const std::string& damaged, run::CheckpointUse use) {
    SafetensorsWriter writer;
    for (const std::string& name : whole.names()) {
      const TensorView& view = whole.at(name);
      std::vector<std::byte> bytes(view.data, view.data + view.bytes);
      if (name == damaged) bytes.back() ^= std::byte{1};
      writer.add_copy(name, view.dtype, view.shape, bytes.data());
    }
    for (const auto& [key, text] : whole.metadata()) writer.set_metadata(key, text);
    writer.write(folder / "damaged.safetensors");
    return error_of(
        [&] { static_cast<void>(run::Checkpoint::open(folder / "damaged.safetensors", use)); });
  };
  using enum run::CheckpointUse;
  for (const std::string prefix : {"adam.mean/", "adam.square/", "adam.count/", ""}) {
    const std::string damaged = prefix + "model.embedding.0.weight";
    const auto is_named = HasSubstr(str(": tensor \"", damaged, '"'));
    EXPECT_THAT(error_with(damaged, kTraining), is_named);
    if (prefix.empty()) {
      EXPECT_THAT(error_with(damaged, kEvaluation), is_named);
    } else {
      EXPECT_EQ(error_with(damaged, kEvaluation), "no error");
    }
    EXPECT_EQ(error_with(damaged, kProgress), "no error");
  }
}

TEST(Checkpoint, RefusesTensorsThatWereTakenOutOrPutIn) {
  const auto experiment = small_experiment();
  const CheckpointFile file(experiment);
  const test::TemporaryFolder folder;
  const auto copy = [&](const std::string& left_out, bool has_more) {
    const SafetensorsFile original = SafetensorsFile::open(file.path());
    SafetensorsWriter writer;
    for (const std::string& name : original.names()) {
      const TensorView& view = original.at(name);
      if (name != left_out) writer.add(name, view.dtype, view.shape, view.data);
    }
    const float value = 1.0F;
    if (has_more) writer.add_copy("model.more", DType::F32, {1}, &value);
    for (const auto& [key, text] : original.metadata()) writer.set_metadata(key, text);
    writer.write(folder / "changed.safetensors");
    return error_of(
        [&] { static_cast<void>(run::Checkpoint::open(folder / "changed.safetensors")); });
  };
  EXPECT_THAT(copy("", false), "no error");
  EXPECT_THAT(copy("model.embedding.0.weight", false),
              AllOf(HasSubstr("model.embedding.0.weight"), HasSubstr("got no such tensor")));
  EXPECT_THAT(copy("", true), AllOf(HasSubstr("model.more"), HasSubstr("a further tensor")));
}

TEST(Checkpoint, RefusesAnotherModelListingTheDifferences) {
  const CheckpointFile file(small_experiment());
  run::Runtime wider(small_experiment("", {"model.width=32", "model.ff=40"}), {});
  const auto before = weights_of(wider);
  const std::string error = error_of([&] {
    static_cast<void>(
        run::Checkpoint::open(file.path()).load_weights(wider, config::Carry::kRefuse));
  });
  EXPECT_THAT(error, StartsWith("2: "));
  EXPECT_THAT(error, HasSubstr("the checkpoint belongs to another model"));
  EXPECT_THAT(error, HasSubstr("model.embedding.0.weight: expected [8, 32], got [8, 16]"));
  EXPECT_THAT(error, HasSubstr("more"));
  EXPECT_TRUE(is_same(before, weights_of(wider)));
  run::Runtime shallow(small_experiment("", {"model.layers=1"}), {});
  EXPECT_THAT(
      error_of([&] {
        static_cast<void>(
            run::Checkpoint::open(file.path()).load_weights(shallow, config::Carry::kRefuse));
      }),
      HasSubstr("the model has no such parameter"));
}

TEST(Checkpoint, RefusesToResumeWithOtherSettings) {
  const CheckpointFile file(small_experiment(xl_cache(12)));
  EXPECT_THAT(load_error(small_experiment(xl_cache(12), {"train.seed=2"}), file.path()),
              AllOf(StartsWith("2: "), HasSubstr("written with other settings"),
                    HasSubstr("checkpoint: [train] seed = 1"), HasSubstr("[train] seed = 2")));
  EXPECT_THAT(load_error(small_experiment(xl_cache(10)), file.path()), HasSubstr("rows = 10"));
  EXPECT_THAT(load_error(small_experiment(), file.path()), HasSubstr("xl_cache"));
  EXPECT_THAT(load_error(small_experiment(xl_cache(12), {"model.dropout=0.2"}), file.path()),
              HasSubstr("[model] dropout = 0.2"));
  EXPECT_THAT(load_error(small_experiment(xl_cache(12), {"data.alphabet=9"}), file.path()),
              HasSubstr("alphabet"));
}

// A way of computing, which no message about another model names either.
TEST(Checkpoint, ResumesWithOtherKernels) {
  const CheckpointFile file(small_experiment(xl_cache(12)));
  Trainer trainer(small_experiment(
      xl_cache(12), {"model.attention_kernel=operations", "model.row_kernels=operations"}));
  trainer.load(file.path());
  EXPECT_EQ(trainer.step(), 2);
  run::Runtime narrow(
      small_experiment(xl_cache(12), {"model.attention_kernel=operations",
                                      "model.row_kernels=operations", "model.ff=9"}),
      {});
  EXPECT_THAT(
      error_of([&] {
        static_cast<void>(
            run::Checkpoint::open(file.path()).load_weights(narrow, config::Carry::kRefuse));
      }),
      AllOf(HasSubstr("[model] ff"), Not(HasSubstr("_kernel"))));
}

TEST(Checkpoint, ResumesWithAnotherLengthAndReporting) {
  const CheckpointFile file(small_experiment(xl_cache(12)));
  Trainer longer(
      small_experiment(xl_cache(12), {"train.steps=20", "train.log_every=1", "eval.segment=3"}));
  longer.load(file.path());
  EXPECT_EQ(longer.step(), 2);
  EXPECT_EQ(longer.total_steps(), 20);
}

TEST(Checkpoint, RefusesMissingMomentsAndState) {
  const auto experiment = small_experiment(infini());
  const CheckpointFile file(experiment);
  const std::string moments = "adam.mean/model.embedding.0.weight";
  EXPECT_THAT(load_error(experiment, file.without(moments)),
              AllOf(StartsWith("2: "), HasSubstr("moments do not fit"), HasSubstr(moments)));
  EXPECT_THAT(load_error(experiment, file.without("model.embedding.0.weight")),
              HasSubstr("model.embedding.0.weight: missing in the checkpoint"));
  std::string slot;
  const SafetensorsFile saved = SafetensorsFile::open(file.path());
  for (const std::string& name : saved.names()) {
    if (name.starts_with("state/") && name.ends_with("matrix")) slot = name;
  }
  ASSERT_FALSE(slot.empty());
  EXPECT_THAT(load_error(experiment, file.without(slot)),
              AllOf(HasSubstr("changed.safetensors"), HasSubstr("the saved state lacks it")));
  EXPECT_THAT(load_error(experiment, file.with("data_position", "[1,2,3]")),
              HasSubstr("data position"));
}

TEST(Checkpoint, CarriesTheBackboneToAnotherMemory) {
  const auto experiment = small_experiment(xl_cache(12));
  const CheckpointFile file(experiment);
  const run::Checkpoint checkpoint = run::Checkpoint::open(file.path());
  run::Runtime same(experiment, {}), other(small_experiment(infini()), {});
  EXPECT_TRUE(checkpoint.load_weights(same, config::Carry::kRefuse).empty());
  EXPECT_THAT(
      error_of([&] { static_cast<void>(checkpoint.load_weights(other, config::Carry::kRefuse)); }),
      AllOf(HasSubstr("beta: missing in the checkpoint"), HasSubstr("carry = \"reset\"")));
  EXPECT_THAT(checkpoint.load_weights(other, config::Carry::kReset), testing::SizeIs(2));
  const auto a = weights_of(same), b = weights_of(other);
  EXPECT_TRUE(is_same(a, {b.begin(), b.begin() + static_cast<std::ptrdiff_t>(a.size())}));
}

TEST(Checkpoint, RefusesOrResetsATierWithOtherTrainedOptions) {
  const CheckpointFile file(small_experiment(fitted("tau = 0.25") + infini()));
  const run::Checkpoint checkpoint = run::Checkpoint::open(file.path());
  run::Runtime other(small_experiment(fitted() + infini(), {"train.seed=2"}), {});
  const auto before = weights_of(other);
  EXPECT_THAT(
      error_of([&] { static_cast<void>(checkpoint.load_weights(other, config::Carry::kRefuse)); }),
      AllOf(StartsWith("2: "), HasSubstr("checkpoint.safetensors: the memory was trained with"),
            HasSubstr("tier 0.test.fitted: tau = 0.5, trained with 0.25\n"),
            HasSubstr("carry = \"reset\"")));
  EXPECT_TRUE(is_same(before, weights_of(other)));
  EXPECT_THAT(checkpoint.load_weights(other, config::Carry::kReset),
              testing::ElementsAre("memory.0.test.fitted.0.gain", "memory.0.test.fitted.1.gain"));
  EXPECT_TRUE(other.stack().parameters().front().tensor.eq(1.0).all().item<bool>());
}

// A plugin may get another default: what counts is the value that the run had.
TEST(Checkpoint, KeepsTheDefaultsOfTrainedOptions) {
  const auto experiment = small_experiment(fitted());
  const CheckpointFile file(experiment);
  run::Runtime runtime(experiment, {});
  const auto weights_error = [&](const std::filesystem::path& path) {
    return error_of([&] {
      static_cast<void>(run::Checkpoint::open(path).load_weights(runtime, config::Carry::kRefuse));
    });
  };
  EXPECT_EQ(weights_error(file.path()), "no error");
  const std::string quarter = R"({"0.test.fitted": "{tau = 0.25, gone = 1}"})";
  EXPECT_THAT(weights_error(file.with("options", quarter)),
              HasSubstr("tau = 0.5, trained with 0.25"));
  EXPECT_THAT(weights_error(file.with("options", "[]")), HasSubstr("metadata \"options\""));
  EXPECT_THAT(weights_error(file.with("options", R"({"0.test.fitted": "{tau"})")),
              HasSubstr("metadata \"options\""));
  Trainer(experiment).load(file.path());
  EXPECT_THAT(load_error(experiment, file.with("options", quarter)),
              AllOf(HasSubstr("tau = 0.5, trained with 0.25"), HasSubstr("resume with")));
}

// What an older mneme wrote has the options of its experiment alone.
TEST(Checkpoint, ReadsTrainedOptionsOfTheExperimentWhereNoneAreWritten) {
  const CheckpointFile file(small_experiment(fitted("tau = 0.25")));
  const auto path = file.without_metadata("options");
  run::Runtime same(small_experiment(fitted("tau = 0.25")), {}),
      other(small_experiment(fitted()), {});
  const run::Checkpoint checkpoint = run::Checkpoint::open(path);
  EXPECT_TRUE(checkpoint.load_weights(same, config::Carry::kRefuse).empty());
  EXPECT_THAT(
      error_of([&] { static_cast<void>(checkpoint.load_weights(other, config::Carry::kRefuse)); }),
      HasSubstr("tau = 0.5, trained with 0.25"));
}

TEST(Checkpoint, KeepsTheOldFileWhenWritingFails) {
  const auto experiment = small_experiment();
  Trainer trainer(experiment);
  const test::TemporaryFolder folder;
  const auto blocked = folder.write("file", "") / "checkpoint.safetensors";
  EXPECT_THAT(error_of([&] { trainer.save(blocked); }), StartsWith("1: "));
  trainer.save(folder / "checkpoint.safetensors");
  trainer.train_step();
  trainer.save(folder / "checkpoint.safetensors");  // replaces
  EXPECT_EQ(run::Checkpoint::open(folder / "checkpoint.safetensors").progress().step, 1);
}

}  // namespace
}  // namespace mneme::train
