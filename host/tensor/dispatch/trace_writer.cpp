#include "host/tensor/dispatch/trace_writer.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

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

// A number, a word or a list of them.
std::string plain_text(const c10::IValue& value) {
  if (value.isDouble()) return format_exact(value.toDouble());
  if (value.isGenerator()) return "a generator";
  std::ostringstream out;
  out << value;
  return out.str();
}

std::string number_text(const at::Tensor& t) {
  const c10::impl::ExcludeDispatchKeyGuard silent(kTraceKey);
  return plain_text(t.item());
}

void add_numbers(const std::pair<Trace::Writer::Form, Trace::Writer::Argument>& argument,
                 std::vector<std::int64_t>& to) {
  const auto* const numbers = std::get_if<std::vector<std::int64_t>>(&argument.second);
  if (numbers == nullptr) return;
  std::ranges::copy_if(*numbers, std::back_inserter(to),
                       [](std::int64_t number) { return number != kUndefined; });
}

}  // namespace

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view one) { return name.starts_with(one); });
}

bool is_number(const at::Tensor& t) {
  return t.unsafeGetTensorImpl()->is_wrapped_number() ||
         (t.is_cpu() && t.dim() == 0 && !t.requires_grad() && t.storage().use_count() == 1);
}

std::string geometry_text(const at::Tensor& t) {
  std::string out = str(dtype_text(t.scalar_type()), list_text(t.sizes().vec()));
  if (!t.is_contiguous()) out += " by " + list_text(t.strides().vec());
  if (!t.is_cpu()) out += " on " + t.device().str();
  return out;
}

at::Tensor once(at::Tensor t, const at::Tensor& expanded) {
  for (std::int64_t d = 0; d < t.dim(); ++d) {
    if (expanded.stride(d) == 0) t = t.narrow(d, 0, std::min<std::int64_t>(t.size(d), 1));
  }
  return t;
}

void Trace::Writer::add_input(const at::Tensor& t) {
  inputs.push_back(t.defined() ? number_of_new(t) : kUndefined);
  constants.erase(inputs.back());
}

void Trace::Writer::add_output(const at::Tensor& t) {
  if (!t.defined()) return outputs.push_back(kUndefined);
  const auto found = numbers_.find(place_of(t));
  if (found == numbers_.end())
    throw_run("the traced work neither read nor made the tensor ", geometry_text(t));
  Memory& memory = memory_of(t);
  if (std::exchange(memory.is_room, false) && t.numel() > 0) add_values(t, found->second);
  outputs.push_back(found->second);
}

Trace::Writer::Call Trace::Writer::begin(const c10::OperatorHandle& op,
                                         const torch::jit::Stack& stack) {
  const std::lock_guard lock(mutex_);
  const auto& arguments = op.schema().arguments();
  const std::size_t first = stack.size() - arguments.size();
  Call call;
  call.op = op;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const bool is_read = arguments[i].alias_info() == nullptr && !reads_shapes_alone(op);
    call.arguments.push_back(
        argument_of(stack[first + i], is_read, is_write(arguments[i]), call.text));
    if (is_write(arguments[i])) add_numbers(call.arguments.back(), call.written);
  }
  const std::string& overload = op.schema().overload_name();
  call.text = str(op.schema().name(), overload.empty() ? "" : ".", overload, '(',
                  call.text.empty() ? "" : call.text.substr(2), ')');
  if (call.is_deterministic) call.text += " deterministic";
  return call;
}

void Trace::Writer::end(Call call, const torch::jit::Stack& stack) {
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

void Trace::Writer::add_work(const std::string& text, const std::vector<at::Tensor>& reads,
                             const std::vector<at::Tensor>& writes, const TracedWork& work,
                             Capture capture) {
  const std::lock_guard lock(mutex_);
  Call call;
  call.work = work;
  call.capture = capture;
  for (const at::Tensor& t : reads)
    call.arguments.push_back(argument_of(t, true, false, call.text));
  for (const at::Tensor& t : writes) {
    call.arguments.push_back(argument_of(t, false, true, call.text));
    add_numbers(call.arguments.back(), call.written);
  }
  call.text = str(text, '(', call.text.empty() ? "" : call.text.substr(2), ')');
  add(std::move(call));
}

std::vector<std::int64_t> Trace::Writer::Call::given() const {
  std::vector<std::int64_t> out;
  for (const auto& argument : arguments) add_numbers(argument, out);
  return out;
}

std::vector<std::int64_t> Trace::Writer::Call::made() const {
  std::vector<std::int64_t> out;
  for (const auto& [form, numbers] : results) add_numbers({form, numbers}, out);
  return out;
}

std::string Trace::Writer::first_use(std::int64_t number) const {
  const std::string name = str('%', number, ' ');
  const auto found = std::ranges::find_if(
      lines, [&](const std::string& line) { return line.find(name) != std::string::npos; });
  return found == lines.end() ? "" : *found;
}

std::vector<std::vector<std::int64_t>> Trace::Writer::last_used() const {
  std::map<std::int64_t, std::size_t> last;
  for (std::size_t c = 0; c < calls.size(); ++c) {
    for (const std::int64_t number : calls[c].given()) last[number] = c;
    for (const std::int64_t number : calls[c].made()) last[number] = c;
  }
  for (const std::int64_t number : outputs) last.erase(number);
  std::vector<std::vector<std::int64_t>> out(calls.size());
  for (const auto& [number, call] : last) out[call].push_back(number);
  return out;
}

std::int64_t Trace::Writer::number_of_new(const at::Tensor& t) {
  const auto [at, is_new] =
      numbers_.try_emplace(place_of(t), static_cast<std::int64_t>(tensors.size()));
  Memory& memory = memory_of(t);
  if (memory.first == kUndefined) memory.first = at->second;
  if (is_new) tensors.push_back({memory.first, t.device().type(), t.dim() == 0});
  return at->second;
}

std::int64_t Trace::Writer::result_number(const at::Tensor& t, bool is_room) {
  if (!t.defined()) return kUndefined;
  Memory& memory = memory_of(t);
  if (memory.first == kUndefined) {
    memory.is_made = true;
    memory.is_room = is_room;
  }
  return number_of_new(t);
}

std::int64_t Trace::Writer::argument_number(const at::Tensor& t, bool is_read, bool is_written) {
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

Trace::Writer::Place Trace::Writer::place_of(const at::Tensor& t) {
  return {t.storage().unsafeGetStorageImpl(), t.storage_offset(), t.sizes().vec(),
          t.strides().vec(), t.scalar_type()};
}

Trace::Writer::Memory& Trace::Writer::memory_of(const at::Tensor& t) {
  const auto [at, is_new] = memories_.try_emplace(t.storage().unsafeGetStorageImpl(),
                                                  Memory{t.storage().getWeakStorageImpl()});
  return at->second;
}

void Trace::Writer::add_view(const at::Tensor& t, std::int64_t base, std::int64_t number) {
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

void Trace::Writer::add_values(const at::Tensor& t, std::int64_t number) {
  const c10::impl::ExcludeDispatchKeyGuard silent(kTraceKey);
  const at::NoGradGuard no_grad;
  const at::Tensor values = t.detach().clone(at::MemoryFormat::Contiguous).cpu();
  std::size_t hash = 0;
  const std::string_view bytes(static_cast<const char*>(values.const_data_ptr()), values.nbytes());
  hash = std::hash<std::string_view>()(bytes);
  Call call;
  call.work = [values](const std::vector<at::Tensor>& given, std::int64_t) {
    const at::Tensor& to = given[0];
    once(to, to).copy_(once(values, to));
  };
  call.arguments = {{Form::kTensor, Argument(std::vector{number})}};
  call.written = {number};
  call.is_from_cpu = true;
  call.text = str("values from the CPU %", number, ' ', geometry_text(t), ": ",
                  values.numel() <= kShownValues ? numbers_text(values) : str("hash ", hash));
  add(std::move(call));
}

std::string Trace::Writer::numbers_text(const at::Tensor& values) {
  const at::Tensor wide = values.reshape(-1).to(at::kDouble);
  std::string out;
  for (std::int64_t i = 0; i < wide.numel(); ++i) {
    if (i > 0) out += ", ";
    out += format_exact(wide.const_data_ptr<double>()[i]);
  }
  return out;
}

std::pair<Trace::Writer::Form, Trace::Writer::Argument> Trace::Writer::argument_of(
    const c10::IValue& value, bool is_read, bool is_written, std::string& text) {
  std::vector<std::int64_t> numbers;
  const auto take = [&](const at::Tensor& t) {
    numbers.push_back(argument_number(t, is_read, is_written));
    text += numbers.back() == kUndefined ? std::string(", none")
                                         : str(", %", numbers.back(), ' ', geometry_text(t));
    if (t.defined() && constants.contains(numbers.back()) && is_number(t))
      text += str(" = ", number_text(t));
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

void Trace::Writer::add(Call call) {
  lines.push_back(call.text);
  calls.push_back(std::move(call));
}

}  // namespace mneme::tensor
