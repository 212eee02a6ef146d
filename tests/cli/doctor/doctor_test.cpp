#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "host/base/text.hpp"
#include "tests/base/sanitized.hpp"
#include "tests/cli/program.hpp"
#include "tests/plugin/broken/broken_plugin.hpp"

namespace mneme::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class Doctor : public CliTest {
 protected:
  ProgramResult doctor(std::vector<std::string> arguments,
                       const std::vector<std::string>& environment = {}) const {
    arguments.insert(arguments.begin(), "doctor");
    return run_mneme(arguments, {.folder = folder_.path(), .environment = environment});
  }
  // The finding about a subject.
  static Json find(const ProgramResult& result, const std::string& subject) {
    const Json report = Json::parse(result.out);
    for (const Json& finding : report.at("findings")) {
      if (finding.at("subject") == subject) return finding;
    }
    ADD_FAILURE() << "nothing about " << subject << " in " << result.out;
    return Json::object();
  }
};

TEST_F(Doctor, SaysWhatThisMachineHas) {
  const ProgramResult result = doctor({"--json", "-"});
  expect_done(result);
  EXPECT_THAT(find(result, "LibTorch").at("text").get<std::string>(), StartsWith("2."));
  EXPECT_GE(find(result, "processor").at("details").at("cores").get<int>(), 1);
  EXPECT_GE(find(result, "processor").at("details").at("threads").get<int>(), 1);
  EXPECT_NE(find(result, "current folder").at("state"), "broken");
  EXPECT_GT(find(result, "current folder").at("details").at("free_bytes").get<std::uint64_t>(), 0U);
  EXPECT_EQ(find(result, "plugin folder").at("state"),
            std::filesystem::is_directory(MNEME_PLUGIN_DIR) ? "fine" : "absent");
  if (!is_address_sanitized()) {
    EXPECT_THAT(find(result, "allocator").at("text").get<std::string>(), StartsWith("jemalloc 5."));
    EXPECT_EQ(find(result, "allocator").at("details").at("thp"), "always");
  }
  const ProgramResult text = doctor({});
  for (const std::string word :
       {"ok  mneme", "processor", "CUDA in LibTorch", "sealed memory", "C++ compiler",
        "nothing is broken\n", "\nmneme doctor python: whether memories in Python can run"}) {
    EXPECT_THAT(text.out, HasSubstr(word));
  }
}

TEST_F(Doctor, SaysWhatToDoWhereSomethingIsAmiss) {
  const ProgramResult result =
      doctor({"--plugins", file("absent"), "--json", "-"}, {"PATH=/nowhere", "LC_ALL=C"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  int amiss = 0;
  const Json report = Json::parse(result.out);
  for (const Json& finding : report.at("findings")) {
    if (finding.at("state") == "fine") continue;
    ++amiss;
    EXPECT_NE(finding.at("advice"), "") << finding;
  }
  EXPECT_GE(amiss, 6);
}

TEST_F(Doctor, TellsUsableFromBrokenPlugins) {
  const std::string broken = file("broken");
  std::filesystem::create_directory(broken);
  for (const std::string name : {"good", "no_note", "abi_note"}) {
    folder_.write("broken/" + name + ".so", broken_plugin(name));
  }
  const ProgramResult result = doctor({"--plugins", broken, "--json", "-"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(find(result, "plugin good.so").at("state"), "fine");
  EXPECT_EQ(find(result, "plugin no_note.so").at("state"), "broken");
  EXPECT_THAT(find(result, "plugin no_note.so").at("text").get<std::string>(),
              StartsWith("not a plugin: "));
  const Json other = find(result, "plugin abi_note.so");
  EXPECT_EQ(other.at("state"), "broken");
  EXPECT_THAT(other.at("text").get<std::string>(), HasSubstr("cannot be loaded: "));
  EXPECT_EQ(other.at("details").at("sha256").get<std::string>().size(), 64U);
  const ProgramResult text = doctor({"--plugins", broken});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, HasSubstr("!!  plugin no_note.so"));
  EXPECT_THAT(text.out, HasSubstr("-> remove the file from the folder"));
  EXPECT_THAT(text.out, HasSubstr("broken: see the lines with !!\n"));
}

// They are plugins, and should not be removed.
TEST_F(Doctor, SaysHowToMendADamagedPluginAndOneThatOthersMayWrite) {
  const std::string folder = file("broken");
  std::filesystem::create_directory(folder);
  const std::string good = broken_plugin("good");
  folder_.write("broken/cut.so", good.substr(0, 5000));
  folder_.write("broken/open.so", good);
  std::filesystem::permissions(folder + "/open.so", std::filesystem::perms(0666));
  const ProgramResult result = doctor({"--plugins", folder, "--json", "-"});
  const Json cut = find(result, "plugin cut.so"), open = find(result, "plugin open.so");
  EXPECT_THAT(cut.at("text").get<std::string>(), StartsWith("cannot be loaded: "));
  EXPECT_EQ(cut.at("advice"), "copy or build the plugin again");
  EXPECT_THAT(open.at("text").get<std::string>(), StartsWith("cannot be loaded: refused: every"));
  EXPECT_EQ(open.at("advice"), "chmod o-w it, after making sure that it is yours");
  EXPECT_THAT(run_mneme({"plugins", "list", "--plugins", folder}).out,
              HasSubstr("cut.so: cannot be loaded\n"));
}

TEST_F(Doctor, TellsAnEmptyFromAMissingPluginFolder) {
  std::filesystem::create_directory(folder_ / "plugins");
  const ProgramResult empty = doctor({"--plugins", "plugins", "--json", "-"});
  expect_done(empty);
  EXPECT_EQ(find(empty, "plugin folder").at("state"), "absent");
  const ProgramResult missing = doctor({"--plugins", "absent", "--json", "-"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_EQ(find(missing, "plugin folder").at("state"), "broken");
  EXPECT_THAT(find(missing, "plugin folder").at("text").get<std::string>(), HasSubstr("absent"));
}

// Nobody can make files in /proc, not even root.
TEST_F(Doctor, FindsFoldersThatCannotBeWritten) {
  const ProgramResult result =
      run_mneme({"doctor", "--json", "-"}, {.folder = "/proc", .environment = {"TMPDIR=/proc"}});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(find(result, "current folder").at("state"), "broken");
  EXPECT_THAT(find(result, "current folder").at("text").get<std::string>(),
              HasSubstr("/proc: cannot be written: "));
  EXPECT_FALSE(find(result, "temporary folder").at("details").at("writable").get<bool>());
}

TEST_F(Doctor, LooksIntoTheRunsFolder) {
  std::filesystem::create_directory(folder_ / "runs");
  EXPECT_NE(find(doctor({"--json", "-"}), "runs").at("state"), "broken");
  std::filesystem::remove(folder_ / "runs");
  std::filesystem::create_symlink("/proc", folder_ / "runs");
  const ProgramResult result = doctor({"--json", "-"});
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_EQ(find(result, "runs").at("state"), "broken");
}

TEST_F(Doctor, AsksTheCompilersForTheirVersions) {
  const auto tool = [&](const std::string& name, const std::string& text) {
    const auto path = folder_.write(name, "#!/bin/sh\n" + text + "\n");
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  };
  tool("nvcc", "printf 'nvcc: NVIDIA\\nCuda compilation tools, release 13.0, V13.0.1\\n'");
  tool("c++", "echo 'c++ 12.2.0'; echo more");
  tool("cmake", "exit 3");
  const ProgramResult result = doctor({"--json", "-"}, {"PATH=" + folder_.path().string()});
  expect_done(result);
  EXPECT_THAT(find(result, "CUDA compiler").at("text").get<std::string>(),
              StartsWith("Cuda compilation tools, release 13.0, V13.0.1 ("));
  EXPECT_EQ(find(result, "C++ compiler").at("details").at("version"), "c++ 12.2.0");
  EXPECT_EQ(find(result, "CMake").at("state"), "absent");
  EXPECT_THAT(find(result, "CMake").at("text").get<std::string>(), HasSubstr("--version fails"));
  EXPECT_EQ(find(result, "C compiler").at("text"), "no cc, no gcc, no clang on PATH");
}

TEST_F(Doctor, NamesTheEncoding) {
  const ProgramResult ascii = doctor({"--json", "-"}, {"LC_ALL=C"});
  EXPECT_EQ(find(ascii, "terminal").at("state"), "absent");
  EXPECT_THAT(find(ascii, "terminal").at("advice").get<std::string>(), HasSubstr("C.UTF-8"));
  EXPECT_EQ(find(doctor({"--json", "-"}, {"LC_ALL=C.UTF-8"}), "terminal").at("state"), "fine");
}

// Programs that mneme starts do not inherit its signal settings.
TEST_F(Doctor, StartsProgramsWithTheSignalsThatItWasStartedWith) {
  const std::filesystem::path program =
      folder_.write("c++", "#!/bin/sh\necho $(/bin/grep -h 'SigBlk\\|SigIgn' /proc/self/status)\n");
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  const ProgramResult result = doctor({"--json", "-"}, {"PATH=" + folder_.path().string()});
  std::istringstream version(
      find(result, "C++ compiler").at("details").at("version").get<std::string>());
  std::string blocked_title, blocked, ignored_title, ignored;
  version >> blocked_title >> blocked >> ignored_title >> ignored;
  ASSERT_EQ(blocked_title + ignored_title, "SigBlk:SigIgn:") << version.str();
  const auto holds = [](const std::string& set, int signal) {
    return (std::stoull(set, nullptr, 16) >> (signal - 1) & 1) != 0;
  };
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) EXPECT_FALSE(holds(blocked, signal)) << signal;
  EXPECT_FALSE(holds(ignored, SIGXFSZ));
}

}  // namespace
}  // namespace mneme::test
