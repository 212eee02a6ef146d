#include "host/plugin/loader.hpp"

#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cctype>
#include <span>
#include <thread>
#include <vector>

#include "host/base/file/checksum.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/plugin/file/note.hpp"
#include "mneme/plugin.h"
#include "tests/base/cases.hpp"
#include "tests/plugin/loader_support.hpp"

namespace mneme::memory {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

namespace fs = std::filesystem;

constexpr const char* kWhere = "memory.toml:4:10";
const std::string kTableSize =
    "expected a struct_size of at least 120, at most 65536, a multiple of 8, got ";

// What `create` of a test plugin reports through its traits.
mneme_tier_traits traits_of(const plugin::LoadedPlugin& plugin) {
  auto traits = MNEME_INIT(mneme_tier_traits);
  auto error = MNEME_INIT(mneme_error);
  const auto model = MNEME_INIT(mneme_model_info);
  void* instance = nullptr;
  EXPECT_EQ(plugin.table->create(nullptr, nullptr, &model, &traits, &instance, &error), MNEME_OK);
  plugin.table->destroy(instance);
  return traits;
}

// How many sealed copies this process has mapped as code.
int mapped_copies() {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    if (line.find("r-xp") != std::string::npos && line.find("mneme-plugin") != std::string::npos) {
      ++count;
    }
  }
  return count;
}

// The shell of every refusal: a folder with one plugin, loaded by its name.
class LoaderTest : public ::testing::Test {
 protected:
  // Loads a copy of a built plugin; the message of the refusal.
  std::string refusal_of(const std::string& plugin) {
    folder_.add(plugin);
    return refusal_of_file(plugin);
  }
  std::string refusal_of_file(const std::string& name, const std::string& pin = "") {
    const std::string message = refusal([&] { loader_.load(name, {folder_.text()}, pin, kWhere); });
    EXPECT_THAT(message, StartsWith(str(kWhere, ": plugin '", name, "' (", folder_.text(), '/',
                                        name, ".so): ")));
    return message;
  }
  const plugin::LoadedPlugin& load(const std::string& name) {
    return loader_.load(name, {folder_.text()}, "", kWhere);
  }

  Folder folder_;
  plugin::PluginLoader loader_{memory::find_group};
};

TEST_F(LoaderTest, LoadsAPlugin) {
  const fs::path path = folder_.add("good");
  const plugin::LoadedPlugin& plugin = load("good");
  EXPECT_EQ(plugin.path, path.string());
  EXPECT_EQ(plugin.sha256, sha256_file(path));
  EXPECT_STREQ(plugin.note.id, "org.example.tier");
  EXPECT_STREQ(plugin.note.version, "1.0.0");
  EXPECT_EQ(plugin.table->struct_size, sizeof(mneme_plugin));
  EXPECT_EQ(plugin.table->begin, nullptr);
  ASSERT_EQ(plugin.table->option_count, 1U);
  EXPECT_EQ(plugin.table->option_stride, sizeof(mneme_option));
  EXPECT_STREQ(plugin.table->options[0].key, "rows");
  EXPECT_EQ(traits_of(plugin).max_segment, 1);
  EXPECT_EQ(traits_of(plugin).context_rows, 1);  // init ran
}

TEST_F(LoaderTest, MapsTheSameBytesOnce) {
  folder_.add("good");
  const Folder other;
  other.add("good", "renamed");
  const plugin::LoadedPlugin& first = load("good");
  const int mapped = mapped_copies();
  EXPECT_GT(mapped, 0);
  EXPECT_EQ(&load("good"), &first);
  EXPECT_EQ(&load("org.example.tier"), &first);
  EXPECT_EQ(&loader_.load("renamed", {other.text()}, "", kWhere), &first);

  plugin::PluginLoader second{memory::find_group};
  const plugin::LoadedPlugin& again = second.load("good", {folder_.text()}, "", kWhere);
  EXPECT_EQ(again.table->create, first.table->create);
  EXPECT_EQ(traits_of(again).context_rows, 1);  // init did not run again
  EXPECT_EQ(mapped_copies(), mapped);
}

TEST_F(LoaderTest, LoadsTwoBuildsOfOneFileSideBySide) {
  folder_.write("tier.so", test::broken_plugin("good"));
  const plugin::LoadedPlugin& first = load("tier");
  folder_.write("tier.so", test::broken_plugin("good_again"));
  const plugin::LoadedPlugin& second = load("tier");
  folder_.write("tier.so", test::broken_plugin("good"));
  const plugin::LoadedPlugin& third = load("tier");
  EXPECT_NE(&first, &second);
  EXPECT_EQ(&first, &third);
  EXPECT_NE(first.sha256, second.sha256);
  EXPECT_EQ(traits_of(first).max_segment, 1);
  EXPECT_EQ(traits_of(second).max_segment, 2);
  EXPECT_EQ(traits_of(first).context_rows, 1);  // statics are apart
  EXPECT_EQ(traits_of(second).context_rows, 1);
}

TEST_F(LoaderTest, KeepsTheFirstAnswerWhereFilesAreReadOnce) {
  plugin::PluginLoader once{memory::find_group, plugin::PluginReads::kOnce};
  const auto load_once = [&](const std::string& name, const std::string& pin = "") {
    return &once.load(name, {folder_.text()}, pin, kWhere);
  };
  EXPECT_THAT(refusal([&] { load_once("tier"); }), HasSubstr("tier"));
  folder_.write("tier.so", test::broken_plugin("good"));
  const plugin::LoadedPlugin* first = load_once("tier");
  folder_.write("tier.so", test::broken_plugin("good_again"));
  EXPECT_EQ(load_once("tier"), first);
  EXPECT_NE(load_once("tier.so"), first);
  EXPECT_THAT(refusal([&] { load_once("tier", first->sha256); }), HasSubstr(first->sha256));
}

TEST_F(LoaderTest, RunsOnWhenTheFileIsOverwrittenInPlace) {
  const fs::path path = folder_.add("good");
  const plugin::LoadedPlugin& plugin = load("good");
  const auto size = fs::file_size(path);
  folder_.write("good.so", std::string(size, '\xff'));
  EXPECT_EQ(traits_of(plugin).max_segment, 1);
  fs::remove(path);
  EXPECT_EQ(traits_of(plugin).max_segment, 1);
}

TEST_F(LoaderTest, LoadsFromSeveralThreads) {
  folder_.add("good");
  folder_.add("good_again");
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([this, i] {
      const plugin::LoadedPlugin& plugin = load(i % 2 == 0 ? "good" : "good_again");
      EXPECT_EQ(traits_of(plugin).max_segment, 1 + i % 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(LoaderTest, CutsATableOfALaterMinor) {
  folder_.add("grown_table");
  const plugin::LoadedPlugin& plugin = load("grown_table");
  EXPECT_EQ(plugin.table->struct_size, sizeof(mneme_plugin));
  EXPECT_EQ(traits_of(plugin).max_segment, 1);
  EXPECT_EQ(plugin.table->options, nullptr);
}

TEST_F(LoaderTest, TakesATableThatDoesNotDeclareItsLosses) {
  folder_.add("old_table");
  const plugin::LoadedPlugin& plugin = load("old_table");
  EXPECT_EQ(plugin.table->losses, nullptr);
  EXPECT_EQ(traits_of(plugin).max_segment, 1);
}

TEST_F(LoaderTest, ComparesTheChecksumWithThePin) {
  const fs::path path = folder_.add("good");
  const std::string sha256 = sha256_file(path);
  std::string upper = sha256;
  for (char& letter : upper) letter = static_cast<char>(std::toupper(letter));
  EXPECT_EQ(loader_.load("good", {folder_.text()}, upper, kWhere).sha256, sha256);
  // Also when these bytes are mapped already.
  const std::string other = sha256_hex("other");
  EXPECT_THAT(refusal_of_file("good", other),
              HasSubstr(str("the file is not the one that sha256 pins: expected ", other, ", got ",
                            sha256)));
  EXPECT_THAT(refusal_of_file("good", "abc"),
              HasSubstr("the sha256 pin is no checksum: expected 64 hexadecimal digits, got "
                        "\"abc\""));
}

TEST_F(LoaderTest, LoadsThePinnedOneOfSeveralBuilds) {
  const Folder other;
  folder_.add("good", "tier");
  const std::string pin = sha256_file(other.add("good_again", "tier"));
  const std::vector<std::string> folders = {folder_.text(), other.text()};
  EXPECT_EQ(loader_.load("tier", folders, pin, kWhere).sha256, pin);
  EXPECT_THAT(refusal([&] { loader_.load("tier", folders, "", kWhere); }),
              HasSubstr("several files match, and they differ"));
}

TEST_F(LoaderTest, RefusesAMissingPlugin) {
  EXPECT_THAT(refusal([&] { load("good"); }),
              StartsWith("memory.toml:4:10: plugin 'good': not found: expected a file good.so"));
}

TEST_F(LoaderTest, RefusesFilesThatAreNoLibrary) {
  folder_.write("text.so", "hello\n");
  EXPECT_THAT(refusal_of_file("text"), HasSubstr("expected an ELF file, got a text file that "
                                                 "starts with \"hello\""));
  folder_.write("empty.so", "");
  EXPECT_THAT(refusal_of_file("empty"), HasSubstr("got an empty file"));
  fs::create_directory(folder_.file("folder.so"));
  EXPECT_THAT(refusal_of_file("folder"), HasSubstr("got a folder"));
}

TEST_F(LoaderTest, RefusesATruncatedFile) {
  const std::string bytes = test::broken_plugin("good");
  folder_.write("half.so", bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(refusal_of_file("half"), HasSubstr("truncated or damaged shared library"));
}

TEST_F(LoaderTest, RefusesAnotherArchitecture) {
  std::string bytes = test::broken_plugin("good");
  bytes[18] = static_cast<char>(EM_RISCV);
  bytes[19] = 0;
  folder_.write("riscv.so", bytes);
  EXPECT_THAT(refusal_of_file("riscv"), HasSubstr("is an ELF file for riscv, this host is "));
}

TEST_F(LoaderTest, RefusesFilesThatEveryUserMayWrite) {
  ::chmod(folder_.add("good").c_str(), 0777);
  EXPECT_THAT(refusal_of_file("good"), HasSubstr("every user of this machine may write this file"));
}

// A plugin with one flaw, and what the refusal says.
struct Flawed {
  const char* flaw;
  std::vector<std::string> parts;
};

const std::vector<Flawed> kFlawed = {
    {"no_note", {"is no mneme plugin: expected a note in section .note.mneme"}},
    {"no_entry",
     {"has no entry point: expected the exported symbol mneme_negotiate_v1, got a library that "
      "exports tier_table"}},
    {"unknown_feature",
     {"needs host features that mneme " MNEME_SDK_VERSION
      " lacks: mneme.telepathy/3, mneme.op/77"}},
    {"needs_library",
     {"needs libraries that a plugin may not need: expected only the C and C++ runtimes, got "
      "libmneme_test_extra.so",
      "MNEME_PLUGIN_LIBRARIES"}},
    {"wrong_id",
     {"bad table of functions: its id: expected \"org.example.tier\" as in its note, got "
      "\"org.example.other\""}},
    {"wrong_version", {"its version: expected \"1.0.0\" as in its note, got \"2.0.0\""}},
    {"no_id", {"its id: expected \"org.example.tier\" as in its note, got NULL"}},
    {"no_create", {"got NULL for create and destroy"}},
    {"no_hook",
     {"expected at least one of begin, absorb, context, ride, read, finish, got NULL for all"}},
    {"no_table", {"accepted this host without a table of functions"}},
    {"short_table", {kTableSize + "112"}},
    {"odd_table", {kTableSize + "123"}},
    {"huge_table", {kTableSize + "2147483640"}},
    {"answer_size", {"bad answer from mneme_negotiate_v1: expected a struct_size of 544, got 3"}},
    {"bad_stride",
     {"option_stride is out of range: expected 120 to 65536, a multiple of 8, got 16"}},
    {"reserved_answer", {"expected 0 in its reserved field, got 7"}},
    {"wrong_effective", {"expected the effective ABI 1.2, got 1.5"}},
    {"other_range", {"expected the note's ABI range 1.2, got 1.2 to 1.5"}},
    {"init_fails",
     {"init failed (MNEME_E_IO, at plugin.c:", "): cannot read the index /data/index.bin"}},
    {"init_silent",
     {"init failed (unknown code 99, native code 12, at fff", "fff:3): the plugin gave no reason"}},
    {"throws",
     {"a C++ exception left mneme_negotiate_v1: expected a mneme_status, got thrown on purpose"}},
    {"throws_in_init",
     {"a C++ exception left init: expected a mneme_status, got an exception of unknown type"}},
};

TEST_F(LoaderTest, SaysWhatIsWrongWithAPlugin) {
  test::for_each_case(
      kFlawed, [](const Flawed& row) { return row.flaw; },
      [&](const Flawed& row) {
        const std::string message = refusal_of(row.flaw);
        for (const std::string& part : row.parts) EXPECT_THAT(message, HasSubstr(part));
      });
}

TEST_F(LoaderTest, ShowsTheDynamicLoadersOwnWords) {
  const std::string message = refusal_of("undefined_symbol");
  EXPECT_THAT(message, AllOf(HasSubstr("the dynamic loader refused it: "),
                             HasSubstr("undefined symbol: tier_missing_function"),
                             HasSubstr("mneme_add_plugin passes -z defs"), Not(HasSubstr("/proc/")),
                             HasSubstr(folder_.text() + "/undefined_symbol.so: undefined")));
}

TEST_F(LoaderTest, RefusesAnAbiOfTheNoteBeforeAnyCodeRuns) {
  ::unsetenv("MNEME_TEST_ABI_NOTE_MAPPED");
  const int mapped = mapped_copies();
  EXPECT_THAT(
      refusal_of("abi_note"),
      HasSubstr("no common ABI version: expected a plugin for ABI 1.0 to 1.2 (this host), got "
                "one for ABI 1.99; use a newer mneme"));
  EXPECT_EQ(::getenv("MNEME_TEST_ABI_NOTE_MAPPED"), nullptr);
  EXPECT_EQ(mapped_copies(), mapped);
}

TEST_F(LoaderTest, ShowsWhyAPluginRefusesTheHost) {
  EXPECT_THAT(
      refusal_of("abi_negotiate"),
      HasSubstr("refused this host (MNEME_E_VERSION): expected a plugin for ABI 1.0 to 1.2, "
                "got one for ABI 1.7 to 1.9, which says \"needs the segments of ABI 1.7\""));
  // The library stays mapped, is not mapped again, and answers the same.
  const int mapped = mapped_copies();
  EXPECT_THAT(refusal_of_file("abi_negotiate"), HasSubstr("refused this host"));
  EXPECT_EQ(mapped_copies(), mapped);
}

TEST_F(LoaderTest, LoadsALibraryThatTheNoteDeclares) {
  folder_.add("declares_library");
  EXPECT_EQ(traits_of(load("declares_library")).context_rows, 42);
}

TEST_F(LoaderTest, LoadsALibraryThatNeedsTheCRuntime) {
  ::setenv("MNEME_TEST_FIVE", "5", 1);
  folder_.add("needs_libc");
  EXPECT_EQ(traits_of(load("needs_libc")).context_rows, 5);
}

TEST_F(LoaderTest, RefusesSymbolVersionsNewerThanThisMachines) {
  const std::string bytes = test::broken_plugin("needs_libc");
  const plugin::ElfFile elf = plugin::read_elf(std::as_bytes(std::span(bytes)), "");
  const auto need =
      std::ranges::find(elf.version_needs, "libc.so.6", &plugin::SymbolVersion::library);
  ASSERT_NE(need, elf.version_needs.end());
  std::string newer = need->version;
  newer.replace(6, 1, "9");  // GLIBC_2.2.5 becomes GLIBC_9.2.5
  folder_.write("newer.so", patched(bytes, need->version, newer));
  EXPECT_THAT(
      refusal_of_file("newer"),
      AllOf(HasSubstr("was built for a newer system: it needs the symbol versions " + newer +
                      " of libc.so.6: got this machine's libc.so.6, which ends at GLIBC_2."),
            HasSubstr("(glibc 2."), HasSubstr("build the plugin on this system")));
}

TEST_F(LoaderTest, RefusesVersionsOfTheCppRuntimeNewerThanThisMachines) {
  const std::vector<std::string>& have = plugin::mapped_versions("libstdc++.so.6");
  ASSERT_THAT(have, ::testing::Contains("GLIBCXX_3.4"));
  plugin::ElfFile file;
  file.version_needs = {{"libstdc++.so.6", "GLIBCXX_3.4"},
                        {"libstdc++.so.6", "GLIBCXX_3.4.999"},
                        {"libstdc++.so.6", "CXXABI_1.9.9"},
                        {"libunknown.so.1", "WHATEVER_1"}};
  const std::string message = refusal([&] { plugin::check_symbol_versions(file, "here"); });
  EXPECT_THAT(message, AllOf(HasSubstr("GLIBCXX_3.4.999 of libstdc++.so.6, CXXABI_1.9.9 of "
                                       "libstdc++.so.6"),
                             HasSubstr("which ends at GLIBCXX_3.4."),
                             HasSubstr("which ends at CXXABI_1.3."), Not(HasSubstr("WHATEVER"))));
}

TEST_F(LoaderTest, NamesLibTorchAndSanitizersApart) {
  const mneme_note note{};
  plugin::ElfFile file;
  file.needed = {"libc.so.6", "libtorch_cpu.so", "libc10.so", "libm.so.6", "ld-linux-x86-64.so.2"};
  EXPECT_THAT(refusal([&] { plugin::check_needed_libraries(file, note, "here"); }),
              AllOf(HasSubstr("got libtorch_cpu.so, libc10.so;"), HasSubstr("mneme.op/1")));
  file.needed = {"libtsan.so.2"};
  if (::dlsym(RTLD_DEFAULT, "__tsan_init") == nullptr) {
    EXPECT_THAT(refusal([&] { plugin::check_needed_libraries(file, note, "here"); }),
                HasSubstr("build the plugin without the sanitizer, or the host with it"));
  } else {
    plugin::check_needed_libraries(file, note, "here");
  }
}

TEST_F(LoaderTest, RefusesSymbolsOfTheHostThatNoLibraryIsNeededFor) {
  const mneme_note note{};
  plugin::ElfFile file;
  for (const char* const symbol :
       {"_ZN2at5emptyEv", "_ZNK3c1010TensorImpl3dimEv", "_ZN5mneme3logEv"}) {
    file.undefined = {"memcpy", "_ZNSt6vectorIiSaIiEE4dataEv", symbol};
    EXPECT_THAT(refusal([&] { plugin::check_needed_libraries(file, note, "here"); }),
                HasSubstr(str("uses a function of LibTorch or of the host: expected a plugin that "
                              "includes nothing but the SDK, got the undefined symbol ",
                              symbol)));
  }
  file.undefined = {"memcpy", "_ZNSt6vectorIiSaIiEE4dataEv"};
  plugin::check_needed_libraries(file, note, "here");
}

}  // namespace
}  // namespace mneme::memory
