#include "host/scores/columns.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"

namespace mneme::scores {
namespace {

std::int32_t narrow(std::int64_t value, const char* column) {
  if (value >= -1 && value <= std::numeric_limits<std::int32_t>::max()) {
    return static_cast<std::int32_t>(value);
  }
  throw_run({.where = str("the stored column \"", column, "\""),
             .failed = "a value does not fit",
             .expected = str("-1 to ", std::numeric_limits<std::int32_t>::max()),
             .got = str(value)});
}

using Order = std::vector<std::uint32_t>;

// Sorts places by their key, equal ones in their present order. Keys of a range not much larger
// than their number, as those of evaluations are, are counted instead of compared.
void sort_by(const std::vector<std::int32_t>& key, Order& order) {
  if (key.empty()) return;
  const std::int32_t least = *std::ranges::min_element(key);
  const std::int32_t most = *std::ranges::max_element(key);
  const std::int64_t range = std::int64_t{most} - least + 1;
  if (range > 4 * static_cast<std::int64_t>(key.size()) + 65'536) {
    std::ranges::stable_sort(order, {}, [&](std::uint32_t i) { return key[i]; });
    return;
  }
  const auto bin = [&](std::uint32_t i) {
    return static_cast<std::size_t>(std::int64_t{key[i]} - least);
  };
  std::vector<std::uint32_t> next(static_cast<std::size_t>(range) + 1, 0);
  for (const std::uint32_t i : order) ++next[bin(i) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  Order sorted(order.size());
  for (const std::uint32_t i : order) sorted[next[bin(i)]++] = i;
  order.swap(sorted);
}

// The places of columns sorted by the last key, then by those before it.
Order sorted_order(std::size_t size, std::initializer_list<const std::vector<std::int32_t>*> keys) {
  Order order(size);
  std::iota(order.begin(), order.end(), 0U);
  for (const std::vector<std::int32_t>* const key : keys) sort_by(*key, order);
  return order;
}

template <typename T>
void reorder(std::vector<T>& column, const Order& order) {
  if (column.empty()) return;
  std::vector<T> sorted(column.size());
  for (std::size_t i = 0; i < order.size(); ++i) sorted[i] = column[order[i]];
  column.swap(sorted);
}

}  // namespace

Columns::Columns(std::int64_t expected) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(expected, 0));
  narrow_nll.reserve(count);
  for (auto* column : {&target, &document, &distance, &lane, &place, &segment}) {
    column->reserve(count);
  }
  correct.reserve(count);
}

void Columns::add_nll(double value) {
  if (!is_wide()) {
    const auto rounded = static_cast<float>(value);
    if (static_cast<double>(rounded) == value) {
      narrow_nll.push_back(rounded);
      return;
    }
    wide_nll.reserve(narrow_nll.capacity());
    wide_nll.assign(narrow_nll.begin(), narrow_nll.end());
    std::vector<float>().swap(narrow_nll);
  }
  wide_nll.push_back(value);
}

void Columns::add(const data::TokenSegment& from, const SegmentLosses& losses,
                  bool keeps_predictions) {
  const std::int32_t index = narrow(from.index, "segment");
  for (std::int64_t b = 0; b < from.lanes; ++b) {
    for (std::int64_t t = 0; t < from.length; ++t) {
      const std::size_t i = data::at(b * from.length + t);
      if (from.targets[i] == data::kNoTarget) continue;
      add_nll(losses.nll[i]);
      target.push_back(narrow(from.targets[i], "target"));
      document.push_back(narrow(losses.document[i], "document"));
      distance.push_back(narrow(losses.distance[i], kDistanceKey));
      lane.push_back(static_cast<std::int32_t>(b));
      place.push_back(static_cast<std::int32_t>(t));
      segment.push_back(index);
      correct.push_back(losses.correct[i]);
      if (!from.source.empty()) source.push_back(from.source[i]);
      if (keeps_predictions) predicted.push_back(narrow(losses.best[i], "predicted"));
    }
  }
}

void Columns::sort() {
  if (target.empty()) return;
  // Within a lane the stream's order is that of the text, so that only targets of unknown distance
  // are equal in all three keys; they keep their order.
  const Order order = sorted_order(target.size(), {&lane, &distance, &document});
  if (std::ranges::is_sorted(order)) return;
  reorder(narrow_nll, order);
  reorder(wide_nll, order);
  for (auto* column : {&target, &document, &distance, &lane, &place, &segment}) {
    reorder(*column, order);
  }
  reorder(correct, order);
  reorder(source, order);
  reorder(predicted, order);
}

Sums Columns::total() const {
  Sums sums;
  for (const std::uint32_t i : sorted_order(target.size(), {&place, &lane, &segment})) {
    sums.add(nll(i), correct[i] != 0);
  }
  return sums;
}

// --- Samples ---

namespace {

constexpr std::size_t kDigits = 16;  // of Sample::sha256

std::pair<std::int32_t, std::int32_t> sample_key(const Columns& columns, SampleUnit unit,
                                                 std::size_t i) {
  return {unit == SampleUnit::kLane ? -1 : columns.document[i],
          unit == SampleUnit::kEpisode || unit == SampleUnit::kLane ? columns.lane[i] : -1};
}

std::string sample_id(SampleUnit unit, const std::string& split, std::int32_t document,
                      std::int32_t lane) {
  switch (unit) {
    case SampleUnit::kDocument:
    case SampleUnit::kSequence:
    case SampleUnit::kQuestion:
      return str(split, '/', document);
    case SampleUnit::kEpisode:
      return str(split, "/lane", lane, '/', document);
    case SampleUnit::kLane:
      break;
  }
  return str(split, "/lane", lane);
}

// Adds an id to a checksum as four bytes, little-endian.
void update(Sha256& sha, std::int32_t id) {
  const auto bits = static_cast<std::uint32_t>(id);
  const std::array<std::byte, 4> bytes = {
      static_cast<std::byte>(bits), static_cast<std::byte>(bits >> 8),
      static_cast<std::byte>(bits >> 16), static_cast<std::byte>(bits >> 24)};
  sha.update(bytes);
}

}  // namespace

std::vector<std::int32_t> samples_of_targets(const Columns& columns, SampleUnit unit) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> places;
  std::vector<std::int32_t> out;
  out.reserve(columns.target.size());
  for (std::size_t i = 0; i < columns.target.size(); ++i) {
    const bool is_same = i > 0 && sample_key(columns, unit, i) == sample_key(columns, unit, i - 1);
    if (is_same) {
      out.push_back(out.back());
      continue;
    }
    const auto next = static_cast<std::int32_t>(places.size());
    out.push_back(places.try_emplace(sample_key(columns, unit, i), next).first->second);
  }
  return out;
}

std::vector<Sample> make_samples(const Columns& columns, SampleUnit unit, const std::string& split,
                                 std::uint64_t seed) {
  std::vector<Sample> samples;
  std::vector<Sha256> checksums;
  const std::vector<std::int32_t> places = samples_of_targets(columns, unit);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto place = static_cast<std::size_t>(places[i]);
    if (place == samples.size()) {
      const auto [document, lane] = sample_key(columns, unit, i);
      samples.push_back({.id = sample_id(unit, split, document, lane),
                         .document = document,
                         .sha256 = {},
                         .sums = {.questions = unit == SampleUnit::kQuestion ? 1 : 0},
                         .seed = seed,
                         .slices = {}});
      checksums.emplace_back();
    }
    Sample& sample = samples[place];
    sample.sums.add(columns.nll(i), columns.correct[i] != 0);
    update(checksums[place], columns.target[i]);
    if (columns.source.empty()) continue;
    const auto source = std::min<std::size_t>(columns.source[i], kSourceNames.size() - 1);
    sample.slices[kSourceNames[source]].add(columns.nll(i), columns.correct[i] != 0);
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    samples[i].sha256 = checksums[i].hex().substr(0, kDigits);
  }
  return samples;
}

std::vector<Sample> by_unit(const std::vector<Sample>& samples) {
  std::vector<Sample> out;
  std::map<std::string, std::size_t> places;
  for (const Sample& sample : samples) {
    const std::size_t place = places.try_emplace(sample.unit, out.size()).first->second;
    if (sample.unit.empty() || place == out.size()) {
      out.push_back(sample);
    } else {
      out[place].sha256 += sample.sha256;
      out[place].sums.add(sample.sums);
    }
  }
  return out;
}

}  // namespace mneme::scores
