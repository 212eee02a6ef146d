#include "host/tensor/dispatch/trace.hpp"

#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <utility>
#include <variant>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/dispatch/deterministic.hpp"
#include "host/tensor/dispatch/trace_writer.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

std::atomic<Trace::Writer*> g_writer = nullptr;

void write_down(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard silent(kTraceKey);
  Trace::Writer& writer = *g_writer.load();
  Trace::Writer::Call call = writer.begin(op, *stack);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kTraceKey), stack);
  writer.end(std::move(call), *stack);
}

TORCH_LIBRARY_IMPL(_, Fake, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&write_down>());
}

}  // namespace

bool is_tracing() {
  return c10::impl::tls_is_dispatch_key_included(kTraceKey) &&
         !c10::impl::tls_is_dispatch_key_excluded(kTraceKey);
}

TraceScope::TraceScope(Trace& trace) : key_(kTraceKey) {
  Trace::Writer* expected = nullptr;
  if (!g_writer.compare_exchange_strong(expected, trace.writer_.get()))
    throw_run("two traces are written at a time");
}
TraceScope::~TraceScope() { g_writer = nullptr; }

void run_traced(const std::string& text, const std::vector<at::Tensor>& reads,
                const std::vector<at::Tensor>& writes, const TracedWork& work, Capture capture) {
  std::vector<at::Tensor> all = reads;
  all.insert(all.end(), writes.begin(), writes.end());
  const bool is_written = is_tracing();
  {
    const c10::impl::ExcludeDispatchKeyGuard silent(kTraceKey);
    work(all, 0);
  }
  if (is_written) g_writer.load()->add_work(text, reads, writes, work, capture);
}

Trace::Trace() : writer_(std::make_unique<Writer>()) {}
Trace::~Trace() = default;
Trace::Trace(Trace&&) noexcept = default;
Trace& Trace::operator=(Trace&&) noexcept = default;

void Trace::add_input(const at::Tensor& tensor) { writer_->add_input(tensor); }
void Trace::add_output(const at::Tensor& tensor) { writer_->add_output(tensor); }
const std::vector<std::string>& Trace::lines() const { return writer_->lines; }

std::string Trace::difference(const Trace& one, const Trace& other) {
  const auto &a = one.lines(), &b = other.lines();
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const auto line = [i](const std::vector<std::string>& lines) {
      return i < lines.size() ? lines[i] : std::string("no operation");
    };
    if (line(a) != line(b)) return str("operation ", i, " is ", line(a), " and then ", line(b));
  }
  if (one.writer_->outputs != other.writer_->outputs) return "the results are other tensors";
  for (const auto& [number, t] : one.writer_->constants) {
    if (is_number(t)) continue;  // its value is in a line
    const auto found = other.writer_->constants.find(number);
    if (found == other.writer_->constants.end() || !found->second.is_alias_of(t))
      return str("tensor %", number, " is another one each time, and no operation made it: ",
                 one.writer_->first_use(number));
  }
  return "";
}

std::string Trace::reads_values() const {
  const auto reads = [](const std::string& line) {
    if (line.starts_with("aten::index.Tensor("))  // by a mask: as many rows as are true
      return line.find(" bool[") != std::string::npos || line.find(" u8[") != std::string::npos;
    return is_one_of(line, {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select",
                            "aten::_unique", "aten::unique_", "aten::equal(", "aten::argwhere",
                            "aten::bincount", "aten::repeat_interleave.Tensor"});
  };
  const auto found = std::ranges::find_if(lines(), reads);
  return found == lines().end() ? "" : *found;
}

void run_again(const Trace::Writer::Call& call, NumberedTensors& tensors, std::int64_t ahead) {
  const auto get = [&](std::int64_t number) {
    return number == kUndefined ? at::Tensor() : tensors.at(number);
  };
  if (!call.op) {
    std::vector<at::Tensor> all;
    for (const auto& [form, argument] : call.arguments)
      all.push_back(get(std::get<0>(argument)[0]));
    call.work(all, ahead);
    return;
  }
  torch::jit::Stack stack;
  for (const auto& [form, argument] : call.arguments) {
    if (std::holds_alternative<c10::IValue>(argument)) {
      stack.push_back(std::get<c10::IValue>(argument));
      continue;
    }
    const std::vector<std::int64_t>& numbers = std::get<0>(argument);
    if (form == Trace::Writer::Form::kTensor) {
      stack.emplace_back(get(numbers[0]));
    } else if (form == Trace::Writer::Form::kTensors) {
      c10::List<at::Tensor> list;
      for (const std::int64_t number : numbers) list.push_back(get(number));
      stack.emplace_back(std::move(list));
    } else {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::int64_t number : numbers)
        list.push_back(number == kUndefined ? std::nullopt : std::optional(get(number)));
      stack.emplace_back(std::move(list));
    }
  }
  std::optional<DeterministicAlgorithms> deterministic;
  if (call.is_deterministic) deterministic.emplace();
  call.op->callBoxed(&stack);
  const std::size_t first = stack.size() - call.results.size();
  for (std::size_t i = 0; i < call.results.size(); ++i) {
    const auto& [form, numbers] = call.results[i];
    if (form == Trace::Writer::Form::kTensor) {
      if (!numbers.empty() && numbers[0] != kUndefined)
        tensors[numbers[0]] = stack[first + i].toTensor();
      continue;
    }
    const std::vector<at::Tensor> list = stack[first + i].toTensorVector();
    for (std::size_t j = 0; j < numbers.size(); ++j) tensors[numbers[j]] = list[j];
  }
}

std::vector<at::Tensor> Trace::replay(const std::vector<at::Tensor>& inputs,
                                      std::int64_t ahead) const {
  if (inputs.size() != writer_->inputs.size()) {
    throw_run("a trace of ", writer_->inputs.size(), " inputs is run with ", inputs.size());
  }
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below;
  NumberedTensors tensors = writer_->constants;
  for (std::size_t i = 0; i < inputs.size(); ++i) tensors[writer_->inputs[i]] = inputs[i];
  const std::vector<std::vector<std::int64_t>> done = writer_->last_used();
  for (std::size_t c = 0; c < writer_->calls.size(); ++c) {
    run_again(writer_->calls[c], tensors, ahead);
    for (const std::int64_t number : done[c]) tensors.erase(number);
  }
  std::vector<at::Tensor> out;
  for (const std::int64_t number : writer_->outputs)
    out.push_back(number == kUndefined ? at::Tensor() : tensors.at(number));
  return out;
}

}  // namespace mneme::tensor
