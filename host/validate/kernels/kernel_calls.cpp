#include "host/validate/kernels/kernel_calls.hpp"

#include "host/base/random.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::validate {
namespace {

using memory::Phase;
using memory::StackState;

constexpr std::int64_t kCallsOfAShape = 3;

}  // namespace

Recorded record_kernels(const Subject& subject, at::ScalarType dtype) {
  Setting setting = small_setting(subject);
  setting.setup.dtype = dtype;
  interposer().watches_kernels = true;
  Recorded out{.session = open(subject, setting), .calls = {}};
  Session& session = *out.session;
  const std::int64_t length = segment_length(session);
  const at::Tensor ids = ids_of(subject, session, 2 * kSegments);
  interposer().keep_kernel_calls(kCallsOfAShape);
  for (const Phase phase : kPhases) {
    StackState state = session.fresh(kLanes, phase);
    for (std::int64_t s = 0; s < 2 * kSegments; ++s) {
      if (s == kSegments) state.reset({0, 1, 0});
      SegmentHow how;
      if (s == 2 && length > 1) how.valid_count = {length - 1, length, 1};
      if (s == 3) state.reset({1, 0, 1});  // as a lane that ended early is
      static_cast<void>(session.run(state, segment_of(ids, length, s), how));
      state.cut_graph();
    }
  }
  out.calls = interposer().take_kernel_calls();
  interposer().watches_kernels = false;
  if (out.calls.empty()) throw Skipped("no hook calls a kernel of the plugin's own");
  return out;
}

std::string where(const KernelCall& call) {
  std::vector<std::string> shapes;
  for (const at::Tensor& input : call.inputs)
    shapes.push_back(input.defined() ? list_text(input.sizes().vec()) : "absent");
  return str("kernel ", call.name, " (", join(shapes, ", "), "): ");
}

bool has_gradient(const KernelCall& call) { return call.decl.backward_cpu != nullptr; }

bool is_real(const at::Tensor& tensor) {
  return tensor.defined() && at::isFloatingType(tensor.scalar_type());
}

std::vector<at::Tensor> random_like(const std::vector<at::Tensor>& outputs, std::uint64_t seed) {
  std::vector<at::Tensor> out;
  Random random(seed, {"gradients of outputs"});
  for (const at::Tensor& output : outputs) {
    at::Tensor values = at::empty(output.sizes(), at::kDouble);
    for (std::int64_t i = 0; i < values.numel(); ++i)
      values.mutable_data_ptr<double>()[i] = random.normal();
    out.push_back(values.to(output.scalar_type()));
  }
  return out;
}

std::vector<at::Tensor> grads_for(const KernelCall& call, const Subject& subject) {
  return random_like(forward_alone(call, call.inputs).outputs, subject.seed);
}

KernelResult run_alone(const KernelCall& call, const Subject& subject, const KernelMemory& memory) {
  return run_alone(call, call.inputs, grads_for(call, subject), memory);
}

bool is_same(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  return !a.defined() || (a.sizes() == b.sizes() &&
                          at::allclose(a.to(at::kDouble), b.to(at::kDouble), 0.0, 0.0, true));
}

void expect_same(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b,
                 const std::string& what, const std::string& why) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!is_same(a[i], b[i])) throw Failed(str(what, ' ', i, ' ', why));
  }
}

std::string seen(const Recorded& recorded) { return str(recorded.calls.size(), " calls"); }

}  // namespace mneme::validate
