// The signal at given positions: an expectation whose densities have no width of their own.
#include "kernels/signal.hpp"
// The rest is compiled for one instruction set:
#include "mneme_kernels/cpu/begin.inl"
// Shared by the expectation and the signal:
#include "kernels/cpu/weighted_sum.inl"

namespace continuous_ltm::cpu {
namespace {

// A position in double is two numbers when T is float, so that the narrowest functions are
// evaluated where they were asked for.
template <typename T>
void signal_panel(const SignalShape& shape, const SignalBuffers& buffers, void* scratch,
                  int64_t panel) {
  const int64_t panels = (shape.width + kSignalPanel - 1) / kSignalPanel;
  const int64_t lane = panel / panels;
  const int64_t column = panel % panels * kSignalPanel;
  const int64_t width = smaller(kSignalPanel, shape.width - column);
  Arena arena(scratch);
  ForwardScratch<T> s(arena, shape.grid, shape.samples, width);
  s.queries.fill(buffers.positions + lane * shape.samples, static_cast<const T*>(nullptr));
  const T* coefficients = static_cast<const T*>(buffers.coefficients) +
                          lane * shape.grid.basis() * shape.width + column;
  const ValueRows<T> rows = rows_of(coefficients, shape.width, shape.grid, width, s);
  T* to = static_cast<T*>(buffers.rows) + lane * shape.samples * shape.width + column;
  sum_tiles<sizeof(T) == sizeof(float)>(s, shape.grid, rows, width, to, shape.width);
}

void signal(const SignalShape& shape, const SignalBuffers& buffers, void* scratch, int64_t panel) {
  if (shape.is_f64) {
    signal_panel<double>(shape, buffers, scratch, panel);
  } else {
    signal_panel<float>(shape, buffers, scratch, panel);
  }
}

uint64_t signal_scratch(const SignalShape& s) {
  const int64_t width = smaller(kSignalPanel, s.width);
  return s.is_f64 ? forward_bytes<double>(s.grid, s.samples, width)
                  : forward_bytes<float>(s.grid, s.samples, width);
}

}  // namespace
}  // namespace continuous_ltm::cpu

namespace continuous_ltm {

const SignalKernels SignalKernels::MNEME_INSTRUCTION_SET = {&cpu::signal_scratch, &cpu::signal};

}  // namespace continuous_ltm

#include "mneme_kernels/cpu/end.inl"
