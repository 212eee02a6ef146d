// Rows: hidden vectors or keys and values of every lane, with what is known of each row.
#pragma once

#include "mneme/cpp/tensor.hpp"

namespace mneme {
inline namespace sdk_0_1 {

enum class RowsKind : uint32_t {
  kHidden = MNEME_ROWS_HIDDEN,  // layer inputs, before the layer's norm
  kNormed = MNEME_ROWS_NORMED,  // already through the layer's norm
  kKeysValues = MNEME_ROWS_KV   // keys and values before any position term
};

// m rows a lane, oldest first. Attributes that are not known are empty tensors.
struct Rows {
  RowsKind kind = RowsKind::kHidden;
  int64_t count = 0;                // m, the same for all lanes
  Tensor hidden;                    // [B,m,D], compute dtype; empty for kKeysValues
  Tensor k;                         // [B,m,H,d]; kKeysValues only
  Tensor v;                         // [B,m,H,d]; kKeysValues only
  Tensor valid;                     // [B,m] bool; empty = every row of every lane is valid
  Tensor position;                  // [B,m] i64, the row's absolute place in its lane
  Tensor mass;                      // [B,m] f32, attention mass
  const int64_t* counts = nullptr;  // [B] valid rows a lane, on the CPU; null = m for every lane

  // Hidden rows [B,m,D], all valid unless `row_valid` [B,m] says otherwise.
  static Rows of_hidden(Tensor rows, Tensor row_valid = {}, CallSite site = CallSite::here()) {
    Rows out;
    out.count = rows.dim(1, site);
    out.hidden = std::move(rows);
    out.valid = std::move(row_valid);
    return out;
  }
  // Keys and values [B,m,H,d] before any position term.
  static Rows of_keys_values(Tensor keys, Tensor values, Tensor row_valid = {},
                             CallSite site = CallSite::here()) {
    Rows out;
    out.kind = RowsKind::kKeysValues;
    out.count = keys.dim(1, site);
    out.k = std::move(keys);
    out.v = std::move(values);
    out.valid = std::move(row_valid);
    return out;
  }

  bool empty() const noexcept { return count == 0; }

  // As the C ABI wants it; borrows this object's tensors.
  mneme_rows raw(CallSite site = CallSite::here()) const {
    mneme_rows out = MNEME_INIT(mneme_rows);
    out.kind = static_cast<uint32_t>(kind);
    out.rows = count;
    out.hidden = detail::handle_of(hidden, site);
    out.k = detail::handle_of(k, site);
    out.v = detail::handle_of(v, site);
    out.valid = detail::handle_of(valid, site);
    out.position = detail::handle_of(position, site);
    out.mass = detail::handle_of(mass, site);
    out.counts = counts;
    return out;
  }
  // Borrows the host's handles; they live until the hook returns.
  static Rows borrow(const mneme_rows& raw) noexcept {
    Rows out;
    out.kind = static_cast<RowsKind>(raw.kind);
    out.count = raw.rows;
    out.hidden = Tensor::borrow(raw.hidden);
    out.k = Tensor::borrow(raw.k);
    out.v = Tensor::borrow(raw.v);
    out.valid = Tensor::borrow(raw.valid);
    out.position = Tensor::borrow(raw.position);
    out.mass = Tensor::borrow(raw.mass);
    out.counts = raw.counts;
    return out;
  }
};

}  // namespace sdk_0_1
}  // namespace mneme
