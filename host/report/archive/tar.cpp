#include "host/report/archive/tar.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <set>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/text.hpp"

namespace mneme::report {
namespace {

constexpr std::size_t kTarBlock = 512;
constexpr std::uint64_t kMaxTarBytes = (std::uint64_t{1} << 33) - 1;  // 11 octal digits
using TarHeader = std::array<char, kTarBlock>;

struct TarField {
  std::size_t begin;
  std::size_t size;
};
constexpr TarField kTarName{0, 100}, kTarMode{100, 8}, kTarUser{108, 8}, kTarGroup{116, 8},
    kTarSize{124, 12}, kTarTime{136, 12}, kTarSum{148, 8}, kTarMagic{257, 8}, kTarPrefix{345, 155};
constexpr std::size_t kTarKind = 156;
constexpr std::string_view kUstar("ustar\00000", 8);

// Octal digits up to the field's last byte, which stays 0.
void put_number(TarHeader& header, TarField field, std::uint64_t value) {
  for (std::size_t i = field.size - 1; i-- > 0; value /= 8)
    header[field.begin + i] = static_cast<char>('0' + value % 8);
}

void put_text(TarHeader& header, TarField field, std::string_view text) {
  std::ranges::copy(text, header.begin() + static_cast<std::ptrdiff_t>(field.begin));
}

// The sum of the header's bytes, those of the sum itself taken as blanks.
std::uint64_t tar_sum(const TarHeader& header) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < header.size(); ++i) {
    const bool is_sum = i >= kTarSum.begin && i < kTarSum.begin + kTarSum.size;
    sum += is_sum ? std::uint64_t{' '} : static_cast<unsigned char>(header[i]);
  }
  return sum;
}

// Where a long name is divided into prefix and name; npos = it is too long.
std::size_t tar_division(const std::string& name) {
  if (name.size() <= kTarName.size) return 0;
  const std::size_t slash = name.find('/', name.size() - kTarName.size - 1);
  return slash == std::string::npos || slash > kTarPrefix.size ? std::string::npos : slash;
}

TarHeader header_of(const TarEntry& entry) {
  const std::size_t division = tar_division(entry.name);
  if (!is_inside(entry.name) || division == std::string::npos ||
      entry.bytes.size() > kMaxTarBytes) {
    throw_run({.where = entry.name,
               .failed = "cannot be put into an archive",
               .expected = "a relative name of at most 255 bytes, a file of less than 8 GiB",
               .got = str(entry.name.size(), " bytes of name, ", entry.bytes.size(), " of file")});
  }
  TarHeader header{};
  put_text(header, kTarName, std::string_view(entry.name).substr(division == 0 ? 0 : division + 1));
  put_text(header, kTarPrefix, std::string_view(entry.name).substr(0, division));
  put_number(header, kTarMode, 0644);
  put_number(header, kTarUser, 0);
  put_number(header, kTarGroup, 0);
  put_number(header, kTarSize, entry.bytes.size());
  put_number(header, kTarTime, 0);
  header[kTarKind] = '0';
  put_text(header, kTarMagic, kUstar);
  put_number(header, {kTarSum.begin, kTarSum.size - 1}, tar_sum(header));
  header[kTarSum.begin + kTarSum.size - 1] = ' ';
  return header;
}

std::string_view text_of(const TarHeader& header, TarField field) {
  const std::string_view all(header.data() + field.begin, field.size);
  return all.substr(0, all.find('\0'));
}

// Reads one archive from its begin to its end.
class TarReader {
 public:
  TarReader(std::span<const std::byte> archive, const std::string& label)
      : archive_(archive), label_(label) {}

  std::vector<TarEntry> entries() {
    std::vector<TarEntry> out;
    std::set<std::string> names;
    for (TarHeader header = next_header(); header != TarHeader{}; header = next_header()) {
      const std::size_t header_place = place_ - kTarBlock;
      check(header, header_place);
      std::string name(text_of(header, kTarName));
      if (const std::string_view prefix = text_of(header, kTarPrefix); !prefix.empty())
        name = str(prefix, '/', name);
      if (!is_inside(name)) fail(header_place, "a name that leads out of the folder", name);
      if (!names.insert(name).second) fail(header_place, "a second file of the name", name);
      const std::uint64_t size = number(header, kTarSize, header_place);
      if (size > archive_.size() - place_)
        fail(header_place, "the archive is cut, or a size is wrong", name);
      out.push_back({std::move(name), archive_.subspan(place_, size)});
      place_ += size;
      skip_zeros((kTarBlock - size % kTarBlock) % kTarBlock);
    }
    skip_zeros(kTarBlock);  // the second block of the end
    skip_zeros(archive_.size() - place_);
    return out;
  }

 private:
  // `place`: of the first byte that is wrong, or of the header that begins an entry.
  [[noreturn]] void fail(std::size_t place, const std::string& what,
                         const std::string& got = "") const {
    throw_run(
        {.where = str(label_, ": byte ", place, " of the archive"), .failed = what, .got = got});
  }

  TarHeader next_header() {
    if (archive_.size() - place_ < kTarBlock) fail(archive_.size(), "the archive is cut");
    TarHeader header;
    std::memcpy(header.data(), archive_.data() + place_, kTarBlock);
    place_ += kTarBlock;
    return header;
  }

  void check(const TarHeader& header, std::size_t place) const {
    if (std::string_view(header.data() + kTarMagic.begin, kTarMagic.size) != kUstar)
      fail(place, "is no archive in the ustar form of tar");
    if (number(header, kTarSum, place) != tar_sum(header)) fail(place, "a damaged header");
    if (header[kTarKind] != '0') fail(place, "an entry that is no regular file");
  }

  // `place` of the header.
  [[nodiscard]] std::uint64_t number(const TarHeader& header, TarField field,
                                     std::size_t place) const {
    const std::string_view text = text_of(header, field);
    std::uint64_t value = 0;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value, 8);
    const std::string_view rest(end, static_cast<std::size_t>(text.data() + text.size() - end));
    if (code != std::errc() || rest.find_first_not_of(' ') != std::string_view::npos)
      fail(place + field.begin, "a number that is none");
    return value;
  }

  void skip_zeros(std::size_t count) {
    if (count > archive_.size() - place_) fail(archive_.size(), "the archive is cut");
    for (const std::byte one : archive_.subspan(place_, count)) {
      if (one != std::byte{0}) fail(place_, "bytes that belong to no file");
      ++place_;
    }
  }

  std::span<const std::byte> archive_;
  const std::string& label_;
  std::size_t place_ = 0;
};

}  // namespace

bool is_inside(std::string_view name) {
  if (std::ranges::any_of(name, [](char c) { return static_cast<unsigned char>(c) < ' '; }))
    return false;
  while (true) {
    const std::size_t end = name.find('/');
    const std::string_view part = name.substr(0, end);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == std::string_view::npos) return true;
    name.remove_prefix(end + 1);
  }
}

void write_tar(const std::filesystem::path& path, const std::vector<TarEntry>& entries) {
  static constexpr std::array<std::byte, 2 * kTarBlock> kZeros{};
  std::vector<TarHeader> headers;
  for (const TarEntry& entry : entries) headers.push_back(header_of(entry));
  std::vector<std::span<const std::byte>> parts;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    parts.push_back(std::as_bytes(std::span(headers[i])));
    parts.push_back(entries[i].bytes);
    const std::size_t filled = entries[i].bytes.size() % kTarBlock;
    parts.push_back(std::span(kZeros).first((kTarBlock - filled) % kTarBlock));
  }
  parts.push_back(kZeros);
  write_file_atomic(path, parts);
}

std::vector<TarEntry> read_tar(std::span<const std::byte> archive, const std::string& label) {
  return TarReader(archive, label).entries();
}

}  // namespace mneme::report
