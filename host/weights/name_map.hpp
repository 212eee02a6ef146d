// Names of an official program's weights, read from a file that a plugin's author ships beside the
// library, so that the host names no plugin. docs/weights.md has the format.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/text.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::weights {

// A tensor of the official state dict that holds some rows of one of our parameters. The rows of
// all parts of a parameter follow each other; `rows` is this part's share in relation to the sum of
// all parts' shares.
struct NamePart {
  std::string official;
  std::int64_t rows = 1;
};

// A tensor of the official state dict that is no parameter: read and kept as it is, written with
// this value where nothing was kept.
struct UnusedTensor {
  std::string official;
  std::vector<std::int64_t> shape;
  double value = 0.0;
};

// An argument of the official constructor, for the metadata of files.
struct OfficialArgument {
  std::string name;
  Json value;
  config::Value when = {};  // a table of options of the tier; empty = always
};

// One file. Names hold "{layer}" in place of a layer's number.
struct NameMap {
  // Error (kUsage) when the file cannot be read, and with every line that is wrong.
  [[nodiscard]] static NameMap read(const std::filesystem::path& path);
  // The map beside a plugin's library: "<its name without .so>.names.toml". Absent when there is no
  // such file. Errors: as read.
  [[nodiscard]] static std::optional<NameMap> beside(const std::filesystem::path& library);

  std::filesystem::path path = {};
  std::string format = {};
  std::string plugin = {};                  // the id of the plugin whose parameters it names
  std::vector<std::string> positions = {};  // words of model.position that its code can express
  // Options of the tier with which its official program uses the Transformer-XL's names, so that
  // the map does not apply; an empty table when it always applies.
  config::Value unless = {};
  std::vector<std::pair<std::string, std::vector<NamePart>>> backbone = {};  // by our names
  std::vector<std::pair<std::string, std::string>> memory = {};              // likewise
  std::vector<UnusedTensor> unused_patterns = {};
  std::vector<OfficialArgument> all_arguments = {};

  // True when a tier has these options, as its memory file gives them; an option that it leaves out
  // counts as unequal.
  [[nodiscard]] bool excludes(const config::Value& options) const;

  // The parts of a backbone parameter, with the layer's number filled in; empty when the official
  // Transformer-XL's name holds.
  [[nodiscard]] std::vector<NamePart> parts_of(const std::string& parameter) const;
  // The official name of a tier's parameter "memory.<index>.<plugin id>.<layer or model>.<name>";
  // "" when it has none.
  [[nodiscard]] std::string name_of_tier_parameter(const std::string& parameter) const;
  // Tensors that are no parameters of a model of `layers` layers.
  [[nodiscard]] std::vector<UnusedTensor> unused(std::int64_t layers) const;
  // The arguments for a tier with these options, as its memory file gives them; an option that it
  // leaves out counts as unequal. Later lines of the file win.
  [[nodiscard]] std::map<std::string, Json> arguments(const config::Value& options) const;
  // True when a name is one of the map's own, not one of the official Transformer-XL.
  [[nodiscard]] bool has_own(const std::string& official) const;
};

// --- Names of tensors with a mark in place of a layer's number ---

inline constexpr std::string_view kLayerMark = "{layer}";

// How often the mark occurs in a name. Patterns have it once, or never.
int layer_marks(std::string_view name);

// The pattern with a number in place of its mark.
std::string filled(std::string_view pattern, std::string_view layer);

// The layer's number in a name that the pattern fits, "" for a pattern without a mark; absent when
// it does not fit.
std::optional<std::string> layer_in(std::string_view name, std::string_view pattern);

}  // namespace mneme::weights
