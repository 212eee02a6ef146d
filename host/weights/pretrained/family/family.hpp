// Families of pretrained decoders as Hugging Face model folders hold them: what the keys of
// config.json mean and how tensors are called. A family is a file of host/weights/families that
// the build puts into the program; code names none of them.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/text.hpp"

namespace mneme::weights {

// What one key of config.json means.
struct KeyRule {
  std::string key;
  std::vector<std::string> sets = {};  // our keys, "model.width", that get its value
  std::vector<std::string> also = {};  // other spellings of the key
  Json fallback = {};                  // the value of an absent key; null = none
  bool may_be_null = false;    // null, and an absent key without fallback: our own default holds
  bool may_be_absent = false;  // likewise, but null is refused
  bool may_be_empty = false;   // {} and [] are as null
  // Values by the words that config.json has for them; the first of equals is written.
  std::vector<std::pair<std::string, std::string>> words = {};
  std::optional<std::vector<Json>> only = {};  // the values that are supported; null apart
  std::string same_as = {};  // a key whose value stands for this one too: others get a warning

  // What kind of value the key has: "an integer", "a number", "a boolean", "a string".
  [[nodiscard]] std::string_view kind() const;
};

// Rows of one of our parameters as a tensor of the folder.
struct FamilyPart {
  std::string name;            // with the family's prefix; {layer} in place of the layer's number
  std::string rows = {};       // "query", "key" or "ff" say how many; "" = all
  bool is_transposed = false;  // the folder has [inputs, outputs]
};

struct FamilyTensor {
  std::string parameter;  // ours, with {layer}
  std::vector<FamilyPart> parts;
};

// A tensor of folders that is no parameter.
struct FamilyConstant {
  std::string name;
  // "causal_mask": the lower triangle of ones, [1, 1, n, n] of any type, computed again by an
  // export; "kept": small, kept as it was.
  std::string kind;
};

struct Family {
  std::string model_type;
  std::vector<std::string> architectures;
  std::string prefix;             // of the base model's tensors; files without it are read too
  bool is_rotary = false;         // rope_theta, rope_scaling and rope_parameters are understood
  bool has_local_rotary = false;  // and rope_local_base_freq, the base of layers with a window
  // Sliding windows: "always" = sliding_window is that of all layers, or where layer_types says;
  // "switched" = use_sliding_window turns it on, from layer max_window_layers on, or likewise;
  // "alternating" = of every other layer from the first on, likewise; "patterned" = of all but
  // every sliding_window_pattern-th layer, likewise; "" = there are none.
  std::string window;
  std::vector<std::pair<std::string, Json>> model;  // [model] of every member: our key, its value
  std::vector<KeyRule> keys;
  std::set<std::string> unused;  // keys without influence on the output in evaluation
  std::set<std::string> unread;  // keys of other families, likewise: passed over with a message
  std::vector<FamilyTensor> tensors;
  std::vector<FamilyConstant> constants;

  [[nodiscard]] const KeyRule* find_key(std::string_view key) const;
  // The parts of a parameter of ours with the layer's number filled in; empty when the family has
  // no such parameter.
  [[nodiscard]] std::vector<FamilyPart> parts_of(const std::string& parameter) const;
  // A line about keys of [model] as one about those of config.json.
  [[nodiscard]] std::string in_its_words(std::string_view line) const;
  // The kind of a constant by its name, with the prefix; "" when it is none.
  [[nodiscard]] std::string constant_kind(const std::string& name) const;
};

// True for a key that no family reads and whose name or value says that it is no setting in use:
// names that begin with "_" are notes and the library's own; null, false, 0, "", [] and {} turn
// nothing on.
[[nodiscard]] bool is_idle(std::string_view key, const Json& value);

// Every family that the program knows, by model_type.
[[nodiscard]] const std::vector<Family>& families();

// The family of a model_type; nullptr when it is unknown.
[[nodiscard]] const Family* find_family(std::string_view model_type);

// "gpt2, llama, ...", for messages.
[[nodiscard]] std::string family_list();

// One family of a text, with those that it may name as its base; for tests. Error (kUsage) with
// every line that is wrong.
[[nodiscard]] Family parse_family(const std::string& name, std::string_view text);

}  // namespace mneme::weights
