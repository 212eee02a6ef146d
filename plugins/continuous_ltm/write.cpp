// The write, once a segment and before its read (stage 2 of mneme/plugin.h): rows of the segment
// before, or rows that another tier released, are fitted into the coefficients.
#include <algorithm>
#include <map>

#include "continuous_ltm.hpp"

namespace continuous_ltm {
namespace {

using mneme::Rows;
using mneme::Tensor;

int64_t count_of(const Rows& rows, int64_t lane) {
  return rows.counts != nullptr ? rows.counts[lane] : rows.count;
}

bool is_whole(const std::vector<int64_t>& lanes, int64_t all) {
  return static_cast<int64_t>(lanes.size()) == all;
}

Tensor lanes_tensor(const std::vector<int64_t>& lanes) {
  return mneme::from_data<int64_t>({static_cast<int64_t>(lanes.size())}, lanes);
}

// The lanes of a group of x [B,...]; x itself when the group is all of them.
Tensor pick(const Tensor& x, const std::vector<int64_t>& lanes) {
  return is_whole(lanes, x.dim(0)) ? x : index_select(x, lanes_tensor(lanes), 0);
}

// Rows with the valid ones of every lane in front, in their order.
Tensor compacted(const Rows& rows) {
  const Tensor is_padding = cast(logical_not(rows.valid), mneme::DType::kI32);
  const Tensor order = mneme::sort(is_padding, 1).indices;  // equal elements keep their order
  return take_along_dim(rows.hidden, unsqueeze(order, 2), 1);
}

bool has_padding(const Rows& rows, int64_t lanes) {
  for (int64_t b = 0; b < lanes; ++b) {
    if (count_of(rows, b) != rows.count) return true;
  }
  return false;
}

std::string key_of(const char* name, int64_t length) { return name + std::to_string(length); }

}  // namespace

// Counts afterwards are written to `absorbed`; lanes without a new row are in no group.
std::vector<ContinuousLtm::Group> ContinuousLtm::groups_of(const mneme::Layer& l, const Rows& fed,
                                                           std::vector<int64_t>& absorbed) const {
  std::map<std::pair<bool, int64_t>, std::vector<int64_t>> lanes;
  for (int64_t b = 0; b < l.lanes(); ++b) {
    int64_t& before = absorbed[static_cast<std::size_t>(b)];
    const int64_t rows = count_of(fed, b);
    if (rows == 0) continue;
    if (settings_.reset_tokens > 0 && before >= settings_.reset_tokens) before = 0;
    lanes[{before == 0, rows}].push_back(b);
    // Without a limit it need not be known how many: a count that grows makes every segment another.
    before = settings_.reset_tokens > 0 ? before + rows : 1;
  }
  std::vector<Group> groups;
  for (auto& [kind, members] : lanes)
    groups.push_back({kind.first, kind.second, std::move(members)});
  return groups;
}

void ContinuousLtm::absorb(mneme::Layer& l, const Rows& fed) {
  std::vector<int64_t> absorbed = l.counts(absorbed_).get();
  const std::vector<Group> groups = groups_of(l, fed, absorbed);
  if (groups.empty()) return;
  const Tensor old = l.slot(coefficients_);
  const Tensor rows = has_padding(fed, l.lanes()) ? compacted(fed) : fed.hidden;
  const Samples samples = sample_locations(l, groups);
  if (groups.size() == 1 && is_whole(groups[0].lanes, l.lanes())) {
    l.slot(coefficients_) = new_coefficients(l, groups[0], rows, old, samples);
  } else {
    // Computes each group separately and puts the lanes back in order; lanes without new rows keep
    // their coefficients.
    std::vector<Tensor> parts{old};
    std::vector<int64_t> place(static_cast<std::size_t>(l.lanes()));
    for (int64_t b = 0; b < l.lanes(); ++b) place[static_cast<std::size_t>(b)] = b;
    int64_t next = l.lanes();
    for (const Group& group : groups) {
      parts.push_back(new_coefficients(l, group, rows, old, samples));
      for (const int64_t b : group.lanes) place[static_cast<std::size_t>(b)] = next++;
    }
    l.slot(coefficients_) = index_select(mneme::cat(parts, 0), lanes_tensor(place), 0);
  }
  l.counts(absorbed_).set(absorbed);
  publish_write(l, groups, samples);
}

// The new coefficients of the group's lanes [b,N,D].
Tensor ContinuousLtm::new_coefficients(mneme::Layer& l, const Group& group, const Tensor& rows,
                                       const Tensor& old, const Samples& samples) const {
  Tensor own = pick(rows, group.lanes);
  if (own.dim(1) != group.rows) own = slice(own, 1, 0, group.rows);
  check_finite(l, group, cast(own, old.dtype()));
  if (settings_.is_normed) own = l.norm(own);
  if (settings_.has_gate) own = gated(l, own);
  own = cast(own, old.dtype());  // from here in f32 or f64: the regression needs the precision
  Tensor written;
  if (group.is_first) {
    written = first_fit(group, own);
  } else {
    const Tensor locations = samples.locations ? pick(samples.locations, group.lanes) : Tensor();
    written = update(group, own, pick(old, group.lanes), locations, l);
  }
  if (settings_.reports_error) report_error(l, group, detach(own), detach(written));
  return written;
}

Tensor ContinuousLtm::first_fit(const Group& group, const Tensor& rows) const {
  const Tensor first =
      matrix(key_of("first.", group.rows), settings_.basis, group.rows, rows.dtype(), [&] {
        return first_matrix(settings_.grid, group.rows, settings_.ridge, settings_.is_padded);
      });
  return apply(first, rows);
}

// A metric's values [b] for a group's lanes, a mean over layers; other lanes count 0.
void ContinuousLtm::report_lanes(mneme::Layer& l, const char* name, const Group& group,
                                 const Tensor& values) const {
  std::vector<int64_t> source(static_cast<std::size_t>(l.lanes()), 0);
  std::vector<double> weight(static_cast<std::size_t>(l.lanes()), 0.0);
  for (std::size_t i = 0; i < group.lanes.size(); ++i) {
    source[static_cast<std::size_t>(group.lanes[i])] = static_cast<int64_t>(i);
    weight[static_cast<std::size_t>(group.lanes[i])] = 1.0;
  }
  l.metric(name, layer_share_ * index_select(values, lanes_tensor(source), 0),
           cast(mneme::from_data<double>({l.lanes()}, weight), values.dtype()));
}

// ||rows - signal|| / ||rows|| of each lane, the signal read where the new rows stand.
void ContinuousLtm::report_error(mneme::Layer& l, const Group& group, const Tensor& rows,
                                 const Tensor& coefficients) const {
  const auto lanes = static_cast<int64_t>(group.lanes.size());
  const Tensor all = locations_of(group);
  const Tensor locations = slice(all, 1, all.dim(1) - group.rows);
  const Tensor signal =
      l.call(signal_id_, {expand(locations, {lanes, group.rows}), coefficients})[0];
  report_lanes(l, "regression_error", group,
               norm2(rows - signal, {1, 2}) / clamp_min(norm2(rows, {1, 2}), 1e-30));
}

// g * x with g = sigmoid(conv(x)), the convolution over three rows with zeros at both ends
// [equation 18].
Tensor ContinuousLtm::gated(mneme::Layer& l, const Tensor& rows) const {
  const int64_t count = rows.dim(1);
  const int64_t width = rows.dim(2);
  const Tensor padded = mneme::pad(rows, {0, 0, 1, 1});
  const Tensor windows =
      mneme::cat({slice(padded, 1, 0, count), rows, slice(padded, 1, 2, count + 2)}, 2);
  const Tensor weight = reshape(l.parameter(gate_weight_), {width, 3 * width});
  const Tensor gate = sigmoid(
      linear(windows, cast(weight, rows.dtype()), cast(l.parameter(gate_bias_), rows.dtype())));
  if (l.wants_probe("memory.gate")) l.probe("memory.gate", gate);
  return gate * rows;
}

Tensor ContinuousLtm::update(const Group& group, const Tensor& rows, const Tensor& old,
                             const Tensor& locations, mneme::Layer& l) const {
  const mneme::DType dtype = rows.dtype();
  const int64_t n = settings_.basis;
  const int64_t samples = settings_.samples;
  const int64_t length = group.rows;
  const auto constant = [&](const char* name, int64_t r, int64_t c, Matrix UpdateMatrices::*which) {
    return matrix(key_of(name, length), r, c, dtype, [&]() -> const Matrix& {
      // Every update needs `fresh`, so a new length is detected here.
      if (length != segment_ && which == &UpdateMatrices::fresh) announce(length);
      return (*matrices_of(length)).*which;
    });
  };
  const Tensor fresh = constant("fresh.", n, length, &UpdateMatrices::fresh);
  if (!locations && !settings_.is_plain)
    return apply(constant("carry.", n, n, &UpdateMatrices::carry), old) + apply(fresh, rows);
  const Tensor past = constant("past.", n, samples, &UpdateMatrices::past);
  Tensor sampled;  // the old signal at the samples [b,M,D]
  if (!locations) {
    sampled = apply(constant("sampling.", samples, n, &UpdateMatrices::sampling), old);
  } else if (settings_.is_plain) {
    sampled = matmul(basis_at(locations, dtype), old);
  } else {
    sampled = l.call(signal_id_, {locations, old})[0];
  }
  if (!settings_.is_plain) return apply(past, sampled) + apply(fresh, rows);
  return apply(mneme::cat({past, fresh}, 1), mneme::cat({sampled, rows}, 1));
}

// psi(locations) [b,M,N] by the definition.
Tensor ContinuousLtm::basis_at(const Tensor& locations, mneme::DType dtype) const {
  const Tensor z =
      (unsqueeze(locations, 2) - centres(mneme::DType::kF64)) / widths(mneme::DType::kF64);
  return cast(exp(-0.5 * square(z)) * kInverseRootTwoPi / widths(mneme::DType::kF64), dtype);
}

// Where each lane's old signal is sampled when samples follow attention; empty locations when they
// are even [section 3.3, "sticky memories"; positions as in the official code].
ContinuousLtm::Samples ContinuousLtm::sample_locations(mneme::Layer& l,
                                                       const std::vector<Group>& groups) const {
  const bool is_needed =
      std::any_of(groups.begin(), groups.end(), [](const Group& group) { return !group.is_first; });
  if (!settings_.is_sticky || !is_needed) return {};
  const auto bins = static_cast<double>(settings_.bins);
  const mneme::Shape shape{l.lanes(), settings_.samples};
  const Tensor mass = clamp_min(l.slot(density_histogram_).get(), 0.0);
  const Tensor total = sum(mass, 1, true);
  // A lane draws uniformly where its sum is 0 or not finite: after a segment without a valid query,
  // after rounding to 0, or with a NaN.
  const Tensor is_usable = logical_and(isfinite(total), gt(total, 0.0));
  const Tensor histogram = where(is_usable, mass / total, 1.0 / bins);
  const Tensor cdf = cumsum(histogram, 1);
  const Tensor uniforms = l.uniform("bins", shape, mneme::DType::kF64);
  // The last edge is exactly 1, so that no draw lies beyond it.
  const Tensor drawn = searchsorted(cdf / slice(cdf, 1, settings_.bins - 1), uniforms, true);
  Tensor place = cast(drawn, mneme::DType::kF64);
  if (settings_.within_bin == WithinBin::kUniform)
    place = place + l.uniform("within_bin", shape, mneme::DType::kF64);
  std::vector<double> counted(static_cast<std::size_t>(l.lanes()), 0.0);
  for (const Group& group : groups) {
    for (const int64_t b : group.lanes)
      counted[static_cast<std::size_t>(b)] = group.is_first ? 0.0 : 1.0;
  }
  l.metric("uniform_fallback",
           layer_share_ * cast(logical_not(squeeze(is_usable, 1)), mneme::DType::kF64),
           mneme::from_data<double>({l.lanes()}, counted));
  if (l.wants_probe("memory.histogram")) l.probe("memory.histogram", histogram);
  if (l.wants_probe("memory.drawn_bins")) l.probe("memory.drawn_bins", drawn);
  return {mneme::sort(place / bins, 1).values};
}

void ContinuousLtm::check_finite(mneme::Layer& l, const Group& group, const Tensor& rows) const {
  if (!l.is_cuda()) {
    l.call(finite_rows_id_, {rows, lanes_tensor(group.lanes)});
    return;
  }
  report_lanes(l, "not_finite", group,
               mean(cast(logical_not(isfinite(rows)), mneme::DType::kF32), {1, 2}));
}

// Where the regression points of the write stand: samples first, then the new rows.
Tensor ContinuousLtm::locations_of(const Group& group) const {
  const std::string key = key_of(group.is_first ? "locations.first." : "locations.", group.rows);
  const int64_t count = group.rows + (group.is_first ? 0 : settings_.samples);
  return matrix(key, 1, count, mneme::DType::kF64, [&] {
    Matrix out(1, count);
    out.values = group.is_first
                     ? first_points(group.rows, false).real
                     : update_points(settings_.samples, group.rows, settings_.tau, false).real;
    return out;
  });
}

void ContinuousLtm::publish_write(mneme::Layer& l, const std::vector<Group>& groups,
                                  const Samples& samples) const {
  const Tensor coefficients = l.slot(coefficients_);
  if (l.wants_probe("memory.coefficients")) l.probe("memory.coefficients", coefficients);
  if (samples.locations && l.wants_probe("memory.samples"))
    l.probe("memory.samples", samples.locations);
  if (l.wants_probe("memory.written")) {
    // [B,2] i64: new rows of each lane in this write, and 1 where its memory began with them.
    std::vector<int64_t> written(static_cast<std::size_t>(2 * l.lanes()), 0);
    for (const Group& group : groups) {
      for (const int64_t b : group.lanes) {
        written[static_cast<std::size_t>(2 * b)] = group.rows;
        written[static_cast<std::size_t>(2 * b + 1)] = group.is_first ? 1 : 0;
      }
    }
    l.probe("memory.written", mneme::from_data<int64_t>({l.lanes(), 2}, written));
  }
  // memory.places and memory.signal have equally many locations in every lane, so they are
  // published only when all lanes were written alike.
  if (groups.size() != 1 || !is_whole(groups[0].lanes, l.lanes())) return;
  const bool wants_signal = l.wants_probe("memory.signal");
  if (!wants_signal && !l.wants_probe("memory.places")) return;
  const Tensor locations = locations_of(groups[0]);
  const Tensor every = expand(locations, {l.lanes(), locations.dim(1)});
  l.probe("memory.places", every);
  if (wants_signal) l.probe("memory.signal", l.call(signal_id_, {every, detach(coefficients)})[0]);
}

}  // namespace continuous_ltm
