#include "host/analyze/measures/regression.hpp"

#include <cmath>
#include <utility>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::analyze {
namespace {

constexpr std::int64_t kMeasuredWrites = 4;

const std::set<std::string, std::less<>> kProbes = {"memory.places", "memory.samples",
                                                    "memory.signal", "memory.written"};

memory::BackboneInfo one_layer(std::int64_t length, std::int64_t width) {
  memory::BackboneInfo info;
  info.layers = 1;
  info.width = width;
  info.heads = 1;
  info.head_width = width;
  info.compute_dtype = at::kDouble;
  info.train_segment = length;
  info.eval_segment = length;
  return info;
}

config::MemoryConfig in_one_layer(config::MemoryConfig memory) {
  for (config::TierConfig& tier : memory.tiers) tier.layers.reset();
  return memory;
}

// Weights that leave rows as they are: nothing is projected here.
memory::PlainLayer plain_layer(std::int64_t width) {
  const at::Tensor same = torch::eye(width, at::kDouble);
  return memory::PlainLayer(
      {.query = same, .key = same, .value = same, .output = same, .norm = {}, .norm_bias = {}}, 1);
}

std::vector<double> numbers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().to(at::kCPU, at::kDouble).contiguous().view({-1});
  const double* const begin = flat.const_data_ptr<double>();
  return {begin, begin + flat.numel()};
}

// Sums that correlation and error are made of.
struct Sums {
  double points = 0.0, n = 0.0;
  double x = 0.0, y = 0.0, xx = 0.0, yy = 0.0, xy = 0.0, off = 0.0;

  void add(const at::Tensor& rows, const at::Tensor& signal) {
    points += static_cast<double>(rows.size(0));
    n += static_cast<double>(rows.numel());
    x += rows.sum().item<double>();
    y += signal.sum().item<double>();
    xx += rows.square().sum().item<double>();
    yy += signal.square().sum().item<double>();
    xy += (rows * signal).sum().item<double>();
    off += (rows - signal).square().sum().item<double>();
  }
  ReadBack read_back(std::int64_t age, double writes) const {
    ReadBack out{.age = age, .points = points / writes, .correlation = 0.0, .error = 1.0};
    if (n == 0.0) return out;
    const double spread = (xx - x * x / n) * (yy - y * y / n);
    if (spread > 0.0) out.correlation = (xy - x * y / n) / std::sqrt(spread);
    if (xx > 0.0) out.error = std::sqrt(off / xx);
    return out;
  }
};

// Compares every stored segment with the signal at the points that stand for its rows.
void measure_ages(const StoredSignal& stored, const std::vector<at::Tensor>& segments,
                  std::int64_t length, std::vector<Sums>& ages) {
  std::vector<std::vector<std::int64_t>> points(ages.size()), rows(ages.size());
  const std::vector<std::int64_t>& tokens = stored.cells().tokens();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto age = static_cast<std::size_t>(static_cast<std::int64_t>(segments.size()) - 1 -
                                              tokens[i] / length);
    if (age >= ages.size()) continue;
    points[age].push_back(static_cast<std::int64_t>(i));
    rows[age].push_back(tokens[i] % length);
  }
  for (std::size_t age = 0; age < ages.size(); ++age) {
    if (points[age].empty()) continue;
    const at::Tensor& segment = segments[segments.size() - 1 - age];
    ages[age].add(segment.index_select(0, torch::tensor(rows[age])),
                  stored.signal().index_select(0, torch::tensor(points[age])));
  }
}

}  // namespace

StoredSignal::StoredSignal(config::MemoryConfig memory, std::int64_t length, std::int64_t width,
                           plugin::PluginLoader& loader)
    : driver_(in_one_layer(std::move(memory)), one_layer(length, width), loader,
              memory::Phase::kEvaluation, 1),
      layer_(plain_layer(width)),
      plugin_(driver_.stack().identities().at(0).id) {}

void StoredSignal::absorb(const at::Tensor& rows) {
  const at::NoGradGuard no_grad;
  std::map<std::string, at::Tensor> probes;
  memory::SegmentInput input;
  input.length = rows.size(0);
  input.wanted_probes = kProbes;
  input.probes = &probes;
  driver_.begin(input);
  memory::Rows fed;
  fed.count = rows.size(0);
  fed.hidden = rows.unsqueeze(0).contiguous();
  memory::LocalAttention local;
  local.q = fed.hidden.unsqueeze(2);
  local.k = local.v = local.z = local.q;
  driver_.hooks().absorb_rows(0, 0, fed, fed.hidden, local, layer_);
  take(probes, rows.size(0));
  driver_.commit();
}

at::Tensor StoredSignal::probe(const std::map<std::string, at::Tensor>& probes,
                               const std::string& name) const {
  for (const auto& [key, tensor] : probes) {
    if (key.ends_with("." + name)) return tensor.select(0, 0).to(at::kDouble);
  }
  throw_plugin(
      {.where = "regression",
       .failed = "the memory does not show what it stored",
       .expected = str("a tier that publishes the probe ", name, " at a write"),
       .got = plugin_,
       .hint = "name a memory that absorbs before it reads and is made for this analysis"});
}

void StoredSignal::take(const std::map<std::string, at::Tensor>& probes, std::int64_t rows) {
  const std::vector<double> places = numbers_of(probe(probes, "memory.places"));
  const std::vector<double> written = numbers_of(probe(probes, "memory.written"));
  const bool is_first_write = written.at(1) != 0.0;
  std::vector<double> samples = even_samples(static_cast<std::int64_t>(places.size()) - rows);
  for (const auto& [key, tensor] : probes) {
    if (key.ends_with(".memory.samples") && !is_first_write)
      samples = numbers_of(tensor.select(0, 0));
  }
  is_first_write ? cells_.begin(places, absorbed_) : cells_.update(samples, places, absorbed_);
  absorbed_ += rows;
  const at::Tensor order = at::argsort(torch::tensor(places, at::kDouble), true, 0, false);
  signal_ = probe(probes, "memory.signal").index_select(0, order);
}

std::int64_t regression_segments(std::int64_t updates) {
  return updates == 0 ? 1 : updates + 1 + kMeasuredWrites;
}

RegressionResult measure_regression(StoredSignal& stored, const RowSource& rows,
                                    std::int64_t length, std::int64_t updates) {
  RegressionResult result;
  std::vector<at::Tensor> segments;
  const std::int64_t writes = regression_segments(updates);
  std::vector<Sums> ages(updates == 0 ? 0 : static_cast<std::size_t>(updates + 1));
  for (std::int64_t w = 0; w < writes; ++w) {
    segments.push_back(rows(length));
    stored.absorb(segments.back());
    if (w == 0) {
      std::vector<Sums> first(1);
      measure_ages(stored, segments, length, first);
      result.fit_error = first[0].read_back(0, 1.0).error;
    }
    if (w > updates) measure_ages(stored, segments, length, ages);
  }
  for (std::size_t age = 0; age < ages.size(); ++age) {
    result.ageing.push_back(
        ages[age].read_back(static_cast<std::int64_t>(age), static_cast<double>(kMeasuredWrites)));
  }
  return result;
}

}  // namespace mneme::analyze
