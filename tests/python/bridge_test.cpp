// The bridge as a plugin file, and copies of it with a payload. No Python runs here: the host only
// loads them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "host/base/file/file.hpp"
#include "host/plugin/loader.hpp"
#include "mneme/plugin.h"
#include "python/bridge/payload.h"
#include "tests/plugin/loader_support.hpp"

namespace mneme::memory {
namespace {

using testing::HasSubstr;

// All groups: nobody calls them.
const void* any_group(std::string_view /*id*/) {
  static const int group = 0;
  return &group;
}

std::string bridge_bytes() { return read_file(MNEME_TEST_BRIDGE); }

// A payload that is filled text by text.
class Payload {
 public:
  Payload() : payload_(std::make_unique<mneme_payload>()) {
    std::memcpy(payload_->magic, MNEME_PAYLOAD_MAGIC, sizeof(payload_->magic));
    payload_->text_bytes = 1;
  }
  mneme_payload* operator->() { return payload_.get(); }
  std::uint32_t place(const std::string& text) {
    const std::uint32_t at = payload_->text_bytes;
    std::memcpy(payload_->text + at, text.c_str(), text.size() + 1);
    payload_->text_bytes += static_cast<std::uint32_t>(text.size()) + 1;
    return at;
  }
  // A copy of the bridge with this payload and with its id in the note.
  [[nodiscard]] std::string file() const {
    std::string bytes = bridge_bytes();
    const std::size_t at = bytes.find(MNEME_PAYLOAD_MAGIC);
    EXPECT_EQ(bytes.find(MNEME_PAYLOAD_MAGIC, at + 1), std::string::npos);
    std::memcpy(bytes.data() + at, payload_.get(), sizeof(mneme_payload));
    const std::string id = payload_->text + payload_->id;
    const std::string version = payload_->text + payload_->version;
    mneme_note note{};
    const auto field = [&note](const auto& of) {
      return static_cast<std::size_t>(reinterpret_cast<const char*>(&of) -
                                      reinterpret_cast<const char*>(&note));
    };
    const std::size_t note_at = bytes.find(MNEME_BRIDGE_ID) - field(note.id);
    const auto write = [&](std::size_t place, std::size_t size, const std::string& text) {
      std::memset(bytes.data() + note_at + place, 0, size);
      std::memcpy(bytes.data() + note_at + place, text.data(), text.size());
    };
    write(field(note.id), sizeof(note.id), id);
    write(field(note.version), sizeof(note.version), version);
    return bytes;
  }

 private:
  std::unique_ptr<mneme_payload> payload_;
};

TEST(Bridge, WithoutAMemorySaysWhatToName) {
  const Folder folder;
  folder.write("python_memory.so", bridge_bytes());
  plugin::PluginLoader loader(any_group);
  EXPECT_THAT(refusal([&] { loader.load("python_memory", {folder.text()}, "", "exp.toml:1:1"); }),
              HasSubstr("this is the bridge for memories in Python, without a memory: name the "
                        "memory's own file, such as my_memory.py"));
}

TEST(Bridge, GivesTheDeclarationOfItsPayload) {
  Payload payload;
  payload->hooks = MNEME_PAYLOAD_ABSORB | MNEME_PAYLOAD_READ;
  payload->id = payload.place("org.example.mine");
  payload->version = payload.place("1.2.3");
  payload->summary = payload.place("remembers");
  payload->losses = payload.place("size|gate");
  payload->option_count = 3;
  mneme_payload_option& decay = payload->options[0];
  decay.type = MNEME_OPTION_REAL;
  decay.flags = MNEME_OPTION_BOUNDED | MNEME_OPTION_TRAINED;
  decay.key = payload.place("decay");
  decay.help = payload.place("weight of the past");
  decay.default_real = 0.5;
  decay.max_real = 1.0;
  mneme_payload_option& mode = payload->options[1];
  mode.type = MNEME_OPTION_CHOICE;
  mode.key = payload.place("mode");
  mode.help = payload.place("how");
  mode.choices = payload.place("mean");
  payload.place("max");
  mode.default_text = payload.place("max");
  mode.choice_count = 2;
  mneme_payload_option& scales = payload->options[2];
  scales.type = MNEME_OPTION_INTEGERS;
  scales.key = payload.place("scales");
  scales.help = payload.place("sizes");
  scales.default_numbers = 1;
  scales.default_count = 2;
  payload->integers[1] = 3;
  payload->integers[2] = 5;

  const Folder folder;
  folder.write("mine.so", payload.file());
  plugin::PluginLoader loader(any_group);
  const mneme_plugin& table = *loader.load("mine", {folder.text()}, "", "exp.toml:1:1").table;
  EXPECT_STREQ(table.id, "org.example.mine");
  EXPECT_STREQ(table.version, "1.2.3");
  EXPECT_STREQ(table.summary, "remembers");
  EXPECT_STREQ(table.losses, "size|gate");
  EXPECT_NE(table.absorb, nullptr);
  EXPECT_NE(table.read, nullptr);
  EXPECT_EQ(table.begin, nullptr);
  EXPECT_EQ(table.context, nullptr);
  EXPECT_EQ(table.ride, nullptr);
  EXPECT_EQ(table.finish, nullptr);
  ASSERT_EQ(table.option_count, 3U);
  EXPECT_STREQ(table.options[0].key, "decay");
  EXPECT_EQ(table.options[0].flags, MNEME_OPTION_BOUNDED | MNEME_OPTION_TRAINED);
  EXPECT_EQ(table.options[0].default_real, 0.5);
  EXPECT_EQ(table.options[0].max_real, 1.0);
  ASSERT_EQ(table.options[1].choice_count, 2U);
  EXPECT_STREQ(table.options[1].choices[0], "mean");
  EXPECT_STREQ(table.options[1].choices[1], "max");
  EXPECT_STREQ(table.options[1].default_text, "max");
  ASSERT_EQ(table.options[2].default_count, 2U);
  EXPECT_EQ(table.options[2].default_integers[1], 5);
}

}  // namespace
}  // namespace mneme::memory
