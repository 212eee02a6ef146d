#include "host/plugin/python/wrap.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/plugin/python/declaration.hpp"
#include "host/plugin/python/python_place.hpp"
#include "mneme/abi.h"
#include "mneme/config.h"
#include "mneme/note.h"
#include "python/bridge/payload.h"

namespace mneme::plugin {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::pair<std::string_view, std::uint32_t>, 6> kHooks = {
    {{"begin", MNEME_PAYLOAD_BEGIN},
     {"absorb", MNEME_PAYLOAD_ABSORB},
     {"context", MNEME_PAYLOAD_CONTEXT},
     {"ride", MNEME_PAYLOAD_RIDE},
     {"read", MNEME_PAYLOAD_READ},
     {"finish", MNEME_PAYLOAD_FINISH}}};

constexpr std::array<std::pair<std::string_view, std::uint32_t>, 7> kTypes = {
    {{"integer", MNEME_OPTION_INTEGER},
     {"real", MNEME_OPTION_REAL},
     {"boolean", MNEME_OPTION_BOOLEAN},
     {"text", MNEME_OPTION_TEXT},
     {"choice", MNEME_OPTION_CHOICE},
     {"integers", MNEME_OPTION_INTEGERS},
     {"reals", MNEME_OPTION_REALS}}};

template <std::size_t n>
std::uint32_t number_of(const std::array<std::pair<std::string_view, std::uint32_t>, n>& names,
                        const std::string& name) {
  const auto found = std::ranges::find(names, name, [](const auto& one) { return one.first; });
  return found == names.end() ? 0 : found->second;
}

// Fills a payload; what does not fit is an error.
class Filler {
 public:
  Filler(mneme_payload& payload, const std::string& where) : payload_(payload), where_(where) {
    payload_.text_bytes = 1;  // the empty text
  }

  // The place of a text with its NUL.
  std::uint32_t text(std::string_view text) {
    if (text.empty()) return 0;
    if (text.find('\0') != std::string_view::npos) refuse("texts without NUL", "one with a NUL");
    const std::size_t at = payload_.text_bytes;
    const std::size_t end = at + text.size() + 1;
    if (end > MNEME_PAYLOAD_TEXT)
      refuse(str("at most ", MNEME_PAYLOAD_TEXT, " bytes of source and words"), "more");
    std::memcpy(payload_.text + at, text.data(), text.size());
    payload_.text_bytes = static_cast<std::uint32_t>(end);
    return static_cast<std::uint32_t>(at);
  }

  void option(const Json& from) {
    if (payload_.option_count == MNEME_PAYLOAD_OPTIONS)
      refuse(str("at most ", MNEME_PAYLOAD_OPTIONS, " options"), "more");
    mneme_payload_option& to = payload_.options[payload_.option_count++];
    to.type = number_of(kTypes, from.at("type"));
    to.key = text(from.at("key").get<std::string>());
    to.help = text(from.at("help").get<std::string>());
    if (from.at("at_evaluation").get<bool>()) to.flags |= MNEME_OPTION_AT_EVALUATION;
    if (from.at("required").get<bool>()) to.flags |= MNEME_OPTION_REQUIRED;
    if (from.at("trained").get<bool>()) to.flags |= MNEME_OPTION_TRAINED;
    bounds(from, to);
    choices(from.at("choices"), to);
    if (!from.at("default").is_null()) default_value(from.at("default"), to);
  }

  void module(const PythonModule& from) {
    if (payload_.file_count == MNEME_PAYLOAD_FILES)
      refuse(str("at most ", MNEME_PAYLOAD_FILES, " modules"), "more");
    payload_.files[payload_.file_count++] = {.module = text(from.name),
                                             .name = text(from.file),
                                             .source = text(from.source),
                                             .is_package = from.is_package ? 1U : 0U};
  }

  [[noreturn]] void refuse(const std::string& expected, const std::string& got) const {
    throw_plugin({.where = where_,
                  .failed = "the memory does not fit into a plugin file",
                  .expected = expected,
                  .got = got,
                  .hint = "install modules that are no part of the memory as packages"});
  }

 private:
  static bool is_whole(std::uint32_t type) {
    return type == MNEME_OPTION_INTEGER || type == MNEME_OPTION_INTEGERS;
  }

  static void bounds(const Json& from, mneme_payload_option& to) {
    const Json& low = from.at("low");
    const Json& high = from.at("high");
    if (low.is_null() && high.is_null()) return;
    to.flags |= MNEME_OPTION_BOUNDED;
    using Whole = std::numeric_limits<std::int64_t>;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (is_whole(to.type)) {
      to.min_integer = low.is_null() ? Whole::min() : low.get<std::int64_t>();
      to.max_integer = high.is_null() ? Whole::max() : high.get<std::int64_t>();
    } else {
      to.min_real = low.is_null() ? -kInfinity : low.get<double>();
      to.max_real = high.is_null() ? kInfinity : high.get<double>();
    }
  }

  void choices(const Json& from, mneme_payload_option& to) {
    for (const Json& word : from) {
      const auto written = word.get<std::string>();
      if (written.empty()) refuse("words in choices", "an empty one");
      const std::uint32_t place = text(written);
      if (to.choice_count++ == 0) to.choices = place;
      if (++choices_ > MNEME_PAYLOAD_NUMBERS)
        refuse(str("at most ", MNEME_PAYLOAD_NUMBERS, " words of choices"), "more");
    }
  }

  void default_value(const Json& from, mneme_payload_option& to) {
    switch (to.type) {
      case MNEME_OPTION_INTEGER:
        to.default_integer = from.get<std::int64_t>();
        break;
      case MNEME_OPTION_REAL:
        to.default_real = from.get<double>();
        break;
      case MNEME_OPTION_BOOLEAN:
        to.default_integer = from.get<bool>() ? 1 : 0;
        break;
      case MNEME_OPTION_INTEGERS:
        numbers(from, to, payload_.integers, integers_);
        break;
      case MNEME_OPTION_REALS:
        numbers(from, to, payload_.reals, reals_);
        break;
      default:
        to.default_text = text(from.get<std::string>());
    }
  }

  template <typename T>
  void numbers(const Json& from, mneme_payload_option& to, T* all, std::uint32_t& used) {
    if (used + from.size() > MNEME_PAYLOAD_NUMBERS)
      refuse(str("at most ", MNEME_PAYLOAD_NUMBERS, " numbers in defaults"), "more");
    to.default_numbers = used;
    to.default_count = static_cast<std::uint32_t>(from.size());
    for (const Json& number : from) all[used++] = number.get<T>();
  }

  mneme_payload& payload_;
  const std::string& where_;
  std::uint32_t integers_ = 0, reals_ = 0, choices_ = 0;
};

void fill(mneme_payload& payload, const PythonDeclaration& memory, const std::string& where) {
  const Json& json = memory.json;
  Filler filler(payload, where);
  const auto text_at = [&](const char* key) {
    return filler.text(json.at(key).get<std::string>());
  };
  std::memcpy(payload.magic, MNEME_PAYLOAD_MAGIC, sizeof(payload.magic));
  payload.id = text_at("id");
  payload.version = text_at("version");
  payload.summary = text_at("summary");
  payload.class_name = text_at("class");
  payload.losses = filler.text(join(json.at("losses").get<std::vector<std::string>>(), "|"));
  payload.package = filler.text(MNEME_SDK_VERSION);
  for (const Json& hook : json.at("hooks")) payload.hooks |= number_of(kHooks, hook);
  for (const Json& option : json.at("options")) filler.option(option);
  for (const PythonModule& module : memory.modules) filler.module(module);
}

// The one place of `part` in a bridge, with room for `size` bytes. Error (kPlugin).
std::size_t only_place(std::string_view bytes, std::string_view part, std::size_t size,
                       const std::string& where) {
  const std::size_t at = bytes.find(part);
  const bool is_there = at != std::string_view::npos && at + size <= bytes.size();
  if (is_there && bytes.find(part, at + 1) == std::string_view::npos) return at;
  throw_plugin({.where = where,
                .failed = "the bridge for memories in Python is not of this program's version",
                .hint = "build or install the program again"});
}

// `text` in a field of this size, filled with NUL.
std::string field(std::string text, std::size_t size, const std::string& what,
                  const std::string& where) {
  if (text.size() >= size) {
    throw_plugin({.where = where,
                  .failed = what + " is too long",
                  .expected = str("at most ", size - 1, " bytes"),
                  .got = str(text.size())});
  }
  text.resize(size, '\0');
  return text;
}

}  // namespace

std::vector<std::byte> wrapped(std::span<const std::byte> bridge, const PythonDeclaration& memory,
                               const std::string& where) {
  std::vector<std::byte> out(bridge.begin(), bridge.end());
  const std::string_view bytes(reinterpret_cast<const char*>(out.data()), out.size());
  const std::size_t payload_at =
      only_place(bytes, MNEME_PAYLOAD_MAGIC, sizeof(mneme_payload), where);
  const std::string own = field(MNEME_BRIDGE_ID, sizeof(mneme_note::id), "the id", where);
  const std::size_t note_at =
      only_place(bytes, own, own.size() + sizeof(mneme_note::version), where);
  const auto payload = std::make_unique<mneme_payload>();
  try {
    fill(*payload, memory, where);
    const std::string id = field(memory.json.at("id"), sizeof(mneme_note::id), "the id", where);
    const std::string version =
        field(memory.json.at("version"), sizeof(mneme_note::version), "the version", where);
    std::memcpy(out.data() + payload_at, payload.get(), sizeof(mneme_payload));
    std::memcpy(out.data() + note_at, id.data(), id.size());
    std::memcpy(out.data() + note_at + id.size(), version.data(), version.size());
  } catch (const Json::exception& error) {
    throw_plugin({.where = where,
                  .failed = str("its declaration cannot be read: ", error.what()),
                  .hint = "the package mneme and the program have to be of one version"});
  }
  return out;
}

std::string versions_text(const PythonVersions& versions) {
  std::vector<std::string> words;
  for (const auto& [name, version] : versions) words.push_back(str(name, ' ', version));
  return join(words, ", ");
}

WrappedPython wrap_python(const fs::path& path, const std::string& where) {
  const PythonPlace& place = python_place(where);
  const PythonDeclaration memory = declaration_of(path, place, where);
  return {.bytes = wrapped(MappedFile(place.bridge).bytes(), memory, where),
          .versions = memory.json.value("versions", PythonVersions())};
}

std::vector<fs::path> python_files(const fs::path& path, const std::string& where) {
  std::vector<fs::path> files;
  for (const PythonModule& module : declaration_of(path, python_place(where), where).modules)
    files.push_back(module.path);
  return files;
}

}  // namespace mneme::plugin
