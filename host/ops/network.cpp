// Layers: normalisation, convolution and pooling along one dimension.
#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

void check_vector(const OpCall& c, std::size_t input, int64_t extent) {
  if (!c.has_input(input)) return;
  if (c.in(input).dim() == 1 && c.in(input).size(0) == extent) return;
  c.fail_shape(str(c.input_name(input), " [", extent, ']'), shape_text(c.in(input).sizes()));
}

void run_layer_norm(OpCall& c) {
  c.check_rank_at_least(0, 1);
  const int64_t width = c.in(0).size(-1);
  check_vector(c, 1, width);
  check_vector(c, 2, width);
  const double eps = c.real(0, 1e-5);
  if (!(eps >= 0.0)) c.fail_attr(0, "at least 0", str(eps));
  const std::optional<at::Tensor> w = c.has_input(1) ? std::optional(c.in(1)) : std::nullopt;
  const std::optional<at::Tensor> b = c.has_input(2) ? std::optional(c.in(2)) : std::nullopt;
  c.out() = at::layer_norm(c.in(0), {width}, w, b, eps);
}

// A window of `kernel` taps, `dilation` apart, has to fit into the padded length.
void check_window(const OpCall& c, int64_t kernel, int64_t padding, int64_t dilation) {
  const int64_t length = c.in(0).size(2) + 2 * padding;
  const int64_t reach = dilation * (kernel - 1) + 1;
  if (reach > length) {
    c.fail_shape(str("at least ", reach, " places along time, padding included"), str(length));
  }
}

void run_conv1d(OpCall& c) {
  c.check_rank(0, 3);
  c.check_rank(1, 3);
  const at::IntArrayRef x = c.in(0).sizes();
  const at::IntArrayRef w = c.in(1).sizes();
  const int64_t stride = c.at_least(0, 1, 1);
  const int64_t padding = c.at_least(1, 0, 0);
  const int64_t dilation = c.at_least(2, 1, 1);
  const int64_t groups = c.at_least(3, 1, 1);
  if (x[1] != w[1] * groups || w[0] % groups != 0 || w[2] < 1) {
    c.fail_shape(
        str("x [B, in, T] and w [out, in / groups, taps], groups ", groups, " dividing out"),
        str(shape_text(x), " and ", shape_text(w)));
  }
  check_vector(c, 2, w[0]);
  check_window(c, w[2], padding, dilation);
  const std::optional<at::Tensor> b = c.has_input(2) ? std::optional(c.in(2)) : std::nullopt;
  c.out() = at::conv1d(c.in(0), c.in(1), b, {stride}, {padding}, {dilation}, groups);
}

struct Pooling {
  int64_t kernel, stride, padding;
};

Pooling pooling_of(const OpCall& c, int64_t dilation) {
  c.check_rank(0, 3);
  Pooling p{};
  p.kernel = c.at_least(0, 1, 1);
  p.stride = c.at_least(1, 1, p.kernel);
  p.padding = c.at_least(2, 0, 0);
  if (p.padding > p.kernel / 2) {
    c.fail_attr(2, str("at most half the kernel, ", p.kernel / 2), str(p.padding));
  }
  check_window(c, p.kernel, p.padding, dilation);
  return p;
}

void run_max_pool1d(OpCall& c) {
  const int64_t dilation = c.at_least(3, 1, 1);
  const Pooling p = pooling_of(c, dilation);
  c.out() = at::max_pool1d(c.in(0), {p.kernel}, {p.stride}, {p.padding}, {dilation});
}

void run_avg_pool1d(OpCall& c) {
  const Pooling p = pooling_of(c, 1);
  c.out() = at::avg_pool1d(c.in(0), {p.kernel}, {p.stride}, {p.padding});
}

std::vector<AttrSchema> pooling_attrs() {
  using enum AttrType;
  return {required_attr("kernel", kInteger, "window"),
          optional_attr("stride", kInteger, "kernel", "step from window to window"),
          optional_attr("padding", kInteger, "0", "places at both ends, at most kernel / 2")};
}

void add_pooling_ops(OpList& list) {
  std::vector<AttrSchema> max_attrs = pooling_attrs();
  max_attrs.push_back(
      optional_attr("dilation", AttrType::kInteger, "1", "distance between a window's places"));
  add_op(list,
         {.name = "max_pool1d/1",
          .inputs = {data_input("x")},
          .outputs = {data_output()},
          .attrs = std::move(max_attrs),
          .dtypes = "float",
          .help = "Largest element of each window along T of x [B, C, T]; padding never wins. The "
                  "first of equals gets the gradient."},
         run_max_pool1d);
  add_op(list,
         {.name = "avg_pool1d/1",
          .inputs = {data_input("x")},
          .outputs = {data_output()},
          .attrs = pooling_attrs(),
          .dtypes = "float",
          .help = "Mean of each window along T of x [B, C, T]; padding counts as zeros."},
         run_avg_pool1d);
}

}  // namespace

void add_network_ops(OpList& list) {
  using enum AttrType;
  add_op(list,
         {.name = "layer_norm/1",
          .inputs = {data_input("x"), optional_input("w"), optional_input("b")},
          .outputs = {data_output()},
          .attrs = {optional_attr("eps", kReal, "1e-5", "added to the variance")},
          .dtypes = "float",
          .help = "x less its mean over its standard deviation (divisor: the count) along the "
                  "last dimension D, times w [D], plus b [D]."},
         run_layer_norm);
  add_op(list,
         {.name = "conv1d/1",
          .inputs = {data_input("x"), data_input("w"), optional_input("b")},
          .outputs = {data_output()},
          .attrs = {optional_attr("stride", kInteger, "1", "step from window to window"),
                    optional_attr("padding", kInteger, "0", "zeros at both ends"),
                    optional_attr("dilation", kInteger, "1", "distance between taps"),
                    optional_attr("groups", kInteger, "1", "channels in separate groups")},
          .dtypes = "float",
          .help = "Correlation of x [B, in, T] with w [out, in / groups, taps] along T, plus b "
                  "[out]."},
         run_conv1d);
  add_pooling_ops(list);
}

}  // namespace mneme::ops
