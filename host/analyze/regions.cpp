#include "host/analyze/regions.hpp"

#include <numeric>

#include "host/base/error.hpp"
#include "host/torch.hpp"

namespace mneme::analyze {
namespace {

constexpr const char* kMass = "memory.mass";
constexpr const char* kPlaces = "memory.regions";

[[noreturn]] void throw_regions(const Place& place, const std::string& expected,
                                const std::string& got) {
  throw_run({.where = str("tier ", place.tier, ", layer ", place.layer, ", probe ", kPlaces),
             .failed = str("does not go with ", kMass),
             .expected = expected,
             .got = got});
}

std::array<std::int64_t, 3> places_of(const std::map<std::string, at::Tensor>& probes,
                                      const Place& place, const at::Tensor& mass) {
  const auto found = probes.find(str(place.tier, '.', place.layer, '.', kPlaces));
  if (found == probes.end()) throw_regions(place, "three numbers of places", "nothing");
  const at::Tensor& given = found->second;
  const std::string shapes =
      str(list_text(given.sizes().vec()), " for a mass of ", list_text(mass.sizes().vec()));
  if (given.sizes() != at::IntArrayRef({3}) || mass.dim() != 2) {
    throw_regions(place, "[3] for a mass [lanes, places]", shapes);
  }
  const at::Tensor numbers = given.to(at::kCPU, at::kLong).contiguous();
  std::array<std::int64_t, 3> places = {};
  std::copy_n(numbers.const_data_ptr<std::int64_t>(), 3, places.begin());
  if (std::accumulate(places.begin(), places.end(), std::int64_t{0}) != mass.size(1)) {
    throw_regions(place, str(mass.size(1), " places together"),
                  str(places[0], " + ", places[1], " + ", places[2]));
  }
  return places;
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
  static const std::set<std::string, std::less<>> names = {kMass, kPlaces};
  return names;
}

void MassByRegion::add(const std::map<std::string, at::Tensor>& probes) {
  for (const auto& [key, tensor] : probes) {
    const std::optional<Place> place = place_of_probe(key, kMass);
    if (!place) continue;
    const std::array<std::int64_t, 3> places = places_of(probes, *place, tensor);
    const at::Tensor mass = tensor.detach().to(at::kCPU, at::kDouble).contiguous();
    const auto count = static_cast<std::size_t>(mass.size(1));
    Layer& layer = sums_[*place];
    if (count < layer.share.size()) continue;
    if (places != layer.places) {
      layer = {.places = places, .share = std::vector<double>(count), .segments = 0};
    }
    const at::Tensor sum = mass.sum(0);
    const double* const shares = sum.const_data_ptr<double>();
    for (std::size_t i = 0; i < count; ++i) layer.share[i] += shares[i];
    layer.segments += mass.size(0);
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
