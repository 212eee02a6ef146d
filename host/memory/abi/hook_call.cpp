#include "host/memory/abi/hook_call.hpp"

#include <algorithm>
#include <array>

#include "host/base/error.hpp"
#include "host/ops/op_table.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {

const char* hook_text(Hook hook) {
  constexpr std::array kHooks = {"begin", "absorb", "context", "ride", "read", "finish"};
  return kHooks.at(static_cast<std::size_t>(hook));
}

}  // namespace mneme::memory

using mneme::str;
using mneme::memory::CallError;
using mneme::memory::Rows;
using mneme::memory::RowsKind;

namespace {

using KnownMasks = std::vector<std::pair<at::Tensor, mneme::memory::RowMask>>;

// Empty for a tensor that is none of them.
mneme::memory::RowMask find_mask(const KnownMasks& masks, const at::Tensor& valid) {
  const auto found =
      std::ranges::find_if(masks, [&](const auto& mask) { return mask.first.is_same(valid); });
  return found == masks.end() ? mneme::memory::RowMask() : found->second;
}

}  // namespace

mneme_rows mneme_ctx::rows_out(const Rows& rows) {
  mneme_rows out = MNEME_INIT(mneme_rows);
  out.kind = static_cast<std::uint32_t>(rows.kind);
  out.rows = rows.count;
  if (rows.count == 0) return out;
  out.hidden = handles.borrow(rows.hidden);
  out.k = handles.borrow(rows.k);
  out.v = handles.borrow(rows.v);
  out.valid = handles.borrow(rows.valid);
  if (!rows.valid_on_cpu.empty() && find_mask(known_masks, rows.valid).empty())
    known_masks.emplace_back(rows.valid, rows.valid_on_cpu);
  if (rows.document.defined()) known_documents.emplace_back(rows.main(), rows.document);
  out.position = handles.borrow(rows.position);
  out.mass = handles.borrow(rows.mass);
  if (!rows.counts.empty()) {
    count_arrays.push_back(rows.counts);
    out.counts = count_arrays.back().data();
  }
  return out;
}

namespace {

void check_shape(const char* field, const at::Tensor& tensor,
                 const std::vector<std::int64_t>& expected) {
  if (tensor.sizes() != at::IntArrayRef(expected)) {
    throw CallError(MNEME_E_SHAPE,
                    str("rows.", field, ": expected shape ", mneme::list_text(expected), ", got ",
                        mneme::list_text(tensor.sizes().vec())));
  }
}

void check_dtype(const char* field, const at::Tensor& tensor, at::ScalarType expected) {
  if (tensor.scalar_type() != expected) {
    throw CallError(MNEME_E_DTYPE,
                    str("rows.", field, ": expected dtype ", mneme::tensor::dtype_text(expected),
                        ", got ", mneme::tensor::dtype_text(tensor.scalar_type())));
  }
}

// Checks the counts against `valid` on the CPU only: on other devices the check would wait for the
// device.
void check_counts(const Rows& rows) {
  if (rows.valid.defined() && !rows.valid.is_cpu()) return;
  const std::vector<std::int64_t> expected =
      rows.valid.defined() ? mneme::memory::count_valid(rows.valid)
                           : std::vector<std::int64_t>(rows.counts.size(), rows.count);
  const auto bad = std::ranges::mismatch(rows.counts, expected);
  if (bad.in1 == rows.counts.end()) return;
  throw CallError(MNEME_E_INVALID_ARGUMENT,
                  str("rows.counts[", bad.in1 - rows.counts.begin(), "] is ", *bad.in1, ", but ",
                      *bad.in2, " rows of this lane are valid"));
}

// Reads validity, positions, mass and counts of the out.count rows. Errors: CallError.
void take_attributes(const mneme::memory::HandleTable& handles, const KnownMasks& masks,
                     const mneme_rows& in, std::int64_t lanes, Rows& out) {
  out.valid = handles.get_optional(in.valid);
  if (out.valid.defined()) {
    check_shape("valid", out.valid, {lanes, out.count});
    check_dtype("valid", out.valid, at::kBool);
  }
  out.position = handles.get_optional(in.position);
  if (out.position.defined()) {
    check_shape("position", out.position, {lanes, out.count});
    check_dtype("position", out.position, at::kLong);
  }
  out.mass = handles.get_optional(in.mass);
  if (out.mass.defined()) check_shape("mass", out.mass, {lanes, out.count});
  if (in.counts != nullptr) {
    out.counts.assign(in.counts, in.counts + lanes);
    for (std::int64_t b = 0; b < lanes; ++b) {
      if (in.counts[b] < 0 || in.counts[b] > out.count)
        throw CallError(MNEME_E_INVALID_ARGUMENT, str("rows.counts[", b, "]: expected 0 to ",
                                                      out.count, ", got ", in.counts[b]));
    }
    check_counts(out);
  } else if (out.valid.defined()) {
    out.counts = mneme::memory::count_valid(out.valid);
  }
  if (!out.are_told_by_counts()) out.valid_on_cpu = find_mask(masks, out.valid);
}

}  // namespace

Rows mneme_ctx::rows_in(const mneme_rows& in) const {
  Rows out;
  out.kind = static_cast<RowsKind>(in.kind);
  out.hidden = handles.get_optional(in.hidden);
  out.k = handles.get_optional(in.k);
  out.v = handles.get_optional(in.v);
  if (!out.main().defined() || (out.kind == RowsKind::kKeyValue && !out.v.defined())) {
    throw CallError(MNEME_E_INVALID_ARGUMENT, out.kind == RowsKind::kKeyValue
                                                  ? "rows of kind MNEME_ROWS_KV need k and v"
                                                  : "rows.hidden is 0: no rows were given");
  }
  const auto& backbone = shared->stack->backbone();
  if (out.main().dim() < 2)
    throw CallError(MNEME_E_SHAPE, str("rows: expected [B,m,...], got ",
                                       mneme::list_text(out.main().sizes().vec())));
  out.count = out.main().size(1);
  const std::int64_t lanes = shared->lanes;
  if (out.kind == RowsKind::kKeyValue) {
    check_shape("k", out.k, {lanes, out.count, instance->key_heads(), backbone.head_width});
    check_shape("v", out.v, {lanes, out.count, instance->key_heads(), backbone.head_width});
  } else {
    check_shape("hidden", out.hidden, {lanes, out.count, backbone.width});
  }
  if (in.rows != 0 && in.rows != out.count) {
    throw CallError(MNEME_E_SHAPE,
                    str("rows.rows is ", in.rows, ", but the tensor has ", out.count, " rows"));
  }
  take_attributes(handles, known_masks, in, lanes, out);
  const auto known = std::ranges::find_if(
      known_documents, [&](const auto& rows) { return rows.first.is_same(out.main()); });
  if (known != known_documents.end()) out.document = known->second;
  return out;
}

void mneme_ctx::check_output(const char* what, const at::Tensor& tensor, mneme::memory::Holds holds,
                             const std::string& name) const {
  mneme::memory::FiniteWatch* const watch = shared->input->watch;
  if (watch == nullptr) return;
  watch->check_output(where(), name.empty() ? std::string(what) : str(what, " \"", name, '"'),
                      tensor, holds);
}

void mneme_ctx::check_output_rows(const char* what, const Rows& rows, mneme::memory::Holds holds,
                                  const std::string& name) const {
  for (const at::Tensor* t : {&rows.hidden, &rows.k, &rows.v}) check_output(what, *t, holds, name);
}

std::string mneme_ctx::where() const {
  std::string text = str("plugin ", instance->plugin().note.id, ", tier ", tier->index(), ", hook ",
                         mneme::memory::hook_text(hook));
  if (layer >= 0) text += str(", layer ", layer);
  return text;
}

std::string mneme_ctx::scoped_name(const char* name) const {
  return str(tier->name(), ".", layer < 0 ? std::string("model") : str(layer), ".", name);
}
