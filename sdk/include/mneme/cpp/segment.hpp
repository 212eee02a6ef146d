// What a hook gets of its segment: lengths and lanes, the tier's state and parameters, kernels,
// losses, randomness, probes.
#pragma once

#include "mneme/cpp/state.hpp"

namespace mneme {
inline namespace sdk_0_1 {

class Segment;

// A slot's value in the running hook: converts to a Tensor (the newest value, with its graph);
// assignment writes. Errors of assignment: MNEME_E_SHAPE and MNEME_E_DTYPE against the declaration
// (nothing is cast).
class SlotValue {
 public:
  SlotValue(const mneme_state_api& api, Slot slot, CallSite site) noexcept
      : api_(&api), slot_(slot), site_(site) {}
  operator Tensor() const { return get(site_); }  // NOLINT: reads like the tensor that it holds
  Tensor get(CallSite site = CallSite::here()) const {
    mneme_tensor out = 0;
    detail::HostError error;
    detail::check(api_->slot_get(detail::ctx(site), slot_.id, &out, &error.raw), error, site);
    return Tensor::borrow(out);
  }
  SlotValue& operator=(const Operand& value) {
    detail::HostError error;
    detail::check(api_->slot_set(detail::ctx(value.site()), slot_.id, value.raw(), &error.raw),
                  error, value.site());
    return *this;
  }
  SlotValue(const SlotValue&) = default;
  SlotValue& operator=(const SlotValue& other) { return *this = Operand(other, other.site_); }

 private:
  const mneme_state_api* api_;
  Slot slot_;
  CallSite site_;
};

// The values of a slot of counts in the running hook: [B] whole numbers, on the CPU.
class CountsValue {
 public:
  CountsValue(const mneme_state_api& api, Counts counts, int64_t lanes) noexcept
      : api_(&api), counts_(counts), lanes_(lanes) {}
  std::vector<int64_t> get(CallSite site = CallSite::here()) const {
    std::vector<int64_t> values(static_cast<std::size_t>(lanes_));
    detail::HostError error;
    detail::check(
        api_->counts_get(detail::ctx(site), counts_.id, values.data(), values.size(), &error.raw),
        error, site);
    return values;
  }
  // Values may depend on shapes, configuration and CPU counts alone. Errors: MNEME_E_SHAPE for
  // another number than B.
  void set(const std::vector<int64_t>& values, CallSite site = CallSite::here()) const {
    detail::HostError error;
    detail::check(
        api_->counts_set(detail::ctx(site), counts_.id, values.data(), values.size(), &error.raw),
        error, site);
  }

 private:
  const mneme_state_api* api_;
  Counts counts_;
  int64_t lanes_;
};

// A queue's rows in the running hook. Rows that it gives are borrowed until the hook returns.
class QueueValue {
 public:
  QueueValue(const mneme_state_api& api, Queue queue) noexcept : api_(&api), queue_(queue) {}
  // Rows, invalid ones included; the same number for all lanes.
  int64_t size(CallSite site = CallSite::here()) const {
    int64_t rows = 0;
    detail::HostError error;
    detail::check(api_->queue_size(detail::ctx(site), queue_.id, &rows, &error.raw), error, site);
    return rows;
  }
  // The content as its blocks, oldest first.
  std::vector<Rows> blocks(CallSite site = CallSite::here()) const {
    std::vector<mneme_rows> raw(8, MNEME_INIT(mneme_rows));
    uint32_t count = fill_blocks(raw, site);
    if (count > raw.size()) {
      raw.resize(count, MNEME_INIT(mneme_rows));
      count = fill_blocks(raw, site);
    }
    std::vector<Rows> out;
    for (uint32_t i = 0; i < count; ++i) out.push_back(Rows::borrow(raw[i]));
    return out;
  }
  // The content as one piece, copied when it lies in several blocks; empty when the queue is.
  Rows rows(CallSite site = CallSite::here()) const {
    mneme_rows out = MNEME_INIT(mneme_rows);
    detail::HostError error;
    detail::check(api_->queue_rows(detail::ctx(site), queue_.id, &out, &error.raw), error, site);
    return Rows::borrow(out);
  }
  // Appends a block, detached and immutable from then on. Errors: MNEME_E_INVALID_ARGUMENT for
  // another kind than the queue's or without an attribute that it keeps; MNEME_E_SHAPE.
  void append(const Rows& rows, CallSite site = CallSite::here()) const {
    const mneme_rows raw = rows.raw(site);
    detail::HostError error;
    detail::check(api_->queue_append(detail::ctx(site), queue_.id, &raw, &error.raw), error, site);
  }
  // Removes the n oldest rows, at most what is there, and returns them as one piece.
  Rows pop_oldest(int64_t n, CallSite site = CallSite::here()) const {
    mneme_rows out = MNEME_INIT(mneme_rows);
    detail::HostError error;
    detail::check(api_->queue_pop_oldest(detail::ctx(site), queue_.id, n, &out, &error.raw), error,
                  site);
    return Rows::borrow(out);
  }
  // Removes the n oldest rows, at most what is there, without copying them.
  void drop_oldest(int64_t n, CallSite site = CallSite::here()) const {
    detail::HostError error;
    detail::check(api_->queue_pop_oldest(detail::ctx(site), queue_.id, n, nullptr, &error.raw),
                  error, site);
  }
  // Replaces the content by one block. `carried` says that its first `carried` rows are the queue's
  // newest ones and its others the newest rows of the layer's x, so that the keys and values kept
  // with them stay; -1 = there is no such relation. Errors: as append.
  void assign(const Rows& rows, int64_t carried = -1, CallSite site = CallSite::here()) const {
    const mneme_rows raw = rows.raw(site);
    detail::HostError error;
    detail::check(api_->queue_assign(detail::ctx(site), queue_.id, &raw, carried, &error.raw),
                  error, site);
  }
  Queue id() const noexcept { return queue_; }

 private:
  uint32_t fill_blocks(std::vector<mneme_rows>& raw, CallSite site) const {
    uint32_t count = 0;
    detail::HostError error;
    detail::check(api_->queue_blocks(detail::ctx(site), queue_.id, raw.data(),
                                     static_cast<uint32_t>(sizeof(mneme_rows)),
                                     static_cast<uint32_t>(raw.size()), &count, &error.raw),
                  error, site);
    return count;
  }

  const mneme_state_api* api_;
  Queue queue_;
};

// The running segment, given to begin and finish; Layer adds what belongs to a layer. Valid during
// the hook. Functions throw Failure with the host's code and text; for an object of a layer in
// begin and finish the code is MNEME_E_STATE, for a name that was not declared
// MNEME_E_INVALID_ARGUMENT.
class Segment {
 public:
  Segment(const mneme_segment& raw, const detail::Directory& directory) noexcept
      : raw_(&raw), directory_(&directory) {}
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  int64_t index() const noexcept { return raw_->index; }    // since the run's start
  int64_t lanes() const noexcept { return raw_->lanes; }    // B
  int64_t length() const noexcept { return raw_->length; }  // T, padding included
  int64_t previous_length() const noexcept {
    return raw_->previous_length;
  }                                                         // 0 at the run's start
  int64_t layers() const noexcept { return raw_->layers; }  // L
  // Tokens of an open segment before this call; 0 in closed segments.
  int64_t offset() const noexcept { return raw_->offset; }
  // Tokens of lane b since it started afresh, before this segment, padding not counted.
  int64_t tokens(int64_t b) const noexcept { return raw_->tokens != nullptr ? raw_->tokens[b] : 0; }
  bool is_training() const noexcept { return (raw_->flags & MNEME_SEGMENT_TRAINING) != 0; }
  // Training, and this segment's losses count: false where a segment only fills the memory.
  bool has_loss() const noexcept {
    return is_training() && (raw_->flags & MNEME_SEGMENT_NO_LOSS) == 0;
  }
  // Where all tensors of the segment are.
  bool is_cuda() const noexcept { return raw_->device_type == MNEME_DEVICE_CUDA; }
  bool is_open() const noexcept { return (raw_->flags & MNEME_SEGMENT_OPEN) != 0; }
  bool any_reset() const noexcept { return (raw_->flags & MNEME_SEGMENT_ANY_RESET) != 0; }
  // True when lane b starts afresh with this segment.
  bool is_reset(int64_t b) const noexcept { return raw_->reset != nullptr && raw_->reset[b] != 0; }
  // Of length(), the tokens of lane b that are no padding; in an open segment those of this step.
  int64_t valid_count(int64_t b) const noexcept {
    return raw_->valid_count != nullptr ? raw_->valid_count[b] : raw_->length;
  }
  Tensor valid() const noexcept { return Tensor::borrow(raw_->valid); }  // [B,T] bool; empty = all
  Tensor reset_mask() const noexcept { return Tensor::borrow(raw_->reset_mask); }  // [B] bool
  DType compute_dtype() const noexcept { return static_cast<DType>(raw_->compute_dtype); }
  const mneme_segment& raw() const noexcept { return *raw_; }

  // The current layer's parameter, or the model's, with gradient in training.
  Tensor parameter(Parameter id, CallSite site = CallSite::here()) const {
    mneme_tensor out = 0;
    detail::HostError error;
    detail::check(state(site).parameter(detail::ctx(site), id.id, &out, &error.raw), error, site);
    return Tensor::borrow(out);
  }
  Tensor parameter(const char* name, CallSite site = CallSite::here()) const {
    return parameter(detail::Directory::find(directory_->parameters, "parameter", name, site),
                     site);
  }
  // State of the current layer, or of the model, to read and to write.
  SlotValue slot(Slot id, CallSite site = CallSite::here()) const {
    return {state(site), id, site};
  }
  SlotValue slot(const char* name, CallSite site = CallSite::here()) const {
    return slot(detail::Directory::find(directory_->slots, "slot", name, site), site);
  }
  CountsValue counts(Counts id, CallSite site = CallSite::here()) const {
    return {state(site), id, lanes()};
  }
  CountsValue counts(const char* name, CallSite site = CallSite::here()) const {
    return counts(detail::Directory::find(directory_->counts, "slot of counts", name, site), site);
  }
  QueueValue queue(Queue id, CallSite site = CallSite::here()) const { return {state(site), id}; }
  QueueValue queue(const char* name, CallSite site = CallSite::here()) const {
    return queue(detail::Directory::find(directory_->queues, "queue", name, site), site);
  }

  // Runs a kernel under autograd: its outputs. An input may be empty, `{}`, where kOptionalInputs
  // says so. Errors: what the kernel's infer and forward give; MNEME_E_INVALID_ARGUMENT for another
  // number of inputs; MNEME_E_DEVICE where it has no CUDA function.
  std::vector<Tensor> call(KernelId kernel, std::initializer_list<Tensor> inputs,
                           std::initializer_list<int64_t> integers = {},
                           std::initializer_list<double> reals = {},
                           CallSite site = CallSite::here()) const {
    const auto& api = detail::group(detail::groups.kernel, MNEME_GROUP_KERNEL, site);
    std::array<mneme_tensor, MNEME_KERNEL_MAX_PORTS> in{};
    std::array<mneme_tensor, MNEME_KERNEL_MAX_PORTS> out{};
    require(inputs.size() <= in.size() && kernel.outputs <= out.size(), MNEME_E_INVALID_ARGUMENT,
            "a kernel has at most MNEME_KERNEL_MAX_PORTS inputs and outputs", site);
    std::size_t n = 0;
    for (const Tensor& input : inputs) in[n++] = detail::handle_of(input, site);
    detail::HostError error;
    detail::check(
        api.call(detail::ctx(site), kernel.id, in.data(), static_cast<uint32_t>(n),
                 integers.begin(), static_cast<uint32_t>(integers.size()), reals.begin(),
                 static_cast<uint32_t>(reals.size()), out.data(), kernel.outputs, &error.raw),
        error, site);
    std::vector<Tensor> tensors;
    for (uint32_t i = 0; i < kernel.outputs; ++i) tensors.push_back(Tensor::adopt(out[i]));
    return tensors;
  }
  std::vector<Tensor> call(const char* kernel, std::initializer_list<Tensor> inputs,
                           std::initializer_list<int64_t> integers = {},
                           std::initializer_list<double> reals = {},
                           CallSite site = CallSite::here()) const {
    return call(detail::Directory::find(directory_->kernels, "kernel", kernel, site), inputs,
                integers, reals, site);
  }

  // An auxiliary loss: value [B] (or [] for all lanes), weight [B] (empty = 1 for each lane); where
  // the weight is 0 the value is not looked at. Its mean over lanes and calls, summed over layers,
  // times the tier's key weight.<name>, is added to the loss. Errors: MNEME_E_INVALID_ARGUMENT for
  // a name that kLosses does not declare; MNEME_E_SHAPE; MNEME_E_DTYPE.
  void aux(const char* name, const Operand& value, const Operand& weight = {}) const {
    const CallSite site = value.site();
    const auto& api = detail::group(detail::groups.report, MNEME_GROUP_REPORT, site);
    detail::HostError error;
    detail::check(api.aux(detail::ctx(site), name, value.raw(), weight.raw(), &error.raw), error,
                  site);
  }
  // A number to report, averaged as an auxiliary loss is, without gradient.
  void metric(const char* name, const Operand& value, const Operand& weight = {}) const {
    const CallSite site = value.site();
    const auto& api = detail::group(detail::groups.report, MNEME_GROUP_REPORT, site);
    detail::HostError error;
    detail::check(api.metric(detail::ctx(site), name, value.raw(), weight.raw(), &error.raw), error,
                  site);
  }
  // Draws [B, ...] in [0,1), f32 or f64, that are the same for the same seed, tier, layer, lane,
  // segment and name. Errors: MNEME_E_SHAPE when the first extent is not B; MNEME_E_DTYPE.
  Tensor uniform(const char* name, const Shape& shape, DType dtype = DType::kF32,
                 CallSite site = CallSite::here()) const {
    return draw(&mneme_random_api::uniform, name, shape, dtype, site);
  }
  // As uniform, from the normal law of mean 0 and standard deviation 1.
  Tensor normal(const char* name, const Shape& shape, DType dtype = DType::kF32,
                CallSite site = CallSite::here()) const {
    return draw(&mneme_random_api::normal, name, shape, dtype, site);
  }

  // True when somebody wants the probe; when false, compute nothing for it. A host without probes
  // wants none.
  bool wants_probe(const char* name, CallSite site = CallSite::here()) const {
    const mneme_probe_api* api =
        detail::optional_group(detail::groups.probe, MNEME_GROUP_PROBE, site);
    return api != nullptr && api->wanted(detail::ctx(site), name) != 0;
  }
  // Publishes a tensor, detached; dropped when nobody wants it.
  void probe(const char* name, const Operand& value) const {
    const CallSite site = value.site();
    const auto& api = detail::group(detail::groups.probe, MNEME_GROUP_PROBE, site);
    detail::HostError error;
    detail::check(api.publish(detail::ctx(site), name, value.raw(), &error.raw), error, site);
  }

 protected:
  static const mneme_layer_api& layer_api(CallSite site) {
    return detail::group(detail::groups.layer, MNEME_GROUP_LAYER, site);
  }
  const detail::Directory& directory() const noexcept { return *directory_; }

 private:
  static const mneme_state_api& state(CallSite site) {
    return detail::group(detail::groups.state, MNEME_GROUP_STATE, site);
  }
  template <typename Function>
  static Tensor draw(Function function, const char* name, const Shape& shape, DType dtype,
                     CallSite site) {
    const auto& api = detail::group(detail::groups.random, MNEME_GROUP_RANDOM, site);
    const mneme_shape raw = shape.raw(dtype);
    mneme_tensor out = 0;
    detail::HostError error;
    detail::check((api.*function)(detail::ctx(site), name, &raw, &out, &error.raw), error, site);
    return Tensor::adopt(out);
  }

  const mneme_segment* raw_;
  const detail::Directory* directory_;
};

}  // namespace sdk_0_1
}  // namespace mneme
