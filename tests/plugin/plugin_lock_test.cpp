#include "host/plugin/plugin_lock.hpp"

#include "host/base/file/checksum.hpp"
#include "host/base/text.hpp"
#include "tests/plugin/loader_support.hpp"

namespace mneme::memory {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

namespace fs = std::filesystem;

// A memory of tiers with these plugins, in folders of its own, and its lock file.
class PluginLock : public ::testing::Test {
 protected:
  config::MemoryConfig memory_of(const std::vector<std::string>& plugins) const {
    std::string text = "[memory]\nplugins = [\"" + folder_.text() + "\"]\n";
    for (const std::string& plugin : plugins) {
      text += "[[memory.tier]]\nplugin = \"" + plugin + "\"\n";
    }
    folder_.write("m.toml", text);
    return config::parse_memory_file(file_);
  }
  config::MemoryConfig lock(const std::vector<std::string>& plugins) const {
    config::MemoryConfig memory = memory_of(plugins);
    folder_.write("m.lock", plugin::lock_text(plugin::find_plugins(memory), file_));
    return memory;
  }
  std::vector<std::string> differences(const config::MemoryConfig& memory) const {
    return plugin::lock_differences(memory, plugin::read_lock(file_).value());
  }
  [[nodiscard]] std::string sum(const std::string& name) const {
    return sha256_file(folder_.file(name + ".so"));
  }
  // The message of the Error (kUsage) that reading the lock file gives.
  std::string damage(const std::string& text) const {
    folder_.write("m.lock", text);
    try {
      static_cast<void>(plugin::read_lock(file_));
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kUsage) << error.what();
      return error.what();
    }
    ADD_FAILURE() << "no error was thrown";
    return "";
  }

  Folder folder_;
  fs::path file_ = folder_.file("m.toml");
  std::string command_ = "mneme plugins lock " + file_.string();
};

TEST_F(PluginLock, StandsBesideTheFile) {
  EXPECT_EQ(plugin::lock_file_of("a/m.toml"), "a/m.lock");
  EXPECT_EQ(plugin::lock_file_of("a.b/m"), "a.b/m.lock");
  EXPECT_EQ(plugin::lock_file_of("m.conf"), "m.conf.lock");
}

TEST_F(PluginLock, NamesTheFileOfEveryTier) {
  folder_.add("good", "one");
  folder_.add("good_again", "other");
  const config::MemoryConfig memory = lock({"one", "other.so"});
  EXPECT_EQ(
      read_file(folder_.file("m.lock")),
      "# The plugin files of m.toml, one [[tier]] for each of its [[memory.tier]], in order.\n"
      "# Written by mneme plugins lock; the option --locked refuses other files.\n"
      "revision = 1\n\n"
      "[[tier]]\nfile = \"one.so\"\nid = \"org.example.tier\"\nversion = \"1.0.0\"\n"
      "abi = \"1.2\"\nsha256 = \"" +
          sum("one") +
          "\"\n\n"
          "[[tier]]\nfile = \"other.so\"\nid = \"org.example.tier\"\nversion = \"1.0.0\"\n"
          "abi = \"1.2\"\nsha256 = \"" +
          sum("other") + "\"\n");
  EXPECT_THAT(differences(memory), IsEmpty());
}

TEST_F(PluginLock, HoldsTheTiersToTheLockedFiles) {
  folder_.add("good", "one");
  config::MemoryConfig memory = lock({"one"});
  const std::string before = config::to_toml(memory);
  plugin::apply_lock_file(memory, file_);
  EXPECT_EQ(memory.tiers.at(0).pin(), sum("one"));
  EXPECT_EQ(config::to_toml(memory), before);  // a run's experiment does not keep it
}

TEST_F(PluginLock, ChoosesTheLockedOneOfSeveralBuilds) {
  folder_.add("good", "one");
  config::MemoryConfig memory = lock({"org.example.tier"});
  folder_.add("good_again", "other");
  EXPECT_THAT(differences(memory), IsEmpty());
  fs::remove(folder_.file("one.so"));
  folder_.add("abi_note", "third");  // of the same id
  fs::remove(folder_.file("other.so"));
  folder_.add("good_again", "fourth");
  EXPECT_THAT(refusal([&] { static_cast<void>(differences(memory)); }),
              HasSubstr("several files match, and sha256 pins none of them"));
}

TEST_F(PluginLock, TellsEveryTierThatDiffers) {
  folder_.add("good", "one");
  folder_.add("good", "two");
  const config::MemoryConfig memory = lock({"one", "two"});
  const std::string locked = sum("one");
  folder_.add("good_again", "one");
  folder_.write("two.so", "no library");
  const std::string hint = str("; restore that file, or, if the change is meant, ", command_,
                               " locks the files as they are now");
  EXPECT_THAT(
      differences(memory),
      ElementsAre(str(folder_.text(), "/m.lock: tier 0, plugin 'one' (", folder_.text(),
                      "/one.so): is not the locked file: expected org.example.tier 1.0.0, sha256 ",
                      locked, ", got org.example.tier 1.0.0, sha256 ", sum("one"), hint),
                  AllOf(StartsWith(str(folder_.text(), "/m.lock: tier 1, plugin 'two' (",
                                       folder_.text(), "/two.so): is not the locked file: ")),
                        HasSubstr(", got "), HasSubstr("ELF"), EndsWith(hint))));
}

TEST_F(PluginLock, TellsTiersThatOneOfThemLacks) {
  folder_.add("good", "one");
  lock({"one"});
  const std::string hint = command_ + " locks the files as they are now";
  EXPECT_THAT(differences(memory_of({"one", "one"})),
              ElementsAre(str(folder_.text(),
                              "/m.lock: tier 1, plugin 'one': the plugin is not locked: expected "
                              "a memory of 1 tier, got a memory of 2 tiers; if the tier is meant, ",
                              hint)));
  lock({"one", "one"});
  EXPECT_THAT(differences(memory_of({"one"})),
              ElementsAre(str(folder_.text(),
                              "/m.lock: tier 1: the memory has no such tier: expected "
                              "org.example.tier 1.0.0, sha256 ",
                              sum("one"), ", got a memory of 1 tier; if it is meant, ", hint)));
}

TEST_F(PluginLock, IsHeldAgainstTheTiersKey) {
  folder_.add("good", "one");
  config::MemoryConfig memory = lock({"one"});
  memory.tiers.at(0).sha256 = sum("one");
  EXPECT_THAT(differences(memory), IsEmpty());
  EXPECT_EQ(plugin::find_plugins(memory).size(), 1U);
  const std::string other = sha256_hex("another");
  memory.tiers.at(0).sha256 = other;
  EXPECT_THAT(
      differences(memory),
      ElementsAre(str(folder_.text(),
                      "/m.lock: tier 0, plugin 'one': the tier's key sha256 pins another "
                      "file: expected org.example.tier 1.0.0, sha256 ",
                      sum("one"), ", got ", other, "; remove the key, or, if its file is meant, ",
                      command_, " locks the files as they are now")));
  EXPECT_THAT(refusal([&] { static_cast<void>(plugin::find_plugins(memory)); }),
              HasSubstr("the file is not the one that sha256 pins"));
}

TEST_F(PluginLock, NeedsAChecksum) {
  folder_.add("good", "one");
  const plugin::PluginLock run{
      .source = "runs/old", .hint = "leave out --locked", .tiers = {{.id = "org.example.tier"}}};
  EXPECT_THAT(plugin::lock_differences(memory_of({"one"}), run),
              ElementsAre("runs/old: tier 0, plugin 'one': the file cannot be checked: expected a "
                          "checksum of the plugin org.example.tier, got none; leave out --locked"));
}

TEST_F(PluginLock, IsNeededByAMemoryWithTiersAlone) {
  folder_.add("good", "one");
  config::MemoryConfig none = memory_of({});
  plugin::apply_lock_file(none, file_);
  EXPECT_FALSE(plugin::read_lock(file_).has_value());
  plugin::apply_lock(none, {.source = "a run", .hint = "", .tiers = {{.id = "x"}}});
  config::MemoryConfig memory = memory_of({"one"});
  try {
    plugin::apply_lock_file(memory, file_);
    ADD_FAILURE() << "no error was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.what(), str("--locked ", file_.string(),
                                ": its plugins are not locked: expected the lock "
                                "file ",
                                folder_.text(), "/m.lock, got no such file; ", command_,
                                " writes it, with the files as they are now"));
  }
}

TEST_F(PluginLock, DoesNotLockWhatThisHostCannotLoad) {
  folder_.add("abi_note", "new");
  EXPECT_THAT(refusal([&] { static_cast<void>(plugin::find_plugins(memory_of({"new"}))); }),
              HasSubstr("ABI 1.99"));
}

TEST_F(PluginLock, RefusesAFileThatIsNone) {
  const std::string place = folder_.text() + "/m.lock";
  const std::string hint =
      str("; if it is a damaged lock file, remove it; ", command_, " writes another");
  EXPECT_THAT(damage("<<<<<<< HEAD\n"), AllOf(StartsWith(place + ":1:"), EndsWith(hint)));
  EXPECT_THAT(damage("name = \"x\"\n"),
              AllOf(HasSubstr("revision"), HasSubstr("name"), EndsWith(hint)));
  EXPECT_THAT(damage("revision = 2\n"), AllOf(HasSubstr(":1:12: revision"), HasSubstr("got 2")));
  const std::string message = damage("revision = 1\n[[tier]]\nsha256 = \"12\"\n");
  EXPECT_THAT(message, HasSubstr("sha256: expected 64 hexadecimal digits in lower case, got "
                                 "\"12\""));
  for (const char* key : {"file", "id", "version", "abi"}) {
    EXPECT_THAT(message, HasSubstr(str("tier.0.", key)));
  }
}

}  // namespace
}  // namespace mneme::memory
