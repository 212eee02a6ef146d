// Bits and values that this host knows in the fields of structs that come from a plugin. Any other
// is refused, so that a later minor version may give it a meaning: a plugin that sets it by
// accident would otherwise change its behaviour then. Among them the bits by which a tier asks for
// inputs of its hooks (kWants).
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>

#include "host/base/text.hpp"
#include "mneme/plugin.h"

namespace mneme::plugin {

// An input of a hook that a tier gets only when its traits.wants ask for it.
struct Want {
  std::uint64_t bit;
  const char* name;   // of the bit
  const char* hook;   // that gets the input
  const char* input;  // for people
};

#define MNEME_HOST_WANT(bit, hook, input) \
  Want { bit, #bit, hook, input }
inline constexpr auto kWants = std::to_array<Want>({
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_X, "absorb", "x"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_Z, "absorb", "z"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_LSE, "absorb", "lse"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_Q, "absorb", "q"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_K, "absorb", "k"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_V, "absorb", "v"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_MASS, "absorb", "mass"),
    MNEME_HOST_WANT(MNEME_WANT_ABSORB_CONTEXT_KV, "absorb", "the context's k and v"),
    MNEME_HOST_WANT(MNEME_WANT_READ_Q, "read", "q"),
    MNEME_HOST_WANT(MNEME_WANT_READ_K, "read", "k"),
    MNEME_HOST_WANT(MNEME_WANT_READ_V, "read", "v"),
    MNEME_HOST_WANT(MNEME_WANT_READ_Z, "read", "z"),
    MNEME_HOST_WANT(MNEME_WANT_READ_LSE, "read", "lse"),
    MNEME_HOST_WANT(MNEME_WANT_READ_PROJECTED, "read", "the projected result"),
    MNEME_HOST_WANT(MNEME_WANT_READ_X, "read", "x"),
    MNEME_HOST_WANT(MNEME_WANT_READ_NORMED, "read", "the normed input"),
    MNEME_HOST_WANT(MNEME_WANT_FINISH_TOP, "finish", "the top output"),
    MNEME_HOST_WANT(MNEME_WANT_FINISH_LAYERS, "finish", "all layers' outputs"),
    MNEME_HOST_WANT(MNEME_WANT_FINISH_TARGETS, "finish", "targets"),
    MNEME_HOST_WANT(MNEME_WANT_FINISH_LOGP, "finish", "log-probabilities"),
    MNEME_HOST_WANT(MNEME_WANT_FINISH_RIDERS, "finish", "riders"),
});
#undef MNEME_HOST_WANT

// A field that holds bits, or one of several values.
template <typename T>
struct KnownField {
  const char* name;
  std::uint64_t (*of)(const T&);
  bool is_bits;
  std::uint64_t least;  // of values
  std::uint64_t most;   // of values; of bits: all that are known
  const char* family;   // what a plugin may write: "MNEME_ROWS_*"; "" = no bit is defined
};

template <typename T, typename Value>
T struct_of(Value T::*);  // declared alone: the struct that has a member
template <auto kMember>
using StructOf = decltype(struct_of(kMember));

template <auto kMember>
constexpr std::uint64_t value_of(const StructOf<kMember>& from) {
  return from.*kMember;
}
template <auto kMember>
constexpr KnownField<StructOf<kMember>> bits(const char* name, std::uint64_t known = 0,
                                             const char* family = "") {
  return {name, value_of<kMember>, true, 0, known, family};
}
template <auto kMember>
constexpr KnownField<StructOf<kMember>> one_of(const char* name, std::uint64_t least,
                                               std::uint64_t most, const char* family) {
  return {name, value_of<kMember>, false, least, most, family};
}

// The fields of T. A struct that a plugin fills must be listed here before the host can take it.
template <typename T>
inline constexpr auto kKnownFields = nullptr;

template <>
inline constexpr auto kKnownFields<mneme_note> =
    std::array{bits<&mneme_note::flags>("flags", MNEME_NOTE_DIRTY, "MNEME_NOTE_*")};
template <>
inline constexpr auto kKnownFields<mneme_plugin_answer> =
    std::array{bits<&mneme_plugin_answer::flags>("flags")};
template <>
inline constexpr auto kKnownFields<mneme_plugin> = std::array{bits<&mneme_plugin::flags>("flags")};
template <>
inline constexpr auto kKnownFields<mneme_option> =
    std::array{bits<&mneme_option::flags>("flags",
                                          MNEME_OPTION_AT_EVALUATION | MNEME_OPTION_REQUIRED |
                                              MNEME_OPTION_BOUNDED | MNEME_OPTION_TRAINED,
                                          "MNEME_OPTION_*")};

constexpr std::uint64_t known_wants() {
  std::uint64_t bits = 0;
  for (const Want& want : kWants) bits |= want.bit;
  return bits;
}

template <>
inline constexpr auto kKnownFields<mneme_tier_traits> = std::array{
    bits<&mneme_tier_traits::flags>("flags",
                                    MNEME_TIER_RELEASES | MNEME_TIER_RIDERS |
                                        MNEME_TIER_TOKEN_BIAS | MNEME_TIER_CUT_INVARIANT |
                                        MNEME_TIER_GROUPED_KEYS | MNEME_TIER_REPLACES_ATTENTION,
                                    "MNEME_TIER_*"),
    bits<&mneme_tier_traits::wants>("wants", known_wants(), "MNEME_WANT_*"),
    one_of<&mneme_tier_traits::absorb>("absorb", MNEME_ABSORB_NEVER, MNEME_ABSORB_AFTER_SEGMENT,
                                       "MNEME_ABSORB_*"),
    bits<&mneme_tier_traits::sites>("sites", MNEME_SITE_HEADS | MNEME_SITE_OUT, "MNEME_SITE_*")};
template <>
inline constexpr auto kKnownFields<mneme_riders> = std::array{bits<&mneme_riders::flags>("flags")};
template <>
inline constexpr auto kKnownFields<mneme_read> = std::array{
    bits<&mneme_read::flags>("flags"),
    one_of<&mneme_read::merge>("merge", MNEME_MERGE_NONE, MNEME_MERGE_REPLACE, "MNEME_MERGE_*")};

template <>
inline constexpr auto kKnownFields<mneme_rows> =
    std::array{bits<&mneme_rows::flags>("flags"),
               one_of<&mneme_rows::kind>("kind", MNEME_ROWS_HIDDEN, MNEME_ROWS_KV, "MNEME_ROWS_*")};
template <>
inline constexpr auto kKnownFields<mneme_block> =
    std::array{bits<&mneme_block::flags>("flags"),
               one_of<&mneme_block::position_kind>("position_kind", MNEME_POSITION_PLACE,
                                                   MNEME_POSITION_NONE, "MNEME_POSITION_*")};
template <>
inline constexpr auto kKnownFields<mneme_attention> = std::array{
    bits<&mneme_attention::flags>(
        "flags", MNEME_ATTENTION_POSITIONS | MNEME_ATTENTION_CONTENT_BIAS | MNEME_ATTENTION_DROPOUT,
        "MNEME_ATTENTION_*"),
    one_of<&mneme_attention::mask>("mask", MNEME_MASK_CAUSAL, MNEME_MASK_WINDOW, "MNEME_MASK_*")};

template <>
inline constexpr auto kKnownFields<mneme_parameter_decl> = std::array{
    bits<&mneme_parameter_decl::flags>("flags"),
    one_of<&mneme_parameter_decl::scope>("scope", MNEME_SCOPE_LAYER, MNEME_SCOPE_MODEL,
                                         "MNEME_SCOPE_*"),
    one_of<&mneme_parameter_decl::init>("init", MNEME_PARAMETER_ZEROS,
                                        MNEME_PARAMETER_FAN_IN_UNIFORM, "MNEME_PARAMETER_*")};
template <>
inline constexpr auto kKnownFields<mneme_slot_decl> = std::array{
    bits<&mneme_slot_decl::flags>("flags", MNEME_SLOT_COUNTS, "MNEME_SLOT_*"),
    one_of<&mneme_slot_decl::scope>("scope", MNEME_SCOPE_LAYER, MNEME_SCOPE_MODEL, "MNEME_SCOPE_*"),
    one_of<&mneme_slot_decl::dtype>("dtype", 0, MNEME_BOOL, "0, MNEME_F32 to MNEME_BOOL"),
    one_of<&mneme_slot_decl::gradient>("gradient", MNEME_GRADIENT_STOP, MNEME_GRADIENT_THROUGH,
                                       "MNEME_GRADIENT_*"),
    one_of<&mneme_slot_decl::lifetime>("lifetime", MNEME_LIFETIME_RUN, MNEME_LIFETIME_SEGMENT,
                                       "MNEME_LIFETIME_*"),
    one_of<&mneme_slot_decl::start>("start", MNEME_START_ZEROS, MNEME_START_PARAMETER,
                                    "MNEME_START_*")};
template <>
inline constexpr auto kKnownFields<mneme_queue_decl> = std::array{
    bits<&mneme_queue_decl::flags>("flags"),
    one_of<&mneme_queue_decl::scope>("scope", MNEME_SCOPE_LAYER, MNEME_SCOPE_MODEL,
                                     "MNEME_SCOPE_*"),
    one_of<&mneme_queue_decl::kind>("kind", MNEME_ROWS_HIDDEN, MNEME_ROWS_KV, "MNEME_ROWS_*"),
    bits<&mneme_queue_decl::attributes>(
        "attributes", MNEME_ATTRIBUTE_POSITION | MNEME_ATTRIBUTE_MASS, "MNEME_ATTRIBUTE_*")};
template <>
inline constexpr auto kKnownFields<mneme_kernel_decl> = std::array{bits<&mneme_kernel_decl::flags>(
    "flags", MNEME_KERNEL_CAPTURABLE | MNEME_KERNEL_DETERMINISTIC, "MNEME_KERNEL_*")};
template <>
inline constexpr auto kKnownFields<mneme_kernel_plan> = std::array{
    bits<&mneme_kernel_plan::flags>("flags", MNEME_KERNEL_NO_BACKWARD, "MNEME_KERNEL_NO_BACKWARD")};
template <>
inline constexpr auto kKnownFields<mneme_shape> = std::array{
    bits<&mneme_shape::flags>("flags"),
    one_of<&mneme_shape::dtype>("dtype", MNEME_F32, MNEME_BOOL, "MNEME_F32 to MNEME_BOOL")};
template <>
inline constexpr auto kKnownFields<mneme_error> = std::array{bits<&mneme_error::flags>("flags")};

// An unknown value or bit that a field holds.
struct UnknownValue {
  std::string field;
  std::string expected;
  std::string got;

  [[nodiscard]] std::string text() const {
    return str(field, ": expected ", expected, ", got ", got);
  }
};

// For bits that are no field of a struct: `family` as in KnownField.
inline std::optional<UnknownValue> unknown_bits(const std::string& field, std::uint64_t value,
                                                std::uint64_t known, const char* family) {
  const std::uint64_t unknown = value & ~known;
  if (unknown == 0) return std::nullopt;
  return UnknownValue{field,
                      *family == '\0' ? std::string("0 (no bit of it is defined)")
                                      : str("bits of ", family, " alone"),
                      "the unknown bits 0x" + digits_text(unknown, 16)};
}

// A struct that a plugin fills. A plugin of a later minor version may know more fields than this
// host, so zeroed bytes for them follow.
template <typename T>
struct PluginFilled {
  T value = MNEME_INIT(T);
  unsigned char extension[512] = {};
};

// The text of a fixed field, which a plugin may have filled to its very end.
inline std::string fixed_text(std::span<const char> field) {
  return {field.data(), ::strnlen(field.data(), field.size())};
}

// The first field of `from` that holds something unknown.
template <typename T>
std::optional<UnknownValue> unknown_value(const T& from) {
  for (const KnownField<T>& field : kKnownFields<T>) {
    const std::uint64_t value = field.of(from);
    if (field.is_bits) {
      if (auto unknown = unknown_bits(field.name, value, field.most, field.family)) return unknown;
    } else if (value < field.least || value > field.most) {
      return UnknownValue{field.name, str("one of ", field.family), str(value)};
    }
  }
  return std::nullopt;
}

}  // namespace mneme::plugin
