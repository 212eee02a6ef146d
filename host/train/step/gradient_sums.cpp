#include "host/train/step/gradient_sums.hpp"

#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>

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
    const std::int64_t ranks_count = options.is_sharded ? ranks.size() : 1;
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      const std::int64_t length = (lengths[b] + ranks_count - 1) / ranks_count * ranks_count;
      buffers.push_back(torch::zeros({length}, types[b]));
    }
    if (options.is_sharded) make_shards();
    if (nccl) {
      for (std::vector<c10::Event>* events : {&is_copied, &is_summed}) {
        events->clear();
        for (std::size_t b = 0; b < buffers.size(); ++b) events->emplace_back(at::kCUDA);
      }
    }
    sums = std::make_unique<ranks::BucketSums>(std::move(bucket_of),
                                               [this](std::size_t bucket) { sum(bucket); });
  }

  // The piece [first, first + count) of a bucket that is this rank's.
  [[nodiscard]] std::int64_t piece_length(std::size_t bucket) const {
    return buffers[bucket].numel() / ranks.size();
  }
  [[nodiscard]] std::int64_t piece_begin(std::size_t bucket) const {
    return piece_length(bucket) * ranks.rank();
  }

  void make_shards() {
    shards.clear();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const std::int64_t begin = piece_begin(places[i].bucket);
      const std::int64_t end = begin + piece_length(places[i].bucket);
      const std::int64_t first = std::max(begin, places[i].offset);
      const std::int64_t count =
          std::min(end, places[i].offset + parameters[i].tensor.numel()) - first;
      if (count <= 0) continue;
      Shard shard{i, first - places[i].offset, parameters[i]};
      shard.part.tensor = parameters[i].tensor.detach().view({-1}).narrow(0, shard.offset, count);
      shards.push_back(std::move(shard));
    }
  }

  // Where the sums of a shard lie.
  [[nodiscard]] at::Tensor part_of(const Shard& shard) const {
    const Place& place = places[shard.parameter];
    return buffers[place.bucket].narrow(0, place.offset + shard.offset, shard.part.tensor.numel());
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
    if (nccl) {
      const c10::DeviceGuard guard(buffer.device());
      is_copied[bucket].block(*side);
      const c10::impl::VirtualGuardImpl streams(buffer.device().type());
      void* const stream = streams.getStreamNativeHandle(*side);
      if (options.is_sharded) {
        nccl->sum_scatter(buffer.mutable_data_ptr(), static_cast<std::size_t>(piece_length(bucket)),
                          number_of(buffer), stream);
      } else {
        nccl->sum(buffer.mutable_data_ptr(), static_cast<std::size_t>(buffer.numel()),
                  number_of(buffer), stream);
      }
      is_summed[bucket].record(*side);
      return;
    }
    // Of a GPU through the CPU: waits for the kernels that write the bucket.
    at::Tensor here = buffer.is_cpu() ? buffer : buffer.to(at::kCPU);
    if (options.is_sharded) {
      own->sum_scatter(here.mutable_data_ptr(), static_cast<std::size_t>(piece_length(bucket)),
                       number_of(buffer), purpose);
    } else {
      own->sum(here.mutable_data_ptr(), static_cast<std::size_t>(buffer.numel()), number_of(buffer),
               purpose);
    }
    if (!buffer.is_cpu()) buffer.copy_(here);
  }

  static ranks::Number number_of(const at::Tensor& tensor) {
    const at::ScalarType type = tensor.scalar_type();
    return type == at::kDouble     ? ranks::Number::kF64
           : type == at::kBFloat16 ? ranks::Number::kBf16
                                   : ranks::Number::kF32;
  }

  // Gives this rank's piece of a flat tensor to all.
  void share(at::Tensor& flat) {
    const auto bytes = static_cast<std::size_t>(flat.numel() / ranks.size()) * flat.element_size();
    if (nccl) {
      const c10::impl::VirtualGuardImpl streams(flat.device().type());
      nccl->share(flat.mutable_data_ptr(), bytes, streams.getStreamNativeHandle(present_stream()));
      return;
    }
    at::Tensor here = flat.is_cpu() ? flat : flat.to(at::kCPU);
    ranks.share(here.mutable_data_ptr(), bytes, purpose);
    if (!flat.is_cpu()) flat.copy_(here);
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
  std::vector<Shard> shards;
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
  // Shards keep their places: the optimiser's moments belong to them.
  if (impl_->is_second && !impl_->has_order && !impl_->options.is_sharded) impl_->adopt_order();
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
  for (Shard& shard : one.shards) {
    shard.part.tensor.mutable_grad() = all[shard.parameter] == 0.0
                                           ? at::Tensor()
                                           : one.part_of(shard).to(shard.part.tensor.scalar_type());
  }
  for (std::size_t i = 0; i < one.parameters.size() && !one.options.is_sharded; ++i) {
    if (all[i] == 0.0) continue;
    const at::Tensor& tensor = one.parameters[i].tensor;
    one.parameters[i].tensor.mutable_grad() = one.part(i).to(tensor.scalar_type());
  }
  std::copy(all.begin() + static_cast<std::ptrdiff_t>(one.parameters.size()), all.end(),
            numbers.begin());
}

void GradientSums::zero_grad() {
  impl_->is_active = false;
  for (optim::TrainableParameter& one : impl_->parameters) one.tensor.mutable_grad() = at::Tensor();
}

bool GradientSums::is_sharded() const { return impl_->options.is_sharded; }

const std::vector<GradientSums::Shard>& GradientSums::shards() const { return impl_->shards; }

const std::vector<optim::TrainableParameter>& GradientSums::parameters() const {
  return impl_->parameters;
}

void GradientSums::share_parameters() {
  Impl& one = *impl_;
  if (!one.options.is_sharded) return;
  const at::NoGradGuard no_grad;
  // The buckets' layout in the parameters' type.
  for (std::size_t b = 0; b < one.buffers.size(); ++b) {
    at::Tensor flat;
    const auto part_in = [&](std::size_t parameter, std::int64_t offset, std::int64_t count) {
      return flat.narrow(0, one.places[parameter].offset + offset, count);
    };
    for (const Shard& shard : one.shards) {
      if (one.places[shard.parameter].bucket != b) continue;
      if (!flat.defined())
        flat = torch::empty({one.buffers[b].numel()}, shard.part.tensor.options());
      part_in(shard.parameter, shard.offset, shard.part.tensor.numel()).copy_(shard.part.tensor);
    }
    if (!flat.defined()) {
      flat = torch::empty({one.buffers[b].numel()},
                          one.parameters.front().tensor.options().requires_grad(false));
    }
    one.share(flat);
    for (std::size_t i = 0; i < one.parameters.size(); ++i) {
      if (one.places[i].bucket != b) continue;
      at::Tensor target = one.parameters[i].tensor.detach();
      target.copy_(part_in(i, 0, target.numel()).view(target.sizes()));
    }
  }
}

std::vector<at::Tensor> GradientSums::gather(const std::vector<at::Tensor>& of_shards) {
  Impl& one = *impl_;
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> out;
  if (one.ranks.is_first()) {
    for (const optim::TrainableParameter& parameter : one.parameters)
      out.push_back(torch::zeros(parameter.tensor.sizes(),
                                 parameter.tensor.options().device(at::kCPU).requires_grad(false)));
  }
  for (std::size_t b = 0; b < one.buffers.size(); ++b) {
    at::Tensor piece =
        torch::zeros({one.piece_length(b)},
                     one.parameters.front().tensor.options().device(at::kCPU).requires_grad(false));
    for (std::size_t i = 0; i < of_shards.size(); ++i) {
      const Shard& shard = one.shards[i];
      const Impl::Place& place = one.places[shard.parameter];
      if (place.bucket != b) continue;
      piece.narrow(0, place.offset + shard.offset - one.piece_begin(b), of_shards[i].numel())
          .copy_(of_shards[i]);
    }
    const std::string_view bytes(static_cast<const char*>(piece.const_data_ptr()), piece.nbytes());
    std::string whole;
    for (const std::string& text : one.ranks.gather(bytes, "moments for a checkpoint"))
      whole += text;
    if (!one.ranks.is_first()) continue;
    const at::Tensor flat =
        torch::from_blob(whole.data(), {one.buffers[b].numel()}, piece.options());
    for (std::size_t i = 0; i < one.parameters.size(); ++i) {
      if (one.places[i].bucket != b) continue;
      out[i].copy_(flat.narrow(0, one.places[i].offset, out[i].numel()).view(out[i].sizes()));
    }
  }
  return out;
}

std::int64_t GradientSums::bytes() const {
  std::int64_t total = 0;
  for (const at::Tensor& buffer : impl_->buffers)
    total += buffer.numel() * static_cast<std::int64_t>(buffer.element_size());
  return total;
}

std::int64_t GradientSums::buckets() const {
  return static_cast<std::int64_t>(impl_->buffers.size());
}

}  // namespace mneme::train
