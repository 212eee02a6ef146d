#include "host/backbone/attention/kernels/operands.hpp"

#include "host/backbone/attention/positions.hpp"
#include "host/backbone/rows/dropout.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

at::Tensor laid_out(const at::Tensor& table) {
  const bool is_laid_out = reads_rows(table.options())
                               ? table.stride(2) == 1
                               : table.stride(1) == 1 && table.size(2) > 1 &&
                                     table.stride(2) >= table.size(1) + kernel::kTableSpare;
  return is_laid_out ? table : laid_out_table(table);
}

}  // namespace

bool reads_rows(const at::TensorOptions& options) {
  return options.device().is_cuda() && options.dtype() == at::kBFloat16;
}

at::Tensor with_dense_rows(const at::Tensor& rows) {
  return rows.stride(3) == 1 || rows.size(3) == 1 ? rows : rows.contiguous();
}

kernel::Rows rows_of(const at::Tensor& rows) {
  return {.data = rows.const_data_ptr(),
          .lane = rows.stride(0),
          .head = rows.stride(2),
          .row = rows.stride(1)};
}

AttentionOperands::AttentionOperands(const AttentionArgs& args, const std::vector<KeyPiece>& all,
                                     const ColumnRule& rule)
    : q(with_dense_rows(args.q)), bias(args.bias) {
  const at::ScalarType sums = score_dtype(args.q.scalar_type());
  const auto numbers = [&](const at::Tensor& t) {
    return t.defined() ? t.to(sums).contiguous() : t;
  };
  for (const KeyPiece& piece : all) {
    if (piece.k.size(1) == 0) continue;
    pieces.push_back({with_dense_rows(piece.k), with_dense_rows(piece.v)});
  }
  if (args.table.defined()) {
    table = laid_out(args.table.to(reads_rows(q.options()) ? q.scalar_type() : sums));
  }
  content_bias = numbers(args.content_bias);
  position_bias = numbers(args.position_bias);
  if (bias.defined()) bias = bias.to(sums);
  if (rule.valid.defined()) valid = rule.valid.contiguous();
  if (rule.slopes != nullptr && !rule.slopes->empty()) {
    slopes = slopes_on(*rule.slopes, q.options().dtype(sums));
  }
  if (args.dropout > 0.0) {
    std::int64_t keys = 0;
    for (const KeyPiece& piece : pieces) keys += piece.k.size(1);
    const DrawnProbabilities drawn = args.noise->draw_probabilities(
        {q.size(2), q.size(0), q.size(1), keys}, args.dropout, q.device());
    dropout = drawn.mask;
    stream = drawn.stream;
  }
}

AttentionOperands::AttentionOperands(const std::vector<at::Tensor>& saved, std::size_t n,
                                     const kernel::ProbabilityDropout& drawn)
    : dropout(drawn) {
  std::size_t at = 0;
  for (at::Tensor* t :
       {&q, &table, &content_bias, &position_bias, &bias, &valid, &slopes, &stream}) {
    *t = saved[at++];
  }
  for (std::size_t p = 0; p < n; ++p, at += 2) pieces.push_back({saved[at], saved[at + 1]});
}

std::vector<at::Tensor> AttentionOperands::tensors() const {
  std::vector<at::Tensor> out = {q,    table, content_bias, position_bias,
                                 bias, valid, slopes,       stream};
  for (const KeyPiece& piece : pieces) out.insert(out.end(), {piece.k, piece.v});
  return out;
}

OperandsView::OperandsView(const AttentionOperands& from) {
  const auto data = [](const at::Tensor& t) { return t.defined() ? t.const_data_ptr() : nullptr; };
  in_.q = rows_of(from.q);
  for (const KeyPiece& piece : from.pieces) {
    pieces_.push_back({.rows = piece.k.size(1), .k = rows_of(piece.k), .v = rows_of(piece.v)});
  }
  in_.pieces = pieces_.data();
  in_.n_pieces = static_cast<std::int64_t>(pieces_.size());
  in_.dropout = from.dropout;
  in_.dropout.mask = with_stored_stream(from.dropout.mask, from.stream);
  if (from.table.defined()) set_table(from.table);
  in_.content_bias = data(from.content_bias);
  in_.position_bias = data(from.position_bias);
  in_.slopes = data(from.slopes);
  if (from.valid.defined()) {
    in_.valid = reinterpret_cast<const std::uint8_t*>(from.valid.const_data_ptr<bool>());
  }
  in_.bias = data(from.bias);
  for (std::int64_t d = 0; d < 4 && from.bias.defined(); ++d) {
    in_.bias_stride[d] = from.bias.size(d) == 1 ? 0 : from.bias.stride(d);
  }
}

void OperandsView::set_table(const at::Tensor& table) {
  in_.table_rows = table.size(1);
  if (reads_rows(table.options())) {
    in_.table_by_row = {table.const_data_ptr(), 0, table.stride(0), table.stride(1)};
    return;
  }
  in_.table = table.const_data_ptr();
  in_.table_head = table.stride(0);
  in_.table_row = table.stride(2);
}

}  // namespace mneme::backbone
