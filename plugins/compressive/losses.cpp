// Auxiliary losses of the compression function [Rae et al. 2019, section 3.3, algorithm 2], and
// metrics of attention.
#include <cmath>

#include "compressive.hpp"

namespace compressive {
namespace {

using mneme::Tensor;
using mneme::WeightGradient;

// A lane with padding is left out, because some of its queries are no tokens.
bool counts_in_loss(const mneme::Layer& l, int64_t b) { return l.valid_count(b) == l.length(); }

Tensor pairs_of(const Counts& first, const Counts& second) {
  std::vector<int64_t> values;
  for (std::size_t b = 0; b < first.size(); ++b) {
    values.push_back(first[b]);
    values.push_back(second[b]);
  }
  return mneme::from_data<int64_t>({static_cast<int64_t>(first.size()), 2}, values);
}

}  // namespace

bool Compressive::computes_loss(const mneme::Layer& l) const {
  if (settings_.loss == Loss::kNone) return false;
  return settings_.reports_loss || (l.has_loss() && settings_.has_parameters());
}

// Errors are sums of squares [B]; a lane's loss is their mean, or the root of the sum.
void Compressive::report_loss(mneme::Layer& l, const Evicted& evicted, const Made& made) const {
  std::vector<double> weight;
  for (int64_t b = 0; b < l.lanes(); ++b) {
    const bool has_rows = made.counts[static_cast<std::size_t>(b)] > 0;
    weight.push_back(has_rows && counts_in_loss(l, b) ? 1.0 : 0.0);
  }
  if (std::all_of(weight.begin(), weight.end(), [](double w) { return w == 0.0; })) return;
  const bool is_attention = settings_.loss == Loss::kAttention;
  const Tensor error =
      is_attention ? attention_error(l, evicted, made) : autoencoding_error(l, evicted, made);
  Tensor value;
  if (settings_.is_l2) {
    value = sqrt(clamp_min(error, 1e-30));  // its slope at 0 is infinite
  } else {
    std::vector<double> share;
    for (const int64_t count : made.counts) {
      const int64_t elements = is_attention ? l.length() * heads_ * head_width_
                                            : count * settings_.rate * made.rows.dim(2);
      share.push_back(1.0 / static_cast<double>(std::max<int64_t>(elements, 1)));
    }
    value = error * cast(mneme::from_data<double>({l.lanes()}, share), error.dtype());
  }
  l.aux("compression", value, cast(mneme::from_data<double>({l.lanes()}, weight), value.dtype()));
}

// Content attention of the segment's tokens over the compressed rows against that over the rows
// they were made of. All but the compressed rows is constant.
Tensor Compressive::attention_error(mneme::Layer& l, const Evicted& evicted,
                                    const Made& made) const {
  const auto projected = [&](mneme::Project which, const Tensor& rows) {
    const Tensor input = settings_.is_normed ? rows : l.norm(rows, WeightGradient::kStops);
    return l.project(which, input, WeightGradient::kStops);
  };
  const bool is_known = static_cast<bool>(evicted.k);
  const Tensor old = detach(evicted.rows);
  const Tensor k = is_known ? evicted.k : projected(mneme::Project::kK, old);
  const Tensor v = is_known ? evicted.v : projected(mneme::Project::kV, old);
  const Tensor rows = cast(made.rows, l.compute_dtype());
  const int64_t wants_gradient = l.has_loss() && settings_.has_parameters() ? 1 : 0;
  return l.call(reconstruction_id_,
                {detach(l.local().q), detach(k), detach(v), projected(mneme::Project::kK, rows),
                 projected(mneme::Project::kV, rows), pairs_of(evicted.counts, made.counts)},
                {wants_gradient}, {1.0 / std::sqrt(static_cast<double>(head_width_))})[0];
}

// The evicted rows against what a transposed convolution (kernel and stride `rate`) makes of the
// compressed ones.
Tensor Compressive::autoencoding_error(mneme::Layer& l, const Evicted& evicted,
                                       const Made& made) const {
  const Evicted from = settings_.remainder == Remainder::kPad ? padded(evicted) : evicted;
  const Tensor decoder = l.parameter(decoder_weight_);
  const int64_t width = made.rows.dim(2);
  const int64_t used = made.count() * settings_.rate;
  const Tensor decoded = linear(made.rows, reshape(decoder, {settings_.rate * width, width}));
  const Tensor target = cast(detach(slice(from.rows, 1, 0, used)), decoder.dtype());
  Tensor error = sum(
      square(reshape(decoded, {l.lanes(), used, width}) + l.parameter(decoder_bias_) - target), 2);
  if (!all_equal(made.counts, made.count())) {
    Counts rows;
    for (const int64_t count : made.counts) rows.push_back(count * settings_.rate);
    error = error * cast(mask_of(rows, used, Side::kFirst), error.dtype());
  }
  return sum(error, 1);
}

// Heads times queries of each lane, [B,1]: attention mass is summed over them.
Tensor Compressive::attention_calls(const mneme::Layer& l) const {
  std::vector<double> calls;
  for (int64_t b = 0; b < l.lanes(); ++b)
    calls.push_back(static_cast<double>(heads_ * std::max<int64_t>(1, l.valid_count(b))));
  const mneme::DType dtype = l.local().mass ? l.local().mass.dtype() : mneme::DType::kF32;
  return cast(mneme::from_data<double>({l.lanes(), 1}, calls), dtype);
}

// Shares of attention, mean over heads and queries, of the compressed rows, the memory, and the
// segment itself [figure 2 of the paper].
void Compressive::report_mass(mneme::Layer& l) const {
  const mneme::Local& local = l.local();
  if (!local.mass) return;
  const Tensor share = local.mass / attention_calls(l);
  const int64_t all = local.mass_rows;
  const int64_t memory = l.queue(memory_).size();
  const auto report = [&](const char* name, int64_t from, int64_t to) {
    l.metric(name, layer_share_ * sum(slice(share, 1, from, to), 1));
  };
  report("mass_compressed", 0, all - memory);
  report("mass_memory", all - memory, all);
  report("mass_segment", all, all + l.length());
  if (l.wants_probe("memory.mass")) l.probe("memory.mass", share);
  if (!l.wants_probe("memory.regions")) return;
  const Counts in_compressed = counts_of(l.queue(compressed_).blocks(), l.lanes());
  const Counts in_memory = memory_counts(l);
  std::vector<int64_t> regions;
  for (std::size_t b = 0; b < in_memory.size(); ++b)
    regions.insert(regions.end(), {in_compressed[b], in_memory[b], l.length()});
  l.probe("memory.regions", mneme::from_data<int64_t>({l.lanes(), 3}, regions));
}

}  // namespace compressive
