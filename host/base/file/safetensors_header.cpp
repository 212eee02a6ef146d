#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/file_kind.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"

namespace mneme::safetensors {
namespace {

// Sorted keys: lookups in a header of a million names stay fast, which Json's kept order is not.
using SortedJson = nlohmann::json;

// Looks for a key that an object holds twice, of which nlohmann would keep the last silently. Its
// parser can call back for each key, but then takes quadratic time in the members of an object.
class KeyWatch final : public nlohmann::json_sax<SortedJson> {
 public:
  // The first such key.
  [[nodiscard]] const std::optional<std::string>& twice() const { return twice_; }

  bool start_object(std::size_t /*elements*/) override {
    open_.emplace_back();
    return true;
  }
  bool key(string_t& name) override {
    if (!open_.back().insert(name).second) twice_ = name;
    return !twice_;
  }
  bool end_object() override {
    open_.pop_back();
    return true;
  }
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_array(std::size_t /*elements*/) override { return true; }
  bool end_array() override { return true; }
  // The other pass tells of it.
  bool parse_error(std::size_t /*place*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& /*error*/) override {
    return false;
  }

 private:
  std::vector<std::set<std::string>> open_;
  std::optional<std::string> twice_;
};

// What a tensor's entry in the header says, checked against the data's size only later.
struct HeaderEntry {
  TensorView view;
  std::size_t begin = 0;
  std::size_t end = 0;
};

// Checks one file's header and turns it into entries; every failure names the file.
class HeaderReader {
 public:
  HeaderReader(const std::filesystem::path& path, std::span<const std::byte> file)
      : path_(path.string()), file_(file) {}

  Header read() {
    const std::string_view text = header_text();
    const SortedJson header = parse(text);
    data_ = file_.subspan(kLengthBytes + text.size());
    for (const auto& [name, value] : header.items()) {
      if (name == kMetadataKey) {
        read_metadata(value);
      } else {
        entries_.push_back(read_entry(name, value));
      }
    }
    check_layout();
    Header result{.metadata = std::move(metadata_), .tensors = {}};
    for (HeaderEntry& entry : entries_) result.tensors.push_back(std::move(entry.view));
    return result;
  }

 private:
  [[noreturn]] void fail(ErrorText text) const {
    text.where = text.where.empty() ? path_ : str(path_, ": ", text.where);
    throw_run(text);
  }
  static std::string tensor(const std::string& name) { return str("tensor \"", name, '"'); }

  [[noreturn]] void fail_foreign(const std::string& got) const {
    const std::string_view bytes(reinterpret_cast<const char*>(file_.data()), file_.size());
    if (const std::optional<FileKind> kind = find_file_kind(path_, bytes)) {
      fail({.failed = kind->failed,
            .expected = "a safetensors file",
            .got = kind->got,
            .hint = kind->hint});
    }
    fail({.failed = "is not a safetensors file",
          .expected = "8 bytes header length, then a JSON object",
          .got = got,
          .hint = "check the path, or convert the file to safetensors"});
  }

  std::string_view header_text() const {
    if (file_.size() < kLengthBytes) {
      fail_foreign(str("a file of ", file_.size(), " bytes"));
    }
    std::uint64_t length = 0;
    std::memcpy(&length, file_.data(), sizeof(length));
    const auto rest = file_.subspan(kLengthBytes);
    const bool looks_right = !rest.empty() && static_cast<char>(rest[0]) == '{';
    if (!looks_right) fail_foreign("other bytes");
    if (length > kMaxHeaderBytes) {
      fail({.failed = "header too long",
            .expected = str("at most ", kMaxHeaderBytes, " bytes"),
            .got = str(length)});
    }
    if (length > rest.size()) {
      fail({.failed = "truncated header",
            .expected = str(length, " bytes"),
            .got = str(rest.size()),
            .hint = "copy the file again"});
    }
    return {reinterpret_cast<const char*>(rest.data()), static_cast<std::size_t>(length)};
  }

  SortedJson parse(std::string_view text) const {
    if (const std::size_t depth = json_depth(text); depth > kMaxJsonDepth) {
      fail({.failed = "objects and lists of the header lie too deep in each other",
            .expected = str("at most ", kMaxJsonDepth, " levels"),
            .got = str(depth)});
    }
    KeyWatch watch;
    static_cast<void>(SortedJson::sax_parse(text.begin(), text.end(), &watch));
    if (watch.twice())
      fail({.failed = str("the header holds the key \"", *watch.twice(), "\" twice")});
    try {
      SortedJson header = SortedJson::parse(text.begin(), text.end());
      if (!header.is_object()) {
        fail({.failed = "bad header", .expected = "a JSON object", .got = header.type_name()});
      }
      return header;
    } catch (const SortedJson::parse_error& error) {
      fail({.failed = str("the header is not JSON at its byte ", error.byte, ": ", error.what())});
    } catch (const SortedJson::out_of_range& error) {  // of a double: 1e999
      fail({.failed = "a number of the header is too large",
            .expected = "numbers of 64 bits",
            .got = error.what()});
    }
  }

  void read_metadata(const SortedJson& value) {
    if (value.is_null()) return;
    if (!value.is_object()) {
      fail({.where = "__metadata__", .expected = "an object of strings", .got = value.type_name()});
    }
    for (const auto& [key, text] : value.items()) {
      if (!text.is_string()) {
        fail({.where = str("__metadata__: key \"", key, '"'),
              .expected = "a string",
              .got = text.type_name()});
      }
      metadata_[key] = text.get<std::string>();
    }
  }

  const SortedJson& field(const std::string& name, const SortedJson& value, const char* key) const {
    const auto found = value.find(key);
    if (found == value.end()) {
      fail({.where = tensor(name), .failed = str("its header entry has no \"", key, '"')});
    }
    return *found;
  }

  // A JSON array of non-negative integers.
  std::vector<std::int64_t> integers(const std::string& name, const SortedJson& value,
                                     const char* what) const {
    const auto refuse = [&](const std::string& got) {
      fail({.where = tensor(name),
            .failed = str("bad ", what),
            .expected = "a list of integers from 0 to 2^63 - 1",
            .got = got});
    };
    if (!value.is_array()) refuse(value.type_name());
    std::vector<std::int64_t> out;
    for (const SortedJson& item : value) {
      constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
      if (!item.is_number_unsigned() || item.get<std::uint64_t>() > kMax) refuse(item.dump());
      out.push_back(item.get<std::int64_t>());
    }
    return out;
  }

  HeaderEntry read_entry(const std::string& name, const SortedJson& value) const {
    if (!value.is_object()) {
      fail({.where = tensor(name),
            .failed = "bad header entry",
            .expected = "an object",
            .got = value.type_name()});
    }
    HeaderEntry entry;
    entry.view.name = name;
    const SortedJson& dtype = field(name, value, "dtype");
    if (!dtype.is_string() || !parse_dtype(dtype.get<std::string>(), entry.view.dtype)) {
      fail({.where = tensor(name),
            .failed = "unknown dtype",
            .expected = join(all_words<DType>(), " | "),
            .got = dtype.dump()});
    }
    entry.view.shape = integers(name, field(name, value, "shape"), "shape");
    const auto offsets = integers(name, field(name, value, "data_offsets"), "data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1]) {
      fail({.where = tensor(name),
            .failed = "bad data_offsets",
            .expected = "[begin, end] with begin <= end",
            .got = list_text(offsets)});
    }
    entry.begin = static_cast<std::size_t>(offsets[0]);
    entry.end = static_cast<std::size_t>(offsets[1]);
    check_size(entry);
    return entry;
  }

  void check_size(HeaderEntry& entry) const {
    const TensorView& view = entry.view;
    const std::string what =
        str(dtype_name(view.dtype), ' ', list_text(view.shape), " (dtype x shape)");
    std::size_t bytes = 0;
    if (!checked_bytes(view.shape, view.dtype, bytes)) {
      fail({.where = tensor(view.name),
            .failed = "a shape that cannot be stored",
            .expected = "whole bytes, fewer than 2^63",
            .got = what});
    }
    if (entry.end > data_.size()) {
      fail({.where = tensor(view.name),
            .failed = "its data lies outside the file",
            .expected = str("data_offsets up to ", data_.size()),
            .got = str('[', entry.begin, ", ", entry.end, ']'),
            .hint = "the file may be truncated; copy it again"});
    }
    if (entry.end - entry.begin != bytes) {
      fail({.where = tensor(view.name),
            .failed = "size mismatch",
            .expected = str(bytes, " bytes for ", what),
            .got = str(entry.end - entry.begin, " bytes in data_offsets")});
    }
    entry.view.bytes = bytes;
    entry.view.data = data_.data() + entry.begin;
  }

  // The tensors must cover the data exactly once.
  void check_layout() {
    std::sort(entries_.begin(), entries_.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
      return std::tie(a.begin, a.end, a.view.name) < std::tie(b.begin, b.end, b.view.name);
    });
    std::size_t covered = 0;
    std::string previous = "the header";
    for (const HeaderEntry& entry : entries_) {
      if (entry.begin < covered) {
        fail({.where = tensor(entry.view.name),
              .failed = str("its data overlaps ", previous),
              .expected = str("to begin at ", covered),
              .got = str(entry.begin)});
      }
      if (entry.begin > covered) {
        fail({.where = tensor(entry.view.name),
              .failed = str("hole in the data after ", previous),
              .expected = str("to begin at ", covered),
              .got = str(entry.begin)});
      }
      covered = entry.end;
      previous = tensor(entry.view.name);
    }
    if (covered != data_.size()) {
      fail({.failed = str("data after the last tensor, ", previous),
            .expected = str(covered, " bytes of data"),
            .got = str(data_.size())});
    }
  }

  std::string path_;
  std::span<const std::byte> file_;
  std::span<const std::byte> data_;
  std::map<std::string, std::string> metadata_;
  std::vector<HeaderEntry> entries_;
};

}  // namespace

Header read_header(const std::filesystem::path& path, std::span<const std::byte> file) {
  return HeaderReader(path, file).read();
}

}  // namespace mneme::safetensors
