#include "host/data/token_array.hpp"

#include <bit>
#include <cstring>
#include <utility>

namespace mneme::data {
namespace {

static_assert(std::endian::native == std::endian::little, "stored ids are little-endian");

// An id of `width` bytes at any address.
std::int64_t load(const std::byte* from, int width) {
  const auto value = [from]<typename T>(T out) {
    std::memcpy(&out, from, sizeof out);
    return static_cast<std::int64_t>(out);
  };
  switch (width) {
    case 1:
      return value(std::uint8_t{});
    case 2:
      return value(std::uint16_t{});
    case 4:
      return value(std::uint32_t{});
    default:
      return value(std::int64_t{});
  }
}

template <typename T>
void widen(const std::byte* from, std::int64_t count, std::int64_t* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    T value{};
    std::memcpy(&value, from + static_cast<std::size_t>(i) * sizeof value, sizeof value);
    out[i] = static_cast<std::int64_t>(value);
  }
}

}  // namespace

int token_width(std::int64_t vocabulary_size) {
  if (vocabulary_size <= 256) return 1;
  return vocabulary_size <= 65536 ? 2 : 4;
}

TokenArray::TokenArray(std::span<const std::int64_t> ids, int width)
    : size_(static_cast<std::int64_t>(ids.size())), width_(width) {
  std::vector<std::byte> bytes(ids.size() * static_cast<std::size_t>(width));
  for (std::size_t i = 0; i < ids.size(); ++i) {  // the low bytes come first
    std::memcpy(bytes.data() + i * static_cast<std::size_t>(width), &ids[i],
                static_cast<std::size_t>(width));
  }
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  data_ = owner->data();
  owner_ = owner;
}

TokenArray::TokenArray(std::shared_ptr<const void> owner, const std::byte* data, std::int64_t size,
                       int width)
    : owner_(std::move(owner)), data_(data), size_(size), width_(width) {}

std::span<const std::byte> TokenArray::bytes() const noexcept {
  return {data_, static_cast<std::size_t>(size_) * static_cast<std::size_t>(width_)};
}

std::int64_t TokenArray::operator[](std::int64_t place) const {
  return load(data_ + place * width_, width_);
}

void TokenArray::copy(std::int64_t first, std::int64_t count, std::int64_t* out) const {
  const std::byte* const from = data_ + first * width_;
  switch (width_) {
    case 1:
      return widen<std::uint8_t>(from, count, out);
    case 2:
      return widen<std::uint16_t>(from, count, out);
    case 4:
      return widen<std::uint32_t>(from, count, out);
    default:
      return widen<std::int64_t>(from, count, out);
  }
}

void TokenSink::flush() {
  if (filled_ == 0) return;
  write({waiting_.data(), filled_});
  passed_ += static_cast<std::int64_t>(filled_);
  filled_ = 0;
}

void append_narrow(std::span<const std::int32_t> ids, int width, std::vector<std::byte>& out) {
  const auto step = static_cast<std::size_t>(width);
  std::size_t place = out.size();
  out.resize(place + ids.size() * step);
  for (const std::int32_t id : ids) {
    std::memcpy(out.data() + place, &id, step);
    place += step;
  }
}

TokenArray TokenBuffer::take() {
  flush();
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::exchange(bytes_, {}));
  return {owner, owner->data(), static_cast<std::int64_t>(owner->size()) / width_, width_};
}

}  // namespace mneme::data
