#include "host/generate/sampling.hpp"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::generate {

namespace {

struct Candidate {
  double weight = 0.0;  // probability up to a factor; that of the likeliest token is 1
  std::int32_t id = 0;

  // Likelier ones first, lower ids among equals.
  [[nodiscard]] bool comes_after(const Candidate& other) const {
    return weight != other.weight ? weight < other.weight : id > other.id;
  }
};

std::vector<Candidate> candidates_of(const at::Tensor& logp, double temperature) {
  const at::Tensor values = logp.to(at::kDouble).contiguous();
  const double* const data = values.const_data_ptr<double>();
  const double top = *std::max_element(data, data + values.numel());
  std::vector<Candidate> out(static_cast<std::size_t>(values.numel()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = {std::exp((data[i] - top) / temperature), static_cast<std::int32_t>(i)};
  }
  return out;
}

double total_of(const std::vector<Candidate>& candidates) {
  double total = 0.0;
  for (const Candidate& candidate : candidates) total += candidate.weight;
  return total;
}

// The likeliest candidates in order, taken from a heap: a nucleus is small beside the vocabulary.
// Taking ends after `most` of them, or when those taken exceed `mass`.
std::vector<Candidate> likeliest(std::vector<Candidate> all, std::size_t most, double mass) {
  const auto after = [](const Candidate& a, const Candidate& b) { return a.comes_after(b); };
  std::make_heap(all.begin(), all.end(), after);
  std::vector<Candidate> out;
  double taken = 0.0;
  for (auto end = all.end(); out.size() < most && end != all.begin() && taken <= mass;) {
    std::pop_heap(all.begin(), end--, after);
    taken += end->weight;
    out.push_back(*end);
  }
  return out;
}

}  // namespace

void check(const Sampling& sampling, bool is_request) {
  const auto refuse = [&](const char* option, const char* key, const char* expected,
                          const std::string& got, const std::string& hint = "") {
    throw_usage({.where = is_request ? str("key \"", key, '"') : option,
                 .failed = "tokens cannot be drawn with this value",
                 .expected = expected,
                 .got = got,
                 .hint = hint});
  };
  if (!(sampling.temperature > 0.0) || !std::isfinite(sampling.temperature)) {
    const std::string greedy = is_request ? "\"greedy\": true" : "--greedy";
    refuse("--temperature", "temperature", "a number above 0", str(sampling.temperature),
           sampling.temperature == 0.0 ? greedy + " takes the likeliest token" : "");
  }
  if (sampling.top_k < 0) refuse("--top-k", "top_k", "0 (off) or more", str(sampling.top_k));
  if (!(sampling.top_p > 0.0 && sampling.top_p <= 1.0)) {
    refuse("--top-p", "top_p", "a number above 0 and at most 1 (off)", str(sampling.top_p));
  }
  if (!(sampling.min_p >= 0.0 && sampling.min_p < 1.0)) {
    refuse("--min-p", "min_p", "a number from 0 (off) to below 1", str(sampling.min_p));
  }
}

std::int32_t draw(const at::Tensor& logp, const Sampling& sampling, double uniform) {
  if (sampling.is_greedy) return static_cast<std::int32_t>(logp.argmax().item<std::int64_t>());
  std::vector<Candidate> left = candidates_of(logp, sampling.temperature);
  const auto count = static_cast<std::int64_t>(left.size());
  if (sampling.top_k > 0 && sampling.top_k < count) {
    left = likeliest(std::move(left), static_cast<std::size_t>(sampling.top_k), HUGE_VAL);
  }
  if (sampling.top_p < 1.0) {
    const double mass = sampling.top_p * total_of(left);
    const std::size_t all = left.size();
    left = likeliest(std::move(left), all, mass);
  }
  if (sampling.min_p > 0.0) {
    std::erase_if(left, [&](const Candidate& c) { return c.weight < sampling.min_p; });
  }
  const double target = uniform * total_of(left);
  double sum = 0.0;
  for (const Candidate& candidate : left) {
    sum += candidate.weight;
    if (sum > target) return candidate.id;
  }
  return left.back().id;  // the sum was rounded to just below the total
}

namespace {

kernel::Element logit_element(at::ScalarType type) {
  return type == at::kDouble  ? kernel::Element::kF64
         : type == at::kFloat ? kernel::Element::kF32
                              : kernel::Element::kBF16;
}

// All numbers that a draw depends on besides its tensors, for a trace.
std::string traced_text(const Sampling& s) {
  if (!tensor::is_tracing()) return "";
  return str("draw greedy ", s.is_greedy, " temperature ", format_exact(s.temperature), " k ",
             s.top_k, " p ", format_exact(s.top_p), " min ", format_exact(s.min_p));
}

void draw_into(const at::Tensor& out, const at::Tensor& logits, const Sampling& sampling,
               const at::Tensor& uniform) {
  const c10::DeviceGuard current(logits.device());
  const kernel::SampledRows rows{.element = logit_element(logits.scalar_type()),
                                 .rows = logits.size(0),
                                 .ids = logits.size(1),
                                 .stride = logits.stride(0),
                                 .logits = logits.const_data_ptr(),
                                 .uniform = uniform.const_data_ptr<double>()};
  const char* const failed = tensor::sampling_kernels(logits.device())
                                 ->draw(rows, sampling, out.mutable_data_ptr<std::int64_t>(),
                                        tensor::stream_of(logits.device()));
  if (failed != nullptr) throw_device({.where = "draws of tokens on CUDA", .failed = failed});
}

}  // namespace

bool draws_on(at::Device device, std::int64_t ids) {
  return tensor::sampling_kernels(device) != nullptr && ids <= kernel::SampledRows::kMostIds;
}

at::Tensor draw_rows(const at::Tensor& logits, const Sampling& sampling,
                     const at::Tensor& uniform) {
  if (draws_on(logits.device(), logits.size(1))) {
    const at::Tensor out = at::empty({logits.size(0), 1}, uniform.options().dtype(at::kLong));
    const at::Tensor dense = logits.stride(1) == 1 ? logits : logits.contiguous();
    tensor::run_traced(traced_text(sampling), {dense, uniform}, {out},
                       [sampling](const std::vector<at::Tensor>& tensors, std::int64_t) {
                         draw_into(tensors[2], tensors[0], sampling, tensors[1]);
                       });
    return out;
  }
  const at::Tensor rows = logits.to(at::kCPU).contiguous(), share = uniform.to(at::kCPU);
  const at::Tensor is_finite = rows.isfinite().all(1);
  const at::Tensor out = at::empty({rows.size(0), 1}, at::kLong);
  for (std::int64_t row = 0; row < rows.size(0); ++row) {
    out[row][0] =
        is_finite[row].item<bool>() ? draw(rows[row], sampling, share[row].item<double>()) : -1;
  }
  return out.to(logits.device());
}

}  // namespace mneme::generate
