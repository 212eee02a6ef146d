#include "host/data/stream/stream.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "host/base/error.hpp"

namespace mneme::data {

std::int64_t TokenSegment::target_count() const {
  return std::count_if(targets.begin(), targets.end(),
                       [](std::int64_t target) { return target != kNoTarget; });
}

bool TokenSegment::do_others_go_on(std::int64_t first, std::int64_t count) const {
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    const bool is_outside = lane < first || lane >= first + count;
    if (is_outside && reset[at(lane)] == 0) return true;
  }
  return false;
}

TokenSegment TokenSegment::lanes_of(std::int64_t first, std::int64_t count) const {
  const auto cut = [&](const auto& from, std::int64_t width) {
    using Values = std::decay_t<decltype(from)>;
    return from.empty()
               ? Values()
               : Values(from.begin() + first * width, from.begin() + (first + count) * width);
  };
  TokenSegment out;
  out.lanes = count;
  out.length = length;
  out.inputs = cut(inputs, length);
  out.targets = cut(targets, length);
  out.valid = cut(valid, 1);
  out.reset = cut(reset, 1);
  out.document = cut(document, 1);
  out.offset = cut(offset, 1);
  out.documents = cut(documents, length);
  out.source = cut(source, length);
  out.types = cut(types, length);
  out.epoch = epoch;
  out.index = index;
  return out;
}

void TokenSegment::prepare(std::int64_t lane_count, std::int64_t tokens, bool has_source) {
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
  documents.clear();
  types.clear();
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

std::vector<std::int64_t> CountedStream::position() const {
  std::vector<std::int64_t> position;
  for (const PositionField& field : position_fields()) position.push_back(field.ours);
  position.push_back(index_);
  return position;
}

void CountedStream::seek(const std::vector<std::int64_t>& position) {
  const std::vector<PositionField> fields = position_fields();
  check_position(position, fields.size() + 1, fields);
  if (position.back() < 0) {
    throw_run({.where = "data position",
               .failed = "a negative count of segments",
               .expected = "at least 0",
               .got = str(position.back()),
               .hint = "the checkpoint is damaged; take another one"});
  }
  index_ = position.back();
}

namespace {

static_assert(std::endian::native == std::endian::little, "stored ids are little-endian");

// The id at a place of ids that may lie at any address.
template <typename T>
std::int64_t load(const std::byte* ids, std::int64_t place) {
  T value{};
  std::memcpy(&value, ids + static_cast<std::size_t>(place) * sizeof value, sizeof value);
  return static_cast<std::int64_t>(value);
}

template <typename T>
void widen(const std::byte* from, std::int64_t count, std::int64_t* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = load<T>(from, i);
}

}  // namespace

int token_width(std::int64_t vocabulary_size) {
  if (vocabulary_size <= 256) return 1;
  return vocabulary_size <= 65536 ? 2 : 4;
}

TokenArray::TokenArray(std::span<const std::int64_t> ids, int width)
    : size_(static_cast<std::int64_t>(ids.size())), width_(width), stride_(width) {
  std::vector<std::byte> bytes(ids.size() * static_cast<std::size_t>(width));
  for (std::size_t i = 0; i < ids.size(); ++i) {  // the low bytes come first
    std::memcpy(bytes.data() + i * static_cast<std::size_t>(width), &ids[i],
                static_cast<std::size_t>(width));
  }
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  data_ = owner->data();
  owner_ = owner;
}

TokenArray::TokenArray(std::shared_ptr<const void> owner, const std::byte* data, std::int64_t size,
                       int width)
    : owner_(std::move(owner)), data_(data), size_(size), width_(width), stride_(width) {}

// Its functions are not inlined, so that TokenArray's stay short for ids in one piece.
struct TokenArray::Joined {
  std::vector<TokenArray> parts;
  std::vector<std::int64_t> starts;  // the place of each part's first id

  // The part that holds the id at a place; of those that begin there, the one that has ids.
  [[nodiscard]] std::size_t part_of(std::int64_t place) const {
    const auto after = std::upper_bound(starts.begin(), starts.end(), place);
    return static_cast<std::size_t>(after - starts.begin()) - 1;
  }
  [[nodiscard, gnu::noinline]] std::int64_t id(std::int64_t place) const {
    const std::size_t part = part_of(place);
    return parts[part][place - starts[part]];
  }
  [[gnu::noinline]] void copy(std::int64_t first, std::int64_t count, std::int64_t* out) const {
    for (std::size_t i = part_of(first); count > 0; ++i) {
      const std::int64_t begin = first - starts[i];
      const std::int64_t taken = std::min(count, parts[i].size() - begin);
      parts[i].copy(begin, taken, out);
      first += taken;
      out += taken;
      count -= taken;
    }
  }
};

const TokenArray::Joined& TokenArray::joined() const {
  return *static_cast<const Joined*>(owner_.get());
}

TokenArray::TokenArray(std::vector<TokenArray> parts) : stride_(0) {
  const auto joined = std::make_shared<Joined>();
  if (!parts.empty()) width_ = parts.front().width();
  for (const TokenArray& part : parts) {
    joined->starts.push_back(size_);
    size_ += part.size();
  }
  joined->parts = std::move(parts);
  owner_ = joined;
}

std::vector<std::span<const std::byte>> TokenArray::pieces() const {
  if (empty()) return {};
  if (stride_ != 0) {
    return {{data_, static_cast<std::size_t>(size_) * static_cast<std::size_t>(width_)}};
  }
  std::vector<std::span<const std::byte>> all;
  for (const TokenArray& part : joined().parts) {
    const auto pieces = part.pieces();
    all.insert(all.end(), pieces.begin(), pieces.end());
  }
  return all;
}

std::int64_t TokenArray::operator[](std::int64_t place) const {
  switch (stride_) {
    case 1:
      return load<std::uint8_t>(data_, place);
    case 2:
      return load<std::uint16_t>(data_, place);
    case 4:
      return load<std::uint32_t>(data_, place);
    case 8:
      return load<std::int64_t>(data_, place);
    default:
      return joined().id(place);
  }
}

void TokenArray::copy(std::int64_t first, std::int64_t count, std::int64_t* out) const {
  const std::byte* const from = data_ + first * stride_;
  switch (stride_) {
    case 1:
      return widen<std::uint8_t>(from, count, out);
    case 2:
      return widen<std::uint16_t>(from, count, out);
    case 4:
      return widen<std::uint32_t>(from, count, out);
    case 8:
      return widen<std::int64_t>(from, count, out);
    default:
      return joined().copy(first, count, out);
  }
}

void TokenSink::flush() {
  if (filled_ == 0) return;
  write({waiting_.data(), filled_});
  passed_ += static_cast<std::int64_t>(filled_);
  filled_ = 0;
}

void append_narrow(std::span<const std::int32_t> ids, int width, std::vector<std::byte>& out) {
  const auto step = static_cast<std::size_t>(width);
  std::size_t place = out.size();
  out.resize(place + ids.size() * step);
  for (const std::int32_t id : ids) {
    std::memcpy(out.data() + place, &id, step);
    place += step;
  }
}

TokenArray TokenBuffer::take() {
  flush();
  const auto owner = std::make_shared<const std::vector<std::byte>>(std::exchange(bytes_, {}));
  return {owner, owner->data(), static_cast<std::int64_t>(owner->size()) / width_, width_};
}

}  // namespace mneme::data
