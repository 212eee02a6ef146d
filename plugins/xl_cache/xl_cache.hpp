// Transformer-XL's segment cache as a tier [Dai et al. 2019, section 3.2].
#pragma once

#include "kernels/cache_update.hpp"
#include "mneme/cpp/tier.hpp"

namespace xl_cache {

// Keeps the newest `rows` layer inputs of every served layer, detached, in one queue; tokens attend
// to them as if they stood before the segment; what no longer fits is released to the next tier.
class XlCache : public mneme::Tier {
 public:
  static constexpr const char* kSummary =
      "Transformer-XL's segment cache: the newest rows of every layer's input (Dai et al. 2019)";
  static constexpr double kMaxRows = 1 << 30;
  static constexpr auto kOptions = mneme::options(
      mneme::integer("rows", mneme::kRequired, 1, kMaxRows, "rows kept for each layer and lane")
          .at_evaluation());

  explicit XlCache(mneme::Setup& s);
  void absorb(mneme::Layer& l, const mneme::Rows& fed) override;
  void context(mneme::Layer& l) override;

 private:
  static constexpr int64_t kMostPieces = 64;

  // Whether a lane has rows, in the cache or in `fed`, that are none of its own.
  bool has_padding(mneme::Layer& l, const mneme::Rows& fed) const;
  void evict(mneme::Layer& l, const mneme::Rows& fed, int64_t held) const;

  int64_t rows_;
  mneme::Queue cache_;
  CacheUpdate update_;
  mneme::KernelId update_id_;
};

}  // namespace xl_cache
