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
// Nothing here crosses the boundary: the C ABI of plugin.h does, which also explains stages and
// hooks. All names live in an inline namespace of the SDK's version, so that plugins of two SDKs
// never share code. Include it in any number of files of a plugin; MNEME_PLUGIN is in exactly one
// of them.
//
// Functions throw mneme::Failure with the host's code and text and the line of the hook or
// constructor that made the call, operators included; an input that is empty because the tier does
// not want it names its MNEME_WANT_* bit. What leaves a hook becomes the host's mneme_error.
//
//   cpp/failure.hpp        errors                    cpp/tensor.hpp    Tensor, Shape
//   cpp/ops.hpp            ops as functions          cpp/options.hpp   option schema
//   cpp/setup.hpp, cpp/state.hpp   declarations      cpp/tier.hpp      Tier, Read
//   cpp/segment.hpp, cpp/layer.hpp, cpp/rows.hpp     what hooks get
//   cpp/kernel.hpp         kernels as classes        cpp/half.hpp      bf16 and f16
//   cpp/kernel_checks.hpp  errors of their shapes    cpp/element.hpp   element types for .cu files
//   cpp/parallel.hpp       the host's threads        cpp/log.hpp       lines for the host's log
//
// mneme_kernels (sdk/kernels), for the inner parts of kernels, is not part of it.
#ifndef MNEME_PLUGIN_HPP_
#define MNEME_PLUGIN_HPP_

#include "mneme/cpp/entry.hpp"
#include "mneme/cpp/kernel_checks.hpp"
#include "mneme/cpp/log.hpp"
#include "mneme/cpp/ops.hpp"
#include "mneme/cpp/parallel.hpp"
#include "mneme/sdk.h"

// The host's function groups that this layer uses, for the note: those that it always calls, and
// with "?" those that it can do without. The host gives no group that the note does not list.
#define MNEME_PLUGIN_CPP_FEATURES                                        \
  "mneme.tensor/1 mneme.op/1 mneme.state/1 mneme.layer/1 mneme.config/1" \
  " mneme.report/1 mneme.log/1? mneme.probe/1? mneme.parallel/1?"

// The entry symbol, the note and the table of the memory `Class`; id and version are string
// literals.
#define MNEME_PLUGIN(Class, id_text, version_text) \
  MNEME_PLUGIN_WITH_FEATURES(Class, id_text, version_text, MNEME_PLUGIN_CPP_FEATURES)

// As MNEME_PLUGIN, with the list of groups that the note gets. A plugin with kernels or random
// draws adds theirs: MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL " " MNEME_GROUP_RANDOM.
#define MNEME_PLUGIN_WITH_FEATURES(Class, id_text, version_text, features_text)          \
  MNEME_PLUGIN_NOTE(id_text, version_text, features_text);                               \
  extern "C" MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer, \
                                                          mneme_plugin_answer* answer) { \
    static constexpr mneme_plugin kTable = ::mneme::detail::Hooks<Class>::table(         \
        id_text, version_text,                                                           \
        [](const mneme_host* host, mneme_get_group_fn get_group, mneme_error*) {         \
          return ::mneme::detail::look_up_groups(host, get_group, features_text);        \
        });                                                                              \
    return mneme_sdk_negotiate(offer, answer, &kTable);                                  \
  }

#endif  // MNEME_PLUGIN_HPP_
