#include "host/scores/stored_evaluation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/scores/evaluation_files.hpp"
#include "host/scores/stored_evaluation.hpp"
#include "tests/base/file_size_limit.hpp"
#include "tests/base/ordinary_user.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/scores/some_evaluation.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

using scores::Columns;
using scores::StoredEvaluation;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class StoredEvaluations : public ::testing::Test {
 protected:
  fs::path write(const std::function<void(scores::EvaluationToStore&)>& change = {}) const {
    Columns columns = some_columns();
    scores::EvaluationToStore evaluation = some_evaluation(columns);
    if (change) change(evaluation);
    return scores::write_evaluation(run_.path(), evaluation, columns);
  }
  // Replaces a text in a file, which must hold it.
  static void replace(const fs::path& path, const std::string& from, const std::string& to) {
    std::string text = read_file(path);
    const std::size_t place = text.find(from);
    ASSERT_NE(place, std::string::npos) << path << " does not hold " << from;
    write_file_atomic(path, text.replace(place, from.size(), to));
  }
  // Gives the files of a folder that was changed the checksums that it says it has.
  static void correct_checksums(const fs::path& folder) {
    Json info = Json::parse(read_file(folder / scores::kInfoFile));
    for (const std::string_view name : {scores::kColumnsFile, scores::kSamplesFile}) {
      info["checksums"][std::string(name)] = scores::crc32c_text(folder / name);
    }
    info["checksum"] = scores::checksum_of_info(info);
    write_file_atomic(folder / scores::kInfoFile, info.dump());
  }
  static std::string error(const fs::path& folder) {
    return error_of([&] { static_cast<void>(StoredEvaluation::open(folder)); });
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(run_ / "evaluations")) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

  TemporaryFolder run_;
};

TEST_F(StoredEvaluations, AreReadAsTheyWereWritten) {
  const fs::path folder = write();
  EXPECT_EQ(folder, run_ / "evaluations/valid-step00000040-0123abcd");
  const StoredEvaluation evaluation = StoredEvaluation::open(folder);
  EXPECT_EQ(evaluation.split(), "valid");
  EXPECT_EQ(evaluation.step(), 40);
  EXPECT_EQ(evaluation.seed(), 7U);
  EXPECT_EQ(evaluation.unit(), "document");
  Columns columns = some_columns();
  columns.sort();
  const Columns read = evaluation.columns();
  EXPECT_THAT(read.narrow_nll, ElementsAre(0.5F, 1.5F, 2.25F, 3.0F, 0.75F, 0.125F, 1.0F, 2.0F));
  EXPECT_EQ(read.target, columns.target);
  EXPECT_EQ(read.document, columns.document);
  EXPECT_EQ(read.distance, columns.distance);
  EXPECT_EQ(read.lane, columns.lane);
  EXPECT_EQ(read.place, columns.place);
  EXPECT_EQ(read.segment, columns.segment);
  EXPECT_EQ(read.correct, columns.correct);
  EXPECT_THAT(read.source, IsEmpty());
  EXPECT_EQ(evaluation.samples(),
            scores::make_samples(columns, scores::SampleUnit::kDocument, "valid", 7));
  EXPECT_THAT(scores::samples_of_targets(read, evaluation.sample_unit()),
              ElementsAre(0, 0, 0, 1, 1, 1, 2, 2));
  EXPECT_THAT(evaluation.vocabulary_counts(), IsEmpty());
  EXPECT_THAT(scores::list_evaluations(run_.path()), ElementsAre(folder));
}

TEST_F(StoredEvaluations, KeepLossesThatAreNoFloats) {
  Columns columns;
  add_segment(columns, 0, {{0, 0, {1, 2}, {0.1, 1e-300}}});
  const fs::path folder = scores::write_evaluation(run_.path(), some_evaluation(columns), columns);
  EXPECT_THAT(StoredEvaluation::open(folder).columns().wide_nll, ElementsAre(0.1, 1e-300));
}

TEST_F(StoredEvaluations, KeepWhereTheInformationLies) {
  Columns columns;
  add_segment(columns, 0, {{0, 0, {1, 2}, {0.5, 0.5}}}, {2, 1});
  scores::EvaluationToStore evaluation = some_evaluation(columns);
  evaluation.unit = scores::SampleUnit::kEpisode;
  const auto read =
      StoredEvaluation::open(scores::write_evaluation(run_.path(), evaluation, columns));
  EXPECT_EQ(read.unit(), "sequence");
  EXPECT_EQ(read.sample_unit(), scores::SampleUnit::kEpisode);
  EXPECT_THAT(read.columns().source, ElementsAre(2, 1));
  EXPECT_EQ(read.samples().at(0).slices.at("outside").targets, 1);
}

TEST_F(StoredEvaluations, KeepQuestions) {
  Columns columns;
  add_segment(columns, 0, {{0, 3, {1, 2}, {2.0, 0.5}}, {1, 3, {4}, {2.0}}});
  scores::EvaluationToStore evaluation = some_evaluation(columns);
  evaluation.unit = scores::SampleUnit::kQuestion;
  evaluation.units = [](std::int64_t question) { return question == 0 ? "a" : ""; };
  const auto read =
      StoredEvaluation::open(scores::write_evaluation(run_.path(), evaluation, columns));
  EXPECT_EQ(read.unit(), "question");
  ASSERT_EQ(read.samples().size(), 2u);
  EXPECT_EQ(read.samples()[0].id, "valid/0");
  EXPECT_EQ(read.samples()[0].sums,
            (scores::Sums{.targets = 2, .nll = 2.5, .correct = 1, .questions = 1}));
  EXPECT_EQ(read.samples()[0].sums.accuracy(), 1.0);
  EXPECT_EQ(read.samples()[1].sums.accuracy(), 0.0);
  EXPECT_EQ(read.samples()[0].unit, "a");
  EXPECT_EQ(read.samples()[1].unit, "");
}

TEST_F(StoredEvaluations, KeepTheGroupsOfSamples) {
  const auto grouped = [&](const char* from, const char* to) {
    const fs::path folder = write([](scores::EvaluationToStore& evaluation) {
      evaluation.groups = [](std::int64_t document) {
        return std::map<std::string, std::string>{{"depth", document == 1 ? "0.4-0.5" : "0.0-0.1"},
                                                  {"length", "30"}};
      };
    });
    replace(folder / scores::kSamplesFile, from, to);
    if (std::string_view(from) != to) correct_checksums(folder);
    return folder;
  };
  const auto read = StoredEvaluation::open(grouped("0.4-0.5", "0.4-0.5"));
  EXPECT_EQ(read.samples().at(1).groups.at("depth"), "0.4-0.5");
  EXPECT_EQ(read.samples().at(2).groups.at("depth"), "0.0-0.1");
  EXPECT_EQ(read.samples().at(2).groups.at("length"), "30");

  EXPECT_THAT(
      error(grouped("\"depth\":\"0.4-0.5\",", "")),
      HasSubstr("samples.jsonl: the stored evaluation is damaged: line 2: other groups than "
                "in line 1: expected depth, length, got length"));
  EXPECT_THAT(error(grouped("0.4-0.5", "")),
              HasSubstr("damaged: line 2: expected a group of depth, got \"\""));
  EXPECT_THAT(error(grouped("\"0.4-0.5\"", "4")), HasSubstr("damaged: line 2: expected a sample"));
}

TEST_F(StoredEvaluations, StoreTheVocabularysCountsOnce) {
  write([](scores::EvaluationToStore& evaluation) { evaluation.vocabulary_counts = {5, 0, 2}; });
  const fs::path second = write([](scores::EvaluationToStore& evaluation) {
    evaluation.name.step = 50;
    evaluation.vocabulary_counts = {};
  });
  EXPECT_THAT(StoredEvaluation::open(second).vocabulary_counts(), ElementsAre(5, 0, 2));
  EXPECT_TRUE(scores::has_vocabulary_counts(run_.path()));
}

TEST_F(StoredEvaluations, ReplaceThemselvesAndStandBesideOthers) {
  write();
  const fs::path same =
      write([](scores::EvaluationToStore& evaluation) { evaluation.info["statement"] = "second"; });
  write([](scores::EvaluationToStore& evaluation) { evaluation.name.settings = "ffffffff"; });
  EXPECT_EQ(StoredEvaluation::open(same).info().at("statement"), "second");
  EXPECT_THAT(names(),
              ElementsAre("lock", "valid-step00000040-0123abcd", "valid-step00000040-ffffffff"));
}

TEST_F(StoredEvaluations, AreRemovedByNameAndContents) {
  write([](scores::EvaluationToStore& evaluation) { evaluation.info["written_by"] = "train"; });
  const fs::path kept =
      write([](scores::EvaluationToStore& evaluation) { evaluation.name.step = 41; });
  const auto removed = scores::remove_evaluations(
      run_.path(), [](const scores::EvaluationName& name, const Json& info) {
        return name.step == 40 && info.value("written_by", Json()) == Json("train");
      });
  EXPECT_EQ(removed.size(), 1U);
  EXPECT_THAT(scores::list_evaluations(run_.path()), ElementsAre(kept));
}

TEST_F(StoredEvaluations, WithoutTheirInfoAreUnfinished) {
  const fs::path folder = write();
  fs::remove(folder / scores::kInfoFile);
  EXPECT_THAT(scores::list_evaluations(run_.path()), IsEmpty());
  EXPECT_THAT(error(folder),
              HasSubstr("2: " + folder.string() + ": there is no finished evaluation"));
  EXPECT_THAT(error(run_ / "nothing"), HasSubstr("got no folder"));
  EXPECT_THAT(scores::list_evaluations(run_ / "nothing"), IsEmpty());
}

TEST_F(StoredEvaluations, OfAnotherFormatOrVersionAreRefused) {
  const fs::path folder = write();
  const fs::path info = folder / scores::kInfoFile;
  replace(info, "\"version\": 1", "\"version\": 2");
  EXPECT_THAT(error(folder), HasSubstr("evaluation.json: version: this program cannot read the "
                                       "stored evaluation: expected 1, got 2; use the version"));
  replace(info, "mneme-evaluation", "other");
  EXPECT_THAT(error(folder), HasSubstr("expected \"mneme-evaluation\", got \"other\""));
}

TEST_F(StoredEvaluations, ThatAreDamagedNameTheFile) {
  const fs::path folder = write();
  const auto fresh = [&] { write(); };
  const fs::path columns = folder / scores::kColumnsFile, samples = folder / scores::kSamplesFile,
                 info = folder / scores::kInfoFile;

  std::string bytes = read_file(columns);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file_atomic(columns, bytes);
  EXPECT_THAT(error(folder), HasSubstr("1: " + columns.string() +
                                       ": the stored evaluation is damaged: its checksum"));
  fresh();
  write_file_atomic(columns, read_file(columns).substr(0, 300));
  EXPECT_THAT(error(folder), HasSubstr(columns.string() + ": the stored evaluation is damaged"));
  correct_checksums(folder);
  EXPECT_THAT(error(folder), HasSubstr("1: " + columns.string()));
  fresh();
  fs::remove(columns);
  EXPECT_THAT(error(folder), HasSubstr(columns.string() + ": cannot open"));
  fresh();
  replace(samples, "\"targets\":3", "\"targets\":4");
  EXPECT_THAT(error(folder), HasSubstr(samples.string() + ": the stored evaluation is damaged"));
  fresh();
  replace(info, "\"task\": \"text\"", "\"task\": \"tokens\"");
  EXPECT_THAT(error(folder), HasSubstr(info.string() + ": the stored evaluation is damaged"));
  fresh();
  write_file_atomic(info, "{\"format\"");
  EXPECT_THAT(error(folder), HasSubstr(info.string() + ": the stored evaluation is damaged: no "
                                                       "JSON object"));
}

// The checksums agree; what the files say does not.
TEST_F(StoredEvaluations, ThatContradictThemselvesAreRefused) {
  const fs::path folder = write();
  const auto changed = [&](std::string_view file, const char* from, const char* to) {
    write();
    replace(folder / file, from, to);
    correct_checksums(folder);
    return error(folder);
  };
  EXPECT_THAT(changed(scores::kInfoFile, "\"correct\": 3", "\"correct\": 4"),
              HasSubstr("the columns do not add up to the result in evaluation.json: expected 8 "
                        "targets, 4 correct, nll 11.125, got 8 targets, 3 correct, nll 11.125"));
  EXPECT_THAT(
      changed(scores::kSamplesFile, "\"nll\":3.875", "\"nll\":3.876"),
      HasSubstr("samples.jsonl: the stored evaluation is damaged: a sample differs from the "
                "columns: expected valid/1"));
  EXPECT_THAT(changed(scores::kSamplesFile, "\"id\"", "\"name\""),
              HasSubstr("samples.jsonl: the stored evaluation is damaged: line 1"));
  EXPECT_THAT(changed(scores::kInfoFile, "\"unit\": \"document\"", "\"unit\": \"page\""),
              HasSubstr("its unit: expected document, sequence, question or lane"));
  EXPECT_THAT(changed(scores::kInfoFile, "\"step\": 40", "\"step\": \"x\""),
              HasSubstr("key \"step\": expected an integer"));
}

TEST_F(StoredEvaluations, WithUnequalColumnsOrBadLossesAreRefused) {
  const fs::path folder = write();
  const auto with = [&](DType nll_type, const std::vector<float>& nll, std::int64_t targets) {
    SafetensorsWriter writer;
    const std::vector<std::int32_t> ids(16, 0);
    const std::vector<std::uint8_t> correct(16, 0);
    writer.add("nll", nll_type, {8}, nll.data());
    writer.add("target", DType::I32, {targets}, ids.data());
    for (const char* name : {"document", "position", "lane", "place", "segment"}) {
      writer.add(name, DType::I32, {8}, ids.data());
    }
    writer.add("correct", DType::U8, {8}, correct.data());
    writer.write(folder / scores::kColumnsFile);
    correct_checksums(folder);
    return error(folder);
  };
  const std::vector<float> ones(8, 1.0F);
  EXPECT_THAT(with(DType::F32, ones, 7), HasSubstr("nll.safetensors: tensor \"target\""));
  EXPECT_THAT(with(DType::I32, ones, 8), HasSubstr("tensor \"nll\": expected F32 or F64"));
  std::vector<float> bad = ones;
  bad[5] = std::numeric_limits<float>::infinity();
  EXPECT_THAT(with(DType::F32, bad, 8), HasSubstr("nll[5]: expected a finite number, got inf"));
}

TEST_F(StoredEvaluations, StayWhenTheDiskIsFull) {
  const fs::path folder = write();
  {
    const FileSizeLimit limit(64);
    EXPECT_THAT(error_of([&] {
                  write([](scores::EvaluationToStore& one) { one.info["statement"] = "new"; });
                }),
                HasSubstr("File too large"));
  }
  EXPECT_EQ(StoredEvaluation::open(folder).info().value("statement", "none"), "none");
  EXPECT_THAT(names(), ElementsAre("lock", "valid-step00000040-0123abcd"));
}

TEST_F(StoredEvaluations, CannotBeWrittenIntoAReadOnlyFolder) {
  fs::permissions(run_.path(), fs::perms::owner_read | fs::perms::owner_exec |
                                   fs::perms::others_read | fs::perms::others_exec);
  {
    const OrdinaryUser user;
    EXPECT_THAT(error_of([&] { write(); }),
                HasSubstr("evaluations: the folder of stored evaluations cannot be made: got "
                          "Permission denied"));
  }
  fs::permissions(run_.path(), fs::perms::all);
}

TEST_F(StoredEvaluations, ThatCannotBeReadAreNamed) {
  const fs::path folder = write();
  const fs::path all = folder.parent_path();
  fs::permissions(run_.path(), fs::perms::all);
  fs::permissions(all, fs::perms::all);
  fs::permissions(folder, fs::perms::none);
  {
    const OrdinaryUser user;
    EXPECT_THAT(scores::list_evaluations(run_.path()), ElementsAre(folder));
    EXPECT_THAT(error_of([&] { static_cast<void>(StoredEvaluation::open(folder)); }),
                HasSubstr("Permission denied"));
  }
  fs::permissions(folder, fs::perms::all);
  fs::permissions(all, fs::perms::none);
  {
    const OrdinaryUser user;
    EXPECT_THAT(error_of([&] { static_cast<void>(scores::list_evaluations(run_.path())); }),
                HasSubstr("1: " + all.string() + ": cannot read: Permission denied"));
  }
  fs::permissions(all, fs::perms::all);
}

TEST_F(StoredEvaluations, AreNotStoredWhileAnotherProcessWrites) {
  const fs::path all = write().parent_path();
  const scores::WriterLock other(all);
  EXPECT_THAT(error_of([&] { const scores::WriterLock lock(all, std::chrono::milliseconds(50)); }),
              HasSubstr("1: " + all.string() +
                        ": the evaluation cannot be stored: expected to be the only process that "
                        "writes here, got another one, for 0.05 seconds"));
}

TEST_F(StoredEvaluations, ThatCannotBeRemovedAreNamed) {
  const fs::path folder = write();
  constexpr fs::perms kWrite =
      fs::perms::owner_write | fs::perms::group_write | fs::perms::others_write;
  fs::permissions(folder, fs::perms::all & ~kWrite);
  const fs::path all = folder.parent_path();
  for (const fs::path& path : {run_.path(), all, all / "lock", folder / scores::kInfoFile})
    fs::permissions(path, fs::perms::all);
  {
    const OrdinaryUser user;
    EXPECT_THAT(error_of([&] {
                  scores::remove_evaluations(run_.path(),
                                             [](const auto&, const Json&) { return true; });
                }),
                HasSubstr("1: " + folder.string() +
                          ": cannot remove the stored evaluation: got Permission denied"));
  }
  fs::permissions(folder, fs::perms::all);
  static_cast<void>(StoredEvaluation::open(folder));
}

// A process is killed at many places of its writing: what is found afterwards is whole.
TEST_F(StoredEvaluations, AreWholeWhenTheirWriterIsKilled) {
  const fs::path folder = write();
  for (int round = 0; round < 40; ++round) {
    const pid_t child = ::fork();
    if (child == 0) {
      while (true) {
        write([](scores::EvaluationToStore& one) { one.info["statement"] = "second"; });
        write([](scores::EvaluationToStore& one) { one.info["statement"] = "first"; });
      }
    }
    ::usleep(static_cast<useconds_t>(500 + 370 * round));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    ASSERT_THAT(scores::list_evaluations(run_.path()), ElementsAre(folder));
    static_cast<void>(StoredEvaluation::open(folder));  // throws for one that is not whole
  }
  write();  // removes what the killed ones left
  EXPECT_THAT(names(), ElementsAre("lock", "valid-step00000040-0123abcd"));
}

TEST(EvaluationNames, AreReadBack) {
  const scores::EvaluationName name{.split = "test", .step = 123456789, .settings = "00ff00ff"};
  EXPECT_EQ(to_text(name), "test-step123456789-00ff00ff");
  const auto read = scores::parse_evaluation_name("valid-step00000012-00ff00ff");
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->split, "valid");
  EXPECT_EQ(read->step, 12);
  EXPECT_EQ(read->settings, "00ff00ff");
  for (const char* other :
       {"", "lock", "valid", "valid-step12-00ff00ff", "-step00000012-00ff00ff",
        "valid-step0000001x-00ff00ff", "valid-step00000012-00FF00ff", "valid-step00000012-00ff",
        ".valid-step00000012-00ff00ff.tmp", "../valid-step00000012-00ff00ff"}) {
    EXPECT_FALSE(scores::parse_evaluation_name(other)) << other;
  }
}

}  // namespace
}  // namespace mneme::test
