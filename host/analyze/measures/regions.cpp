#include "host/analyze/measures/regions.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::analyze {
namespace {

constexpr const char* kMass = "memory.mass";
constexpr const char* kCounts = "memory.regions";

using Counts = std::array<std::int64_t, 3>;

[[noreturn]] void throw_regions(const Place& place, const std::string& expected,
                                const std::string& got) {
  throw_run({.where = str("tier ", place.tier, ", layer ", place.layer, ", probe ", kCounts),
             .failed = str("does not go with ", kMass),
             .expected = expected,
             .got = got});
}

std::int64_t total_of(const Counts& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

// What each lane has in each region.
std::vector<Counts> counts_of(const std::map<std::string, at::Tensor>& probes, const Place& place,
                              const at::Tensor& mass) {
  const auto found = probes.find(str(place.tier, '.', place.layer, '.', kCounts));
  if (found == probes.end()) throw_regions(place, "three numbers for each lane", "nothing");
  const at::Tensor& given = found->second;
  if (mass.dim() != 2 || given.sizes() != at::IntArrayRef({mass.size(0), 3})) {
    throw_regions(
        place, "[lanes, 3] for a mass [lanes, places]",
        str(list_text(given.sizes().vec()), " for a mass of ", list_text(mass.sizes().vec())));
  }
  const at::Tensor numbers = given.to(at::kCPU, at::kLong).contiguous();
  const std::int64_t* const first = numbers.const_data_ptr<std::int64_t>();
  std::vector<Counts> lanes(static_cast<std::size_t>(mass.size(0)));
  for (std::size_t b = 0; b < lanes.size(); ++b) {
    std::copy_n(first + 3 * b, 3, lanes[b].begin());
    if (std::ranges::min(lanes[b]) < 0 || total_of(lanes[b]) > mass.size(1)) {
      throw_regions(place, str("at most ", mass.size(1), " places together"),
                    str("lane ", b, " with ", lanes[b][0], " + ", lanes[b][1], " + ", lanes[b][2]));
    }
  }
  return lanes;
}

}  // namespace

double MassByRegion::Layer::total(std::size_t region) const {
  const auto begin = share.begin() + first(region);
  return std::accumulate(begin, begin + places.at(region), 0.0);
}

std::int64_t MassByRegion::Layer::first(std::size_t region) const {
  return std::accumulate(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(region),
                         std::int64_t{0});
}

const std::set<std::string, std::less<>>& MassByRegion::wanted_probes() {
  static const std::set<std::string, std::less<>> names = {kMass, kCounts};
  return names;
}

void MassByRegion::add(const std::map<std::string, at::Tensor>& probes) {
  for (const auto& [key, tensor] : probes) {
    const std::optional<Place> place = place_of_probe(key, kMass);
    if (!place) continue;
    const std::vector<Counts> lanes = counts_of(probes, *place, tensor);
    const at::Tensor mass = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
    const auto count = static_cast<std::size_t>(mass.size(1));
    const double* shares = mass.const_data_ptr<double>();
    for (const Counts& places : lanes) {
      const double* const own = std::exchange(shares, shares + count);
      if (total_of(places) < mass.size(1)) continue;
      Layer& layer = sums_[*place];
      if (count < layer.share.size()) continue;
      if (places != layer.places) {
        layer = {.places = places, .share = std::vector<double>(count), .segments = 0};
      }
      for (std::size_t i = 0; i < count; ++i) layer.share[i] += own[i];
      ++layer.segments;
    }
  }
}

std::map<Place, MassByRegion::Layer> MassByRegion::layers() const {
  std::map<Place, Layer> out = sums_;
  for (auto& [place, layer] : out) {
    for (double& share : layer.share) share /= static_cast<double>(layer.segments);
  }
  return out;
}

}  // namespace mneme::analyze
