// The one size of an arm's memory, and what the memory costs in other sizes: --equal, --capacity.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "host/compare/arms.hpp"
#include "host/config/options.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/run/runtime.hpp"

namespace mneme::compare {

// What a size costs.
enum class SizeCost {
  kStateBytes,    // declared bytes of the state of one lane while evaluating
  kAttendedRows,  // rows that a token may attend to beside its segment
};

// A size that a memory takes, and its cost.
struct PricedSize {
  std::int64_t size = 0;
  std::int64_t cost = 0;
};

// The size of an arm's memory: the first required integer option of the first tier that has one
// (rows, basis functions). Where no tier has one: the first integer option in the memory file, tier
// by tier, with which costs grow (the width of keys of a recurrent layer); one that a sweep or a
// setting of the arm gives is passed over. The arm is changed by nearest and set.
class MemorySize {
 public:
  // `option` is that of the command which chooses sizes, for messages: "--equal state". Errors:
  // Error (kUsage) when the memory file gives evaluations a size of their own (eval_rows), and when
  // the memory does not declare the bytes of its state; what making the arm throws.
  MemorySize(ArmSetup& arm, SizeCost cost, std::string option, const run::RuntimeOptions& options);

  // False when the memory has no such option; only cost() may be called then.
  [[nodiscard]] bool exists() const { return place_.has_value(); }
  [[nodiscard]] std::string key() const;                         // "memory.tier.0.rows"
  [[nodiscard]] std::int64_t before() const { return before_; }  // of the arm as it was given
  [[nodiscard]] std::int64_t cost() const { return cost_; }      // of before()

  void set(std::int64_t size);
  // Whether another size has another cost.
  [[nodiscard]] bool changes_cost();
  // The size whose cost is nearest to the target. Sizes that the memory refuses, such as those that
  // are no multiple of another option, are passed over.
  [[nodiscard]] PricedSize nearest(std::int64_t target);

 private:
  struct Place {
    std::size_t tier = 0;
    config::OptionSpec spec;
  };
  static std::optional<Place> required_place(const memory::Stack& stack);
  void find_given(const memory::Stack& stack);  // place_ and before_ of an option with a default

  [[nodiscard]] std::int64_t least() const;
  [[nodiscard]] std::int64_t most() const;
  [[nodiscard]] std::int64_t cost_of(const memory::Stack& stack) const;
  std::optional<PricedSize> price_from(std::int64_t size);
  // A larger size than before(), or where there is none the least; absent where the memory takes
  // none.
  std::optional<PricedSize> other_size();

  ArmSetup& arm_;
  SizeCost kind_;
  std::string option_;
  plugin::PluginLoader& loader_;
  memory::BackboneInfo info_;
  std::optional<Place> place_;
  std::int64_t cost_ = 0;
  std::int64_t before_ = 0;
};

// Error (kUsage) when a sweep or a setting of the arm gives `key`, which `option` chooses: the arm
// has its name from a value that it would not have.
void check_not_given(const ArmSetup& arm, const std::string& option, const std::string& key);

}  // namespace mneme::compare
