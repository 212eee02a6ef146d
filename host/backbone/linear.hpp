// Matrix products of the backbone in the type that it computes in.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <utility>

namespace mneme::backbone {

// The most numbers of a weight for which oneDNN computes products in f32: it copies the factors,
// and for a layer's weight the copy is small.
inline constexpr std::int64_t kMaxFactor = 1 << 23;

// x [..,n] times weight [m,n] transposed, plus bias [m] when defined: [..,m]. Inputs are cast to
// `compute`, in which the product runs and the result stays. Rows of the result may lie apart
// (tensor::padded_linear).
at::Tensor linear(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                  at::ScalarType compute);

// The weights of a model that have another type than its products (precision = "bf16"), converted once
// an update, or once for an evaluation or a generation: made anew for each product, the copies would
// cost more time than a product of few rows, and in training a launch for each. They take 2 bytes for
// each parameter that is used, and those of products that are padded have room for it.
class ConvertedWeights {
 public:
  // `weight`, or its copy in `compute`, which is kept with the weight's memory; undefined stays so.
  // A weight that has a graph of its own, because it is computed in each pass, has another copy in
  // each.
  at::Tensor get(const at::Tensor& weight, at::ScalarType compute);
  // The same of rows of a parameter, from `first` on, which the graph has as a tensor of their own.
  at::Tensor get_rows(const at::Tensor& weight, std::int64_t first, const at::Tensor& rows,
                      at::ScalarType compute);
  // The copy of a parameter, which the caller, its optimiser, writes together with it from now on;
  // undefined = no product has asked for one.
  at::Tensor written_with(const at::Tensor& weight);
  // Writes the copies anew where they lie, in two operations at most, and forgets those of memory that
  // nothing else holds. After an update by the optimiser, those that it writes are new. No graph
  // that has read them may be differentiated afterwards.
  void weights_changed(bool by_optimizer = false);

 private:
  struct Copy {
    at::Tensor weight, copy;  // the former holds the memory, wherever the parameter moves
    bool is_written = false;  // by the optimiser
  };
  // By the weight's memory: a pass that is computed again has tensors of its own for a parameter.
  std::map<std::pair<const void*, std::int64_t>, Copy> kept_;
};

}  // namespace mneme::backbone
