#include "host/memory/interface/rows.hpp"

#include <algorithm>

#include "host/base/error.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

at::Tensor slice_rows(const at::Tensor& t, std::int64_t from, std::int64_t n) {
  return t.defined() ? t.narrow(1, from, n) : t;
}

std::int64_t tensor_bytes(const at::Tensor& t) {
  return t.defined() ? t.numel() * static_cast<std::int64_t>(t.element_size()) : 0;
}

std::int64_t lanes_of(const Rows& rows) { return rows.main().size(0); }

at::Tensor all_valid(const Rows& rows) {
  return torch::ones({lanes_of(rows), rows.count}, rows.main().options().dtype(at::kBool));
}

// Whether `next` lies right behind `before` along dimension 1. Never where a trace is written: rows
// of other segments lie elsewhere, and what is done with them must be the same.
bool follows(const at::Tensor& before, const at::Tensor& next) {
  return !tensor::is_tracing() && before.is_alias_of(next) && before.strides() == next.strides() &&
         before.scalar_type() == next.scalar_type() &&
         next.storage_offset() == before.storage_offset() + before.size(1) * before.stride(1);
}

// Parts [B,n,..] joined along dimension 1: a view when each lies behind the one before.
at::Tensor join_rows(const std::vector<at::Tensor>& parts) {
  std::int64_t rows = parts.front().size(1);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    if (!follows(parts[i - 1], parts[i])) return at::cat(parts, 1);
    rows += parts[i].size(1);
  }
  std::vector<std::int64_t> shape = parts.front().sizes().vec();
  shape[1] = rows;
  return parts.front().as_strided(shape, parts.front().strides(), parts.front().storage_offset());
}

// Concatenates one field of all pieces; `fill` stands in for a piece that lacks the field when
// another has it.
template <typename Fill>
at::Tensor cat_field(const std::vector<Rows>& pieces, at::Tensor Rows::*field, Fill fill) {
  const auto has_field = [&](const Rows& piece) { return (piece.*field).defined(); };
  if (std::ranges::none_of(pieces, has_field)) return {};
  std::vector<at::Tensor> parts;
  for (const Rows& piece : pieces) parts.push_back(has_field(piece) ? piece.*field : fill(piece));
  return join_rows(parts);
}

// In the lanes with reset[b] != 0 the newest `fresh` rows become valid zeros, the others invalid.
// keep [B,1] bool is the negation of reset.
void reset_lanes(Rows& rows, const at::Tensor& keep, const std::vector<std::uint8_t>& reset,
                 std::int64_t fresh) {
  at::Tensor start = torch::zeros({1, rows.count}, keep.options());
  if (fresh > 0) {
    start.narrow(1, rows.count - fresh, fresh).fill_(true);
    for (at::Tensor* t : {&rows.hidden, &rows.k, &rows.v, &rows.position, &rows.mass}) {
      if (!t->defined()) continue;
      std::vector<std::int64_t> shape(static_cast<std::size_t>(t->dim()), 1);
      shape[0] = t->size(0);
      *t = t->masked_fill(keep.logical_not().view(shape), 0);
    }
  }
  rows.valid_on_cpu = rows.known_valid();
  const at::Tensor kept =
      rows.valid.defined() ? rows.valid.logical_and(keep) : keep.expand({keep.size(0), rows.count});
  rows.valid = kept.logical_or(keep.logical_not().logical_and(start)).contiguous();
  if (rows.counts.empty()) rows.counts.assign(reset.size(), rows.count);
  for (std::size_t b = 0; b < reset.size(); ++b) {
    if (reset[b] == 0) continue;
    rows.counts[b] = fresh;
    if (rows.valid_on_cpu.empty()) continue;
    const auto end = rows.valid_on_cpu.begin() + static_cast<std::ptrdiff_t>(b + 1) * rows.count;
    std::fill(end - rows.count, end - fresh, std::uint8_t{0});
    std::fill(end - fresh, end, std::uint8_t{1});
  }
  if (rows.are_told_by_counts()) rows.valid_on_cpu.clear();
}

// Columns [from, from + n) of a mask with `count` of them.
RowMask slice_mask(const RowMask& mask, std::int64_t count, std::int64_t from, std::int64_t n) {
  RowMask out;
  const auto size = static_cast<std::int64_t>(mask.size());
  for (std::int64_t begin = from; begin < size; begin += count)
    out.insert(out.end(), mask.begin() + begin, mask.begin() + begin + n);
  return out;
}

std::vector<std::int64_t> count_mask(const RowMask& mask, std::int64_t count) {
  std::vector<std::int64_t> out;
  for (auto at = mask.begin(); at != mask.end(); at += count)
    out.push_back(std::count(at, at + count, std::uint8_t{1}));
  return out;
}

// Of all pieces, side by side; empty where one of them is not known.
RowMask join_masks(const std::vector<Rows>& pieces) {
  std::vector<RowMask> masks;
  for (const Rows& piece : pieces) {
    masks.push_back(piece.known_valid());
    if (masks.back().empty() && piece.count > 0) return {};
  }
  RowMask out;
  for (std::int64_t b = 0; b < lanes_of(pieces.front()); ++b) {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const auto begin = masks[i].begin() + b * pieces[i].count;
      out.insert(out.end(), begin, begin + pieces[i].count);
    }
  }
  return out;
}

}  // namespace

std::vector<std::int64_t> count_valid(const at::Tensor& valid) {
  if (valid.is_meta()) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(valid.size(0)), valid.size(1));
  }
  const at::Tensor sums = valid.sum(1).to(at::kCPU, at::kLong).contiguous();
  const auto* data = sums.const_data_ptr<std::int64_t>();
  return {data, data + sums.numel()};
}

RowMask mask_of(const at::Tensor& valid) {
  if (valid.is_meta()) return RowMask(static_cast<std::size_t>(valid.numel()), 1);
  const at::Tensor own = valid.to(at::kCPU, at::kByte).contiguous();
  const auto* data = own.const_data_ptr<std::uint8_t>();
  return {data, data + own.numel()};
}

bool Rows::are_told_by_counts() const {
  if (counts.empty()) return !valid.defined();
  return std::ranges::all_of(counts, [&](std::int64_t n) { return n == 0 || n == count; });
}

RowMask Rows::known_valid() const {
  if (!valid_on_cpu.empty() || !are_told_by_counts()) return valid_on_cpu;
  RowMask out(static_cast<std::size_t>(lanes_of(*this) * count), 1);
  for (std::size_t b = 0; b < counts.size(); ++b) {
    const auto begin = out.begin() + static_cast<std::ptrdiff_t>(b) * count;
    if (counts[b] == 0) std::fill(begin, begin + count, std::uint8_t{0});
  }
  return out;
}

Rows Rows::slice(std::int64_t from, std::int64_t n) const {
  if (from == 0 && n == count) return *this;
  Rows out;
  out.kind = kind;
  out.count = n;
  for (const RowField& field : kRowFields)
    out.*field.tensor = slice_rows(this->*field.tensor, from, n);
  if (!out.valid.defined()) return out;
  if (!are_told_by_counts()) {
    out.valid_on_cpu = slice_mask(valid_on_cpu, count, from, n);
    out.counts =
        out.valid_on_cpu.empty() ? count_valid(out.valid) : count_mask(out.valid_on_cpu, n);
    return out;
  }
  for (const std::int64_t held : counts) out.counts.push_back(held == 0 ? 0 : n);
  return out;
}

Rows Rows::detached() const {
  Rows out = *this;
  for (const RowField& field : kRowFields) {
    at::Tensor& t = out.*field.tensor;
    if (t.defined()) t = t.detach();
  }
  return out;
}

std::int64_t Rows::bytes() const {
  std::int64_t total = 0;
  for (const RowField& field : kRowFields) {
    if (field.tensor == &Rows::valid || field.tensor == &Rows::document) continue;
    total += tensor_bytes(this->*field.tensor);
  }
  return total;
}

Rows concatenate(const std::vector<Rows>& pieces) {
  if (pieces.empty()) return {};
  if (pieces.size() == 1) return pieces.front();
  Rows out;
  out.kind = pieces.front().kind;
  for (const Rows& piece : pieces) {
    if (piece.kind != out.kind) throw_plugin("rows of different kinds cannot be joined");
    out.count += piece.count;
  }
  const auto none = [](const Rows&) -> at::Tensor { return {}; };
  if (out.kind == RowsKind::kKeyValue) {
    out.k = cat_field(pieces, &Rows::k, none);
    out.v = cat_field(pieces, &Rows::v, none);
  } else {
    out.hidden = cat_field(pieces, &Rows::hidden, none);
  }
  out.valid = cat_field(pieces, &Rows::valid, all_valid);
  const auto zeros = [](at::ScalarType type) {
    return [type](const Rows& p) {
      return torch::zeros({lanes_of(p), p.count}, p.main().options().dtype(type));
    };
  };
  out.position = cat_field(pieces, &Rows::position, zeros(at::kLong));
  out.mass = cat_field(pieces, &Rows::mass, zeros(at::kFloat));
  // Of which not all are known, none is.
  if (std::ranges::all_of(pieces, [](const Rows& piece) { return piece.document.defined(); })) {
    out.document = cat_field(pieces, &Rows::document, none);
  }
  if (out.valid.defined()) {
    out.counts.assign(static_cast<std::size_t>(lanes_of(pieces.front())), 0);
    for (const Rows& piece : pieces) {
      for (std::size_t b = 0; b < out.counts.size(); ++b) {
        out.counts[b] += piece.counts.empty() ? piece.count : piece.counts[b];
      }
    }
    if (!out.are_told_by_counts()) out.valid_on_cpu = join_masks(pieces);
  }
  return out;
}

std::shared_ptr<RowsBlock> RowsBlock::trimmed(std::int64_t from, std::int64_t n) const {
  auto out = std::make_shared<RowsBlock>();
  out->rows = rows.slice(from, n);
  for (const auto& [layer, projection] : projections) {
    out->projections[layer] = {slice_rows(projection.k, from, n), slice_rows(projection.v, from, n),
                               projection.weights_version};
  }
  return out;
}

namespace {

// Written through an alias with a version counter of its own: what autograd keeps of the rows that
// are there already is not touched.
void write_rows(const at::Tensor& room, const at::Tensor& rows, std::int64_t from) {
  room.variable_data().narrow(1, from, rows.size(1)).copy_(rows.detach());
}

// The tensors that are large.
constexpr std::array kRoomTensors = {&Rows::hidden, &Rows::k, &Rows::v};

bool has_fields_of(const Rows& a, const Rows& b) {
  return std::ranges::all_of(kRoomTensors, [&](const auto field) {
    const at::Tensor &x = a.*field, &y = b.*field;
    if (x.defined() != y.defined()) return false;
    return !x.defined() || (x.scalar_type() == y.scalar_type() && x.dim() == y.dim() &&
                            x.size(0) == y.size(0) && x.sizes().slice(2) == y.sizes().slice(2));
  });
}

}  // namespace

RowsRoom::RowsRoom(const Rows& like, std::int64_t capacity) : capacity_(capacity) {
  for (const auto field : kRoomTensors) {
    const at::Tensor& given = like.*field;
    if (!given.defined()) continue;
    std::vector<std::int64_t> shape = given.sizes().vec();
    shape[1] = capacity;
    all_.*field = torch::empty(shape, given.options().requires_grad(false));
  }
}

std::optional<Rows> RowsRoom::append(Rows rows, std::int64_t filled) {
  const std::int64_t from = filled;
  if (from + rows.count > capacity_ || !has_fields_of(all_, rows)) return {};
  if (!filled_.compare_exchange_strong(filled, from + rows.count)) return {};
  for (const auto field : kRoomTensors) {
    if (!(rows.*field).defined()) continue;
    write_rows(all_.*field, rows.*field, from);
    rows.*field = slice_rows(all_.*field, from, rows.count);
  }
  return rows;
}

BlockPtr RowsQueue::in_room(BlockPtr block) {
  if (room_ == nullptr || tensor::is_tracing()) {
    room_.reset();
    return block;
  }
  std::optional<Rows> rows = room_->append(block->rows, room_end_);
  if (!rows) {
    room_.reset();
    return block;
  }
  room_end_ += rows->count;
  return std::make_shared<RowsBlock>(RowsBlock{*std::move(rows), block->projections});
}

void RowsQueue::append(BlockPtr block) {
  if (block->rows.count == 0) return;
  size_ += block->rows.count;
  blocks_.push_back(in_room(std::move(block)));
}

void RowsQueue::prepend(BlockPtr block) {
  if (block->rows.count == 0) return;
  size_ += block->rows.count;
  blocks_.insert(blocks_.begin(), std::move(block));
}

std::vector<Rows> RowsQueue::remove_oldest(std::int64_t n) {
  std::vector<Rows> pieces;
  std::size_t whole = 0;
  n = std::min(n, size_);
  size_ -= n;
  while (n > 0) {
    const BlockPtr& oldest = blocks_[whole];
    if (oldest->rows.count <= n) {
      n -= oldest->rows.count;
      pieces.push_back(oldest->rows);
      ++whole;
      continue;
    }
    pieces.push_back(oldest->rows.slice(0, n));
    blocks_[whole] = oldest->trimmed(n, oldest->rows.count - n);
    n = 0;
  }
  blocks_.erase(blocks_.begin(), blocks_.begin() + static_cast<std::ptrdiff_t>(whole));
  return pieces;
}

Rows RowsQueue::pop_oldest(std::int64_t n) { return concatenate(remove_oldest(n)); }

void RowsQueue::assign(BlockPtr block) {
  blocks_.clear();
  size_ = 0;
  room_.reset();
  append(std::move(block));
}

Rows RowsQueue::rows() const {
  std::vector<Rows> pieces;
  pieces.reserve(blocks_.size());
  for (const BlockPtr& block : blocks_) pieces.push_back(block->rows);
  return concatenate(pieces);
}

Rows RowsQueue::joined() {
  const auto lies_apart = [](const BlockPtr& a, const BlockPtr& b) {
    return !follows(a->rows.main(), b->rows.main());
  };
  if (std::ranges::adjacent_find(blocks_, lies_apart) == blocks_.end()) return rows();
  // Half as many rows again: a queue of constant size is moved once in so many rows.
  room_ = std::make_shared<RowsRoom>(blocks_.front()->rows, size_ + size_ / 2);
  room_end_ = 0;
  for (BlockPtr& block : blocks_) block = in_room(block);
  return rows();
}

void RowsQueue::reset(const std::vector<std::uint8_t>& reset, std::int64_t start_rows,
                      bool do_others_go_on) {
  const auto is_reset = [](std::uint8_t r) { return r != 0; };
  if (!do_others_go_on && std::all_of(reset.begin(), reset.end(), is_reset)) {
    blocks_.clear();
    size_ = 0;
    room_.reset();
    return;
  }
  if (std::none_of(reset.begin(), reset.end(), is_reset)) return;
  at::Tensor keep = torch::empty({static_cast<std::int64_t>(reset.size()), 1}, at::kBool);
  for (std::size_t b = 0; b < reset.size(); ++b)
    keep[static_cast<std::int64_t>(b)][0] = reset[b] == 0;
  std::int64_t newer = size_;
  for (BlockPtr& block : blocks_) {
    newer -= block->rows.count;
    auto next = std::make_shared<RowsBlock>(*block);
    Rows& rows = next->rows;
    const std::int64_t fresh = std::clamp<std::int64_t>(start_rows - newer, 0, rows.count);
    reset_lanes(rows, tensor::to_device(keep, rows.main().device()), reset, fresh);
    if (fresh > 0) next->projections.clear();
    block = std::move(next);
  }
}

void RowsQueue::keep_newest(std::int64_t n) {
  if (size_ > n) drop_oldest(size_ - n);
}

void RowsQueue::select(const std::vector<std::int64_t>& lanes) {
  room_.reset();
  const at::Tensor index = torch::tensor(lanes, at::kLong);
  const auto pick = [&](const at::Tensor& t) {
    return t.defined() ? t.index_select(0, index.to(t.device())) : t;
  };
  for (BlockPtr& block : blocks_) {
    auto next = std::make_shared<RowsBlock>();
    next->rows = block->rows;
    Rows& rows = next->rows;
    for (const RowField& field : kRowFields) rows.*field.tensor = pick(rows.*field.tensor);
    if (!rows.counts.empty()) {
      std::vector<std::int64_t> counts;
      for (const std::int64_t lane : lanes)
        counts.push_back(block->rows.counts[static_cast<std::size_t>(lane)]);
      rows.counts = std::move(counts);
    }
    if (!rows.valid_on_cpu.empty()) {
      rows.valid_on_cpu.clear();
      for (const std::int64_t lane : lanes) {
        const auto begin = block->rows.valid_on_cpu.begin() + lane * rows.count;
        rows.valid_on_cpu.insert(rows.valid_on_cpu.end(), begin, begin + rows.count);
      }
    }
    for (const auto& [layer, p] : block->projections) {
      next->projections[layer] = {pick(p.k), pick(p.v), p.weights_version};
    }
    block = std::move(next);
  }
}

std::int64_t RowsQueue::bytes() const {
  std::int64_t total = 0;
  for (const BlockPtr& block : blocks_) total += block->rows.bytes();
  return total;
}

}  // namespace mneme::memory
