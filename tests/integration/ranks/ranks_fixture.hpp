// Trainings over several ranks, as mpirun starts them: what their tests share.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/integration/process.hpp"

namespace mneme::test {

namespace fs = std::filesystem;

// How a command of a shell ended.
struct Result {
  int exit_code = 0;
  std::string output;  // both streams
};

class Ranks : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_mpirun()) GTEST_SKIP() << "there is no mpirun";
  }

  [[nodiscard]] std::string file(const std::string& name) const {
    return (folder_ / name).string();
  }

  // mpirun -n RANKS mneme ARGUMENTS; "mneme ARGUMENTS" for 0 ranks.
  [[nodiscard]] static std::string command(int ranks, const std::string& arguments) {
    const std::string launcher =
        ranks == 0 ? std::string("env OMP_NUM_THREADS=1 ") : str(mpirun(), "-n ", ranks, ' ');
    return str(launcher, MNEME_PROGRAM, ' ', arguments);
  }

  [[nodiscard]] Result launch(const std::string& command) const {
    const std::string log = file("log");
    const int status = std::system(str(command, " >", log, " 2>&1 </dev/null").c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_file(log)};
  }
  [[nodiscard]] Result run(int ranks, const std::string& arguments,
                           const std::string& before = "") const {
    return launch(before + command(ranks, arguments));
  }

  // Starts a run of two ranks and comes back at once. Its exit code is a line of the file "code"
  // once it has ended, and its output is in "log" by then.
  void start(const std::string& arguments, const std::string& before = "") const {
    fs::remove(folder_ / "code");
    const std::string code = file("code");  // written under another name: it is there as a whole
    ASSERT_EQ(std::system(str("(", before, command(2, arguments), " >", file("log"),
                              " 2>&1 </dev/null; echo $? >", code, ".part; mv ", code, ".part ",
                              code, ") &")
                              .c_str()),
              0);
  }

  // Two ranks with arguments of their own.
  Result run_two(const std::string& of_first, const std::string& of_second) const {
    const std::string script =
        folder_
            .write("start.sh",
                   str("if [ $OMPI_COMM_WORLD_RANK = 0 ]; then exec ", MNEME_PROGRAM, ' ', of_first,
                       "; else exec ", MNEME_PROGRAM, ' ', of_second, "; fi\n"))
            .string();
    return launch(str(mpirun(), "-n 2 sh ", script));
  }

  void expect_done(const Result& result) const { EXPECT_EQ(result.exit_code, 0) << result.output; }

  // The numbers of metrics.jsonl that are no times, by line and name.
  [[nodiscard]] std::map<std::string, double> numbers(const std::string& run) const {
    std::map<std::string, double> out;
    std::istringstream in(read_file(folder_ / run / "metrics.jsonl"));
    int line_number = 0;
    for (std::string line; std::getline(in, line); ++line_number) {
      const Json flat = Json::parse(line).flatten();
      for (const auto& [name, value] : flat.items()) {
        const bool is_time = name.find("seconds") != std::string::npos ||
                             name.find("per_second") != std::string::npos || name.ends_with("/mfu");
        if (value.is_number() && !is_time) out[str(line_number, name)] = value.get<double>();
      }
    }
    return out;
  }

  // Of all steps.
  [[nodiscard]] std::vector<double> losses(const std::string& run) const {
    std::vector<double> out;
    std::istringstream in(read_file(folder_ / run / "metrics.jsonl"));
    for (std::string line; std::getline(in, line);) {
      const Json json = Json::parse(line);
      if (json.at("kind") == "step") out.push_back(json.at("loss").get<double>());
    }
    return out;
  }

  void expect_equal(const std::string& one, const std::string& other, double tolerance) const {
    const auto a = numbers(one), b = numbers(other);
    EXPECT_GT(a.size(), 20u);
    ASSERT_EQ(a.size(), b.size()) << one << ' ' << other;
    double most = 0.0;
    std::string where;
    for (const auto& [name, value] : a) {
      ASSERT_TRUE(b.contains(name)) << name;
      const double far = std::abs(value - b.at(name)) / std::max(1.0, std::abs(value));
      if (far > most) where = name;
      most = std::max(most, far);
    }
    EXPECT_LE(most, tolerance) << one << ' ' << other << ": " << where;
  }

  // Trains a memory; the arguments come after `train`.
  std::string experiment(const std::string& memory, const std::string& more = "",
                         const std::string& train = "") const {
    return folder_
        .write("experiment.toml", str("[memory]\n", memory, R"(
[model]
layers = 2
heads = 2
head_width = 8
width = 16
ff = 32
dropout = 0.0
position = "disentangled"
init = "article"
)",
                                      more, kMotifData, R"([train]
segment = 8
lanes = 4
steps = 50
lr = 3e-3
log_every = 1
precision = "f64"
clip = 0.5
)",
                                      train, R"(
[eval]
steps = 6
)"))
        .string();
  }

  static std::string tier(const std::string& plugin, const std::string& options) {
    return str("plugins = [\"", MNEME_PLUGIN_DIR, "\"]\n[[memory.tier]]\nplugin = \"", plugin,
               "\"\n", options, '\n');
  }

  TemporaryFolder folder_;
};

}  // namespace mneme::test
