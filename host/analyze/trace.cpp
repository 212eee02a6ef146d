#include "host/analyze/trace.hpp"

#include <cmath>

#include "host/base/error.hpp"
#include "host/base/integer.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::analyze {
namespace {

constexpr std::string_view kMean = "memory.density.mean";
constexpr std::string_view kVariance = "memory.density.variance";
constexpr std::string_view kWritten = "memory.written";
constexpr std::string_view kPlaces = "memory.places";
constexpr std::string_view kSamples = "memory.samples";

at::Tensor on_cpu(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, at::kDouble).contiguous();
}

std::vector<double> row_of(const at::Tensor& tensor, std::int64_t lane) {
  if (!tensor.defined()) return {};
  const double* const begin = tensor.const_data_ptr<double>() + lane * tensor.size(1);
  return {begin, begin + tensor.size(1)};
}

}  // namespace

void throw_probe(const TierLayer& where, std::string_view name, const std::string& failed,
                 const std::string& expected, const std::string& got, const std::string& hint) {
  throw_run({.where = str("tier ", where.tier, ", layer ", where.layer, ", probe ", name),
             .failed = failed,
             .expected = expected,
             .got = got,
             .hint = hint});
}

std::optional<TierLayer> tier_layer_of_probe(std::string_view key, std::string_view name) {
  if (!key.ends_with(name) || key.size() <= name.size() + 1) return std::nullopt;
  key.remove_suffix(name.size() + 1);
  const std::size_t dot = key.rfind('.');
  if (dot == std::string_view::npos) return std::nullopt;
  const std::string_view number = key.substr(dot + 1);
  const auto layer = integer_of<std::int64_t>(number);
  if (!layer) return std::nullopt;
  return TierLayer{.tier = std::string(key.substr(0, dot)), .layer = *layer};
}

// The tensors of one tier and layer on the CPU, f64; undefined = not published.
struct Trace::Probes {
  TierLayer where;
  at::Tensor mean, variance;  // [B,H,T]
  at::Tensor written;         // [B,2]
  at::Tensor places;          // [B,P]
  at::Tensor samples;         // [B,M]

  at::Tensor& slot(std::string_view name) {
    if (name == kMean) return mean;
    if (name == kVariance) return variance;
    if (name == kWritten) return written;
    return name == kPlaces ? places : samples;
  }
  void check(std::int64_t lanes, std::int64_t queries) const {
    const auto expect = [&](std::string_view name, const at::Tensor& tensor, std::int64_t dims,
                            std::int64_t last, const char* expected) {
      if (!tensor.defined()) return;
      const bool fits = tensor.dim() == dims && tensor.size(0) == lanes &&
                        (last < 0 || tensor.size(dims - 1) == last);
      if (!fits)
        throw_probe(where, name, "has the wrong shape", expected, list_text(tensor.sizes().vec()));
    };
    expect(kMean, mean, 3, queries, "[lanes, heads, segment]");
    expect(kVariance, variance, 3, queries, "[lanes, heads, segment]");
    expect(kWritten, written, 2, 2, "[lanes, 2]");
    expect(kPlaces, places, 2, -1, "[lanes, points]");
    expect(kSamples, samples, 2, -1, "[lanes, samples]");
    const bool fits = mean.defined() == variance.defined() &&
                      (!mean.defined() || mean.sizes() == variance.sizes());
    if (!fits) {
      throw_probe(where, kVariance, "does not go with memory.density.mean", "the same shape",
                  variance.defined() ? list_text(variance.sizes().vec()) : "nothing");
    }
  }
};

const std::set<std::string, std::less<>>& Trace::wanted_probes() {
  static const std::set<std::string, std::less<>> names = {
      std::string(kMean), std::string(kVariance), std::string(kWritten), std::string(kPlaces),
      std::string(kSamples)};
  return names;
}

void Trace::feed(const data::TokenSegment& segment) {
  lanes_.resize(static_cast<std::size_t>(segment.lanes));
  for (std::size_t b = 0; b < lanes_.size(); ++b) {
    Lane& lane = lanes_[b];
    if (segment.reset[b] != 0) {
      lane.start = static_cast<std::int64_t>(lane.tokens.size());
      for (auto& [where, memory] : memories_) memory.lanes.at(b) = LaneMemory{};
    }
    const auto first = segment.inputs.begin() + static_cast<std::ptrdiff_t>(b) * segment.length;
    lane.tokens.insert(lane.tokens.end(), first, first + segment.valid[b]);
  }
}

void Trace::follow(const data::TokenSegment& segment,
                   const std::map<std::string, at::Tensor>& probes,
                   const std::function<void(const LaneView&)>& visit) {
  feed(segment);
  std::map<TierLayer, Probes> found;
  for (const auto& [key, tensor] : probes) {
    for (const std::string& name : wanted_probes()) {
      const std::optional<TierLayer> where = tier_layer_of_probe(key, name);
      if (!where) continue;
      found[*where].where = *where;
      found[*where].slot(name) = on_cpu(tensor);
    }
  }
  for (const auto& [where, own] : found) {
    own.check(segment.lanes, segment.length);
    Memory& memory = memories_[where];
    memory.lanes.resize(lanes_.size());
    if (own.written.defined()) memory.tells_writes = true;
    for (std::int64_t b = 0; b < segment.lanes; ++b) {
      LaneMemory& held = memory.lanes[static_cast<std::size_t>(b)];
      LaneView view{.where = where, .lane = b, .space = held.space, .heads = {}};
      view.first_query =
          static_cast<std::int64_t>(history(b).size()) - segment.valid[static_cast<std::size_t>(b)];
      if (own.written.defined()) write(own, view, held);
      view.end_token = lanes_[static_cast<std::size_t>(b)].start + held.absorbed;
      // A lane whose memory is still empty reads nothing, though its neighbours do.
      const bool is_empty = memory.tells_writes && held.space.is_empty();
      if (own.mean.defined() && !is_empty) read(own, segment, view);
      if (view.new_tokens > 0 || !view.heads.empty()) visit(view);
    }
  }
}

void Trace::write(const Probes& probes, LaneView& view, LaneMemory& held) const {
  const std::vector<double> written = row_of(probes.written, view.lane);
  const auto rows = static_cast<std::int64_t>(written[0]);
  if (rows == 0) return;
  if (!probes.places.defined()) {
    throw_probe(probes.where, kPlaces, "was not published with a write", "the places of its rows",
                "nothing", "lanes that are written differently have none: use --lanes 1");
  }
  const std::vector<double> places = row_of(probes.places, view.lane);
  const std::int64_t sampled = static_cast<std::int64_t>(places.size()) - rows;
  view.new_tokens = rows;
  view.is_first_write = written[1] != 0.0;
  const Lane& lane = lanes_[static_cast<std::size_t>(view.lane)];
  const std::int64_t first = lane.start + held.absorbed;
  held.absorbed += rows;
  if (first + rows > static_cast<std::int64_t>(lane.tokens.size())) {
    throw_probe(probes.where, kWritten, "the memory took in more rows than the lane has tokens",
                str("at most ", lane.tokens.size() - static_cast<std::size_t>(lane.start)),
                str(held.absorbed), "rows that are no tokens cannot be followed");
  }
  const std::vector<double> samples = probes.samples.defined() && !view.is_first_write
                                          ? row_of(probes.samples, view.lane)
                                          : even_samples(sampled);
  if (sampled != static_cast<std::int64_t>(samples.size()) ||
      (view.is_first_write && sampled != 0)) {
    throw_probe(probes.where, kPlaces, "the write has another number of points",
                str(samples.size(), " samples and ", rows, " new rows"), str(places.size()));
  }
  view.is_first_write ? held.space.begin(places, first) : held.space.update(samples, places, first);
}

void Trace::read(const Probes& probes, const data::TokenSegment& segment, LaneView& view) {
  const std::int64_t heads = probes.mean.size(1);
  const std::int64_t valid = segment.valid[static_cast<std::size_t>(view.lane)];
  const double* const mean = probes.mean.const_data_ptr<double>();
  const double* const variance = probes.variance.const_data_ptr<double>();
  if (valid == 0) return;
  view.heads.resize(static_cast<std::size_t>(heads));
  for (std::int64_t h = 0; h < heads; ++h) {
    for (std::int64_t t = 0; t < valid; ++t) {
      const std::int64_t i = (view.lane * heads + h) * segment.length + t;
      if (!std::isfinite(mean[i]) || !std::isfinite(variance[i]) || variance[i] <= 0.0) {
        throw_probe(probes.where, kVariance, str("is no density's at head ", h, ", query ", t),
                    "a finite mean and a variance above 0",
                    str("mean ", mean[i], ", variance ", variance[i]));
      }
      view.heads[static_cast<std::size_t>(h)].push_back({mean[i], std::sqrt(variance[i])});
    }
  }
}

}  // namespace mneme::analyze
