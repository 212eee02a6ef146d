// What a model says of a given text, piece by piece.
#include <cmath>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/generate/generator.hpp"
#include "host/tensor/to_device.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::generate {
namespace {

// Appends the losses of targets i64 [n] after rows of the last layer's output [n,D]; `place` of the
// first one in the text is for the message.
void append_losses(const backbone::Model& model, const at::Tensor& top, const at::Tensor& targets,
                   std::int64_t place, std::vector<ScoredToken>& scored) {
  const backbone::Output out =
      model.losses_of(top, tensor::to_device(targets, top.device()), /*wants_correct=*/true);
  const at::Tensor nll = out.nll.to(at::kCPU, at::kDouble).contiguous();
  const at::Tensor correct = out.correct.to(at::kCPU).contiguous();
  for (std::int64_t i = 0; i < targets.size(0); ++i) {
    const double loss = nll.const_data_ptr<double>()[i];
    if (!std::isfinite(loss)) {
      throw_run({.where = str("token ", place + i + 1),
                 .failed = "the loss of a token is not finite",
                 .got = format_number(loss, 3),
                 .hint = "the weights or a memory hold NaN or infinity, or the precision is too "
                         "low"});
    }
    scored.push_back({loss, correct.const_data_ptr<bool>()[i]});
  }
}

}  // namespace

std::vector<ScoredToken> Generator::score(const std::vector<std::int32_t>& ids) {
  check_one_sample("score");
  check_vocabulary(ids, "text");
  std::vector<ScoredToken> scored;
  if (ids.empty()) return scored;
  at::Tensor all = at::tensor(ids, at::kInt).to(at::kLong).unsqueeze(0);
  if (pending_.defined()) all = at::cat({pending_.to(at::kCPU), all}, 1);
  const std::int64_t fed = all.size(1) - 1;
  const std::int64_t before = tokens() - pending_count();
  std::int64_t done = 0;
  const auto on_step = [&](const at::Tensor& top) {
    const std::int64_t n = top.size(1);
    append_losses(model_, top[0], all[0].narrow(0, done + 1, n), before + done + 1, scored);
    done += n;
  };
  if (fed > 0) feeder_->feed(all.narrow(1, 0, fed), options_.prompt_segment, on_step);
  pending_ = all.narrow(1, fed, 1);
  return scored;
}

}  // namespace mneme::generate
