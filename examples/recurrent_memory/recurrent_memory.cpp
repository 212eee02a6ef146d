// recurrent_memory: vectors that stand at both ends of a segment and are carried to the next one.
#include "mneme/plugin.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

class RecurrentMemory : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "memory vectors before and behind each segment, carried with their gradient (Recurrent "
      "Memory "
      "Transformer, Bulatov et al. 2022); an example with riders";
  static constexpr auto kOptions =
      mneme::options(mneme::integer("rows", 8, 0, 4096, "memory vectors m; 0 = no memory"));

  explicit RecurrentMemory(mneme::Setup& s) : rows_(s.integer("rows")) {
    if (rows_ == 0) {
      s.has_no_riders();
      return;
    }
    mneme::ParameterSettings of_model;
    of_model.scope = mneme::Scope::kModel;
    const mneme::Parameter start =
        s.parameter("start", {rows_, s.width()}, mneme::normal(0.0, 0.02), of_model);
    mneme::SlotSettings settings;
    settings.scope = mneme::Scope::kModel;
    settings.gradient = mneme::Gradient::kThrough;
    memory_ = s.slot("memory", {mneme::kLanes, rows_, s.width()}, start, settings);
    s.context_rows(rows_);
    s.wants(MNEME_WANT_FINISH_RIDERS);
  }

  // Twice the memory: rows that will be the new one, which no token sees, then rows that all see.
  mneme::Riders begin(mneme::Segment& segment) override {
    if (rows_ == 0) return {};
    const Tensor memory = segment.slot(memory_);
    return {cat({memory, memory}, 1), {}, rows_};
  }

  // k, v: new rows, old rows, tokens. The old rows see themselves; the new ones see everything.
  mneme::Tensor ride(mneme::Layer& l, const mneme::Ride& in) override {
    mneme::Attention old, all;
    old.q = slice(in.q, 1, rows_, 2 * rows_);
    old.k = slice(in.k, 1, rows_, 2 * rows_);
    old.v = slice(in.v, 1, rows_, 2 * rows_);
    all.q = slice(in.q, 1, 0, rows_);
    all.k = in.k;
    all.v = in.v;
    all.key_valid = in.valid;
    old.mask = all.mask = MNEME_MASK_FULL;
    return cat({l.attention(all).z, l.attention(old).z}, 1);
  }

  void finish(mneme::Segment& segment, const mneme::Finish& in) override {
    if (rows_ == 0) return;
    mneme::SlotValue memory = segment.slot(memory_);
    memory = cast(slice(in.riders, 1, 0, rows_), memory.get().dtype());
  }

 private:
  int64_t rows_;
  mneme::Slot memory_;
};

}  // namespace

MNEME_PLUGIN(RecurrentMemory, "org.example.recurrent_memory", "0.1.0")
