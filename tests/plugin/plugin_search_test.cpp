#include "host/plugin/plugin_search.hpp"

#include <cctype>

#include "host/base/file/checksum.hpp"
#include "host/plugin/file/plugin_file.hpp"
#include "tests/plugin/loader_support.hpp"

namespace mneme::memory {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

namespace fs = std::filesystem;

std::string refusal_of(const std::string& name, const std::vector<std::string>& folders) {
  return refusal(
      [&] { static_cast<void>(plugin::find_plugin(name, folders, "", "m.toml:3:5: plugin")); });
}

TEST(PluginSearch, FindsAFileByNameAndById) {
  const Folder folder;
  const fs::path path = folder.add("good", "fancy");
  for (const char* const name : {"fancy", "fancy.so", "org.example.tier"}) {
    EXPECT_EQ(plugin::find_plugin(name, {folder.text()}, "", ""), path) << name;
  }
}

TEST(PluginSearch, TakesTheEarlierFolderOfCopies) {
  const Folder first;
  const Folder second;
  const std::vector<std::string> both = {first.text(), second.text()};
  const fs::path path = second.add("good");
  EXPECT_EQ(plugin::find_plugin("good", both, "", ""), path);
  const fs::path earlier = first.add("good");
  EXPECT_EQ(plugin::find_plugin("good", both, "", ""), earlier);
  EXPECT_EQ(plugin::find_plugin("org.example.tier", both, "", ""), earlier);
  EXPECT_EQ(plugin::find_plugin("good", {first.text(), first.text()}, "", ""), earlier);
}

TEST(PluginSearch, TakesANameInPythonForAPath) {
  const Folder folder;
  EXPECT_THAT(refusal_of("nothing.py", {folder.text()}),
              HasSubstr("m.toml:3:5: plugin: there is no such file; check the path of the memory"));
}

TEST(PluginSearch, TellsWhereItLooksForAName) {
  EXPECT_EQ(plugin::paths_by_name("good", {"/a", "/b"}),
            (std::vector<fs::path>{"/a/good.so", "/a/good", "/b/good.so", "/b/good"}));
}

TEST(PluginSearch, RefusesOneNameOfSeveralBuilds) {
  const Folder first;
  const Folder second;
  const std::vector<std::string> both = {first.text(), second.text()};
  const fs::path one = first.add("good", "tier");
  const fs::path other = second.add("good_again", "tier");
  for (const char* const name : {"tier", "tier.so", "org.example.tier"}) {
    const std::string message = refusal_of(name, both);
    EXPECT_THAT(message,
                AllOf(StartsWith("m.toml:3:5: plugin: several files match, and they differ: "
                                 "expected one, or copies of one, got "),
                      HasSubstr(str(one.string(), " (sha256 ", sha256_file(one), "), ",
                                    other.string(), " (sha256 ", sha256_file(other), ")")),
                      HasSubstr("pin one with the tier's key sha256")))
        << name;
  }
}

// The tier's key and [memory] are not there where the folders came by --plugins.
TEST(PluginSearch, AdvisesByWhoNamedTheFolders) {
  const Folder first;
  const Folder second;
  first.add("good", "tier");
  second.add("good_again", "tier");
  const auto refusal_of_option = [&](const std::string& name) {
    return refusal([&] {
      static_cast<void>(plugin::find_plugin(name, {first.text(), second.text()}, "", "describe",
                                            plugin::FoldersFrom::kOption));
    });
  };
  EXPECT_THAT(refusal_of_option("tier"), EndsWith("; give the path of one in place of the name"));
  EXPECT_THAT(refusal_of_option("absent"),
              EndsWith("; build the plugin, or correct its name or --plugins"));
}

TEST(PluginSearch, TakesTheBuildThatIsPinned) {
  const Folder first;
  const Folder second;
  const std::vector<std::string> both = {first.text(), second.text()};
  const fs::path one = first.add("good", "tier");
  const fs::path other = second.add("good_again", "tier");
  std::string pin = sha256_file(other);
  EXPECT_EQ(plugin::find_plugin("tier", both, pin, ""), other);
  EXPECT_EQ(plugin::find_plugin("org.example.tier", both, sha256_file(one), ""), one);
  for (char& letter : pin) letter = static_cast<char>(std::toupper(letter));
  EXPECT_EQ(plugin::find_plugin("tier", both, pin, ""), other);
  EXPECT_THAT(refusal([&] {
                static_cast<void>(plugin::find_plugin("tier", both, sha256_hex("another"), "here"));
              }),
              HasSubstr("several files match, and sha256 pins none of them"));
}

TEST(PluginSearch, PassesOverAFolderOfTheSameName) {
  const Folder folder;
  const fs::path path = folder.add("good");
  fs::create_directory(folder.file("good"));
  EXPECT_EQ(plugin::find_plugin("good", {folder.text()}, "", ""), path);
}

TEST(PluginSearch, ListsFoldersAndPluginsWhenNothingIsFound) {
  const Folder folder;
  folder.add("good", "xl_cache");
  folder.add("no_note");
  folder.write("readme.txt", "not a library");
  EXPECT_THAT(refusal_of("xl_cach", {folder.text(), "/nowhere/plugins"}),
              AllOf(StartsWith("m.toml:3:5: plugin: not found (did you mean \"xl_cache\"?): "
                               "expected a file xl_cach.so, or a plugin with the id xl_cach, in "),
                    HasSubstr(folder.text() + ", /nowhere/plugins (no such folder)"),
                    HasSubstr("got no_note.so (no note), xl_cache.so (org.example.tier); build "
                              "the plugin")));
}

TEST(PluginSearch, SuggestsTheNearestId) {
  const Folder folder;
  folder.add("good", "a");
  EXPECT_THAT(refusal_of("org.example.teir", {folder.text()}),
              HasSubstr("did you mean \"org.example.tier\"?"));
}

TEST(PluginSearch, SaysWhenThereIsNothingToSearch) {
  EXPECT_THAT(refusal_of("good", {}),
              HasSubstr("expected folders to look in, got none; list them under [memory] plugins"));
  const Folder folder;
  EXPECT_THAT(refusal_of("good", {folder.text()}), HasSubstr("got no library there"));
  const fs::path file = folder.write("file", "x");
  EXPECT_THAT(refusal_of("good", {file.string()}), HasSubstr("(not a folder)"));
}

TEST(PluginSearch, RefusesPathsAndEmptyNames) {
  for (const char* const name : {"../good", "/lib/good.so", "a/b", "..", "."}) {
    EXPECT_THAT(refusal_of(name, {"/nowhere"}),
                HasSubstr("is a path: expected a file name or an id, without a folder"))
        << name;
  }
  EXPECT_THAT(refusal_of("", {"/nowhere"}), HasSubstr("is no name"));
}

TEST(PluginSearch, RefusesAnIdThatTwoFilesShare) {
  const Folder folder;
  folder.add("good", "a");
  folder.add("good_again", "b");
  EXPECT_THAT(
      refusal_of("org.example.tier", {folder.text()}),
      AllOf(HasSubstr("several files match, and they differ"), HasSubstr(folder.text() + "/a.so"),
            HasSubstr(folder.text() + "/b.so"), HasSubstr("name the file instead of the id")));
}

TEST(PluginSearch, FollowsLinksOnlyWithinTheFolder) {
  const Folder folder;
  const Folder outside;
  const fs::path real = folder.add("good", "real");
  fs::create_symlink("real.so", folder.file("link.so"));
  EXPECT_EQ(plugin::find_plugin("link", {folder.text()}, "", ""), real);

  fs::create_symlink(outside.add("good"), folder.file("escape.so"));
  EXPECT_THAT(refusal_of("escape", {folder.text()}),
              AllOf(HasSubstr("refused: a link leads out of the plugin folder"),
                    HasSubstr("expected a file under " + folder.text())));
  fs::create_symlink("gone.so", folder.file("dangling.so"));
  EXPECT_THAT(refusal_of("dangling", {folder.text()}),
              HasSubstr("cannot follow the path: No such file or directory"));
}

TEST(PluginSearch, RefusesFoldersThatEveryUserMayWrite) {
  const Folder folder;
  folder.add("good");
  ::chmod(folder.text().c_str(), 0777);
  EXPECT_THAT(
      refusal_of("good", {folder.text()}),
      AllOf(HasSubstr("refused: every user of this machine may replace files in " + folder.text()),
            HasSubstr("got mode 777")));
}

TEST(PluginScan, ListsNotesAndProblemsWithoutRunningAnything) {
  const Folder folder;
  ::unsetenv("MNEME_TEST_ABI_NOTE_MAPPED");
  folder.add("abi_note");
  folder.add("good");
  folder.write("text.so", "hello");
  folder.write("other.txt", "hello");
  const std::vector<plugin::PluginEntry> entries = plugin::scan_folder(folder.text());
  ASSERT_EQ(entries.size(), 3U);
  EXPECT_EQ(entries[0].file, "abi_note.so");
  ASSERT_TRUE(entries[0].note.has_value());
  EXPECT_THAT(entries[0].problem, HasSubstr("no common ABI version"));
  EXPECT_STREQ(entries[1].note->id, "org.example.tier");
  EXPECT_EQ(entries[1].problem, "");
  EXPECT_EQ(entries[1].sha256.size(), 64U);
  EXPECT_EQ(entries[2].file, "text.so");
  EXPECT_FALSE(entries[2].note.has_value());
  EXPECT_THAT(entries[2].problem, StartsWith("is no shared library: expected an ELF file"));
  EXPECT_EQ(::getenv("MNEME_TEST_ABI_NOTE_MAPPED"), nullptr);
}

TEST(PluginScan, RefusesAFolderThatIsNotThere) {
  EXPECT_THAT(refusal([] { static_cast<void>(plugin::scan_folder("/nowhere/plugins")); }),
              StartsWith("/nowhere/plugins: cannot read the plugin folder: No such file"));
}

}  // namespace
}  // namespace mneme::memory
