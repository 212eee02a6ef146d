#include "host/tensor/dispatch/trace.hpp"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/dispatch/deterministic.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

// LibTorch reserves it below the gradient graph and above all devices, and has no kernel for it.
constexpr c10::DispatchKey kTraceKey = c10::DispatchKey::Fake;

constexpr std::int64_t kUndefined = -1;

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view one) { return name.starts_with(one); });
}
// Makes a tensor of any values.
bool makes_room(const c10::OperatorHandle& op) {
  return is_one_of(op.schema().name(), {"aten::empty", "aten::new_empty"});
}
// Reads no more of its arguments than their shapes.
bool reads_shapes_alone(const c10::OperatorHandle& op) {
  return op.schema().name().ends_with("_like") || is_one_of(op.schema().name(), {"aten::new_"});
}
bool is_write(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

std::string geometry_text(const at::Tensor& t) {
  std::string out = str(dtype_text(t.scalar_type()), list_text(t.sizes().vec()));
  if (!t.is_contiguous()) out += " by " + list_text(t.strides().vec());
  if (!t.is_cpu()) out += " on " + t.device().str();
  return out;
}

// A number, a word or a list of them.
std::string plain_text(const c10::IValue& value) {
  if (value.isDouble()) return format_exact(value.toDouble());
  if (value.isGenerator()) return "a generator";
  std::ostringstream out;
  out << value;
  return out.str();
}

}  // namespace

class Trace::Writer {
 public:
  // A tensor of a trace by number, or any other argument.
  using Argument = std::variant<std::vector<std::int64_t>, c10::IValue>;
  enum class Form { kTensor, kTensors, kOptionalTensors };

  struct Call {
    std::string text;
    std::optional<c10::OperatorHandle> op;
    TracedWork work;  // where there is no op
    bool is_deterministic = DeterministicAlgorithms::are_asked_for();
    std::vector<std::pair<Form, Argument>> arguments;
    std::vector<std::pair<Form, std::vector<std::int64_t>>> results;
  };

  std::vector<Call> calls;
  std::vector<std::string> lines;
  std::vector<std::int64_t> inputs, outputs;
  std::map<std::int64_t, at::Tensor> constants;  // that the work read and did not make

  void add_input(const at::Tensor& t) {
    inputs.push_back(t.defined() ? number_of_new(t) : kUndefined);
    constants.erase(inputs.back());
  }

  void add_output(const at::Tensor& t) {
    if (!t.defined()) return outputs.push_back(kUndefined);
    const auto found = numbers_.find(place_of(t));
    if (found == numbers_.end())
      throw_run("the traced work neither read nor made the tensor ", geometry_text(t));
    Memory& memory = memory_of(t);
    if (std::exchange(memory.is_room, false) && t.numel() > 0) add_values(t, found->second);
    outputs.push_back(found->second);
  }

  // Around the computation of an operation: its arguments, and then its results.
  Call begin(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
    const std::lock_guard lock(mutex_);
    const auto& arguments = op.schema().arguments();
    const std::size_t first = stack.size() - arguments.size();
    Call call;
    call.op = op;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const bool is_read = arguments[i].alias_info() == nullptr && !reads_shapes_alone(op);
      call.arguments.push_back(
          argument_of(stack[first + i], is_read, is_write(arguments[i]), call.text));
    }
    const std::string& overload = op.schema().overload_name();
    call.text = str(op.schema().name(), overload.empty() ? "" : ".", overload, '(',
                    call.text.empty() ? "" : call.text.substr(2), ')');
    if (call.is_deterministic) call.text += " deterministic";
    return call;
  }
  void end(Call call, const torch::jit::Stack& stack) {
    const std::lock_guard lock(mutex_);
    const auto& returns = call.op->schema().returns();
    const std::size_t first = stack.size() - returns.size();
    for (std::size_t i = 0; i < returns.size(); ++i) {
      const c10::IValue& value = stack[first + i];
      std::vector<std::int64_t> numbers;
      Form form = Form::kTensor;
      if (value.isTensor()) {
        numbers = {result_number(value.toTensor(), makes_room(*call.op))};
      } else if (value.isTensorList()) {
        form = Form::kTensors;
        for (const at::Tensor& t : value.toTensorVector())
          numbers.push_back(result_number(t, makes_room(*call.op)));
      }
      call.results.emplace_back(form, std::move(numbers));
    }
    add(std::move(call));
  }

  void add_work(const std::string& text, const std::vector<at::Tensor>& reads,
                const std::vector<at::Tensor>& writes, const TracedWork& work) {
    const std::lock_guard lock(mutex_);
    Call call;
    call.work = work;
    for (const at::Tensor& t : reads)
      call.arguments.push_back(argument_of(t, true, false, call.text));
    for (const at::Tensor& t : writes)
      call.arguments.push_back(argument_of(t, false, true, call.text));
    call.text = str(text, '(', call.text.empty() ? "" : call.text.substr(2), ')');
    add(std::move(call));
  }

  // By call, the tensors that no later one needs.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> last_used() const {
    std::map<std::int64_t, std::size_t> last;
    for (std::size_t c = 0; c < calls.size(); ++c) {
      for (const auto& [form, argument] : calls[c].arguments) {
        if (const auto* numbers = std::get_if<0>(&argument))
          for (const std::int64_t number : *numbers) last[number] = c;
      }
      for (const auto& [form, numbers] : calls[c].results)
        for (const std::int64_t number : numbers) last[number] = c;
    }
    for (const std::int64_t number : outputs) last.erase(number);
    std::vector<std::vector<std::int64_t>> out(calls.size());
    for (const auto& [number, call] : last) out[call].push_back(number);
    return out;
  }

 private:
  // Where the numbers of a tensor lie, and how: tensors that share it are one.
  using Place = std::tuple<const void*, std::int64_t, std::vector<std::int64_t>,
                           std::vector<std::int64_t>, at::ScalarType>;
  struct Memory {
    c10::weak_intrusive_ptr<c10::StorageImpl> keeps_address;
    std::int64_t first = kUndefined;  // tensor in it
    bool is_made = false;             // by the work
    bool is_room = false;             // and not written by any of its operations
  };

  static Place place_of(const at::Tensor& t) {
    return {t.storage().unsafeGetStorageImpl(), t.storage_offset(), t.sizes().vec(),
            t.strides().vec(), t.scalar_type()};
  }
  Memory& memory_of(const at::Tensor& t) {
    const auto [at, is_new] = memories_.try_emplace(t.storage().unsafeGetStorageImpl(),
                                                    Memory{t.storage().getWeakStorageImpl()});
    return at->second;
  }

  std::int64_t number_of_new(const at::Tensor& t) {
    const auto [at, is_new] = numbers_.try_emplace(place_of(t), count_);
    if (is_new) ++count_;
    Memory& memory = memory_of(t);
    if (memory.first == kUndefined) memory.first = at->second;
    return at->second;
  }

  std::int64_t result_number(const at::Tensor& t, bool is_room) {
    if (!t.defined()) return kUndefined;
    Memory& memory = memory_of(t);
    if (memory.first == kUndefined) {
      memory.is_made = true;
      memory.is_room = is_room;
    }
    return number_of_new(t);
  }

  std::int64_t argument_number(const at::Tensor& t, bool is_read, bool is_written) {
    if (!t.defined()) return kUndefined;
    const bool is_known = numbers_.contains(place_of(t));
    Memory& memory = memory_of(t);
    const std::int64_t number = number_of_new(t);
    if (!is_known && memory.is_made) {
      add_view(t, memory.first, number);
    } else if (!is_known) {
      constants[number] = t;
    }
    if (is_read && memory.is_room && t.numel() > 0) add_values(t, number);
    if (is_read || is_written) memory.is_room = false;
    return number;
  }

  // Of memory that the work made, by other means than an operation: the graph's own tensors.
  void add_view(const at::Tensor& t, std::int64_t base, std::int64_t number) {
    Call call;
    call.op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::as_strided", "");
    call.arguments = {{Form::kTensor, Argument(std::vector{base})},
                      {Form::kTensor, Argument(c10::IValue(t.sizes().vec()))},
                      {Form::kTensor, Argument(c10::IValue(t.strides().vec()))},
                      {Form::kTensor, Argument(c10::IValue(t.storage_offset()))}};
    call.results = {{Form::kTensor, {number}}};
    call.text = str("a view (%", base, ") %", number, ' ', geometry_text(t));
    add(std::move(call));
  }

  // That the CPU wrote without an operation: they count as the same every time.
  void add_values(const at::Tensor& t, std::int64_t number) {
    const c10::impl::ExcludeDispatchKeyGuard silent(kTraceKey);
    const at::NoGradGuard no_grad;
    const at::Tensor values = t.detach().clone(at::MemoryFormat::Contiguous).cpu();
    std::size_t hash = 0;
    const std::string_view bytes(static_cast<const char*>(values.const_data_ptr()),
                                 values.nbytes());
    hash = std::hash<std::string_view>()(bytes);
    Call call;
    call.work = [values](const std::vector<at::Tensor>& tensors, std::int64_t) {
      static_cast<void>(at::Tensor(tensors[0]).copy_(values));
    };
    call.arguments = {{Form::kTensor, Argument(std::vector{number})}};
    call.text = str("values from the CPU %", number, ' ', geometry_text(t), ": ",
                    values.numel() <= kShownValues ? numbers_text(values) : str("hash ", hash));
    add(std::move(call));
  }

  static constexpr std::int64_t kShownValues = 16;
  static std::string numbers_text(const at::Tensor& values) {
    const at::Tensor wide = values.reshape(-1).to(at::kDouble);
    std::string out;
    for (std::int64_t i = 0; i < wide.numel(); ++i) {
      if (i > 0) out += ", ";
      out += format_exact(wide.const_data_ptr<double>()[i]);
    }
    return out;
  }

  std::pair<Form, Argument> argument_of(const c10::IValue& value, bool is_read, bool is_written,
                                        std::string& text) {
    std::vector<std::int64_t> numbers;
    const auto take = [&](const at::Tensor& t) {
      numbers.push_back(argument_number(t, is_read, is_written));
      text += numbers.back() == kUndefined ? std::string(", none")
                                           : str(", %", numbers.back(), ' ', geometry_text(t));
    };
    if (value.isTensor()) {
      take(value.toTensor());
      return {Form::kTensor, std::move(numbers)};
    }
    if (value.isTensorList()) {
      for (const at::Tensor& t : value.toTensorVector()) take(t);
      return {Form::kTensors, std::move(numbers)};
    }
    if (value.isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& t : value.toOptionalTensorVector())
        take(t.value_or(at::Tensor()));
      return {Form::kOptionalTensors, std::move(numbers)};
    }
    text += ", " + plain_text(value);
    return {Form::kTensor, value};
  }

  void add(Call call) {
    lines.push_back(call.text);
    calls.push_back(std::move(call));
  }

  std::mutex mutex_;  // a backward pass has a thread of its own on a device
  std::map<Place, std::int64_t> numbers_;
  std::map<const void*, Memory> memories_;
  std::int64_t count_ = 0;
};

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

bool is_tracing() { return c10::impl::tls_is_dispatch_key_included(kTraceKey); }

TraceScope::TraceScope(Trace& trace) : key_(kTraceKey) {
  Trace::Writer* expected = nullptr;
  if (!g_writer.compare_exchange_strong(expected, trace.writer_.get()))
    throw_run("two traces are written at a time");
}
TraceScope::~TraceScope() { g_writer = nullptr; }

void run_traced(const std::string& text, const std::vector<at::Tensor>& reads,
                const std::vector<at::Tensor>& writes, const TracedWork& work) {
  std::vector<at::Tensor> all = reads;
  all.insert(all.end(), writes.begin(), writes.end());
  const bool is_written = is_tracing();
  {
    const c10::impl::ExcludeDispatchKeyGuard silent(kTraceKey);
    work(all, 0);
  }
  if (is_written) g_writer.load()->add_work(text, reads, writes, work);
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
  return "";
}

namespace {

using Tensors = std::map<std::int64_t, at::Tensor>;

void run_again(const Trace::Writer::Call& call, Tensors& tensors, std::int64_t ahead) {
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

}  // namespace

std::vector<at::Tensor> Trace::replay(const std::vector<at::Tensor>& inputs,
                                      std::int64_t ahead) const {
  if (inputs.size() != writer_->inputs.size()) {
    throw_run("a trace of ", writer_->inputs.size(), " inputs is run with ", inputs.size());
  }
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below;
  Tensors tensors = writer_->constants;
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
