#include "host/train/gradient_sums.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/ranks/bucket_sums.hpp"
#include "host/ranks/nccl.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::train {
namespace {

// Called by LibTorch when a backward pass has completed a parameter's gradient.
class GradientIsComplete final : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit GradientIsComplete(std::function<void()> then) : then_(std::move(then)) {}
  void operator()(const at::Tensor&) override { then_(); }

 private:
  std::function<void()> then_;
};

}  // namespace

struct GradientSums::Impl {
  struct Place {
    std::size_t bucket = 0;
    std::int64_t offset = 0;
  };

  Impl(ranks::Communicator& all, std::vector<optim::TrainableParameter> trained,
       const GradientSumsOptions& wanted)
      : ranks(all), own(all.duplicate()), parameters(std::move(trained)), options(wanted) {
    std::vector<std::size_t> order(parameters.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::reverse(order);  // a first guess: the last layers' gradients come first
    if (!parameters.empty() && parameters.front().tensor.is_cuda()) join_gpus();
    lay_out(order);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      torch::autograd::impl::set_post_acc_grad_hooks(
          parameters[i].tensor, std::make_unique<GradientIsComplete>([this, i] {
            if (is_active) take(i);
          }));
    }
  }

  ~Impl() {
    for (const optim::TrainableParameter& parameter : parameters)
      torch::autograd::impl::set_post_acc_grad_hooks(parameter.tensor, nullptr);
  }

  // Buckets in this order of the parameters, each of one type.
  void lay_out(const std::vector<std::size_t>& order) {
    sums.reset();
    buffers.clear();
    places.assign(parameters.size(), {});
    std::vector<std::size_t> bucket_of(parameters.size());
    std::vector<std::int64_t> lengths;
    std::vector<at::TensorOptions> types;
    for (const std::size_t i : order) {
      const at::Tensor& tensor = parameters[i].tensor;
      const at::TensorOptions type = type_of(tensor);
      const std::int64_t bytes =
          tensor.numel() * static_cast<std::int64_t>(type.dtype().itemsize());
      const bool fits =
          !lengths.empty() && types.back().dtype() == type.dtype() &&
          lengths.back() * static_cast<std::int64_t>(type.dtype().itemsize()) + bytes <=
              options.bucket_bytes;
      if (!fits) {
        lengths.push_back(0);
        types.push_back(type);
      }
      bucket_of[i] = lengths.size() - 1;
      places[i] = {bucket_of[i], lengths.back()};
      lengths.back() += tensor.numel();
    }
    for (std::size_t b = 0; b < lengths.size(); ++b)
      buffers.push_back(torch::empty({lengths[b]}, types[b]));
    if (nccl) {
      for (std::vector<c10::Event>* events : {&is_copied, &is_summed}) {
        events->clear();
        for (std::size_t b = 0; b < buffers.size(); ++b) events->emplace_back(at::kCUDA);
      }
    }
    sums = std::make_unique<ranks::BucketSums>(std::move(bucket_of),
                                               [this](std::size_t bucket) { sum(bucket); });
  }

  void join_gpus() {
    const at::Device device = parameters.front().tensor.device();
    const c10::DeviceGuard guard(device);
    std::string why_not;
    nccl = ranks::Nccl::open(ranks, why_not);
    if (nccl) {
      side = c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
    } else if (ranks.is_first()) {
      log_warning("gradients are summed through the memory of the CPU, which is slower: ", why_not);
    }
  }

  at::TensorOptions type_of(const at::Tensor& parameter) const {
    const at::TensorOptions type = parameter.options().requires_grad(false);
    return options.in_bf16 ? type.dtype(at::kBFloat16) : type;
  }

  at::Tensor part(std::size_t i) const {
    const at::Tensor& tensor = parameters[i].tensor;
    return buffers[places[i].bucket]
        .narrow(0, places[i].offset, tensor.numel())
        .view(tensor.sizes());
  }

  // Copies the gradient of a parameter, or zeros, into its bucket; it is part of the bucket then.
  void take(std::size_t i) {
    const at::NoGradGuard no_grad;
    at::Tensor& gradient = parameters[i].tensor.mutable_grad();
    at::Tensor own_part = part(i);
    has_gradient[i] = gradient.defined() ? 1.0 : 0.0;
    if (gradient.defined()) {
      own_part.copy_(gradient);
    } else {
      own_part.zero_();
    }
    gradient = at::Tensor();
    // The last copy's is the one that counts.
    if (nccl) is_copied[places[i].bucket].record(present_stream());
    sums->ready(i);
  }

  // On the thread of BucketSums.
  void sum(std::size_t bucket) {
    at::Tensor& buffer = buffers[bucket];
    const at::ScalarType type = buffer.scalar_type();
    const ranks::Number number = type == at::kDouble     ? ranks::Number::kF64
                                 : type == at::kBFloat16 ? ranks::Number::kBf16
                                                         : ranks::Number::kF32;
    const auto count = static_cast<std::size_t>(buffer.numel());
    if (nccl) {
      const c10::DeviceGuard guard(buffer.device());
      is_copied[bucket].block(*side);
      const c10::impl::VirtualGuardImpl streams(buffer.device().type());
      nccl->sum(buffer.mutable_data_ptr(), count, number, streams.getStreamNativeHandle(*side));
      is_summed[bucket].record(*side);
      return;
    }
    if (buffer.is_cpu()) {
      own->sum(buffer.mutable_data_ptr(), count, number, purpose);
      return;
    }
    // Through the CPU: waits for the kernels that write the bucket.
    at::Tensor here = buffer.to(at::kCPU);
    own->sum(here.mutable_data_ptr(), count, number, purpose);
    buffer.copy_(here);
  }

  [[nodiscard]] c10::Stream present_stream() const {
    const at::Device device = buffers.front().device();
    return c10::impl::VirtualGuardImpl(device.type()).getStream(device);
  }

  // What is enqueued from now on sees the sums.
  void wait_for_gpu() {
    for (c10::Event& event : is_summed) event.block(present_stream());
  }

  // The order in which rank 0's gradients came, for all ranks.
  void adopt_order() {
    std::vector<std::size_t> order = sums->order();
    std::vector<std::int64_t> numbers(parameters.size(), 0);
    if (order.size() == parameters.size()) std::ranges::copy(order, numbers.begin());
    ranks.broadcast(0, numbers.data(), numbers.size() * sizeof(std::int64_t), purpose);
    std::ranges::copy(numbers, order.begin());
    lay_out(order);
    has_order = true;
  }

  ranks::Communicator& ranks;
  std::unique_ptr<ranks::Communicator> own;  // of the thread that sums
  std::vector<optim::TrainableParameter> parameters;
  GradientSumsOptions options;
  std::vector<Place> places;  // of each parameter's gradient
  std::vector<at::Tensor> buffers;
  std::vector<double> has_gradient;
  std::unique_ptr<ranks::Nccl> nccl;  // of GPUs that could be joined
  std::optional<c10::Stream> side;    // on which it sums
  // Of each bucket, with NCCL: its gradients are there; they are summed.
  std::vector<c10::Event> is_copied, is_summed;
  std::string purpose;
  bool is_active = false;
  bool has_order = false;
  bool is_second = false;
  std::unique_ptr<ranks::BucketSums> sums;  // last: its thread uses the others
};

GradientSums::GradientSums(ranks::Communicator& ranks,
                           std::vector<optim::TrainableParameter> parameters,
                           const GradientSumsOptions& options)
    : impl_(std::make_unique<Impl>(ranks, std::move(parameters), options)) {}

GradientSums::~GradientSums() = default;

void GradientSums::begin(const std::string& purpose) {
  impl_->purpose = purpose + ", gradients";
  if (impl_->is_second && !impl_->has_order) impl_->adopt_order();
  impl_->is_second = true;
  impl_->has_gradient.assign(impl_->parameters.size(), 0.0);
  impl_->sums->begin();
  impl_->is_active = true;
}

void GradientSums::finish(std::span<double> numbers) {
  Impl& one = *impl_;
  one.is_active = false;
  for (const std::size_t i : one.sums->missing()) one.take(i);
  one.sums->finish();
  std::vector<double> all = one.has_gradient;
  all.insert(all.end(), numbers.begin(), numbers.end());
  ranks::sum(one.ranks, all, one.purpose);
  one.wait_for_gpu();
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < one.parameters.size(); ++i) {
    if (all[i] == 0.0) continue;
    const at::Tensor& tensor = one.parameters[i].tensor;
    one.parameters[i].tensor.mutable_grad() = one.part(i).to(tensor.scalar_type());
  }
  std::copy(all.begin() + static_cast<std::ptrdiff_t>(one.parameters.size()), all.end(),
            numbers.begin());
}

void GradientSums::forget() { impl_->is_active = false; }

std::int64_t GradientSums::bytes() const {
  std::int64_t total = 0;
  for (const at::Tensor& buffer : impl_->buffers)
    total += buffer.numel() * static_cast<std::int64_t>(buffer.element_size());
  return total;
}

std::int64_t GradientSums::messages() const {
  return static_cast<std::int64_t>(impl_->buffers.size()) + 1;
}

}  // namespace mneme::train
