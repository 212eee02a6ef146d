#include "host/backbone/rows/dropout.hpp"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "host/backbone/rows/rows.hpp"
#include "host/base/random.hpp"
#include "host/base/text.hpp"
#include "host/kernel/rows.hpp"
#include "host/tensor/device.hpp"
#include "host/tensor/dispatch/trace.hpp"
#include "host/tensor/host_kernels.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

constexpr int kBlocks = 32;  // of Philox, drawn together
constexpr int kWords = 4 * kBlocks;
constexpr std::int64_t kGrain = 256;  // pieces of kWords entries that are worth a thread

// Compiled for AVX-512 too, chosen when the program starts: 2.4 times as fast as for any processor.
#if defined(__x86_64__) && !defined(__clang__) && __GNUC__ >= 12
#define MNEME_WITH_AVX512 __attribute__((target_clones("default", "arch=x86-64-v4")))
#else
#define MNEME_WITH_AVX512
#endif

// Entries are bits of a floating-point number: those of 0 are zeros.
template <typename Bits>
[[gnu::always_inline]] inline void draw_words(StreamKey stream, std::int64_t piece,
                                              std::uint32_t last_kept, Bits kept, Bits* out) {
  std::array<std::uint32_t, kWords> words;
  const std::uint64_t first = static_cast<std::uint64_t>(piece) * kBlocks;
  for (std::size_t i = 0; i < kBlocks; ++i) {
    const PhiloxCounter block = Random::block(stream, first + i);
    words[4 * i] = block[0];  // a loop of four would keep g++ 12 from vectorising this one
    words[4 * i + 1] = block[1];
    words[4 * i + 2] = block[2];
    words[4 * i + 3] = block[3];
  }
  for (std::size_t i = 0; i < kWords; ++i) out[i] = words[i] <= last_kept ? kept : Bits{0};
}

MNEME_WITH_AVX512 void draw(StreamKey stream, std::int64_t piece, std::uint32_t last_kept,
                            std::uint16_t kept, std::uint16_t* out) {
  draw_words(stream, piece, last_kept, kept, out);
}

MNEME_WITH_AVX512 void draw(StreamKey stream, std::int64_t piece, std::uint32_t last_kept,
                            std::uint32_t kept, std::uint32_t* out) {
  draw_words(stream, piece, last_kept, kept, out);
}

MNEME_WITH_AVX512 void draw(StreamKey stream, std::int64_t piece, std::uint32_t last_kept,
                            std::uint64_t kept, std::uint64_t* out) {
  draw_words(stream, piece, last_kept, kept, out);
}

// Entries [first, first + count) of the stream's, to `out`.
template <typename Bits>
void fill_run(Bits* out, std::int64_t first, std::int64_t count, Bits kept, std::uint32_t last_kept,
              StreamKey stream) {
  const std::int64_t end = first + count;
  tensor::parallel_for(
      (end + kWords - 1) / kWords - first / kWords, kGrain,
      [&](std::int64_t from, std::int64_t to) {
        for (std::int64_t piece = first / kWords + from; piece < first / kWords + to; ++piece) {
          const std::int64_t begin = piece * kWords;
          if (begin >= first && begin + kWords <= end) {
            draw(stream, piece, last_kept, kept, out + (begin - first));
            continue;
          }
          std::array<Bits, kWords> words;
          draw(stream, piece, last_kept, kept, words.data());
          const std::int64_t low = std::max(begin, first), high = std::min(begin + kWords, end);
          std::copy(words.begin() + (low - begin), words.begin() + (high - begin),
                    out + (low - first));
        }
      });
}

// How the entries of a slice lie in the mask of all lanes: runs of `length`, one every `stride`.
struct Runs {
  std::int64_t first = 0, length = 0, stride = 0, count = 1;
};

Runs runs_of(at::IntArrayRef shape, LaneDim dim, LaneSlice lanes) {
  const std::int64_t entries = c10::multiply_integers(shape);
  if (dim == LaneDim::kNone || !lanes.is_part()) return {0, entries, entries, 1};
  const auto place = static_cast<std::size_t>(dim);
  const std::int64_t outer = c10::multiply_integers(shape.slice(0, place));
  const std::int64_t length = outer == 0 ? 0 : entries / outer;
  const std::int64_t of_lane = length / lanes.count;
  return {lanes.first * of_lane, length, lanes.of * of_lane, outer};
}

template <typename Bits>
void fill(at::Tensor& mask, Bits bits, std::uint32_t last_kept, StreamKey stream,
          const Runs& runs) {
  Bits* const entries = static_cast<Bits*>(mask.mutable_data_ptr());
  for (std::int64_t i = 0; i < runs.count; ++i) {
    fill_run(entries + i * runs.length, runs.first + i * runs.stride, runs.length, bits, last_kept,
             stream);
  }
}

std::uint32_t last_kept_of(double p) {
  const double kept_words = std::round((1.0 - p) * 0x1p32);
  return static_cast<std::uint32_t>(std::clamp(kept_words, 1.0, 0x1p32) - 1.0);
}

kernel::Dropout dropout_of(StreamKey stream, double p, std::int64_t first) {
  return {.is_on = true,
          .stream = {stream.low, stream.high},
          .first = static_cast<std::uint64_t>(first),
          .last_kept = last_kept_of(p),
          .factor = 1.0 / (1.0 - p)};
}

// The bits of an entry that is kept.
std::uint64_t kept_bits(double p, const at::TensorOptions& options) {
  const at::Tensor kept = at::full({}, 1.0 / (1.0 - p), options.device(at::kCPU));
  std::uint64_t bits = 0;
  std::memcpy(&bits, kept.const_data_ptr(), kept.nbytes());
  return bits;
}

void draw_by(const kernel::RowKernels& kernels, const at::Tensor& mask, double p, const Runs& runs,
             const kernel::Dropout& dropout) {
  const c10::DeviceGuard current(mask.device());
  check_rows(kernels.mask({.entries = mask.numel(),
                           .length = std::max<std::int64_t>(runs.length, 1),
                           .stride = runs.stride,
                           .bytes = static_cast<std::int64_t>(mask.element_size()),
                           .kept = kept_bits(p, mask.options()),
                           .dropout = dropout,
                           .out = mask.mutable_data_ptr()},
                          tensor::stream_of(mask.device())));
}

StreamKey stream_of_mask(std::uint64_t seed, std::uint64_t position, std::uint64_t draw) {
  const std::array<KeyPart, 3> parts = {"dropout", position, draw};
  return StreamKey::derive(seed, parts);
}

constexpr std::int64_t kStoredStreams = 256;  // of masks, made and brought to the device together

}  // namespace

at::Tensor dropout_mask(at::IntArrayRef shape, const at::TensorOptions& options, double p,
                        StreamKey stream, LaneDim dim, LaneSlice lanes) {
  const at::NoGradGuard no_grad;
  const at::Device device = options.device();
  const Runs runs = runs_of(shape, dim, lanes);
  if (const kernel::RowKernels* const kernels = tensor::row_kernels(device)) {
    const at::Tensor mask = at::empty(shape, options);
    draw_by(*kernels, mask, p, runs, dropout_of(stream, p, runs.first));
    return mask;
  }
  const std::uint64_t bits = kept_bits(p, options);
  if (device.is_meta()) return at::empty(shape, options);
  at::Tensor mask = at::empty(shape, options.device(at::kCPU));
  switch (mask.element_size()) {
    case 2:
      fill(mask, static_cast<std::uint16_t>(bits), last_kept_of(p), stream, runs);
      break;
    case 4:
      fill(mask, static_cast<std::uint32_t>(bits), last_kept_of(p), stream, runs);
      break;
    default:
      fill(mask, bits, last_kept_of(p), stream, runs);
  }
  return tensor::to_device(mask, device);
}

kernel::Dropout with_stored_stream(kernel::Dropout mask, const at::Tensor& stream) {
  static_assert(sizeof(kernel::MaskStream) == 2 * sizeof(std::int64_t));
  if (stream.defined()) {
    mask.stored = static_cast<const kernel::MaskStream*>(stream.const_data_ptr());
  }
  return mask;
}

std::string mask_text(const kernel::Dropout& mask) {
  if (!mask.is_on) return "";
  return str(" dropped from ", mask.first, " above ", mask.last_kept, " by ",
             format_exact(mask.factor));
}

void Noise::next_segment() {
  seek(position_ + 1);
  draws_ = 0;
}

void Noise::seek(std::uint64_t position) {
  position_ = position;
  streams_.reset();
}

at::Tensor Noise::stored_stream(std::uint64_t draw, at::Device device) {
  const std::uint64_t first = draw - draw % kStoredStreams;
  if (!streams_.defined() || first_stored_ != first || streams_.device().type() != device.type()) {
    const at::Tensor made = at::empty({kStoredStreams, 2}, at::kLong);
    tensor::run_traced(
        str("streams of dropout masks from ", first), {}, {made},
        [seed = seed_, position = position_, first](const std::vector<at::Tensor>& tensors,
                                                    std::int64_t ahead) {
          const std::uint64_t own = position + static_cast<std::uint64_t>(ahead);
          auto* const streams = static_cast<kernel::MaskStream*>(tensors[0].mutable_data_ptr());
          for (std::uint64_t i = 0; i < kStoredStreams; ++i) {
            const StreamKey stream = stream_of_mask(seed, own, first + i);
            streams[i] = {stream.low, stream.high};
          }
        },
        tensor::Capture::kAhead);
    streams_ = tensor::to_device(made, device);
    first_stored_ = first;
  }
  return streams_.select(0, static_cast<std::int64_t>(draw - first));
}

DrawnMask Noise::next(double p, std::int64_t first, at::Device device) {
  const std::uint64_t draw = draws_++;
  if (tensor::is_tracing()) return {dropout_of({}, p, first), stored_stream(draw, device)};
  return {dropout_of(stream_of_mask(seed_, position_, draw), p, first), {}};
}

at::Tensor Noise::mask(at::IntArrayRef shape, const at::TensorOptions& options, double p,
                       LaneDim dim) {
  if (!tensor::is_tracing()) {
    return dropout_mask(shape, options, p, stream_of_mask(seed_, position_, draws_++), dim, lanes_);
  }
  const at::Tensor mask = at::empty(shape, options);
  const Runs runs = runs_of(shape, dim, lanes_);
  const std::string text = str("dropout mask ", format_exact(p), " of runs ", runs.first, ' ',
                               runs.length, ' ', runs.stride);
  if (const kernel::RowKernels* const kernels = tensor::row_kernels(mask.device())) {
    const DrawnMask drawn = next(p, runs.first, mask.device());
    tensor::run_traced(
        text, {drawn.stream}, {mask},
        [kernels, p, runs, dropout = drawn.mask](const std::vector<at::Tensor>& t, std::int64_t) {
          draw_by(*kernels, t[1], p, runs, with_stored_stream(dropout, t[0]));
        });
    return mask;
  }
  tensor::run_traced(
      text, {}, {mask},
      [seed = seed_, position = position_, draw = draws_++, lanes = lanes_, sizes = shape.vec(),
       options, p, dim](const std::vector<at::Tensor>& tensors, std::int64_t ahead) {
        const StreamKey stream =
            stream_of_mask(seed, position + static_cast<std::uint64_t>(ahead), draw);
        at::Tensor(tensors[0]).copy_(dropout_mask(sizes, options, p, stream, dim, lanes));
      },
      tensor::Capture::kAhead);
  return mask;
}

DrawnMask Noise::draw(at::IntArrayRef shape, double p, at::Device device) {
  if (p == 0.0) return {};
  return next(p, runs_of(shape, LaneDim::kFirst, lanes_).first, device);
}

DrawnProbabilities Noise::draw_probabilities(at::IntArrayRef shape, double p, at::Device device) {
  if (p == 0.0) return {};
  const Runs runs = runs_of(shape, LaneDim::kSecond, lanes_);
  const DrawnMask drawn = next(p, runs.first, device);
  return {{drawn.mask, lanes_.is_part() ? runs.stride : c10::multiply_integers(shape.slice(1))},
          drawn.stream};
}

at::Tensor Noise::apply(const at::Tensor& x, double p) {
  if (p == 0.0) return x;
  if (const kernel::RowKernels* const kernels = row_kernels(x)) {
    return added_rows(*kernels, {.x = x, .dropout = draw(x.sizes(), p, x.device())}).sum;
  }
  return x * mask(x.sizes(), x.options(), p, LaneDim::kFirst);
}

}  // namespace mneme::backbone
