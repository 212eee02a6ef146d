// Checks on a CUDA device: a memory gives there what it gives on the CPU, on the stream that it is
// given. Left out where there is no device.

#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <functional>

#include "host/base/error.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/kernels/kernel_calls.hpp"

namespace mneme::validate {
namespace {

using memory::StackState;

// Of the largest value of a tensor.
double allowed_share(at::ScalarType type) { return type == at::kDouble ? 1e-9 : 1e-3; }

at::Device device_or_skip() {
  if (!tensor::has_cuda_driver()) throw Skipped("there is no NVIDIA driver");
  try {
    return tensor::open_device("cuda");
  } catch (const Error& error) {
    throw Skipped(error.what());
  }
}

bool has_cuda(const KernelCall& call) { return call.decl.forward_cuda != nullptr; }

void skip_without_cuda_kernels(const Subject& subject) {
  const Recorded recorded = record_kernels(subject);
  if (std::ranges::none_of(recorded.calls, has_cuda)) throw Skipped("no kernel has CUDA functions");
}

// Whether forward and backward are to be run there; a kernel with a gradient on the CPU alone
// fails.
bool runs_on_cuda(const KernelCall& call) {
  if (!has_cuda(call)) return false;
  if (has_gradient(call) && call.decl.backward_cuda == nullptr)
    throw Failed(where(call) + "it has backward_cpu and forward_cuda, and no backward_cuda");
  return true;
}

double largest_value(const at::Tensor& t) {
  if (t.numel() == 0) return 1.0;
  return std::max(1.0, t.to(at::kDouble).nan_to_num(0.0, 0.0, 0.0).abs().max().item<double>());
}

void expect_close(const std::vector<at::Tensor>& cpu, const std::vector<at::Tensor>& cuda,
                  double share, const std::string& what, const std::string& end) {
  for (std::size_t i = 0; i < cpu.size(); ++i) {
    if (!cpu[i].defined() || cpu[i].numel() == 0) continue;
    const double off = largest_difference(cpu[i], cuda[i]) / largest_value(cpu[i]);
    if (off > share)
      throw Failed(str(what, ' ', i, " is off by ", short_text(off), " of its largest value", end));
  }
}

using Run = std::function<KernelResult(const KernelCall&, const std::vector<at::Tensor>& grads)>;

// Runs the calls of a model of each dtype on the CPU and by `run`.
Outcome compare_calls(const Subject& subject, const Run& run, const std::string& end) {
  skip_without_cuda_kernels(subject);
  std::int64_t compared = 0;
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const Recorded recorded = record_kernels(subject, type);
    for (const KernelCall& call : recorded.calls) {
      if (!runs_on_cuda(call)) continue;
      const std::vector<at::Tensor> grads = grads_for(call, subject);
      const KernelResult cpu = run_alone(call, call.inputs, grads);
      const KernelResult cuda = run(call, grads);
      const double share = allowed_share(type);
      expect_close(cpu.outputs, cuda.outputs, share, where(call) + "output", end);
      expect_close(cpu.grad_inputs, cuda.grad_inputs, share, where(call) + "gradient of input",
                   end);
      ++compared;
    }
  }
  return {Grade::kPass, str(compared, " calls")};
}

Outcome kernels_agree(const Subject& subject) {
  const at::Device device = device_or_skip();
  const auto run = [&](const KernelCall& call, const std::vector<at::Tensor>& grads) {
    KernelResult result = run_alone(call, call.inputs, grads, {.device = device});
    if (!result.damaged.empty()) throw Failed(where(call) + "on CUDA " + result.damaged);
    return result;
  };
  return compare_calls(subject, run, " on CUDA");
}

std::vector<at::Tensor> moved(const std::vector<at::Tensor>& tensors, at::Device device) {
  std::vector<at::Tensor> out;
  for (const at::Tensor& one : tensors) out.push_back(one.defined() ? one.to(device) : one);
  return out;
}

// The inputs are written on the stream behind work that takes long: a kernel on another stream
// reads what lay there before, and one that waits for the device returns when that work is done.
Outcome use_the_stream(const Subject& subject) {
  constexpr std::int64_t kSide = 4096;
  constexpr int kProducts = 12;
  const at::Device device = device_or_skip();
  const at::Tensor matrix = at::zeros({kSide, kSide}, at::TensorOptions(device));
  at::Tensor product = at::empty_like(matrix);
  const auto delay = [&] {
    for (int i = 0; i < kProducts; ++i) at::mm_out(product, matrix, matrix);
  };
  const c10::impl::VirtualGuardImpl guard(device.type());
  const c10::StreamGuard on_side(guard.getStreamFromGlobalPool(device));
  delay();  // what is prepared at the first product
  const auto run = [&](const KernelCall& call, const std::vector<at::Tensor>& grads) {
    const std::vector<at::Tensor> inputs = moved(call.inputs, device);
    const std::vector<at::Tensor> grad_outputs = moved(grads, device);
    // Loads the kernels, which may wait.
    static_cast<void>(run_alone(call, inputs, grad_outputs, {.device = device}));
    tensor::synchronize(device);
    KernelResult result = run_alone(call, inputs, grad_outputs, {.device = device, .delay = delay});
    if (!result.waited.empty()) {
      throw Failed(str(where(call), result.waited,
                       " returned when all work on its stream was done: it waits for the device"));
    }
    return result;
  };
  return compare_calls(subject, run,
                       " when its inputs are written late on the stream of the call: it works on "
                       "another");
}

// The losses of a run and the gradients of all parameters, on the CPU.
struct Trained {
  at::Tensor losses;
  std::vector<std::string> names;
  std::vector<at::Tensor> gradients;
};

Trained train_on(const Subject& subject, at::Device device, at::ScalarType type) {
  Setting setting = small_setting(subject);
  setting.setup.dtype = type;
  setting.setup.device = device;
  const auto session = open(subject, setting);
  const std::int64_t length = segment_length(*session);
  const at::Tensor ids = ids_of(subject, *session, kSegments);
  StackState state = session->fresh(kLanes);
  std::vector<at::Tensor> losses;
  for (std::int64_t s = 0; s < kSegments; ++s) {
    if (s == 2) state.reset({0, 1, 0});
    const SegmentResult result = session->run(state, segment_of(ids, length, s).to(device));
    result.loss.backward();
    state.cut_graph();
    losses.push_back(result.nll.detach());
  }
  Trained out{.losses = at::cat(losses, 1).cpu(), .names = {}, .gradients = {}};
  const auto add = [&](const std::string& name, const at::Tensor& parameter) {
    out.names.push_back(name);
    out.gradients.push_back(parameter.grad().defined() ? parameter.grad().cpu() : at::Tensor());
  };
  for (const backbone::Parameter& p : session->model->parameters()) add(p.name, p.tensor);
  for (const memory::TierParameter& p : session->stack.parameters()) add(p.name, p.tensor);
  return out;
}

// A memory that calls a kernel without CUDA functions there cannot run on it, which the host says.
Trained train_on_cuda(const Subject& subject, at::Device device, at::ScalarType type) {
  try {
    return train_on(subject, device, type);
  } catch (const Error& error) {
    const std::string text = error.what();
    if (text.find("has no CUDA function") == std::string::npos) throw;
    throw Skipped(text);
  }
}

Outcome models_agree(const Subject& subject) {
  const at::Device device = device_or_skip();
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    const Trained cpu = train_on(subject, at::kCPU, type);
    const Trained cuda = train_on_cuda(subject, device, type);
    const double share = allowed_share(type);
    const std::string word = type == at::kDouble ? "f64" : "f32";
    const double off = largest_difference(cpu.losses, cuda.losses);
    if (off > share * largest_value(cpu.losses))
      throw Failed(str("in ", word, " a loss on CUDA is off by ", short_text(off), " nats"));
    for (std::size_t i = 0; i < cpu.names.size(); ++i) {
      const at::Tensor &a = cpu.gradients[i], &b = cuda.gradients[i];
      if (a.defined() != b.defined())
        throw Failed(str(cpu.names[i], " gets a gradient on one of CPU and CUDA alone"));
      if (!a.defined()) continue;
      const double distance = largest_difference(a, b) / largest_value(a);
      if (distance > share) {
        throw Failed(str("in ", word, " the gradient of ", cpu.names[i], " on CUDA is off by ",
                         short_text(distance), " of its largest value"));
      }
    }
  }
  return {Grade::kPass, "losses and gradients in f64 and f32"};
}

}  // namespace

std::vector<Check> device_checks() {
  return {
      {"devices.kernels", "Do kernels on CUDA give what they give on the CPU?", kernels_agree,
       "kernels.partial", "kernels.f32"},
      {"devices.stream", "Do CUDA kernels work on the stream that they are given, and never wait?",
       use_the_stream, "devices.kernels"},
      {"devices.model", "Does a model on CUDA train as on the CPU?", models_agree,
       "devices.kernels", "gradients.backbone", "runs.repeat", "precision.f32"},
  };
}

}  // namespace mneme::validate
