// Checks of a plugin's kernels on the CPU, each on inputs as its own hooks gave them.

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "host/memory/abi/kernel_function.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/kernels/kernel_calls.hpp"
#include "host/validate/kernels/kernel_slopes.hpp"

namespace mneme::validate {
namespace {

Outcome stay_in_bounds(const Subject& subject) {
  const Recorded recorded = record_kernels(subject);
  for (const KernelCall& call : recorded.calls) {
    for (const auto place : {KernelMemory::Place::kAtEnd, KernelMemory::Place::kAtStart}) {
      const KernelResult result = run_alone(call, subject, {.place = place});
      if (result.damaged.find("around") != std::string::npos)
        throw Failed(where(call) + result.damaged);
    }
  }
  return {Grade::kPass, seen(recorded)};
}

Outcome leave_inputs(const Subject& subject) {
  const Recorded recorded = record_kernels(subject);
  for (const KernelCall& call : recorded.calls) {
    const KernelResult result = run_alone(call, subject);
    if (!result.damaged.empty() && result.damaged.find("around") == std::string::npos)
      throw Failed(where(call) + result.damaged + ", which is shared with others");
  }
  return {Grade::kPass, seen(recorded)};
}

// The same results whatever lay in the memory before.
Outcome write_everything(const Subject& subject) {
  const Recorded recorded = record_kernels(subject);
  for (const KernelCall& call : recorded.calls) {
    const KernelResult one = run_alone(call, subject, {.fill = 0xff});
    const KernelResult two = run_alone(call, subject, {.fill = 0});
    const std::string why = "depends on what lay in memory before: write all of it";
    expect_same(one.outputs, two.outputs, where(call) + "output", why);
    expect_same(one.grad_inputs, two.grad_inputs, where(call) + "gradient of input", why);
  }
  return {Grade::kPass, seen(recorded)};
}

Outcome repeat(const Subject& subject) {
  const Recorded recorded = record_kernels(subject);
  std::int64_t promised = 0;
  for (const KernelCall& call : recorded.calls) {
    if ((call.decl.flags & MNEME_KERNEL_DETERMINISTIC) == 0) continue;
    ++promised;
    const KernelResult one = run_alone(call, subject), two = run_alone(call, subject);
    const std::string why = "differs the second time, though the kernel promises that it does not";
    expect_same(one.outputs, two.outputs, where(call) + "output", why);
    expect_same(one.grad_inputs, two.grad_inputs, where(call) + "gradient of input", why);
  }
  if (promised == 0) throw Skipped("no kernel promises MNEME_KERNEL_DETERMINISTIC");
  return {Grade::kPass, str(promised, " calls")};
}

// Whether the weighed outputs change with input `i`.
bool moves_something(const KernelCall& call, std::size_t i,
                     const std::vector<at::Tensor>& weights) {
  std::vector<at::Tensor> moved = call.inputs;
  moved[i] = moved[i] * 1.001 + 0.001;
  return std::abs(weighed(call, moved, weights) - weighed(call, call.inputs, weights)) > 1e-9;
}

Outcome right_gradients(const Subject& subject) {
  constexpr int kMoves = 4;
  const Recorded recorded = record_kernels(subject);
  std::int64_t compared = 0;
  std::set<std::string> constants;
  for (const KernelCall& call : recorded.calls) {
    if (!has_gradient(call)) continue;
    std::vector<at::Tensor> weights = grads_for(call, subject);
    const KernelResult base = forward_alone(call, call.inputs);
    for (std::size_t j = 0; j < weights.size(); ++j) {
      if (is_real(base.outputs[j]))
        weights[j] = weights[j].masked_fill(base.outputs[j].isinf(), 0.0);
    }
    const KernelResult result = run_alone(call, call.inputs, weights);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (!call.inputs[i].defined() || call.inputs[i].scalar_type() != at::kDouble ||
          call.inputs[i].numel() == 0 || !can_have_gradient(call, i)) {
        continue;
      }
      // All zeros: it stops the gradient there, which it may want to.
      if (result.grad_inputs[i].eq(0.0).all().item<bool>()) {
        if (moves_something(call, i, weights))
          constants.insert(str("input ", i, " of ", call.name));
        continue;
      }
      for (int d = 0; d < kMoves; ++d) {
        const auto direction =
            random_like({call.inputs[i]}, subject.seed + 100 + static_cast<std::uint64_t>(d));
        check_direction(call, i, direction[0] / direction[0].norm(), weights,
                        result.grad_inputs[i]);
        ++compared;
      }
    }
  }
  if (compared == 0) throw Skipped("no kernel has a gradient");
  const std::string text = str(compared, " directions in ", recorded.calls.size(), " calls");
  if (constants.empty()) return {Grade::kPass, text};
  return {
      Grade::kWarn,
      str(text, "; outputs depend on ", join({constants.begin(), constants.end()}, ", "),
          ", whose gradients are 0: where they are to be stopped, say so with constant_inputs")};
}

// Gradients that are not wanted, or that do not arrive, change no other.
Outcome parts_of_backward(const Subject& subject) {
  const Recorded recorded = record_kernels(subject);
  std::int64_t compared = 0;
  for (const KernelCall& call : recorded.calls) {
    if (!has_gradient(call)) continue;
    const std::vector<at::Tensor> weights = grads_for(call, subject);
    const KernelResult all = run_alone(call, call.inputs, weights);
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      BackwardHow how;
      how.is_wanted.assign(call.inputs.size(), false);
      how.is_wanted[i] = true;
      const KernelResult one = run_alone(call, call.inputs, weights, {}, how);
      if (!can_have_gradient(call, i)) continue;
      expect_equal(one.grad_inputs[i], all.grad_inputs[i],
                   str(where(call), "the gradient of input ", i, " differs"),
                   " when no other is wanted");
      ++compared;
    }
    // An output without a gradient counts as one whose gradient is 0.
    for (std::size_t j = 0; j < weights.size() && weights.size() > 1; ++j) {
      if (!is_real(all.outputs[j])) continue;
      BackwardHow how;
      how.is_arriving.assign(weights.size(), true);
      how.is_arriving[j] = false;
      std::vector<at::Tensor> zeroed = weights;
      zeroed[j] = at::zeros_like(zeroed[j]);
      const KernelResult left_out = run_alone(call, call.inputs, weights, {}, how);
      const KernelResult zero = run_alone(call, call.inputs, zeroed);
      for (std::size_t i = 0; i < call.inputs.size(); ++i) {
        if (!can_have_gradient(call, i)) continue;
        expect_equal(
            left_out.grad_inputs[i], zero.grad_inputs[i],
            str(where(call), "without a gradient of output ", j, " that of input ", i, " differs"),
            " from that for zeros");
      }
    }
  }
  if (compared == 0) throw Skipped("no kernel has a gradient");
  return {Grade::kPass, str(compared, " gradients")};
}

// What infer takes forward serves: within bounds, and writing all that infer has announced.
void expect_served(const KernelCall& call, std::size_t port,
                   const std::vector<mneme_shape>& shapes) {
  std::vector<at::Tensor> inputs;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const at::IntArrayRef extents(shapes[i].dims, shapes[i].rank);
    inputs.push_back(i == port ? at::ones(extents, call.inputs[i].options()) : call.inputs[i]);
  }
  const KernelResult one = forward_alone(call, inputs, {.fill = 0xff});
  const KernelResult two = forward_alone(call, inputs, {.fill = 0});
  const auto all = [](const KernelResult& result) {
    std::vector<at::Tensor> out = result.outputs;
    out.insert(out.end(), result.saved.begin(), result.saved.end());
    return out;
  };
  const std::vector<at::Tensor> left = all(one), right = all(two);
  bool is_written = one.damaged.empty();
  for (std::size_t i = 0; i < left.size(); ++i)
    is_written = is_written && is_same(left[i], right[i]);
  if (is_written) return;
  throw Failed(
      str(where(call), "infer takes input ", port, " with ", shapes[port].rank,
          " dimensions in place of ", call.inputs[port].dim(),
          ", and forward does not write what infer has announced: check ranks and extents in "
          "infer"));
}

// Shapes that do not fit are refused, and no shape ends the process.
Outcome infer_refuses(const Subject& subject) {
  const Recorded recorded = record_kernels(subject);
  for (const KernelCall& call : recorded.calls) {
    std::vector<mneme_shape> shapes;
    for (const at::Tensor& input : call.inputs) shapes.push_back(memory::shape_of(input));
    const Inferred first = infer_alone(call, shapes), second = infer_alone(call, shapes);
    const auto is_equal = [](const mneme_shape& a, const mneme_shape& b) {
      return a.rank == b.rank && a.dtype == b.dtype && std::equal(a.dims, a.dims + a.rank, b.dims);
    };
    if (!std::ranges::equal(first.outputs, second.outputs, is_equal) ||
        !std::ranges::equal(first.saved, second.saved, is_equal) ||
        first.workspace != second.workspace) {
      throw Failed(where(call) + "infer gives other shapes the second time");
    }
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      if (!call.inputs[i].defined()) continue;
      std::vector<mneme_shape> wrong = shapes;
      wrong[i].rank = shapes[i].rank == MNEME_MAX_RANK ? 0 : shapes[i].rank + 1;
      wrong[i].dims[shapes[i].rank % MNEME_MAX_RANK] = 2;
      const Inferred answer = infer_alone(call, wrong);
      if (answer.status == MNEME_OK) {
        expect_served(call, i, wrong);
        continue;
      }
      if (answer.message.empty())
        throw Failed(where(call) + "infer refuses a shape without a text");
    }
  }
  return {Grade::kPass, seen(recorded)};
}

// Inputs as an f32 model gives them, and the same numbers in f64, give the same results as far as
// f32 goes.
Outcome f32_agrees(const Subject& subject) {
  constexpr double kMaxShare = 1e-3;
  const Recorded recorded = record_kernels(subject, at::kFloat);
  for (const KernelCall& call : recorded.calls) {
    std::vector<at::Tensor> widened;
    for (const at::Tensor& input : call.inputs)
      widened.push_back(is_real(input) && input.scalar_type() == at::kFloat ? input.to(at::kDouble)
                                                                            : input);
    const KernelResult wide = forward_alone(call, widened);
    const KernelResult narrow = forward_alone(call, call.inputs);
    for (std::size_t j = 0; j < wide.outputs.size(); ++j) {
      if (!is_real(wide.outputs[j])) continue;
      const double scale = std::max(
          1.0,
          wide.outputs[j].to(at::kDouble).nan_to_num(0.0, 0.0, 0.0).abs().max().item<double>());
      const double difference = largest_difference(narrow.outputs[j], wide.outputs[j]);
      if (wide.outputs[j].numel() > 0 && difference > kMaxShare * scale) {
        throw Failed(str(where(call), "output ", j, " in f32 is off by ",
                         short_text(difference / scale), " of its largest value"));
      }
    }
  }
  return {Grade::kPass, seen(recorded)};
}

void expect_near(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b,
                 const std::string& what, const std::string& form) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!a[i].defined() || a[i].numel() == 0) continue;
    expect_equal(a[i], b[i], str(what, ' ', i, " differs"), ' ' + form);
  }
}

// A promise of a kernel: what it takes may come in another form, and the results are the same but
// for rounding.
Outcome hold_in_another_form(const Subject& subject, const KernelMemory& memory,
                             const std::function<bool(const KernelCall&)>& promises,
                             const std::string& form, const std::string& nobody) {
  const Recorded recorded = record_kernels(subject);
  std::int64_t compared = 0;
  for (const KernelCall& call : recorded.calls) {
    if (!promises(call)) continue;
    ++compared;
    const KernelResult plain = run_alone(call, subject), other = run_alone(call, subject, memory);
    if (!other.damaged.empty()) throw Failed(where(call) + other.damaged + ' ' + form);
    expect_near(plain.outputs, other.outputs, where(call) + "output", form);
    if (memory.keeps_saved)
      expect_near(plain.grad_inputs, other.grad_inputs, where(call) + "gradient of input", form);
  }
  if (compared == 0) throw Skipped(nobody);
  return {Grade::kPass, str(compared, " calls")};
}

Outcome read_by_strides(const Subject& subject) {
  return hold_in_another_form(
      subject, {.is_strided = true},
      [](const KernelCall& call) { return call.decl.strided_inputs != 0; },
      "when strided_inputs lie with other strides: read them by their strides",
      "no kernel declares strided_inputs");
}

Outcome run_without_backward(const Subject& subject) {
  return hold_in_another_form(subject, {.keeps_saved = false}, has_gradient,
                              "when no backward follows (MNEME_KERNEL_NO_BACKWARD)",
                              "no kernel has a gradient");
}

// Each optional input left out is served within bounds, or refused with a text.
Outcome run_without_inputs(const Subject& subject) {
  const Recorded recorded = record_kernels(subject);
  std::int64_t served = 0, refused = 0;
  for (const KernelCall& given : recorded.calls) {
    for (std::size_t i = 0; i < given.inputs.size(); ++i) {
      if ((given.decl.optional_inputs >> i & 1U) == 0) continue;
      KernelCall call = given;
      call.inputs[i] = at::Tensor();
      std::vector<mneme_shape> shapes;
      for (const at::Tensor& input : call.inputs) shapes.push_back(memory::shape_of(input));
      const Inferred answer = infer_alone(call, shapes);
      if (answer.status != MNEME_OK) {
        if (answer.message.empty())
          throw Failed(str(where(call), "input ", i, " is optional, and refused without a text"));
        ++refused;
        continue;
      }
      const KernelResult result = run_alone(call, subject);
      if (!result.damaged.empty()) throw Failed(where(call) + result.damaged);
      ++served;
    }
  }
  if (served + refused == 0) throw Skipped("no kernel declares optional_inputs");
  return {Grade::kPass, str(served, " calls, ", refused, " refused with a reason")};
}

}  // namespace

std::vector<Check> kernel_checks() {
  return {
      {"kernels.bounds", "Do kernels read and write within their tensors alone?", stay_in_bounds,
       "segments.padding"},
      {"kernels.infer", "Does infer refuse shapes that do not fit?", infer_refuses,
       "kernels.bounds"},
      {"kernels.inputs", "Do kernels leave their inputs as they are?", leave_inputs,
       "kernels.bounds"},
      {"kernels.repeat", "Do kernels keep their promise to be deterministic?", repeat,
       "kernels.bounds"},
      {"kernels.outputs", "Do kernels write all of their outputs?", write_everything,
       "kernels.repeat"},
      {"kernels.gradients", "Are the kernels' gradients right?", right_gradients,
       "kernels.outputs"},
      {"kernels.partial", "Can a part of a kernel's gradients be left out?", parts_of_backward,
       "kernels.gradients"},
      {"kernels.strides", "Do kernels read strided inputs by their strides?", read_by_strides,
       "kernels.gradients", "kernels.inputs"},
      {"kernels.absent", "Do kernels run without their optional inputs?", run_without_inputs,
       "kernels.outputs", "kernels.inputs"},
      {"kernels.no_backward", "Do kernels give the same when no backward follows?",
       run_without_backward, "kernels.outputs"},
      {"kernels.f32", "Do kernels in f32 agree with f64?", f32_agrees, "kernels.outputs"},
  };
}

}  // namespace mneme::validate
