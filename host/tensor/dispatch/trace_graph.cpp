#include "host/tensor/dispatch/trace_graph.hpp"

#include <exception>
#include <string>
#include <utility>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::tensor {
namespace {

// The whole memory of a tensor, in numbers as wide as it allows.
at::Tensor row_of(const at::Tensor& t) {
  const auto bytes = static_cast<std::int64_t>(t.storage().nbytes());
  const bool is_wide = bytes % 8 == 0;
  return at::empty({0}, t.options().dtype(is_wide ? at::kLong : at::kByte))
      .set_(t.storage(), 0, {is_wide ? bytes / 8 : bytes}, {1});
}

at::Tensor view_in(const at::Tensor& row, at::ScalarType type, at::IntArrayRef sizes,
                   at::IntArrayRef strides, std::int64_t offset) {
  return at::empty({0}, row.options().dtype(type)).set_(row.storage(), offset, sizes, strides);
}

// Copies rows, by one kernel for those of a dtype.
std::vector<at::Tensor> copies_of(const std::vector<at::Tensor>& rows) {
  std::vector<at::Tensor> out;
  std::map<at::ScalarType, std::pair<std::vector<at::Tensor>, std::vector<at::Tensor>>> by_type;
  for (const at::Tensor& row : rows) {
    out.push_back(at::empty_like(row));
    auto& [to, from] = by_type[row.scalar_type()];
    to.push_back(out.back());
    from.push_back(row);
  }
  for (const auto& [type, lists] : by_type) at::_foreach_copy_(lists.first, lists.second);
  return out;
}

}  // namespace

TraceGraph::TraceGraph(const Trace& trace, TraceParts parts, GraphDevice& device,
                       const std::vector<at::Tensor>& inputs, std::int64_t ahead)
    : trace_(trace.writer()), parts_(std::move(parts)), lasting_(trace_.constants) {
  std::set<std::int64_t> read_ahead, others(trace_.inputs.begin(), trace_.inputs.end());
  const auto memory = [&](std::int64_t number) {
    return trace_.tensors[static_cast<std::size_t>(number)].memory;
  };
  for (std::size_t c = 0; c < trace_.calls.size(); ++c) {
    const std::vector<std::int64_t> given = trace_.calls[c].given(), made = trace_.calls[c].made();
    if (parts_.of_call[c] != TracePart::kGraph) {
      if (parts_.of_call[c] == TracePart::kAhead) read_ahead.insert(given.begin(), given.end());
      others.insert(made.begin(), made.end());
      continue;
    }
    read_.insert(given.begin(), given.end());
    made_.insert(made.begin(), made.end());
    for (const std::int64_t number : given) touched_.insert(memory(number));
    for (const std::int64_t number : made) touched_.insert(memory(number));
    for (const std::int64_t number : trace_.calls[c].written) written_.insert(memory(number));
  }
  for (const std::int64_t number : others) made_.erase(number);  // they are the same once more
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below;
  run(TracePart::kOnce, lasting_, ahead);
  for (const auto& [number, t] : lasting_)
    if (read_ahead.contains(number)) needed_ahead_[number] = t;
  const NumberedTensors start = own_memory(inputs, run_ahead(inputs, ahead), device.type());
  capturing_ = &device;
  graph_ = device.capture([this, start, ahead] { return run_graph(start, ahead); });
  capturing_ = nullptr;
}

// A failure is often seen no sooner than where the capture ends, which does not say what it was.
void TraceGraph::run_captured(const Trace::Writer::Call& call, NumberedTensors& tensors,
                              std::int64_t ahead) const {
  const auto fail = [&](const std::string& reason) {
    throw_run(call.text, ": ", reason.substr(0, reason.find('\n')));
  };
  try {
    run_again(call, tensors, ahead);
  } catch (const c10::Error& error) {
    fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(error.what());
  }
  if (!capturing_->is_capture_whole())
    fail("it waits for the device, or for something else that no graph may hold");
}

void TraceGraph::run(TracePart part, NumberedTensors& tensors, std::int64_t ahead) const {
  for (std::size_t c = 0; c < trace_.calls.size(); ++c)
    if (parts_.of_call[c] == part) run_again(trace_.calls[c], tensors, ahead);
}

NumberedTensors TraceGraph::run_ahead(const std::vector<at::Tensor>& inputs,
                                      std::int64_t ahead) const {
  NumberedTensors out = needed_ahead_;
  for (std::size_t i = 0; i < inputs.size(); ++i) out[trace_.inputs[i]] = inputs[i];
  run(TracePart::kAhead, out, ahead);
  return out;
}

NumberedTensors TraceGraph::own_memory(const std::vector<at::Tensor>& inputs,
                                       const NumberedTensors& prepared, at::DeviceType device) {
  NumberedTensors out = lasting_;
  inputs_.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& given = inputs[i];
    if (!read_.contains(trace_.inputs[i])) continue;
    inputs_[i] = at::empty_strided(given.sizes(), given.strides(), given.options());
    once(inputs_[i], inputs_[i]).copy_(once(given, given));
    out[trace_.inputs[i]] = inputs_[i];
  }
  std::map<std::int64_t, at::Tensor> rows;  // by memory
  for (const auto& [number, t] : prepared) {
    if (out.contains(number) || !t.defined() || t.device().type() != device) continue;
    const std::int64_t memory = trace_.tensors[static_cast<std::size_t>(number)].memory;
    if (!touched_.contains(memory)) continue;
    if (lasting_.contains(memory)) {
      out[number] = t;
      continue;
    }
    at::Tensor& row = rows[memory];
    if (!row.defined()) {
      row = row_of(t).clone();
      passed_.push_back({number, row});
    }
    out[number] = view_in(row, t.scalar_type(), t.sizes(), t.strides(), t.storage_offset());
  }
  return out;
}

std::vector<at::Tensor> TraceGraph::run_graph(NumberedTensors tensors, std::int64_t ahead) {
  const std::vector<std::vector<std::int64_t>> done = trace_.last_used();
  for (std::size_t c = 0; c < trace_.calls.size(); ++c) {
    if (parts_.of_call[c] == TracePart::kGraph) {
      if (capturing_ != nullptr)
        run_captured(trace_.calls[c], tensors, ahead);
      else
        run_again(trace_.calls[c], tensors, ahead);
    }
    for (const std::int64_t number : done[c]) tensors.erase(number);
  }
  std::vector<at::Tensor> rows;
  std::map<const void*, std::size_t> row_of_memory;
  for (const std::int64_t number : trace_.outputs) {
    if (!is_of_graph(number)) continue;
    const at::Tensor& t = tensors.at(number);
    const auto [at, is_new] =
        row_of_memory.try_emplace(t.storage().unsafeGetStorageImpl(), rows.size());
    if (is_new) rows.push_back(row_of(t));
    held_[number] = {at->second, t.scalar_type(), t.sizes().vec(), t.strides().vec(),
                     t.storage_offset()};
  }
  return rows;
}

bool TraceGraph::is_of_graph(std::int64_t output) const {
  if (output == kUndefined || lasting_.contains(output)) return false;
  return made_.contains(output) ||
         written_.contains(trace_.tensors[static_cast<std::size_t>(output)].memory);
}

std::vector<at::Tensor> TraceGraph::launch(const std::vector<at::Tensor>& inputs,
                                           std::int64_t ahead) {
  if (inputs.size() != inputs_.size())
    throw_run("a graph of ", inputs_.size(), " inputs is launched with ", inputs.size());
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView below;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs_[i].defined()) once(inputs_[i], inputs_[i]).copy_(once(inputs[i], inputs[i]));
  }
  const NumberedTensors prepared = run_ahead(inputs, ahead);
  for (const Passed& passed : passed_) passed.row.copy_(row_of(prepared.at(passed.number)));
  graph_->launch();
  return results(prepared);
}

std::vector<at::Tensor> TraceGraph::results(const NumberedTensors& prepared) const {
  const std::vector<at::Tensor> rows = copies_of(graph_->results());
  std::vector<at::Tensor> out;
  for (const std::int64_t number : trace_.outputs) {
    const auto held = held_.find(number);
    const auto lasting = lasting_.find(number);
    if (number == kUndefined) {
      out.emplace_back();
    } else if (lasting != lasting_.end()) {
      const at::Tensor& t = lasting->second;
      out.push_back(trace_.constants.contains(number)
                        ? t
                        : view_in(row_of(t).clone(), t.scalar_type(), t.sizes(), t.strides(),
                                  t.storage_offset()));
    } else if (held != held_.end()) {
      const Held& in = held->second;
      out.push_back(view_in(rows[in.row], in.type, in.sizes, in.strides, in.offset));
    } else {
      out.push_back(prepared.at(number));
    }
  }
  return out;
}

}  // namespace mneme::tensor
