// LaMemo's look-ahead memory as a tier [Ji et al. 2022, section 3].
#pragma once

#include "kernels/look_ahead.hpp"
#include "mneme/cpp/tier.hpp"
#include "settings.hpp"

namespace lamemo {

// The newest `rows` embedded tokens are riders: with every segment they pass all layers again,
// together with its tokens. In each layer a memory row attends to those keys to its right that it
// has not attended to before [eq. 7], and the result is merged with that of all earlier keys: the
// attention's context C and log-sum-exp s [eq. 8 to 11]. Tokens attend to the memory rows as they
// would to a cache. With the layer's own q, k, v and distances |i - j|, only the position bias
// of the right side is the memory's [eq. 10].
//
// State: the embedded rows; per layer C and s of every row, detached between segments. Inside a
// segment memory rows carry gradient through all layers.
class LaMemo : public mneme::Tier {
 public:
  static constexpr const char* kId = "org.mneme.lamemo";
  static constexpr const char* kSummary =
      "LaMemo: memory rows that look ahead at newer tokens, with what they have seen interpolated "
      "(Ji et al. 2022)";
  static constexpr auto kOptions = Settings::kOptions;

  explicit LaMemo(mneme::Setup& s);
  mneme::Riders begin(mneme::Segment& segment) override;
  void context(mneme::Layer& l) override;
  mneme::Tensor ride(mneme::Layer& l, const mneme::Ride& in) override;
  void absorb(mneme::Layer& l, const mneme::Rows& fed) override;

 private:
  // The accumulated attention of the rows, in the type of sums.
  struct Attended {
    mneme::Tensor context;  // C [B,M,H,d]
    mneme::Tensor lse;      // s [B,M,H]; -infinity = nothing
  };
  // Keys that memory rows look at: places first .. first+keys-1, of which a row attends those at
  // least `least` places after it.
  struct Window {
    int64_t first;
    int64_t keys;
    int64_t least;
  };
  struct Biases {
    mneme::Tensor content, position;  // [H,d]
  };

  void declare(mneme::Setup& s);
  Window window(const mneme::Layer& l, int64_t riders) const;
  Attended carried(const mneme::Layer& l, int64_t riders) const;
  static Attended nothing_like(const Attended& a);
  Biases biases(const mneme::Layer& l) const;
  Attended look_ahead(mneme::Layer& l, const mneme::Ride& in, const Attended& before) const;
  Attended look_ahead_with_dropout(mneme::Layer& l, const mneme::Ride& in,
                                   const Attended& before) const;
  Attended refresh(mneme::Layer& l, const mneme::Ride& in) const;
  Attended interpolate(const Attended& before, const Attended& ahead, mneme::Tensor& alpha) const;
  void keep_attended(mneme::Layer& l) const;
  void keep_cached(mneme::Layer& l, const mneme::Rows& fed) const;
  // Of riders and segment together `rows` stay.
  void release_oldest(mneme::Layer& l, const mneme::Rows& fed) const;

  Settings settings_;
  double scale_;  // of scores
  bool drops_attention_;
  mneme::DType sums_;
  LookAhead look_ahead_;
  mneme::KernelId look_ahead_id_;
  mneme::Parameter position_bias_, content_bias_;
  mneme::Queue embedded_;  // scope model; of the layers' inputs without look-ahead
  mneme::Slot context_, lse_;
  mneme::Slot riders_, riders_valid_;  // of this segment: the layer's input
};

}  // namespace lamemo
