// mneme/plugin.hpp: the C++17 layer over the C ABI, header-only. A useful memory fits on one page:
//
//   #include "mneme/plugin.hpp"
//
//   class DecayedMean : public mneme::Tier {
//    public:
//     static constexpr auto kOptions =
//         mneme::options(mneme::real("decay", 0.9, 0.0, 1.0, "weight of the past"));
//     explicit DecayedMean(mneme::Setup& s) : decay_(s.real("decay")) {
//       s.parameter("gate", {s.width()}, mneme::zeros());
//       s.slot("mean", {mneme::kLanes, s.width()}, mneme::zeros());
//     }
//     void absorb(mneme::Layer& l, const mneme::Rows& rows) override {  // rows [B, m, D]
//       l.slot("mean") = decay_ * l.slot("mean") + (1 - decay_) * mean(rows.hidden, 1);
//     }
//     mneme::Read read(mneme::Layer& l, const mneme::Queries&) override {
//       return mneme::add(unsqueeze(sigmoid(l.parameter("gate")) * l.slot("mean"), 1));
//     }
//
//    private:
//     double decay_;
//   };
//   MNEME_PLUGIN(DecayedMean, "org.example.decayed_mean", "0.1.0")
//
// Nothing here crosses the boundary: what crosses is the C ABI of plugin.h. All names live in an
// inline namespace of the SDK's version, so that plugins of two SDKs never share code. Include it
// in any number of files of a plugin; MNEME_PLUGIN stands in exactly one.
//
//   cpp/failure.hpp  errors            cpp/tensor.hpp  Tensor, Shape     cpp/ops.hpp      ops as
//   functions, operators cpp/options.hpp  option schema     cpp/setup.hpp   declarations
//   cpp/kernel.hpp   kernels as classes cpp/tier.hpp     Tier, Read        cpp/segment.hpp,
//   cpp/layer.hpp    what hooks get
#ifndef MNEME_PLUGIN_HPP_
#define MNEME_PLUGIN_HPP_

#include "mneme/cpp/entry.hpp"
#include "mneme/cpp/ops.hpp"

// Host groups that every plugin of this layer calls. Kernels, randomness and probes are asked for
// when first used.
#define MNEME_PLUGIN_CPP_FEATURES \
  "mneme.tensor/1 mneme.op/1 mneme.state/1 mneme.layer/1 mneme.config/1"

// The entry symbol, the note and the table of the memory `Class`; id and version are string
// literals.
#define MNEME_PLUGIN(Class, id_text, version_text) \
  MNEME_PLUGIN_WITH_FEATURES(Class, id_text, version_text, MNEME_PLUGIN_CPP_FEATURES)

// As MNEME_PLUGIN, with the host groups that the plugin cannot do without.
#define MNEME_PLUGIN_WITH_FEATURES(Class, id_text, version_text, features_text)          \
  MNEME_PLUGIN_NOTE(id_text, version_text, features_text);                               \
  extern "C" MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer, \
                                                          mneme_plugin_answer* answer) { \
    static constexpr mneme_plugin kTable =                                               \
        ::mneme::detail::Hooks<Class>::table(id_text, version_text);                     \
    return mneme_sdk_negotiate(offer, answer, &kTable);                                  \
  }

#endif  // MNEME_PLUGIN_HPP_
