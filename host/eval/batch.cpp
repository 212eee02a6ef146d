#include "host/eval/batch.hpp"

#include <algorithm>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::eval {
namespace {

void check_ids(const data::Segment& segment, const std::vector<std::int64_t>& ids, const char* what,
               std::int64_t least, std::int64_t vocabulary) {
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= least && ids[i] < vocabulary) continue;
    const auto place = static_cast<std::int64_t>(i);
    throw_run({.where = str("segment ", segment.index, ", lane ", place / segment.length,
                            ", position ", place % segment.length),
               .failed = str("the ", what, " id is outside the model's vocabulary"),
               .expected = str(least, " .. ", vocabulary - 1),
               .got = str(ids[i]),
               .hint = "use the data and the vocabulary that the model was built for"});
  }
}

at::Tensor to_tensor(const std::vector<std::int64_t>& ids, const data::Segment& segment,
                     at::Device device) {
  at::Tensor out = torch::empty({segment.lanes, segment.length}, at::kLong);
  std::copy(ids.begin(), ids.end(), out.mutable_data_ptr<std::int64_t>());
  return out.to(device);
}

}  // namespace

backbone::Batch make_batch(const data::Segment& segment, std::int64_t vocabulary,
                           at::Device device) {
  check_ids(segment, segment.inputs, "input", 0, vocabulary);
  check_ids(segment, segment.targets, "target", data::kNoTarget, vocabulary);
  backbone::Batch batch;
  batch.input = to_tensor(segment.inputs, segment, device);
  batch.target = to_tensor(segment.targets, segment, device);
  const bool is_padded = std::any_of(segment.valid.begin(), segment.valid.end(),
                                     [&](std::int64_t n) { return n != segment.length; });
  if (is_padded) batch.valid_count = segment.valid;
  return batch;
}

}  // namespace mneme::eval
