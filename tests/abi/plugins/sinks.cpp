// Attention sinks (StreamingLLM, Xiao et al. 2024) without a window: the first rows that a lane
// reads are kept until it is reset. While a lane has fewer than `rows`, the newest places of the
// block are empty.
#include <algorithm>

#include "mneme/plugin.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

class Sinks : public mneme::Tier {
 public:
  static constexpr auto kOptions = mneme::options(
      mneme::integer("rows", 4, 1, 4096, "first rows of a lane that are kept"),
      mneme::boolean("queued", false, "as a block of a queue, whose projections the host keeps"),
      mneme::integer("declared", 0, 0, 4096, "context rows that are declared, 0 = rows"));
  explicit Sinks(mneme::Setup& s) : rows_(s.integer("rows")), is_queued_(s.boolean("queued")) {
    first_ = s.slot("first", {mneme::kLanes, rows_, s.width()});
    queue_ = s.queue("kept");
    s.context_rows(s.integer("declared") == 0 ? rows_ : s.integer("declared"));
  }

  void context(mneme::Layer& l) override {
    if (is_queued_) {
      l.emit(queue_);
    } else {
      l.emit(rows_of(l, l.slot(first_), 0));
    }
  }

  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    const mneme::Tensor old = l.slot(first_);
    std::vector<int64_t> source;
    std::vector<uint8_t> is_old;
    bool grows = false;
    for (int64_t b = 0; b < l.lanes(); ++b) {
      const int64_t have = std::min(l.tokens(b), rows_);
      grows = grows || have < rows_;
      for (int64_t r = 0; r < rows_; ++r) {
        is_old.push_back(r < have ? 1 : 0);
        source.push_back(std::clamp<int64_t>(r - have, 0, l.length() - 1));
      }
    }
    const mneme::Shape all({l.lanes(), rows_, old.dim(2)});
    const auto of_rows = [&](const auto& values) {
      return expand(unsqueeze(mneme::from_data({l.lanes(), rows_}, values), 2), all);
    };
    const mneme::Tensor fresh = gather(cast(rows.hidden, old.dtype()), of_rows(source), 1);
    l.slot(first_) = where(of_rows(is_old), old, fresh);
    if (is_queued_ && grows) l.queue(queue_).assign(rows_of(l, l.slot(first_), 1));
  }

 private:
  // Those that the lanes have before this segment, or (segments = 1) with it.
  mneme::Rows rows_of(const mneme::Layer& l, const mneme::Tensor& kept, int64_t segments) const {
    std::vector<uint8_t> valid;
    for (int64_t b = 0; b < l.lanes(); ++b) {
      const int64_t have = l.tokens(b) + segments * l.valid_count(b);
      for (int64_t r = 0; r < rows_; ++r) valid.push_back(r < have ? 1 : 0);
    }
    return mneme::Rows::of_hidden(cast(kept, l.compute_dtype()),
                                  mneme::from_data({l.lanes(), rows_}, valid));
  }

  int64_t rows_;
  bool is_queued_;
  mneme::Slot first_;
  mneme::Queue queue_;
};

}  // namespace

MNEME_PLUGIN(Sinks, "test.sinks", "0.1.0")
