#include "host/analyze/measures/token_cells.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "host/base/error.hpp"

namespace mneme::analyze {
namespace {

void check_place(double place, const char* what) {
  if (place >= 0.0 && place <= 1.0) return;
  throw_run({.where = str("the memory's ", what),
             .failed = "a place is outside of the memory",
             .expected = "numbers in [0, 1]",
             .got = format_number(place, 6)});
}

}  // namespace

void TokenCells::clear() {
  edges_.clear();
  tokens_.clear();
}

void TokenCells::begin(std::span<const double> places, std::int64_t first_token) {
  std::vector<Point> points;
  for (const double place : places) {
    check_place(place, "places");
    points.push_back({place, first_token++});
  }
  assign(std::move(points));
}

void TokenCells::update(std::span<const double> samples, std::span<const double> places,
                        std::int64_t first_token) {
  if (places.size() < samples.size()) {
    throw_run({.where = "the memory's places",
               .failed = "there are fewer than samples of the old memory",
               .expected = str("at least ", samples.size()),
               .got = str(places.size())});
  }
  if (is_empty() && !samples.empty()) {
    throw_run("the memory's samples: an empty memory was sampled ", samples.size(), " times");
  }
  std::vector<Point> points;
  for (std::size_t i = 0; i < places.size(); ++i) {
    check_place(places[i], "places");
    if (i < samples.size()) check_place(samples[i], "samples");
    points.push_back({places[i], i < samples.size() ? token_at(samples[i]) : first_token++});
  }
  assign(std::move(points));
}

void TokenCells::assign(std::vector<Point> points) {
  std::ranges::stable_sort(points, {}, &Point::place);
  clear();
  if (points.empty()) return;
  edges_.push_back(0.0);
  for (std::size_t i = 0; i < points.size(); ++i) {
    tokens_.push_back(points[i].token);
    edges_.push_back(i + 1 < points.size() ? 0.5 * (points[i].place + points[i + 1].place) : 1.0);
  }
}

std::int64_t TokenCells::token_at(double place) const {
  const auto after = std::ranges::upper_bound(edges_, place);
  const auto cell = std::clamp<std::ptrdiff_t>(after - edges_.begin() - 1, 0,
                                               static_cast<std::ptrdiff_t>(tokens_.size()) - 1);
  return tokens_.at(static_cast<std::size_t>(cell));
}

std::map<std::int64_t, double> TokenCells::shares() const {
  std::map<std::int64_t, double> shares;
  for (std::size_t i = 0; i < tokens_.size(); ++i) shares[tokens_[i]] += edges_[i + 1] - edges_[i];
  return shares;
}

std::vector<double> even_samples(std::int64_t count) {
  std::vector<double> samples;
  for (std::int64_t m = 1; m <= count; ++m) {
    samples.push_back(static_cast<double>(m) / static_cast<double>(count));
  }
  return samples;
}

double Density::below(double place) const {
  return 0.5 * std::erfc((mean - place) / (deviation * std::numbers::sqrt2));
}

std::vector<double> masses_between(std::span<const Density> densities,
                                   std::span<const double> edges) {
  std::vector<double> masses(edges.empty() ? 0 : edges.size() - 1);
  for (const Density& density : densities) {
    double before = masses.empty() ? 0.0 : density.below(edges.front());
    for (std::size_t i = 0; i < masses.size(); ++i) {
      const double next = density.below(edges[i + 1]);
      masses[i] += next - before;
      before = next;
    }
  }
  return masses;
}

std::vector<double> even_edges(std::size_t bins) {
  std::vector<double> edges(bins + 1);
  for (std::size_t k = 0; k <= bins; ++k) {
    edges[k] = static_cast<double>(k) / static_cast<double>(bins);
  }
  return edges;
}

}  // namespace mneme::analyze
