// Activation functions, element by element.
#include <cstring>

#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

void run_gelu(OpCall& c) {
  const char* approximate = c.text(0, "none");
  if (std::strcmp(approximate, "none") != 0 && std::strcmp(approximate, "tanh") != 0) {
    c.fail_attr(0, R"("none" | "tanh")", str('"', approximate, '"'));
  }
  c.out() = at::gelu(c.in(0), approximate);
}

void add_activation(OpList& list, const char* name, const char* help, RunFunction run,
                    std::vector<AttrSchema> attrs = {}) {
  add_op(list,
         {.name = name,
          .inputs = {data_input("x")},
          .outputs = {data_output()},
          .attrs = std::move(attrs),
          .dtypes = "float",
          .help = help},
         run);
}

}  // namespace

void add_activation_ops(OpList& list) {
  add_activation(list, "sigmoid/1", "1 / (1 + e^-x).",
                 [](OpCall& c) { c.out() = at::sigmoid(c.in(0)); });
  add_activation(list, "tanh/1", "Hyperbolic tangent.",
                 [](OpCall& c) { c.out() = at::tanh(c.in(0)); });
  add_activation(list, "relu/1", "max(x, 0); gradient 0 at 0.",
                 [](OpCall& c) { c.out() = at::relu(c.in(0)); });
  add_activation(list, "silu/1", "x * sigmoid(x).", [](OpCall& c) { c.out() = at::silu(c.in(0)); });
  add_activation(list, "gelu/1", "x * normal_cdf(x), or its tanh approximation.", run_gelu,
                 {optional_attr("approximate", AttrType::kText, "none", "\"none\" | \"tanh\"")});
  add_activation(list, "softplus/1", "ln(1 + e^x); x itself above 20.",
                 [](OpCall& c) { c.out() = at::softplus(c.in(0)); });
  add_activation(list, "elu/1", "x above 0, alpha * (e^x - 1) elsewhere.",
                 [](OpCall& c) { c.out() = at::elu(c.in(0), c.real(0, 1.0)); },
                 {optional_attr("alpha", AttrType::kReal, "1.0", "scale of the negative branch")});
}

}  // namespace mneme::ops
