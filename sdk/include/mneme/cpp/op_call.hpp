// How an op function of ops.hpp finds and calls its op.
//
// Every op function is a template whose body names an OpUse of its own. OpUse::entry is
// instantiated, and so put into the list below, exactly when a plugin uses the function; `create`
// resolves the list in one call, so that a host which lacks ops says so once, with all names, and
// nobody pays for ops that a plugin does not use.
#pragma once

#include <array>
#include <atomic>
#include <initializer_list>
#include <vector>

#include "mneme/cpp/tensor.hpp"

namespace mneme {
inline namespace sdk_0_1 {

namespace detail {

// An op that this plugin uses. Linked into the list before any function of the plugin runs; never
// removed.
struct OpEntry {
  explicit OpEntry(const char* op_name) noexcept : name(op_name), next(first) { first = this; }
  const char* name;
  OpEntry* next;
  std::atomic<mneme_op> id{0};  // the same for the process's life, whichever instance resolved it
  static inline OpEntry* first = nullptr;
};

template <typename Op, typename Use>
struct OpUse {
  static inline OpEntry entry{Op::kName};
};

// Resolves all ops of this plugin together. Errors: the host's, naming every op that it lacks.
inline void resolve_ops(mneme_setup* setup, CallSite site = CallSite::here()) {
  std::vector<const char*> names;
  for (OpEntry* entry = OpEntry::first; entry != nullptr; entry = entry->next) {
    names.push_back(entry->name);
  }
  if (names.empty()) return;
  std::vector<mneme_op> ids(names.size(), 0);
  const auto& api = group(groups.op, MNEME_GROUP_OP, site);
  HostError error;
  check(
      api.resolve(setup, names.data(), static_cast<uint32_t>(names.size()), ids.data(), &error.raw),
      error, site);
  std::size_t i = 0;
  for (OpEntry* entry = OpEntry::first; entry != nullptr; entry = entry->next) {
    entry->id.store(ids[i++], std::memory_order_relaxed);
  }
}

inline mneme_attr attr(const char* name, int64_t value) noexcept {
  return {name, MNEME_ATTR_INT, 0, value, 0.0, nullptr, nullptr};
}
inline mneme_attr attr(const char* name, bool value) noexcept {
  return attr(name, static_cast<int64_t>(value ? 1 : 0));
}
inline mneme_attr attr(const char* name, DType value) noexcept {
  return attr(name, static_cast<int64_t>(value));
}
inline mneme_attr attr(const char* name, double value) noexcept {
  return {name, MNEME_ATTR_REAL, 0, 0, value, nullptr, nullptr};
}
// The list is borrowed: it must live until the call returns.
inline mneme_attr attr(const char* name, const Shape& value) noexcept {
  return {name,         MNEME_ATTR_INTS, static_cast<uint32_t>(value.rank()), 0, 0.0,
          value.data(), nullptr};
}
inline mneme_attr attr(const char* name, const char* value) noexcept {
  return {name, MNEME_ATTR_TEXT, 0, 0, 0.0, nullptr, value};
}

template <std::size_t kOutputs>
std::array<Tensor, kOutputs> call_op(const OpEntry& entry, CallSite site,
                                     const mneme_tensor* inputs, std::size_t n_inputs,
                                     const mneme_attr* attrs, std::size_t n_attrs) {
  std::array<mneme_tensor, kOutputs> raw{};
  HostError error;
  check(groups.op->call(ctx(site), entry.id.load(std::memory_order_relaxed), inputs,
                        static_cast<uint32_t>(n_inputs), attrs, static_cast<uint32_t>(n_attrs),
                        raw.data(), static_cast<uint32_t>(kOutputs), &error.raw),
        error, site);
  std::array<Tensor, kOutputs> outputs;
  for (std::size_t i = 0; i < kOutputs; ++i) outputs[i] = Tensor::adopt(raw[i]);
  return outputs;
}

using Inputs = std::initializer_list<mneme_tensor>;
using Attrs = std::initializer_list<mneme_attr>;

// Runs the op `Op` with one output.
template <typename Op, typename Use>
Tensor run(CallSite site, Inputs inputs, Attrs attrs = {}) {
  return std::move(call_op<1>(OpUse<Op, Use>::entry, site, inputs.begin(), inputs.size(),
                              attrs.begin(), attrs.size())[0]);
}

template <typename Op, typename Use, std::size_t kOutputs>
std::array<Tensor, kOutputs> run_many(CallSite site, Inputs inputs, Attrs attrs = {}) {
  return call_op<kOutputs>(OpUse<Op, Use>::entry, site, inputs.begin(), inputs.size(),
                           attrs.begin(), attrs.size());
}

// For ops that take a list of tensors.
template <typename Op, typename Use>
Tensor run_list(const std::vector<Tensor>& tensors, Attrs attrs, CallSite site) {
  std::vector<mneme_tensor> inputs;
  inputs.reserve(tensors.size());
  for (const Tensor& tensor : tensors) inputs.push_back(handle_of(tensor, site));
  return std::move(call_op<1>(OpUse<Op, Use>::entry, site, inputs.data(), inputs.size(),
                              attrs.begin(), attrs.size())[0]);
}

}  // namespace detail
}  // namespace sdk_0_1
}  // namespace mneme
