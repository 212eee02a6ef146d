// What a trace holds and how it is written.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "host/tensor/dispatch/deterministic.hpp"
#include "host/tensor/dispatch/trace.hpp"

namespace mneme::tensor {

// LibTorch reserves it below the gradient graph and above all devices, and has no kernel for it.
inline constexpr c10::DispatchKey kTraceKey = c10::DispatchKey::Fake;

inline constexpr std::int64_t kUndefined = -1;  // the number of no tensor

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> prefixes);
// A number of the code in a tensor of its own, which is a new one each time.
bool is_number(const at::Tensor& t);
// Dtype, shape, and strides and device unless they are the usual ones.
std::string geometry_text(const at::Tensor& t);
// Of an expanded tensor each place in memory once: the part of `t` where `expanded` has them.
at::Tensor once(at::Tensor t, const at::Tensor& expanded);

class Trace::Writer {
 public:
  // A tensor of a trace by number, or any other argument.
  using Argument = std::variant<std::vector<std::int64_t>, c10::IValue>;
  enum class Form { kTensor, kTensors, kOptionalTensors };

  struct Call {
    std::string text;
    std::optional<c10::OperatorHandle> op;
    TracedWork work;                        // where there is no op
    Capture capture = Capture::kByTensors;  // of work
    bool is_from_cpu = false;               // its work copies values that are the trace's own
    bool is_deterministic = DeterministicAlgorithms::are_asked_for();
    std::vector<std::pair<Form, Argument>> arguments;
    std::vector<std::pair<Form, std::vector<std::int64_t>>> results;
    std::vector<std::int64_t> written;  // arguments

    // Tensors by number; without undefined ones.
    [[nodiscard]] std::vector<std::int64_t> given() const;
    [[nodiscard]] std::vector<std::int64_t> made() const;
  };

  // A tensor of the trace.
  struct Known {
    std::int64_t memory;  // the number of the first tensor in the same memory
    at::DeviceType device;
    bool has_one_number;  // no dimensions
  };

  std::vector<Call> calls;
  std::vector<std::string> lines;
  std::vector<std::int64_t> inputs, outputs;
  std::map<std::int64_t, at::Tensor> constants;  // that the work read and did not make
  std::vector<Known> tensors;                    // by number

  void add_input(const at::Tensor& t);
  void add_output(const at::Tensor& t);

  // Around the computation of an operation: its arguments, and then its results.
  Call begin(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
  void end(Call call, const torch::jit::Stack& stack);
  void add_work(const std::string& text, const std::vector<at::Tensor>& reads,
                const std::vector<at::Tensor>& writes, const TracedWork& work, Capture capture);

  // The line of the first call that has the tensor.
  [[nodiscard]] std::string first_use(std::int64_t number) const;
  // By call, the tensors that no later one needs.
  [[nodiscard]] std::vector<std::vector<std::int64_t>> last_used() const;

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

  static Place place_of(const at::Tensor& t);
  Memory& memory_of(const at::Tensor& t);
  std::int64_t number_of_new(const at::Tensor& t);
  std::int64_t result_number(const at::Tensor& t, bool is_room);
  std::int64_t argument_number(const at::Tensor& t, bool is_read, bool is_written);

  // Of memory that the work made, by other means than an operation: the graph's own tensors.
  void add_view(const at::Tensor& t, std::int64_t base, std::int64_t number);

  // That the CPU wrote without an operation: they count as the same every time.
  void add_values(const at::Tensor& t, std::int64_t number);
  static constexpr std::int64_t kShownValues = 16;
  static std::string numbers_text(const at::Tensor& values);
  std::pair<Form, Argument> argument_of(const c10::IValue& value, bool is_read, bool is_written,
                                        std::string& text);
  void add(Call call);

  std::mutex mutex_;  // a backward pass has a thread of its own on a device
  std::map<Place, std::int64_t> numbers_;
  std::map<const void*, Memory> memories_;
};

// The tensors of a trace that is run again, by number.
using NumberedTensors = std::map<std::int64_t, at::Tensor>;

// Runs a call with the tensors that it is given, and adds those that it makes. Without the gradient
// graph, whose keys the caller excludes.
void run_again(const Trace::Writer::Call& call, NumberedTensors& tensors, std::int64_t ahead);

}  // namespace mneme::tensor
