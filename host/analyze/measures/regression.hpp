// How well a continuous memory reconstructs the rows that it has stored: rows are stored and read
// back through the plugin.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "host/analyze/measures/token_cells.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/hook_driver.hpp"
#include "host/plugin/loader.hpp"

namespace mneme::analyze {

// Rows to be stored: the next `count` of them, [count, D] f64.
using RowSource = std::function<at::Tensor(std::int64_t count)>;

// x_t = coefficient * x_(t-1) + sqrt(1 - coefficient^2) * e_t in each of `width` columns, e_t
// standard normal: variance 1, and independent numbers with coefficient 0. Error (kUsage) for a
// coefficient outside of (-1, 1).
[[nodiscard]] RowSource autoregressive(std::int64_t width, double coefficient, std::uint64_t seed);
// Given rows [n, D], one after another. Asking for more than there are is an Error (kUsage).
[[nodiscard]] RowSource given_rows(at::Tensor rows);

// One tier with one lane and one layer, in f64, that stores segments and publishes its signal. The
// tier must publish, besides what Trace follows, the probe
//
//   memory.signal  [B,P,D]: the stored signal at memory.places, after the write
class StoredSignal {
 public:
  // `memory` holds one tier; segments have `length` rows of width D. Errors as memory::Stack.
  StoredSignal(config::MemoryConfig memory, std::int64_t length, std::int64_t width,
               plugin::PluginLoader& loader);

  // Takes in one segment [length, D] f64. Errors: Error (kPlugin) naming the probe that the plugin
  // does not publish; what its hooks report.
  void absorb(const at::Tensor& rows);

  // The cells of the last write's points; tokens are the rows' numbers since the first segment.
  [[nodiscard]] const TokenCells& cells() const { return cells_; }
  // The signal at those points, [points, D] f64, in the order of the cells.
  [[nodiscard]] const at::Tensor& signal() const { return signal_; }
  [[nodiscard]] std::int64_t absorbed() const { return absorbed_; }  // rows

 private:
  [[nodiscard]] at::Tensor probe(const std::map<std::string, at::Tensor>& probes,
                                 const std::string& name) const;
  void take(const std::map<std::string, at::Tensor>& probes, std::int64_t rows);

  memory::HookDriver driver_;
  memory::PlainLayer layer_;
  std::string plugin_;  // its id
  TokenCells cells_;
  at::Tensor signal_;
  std::int64_t absorbed_ = 0;
};

// How a stored segment reads back, at the points that still stand for its rows.
struct ReadBack {
  std::int64_t age = 0;      // updates since it was stored
  double points = 0.0;       // that stand for its rows, mean over the measured writes
  double correlation = 0.0;  // of the signal with the rows, over all numbers
  double error = 0.0;        // ||rows - signal|| / ||rows|| (Frobenius)
};

// The error of one segment's fit into an empty memory, and of its ageing.
struct RegressionResult {
  double fit_error = 0.0;        // ||X - Xhat|| / ||X|| at the rows' own places
  std::vector<ReadBack> ageing;  // ages 0 .. updates; empty without updates
};

// Segments that measure_regression stores.
[[nodiscard]] std::int64_t regression_segments(std::int64_t updates);

// Stores segment after segment of `rows` into `stored`, which must be empty. The first gives
// fit_error. When updates is above 0, each of the last four writes measures every age. These writes
// are so late that no age is that of the first segment, which had the whole memory and so reads
// back better than any later one. An age whose rows have all left the memory has no points,
// correlation 0 and error 1.
[[nodiscard]] RegressionResult measure_regression(StoredSignal& stored, const RowSource& rows,
                                                  std::int64_t length, std::int64_t updates);

}  // namespace mneme::analyze
