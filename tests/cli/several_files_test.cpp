// Commands that take several files, with a last one that cannot be used: it is refused before
// anything is computed or written.
#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "host/base/file/file.hpp"
#include "tests/cli/program.hpp"

namespace mneme::test {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SeveralFiles : public CliTest {
 protected:
  void SetUp() override {
    experiment(tiny());
    for (const char* const run : {"a", "b"}) {
      expect_done(run_mneme({"train", file("experiment.toml"), "--run", file(run), "--quiet",
                             "--set", "train.steps=2"}));
    }
    folder_.write("good.toml", "[memory]\n");
    folder_.write("bad.toml", "[memory]\nplugin = [\"x\"]\n");
    folder_.write("one.txt", "a text of a few words\n");
    folder_.write("two.txt", "another text of a few words\n");
  }
  // Every file below the folder, with its time.
  [[nodiscard]] std::vector<std::pair<std::string, fs::file_time_type>> files() const {
    std::vector<std::pair<std::string, fs::file_time_type>> out;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      if (entry.path().filename() == "lock") continue;
      out.emplace_back(entry.path().string(), entry.last_write_time());
    }
    std::ranges::sort(out);
    return out;
  }
};

TEST_F(SeveralFiles, ABadLastOneIsRefusedBeforeAnythingIsComputed) {
  // The command line, and what its message names.
  const std::vector<std::pair<std::string, std::string>> commands = {
      {"eval {a} --memory {good.toml} --memory {bad.toml}", "bad.toml"},
      {"eval {a} --memory {good.toml} --memory {none.toml}", "none.toml"},
      {"compare {experiment.toml} --memory {good.toml} --memory {bad.toml} --run {out}",
       "bad.toml"},
      {"compare {experiment.toml} --memory {good.toml} --memory {good.toml},train.ster=1 --run "
       "{out}",
       "train.ster"},
      {"compare {a} {b} {none}", "none"},
      {"report {a} {b} {none} --out {out}", "none"},
      {"report {a} {b} {one.txt} --out {out}", "one.txt"},
      {"analyze {a} --memory {good.toml} --memory {bad.toml} --out {out}", "bad.toml"},
      {"analyze distance {a} {b} {none} --out {out}", "none"},
      {"analyze distance {a} {b} --memory {good.toml} --memory {bad.toml} --out {out}", "bad.toml"},
      {"analyze probes {a} {b} {none} --out {out}", "none"},
      {"analyze regression --memory {good.toml} --memory {bad.toml} --out {out}", "good.toml"},
      {"data prepare --train {one.txt} {two.txt} {none.txt} --out {out}", "none.txt"},
      {"data prepare --train {one.txt} --valid {two.txt} {none.txt} --out {out}", "none.txt"},
      {"plugins lock {experiment.toml} {good.toml} {bad.toml}", "bad.toml"},
  };
  const auto before = files();
  for (const auto& [line, named] : commands) {
    SCOPED_TRACE(line);
    const ProgramResult result = run_mneme(shell_words(with_files(line)));
    expect_refusal(result, 2, {named});
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_EQ(files(), before);
  }
}

}  // namespace
}  // namespace mneme::test
