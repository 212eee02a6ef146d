// The argument of an op's run function: inputs, attributes by index, and contract checks.
#pragma once

#include <ATen/DimVector.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <span>
#include <string>

#include "host/ops/ops.hpp"

namespace mneme::ops {

inline constexpr std::size_t kMaxAttrs = 8;

struct Op;

// Indices of inputs and attributes are those of the schema. Counts, attribute names and types,
// dtypes and devices were checked before the run function gets the call.
class OpCall {
 public:
  OpCall(const Op& op, std::span<const at::Tensor> inputs, std::span<const mneme_attr> attrs,
         at::Device device, std::span<at::Tensor> outputs);

  // Checks counts, attributes, dtypes and devices against the schema. Errors: OpError.
  void check();

  [[nodiscard]] const at::Tensor& in(std::size_t index) const {
    return index < in_.size() ? in_[index] : none();
  }
  [[nodiscard]] bool has_input(std::size_t index) const { return in(index).defined(); }
  // The tensors of the list input that starts at `first`.
  [[nodiscard]] at::TensorList list(std::size_t first) const {
    return {in_.data() + first, in_.size() - first};
  }
  [[nodiscard]] at::Tensor& out(std::size_t index = 0) const { return out_[index]; }
  [[nodiscard]] at::Device device() const { return device_; }

  [[nodiscard]] bool has(std::size_t attr) const { return attrs_[attr] != nullptr; }
  [[nodiscard]] std::int64_t integer(std::size_t attr, std::int64_t absent) const {
    return attrs_[attr] != nullptr ? attrs_[attr]->integer : absent;
  }
  [[nodiscard]] double real(std::size_t attr, double absent) const {
    return attrs_[attr] != nullptr ? attrs_[attr]->real : absent;
  }
  [[nodiscard]] at::IntArrayRef integers(std::size_t attr) const {
    const mneme_attr* given = attrs_[attr];
    return given != nullptr ? at::IntArrayRef(given->ints, given->count) : at::IntArrayRef();
  }
  [[nodiscard]] const char* text(std::size_t attr, const char* absent) const {
    return attrs_[attr] != nullptr ? attrs_[attr]->text : absent;
  }
  // An integer that has to be 0 or 1.
  [[nodiscard]] bool flag(std::size_t attr, bool absent) const;
  // An integer of at least `least`.
  [[nodiscard]] std::int64_t at_least(std::size_t attr, std::int64_t least,
                                      std::int64_t absent) const;
  // The attribute as an element type of the op's class.
  [[nodiscard]] at::ScalarType dtype(std::size_t attr, std::uint32_t absent) const;
  // A real that `type` represents: integral for integers, 0 or 1 for bool.
  [[nodiscard]] at::Scalar scalar(std::size_t attr, at::ScalarType type, double absent) const;

  // A dimension of a tensor of `rank`, counted from the end when negative; in [0, rank).
  [[nodiscard]] std::int64_t dim(std::size_t attr, std::int64_t rank, std::int64_t absent) const;
  // A list of distinct dimensions, each in [0, rank); empty when the attribute is absent.
  [[nodiscard]] at::DimVector dims(std::size_t attr, std::int64_t rank) const;

  // Shapes of two inputs have to broadcast.
  void check_broadcast(std::size_t left, std::size_t right) const;
  // Input `small` has to broadcast to the shape of input `large`.
  void check_broadcasts_to(std::size_t small, std::size_t large) const;
  void check_rank(std::size_t input, std::int64_t rank) const;
  void check_rank_at_least(std::size_t input, std::int64_t rank) const;

  // Throws an OpError about the call.
  [[noreturn]] void fail(mneme_status status, const std::string& failed,
                         const std::string& expected = "", const std::string& got = "",
                         const std::string& hint = "") const;
  [[noreturn]] void fail_shape(const std::string& expected, const std::string& got,
                               const std::string& hint = "") const;
  [[noreturn]] void fail_attr(std::size_t attr, const std::string& expected,
                              const std::string& got) const;
  // "matmul/1(a f32 [2, 3], b f32 [4, 5]; dim=1)".
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] std::string input_name(std::size_t index) const;
  [[nodiscard]] const std::string& attr_name(std::size_t attr) const;

 private:
  static const at::Tensor& none();
  // `given` counted from the start.
  [[nodiscard]] std::int64_t place(std::size_t attr, std::int64_t rank, std::int64_t given) const;
  void check_counts() const;
  void parse_attrs();
  void parse_attr(const mneme_attr& attr);
  void check_tensors() const;
  void check_dtype(std::size_t index, std::uint32_t allowed, std::uint32_t& data_dtype) const;

  const Op& op_;
  std::span<const at::Tensor> in_;
  std::span<const mneme_attr> given_;
  std::span<at::Tensor> out_;
  at::Device device_;
  std::array<const mneme_attr*, kMaxAttrs> attrs_{};
};

// "[2, 3]".
std::string shape_text(at::IntArrayRef shape);

}  // namespace mneme::ops
