#include "kernels/cache_update.hpp"

#include <algorithm>
#include <string>

#include "mneme_kernels/infer.hpp"

namespace xl_cache {
namespace {

void check_rows(const mneme::TypedShape& old, const mneme::TypedShape& fresh) {
  if (old.shape.rank() != 3 || fresh.shape.rank() != 3) {
    mneme::fail(MNEME_E_SHAPE, "rows: expected [B, M, D] and [B, T, D], got " + text_of(old.shape) +
                                   " and " + text_of(fresh.shape));
  }
  check_shape("fresh rows", fresh.shape, {old.shape[0], fresh.shape[1], old.shape[2]});
  if (old.dtype != fresh.dtype) {
    mneme::fail(MNEME_E_DTYPE, "old and fresh rows have different dtypes, codes " +
                                   code_of(old.dtype) + " and " + code_of(fresh.dtype) +
                                   "; was the cache filled under another precision?");
  }
}

void check_mask(const char* what, const mneme::TypedShape& mask, const mneme::Shape& rows) {
  check_shape(what, mask.shape, {rows[0], rows[1]});
  mneme::check_dtype(what, mask.dtype, {mneme::DType::kBool}, "bool");
}

}  // namespace

CacheUpdateShape CacheUpdate::shape_of(const mneme::KernelCall& call) {
  CacheUpdateShape shape;
  shape.lanes = call.input(0).dim(0);
  shape.old = call.input(0).dim(1);
  shape.fresh = call.input(2).dim(1);
  shape.kept = call.output(0).dim(1);
  shape.row_bytes = call.input(0).dim(2) * call.input(0).element_size();
  return shape;
}

CacheUpdateBuffers CacheUpdate::buffers_of(const mneme::KernelCall& call) {
  CacheUpdateBuffers buffers;
  buffers.old_rows = call.input(0).data<void>();
  buffers.old_valid = call.input(1).data<uint8_t>();
  buffers.fresh_rows = call.input(2).data<void>();
  buffers.fresh_valid = call.input(3).data<uint8_t>();
  buffers.kept_rows = call.output(0).data<void>();
  buffers.kept_valid = call.output(1).data<uint8_t>();
  buffers.evicted_rows = call.output(2).data<void>();
  buffers.evicted_valid = call.output(3).data<uint8_t>();
  return buffers;
}

void CacheUpdate::infer(mneme::KernelPlan& plan) const {
  const mneme::TypedShape old = plan.input(0);
  const mneme::TypedShape fresh = plan.input(2);
  check_rows(old, fresh);
  check_mask("validity of the old rows", plan.input(1), old.shape);
  check_mask("validity of the fresh rows", plan.input(3), fresh.shape);
  const int64_t rows = plan.integer(0);
  if (rows < 1) {
    mneme::fail(MNEME_E_INVALID_ARGUMENT, "rows: expected at least 1, got " + std::to_string(rows));
  }
  const int64_t lanes = old.shape[0];
  const int64_t width = old.shape[2];
  const int64_t all = old.shape[1] + fresh.shape[1];
  const int64_t kept = std::min(rows, all);
  plan.output(0, old.dtype, {lanes, kept, width});
  plan.output(1, mneme::DType::kBool, {lanes, kept});
  plan.output(2, old.dtype, {lanes, all - kept, width});
  plan.output(3, mneme::DType::kBool, {lanes, all - kept});
}

void CacheUpdate::forward_cpu(const mneme::KernelCall& call) const {
  cpu::update_cache(shape_of(call), buffers_of(call));
}

}  // namespace xl_cache
