// Declarations of parameters, slots and queues, and the ids that stand for them.
#pragma once

#include <vector>

#include "mneme/cpp/rows.hpp"

namespace mneme {
inline namespace sdk_0_1 {

// Ids of what a tier declared, for members of a tier class. A look-up by id is a little faster than
// one by name.
struct Parameter {
  mneme_parameter id = 0;
};
struct Slot {
  mneme_slot id = 0;
};
struct Counts {
  mneme_slot id = 0;
};
struct Queue {
  mneme_queue id = 0;
};
struct KernelId {
  mneme_kernel id = 0;
  uint32_t outputs = 0;
};

// How a parameter or a slot begins.
struct Init {
  uint32_t rule = MNEME_PARAMETER_ZEROS;
  double value = 0.0;
  double mean = 0.0;
  double deviation = 0.0;
  double low = 0.0;
  double high = 0.0;
  double gain = 0.0;
  int64_t fan_in = 0;
};
constexpr Init zeros() { return {}; }
constexpr Init constant_value(double value) {
  Init out{MNEME_PARAMETER_CONSTANT};
  out.value = value;
  return out;
}
constexpr Init normal(double mean, double deviation) {
  Init out{MNEME_PARAMETER_NORMAL};
  out.mean = mean;
  out.deviation = deviation;
  return out;
}
constexpr Init uniform(double low, double high) {
  Init out{MNEME_PARAMETER_UNIFORM};
  out.low = low;
  out.high = high;
  return out;
}
constexpr Init xavier_uniform(double gain = 1.0) {
  Init out{MNEME_PARAMETER_XAVIER_UNIFORM};
  out.gain = gain;
  return out;
}
// From -1/sqrt(fan in) to 1/sqrt(fan in); `fan_in` 0 = product of all extents but the first.
constexpr Init fan_in_uniform(int64_t fan_in = 0) {
  Init out{MNEME_PARAMETER_FAN_IN_UNIFORM};
  out.fan_in = fan_in;
  return out;
}

enum class Scope : uint32_t { kLayer = MNEME_SCOPE_LAYER, kModel = MNEME_SCOPE_MODEL };
enum class Gradient : uint32_t { kStop = MNEME_GRADIENT_STOP, kThrough = MNEME_GRADIENT_THROUGH };
enum class Lifetime : uint32_t { kRun = MNEME_LIFETIME_RUN, kSegment = MNEME_LIFETIME_SEGMENT };

// What is rarely given of a declaration; fields are those of mneme_parameter_decl, mneme_slot_decl
// and mneme_queue_decl (mneme/state.h).
struct ParameterSettings {
  Scope scope = Scope::kLayer;
  double lr_factor = 1.0;
  const char* group = nullptr;  // weight decay: null = the backbone's rule, "none" = never
};

// The start value of a slot: zeros(), constant_value(x), or a parameter of the slot's shape without
// lanes.
struct SlotStart {
  SlotStart(Init init, CallSite site = CallSite::here())  // NOLINT
      : start(init.rule == MNEME_PARAMETER_ZEROS ? MNEME_START_ZEROS : MNEME_START_CONSTANT),
        value(init.value) {
    if (init.rule != MNEME_PARAMETER_ZEROS && init.rule != MNEME_PARAMETER_CONSTANT) {
      fail(MNEME_E_INVALID_ARGUMENT,
           "a slot starts with zeros(), constant_value(x) or a parameter; random starts belong "
           "into a parameter",
           site);
    }
  }
  SlotStart(Parameter source) : start(MNEME_START_PARAMETER), parameter(source.id) {}  // NOLINT
  uint32_t start = MNEME_START_ZEROS;
  mneme_parameter parameter = 0;
  double value = 0.0;
};

struct SlotSettings {
  DType dtype = DType::kF32;
  Scope scope = Scope::kLayer;
  Gradient gradient = Gradient::kStop;
  Lifetime lifetime = Lifetime::kRun;
  uint32_t revision = 0;
  uint32_t flags = 0;  // MNEME_SLOT_*
};

struct QueueSettings {
  RowsKind kind = RowsKind::kHidden;
  Scope scope = Scope::kLayer;
  uint32_t attributes = 0;  // MNEME_ATTRIBUTE_*
  uint32_t revision = 0;
  int64_t start_rows = 0;
  int64_t capacity = 0;  // rows that the tier keeps at most; 0 = unknown, -1 = none
};

namespace detail {

// Names of what one instance declared, so that hooks may use names. A handful of entries: a scan
// beats a map.
class Directory {
 public:
  template <typename Id>
  struct Entry {
    std::string name;
    Id id;
  };
  std::vector<Entry<Parameter>> parameters;
  std::vector<Entry<Slot>> slots;
  std::vector<Entry<Counts>> counts;
  std::vector<Entry<Queue>> queues;
  std::vector<Entry<KernelId>> kernels;

  template <typename Id>
  static Id find(const std::vector<Entry<Id>>& entries, const char* kind, const char* name,
                 CallSite site) {
    for (const Entry<Id>& entry : entries) {
      if (entry.name == name) return entry.id;
    }
    std::string known;
    for (const Entry<Id>& entry : entries) known += (known.empty() ? "" : ", ") + entry.name;
    fail(MNEME_E_INVALID_ARGUMENT,
         std::string("no ") + kind + " \"" + name +
             "\" was declared in the constructor; declared: " + (known.empty() ? "none" : known),
         site);
  }
};

}  // namespace detail
}  // namespace sdk_0_1
}  // namespace mneme
