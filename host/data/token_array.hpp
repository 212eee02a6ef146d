// Token ids in as few bytes as their vocabulary needs: read from memory or from a mapped file, and
// written one after another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace mneme::data {

// Bytes that an id of a vocabulary of that size takes: 1 up to 256 symbols, 2 up to 65,536, else 4.
[[nodiscard]] int token_width(std::int64_t vocabulary_size);

// Read-only ids of 1, 2, 4 or 8 bytes each, little-endian, unaligned. A copy shares the bytes,
// which live as long as the last copy. Reading is thread-safe.
class TokenArray {
 public:
  TokenArray() = default;
  // Ids in memory, in `width` bytes each; every id must fit.
  TokenArray(std::span<const std::int64_t> ids, int width);
  // `size` ids at `data`, which `owner` keeps alive: a mapped file, for instance.
  TokenArray(std::shared_ptr<const void> owner, const std::byte* data, std::int64_t size,
             int width);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  // Bytes of one id: 1, 2, 4 or 8.
  [[nodiscard]] int width() const noexcept { return width_; }
  // The bytes of all ids.
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept;
  // The id at a place, which must be below size().
  [[nodiscard]] std::int64_t operator[](std::int64_t place) const;
  // Copies ids [first, first + count), which must lie inside, to `out`.
  void copy(std::int64_t first, std::int64_t count, std::int64_t* out) const;

 private:
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
  int width_ = 4;
};

// Takes the ids of a text in order. Ids are gathered, so that a virtual call covers thousands.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  TokenSink(const TokenSink&) = delete;
  TokenSink& operator=(const TokenSink&) = delete;

  void push(std::int32_t id) {
    if (filled_ == waiting_.size()) flush();
    waiting_[filled_++] = id;
  }
  // Passes on what waits; call it after the last id.
  void flush();
  // Ids taken so far.
  [[nodiscard]] std::int64_t count() const noexcept {
    return passed_ + static_cast<std::int64_t>(filled_);
  }

 protected:
  TokenSink() = default;
  virtual void write(std::span<const std::int32_t> ids) = 0;

 private:
  std::array<std::int32_t, 8192> waiting_;
  std::size_t filled_ = 0;
  std::int64_t passed_ = 0;
};

// Appends ids in `width` (1, 2 or 4) bytes each to `out`; every id must fit.
void append_narrow(std::span<const std::int32_t> ids, int width, std::vector<std::byte>& out);

// Gathers ids in memory.
class TokenBuffer final : public TokenSink {
 public:
  explicit TokenBuffer(int width) : width_(width) {}
  // The ids so far; the buffer is empty afterwards.
  [[nodiscard]] TokenArray take();

 private:
  void write(std::span<const std::int32_t> ids) override { append_narrow(ids, width_, bytes_); }

  int width_;
  std::vector<std::byte> bytes_;
};

}  // namespace mneme::data
