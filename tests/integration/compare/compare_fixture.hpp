// Comparisons of a model without a memory and with the cache, through the program.
#pragma once

#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "host/base/file/file.hpp"
#include "host/base/text.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {

namespace fs = std::filesystem;

class CompareRun : public CliTest {
 protected:
  void SetUp() override {
    plugin_ = fs::path(MNEME_PLUGIN_DIR) / "xl_cache.so";
    ASSERT_TRUE(fs::exists(plugin_)) << plugin_;
    none_ = folder_.write("none.toml", "[memory]\n").string();
    cache_ = folder_.write("cache.toml", memory_with("xl_cache", MNEME_PLUGIN_DIR, "rows = 16"))
                 .string();
  }
  std::vector<std::string> arguments(const std::vector<std::string>& more,
                                     const std::string& folder = "comparison") const {
    std::vector<std::string> all{
        "compare", experiment(tiny()), "--memory",  none_, "--memory", cache_,
        "--run",   file(folder),       "--threads", "1"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  ProgramResult compare(const std::vector<std::string>& more,
                        const std::string& folder = "comparison") const {
    return run_mneme(arguments(more, folder));
  }
  // suite.toml: two tasks with both memories, each with a setting of its own; "" = none.
  void write_suite(const std::string& first, const std::string& second) const {
    const auto task = [](const std::string& name, const std::string& setting) {
      return str("[[task]]\n", name, "experiment = \"motif.toml\"\n",
                 setting.empty() ? "" : str("set = [\"", setting, "\"]\n"));
    };
    folder_.write("motif.toml", tiny());
    folder_.write("suite.toml",
                  str("seeds = 1\n[[memory]]\nfile = \"none.toml\"\n[[memory]]\nfile = "
                      "\"cache.toml\"\n",
                      task("", first), task("name = \"short\"\n", second)));
  }
  Json record(const std::string& folder = "comparison") const {
    return Json::parse(read_file(folder_ / (folder + "/comparison.json")));
  }
  // What is said of a run that is done, with the loss of its only evaluation.
  std::string done_line(const std::string& run, int place) const {
    double loss = 0.0;
    for (const auto& entry : fs::directory_iterator(file("comparison/" + run + "/evaluations"))) {
      if (!entry.is_directory()) continue;
      loss = Json::parse(read_file(entry.path() / "evaluation.json"))["result"]["loss"];
    }
    EXPECT_GT(loss, 0.0) << run;
    return str(run, " is done (", place, " of 2 runs): valid loss ", format_number(loss, 4), "\n");
  }
  // Nothing in a comparison that was not edited speaks against itself.
  void expect_verified(const std::string& folder = "comparison") const {
    expect_done(run_mneme({"report", file(folder), "--bundle", file("bundle.tar")}));
    const ProgramResult result = run_mneme({"verify", file("bundle.tar")});
    EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  }
  // Every number of the tables but those of time and memory, which differ from run to run.
  Json numbers(const std::string& name) const {
    Json out = Json::array();
    for (const Json& table : Json::parse(read_file(folder_ / name)).at("tables")) {
      for (const Json& row : table.at("rows")) {
        const std::string number = row.at(0).get<std::string>();
        const auto says = [&](const char* word) { return number.find(word) != std::string::npos; };
        if (!says("tokens/s") && !says("second") && !says("peak")) {
          out.push_back(row);
        }
      }
    }
    return out;
  }

  // Waits until no process works in a folder of the comparison any more; false after a minute.
  bool are_locks_free() const {
    for (int i = 0; i < 3000; ++i) {
      bool is_free = true;
      for (const auto& entry : fs::recursive_directory_iterator(file("comparison"))) {
        if (entry.path().filename() != "lock") continue;
        const Descriptor lock(::open(entry.path().c_str(), O_RDWR | O_CLOEXEC));
        is_free = is_free && ::flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
      }
      if (is_free) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }
  // Waits until a run has done a step.
  bool has_begun(const std::string& run) const {
    const fs::path metrics = file("comparison/" + run + "/metrics.jsonl");
    std::error_code ignored;
    for (int i = 0; i < 3000; ++i) {
      if (fs::exists(metrics, ignored) && fs::file_size(metrics, ignored) > 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  fs::path plugin_;
  std::string none_;
  std::string cache_;
};

}  // namespace mneme::test
