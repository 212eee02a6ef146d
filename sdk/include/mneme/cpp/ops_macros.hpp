// Short forms for the op headers; ops_undefine.hpp removes them again.
// NOLINTBEGIN(readability-identifier-naming)

// The tag of an op: its name as the host knows it.
#define MNEME_SDK_OP(name)                           \
  namespace detail {                                 \
  namespace op {                                     \
  struct name {                                      \
    static constexpr const char* kName = #name "/1"; \
  };                                                 \
  }                                                  \
  }

// Tensor in, tensor out.
#define MNEME_SDK_UNARY(name)                                       \
  MNEME_SDK_OP(name)                                                \
  template <typename Use = void>                                    \
  Tensor name(const Operand& x) {                                   \
    return detail::run<detail::op::name, Use>(x.site(), {x.raw()}); \
  }

// Two operands that broadcast, either of which may be a number.
#define MNEME_SDK_BINARY(name)                                               \
  MNEME_SDK_OP(name)                                                         \
  template <typename Use = void>                                             \
  Tensor name(const Operand& a, const Operand& b) {                          \
    return detail::run<detail::op::name, Use>(a.site(), {a.raw(), b.raw()}); \
  }                                                                          \
  template <typename Use = void>                                             \
  Tensor name(const Operand& a, double b) {                                  \
    return detail::run<detail::op::name, Use>(a.site(), {a.raw(), 0},        \
                                              {detail::attr("scalar", b)});  \
  }                                                                          \
  template <typename Use = void>                                             \
  Tensor name(double a, const Operand& b) {                                  \
    return detail::run<detail::op::name, Use>(b.site(), {0, b.raw()},        \
                                              {detail::attr("scalar", a)});  \
  }

// An operator that stands for a binary op.
#define MNEME_SDK_OPERATOR(symbol, name)                                     \
  MNEME_SDK_OP(name)                                                         \
  template <typename Use = void>                                             \
  Tensor operator symbol(const Operand& a, const Operand& b) {               \
    return detail::run<detail::op::name, Use>(a.site(), {a.raw(), b.raw()}); \
  }                                                                          \
  template <typename Use = void>                                             \
  Tensor operator symbol(const Operand& a, double b) {                       \
    return detail::run<detail::op::name, Use>(a.site(), {a.raw(), 0},        \
                                              {detail::attr("scalar", b)});  \
  }                                                                          \
  template <typename Use = void>                                             \
  Tensor operator symbol(double a, const Operand& b) {                       \
    return detail::run<detail::op::name, Use>(b.site(), {0, b.raw()},        \
                                              {detail::attr("scalar", a)});  \
  }

// Over some dimensions, or over all.
#define MNEME_SDK_REDUCTION(name)                                                             \
  MNEME_SDK_OP(name)                                                                          \
  template <typename Use = void>                                                              \
  Tensor name(const Operand& x) {                                                             \
    return detail::run<detail::op::name, Use>(x.site(), {x.raw()});                           \
  }                                                                                           \
  template <typename Use = void>                                                              \
  Tensor name(const Operand& x, const Dims& dims, bool keepdim = false) {                     \
    return detail::run<detail::op::name, Use>(                                                \
        x.site(), {x.raw()}, {detail::attr("dims", dims), detail::attr("keepdim", keepdim)}); \
  }

// Over one dimension, or over all elements.
#define MNEME_SDK_SINGLE_REDUCTION(name)                                                    \
  MNEME_SDK_OP(name)                                                                        \
  template <typename Use = void>                                                            \
  Tensor name(const Operand& x) {                                                           \
    return detail::run<detail::op::name, Use>(x.site(), {x.raw()});                         \
  }                                                                                         \
  template <typename Use = void>                                                            \
  Tensor name(const Operand& x, int64_t dim, bool keepdim = false) {                        \
    return detail::run<detail::op::name, Use>(                                              \
        x.site(), {x.raw()}, {detail::attr("dim", dim), detail::attr("keepdim", keepdim)}); \
  }
// NOLINTEND(readability-identifier-naming)
