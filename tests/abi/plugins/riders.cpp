// Riders: the newest embedded rows pass the layer stack again with each segment, attending to
// themselves (a simplified LaMemo). As alpha it publishes a different value for each row and layer:
// (l + m / M) / 4 for row m of M in layer l.
#include "mneme/plugin.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

class RidingRows : public mneme::Tier {
 public:
  static constexpr auto kOptions =
      mneme::options(mneme::integer("rows", 4, 1, 4096, "embedded rows that are riders"));
  explicit RidingRows(mneme::Setup& s) : rows_(s.integer("rows")) {
    mneme::QueueSettings settings;
    settings.scope = mneme::Scope::kModel;
    embedded_ = s.queue("embedded", settings);
    s.context_rows(rows_);
  }

  mneme::Riders begin(mneme::Segment& segment) override {
    const mneme::Rows rows = segment.queue(embedded_).rows();
    return {rows.hidden, rows.valid};
  }

  mneme::Tensor ride(mneme::Layer& l, const mneme::Ride& in) override {
    mneme::Attention call;
    call.q = in.q;
    call.k = slice(in.k, 1, 0, in.riders);
    call.v = slice(in.v, 1, 0, in.riders);
    if (in.valid) call.key_valid = slice(in.valid, 1, 0, in.riders);
    call.mask = MNEME_MASK_FULL;
    if (l.wants_probe("memory.alpha")) publish_alpha(l, in);
    return l.attention(call).z;
  }

  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    if (l.layer() != 0) return;
    const auto queue = l.queue(embedded_);
    queue.append(rows);
    if (queue.size() > rows_) queue.drop_oldest(queue.size() - rows_);
  }

 private:
  static void publish_alpha(mneme::Layer& l, const mneme::Ride& in) {
    const auto rows = static_cast<double>(in.riders);
    const mneme::Tensor place = mneme::arange(0.0, rows, 1.0, mneme::DType::kF32);
    const mneme::Tensor one = (place / rows + static_cast<double>(l.layer())) / 4.0;
    l.probe("memory.alpha",
            expand(reshape(one, {1, in.riders, 1}), {l.lanes(), in.riders, in.q.dim(2)}));
  }

  int64_t rows_;
  mneme::Queue embedded_;
};

}  // namespace

MNEME_PLUGIN(RidingRows, "test.riders", "0.1.0")
