#include "host/tensor/dispatch/trace_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>

#include "host/base/text.hpp"

namespace mneme::tensor {
namespace {

using Numbers = std::vector<std::int64_t>;

// A call by the tensors and by the memories that it has to do with.
struct CallUse {
  Numbers given, made;
  std::set<std::int64_t> written;  // memories of tensors that it was given
  std::set<std::int64_t> changed;  // those, and those of what it made
  std::set<std::int64_t> touched;  // all
};

class Division {
 public:
  Division(const Trace::Writer& trace, at::DeviceType device) : trace_(trace), device_(device) {
    for (const Trace::Writer::Call& call : trace.calls) uses_.push_back(use_of(call));
    for (const std::int64_t number : trace.inputs)
      if (number != kUndefined) inputs_.insert(trace.tensors[at(number)].memory);
  }

  TraceParts parts() {
    find_graph();
    find_once();
    return {parts_, refusal()};
  }

 private:
  static std::size_t at(std::int64_t number) { return static_cast<std::size_t>(number); }

  [[nodiscard]] CallUse use_of(const Trace::Writer::Call& call) const {
    CallUse out{
        .given = call.given(), .made = call.made(), .written = {}, .changed = {}, .touched = {}};
    for (const std::int64_t number : call.written) out.written.insert(memory(number));
    out.changed = out.written;
    for (const std::int64_t number : out.made) out.changed.insert(memory(number));
    out.touched = out.changed;
    for (const std::int64_t number : out.given) out.touched.insert(memory(number));
    return out;
  }

  [[nodiscard]] std::int64_t memory(std::int64_t number) const {
    return trace_.tensors[at(number)].memory;
  }
  [[nodiscard]] bool is_code_number(std::int64_t number) const {
    const auto found = trace_.constants.find(number);
    return found != trace_.constants.end() && is_number(found->second);
  }
  [[nodiscard]] bool is_off_device(std::int64_t number) const {
    return trace_.tensors[at(number)].device != device_;
  }
  // Operations take a number of the CPU by its value, those that copy it to the device excepted.
  [[nodiscard]] bool has_to_do_with_cpu(std::size_t c) const {
    const Trace::Writer::Call& call = trace_.calls[c];
    if (call.capture == Capture::kAhead || call.is_from_cpu) return true;
    const bool takes_numbers =
        call.op && !is_one_of(call.op->schema().name(), {"aten::copy_", "aten::_to_copy"});
    return std::ranges::any_of(uses_[c].made, [this](auto n) { return is_off_device(n); }) ||
           std::ranges::any_of(uses_[c].given, [&](auto n) {
             return is_off_device(n) && !(takes_numbers && trace_.tensors[at(n)].has_one_number);
           });
  }

  // All that is not of the graph is kAhead at first.
  void find_graph() {
    std::map<std::int64_t, std::size_t> last_change;  // of a memory by a call that is not of it
    const auto take_out = [&](std::size_t c) {
      parts_[c] = TracePart::kAhead;
      for (const std::int64_t memory : uses_[c].written) {
        std::size_t& last = last_change[memory];
        last = std::max(last, c);
      }
    };
    parts_.assign(uses_.size(), TracePart::kGraph);
    for (std::size_t c = 0; c < uses_.size(); ++c)
      if (has_to_do_with_cpu(c)) take_out(c);
    for (bool is_stable = false; !is_stable;) {
      is_stable = true;
      for (std::size_t c = 0; c < uses_.size(); ++c) {
        const auto is_changed_later = [&](std::int64_t memory) {
          const auto found = last_change.find(memory);
          return found != last_change.end() && found->second > c;
        };
        if (parts_[c] != TracePart::kGraph ||
            std::ranges::none_of(uses_[c].changed, is_changed_later))
          continue;
        take_out(c);
        is_stable = false;
      }
    }
  }

  // Those of the others that depend on no input, draw or tensor that others may write to.
  void find_once() {
    std::set<std::int64_t> varying = inputs_;  // memories
    for (const auto& [number, t] : trace_.constants)
      if (!is_number(t)) varying.insert(memory(number));
    std::vector<bool> is_once(uses_.size());
    for (std::size_t c = 0; c < uses_.size(); ++c) {
      is_once[c] = parts_[c] == TracePart::kAhead && trace_.calls[c].capture != Capture::kAhead;
      if (is_once[c]) continue;
      const auto& changed = parts_[c] == TracePart::kGraph ? uses_[c].written : uses_[c].changed;
      varying.insert(changed.begin(), changed.end());
    }
    for (bool is_stable = false; !is_stable;) {
      is_stable = true;
      for (std::size_t c = 0; c < uses_.size(); ++c) {
        if (!is_once[c] || std::ranges::none_of(uses_[c].touched, [&](std::int64_t memory) {
              return varying.contains(memory);
            }))
          continue;
        is_once[c] = is_stable = false;
        varying.insert(uses_[c].changed.begin(), uses_[c].changed.end());
      }
    }
    for (std::size_t c = 0; c < uses_.size(); ++c)
      if (is_once[c]) parts_[c] = TracePart::kOnce;
  }

  [[nodiscard]] std::string refusal() const {
    std::set<std::int64_t> made, fixed;  // tensors, by the graph and once
    std::set<std::int64_t> others(trace_.inputs.begin(), trace_.inputs.end());
    for (const auto& [number, t] : trace_.constants) others.insert(number);
    std::set<std::int64_t> used, changed;  // memories, by the graph so far
    for (std::size_t c = 0; c < uses_.size(); ++c) {
      const CallUse& use = uses_[c];
      const auto is_in = [](const std::set<std::int64_t>& set) {
        return [&set](std::int64_t one) { return set.contains(one); };
      };
      const auto refused = [&](const char* why) { return str(why, ": ", trace_.calls[c].text); };
      if (trace_.calls[c].capture == Capture::kNever)
        return refused("no graph may hold this kernel, which does not say that it can be captured");
      if (std::ranges::any_of(use.written, is_in(inputs_)))
        return refused("an input is written to");
      if (parts_[c] != TracePart::kGraph) {
        if (std::ranges::any_of(use.given, [&](std::int64_t number) {
              return made.contains(number) || changed.contains(memory(number));
            }))
          return refused("the CPU needs what the device computes before it");
        if (std::ranges::any_of(use.written, is_in(used)))
          return refused("the CPU writes to what the device uses before it");
        others.insert(use.made.begin(), use.made.end());
        if (parts_[c] == TracePart::kOnce) fixed.insert(use.made.begin(), use.made.end());
        continue;
      }
      if (std::ranges::any_of(use.given, [&](std::int64_t number) {
            return is_off_device(number) && !is_code_number(number) && !fixed.contains(number);
          }))
        return refused("the device takes a number of the CPU that may be another one next time");
      changed.insert(use.written.begin(), use.written.end());
      for (const std::int64_t number : use.made) {
        if (others.contains(number)) continue;  // the same one again
        made.insert(number);
        if (memory(number) == number) changed.insert(number);
      }
      used.insert(use.touched.begin(), use.touched.end());
    }
    return "";
  }

  const Trace::Writer& trace_;
  at::DeviceType device_;
  std::vector<CallUse> uses_;
  std::vector<TracePart> parts_;
  std::set<std::int64_t> inputs_;  // memories
};

}  // namespace

TraceParts divide(const Trace::Writer& trace, at::DeviceType device) {
  return Division(trace, device).parts();
}

}  // namespace mneme::tensor
