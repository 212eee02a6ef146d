// The small models that checks run a memory in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "host/config/options.hpp"
#include "host/validate/check.hpp"
#include "host/validate/laws.hpp"
#include "host/validate/session.hpp"

namespace mneme::validate {

inline constexpr std::int64_t kLanes = 3;
inline constexpr std::int64_t kVocabulary = 11;
inline constexpr std::int64_t kSegments = 4;  // of a run: the last ones find a used memory
// Numbers of two computations in f64 that are the same but for the order of sums.
inline constexpr double kSame = 1e-10;

// A model and how its tier is made.
struct Setting {
  config::ModelConfig model;
  backbone::ModelSetup setup;
  std::string tier_keys = {};             // more lines of the [[memory.tier]]
  std::vector<std::string> options = {};  // "option=value", besides the subject's
};

// f64, 2 layers of width 14 with 3 heads of 4, norms before, no dropout, and the first position
// scheme under which the plugin makes an instance. Errors: what the last one gave.
[[nodiscard]] Setting small_setting(const Subject& subject);
// The same under this scheme, which the plugin may refuse.
[[nodiscard]] Setting setting_with(const Subject& subject, config::PositionScheme position);

// The model with the subject's memory. Errors: as Stack.
[[nodiscard]] std::unique_ptr<Session> open(const Subject& subject, const Setting& setting);
[[nodiscard]] inline std::unique_ptr<Session> open(const Subject& subject) {
  return open(subject, small_setting(subject));
}
// The same; parameters of the memory that begin as zeros, such as a gate, have other values, or what
// a memory does would not show in losses.
[[nodiscard]] std::unique_ptr<Session> open_past_zeros(const Subject& subject);
[[nodiscard]] config::MemoryConfig memory_of(const Subject& subject, const Setting& setting);

// Tokens of a segment: 6, or fewer where the tier serves no more.
[[nodiscard]] std::int64_t segment_length(const Session& session);
// ids [lanes, segments * T + 1] by the subject's seed and `salt`.
[[nodiscard]] at::Tensor ids_of(const Subject& subject, const Session& session,
                                std::int64_t segments, std::uint64_t salt = 0,
                                std::int64_t lanes = kLanes);

inline constexpr config::PositionScheme kSchemes[] = {
    config::PositionScheme::kRelative, config::PositionScheme::kDisentangled,
    config::PositionScheme::kRotary,   config::PositionScheme::kAlibi,
    config::PositionScheme::kLearned,  config::PositionScheme::kNone};
inline constexpr memory::Phase kPhases[] = {memory::Phase::kTraining, memory::Phase::kEvaluation};
// The losses [B, segments * T] of a run over ids, as laws.hpp, in segments of segment_length.
[[nodiscard]] at::Tensor losses_of(Session& session, memory::StackState& state,
                                   const at::Tensor& ids);
// The laws on two texts of ids_of.
[[nodiscard]] Trial trial_of(const Subject& subject, Session& session);
// Throws Failed "<what> by <difference><why>" where numbers differ by more than the tolerance.
void expect_equal(const at::Tensor& got, const at::Tensor& expected, const std::string& what,
                  const std::string& why = "", double tolerance = kSame);
// Entries of a folder, as of "/proc/self/fd".
[[nodiscard]] std::size_t entries_of(const char* folder);

// The plugin's table, loaded. Errors: as PluginLoader::load.
[[nodiscard]] const plugin::LoadedPlugin& load(const Subject& subject,
                                               plugin::PluginLoader& loader);
[[nodiscard]] std::vector<config::OptionSpec> options_of(const Subject& subject);
// Whether the subject gives the option a value.
[[nodiscard]] bool is_given(const Subject& subject, const std::string& option);

}  // namespace mneme::validate
