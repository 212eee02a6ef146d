// Rows, the immutable blocks they are kept in, and the queue of blocks (docs/design.md, "State").
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace mneme::memory {

// What rows are; the numbers are those of MNEME_ROWS_*.
enum class RowsKind : std::uint32_t {
  kHidden = 0,    // layer inputs before the layer's norm, [B,m,D]
  kNormed = 1,    // already through the layer's norm, [B,m,D]
  kKeyValue = 2,  // keys and values before position terms, [B,m,H,d]
};

// Which rows of each lane are valid, [B * m], lane by lane, as the CPU knows it.
using RowMask = std::vector<std::uint8_t>;

// m rows of every lane, with their optional attributes.
struct Rows {
  RowsKind kind = RowsKind::kHidden;
  std::int64_t count = 0;  // m
  at::Tensor hidden;       // [B,m,D]; undefined for kKeyValue
  at::Tensor k, v;         // [B,m,H,d]; kKeyValue only
  at::Tensor valid;        // [B,m] bool; undefined = all
  at::Tensor position;     // [B,m] i64; undefined = none
  at::Tensor mass;         // [B,m] f32; undefined = none
  at::Tensor document;     // [B,m] i64: of the token that the row is; undefined = not known
  std::vector<std::int64_t> counts;  // [B] valid rows a lane; empty = m each
  // The same as `valid`, where counts do not tell it; empty = the device alone knows it.
  RowMask valid_on_cpu = {};

  // Whether the counts say which rows are valid: of each lane all or none.
  [[nodiscard]] bool are_told_by_counts() const;
  // The valid rows; empty where the device alone knows them.
  [[nodiscard]] RowMask known_valid() const;
  // Rows [from, from + n) as views. Waits for the device where that alone knows which are valid.
  [[nodiscard]] Rows slice(std::int64_t from, std::int64_t n) const;
  [[nodiscard]] Rows detached() const;
  // Bytes of the tensors' own elements (not of the storage they may be views of), without the mask
  // `valid` and `document`: whether there are such depends on the data, and not on the memory.
  [[nodiscard]] std::int64_t bytes() const;
  // The tensor that has the rows: hidden, or k.
  [[nodiscard]] const at::Tensor& main() const { return kind == RowsKind::kKeyValue ? k : hidden; }
};

// The tensors of rows and their names in files.
struct RowField {
  const char* name;
  at::Tensor Rows::*tensor;
};
inline constexpr std::array kRowFields = {RowField{"hidden", &Rows::hidden},
                                          RowField{"k", &Rows::k},
                                          RowField{"v", &Rows::v},
                                          RowField{"valid", &Rows::valid},
                                          RowField{"position", &Rows::position},
                                          RowField{"mass", &Rows::mass},
                                          RowField{"document", &Rows::document}};

// Valid rows of each lane, [B,m] bool -> [B] on the CPU; on CUDA it waits for the device. A mask on
// the meta device has no values: all rows count as valid, so that costs are the largest.
std::vector<std::int64_t> count_valid(const at::Tensor& valid);
// The mask itself, in the same way.
[[nodiscard]] RowMask mask_of(const at::Tensor& valid);

// Concatenates pieces of one kind, oldest first; a single piece is returned as it is, none gives
// count 0. Pieces that lie one behind the other in memory are not copied.
Rows concatenate(const std::vector<Rows>& pieces);

// Keys and values of a block as layer `layer` projects them, [B,m,H,d], and the weights they came
// from.
struct Projection {
  at::Tensor k, v;
  std::uint64_t weights_version = 0;
};

// An immutable block of a queue. Only the cache of projections changes.
struct RowsBlock {
  Rows rows;
  mutable std::map<std::int64_t, Projection> projections;  // by layer

  // A new block with rows [from, from + n) and the same part of every cached projection.
  [[nodiscard]] std::shared_ptr<RowsBlock> trimmed(std::int64_t from, std::int64_t n) const;
};
using BlockPtr = std::shared_ptr<const RowsBlock>;

// Memory for a queue's rows (hidden, k, v) with room for more behind them, so that rows which are
// read as one piece are not copied again whenever some are added. Queues that were copied from one
// another share it; the first that appends gets the room behind their rows.
class RowsRoom {
 public:
  // For rows like these.
  RowsRoom(const Rows& like, std::int64_t capacity);

  // Copies `rows` behind the first `filled` ones, and gives them as they lie here; nothing when
  // that room is taken or too small, or the rows have other fields.
  std::optional<Rows> append(Rows rows, std::int64_t filled);

 private:
  Rows all_;
  std::int64_t capacity_;
  std::atomic<std::int64_t> filled_ = 0;
};

// A first-in-first-out queue of blocks; copying it copies pointers only.
class RowsQueue {
 public:
  [[nodiscard]] std::int64_t size() const { return size_; }
  [[nodiscard]] const std::vector<BlockPtr>& blocks() const { return blocks_; }

  void append(BlockPtr block);
  // Puts rows before the oldest.
  void prepend(BlockPtr block);
  // Removes the n oldest rows, at most what is there, and returns the pieces.
  Rows pop_oldest(std::int64_t n);
  // The same without returning them: nothing is copied.
  void drop_oldest(std::int64_t n) { remove_oldest(n); }
  // Replaces everything by one block.
  void assign(BlockPtr block);
  // The whole content as one piece.
  [[nodiscard]] Rows rows() const;
  // The same for a queue that is read again: its blocks are moved to one piece of memory, where
  // those of later calls of append follow, so that a row is copied a small number of times at most.
  Rows joined();
  // Puts the lanes with reset[b] != 0 back to their start: the newest start_rows rows become zeros,
  // all older ones invalid. When all lanes are reset the queue is empty afterwards and the caller
  // fills in the start rows, unless other processes have lanes that continue.
  void reset(const std::vector<std::uint8_t>& reset, std::int64_t start_rows = 0,
             bool do_others_go_on = false);
  // Keeps the newest n rows.
  void keep_newest(std::int64_t n);
  // Keeps the lanes in `lanes`, in that order (repeats allowed).
  void select(const std::vector<std::int64_t>& lanes);
  [[nodiscard]] std::int64_t bytes() const;

 private:
  std::vector<Rows> remove_oldest(std::int64_t n);

  // Puts the block behind the last one in its room, if there is one.
  BlockPtr in_room(BlockPtr block);

  std::vector<BlockPtr> blocks_;
  std::int64_t size_ = 0;
  std::shared_ptr<RowsRoom> room_;  // where the newest blocks lie; may be null
  std::int64_t room_end_ = 0;       // rows of the room up to the newest block's end
};

}  // namespace mneme::memory
