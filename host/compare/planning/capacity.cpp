#include "host/compare/planning/capacity.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "host/base/error.hpp"
#include "host/base/log.hpp"
#include "host/base/text.hpp"
#include "host/compare/planning/memory_size.hpp"

namespace mneme::compare {
namespace {

constexpr const char* kOption = "--capacity";
constexpr double kMostMultiple = 1e6;

[[noreturn]] void refuse_points(const std::string& option, const std::string& failed,
                                std::size_t least, const std::string& got) {
  throw_usage({.where = option,
               .failed = failed,
               .expected = str(least, " or more rising numbers of at least 1, such as 1,2,4,8"),
               .got = got});
}

double parse_multiple(std::string_view word, const std::string& option, std::size_t least) {
  double value = 0.0;
  const char* const end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value))
    refuse_points(option, "is no list of numbers", least, std::string(word));
  if (value < 1.0) refuse_points(option, "a point is below 1", least, std::string(word));
  if (value > kMostMultiple)
    refuse_points(option, "a point is above 1,000,000", least, std::string(word));
  return value;
}

// Refuses a memory that cannot be given other bytes.
void check_size(const ArmSetup& arm, MemorySize& size) {
  if (size.exists() && size.cost() > 0 && size.changes_cost())
    return check_not_given(arm, kOption, size.key());
  throw_usage({.where = arm.name,
               .failed = "--capacity finds no size that changes the bytes of this memory's state",
               .expected = "a memory with state whose bytes grow with its size: the first integer "
                           "option without a default, such as rows, or one that its file gives",
               .hint = "leave it out; mneme compare without --capacity trains it as it is"});
}

double share_of(std::int64_t bytes, std::int64_t target) {
  return static_cast<double>(bytes - target) / static_cast<double>(target);
}

// Adds the arm to the point, or says why it is left out.
void add_arm(ArmSetup& arm, MemorySize& size, CapacityPoint& point) {
  const PricedSize chosen = size.nearest(point.bytes);
  const double share = share_of(chosen.cost, point.bytes);
  if (std::abs(share) > kNearShare) {
    point.left_out.push_back(str(arm.name, ": ", size.key(), " = ", chosen.size, " has ",
                                 chosen.cost, " bytes of state, ",
                                 format_number(100.0 * std::abs(share), 0), " % ",
                                 share > 0.0 ? "above" : "below", ", and no size comes nearer"));
    return;
  }
  size.set(chosen.size);
  CapacityArm one{.setup = arm, .setting = str(size.key(), '=', chosen.size), .bytes = chosen.cost};
  one.setup.settings.push_back(one.setting);
  point.arms.push_back(std::move(one));
}

// Refuses a point at which every memory has the size of the point before: the same trainings.
void check_differs(const CapacityPoint& before, const CapacityPoint& point) {
  const auto is_same = [](const CapacityArm& a, const CapacityArm& b) {
    return a.setup.name == b.setup.name && a.setting == b.setting;
  };
  if (point.arms.empty() || !std::ranges::equal(before.arms, point.arms, is_same)) return;
  throw_usage(
      {.where = kOption,
       .failed = str("every memory has one size at the points ", before.multiple, " and ",
                     point.multiple),
       .expected = "points that are farther apart",
       .got = str(point.arms.front().setup.name, ' ', point.arms.front().setting, " at both")});
}

}  // namespace

std::vector<double> parse_multiples(const std::string& text, const std::string& option,
                                    std::size_t least) {
  std::vector<double> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const double value =
        parse_multiple(trimmed(std::string_view(text).substr(begin, end - begin)), option, least);
    if (!out.empty() && value <= out.back())
      refuse_points(option, "points do not rise", least, text);
    out.push_back(value);
    begin = end + 1;
  }
  if (out.size() < least)
    refuse_points(option, str(out.size(), out.size() == 1 ? " point is" : " points are", " given"),
                  least, text);
  return out;
}

std::vector<CapacityPoint> capacity_points(const std::vector<ArmSetup>& arms,
                                           const std::vector<double>& multiples,
                                           const run::RuntimeOptions& options) {
  // Memories are made in many sizes here; the arms say what they have to say when they are made.
  const LogListener silent([](LogLevel, std::string_view) { return false; });
  std::vector<ArmSetup> working = arms;
  std::vector<MemorySize> sizes;
  sizes.reserve(arms.size());
  for (ArmSetup& arm : working) {
    try {
      sizes.emplace_back(arm, SizeCost::kStateBytes, kOption, options);
    } catch (const Error& error) {
      throw error.with_context(arm.name);
    }
    check_size(arm, sizes.back());
  }
  const std::int64_t bytes = sizes.front().cost();
  std::vector<CapacityPoint> out;
  for (const double multiple : multiples) {
    CapacityPoint& point = out.emplace_back(CapacityPoint{
        .multiple = multiple,
        .bytes = static_cast<std::int64_t>(std::llround(multiple * static_cast<double>(bytes))),
        .arms = {},
        .left_out = {}});
    for (std::size_t i = 0; i < working.size(); ++i) add_arm(working[i], sizes[i], point);
    if (out.size() > 1) check_differs(out[out.size() - 2], point);
  }
  return out;
}

std::string text_of(const std::vector<CapacityPoint>& points) {
  std::string text = "bytes of state a lane:\n";
  for (const CapacityPoint& point : points) {
    std::vector<std::string> sizes;
    for (const CapacityArm& arm : point.arms)
      sizes.push_back(str(arm.setup.name, ' ', arm.setting, " (", arm.bytes, ')'));
    text += str("  ", point.multiple, "x, ", point.bytes, ": ",
                sizes.empty() ? "left out, no memory reaches it" : join(sizes, ", "), '\n');
    for (const std::string& line : point.left_out) text += str("    left out: ", line, '\n');
  }
  return text;
}

}  // namespace mneme::compare
