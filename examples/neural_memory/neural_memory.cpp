// neural_memory: a memory that learns while it reads (Titans, Behrouz et al. 2025). Each head has a
// small network of fast weights, which gradient descent with momentum and forgetting teaches to
// give values for keys. Ops alone: the inner gradient is written out, the outer one is the host's.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "mneme/plugin.hpp"

namespace {

using mneme::Tensor;

// Fast weights of one matrix and their momentum, [B,H,out,in].
struct Fast {
  Tensor weight, momentum;
};

// Factors of a chunk's update. With g_i the gradient of token i at the chunk's first weights W, S:
//   W' = keep W + carry S - sum_i into_weight_i g_i,  S' = fade S - sum_i into_momentum_i g_i.
struct Factors {
  Tensor keep, carry, fade;           // [B|1,H,1,1]
  Tensor into_weight, into_momentum;  // [B|1,H,C,1]
};

class NeuralMemory : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "fast weights taught by gradient descent while reading (Titans, Behrouz et al. 2025)";
  static constexpr auto kOptions = mneme::options(
      mneme::integer("depth", 1, 1, 2, "1: a matrix a head; 2: two, with SiLU between them")
          .trained(),
      mneme::real("expansion", 2.0, 0.25, 16.0, "depth 2: hidden units as a multiple of a head")
          .trained(),
      mneme::integer("chunk", 1, 0, 65536,
                     "tokens whose gradients are taken at the same weights; 0 = all at once")
          .trained(),
      mneme::choice("reduction", "sum", "sum|mean", "how the loss of a chunk's tokens is added up")
          .trained(),
      mneme::choice("rates", "head", "head|token",
                    "step, momentum and forgetting are learned numbers, or functions of the token")
          .trained(),
      mneme::real("theta", 0.1, 0.0, 0.999, "step at the start; 0 = never writes"),
      mneme::real("eta", 0.5, 0.0, 0.999, "momentum at the start; 0 = none"),
      mneme::real("alpha", 0.01, 0.0, 0.999, "forgetting at the start; 0 = none"),
      mneme::boolean("normalise", true, "keys and queries have length 1").trained(),
      mneme::choice("write", "after", "after|before",
                    "after the segment, through time; or before the next one reads"),
      mneme::choice("merge", "gate", "gate|add", "how reads join local attention").trained());

  explicit NeuralMemory(mneme::Setup& s)
      : heads_(s.heads()),
        is_deep_(s.integer("depth") == 2),
        chunk_(s.integer("chunk")),
        is_mean_(s.text("reduction") == "mean"),
        by_token_(s.text("rates") == "token"),
        is_normalised_(s.boolean("normalise")),
        adds_(s.text("merge") == "add") {
    const int64_t d = s.head_width();
    const auto hidden = static_cast<int64_t>(
        std::ceil(s.real("expansion") * static_cast<double>(d)));  // of the two layers
    gate_ = s.parameter("gate", {heads_});
    theta_ = rate(s, "theta", s.real("theta"));
    eta_ = rate(s, "eta", s.real("eta"));
    alpha_ = rate(s, "alpha", s.real("alpha"));

    if (is_deep_) {
      const mneme::Parameter start =
          s.parameter("start", {heads_, hidden, d}, mneme::uniform(-bound(d), bound(d)));
      layers_.push_back(matrix(s, "first", {mneme::kLanes, heads_, hidden, d}, start));
    }
    layers_.push_back(matrix(s, is_deep_ ? "second" : "memory",
                             {mneme::kLanes, heads_, d, is_deep_ ? hidden : d}, mneme::zeros()));

    s.reads_at(MNEME_SITE_HEADS);
    s.wants(MNEME_WANT_READ_Q);
    if (s.text("write") == "before") {
      s.absorbs_before_reading();
    } else {
      is_after_ = true;
      s.wants(MNEME_WANT_ABSORB_K | MNEME_WANT_ABSORB_V);
      if (by_token_) s.wants(MNEME_WANT_ABSORB_X);
    }
  }

  // The weights as they were before this segment. While the last of them are 0, as in a lane that
  // has written nothing, there is no memory.
  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    std::vector<Tensor> weights;
    for (const Matrix& layer : layers_) weights.push_back(l.slot(layer.weight));
    const Tensor& last = weights.back();
    const Tensor q = transpose(unit(cast(in.q, last.dtype())), 1, 2);  // [B,H,T,d]
    const Tensor out = transpose(forward(weights, q).back(), 1, 2);    // [B,T,H,d]
    const Tensor is_empty = reshape(all(eq(last, 0.0), {2, 3}), {-1, 1, heads_, 1});
    const Tensor gate = reshape(sigmoid(l.parameter(gate_)), {1, 1, heads_, 1});
    const Tensor a = masked_fill(expand(gate, is_empty.shape()), is_empty, 0.0);
    return adds_ ? mneme::add(a * out) : mneme::gate(out, a);
  }

  void absorb(mneme::Layer& l, const mneme::Rows& given) override {
    const bool is_own = is_after_ && l.local().is_own_segment;
    const mneme::Rows rows = is_own || chunk_ == 1 ? given : valid_first(given);
    Tensor x;  // [B,m,D] normed rows
    if (!is_own || by_token_) {
      x = is_own ? l.x() : rows.hidden;
      if (rows.valid) x = where(unsqueeze(rows.valid, 2), x, 0.0);
      x = l.norm(x);
    }
    const mneme::DType dtype = l.slot(layers_[0].weight).get().dtype();
    Tensor k = by_head(is_own ? l.local().k : l.project(mneme::Project::kK, x), dtype);
    Tensor v = by_head(is_own ? l.local().v : l.project(mneme::Project::kV, x), dtype);
    if (is_normalised_) k = unit(k);
    Tensor valid;  // [B,1,m,1]
    if (rows.valid) {
      valid = reshape(rows.valid, {l.lanes(), 1, rows.count, 1});
      k = where(valid, k, 0.0);
      v = where(valid, v, 0.0);
    }
    const Tensor theta = rate_of(l, theta_, x, rows.count, dtype);
    const Tensor eta = rate_of(l, eta_, x, rows.count, dtype);
    const Tensor alpha = rate_of(l, alpha_, x, rows.count, dtype);

    std::vector<Fast> fast;
    for (const Matrix& layer : layers_) {
      fast.push_back({l.slot(layer.weight), eta ? l.slot(layer.momentum).get() : Tensor()});
    }
    const int64_t chunk = chunk_ == 0 ? rows.count : chunk_;
    for (int64_t from = 0; from < rows.count; from += chunk) {
      const auto cut = [&](const Tensor& t) { return t ? slice(t, 2, from, from + chunk) : t; };
      const int64_t tokens = std::min(chunk, rows.count - from);
      learn(fast, cut(k), cut(v), factors(cut(theta), cut(eta), cut(alpha), cut(valid), tokens));
    }
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      l.slot(layers_[i].weight) = fast[i].weight;
      if (eta) l.slot(layers_[i].momentum) = fast[i].momentum;
    }
  }

 private:
  struct Matrix {
    mneme::Slot weight, momentum;
  };
  // A number between 0 and 1 for each head, sigmoid of a parameter, and of the token where they say
  // so; one that starts with 0 stays 0.
  struct Rate {
    bool is_zero = true;
    mneme::Parameter logit, weight;
  };

  static double bound(int64_t fan_in) { return 1.0 / std::sqrt(static_cast<double>(fan_in)); }

  Rate rate(mneme::Setup& s, const char* name, double start) const {
    Rate out;
    out.is_zero = start == 0.0;
    if (out.is_zero) return out;
    out.logit = s.parameter(name, {heads_}, mneme::constant_value(std::log(start / (1.0 - start))));
    const std::string weight = std::string(name) + "_weight";
    if (by_token_) out.weight = s.parameter(weight.c_str(), {heads_, s.width()});
    return out;
  }

  Matrix matrix(mneme::Setup& s, const char* name, const mneme::Shape& shape,
                const mneme::SlotStart& start) const {
    mneme::SlotSettings through;
    through.gradient = mneme::Gradient::kThrough;
    Matrix out;
    out.weight = s.slot(name, shape, start, through);
    const std::string momentum = std::string(name) + "_momentum";
    if (!eta_.is_zero) out.momentum = s.slot(momentum.c_str(), shape, mneme::zeros(), through);
    return out;
  }

  // [B,H,m,1], or [1,H,m,1] where all tokens have the same; empty for 0.
  Tensor rate_of(const mneme::Layer& l, const Rate& which, const Tensor& x, int64_t rows,
                 mneme::DType dtype) const {
    if (which.is_zero) return {};
    const Tensor logit = l.parameter(which.logit);
    if (!by_token_) return expand(reshape(sigmoid(logit), {1, heads_, 1, 1}), {1, -1, rows, 1});
    const Tensor by_row = linear(cast(x, dtype), l.parameter(which.weight), logit);  // [B,m,H]
    return unsqueeze(transpose(sigmoid(by_row), 1, 2), 3);
  }

  Tensor by_head(const Tensor& t, mneme::DType dtype) const {
    return transpose(cast(t, dtype), 1, 2);  // [B,m,H,d] -> [B,H,m,d]
  }

  Tensor unit(const Tensor& t) const {
    if (!is_normalised_) return t;
    return t / maximum(norm2(t, -1, true), 1e-6);
  }

  // Each lane's valid rows first, in their order: chunks are then those of the lane alone.
  static mneme::Rows valid_first(const mneme::Rows& rows) {
    if (!rows.valid) return rows;
    const Tensor valid = cast(rows.valid, mneme::DType::kI32);
    const auto order = sort(valid, 1, true);
    mneme::Rows out =
        mneme::Rows::of_hidden(take_along_dim(rows.hidden, unsqueeze(order.indices, 2), 1),
                               cast(order.values, mneme::DType::kBool));
    return out;
  }

  // Of inputs [B,H,n,d]: before and after the activation, [B,H,n,hidden], when there are two
  // layers; and the result.
  static std::vector<Tensor> forward(const std::vector<Tensor>& weights, const Tensor& inputs) {
    const auto times = [](const Tensor& x, const Tensor& w) {
      return matmul(x, transpose(w, 2, 3));
    };
    if (weights.size() == 1) return {times(inputs, weights[0])};
    const Tensor before = times(inputs, weights[0]);
    const Tensor after = silu(before);
    return {before, after, times(after, weights[1])};
  }

  // The recurrence S_i = eta_i S_{i-1} - theta_i g_i, W_i = (1 - alpha_i) W_{i-1} + S_i over the
  // tokens of a chunk, with rows that are not valid left out, as factors: from the last token back.
  Factors factors(const Tensor& theta, const Tensor& eta, const Tensor& alpha, const Tensor& valid,
                  int64_t tokens) const {
    const Tensor& like = theta ? theta : eta ? eta : alpha;
    if (!like) return {};  // nothing is written
    const int64_t lanes = valid ? valid.dim(0) : like.dim(0);
    const Tensor one = full({lanes, heads_, 1, 1}, 1.0, like.dtype());
    const Tensor none = zeros_like(one);
    const auto at = [](const Tensor& t, int64_t i) { return slice(t, 2, i, i + 1); };
    Factors out{one, none, one, {}, {}};  // keep: what W_i counts at the end; carry, fade: S_i
    std::vector<Tensor> into_weight, into_momentum;
    for (int64_t i = tokens; i-- > 0;) {
      const Tensor is_row = valid ? at(valid, i) : Tensor();
      const auto limited = [&](const Tensor& t, const Tensor& t_else) {
        return is_row ? where(is_row, t, t_else) : t;
      };
      const Tensor carry = limited(out.carry + out.keep, out.carry);  // S_i is in W_i, and in S_i+1
      into_weight.push_back(carry);
      into_momentum.push_back(out.fade);
      if (alpha) out.keep = limited(out.keep * (1.0 - at(alpha, i)), out.keep);
      out.carry = eta ? limited(carry * at(eta, i), carry) : none;
      if (eta) out.fade = limited(out.fade * at(eta, i), out.fade);
    }
    if (theta) {
      Tensor step = 2.0 * theta;  // 2: of the square's derivative
      if (valid) step = where(valid, step, 0.0);
      if (is_mean_ && !valid) step = step / static_cast<double>(tokens);
      if (is_mean_ && valid) {
        step = step / maximum(sum(cast(valid, theta.dtype()), 2, true), 1.0);
      }
      const auto steps = [&](std::vector<Tensor>& parts) {
        std::reverse(parts.begin(), parts.end());
        return step * cat(parts, 2);
      };
      out.into_weight = steps(into_weight);
      if (eta) out.into_momentum = steps(into_momentum);
    }
    return out;
  }

  // One chunk: the gradient of sum |M(k) - v|^2, which is a sum of outer products for each matrix.
  void learn(std::vector<Fast>& fast, const Tensor& k, const Tensor& v, const Factors& by) const {
    if (!by.keep) return;
    std::vector<Tensor> weights;
    for (const Fast& one : fast) weights.push_back(one.weight);
    const std::vector<Tensor> seen = forward(weights, k);
    const Tensor error = seen.back() - v;  // [B,H,C,d]
    if (!is_deep_) {
      update(fast[0], error, k, by);
      return;
    }
    const Tensor s = sigmoid(seen[0]);
    const Tensor slope = s * (1.0 + seen[0] * (1.0 - s));  // of SiLU
    update(fast[0], matmul(error, weights[1]) * slope, k, by);
    update(fast[1], error, seen[1], by);
  }

  void update(Fast& fast, const Tensor& error, const Tensor& input, const Factors& by) const {
    const auto gradient = [&](const Tensor& factor) {
      return matmul(transpose(error * factor, 2, 3), input);
    };
    const Fast old = fast;
    fast.weight = by.keep * old.weight;
    if (old.momentum) {
      fast.weight = fast.weight + by.carry * old.momentum;
      fast.momentum = by.fade * old.momentum;
    }
    if (!by.into_weight) return;
    fast.weight = fast.weight - gradient(by.into_weight);
    if (old.momentum) fast.momentum = fast.momentum - gradient(by.into_momentum);
  }

  int64_t heads_;
  bool is_deep_;
  int64_t chunk_;
  bool is_mean_, by_token_, is_normalised_, adds_;
  bool is_after_ = false;
  mneme::Parameter gate_;
  Rate theta_, eta_, alpha_;
  std::vector<Matrix> layers_;
};

}  // namespace

MNEME_PLUGIN(NeuralMemory, "org.example.neural_memory", "0.1.0")
