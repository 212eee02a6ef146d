#include "host/backbone/attention/fused.hpp"

#include <algorithm>

#include "host/kernel/attention.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

kernel::Element element_of(at::ScalarType type) {
  switch (type) {
    case at::kDouble:
      return kernel::Element::kF64;
    case at::kBFloat16:
      return kernel::Element::kBF16;
    default:
      return kernel::Element::kF32;
  }
}

at::Tensor with_dense_rows(const at::Tensor& rows) {
  return rows.stride(3) == 1 || rows.size(3) == 1 ? rows : rows.contiguous();
}

// Of [B,n,heads,d].
kernel::Rows rows_of(const at::Tensor& rows) {
  return {.data = rows.const_data_ptr(),
          .lane = rows.stride(0),
          .head = rows.stride(2),
          .row = rows.stride(1)};
}

// Tensors that the kernel's inputs point into.
class Inputs {
 public:
  Inputs(const AttentionArgs& args, const std::vector<KeyPiece>& pieces, const ColumnRule& rule)
      : sums_(score_dtype(args.q.scalar_type())) {
    in_.q = rows_of(keep(with_dense_rows(args.q)));
    for (const KeyPiece& piece : pieces) {
      if (piece.k.size(1) == 0) continue;
      pieces_.push_back({.rows = piece.k.size(1),
                         .k = rows_of(keep(with_dense_rows(piece.k))),
                         .v = rows_of(keep(with_dense_rows(piece.v)))});
    }
    in_.pieces = pieces_.data();
    in_.n_pieces = static_cast<int64_t>(pieces_.size());
    if (args.table.defined()) set_table(args.table);
    in_.content_bias = numbers(args.content_bias);
    in_.position_bias = numbers(args.position_bias);
    if (rule.valid.defined()) {
      in_.valid =
          reinterpret_cast<const uint8_t*>(keep(rule.valid.contiguous()).const_data_ptr<bool>());
    }
    if (rule.slopes != nullptr && !rule.slopes->empty()) {
      in_.slopes = numbers(at::tensor(*rule.slopes, at::kDouble));
    }
    if (args.bias.defined()) {
      const at::Tensor bias = keep(args.bias.to(sums_));
      in_.bias = bias.const_data_ptr();
      for (int64_t d = 0; d < 4; ++d) in_.bias_stride[d] = bias.size(d) == 1 ? 0 : bias.stride(d);
    }
  }
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  const kernel::AttentionInputs& get() const { return in_; }

 private:
  const at::Tensor& keep(const at::Tensor& tensor) { return kept_.emplace_back(tensor); }
  const void* numbers(const at::Tensor& tensor) {
    return tensor.defined() ? keep(tensor.to(sums_).contiguous()).const_data_ptr() : nullptr;
  }
  void set_table(const at::Tensor& given) {
    const at::Tensor table = given.to(sums_);
    const bool is_laid_out = table.stride(1) == 1 && table.size(2) > 1 &&
                             table.stride(2) >= table.size(1) + kernel::kTableSpare;
    const at::Tensor& columns = keep(is_laid_out ? table : column_by_column(table));
    in_.table = columns.const_data_ptr();
    in_.table_rows = columns.size(1);
    in_.table_head = columns.stride(0);
    in_.table_row = columns.stride(2);
  }

  at::ScalarType sums_;
  std::vector<at::Tensor> kept_;
  std::vector<kernel::KeyPiece> pieces_;
  kernel::AttentionInputs in_;
};

}  // namespace

bool can_be_fused(const AttentionArgs& args) {
  const at::ScalarType type = args.q.scalar_type();
  return tensor::uses_host_kernels(args.q) &&
         (type == at::kFloat || type == at::kDouble || type == at::kBFloat16) &&
         args.dropout == 0.0 && !args.wants_mass && !args.on_probabilities &&
         !args.virtual_logit.defined();
}

at::Tensor column_by_column(const at::Tensor& table) {
  const int64_t rows = table.size(1);
  const at::Tensor out =
      at::empty({table.size(0), table.size(2), rows + kernel::kTableSpare}, table.options());
  out.narrow(2, rows, kernel::kTableSpare).zero_();
  out.narrow(2, 0, rows).copy_(table.transpose(1, 2));
  return out.narrow(2, 0, rows).transpose(1, 2);
}

AttentionOutput attend_fused(const AttentionArgs& args, const std::vector<KeyPiece>& pieces,
                             const ColumnRule& rule) {
  const Inputs inputs(args, pieces, rule);
  kernel::AttentionShape shape;
  shape.element = element_of(args.q.scalar_type());
  shape.lanes = args.q.size(0);
  shape.queries = args.q.size(1);
  shape.heads = args.q.size(2);
  shape.width = args.q.size(3);
  shape.key_heads = pieces.back().k.size(2);
  for (const KeyPiece& piece : pieces) shape.keys += piece.k.size(1);
  shape.free = args.first_placed;
  shape.window = rule.window;
  shape.clamp = rule.clamp;
  shape.scale = args.scale;

  AttentionOutput out;
  out.z = at::empty(args.q.sizes(), args.q.options());
  if (args.wants_lse) {
    out.lse = at::empty({shape.lanes, shape.heads, shape.queries},
                        args.q.options().dtype(score_dtype(args.q.scalar_type())));
  }
  const kernel::AttentionResults results{out.z.data_ptr(),
                                         args.wants_lse ? out.lse.data_ptr() : nullptr};
  const auto& kernels = tensor::fastest_kernels<kernel::AttentionKernels>();
  const auto bytes = static_cast<int64_t>(kernels.attend_scratch(shape, inputs.get()));
  const int64_t count = kernel::AttentionParts(shape).pieces(shape);
  tensor::parallel_for(count, 1, [&](int64_t begin, int64_t end) {
    const at::Tensor scratch = at::empty({bytes}, at::kByte);
    for (int64_t piece = begin; piece < end; ++piece) {
      kernels.attend(shape, inputs.get(), results, scratch.data_ptr(), piece);
    }
  });
  return out;
}

}  // namespace mneme::backbone
