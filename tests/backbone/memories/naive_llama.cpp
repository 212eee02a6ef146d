#include "tests/backbone/memories/naive_llama.hpp"

#include <cmath>
#include <vector>

#include "host/tensor/torch.hpp"
#include "tests/backbone/naive.hpp"
#include "tests/backbone/support.hpp"

namespace mneme::backbone {
namespace {

at::Tensor rms(const at::Tensor& x, const at::Tensor& weight) {
  return x / (x.square().mean(2, true) + 1e-5).sqrt() * weight;
}

}  // namespace

at::Tensor NaiveLlama::weight(const std::string& name) const {
  return session.parameter(name).detach();
}

at::Tensor NaiveLlama::heads(const at::Tensor& rows, int64_t count) {
  return rows.view({rows.size(0), rows.size(1), count, rows.size(2) / count});
}

at::Tensor NaiveLlama::nll(const at::Tensor& ids, const Mixer& mixer) const {
  const at::NoGradGuard no_grad;
  const int64_t tokens = ids.size(1) - 1;
  const at::Tensor table = weight("embedding.0.weight");
  at::Tensor x = table.index_select(0, ids.narrow(1, 0, tokens).flatten())
                     .view({ids.size(0), tokens, table.size(1)});
  for (int64_t l = 0; l < layers; ++l) {
    const std::string layer = str("layers.", l, '.');
    x = x + mixer(l, rms(x, weight(layer + "attention.norm.weight")));
    const std::vector<at::Tensor> inner =
        at::linear(rms(x, weight(layer + "ff.norm.weight")), weight(layer + "ff.in.weight"))
            .chunk(2, 2);
    x = x + at::linear(at::silu(inner[0]) * inner[1], weight(layer + "ff.out.weight"));
  }
  const at::Tensor logits = at::linear(rms(x, weight("final_norm.weight")), table);
  const at::Tensor target = ids.narrow(1, 1, tokens).unsqueeze(2);
  return -at::log_softmax(logits, 2).gather(2, target).squeeze(2);
}

at::Tensor NaiveLlama::attention(int64_t l, const at::Tensor& normed, const Values& values) const {
  const std::string layer = str("layers.", l, ".attention.");
  const std::vector<at::Tensor> qkv =
      at::linear(normed, weight(layer + "qkv.weight")).split_with_sizes({24, 12, 12}, 2);
  const at::Tensor q = heads(qkv[0], 4).contiguous(), k = heads(qkv[1], 2).contiguous(),
                   v = heads(qkv[2], 2).contiguous();
  const auto score = [&](int64_t h, int64_t b, int64_t i, int64_t j) {
    return j > i ? -kInf : naive::turned_dot(q, k, 20.0, h, b, i, j, i - j) / std::sqrt(6.0);
  };
  const at::Tensor read = (values ? values(v) : v).repeat_interleave(2, 2).contiguous();
  const at::Tensor z = naive::attend(q, read, score).z;
  return at::linear(z.flatten(2), weight(layer + "output.weight"));
}

}  // namespace mneme::backbone
