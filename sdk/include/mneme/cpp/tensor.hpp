// mneme::Tensor, a handle of the host with a C++ lifetime.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "mneme/cpp/host.hpp"

namespace mneme {
inline namespace sdk_0_1 {

// Element types, with the numbers of the ABI.
enum class DType : uint32_t {
  kF32 = MNEME_F32,
  kBF16 = MNEME_BF16,
  kF16 = MNEME_F16,
  kF64 = MNEME_F64,
  kI32 = MNEME_I32,
  kI64 = MNEME_I64,
  kBool = MNEME_BOOL
};

// In a slot's shape, as first extent: the number of lanes B.
inline constexpr int64_t kLanes = MNEME_LANES;
// In a slot's shape, not first: 0 at the start, changes with what is written.
inline constexpr int64_t kAny = MNEME_ANY;

namespace detail {

// A place in a list, with the caller's: operator[] takes no further arguments.
struct Place {
  Place(int64_t at, CallSite caller = CallSite::here()) noexcept  // NOLINT
      : index(at), site(caller) {}
  int64_t index;
  CallSite site;
};

}  // namespace detail

// Extents of a tensor, at most MNEME_MAX_RANK of them; no heap.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims, CallSite site = CallSite::here())
      : Shape(dims.begin(), dims.size(), site) {}
  Shape(const std::vector<int64_t>& dims, CallSite site = CallSite::here())  // NOLINT
      : Shape(dims.data(), dims.size(), site) {}
  Shape(const int64_t* dims, std::size_t rank, CallSite site = CallSite::here())
      : rank_(static_cast<uint32_t>(rank)) {
    if (rank > MNEME_MAX_RANK) {
      fail(MNEME_E_SHAPE,
           "a shape of rank " + std::to_string(rank) + "; at most " +
               std::to_string(MNEME_MAX_RANK) + " dimensions are possible",
           site);
    }
    for (std::size_t i = 0; i < rank; ++i) dims_[i] = dims[i];
  }

  int64_t rank() const noexcept { return rank_; }
  // Negative indices count from the back, as everywhere in this layer.
  int64_t operator[](detail::Place dim) const {
    const int64_t index = dim.index < 0 ? dim.index + rank_ : dim.index;
    if (index < 0 || index >= rank_) {
      fail(
          MNEME_E_SHAPE,
          "dimension " + std::to_string(dim.index) + " of a shape of rank " + std::to_string(rank_),
          dim.site);
    }
    return dims_[static_cast<std::size_t>(index)];
  }
  int64_t elements() const noexcept {
    int64_t product = 1;
    for (const int64_t dim : *this) product *= dim;
    return product;
  }
  const int64_t* begin() const noexcept { return dims_.data(); }
  const int64_t* end() const noexcept { return dims_.data() + rank_; }
  const int64_t* data() const noexcept { return dims_.data(); }
  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    if (a.rank_ != b.rank_) return false;
    for (uint32_t i = 0; i < a.rank_; ++i) {
      if (a.dims_[i] != b.dims_[i]) return false;
    }
    return true;
  }
  friend bool operator!=(const Shape& a, const Shape& b) noexcept { return !(a == b); }

  // As the C ABI wants it.
  mneme_shape raw(DType dtype) const noexcept {
    mneme_shape out = MNEME_INIT(mneme_shape);
    out.dtype = static_cast<uint32_t>(dtype);
    out.rank = rank_;
    for (uint32_t i = 0; i < rank_; ++i) out.dims[i] = dims_[i];
    return out;
  }

 private:
  uint32_t rank_ = 0;
  std::array<int64_t, MNEME_MAX_RANK> dims_{};
};

// One dimension or several: mean(x, 1), mean(x, {1, 2}).
class Dims : public Shape {
 public:
  Dims(int64_t dim) : Shape({dim}) {}                                          // NOLINT
  Dims(std::initializer_list<int64_t> dims, CallSite site = CallSite::here())  // NOLINT
      : Shape(dims, site) {}
  Dims(const std::vector<int64_t>& dims, CallSite site = CallSite::here())  // NOLINT
      : Shape(dims, site) {}
};

// A tensor of the host. Empty (`!t`) where the ABI says 0. Lives at most as long as the hook in
// which it was obtained; never keep one in a member. Copies share the tensor; values cannot be
// read.
class Tensor {
 public:
  Tensor() = default;
  ~Tensor() { drop(); }
  Tensor(const Tensor& other)
      : handle_(other.handle_), is_owned_(other.is_owned_), absence_(other.absence_) {
    if (is_owned_) retain();
  }
  Tensor(Tensor&& other) noexcept
      : handle_(std::exchange(other.handle_, 0)),
        is_owned_(std::exchange(other.is_owned_, false)),
        absence_(other.absence_) {}
  Tensor& operator=(const Tensor& other) {
    if (this != &other) *this = Tensor(other);
    return *this;
  }
  Tensor& operator=(Tensor&& other) noexcept {
    if (this != &other) {
      drop();
      handle_ = std::exchange(other.handle_, 0);
      is_owned_ = std::exchange(other.is_owned_, false);
      absence_ = other.absence_;
    }
    return *this;
  }

  // Wraps a handle that stays the host's: one passed into a hook, or returned as borrowed.
  static Tensor borrow(mneme_tensor handle) noexcept { return Tensor(handle, false); }
  // Takes over the one reference that came with `handle`.
  static Tensor adopt(mneme_tensor handle) noexcept { return Tensor(handle, handle != 0); }
  // An empty tensor; `absence`, a text that lives for ever, is the reason that the error of its use
  // gives.
  static Tensor absent(const char* absence) noexcept {
    Tensor tensor;
    tensor.absence_ = absence;
    return tensor;
  }

  explicit operator bool() const noexcept { return handle_ != 0; }
  mneme_tensor raw() const noexcept { return handle_; }
  // Why the tensor is empty; null where the reason is not known, and where it is not empty.
  const char* absence() const noexcept { return handle_ == 0 ? absence_ : nullptr; }
  // True when this object holds a reference of its own.
  bool is_owned() const noexcept { return is_owned_; }

  // Errors: Failure(MNEME_E_INVALID_ARGUMENT) for an empty or dead tensor.
  Shape shape(CallSite site = CallSite::here()) const {
    const mneme_shape shape = query(site);
    return Shape(shape.dims, shape.rank, site);
  }
  int64_t dim(int64_t index, CallSite site = CallSite::here()) const {
    return shape(site)[{index, site}];
  }
  int64_t rank(CallSite site = CallSite::here()) const { return query(site).rank; }
  DType dtype(CallSite site = CallSite::here()) const {
    return static_cast<DType>(query(site).dtype);
  }

 private:
  Tensor(mneme_tensor handle, bool is_owned) noexcept : handle_(handle), is_owned_(is_owned) {}

  mneme_shape query(CallSite site) const {
    mneme_ctx* ctx = detail::ctx(site);
    if (absence() != nullptr) fail(MNEME_E_INVALID_ARGUMENT, absence(), site);
    const auto& api = detail::group(detail::groups.tensor, MNEME_GROUP_TENSOR, site);
    mneme_shape shape = MNEME_INIT(mneme_shape);
    detail::HostError error;
    detail::check(api.shape(ctx, handle_, &shape, &error.raw), error, site);
    return shape;
  }
  // Reports no error, because a copy has no place in the source that would help: it fails when the
  // handle is dead, and then the next use fails with its own place.
  void retain() const {
    const auto& api = detail::group(detail::groups.tensor, MNEME_GROUP_TENSOR, {});
    detail::HostError error;
    detail::check(api.retain(detail::ctx({}), handle_, &error.raw), error, {});
  }
  // A failed release cannot be reported from a destructor; the host drops what is left when the
  // hook returns.
  void drop() noexcept {
    if (!is_owned_ || detail::current_ctx == nullptr || detail::groups.tensor == nullptr) return;
    detail::HostError error;
    detail::groups.tensor->release(detail::current_ctx, handle_, &error.raw);
  }

  mneme_tensor handle_ = 0;
  bool is_owned_ = false;
  const char* absence_ = nullptr;
};

namespace detail {

// The handle that goes to the host, 0 for an empty tensor. Errors:
// Failure(MNEME_E_INVALID_ARGUMENT) for one that is empty because nobody wanted it.
inline mneme_tensor handle_of(const Tensor& tensor, CallSite site) {
  if (tensor.absence() != nullptr) fail(MNEME_E_INVALID_ARGUMENT, tensor.absence(), site);
  return tensor.raw();
}

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::kF32> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::kF64> {};
template <>
struct DTypeOf<int32_t> : std::integral_constant<DType, DType::kI32> {};
template <>
struct DTypeOf<int64_t> : std::integral_constant<DType, DType::kI64> {};
// bool is one byte in the ABI; std::vector<bool> has no data().
template <>
struct DTypeOf<uint8_t> : std::integral_constant<DType, DType::kBool> {};

}  // namespace detail

// A tensor that a function of this layer is given, with the place in the author's source where it
// is given: an operator has no room for a default argument, the conversion to its operand has.
class Operand {
 public:
  // No tensor, where an input is optional.
  Operand(CallSite site = CallSite::here()) noexcept : site_(site) {}  // NOLINT
  Operand(const Tensor& tensor, CallSite site = CallSite::here())      // NOLINT
      : handle_(detail::handle_of(tensor, site)), site_(site) {}
  // What converts to a Tensor: a slot's value, say.
  template <typename T, typename = std::enable_if_t<std::is_convertible_v<const T&, Tensor>>>
  Operand(const T& value, CallSite site = CallSite::here())  // NOLINT
      : converted_(value), handle_(detail::handle_of(converted_, site)), site_(site) {}

  mneme_tensor raw() const noexcept { return handle_; }
  CallSite site() const noexcept { return site_; }

 private:
  Tensor converted_;
  mneme_tensor handle_ = 0;
  CallSite site_;
};

// A tensor on the segment's device with the given values (float, double, int32_t, int64_t; uint8_t
// makes a bool tensor), row-major, without gradient. Errors: Failure(MNEME_E_SHAPE) when the number
// of values does not match.
template <typename T>
Tensor from_data(const Shape& shape, const std::vector<T>& values,
                 CallSite site = CallSite::here()) {
  const auto& api = detail::group(detail::groups.tensor, MNEME_GROUP_TENSOR, site);
  const mneme_shape raw = shape.raw(detail::DTypeOf<T>::value);
  mneme_tensor out = 0;
  detail::HostError error;
  detail::check(api.from_data(detail::ctx(site), &raw, values.data(), values.size() * sizeof(T),
                              &out, &error.raw),
                error, site);
  return Tensor::adopt(out);
}

// A constant of this instance: `make` returns its values (a std::vector as for from_data) and is
// called only when the host does not keep `key` on this device yet. It must be a pure function of
// configuration and CPU counts.
template <typename Make>
Tensor constant(const char* key, const Shape& shape, Make&& make,
                CallSite site = CallSite::here()) {
  using Element = typename std::decay_t<decltype(make())>::value_type;
  const auto& api = detail::group(detail::groups.tensor, MNEME_GROUP_TENSOR, site);
  mneme_tensor out = 0;
  detail::HostError error;
  detail::check(api.constant_find(detail::ctx(site), key, &out, &error.raw), error, site);
  if (out == 0) {
    const auto values = make();
    const mneme_shape raw = shape.raw(detail::DTypeOf<Element>::value);
    detail::check(api.constant_put(detail::ctx(site), key, &raw, values.data(),
                                   values.size() * sizeof(Element), &out, &error.raw),
                  error, site);
  }
  return Tensor::borrow(out);
}

}  // namespace sdk_0_1
}  // namespace mneme
