#include "host/data/stream.hpp"

#include <algorithm>

#include "host/base/error.hpp"

namespace mneme::data {

std::int64_t Segment::target_count() const {
  return std::count_if(targets.begin(), targets.end(),
                       [](std::int64_t target) { return target != kNoTarget; });
}

void Segment::prepare(std::int64_t lane_count, std::int64_t tokens, bool has_source) {
  lanes = lane_count;
  length = tokens;
  const auto rows = static_cast<std::size_t>(lane_count);
  const std::size_t cells = rows * static_cast<std::size_t>(tokens);
  inputs.assign(cells, 0);
  targets.assign(cells, kNoTarget);
  valid.assign(rows, 0);
  reset.assign(rows, 0);
  document.assign(rows, -1);
  offset.assign(rows, -1);
  source.assign(has_source ? cells : 0, static_cast<std::uint8_t>(Source::kNone));
}

std::string_view section_of(const StreamOptions& options) {
  return options.is_training ? "train" : "eval";
}

void check_stream_options(const StreamOptions& options) {
  const auto require = [&](std::string_view key, std::int64_t value, std::int64_t least) {
    if (value >= least) return;
    throw_usage({.where = str(section_of(options), ".", key),
                 .failed = "the data cannot be cut into segments",
                 .expected = str("at least ", least),
                 .got = str(value)});
  };
  require("lanes", options.lanes, 1);
  require("segment", options.segment, 1);
  require("epochs", options.epochs, 0);
  require("steps", options.max_segments, 0);
}

void check_position(const std::vector<std::int64_t>& position, std::size_t size,
                    const std::vector<PositionField>& fields) {
  const auto refuse = [](std::string_view name, std::int64_t expected, std::int64_t got) {
    throw_run({.where = "data position",
               .failed = str("it was stored by a run with other data: ", name),
               .expected = str(expected),
               .got = str(got),
               .hint = "resume with the experiment that wrote the checkpoint"});
  };
  // Fields first: a differing lane count explains a differing size.
  for (std::size_t i = 0; i < fields.size() && i < position.size(); ++i) {
    if (position[i] != fields[i].ours) refuse(fields[i].name, fields[i].ours, position[i]);
  }
  if (position.size() != size) {
    refuse("count of integers", static_cast<std::int64_t>(size),
           static_cast<std::int64_t>(position.size()));
  }
}

std::vector<std::int64_t> counted_position(const std::vector<PositionField>& fields,
                                           std::int64_t segments) {
  std::vector<std::int64_t> position;
  for (const PositionField& field : fields) position.push_back(field.ours);
  position.push_back(segments);
  return position;
}

std::int64_t count_in(const std::vector<std::int64_t>& position,
                      const std::vector<PositionField>& fields) {
  check_position(position, fields.size() + 1, fields);
  if (position.back() < 0) {
    throw_run({.where = "data position",
               .failed = "a negative count of segments",
               .expected = "at least 0",
               .got = str(position.back()),
               .hint = "the checkpoint is damaged; take another one"});
  }
  return position.back();
}

}  // namespace mneme::data
