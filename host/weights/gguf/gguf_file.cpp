#include "host/weights/gguf/gguf_file.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <span>

#include "host/base/error.hpp"
#include "host/base/file/file_kind.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"

namespace mneme::weights {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "GGUF";
constexpr std::uint64_t kDefaultAlignment = 32;
constexpr std::uint64_t kMaxAlignment = 65536;
constexpr std::uint32_t kMaxDimensions = 4;

template <typename T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

// Bytes of a number; 0 for texts and arrays.
std::size_t width_of(GgufKind kind) {
  switch (kind) {
    case GgufKind::U8:
    case GgufKind::I8:
    case GgufKind::BOOL:
      return 1;
    case GgufKind::U16:
    case GgufKind::I16:
      return 2;
    case GgufKind::U32:
    case GgufKind::I32:
    case GgufKind::F32:
      return 4;
    case GgufKind::U64:
    case GgufKind::I64:
    case GgufKind::F64:
      return 8;
    case GgufKind::STRING:
    case GgufKind::ARRAY:
      break;
  }
  return 0;
}

bool is_integer(GgufKind kind) {
  return width_of(kind) > 0 && kind != GgufKind::F32 && kind != GgufKind::F64 &&
         kind != GgufKind::BOOL;
}

bool is_real(GgufKind kind) { return kind == GgufKind::F32 || kind == GgufKind::F64; }

// Beyond 63 bits: the largest number.
std::int64_t integer_at(GgufKind kind, const std::byte* data) {
  switch (kind) {
    case GgufKind::U8:
      return load<std::uint8_t>(data);
    case GgufKind::I8:
      return load<std::int8_t>(data);
    case GgufKind::U16:
      return load<std::uint16_t>(data);
    case GgufKind::I16:
      return load<std::int16_t>(data);
    case GgufKind::U32:
      return load<std::uint32_t>(data);
    case GgufKind::I32:
      return load<std::int32_t>(data);
    case GgufKind::U64:
      return static_cast<std::int64_t>(std::min<std::uint64_t>(
          load<std::uint64_t>(data), std::numeric_limits<std::int64_t>::max()));
    default:
      return load<std::int64_t>(data);
  }
}

double real_at(GgufKind kind, const std::byte* data) {
  if (kind == GgufKind::F64) return load<double>(data);
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), load<float>(data));
  double value = 0.0;
  std::from_chars(digits.data(), end.ptr, value);
  return value;
}

std::string_view text_at(const std::byte* data) {
  return {reinterpret_cast<const char*>(data) + sizeof(std::uint64_t),
          static_cast<std::size_t>(load<std::uint64_t>(data))};
}

// Takes what a file's bytes hold, one behind the other.
class GgufReader {
 public:
  GgufReader(const fs::path& path, std::span<const std::byte> bytes) : path_(path), bytes_(bytes) {}

  [[noreturn]] void fail(const std::string& where, const std::string& failed,
                         const std::string& expected, const std::string& got) const {
    throw_run({.where = where.empty() ? path_.string() : str(path_.string(), ": ", where),
               .failed = failed,
               .expected = expected,
               .got = got,
               .hint = "copy or convert the file again"});
  }

  [[noreturn]] void fail_foreign() const {
    const std::string_view bytes(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
    const std::optional<FileKind> kind = find_file_kind(path_, bytes);
    if (!kind) fail("", "this is no GGUF file", "\"GGUF\" at its beginning", "other bytes");
    throw_run({.where = path_.string(),
               .failed = kind->failed,
               .expected = "a GGUF file",
               .got = kind->got,
               .hint = kind->hint});
  }

  [[nodiscard]] std::uint64_t at() const { return at_; }
  [[nodiscard]] std::uint64_t left() const { return bytes_.size() - at_; }

  const std::byte* take(std::uint64_t bytes, const std::string& where) {
    if (bytes > left()) {
      fail(where, "the file ends early", str(bytes, " bytes from byte ", at_), str(left()));
    }
    const std::byte* const begin = bytes_.data() + at_;
    at_ += bytes;
    return begin;
  }

  template <typename T>
  T number(const std::string& where) {
    return load<T>(take(sizeof(T), where));
  }

  std::string_view text(const std::string& where) {
    const std::byte* const begin = bytes_.data() + at_;
    take(number<std::uint64_t>(where), where);
    const std::string_view text = text_at(begin);
    if (!mneme::is_utf8(text)) fail(where, "a text", "UTF-8", "other bytes");
    return text;
  }

  // A name that no other of `taken` has.
  template <typename Taken>
  std::string name(const std::string& where, const Taken& is_taken) {
    std::string name(text(where));
    if (name.empty()) fail(where, "its name", "a text", "an empty one");
    if (is_taken(name)) fail(name, "the name is given twice", "", "");
    return name;
  }

  GgufValue value(const std::string& where) {
    GgufValue out{.kind = kind(where)};
    if (out.kind == GgufKind::ARRAY) {
      out.is_array = true;
      out.kind = kind(where);
      out.count = number<std::uint64_t>(where);
      if (out.kind == GgufKind::ARRAY) {
        fail(where, "an array of arrays", "an array of numbers or of texts", "arrays");
      }
    }
    out.data = bytes_.data() + at_;
    if (out.kind == GgufKind::STRING) {
      for (std::uint64_t i = 0; i < out.count; ++i) static_cast<void>(text(where));
      return out;
    }
    const std::uint64_t width = width_of(out.kind);
    if (out.count > left() / width) {
      fail(where, "the file ends early", str(out.count, " numbers of ", width, " bytes"),
           str(left(), " bytes"));
    }
    take(out.count * width, where);
    return out;
  }

  GgufTensor tensor(std::string name) {
    GgufTensor out{.name = std::move(name)};
    const std::string& where = out.name;
    const auto dimensions = number<std::uint32_t>(where);
    if (dimensions > kMaxDimensions) {
      fail(where, "its dimensions", str("at most ", kMaxDimensions), str(dimensions));
    }
    std::uint64_t elements = 1;
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      const auto extent = number<std::uint64_t>(where);
      // An element has half a byte at least.
      if (extent == 0 || extent > 2 * bytes_.size() / elements) {
        fail(where, "its extents", "extents from 1 on whose elements the file holds", str(extent));
      }
      elements *= extent;
      out.shape.insert(out.shape.begin(), static_cast<std::int64_t>(extent));
    }
    const auto id = number<std::uint32_t>(where);
    out.type = find_block_type(id);
    if (out.type == nullptr) {
      std::vector<std::string> known;
      for (const BlockType& type : block_types()) known.emplace_back(type.name);
      throw_run({.where = str(path_.string(), ": ", where),
                 .failed = "its quantisation is not read",
                 .expected = join(known, ", "),
                 .got = block_type_name(id),
                 .hint = "take a file of the model in one of these"});
    }
    const std::int64_t last = out.shape.empty() ? 1 : out.shape.back();
    const auto block = static_cast<std::int64_t>(out.type->elements);
    if (last % block != 0) {
      fail(where, str("its rows are no whole blocks of ", out.type->name),
           str("a multiple of ", block), str(last));
    }
    return out;
  }

  // The tensor's bytes, at an offset behind `begin` that follows the tensors before it.
  void place(GgufTensor& tensor, std::uint64_t given, std::uint64_t begin, std::uint64_t& next,
             std::uint64_t alignment) const {
    if (given != next) {
      fail(tensor.name, "its offset", str(next, ", behind the tensor before it"), str(given));
    }
    const std::uint64_t bytes = tensor.bytes();
    if (begin > bytes_.size() || given > bytes_.size() - begin ||
        bytes > bytes_.size() - begin - given) {
      fail(tensor.name, "the file ends early", str(bytes, " bytes from byte ", begin + given),
           str("a file of ", bytes_.size(), " bytes"));
    }
    tensor.data = bytes_.data() + begin + given;
    next = (given + bytes + alignment - 1) / alignment * alignment;
  }

 private:
  GgufKind kind(const std::string& where) {
    const auto id = number<std::uint32_t>(where);
    if (id > static_cast<std::uint32_t>(GgufKind::F64)) {
      fail(where, "the kind of its value", "a number from 0 to 12", str(id));
    }
    return static_cast<GgufKind>(id);
  }

  const fs::path& path_;
  std::span<const std::byte> bytes_;
  std::uint64_t at_ = 0;
};

void check_version(GgufReader& reader) {
  const std::string_view magic(reinterpret_cast<const char*>(reader.take(kMagic.size(), "magic")),
                               kMagic.size());
  if (magic != kMagic) reader.fail_foreign();
  const auto version = reader.number<std::uint32_t>("version");
  if (version == 2 || version == 3) return;
  const bool is_big = (version & 0xFFFF) == 0 && version != 0;
  reader.fail("version", is_big ? "the file is big endian" : "the version is not read",
              is_big ? "little endian" : "2 or 3",
              is_big ? "the bytes of a number in the other order" : str(version));
}

std::uint64_t alignment_of(const GgufFile& file) {
  constexpr const char* kKey = "general.alignment";
  const std::optional<std::int64_t> given = file.integer(kKey);
  if (!given) return kDefaultAlignment;
  const auto alignment = static_cast<std::uint64_t>(*given);
  if (std::has_single_bit(alignment) && alignment <= kMaxAlignment) return alignment;
  file.refuse(kKey, "the bounds of tensors", str("a power of 2 up to ", kMaxAlignment),
              str(*given));
}

void refuse_parts(const GgufFile& file) {
  constexpr const char* kKey = "split.count";
  const std::optional<std::int64_t> parts = file.integer(kKey);
  if (!parts || *parts <= 1) return;
  throw_usage({.where = str(file.path().string(), ": ", kKey),
               .failed = str("this is one of ", *parts, " files of a model"),
               .expected = "one file",
               .hint = "merge them first: llama-gguf-split --merge FIRST-FILE OUT.gguf"});
}

}  // namespace

std::size_t GgufTensor::elements() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) count *= static_cast<std::size_t>(extent);
  return count;
}

GgufFile GgufFile::open(const fs::path& path) {
  GgufFile file;
  file.map_ = std::make_shared<const MappedFile>(path);
  GgufReader reader(path, file.map_->bytes());
  check_version(reader);
  const auto tensors = reader.number<std::uint64_t>("number of tensors");
  const auto keys = reader.number<std::uint64_t>("number of keys");
  for (std::uint64_t i = 0; i < keys; ++i) {
    std::string key = reader.name(str("key ", i + 1, " of ", keys), [&](const std::string& name) {
      return file.values_.contains(name);
    });
    const GgufValue value = reader.value(key);
    file.values_.emplace(std::move(key), value);
  }
  refuse_parts(file);
  std::map<std::string, std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < tensors; ++i) {
    std::string name = reader.name(str("tensor ", i + 1, " of ", tensors),
                                   [&](const std::string& one) { return offsets.contains(one); });
    file.tensors_.push_back(reader.tensor(name));
    offsets.emplace(name, reader.number<std::uint64_t>(name));
  }
  const std::uint64_t alignment = alignment_of(file);
  const std::uint64_t begin = (reader.at() + alignment - 1) / alignment * alignment;
  std::uint64_t next = 0;
  for (GgufTensor& tensor : file.tensors_) {
    reader.place(tensor, offsets.at(tensor.name), begin, next, alignment);
  }
  return file;
}

const GgufTensor* GgufFile::find(std::string_view name) const {
  const auto found = std::ranges::find(tensors_, name, &GgufTensor::name);
  return found == tensors_.end() ? nullptr : &*found;
}

void GgufFile::refuse(const std::string& key, const std::string& failed,
                      const std::string& expected, const std::string& got,
                      const std::string& hint) const {
  throw_run({.where = str(path().string(), ": ", key),
             .failed = failed,
             .expected = expected,
             .got = got,
             .hint = hint});
}

const GgufValue* GgufFile::find_value(const std::string& key, bool is_array,
                                      bool (*has_kind)(GgufKind), const char* expected) const {
  const auto found = values_.find(key);
  if (found == values_.end()) return nullptr;
  const GgufValue& value = found->second;
  if (value.is_array == is_array && has_kind(value.kind)) return &value;
  refuse(key, "its value", expected, shown(value));
}

std::optional<std::int64_t> GgufFile::integer(const std::string& key) const {
  const GgufValue* const value = find_value(key, false, is_integer, "an integer");
  if (value == nullptr) return std::nullopt;
  return integer_at(value->kind, value->data);
}

std::optional<double> GgufFile::real(const std::string& key) const {
  const GgufValue* const value = find_value(key, false, is_real, "a real number");
  if (value == nullptr) return std::nullopt;
  const double number = real_at(value->kind, value->data);
  if (!std::isfinite(number)) refuse(key, "its value", "a finite number", shown(*value));
  return number;
}

std::optional<bool> GgufFile::flag(const std::string& key) const {
  const auto is_flag = [](GgufKind kind) { return kind == GgufKind::BOOL; };
  const GgufValue* const value = find_value(key, false, is_flag, "a truth value");
  if (value == nullptr) return std::nullopt;
  return load<std::uint8_t>(value->data) != 0;
}

std::optional<std::string> GgufFile::text(const std::string& key) const {
  const auto is_text = [](GgufKind kind) { return kind == GgufKind::STRING; };
  const GgufValue* const value = find_value(key, false, is_text, "a text");
  if (value == nullptr) return std::nullopt;
  return std::string(text_at(value->data));
}

std::optional<std::vector<std::string>> GgufFile::texts(const std::string& key) const {
  const auto is_text = [](GgufKind kind) { return kind == GgufKind::STRING; };
  const GgufValue* const value = find_value(key, true, is_text, "an array of texts");
  if (value == nullptr) return std::nullopt;
  std::vector<std::string> out;
  const std::byte* at = value->data;
  for (std::uint64_t i = 0; i < value->count; ++i) {
    out.emplace_back(text_at(at));
    at += sizeof(std::uint64_t) + out.back().size();
  }
  return out;
}

std::optional<std::vector<std::int64_t>> GgufFile::integers(const std::string& key) const {
  const GgufValue* const value = find_value(key, true, is_integer, "an array of integers");
  if (value == nullptr) return std::nullopt;
  std::vector<std::int64_t> out;
  for (std::uint64_t i = 0; i < value->count; ++i) {
    out.push_back(integer_at(value->kind, value->data + i * width_of(value->kind)));
  }
  return out;
}

std::optional<std::vector<double>> GgufFile::reals(const std::string& key) const {
  const GgufValue* const value = find_value(key, true, is_real, "an array of real numbers");
  if (value == nullptr) return std::nullopt;
  std::vector<double> out;
  for (std::uint64_t i = 0; i < value->count; ++i) {
    out.push_back(real_at(value->kind, value->data + i * width_of(value->kind)));
  }
  return out;
}

bool is_gguf(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;
  std::array<char, kMagic.size()> begin{};
  std::ifstream file(path, std::ios::binary);
  file.read(begin.data(), begin.size());
  return path.extension() == ".gguf" || std::string_view(begin.data(), begin.size()) == kMagic;
}

std::string shown(const GgufValue& value) {
  if (value.is_array) return str("an array of ", value.count, ' ', to_word(value.kind));
  if (is_integer(value.kind)) return str(integer_at(value.kind, value.data));
  if (is_real(value.kind)) return format_exact(real_at(value.kind, value.data));
  if (value.kind == GgufKind::BOOL) return load<std::uint8_t>(value.data) != 0 ? "true" : "false";
  return str('"', shortened(std::string(text_at(value.data)), 60), '"');
}

}  // namespace mneme::weights
