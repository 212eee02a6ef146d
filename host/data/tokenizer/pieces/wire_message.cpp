#include "host/data/tokenizer/pieces/wire_message.hpp"

#include <array>
#include <bit>
#include <string>

#include "host/base/error.hpp"

namespace mneme::data {
namespace {

constexpr std::uint32_t kVarint = 0, kEightBytes = 1, kLength = 2, kFourBytes = 5;

std::string type_name(std::uint32_t type) {
  constexpr std::array<std::string_view, 6> kNames = {
      "an integer",         "8 bytes", "bytes with their length", "a group",
      "the end of a group", "4 bytes"};
  return type < kNames.size() ? std::string(kNames[type]) : str("type ", type);
}

}  // namespace

void WireMessage::fail(std::size_t place, const std::string& failed, const std::string& expected,
                       const std::string& got) const {
  throw_usage({.where = str(file_, ": byte ", start_ + place),
               .failed = failed,
               .expected = expected,
               .got = got,
               .hint = "the file is damaged or no model of sentencepiece; fetch it again"});
}

void WireMessage::refuse(const std::string& name, const std::string& expected,
                         const std::string& got) const {
  throw_usage({.where = str(file_, ": byte ", start_ + at_, ": ", name_, name),
               .failed = "the value is not read",
               .expected = expected,
               .got = got});
}

std::uint64_t WireMessage::read_varint() {
  std::uint64_t value = 0;
  const std::size_t begin = place_;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (place_ == bytes_.size()) {
      fail(begin, "an integer is cut off", "a byte below 128 at its end", "the end of the message");
    }
    const auto byte = static_cast<unsigned char>(bytes_[place_++]);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  fail(begin, "an integer is too long", "at most 10 bytes", "more");
}

std::string_view WireMessage::read_bytes(std::uint64_t count) {
  const std::size_t left = bytes_.size() - place_;
  if (count > left) {
    fail(at_, str("field ", number_, " is cut off"), str(count, " bytes"), str(left, " bytes"));
  }
  const std::string_view out = bytes_.substr(place_, static_cast<std::size_t>(count));
  place_ += out.size();
  return out;
}

bool WireMessage::next() {
  if (place_ == bytes_.size()) return false;
  at_ = place_;
  const std::uint64_t tag = read_varint();
  type_ = static_cast<std::uint32_t>(tag & 7);
  constexpr std::uint64_t kMostNumber = (std::uint64_t{1} << 29) - 1;
  if (tag >> 3 == 0 || tag >> 3 > kMostNumber) {
    fail(at_, "no field begins here", str("a field's number from 1 to ", kMostNumber),
         str(tag >> 3));
  }
  number_ = static_cast<std::uint32_t>(tag >> 3);
  if (type_ == kVarint) {
    integer_ = read_varint();
  } else if (type_ == kEightBytes || type_ == kFourBytes) {
    value_ = read_bytes(type_ == kEightBytes ? 8 : 4);
  } else if (type_ == kLength) {
    value_ = read_bytes(read_varint());
  } else {
    fail(at_, str("field ", number_, " has a type that is not read"),
         "an integer, 4 bytes, 8 bytes, or bytes with their length", type_name(type_));
  }
  return true;
}

void WireMessage::require_type(std::uint32_t type, const std::string& name) const {
  if (type_ == type) return;
  throw_usage({.where = str(file_, ": byte ", start_ + at_, ": ", name_, name),
               .failed = "the field has another type",
               .expected = type_name(type),
               .got = type_name(type_)});
}

std::uint64_t WireMessage::integer(const std::string& name) const {
  require_type(kVarint, name);
  return integer_;
}

float WireMessage::real(const std::string& name) const {
  require_type(kFourBytes, name);
  std::uint32_t bits = 0;
  for (std::size_t i = 4; i-- > 0;) bits = bits << 8 | static_cast<unsigned char>(value_[i]);
  return std::bit_cast<float>(bits);
}

std::string_view WireMessage::text(const std::string& name) const {
  require_type(kLength, name);
  return value_;
}

WireMessage WireMessage::message(const std::string& name) const {
  WireMessage out(text(name), file_);
  out.name_ = str(name_, name, ".");
  out.start_ = start_ + place_ - value_.size();
  return out;
}

}  // namespace mneme::data
