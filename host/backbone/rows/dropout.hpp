// Dropout masks and the streams that a model draws them from, the same on the CPU and on CUDA.
//
// LibTorch draws one number after another on one thread, which took nearly a fifth of a training
// step on the CPU, and draws other masks from the same seed on another device or processor.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "host/base/random.hpp"
#include "host/kernel/dropout.hpp"

namespace mneme::backbone {

// The lanes [first, first + count) of a batch of `of` lanes.
struct LaneSlice {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t of = 0;  // 0 = these lanes are all

  [[nodiscard]] bool is_part() const { return of > count; }
};

// The dimension of a tensor along which its lanes lie. Several rows of one lane may follow one
// another there.
enum class LaneDim : std::int64_t { kNone = -1, kFirst = 0, kSecond = 1 };

// A tensor of `shape` and the options' floating-point dtype: entry i, row-major, is 0 when word i of
// the stream (Random) is among the p * 2^32 largest, else 1 / (1 - p). The same for every device,
// processor and number of threads. With a slice of the lanes it is that part of the mask of all
// lanes. p in [0, 1). On CUDA without the host's kernels it is drawn on the CPU.
at::Tensor dropout_mask(at::IntArrayRef shape, const at::TensorOptions& options, double p,
                        StreamKey stream, LaneDim dim = LaneDim::kNone, LaneSlice lanes = {});

// What a kernel draws a mask with, `stream` being where its stream is stored: i64 [2] in the memory of
// the kernel; undefined = it is the one in `mask`.
kernel::Dropout with_stored_stream(kernel::Dropout mask, const at::Tensor& stream);
// The numbers that a mask depends on besides its stream, for a trace; "" for none.
std::string mask_text(const kernel::Dropout& mask);

// A mask that a kernel draws. While a trace is written its stream is a tensor of the trace, because
// the trace is run again for other segments; otherwise there is no tensor.
struct DrawnMask {
  kernel::Dropout mask{};
  at::Tensor stream{};
};
struct DrawnProbabilities {
  kernel::ProbabilityDropout mask{};
  at::Tensor stream{};
};

// Draws dropout masks. Every mask of a training segment has its own stream, keyed by (seed,
// position, masks before it), so saving `position` is enough to continue a run bit for bit. A copy
// draws the masks that this one draws next.
class Noise {
 public:
  explicit Noise(std::uint64_t seed) : seed_(seed) {}

  // Starts the next segment's streams.
  void next_segment();
  // Segments started so far; seek() restores it.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  void seek(std::uint64_t position);

  // The lanes that this process computes: it draws the masks that they have among all lanes.
  void set_lanes(LaneSlice lanes) { lanes_ = lanes; }

  // A mask of `shape`: 0 with probability p, else 1 / (1 - p). The same for all lanes when they lie
  // along no dimension.
  at::Tensor mask(at::IntArrayRef shape, const at::TensorOptions& options, double p, LaneDim dim);
  // x times a fresh mask; x itself for p = 0. Its first dimension is that of the lanes.
  at::Tensor apply(const at::Tensor& x, double p);
  // The same mask of a tensor like x for a kernel on `device` that draws it itself; off for p = 0.
  DrawnMask draw(at::IntArrayRef shape, double p, at::Device device);
  // The same of probabilities [H,B,T,K], whose mask is of LaneDim::kSecond.
  DrawnProbabilities draw_probabilities(at::IntArrayRef shape, double p, at::Device device);

 private:
  // Of the segment's mask `draw`, on the device, in the trace that is being written.
  at::Tensor stored_stream(std::uint64_t draw, at::Device device);
  DrawnMask next(double p, std::int64_t first, at::Device device);

  std::uint64_t seed_;
  LaneSlice lanes_;
  std::uint64_t position_ = 0;
  std::uint64_t draws_ = 0;  // masks of this segment
  // Streams of as many masks of this segment, from first_stored_ on.
  at::Tensor streams_;
  std::uint64_t first_stored_ = 0;
};

}  // namespace mneme::backbone
