// Segments of token lanes, and the streams that yield them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace mneme::data {

// A lane's or a position's place in a vector.
inline std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// The target of a position that has none: no loss.
inline constexpr std::int64_t kNoTarget = -1;

// Where the information about a target lies, for tasks that know it.
enum class Source : std::uint8_t {
  kNone = 0,     // nowhere: the target cannot be predicted
  kInside = 1,   // in this segment's inputs, at or before the predicting position
  kOutside = 2,  // in an earlier segment only
};

// T tokens of each of B lanes. A lane's first valid[b] positions hold tokens; the rest is padding
// (input 0, target kNoTarget), which is never absorbed. Only a lane that is reset next, or that has
// come to its end, is padded; valid[b] = 0 is possible while other lanes still run.
struct TokenSegment {
  std::int64_t lanes = 0;              // B
  std::int64_t length = 0;             // T, at least 1: the longest lane's valid count
  std::vector<std::int64_t> inputs;    // [B, T], row-major
  std::vector<std::int64_t> targets;   // [B, T]: the next token, or kNoTarget
  std::vector<std::int64_t> valid;     // [B]
  std::vector<std::uint8_t> reset;     // [B]: 1 = the lane starts from an empty memory
  std::vector<std::int64_t> document;  // [B]: of the lane's first token; -1 when valid is 0
  // [B]: tokens of that document before the lane's first token, counted from the document's true
  // start, even where a lane begins inside it; -1 when valid is 0.
  std::vector<std::int64_t> offset;
  // [B, T]: of each token, -1 in padding, where tokens may not attend to other documents (reset =
  // mask); empty = they may.
  std::vector<std::int64_t> documents;
  std::vector<std::uint8_t> source;  // [B, T] of Source, or empty when the task knows none
  // [B, T]: ids whose embeddings are added to those of the inputs; empty = none.
  std::vector<std::int64_t> types;
  std::int64_t epoch = 0;  // from 0
  std::int64_t index = 0;  // segments before this one since the stream began

  // Positions that have a target.
  [[nodiscard]] std::int64_t target_count() const;
  // True when a lane outside of [first, first + count) is not reset.
  [[nodiscard]] bool do_others_go_on(std::int64_t first, std::int64_t count) const;
  // Lanes [first, first + count) alone; the length stays, so that these may all be padded.
  [[nodiscard]] TokenSegment lanes_of(std::int64_t first, std::int64_t count) const;
  // Sizes every member for B x T and fills in padding and zeros; `has_source` sizes `source`.
  void prepare(std::int64_t lane_count, std::int64_t tokens, bool has_source);
};

// What a stream is cut into.
struct StreamOptions {
  std::int64_t lanes = 1;         // B
  std::int64_t segment = 1;       // T, tokens
  std::int64_t epochs = 0;        // passes over the data; 0 = endless
  std::int64_t max_segments = 0;  // after which the stream ends; 0 = no bound
  bool is_training = false;       // messages name train.lanes, else eval.lanes; training needs a
                                  // whole segment in every lane, evaluation two tokens
  std::uint64_t seed = 0;         // of generated tasks, beside data.seed
};

// A deterministic sequence of segments. One thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;

  // Fills in the next segment; false, with the segment untouched, at the stream's end.
  virtual bool next(TokenSegment& segment) = 0;

  // The place as plain integers: store them and give them to seek() of an equally made stream,
  // and it continues exactly here.
  [[nodiscard]] virtual std::vector<std::int64_t> position() const = 0;
  // Error (kRun) when the place was stored by another kind of stream, or by one with other lanes,
  // segment or data.
  virtual void seek(const std::vector<std::int64_t>& position) = 0;

  // Segments and targets of one epoch; 0 for tasks without end.
  [[nodiscard]] virtual std::int64_t segments_per_epoch() const = 0;
  [[nodiscard]] virtual std::int64_t targets_per_epoch() const = 0;
  // Segments of one epoch that have a target: those that a training step counts. All of them,
  // unless a task asks for an answer only.
  [[nodiscard]] virtual std::int64_t target_segments_per_epoch() const {
    return segments_per_epoch();
  }
  // The most tokens that a lane has from one segment in which all lanes are reset to the next; a
  // memory drops its rows there, and not where some lanes alone are reset. 0 = not known.
  [[nodiscard]] virtual std::int64_t tokens_between_resets() const { return 0; }

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

 protected:
  Stream() = default;
};

// Throws Error (kUsage) unless lanes and segment are at least 1 and epochs and max_segments are not
// negative.
void check_stream_options(const StreamOptions& options);
// "train" or "eval": the table of an experiment file that holds the options.
[[nodiscard]] std::string_view section_of(const StreamOptions& options);

// One integer of a stored position with the name that messages give it.
struct PositionField {
  std::string_view name;
  std::int64_t ours;
};

// Throws Error (kRun) unless `position` has `size` integers and begins with the fields' values.
void check_position(const std::vector<std::int64_t>& position, std::size_t size,
                    const std::vector<PositionField>& fields);

// A stream whose place is the number of segments that it has given: a position has the fields'
// values and this number.
class CountedStream : public Stream {
 public:
  [[nodiscard]] std::vector<std::int64_t> position() const final;
  void seek(const std::vector<std::int64_t>& position) final;

 protected:
  [[nodiscard]] virtual std::vector<PositionField> position_fields() const = 0;

  std::int64_t index_ = 0;  // segments given
};

// --- Token ids in as few bytes as their vocabulary needs ---
// Read from memory or from a mapped file, and written one after another.

// Bytes that an id of a vocabulary of that size takes: 1 up to 256 symbols, 2 up to 65,536, else 4.
[[nodiscard]] int token_width(std::int64_t vocabulary_size);

// Read-only ids of 1, 2, 4 or 8 bytes each, little-endian, unaligned, in one piece of memory or in
// several. A copy shares the bytes, which live as long as the last copy. Reading is thread-safe.
class TokenArray {
 public:
  TokenArray() = default;
  // Ids in memory, in `width` bytes each; every id must fit.
  TokenArray(std::span<const std::int64_t> ids, int width);
  // `size` ids at `data`, which `owner` keeps alive: a mapped file, for instance.
  TokenArray(std::shared_ptr<const void> owner, const std::byte* data, std::int64_t size,
             int width);
  // The ids of the parts, one part after another; all have the same width. The bytes stay where
  // they are: the shards of a prepared split, for instance.
  explicit TokenArray(std::vector<TokenArray> parts);

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  // Bytes of one id: 1, 2, 4 or 8.
  [[nodiscard]] int width() const noexcept { return width_; }
  // The bytes of all ids in order, in the pieces in which they lie; none when there is no id.
  [[nodiscard]] std::vector<std::span<const std::byte>> pieces() const;
  // The id at a place, which must be below size().
  [[nodiscard]] std::int64_t operator[](std::int64_t place) const;
  // Copies ids [first, first + count), which must lie inside, to `out`.
  void copy(std::int64_t first, std::int64_t count, std::int64_t* out) const;

 private:
  struct Joined;
  [[nodiscard]] const Joined& joined() const;

  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::int64_t size_ = 0;
  int width_ = 4;
  int stride_ = 4;  // the width, or 0 where the owner is a Joined and holds the ids
};

// Receives the ids of a text in order. Ids are buffered, so that one virtual call passes thousands.
class TokenSink {
 public:
  virtual ~TokenSink() = default;
  TokenSink(const TokenSink&) = delete;
  TokenSink& operator=(const TokenSink&) = delete;

  void push(std::int32_t id) {
    if (filled_ == waiting_.size()) flush();
    waiting_[filled_++] = id;
  }
  // The same for many ids.
  void append(std::span<const std::int32_t> ids) {
    flush();
    passed_ += static_cast<std::int64_t>(ids.size());
    write(ids);
  }
  // Passes on the buffered ids; call it after the last id.
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
