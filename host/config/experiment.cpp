#include "host/config/experiment.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/config/keys.hpp"
#include "host/config/memory_file.hpp"
#include "host/config/sections/sections.hpp"
#include "host/config/suite.hpp"

namespace mneme::config {
namespace {

// A file of experiments is neither one experiment nor a memory.
void refuse_suite(const Value& root, const std::filesystem::path& path) {
  if (!is_suite(root)) return;
  const std::string word = shell_word(path.string());
  throw_usage({.where = path.string(),
               .failed = "this is a suite, a list of experiments and memories",
               .expected = "one experiment or one memory",
               .hint = str("mneme compare --suite ", word, " runs it, mneme config check ", word,
                           " checks it")});
}

// A memory file is no experiment. One whose [data] comes by --set is.
void refuse_memory_file(const Value& root, const std::filesystem::path& path) {
  if (root.members().size() != 1 || root.find("memory") == nullptr) return;
  throw_usage(
      {.where = path.string(),
       .failed = "this is a memory file",
       .expected = "an experiment file, which has [data] and [train] too",
       .got = "[memory] alone",
       .hint = str("give it with an experiment: EXP --memory ", shell_word(path.string()))});
}

// What a memory file should have in place of a key that is not [memory].
std::string memory_hint(const Member& member, bool has_memory) {
  if (member.key == "tier") return "call it [[memory.tier]]";
  const bool is_memorys = member.key == "plugins" || member.key == "carry";
  if (is_memorys && has_memory) return "write it below the line [memory]";
  if (member.key == "plugin" && has_memory) return "write it below a line [[memory.tier]]";
  if (has_memory) return "";
  if (is_memorys) return "write the line [memory] above it";
  if (!member.value.is_table()) return "write the lines [memory] and [[memory.tier]] above it";
  return nearest(member.key, {"memory"}).empty() ? "name a memory file" : "rename it to memory";
}

// The [memory] of a file that holds nothing else.
Value memory_section(const Value& root, Problems& problems) {
  Reader reader(root, problems);
  const bool has_memory = reader.require("memory", "a table, [memory]");
  const Value* memory = reader.table("memory");
  for (const Member& member : reader.take_rest()) {
    problems.add(member.key_position, member.value.path(),
                 {.failed = "a memory file holds [memory] and nothing else",
                  .hint = memory_hint(member, has_memory)});
  }
  return memory == nullptr ? Value::table(root.position(), "memory") : *memory;
}

// Refuses keys of tiers where there is no tier, and those without their table.
void check_tier_keys(const Value& root, const std::vector<Override>& overrides) {
  const Value* const memory = root.find("memory");
  const Value* const tiers =
      memory == nullptr || !memory->is_table() ? nullptr : memory->find("tier");
  bool has_tiers = tiers != nullptr && !(tiers->kind() == Kind::kArray && tiers->items().empty());
  for (const Override& override : overrides) {
    if (override.key == "memory" || override.key == "memory.tier") has_tiers = true;
  }
  for (const Override& override : overrides) {
    if (override.is_removal) continue;
    if (override.key.starts_with("tier.")) {
      throw_usage({.where = override.text(),
                   .failed = str("unknown key (did you mean \"memory.", override.key, "\"?)")});
    }
    if (has_tiers || !override.key.starts_with("memory.tier.")) continue;
    throw_usage({.where = override.text(),
                 .failed = "the memory has no tier",
                 .expected = "a [[memory.tier]]",
                 .got = "none",
                 .hint = "name a memory that has one with --memory FILE"});
  }
}

void list_experiment(Fields& keys, Experiment& all) {
  keys.section("model", [&](Fields& table) { list_model(table, all.model); });
  keys.section("memory", [&](Fields& table) { list_memory(table, all.memory); });
  keys.section("data", [&](Fields& table) { list_data(table, all.data); });
  keys.section("train", [&](Fields& table) { list_train(table, all.train, all.data, all.model); });
  keys.section("eval", [&](Fields& table) { list_eval(table, all.eval, all.data, all.train); });
  keys.section("generate", [&](Fields& table) { list_generate(table, all.generate, all.eval); });
  keys.finish();
}

// The tables that have a key, as "[train] or [eval]"; "" = none has it.
std::string tables_with(const std::string& key) {
  std::vector<std::string> tables;
  for (const TableInfo& table : experiment_keys()) {
    // Keys of the small tables are rather misspelt ones: train.step is train.steps.
    const bool is_inner = table.name.find('.') != std::string::npos;
    if (is_inner && table.name != "[[memory.tier]]") continue;
    if (std::ranges::find(table.keys, key, &KeyInfo::key) != table.keys.end()) {
      tables.push_back(table.name);
    }
  }
  return join(tables, " or ");
}

}  // namespace

std::string Fields::toml_of(std::int64_t value, IntegerRange) { return std::to_string(value); }
std::string Fields::toml_of(std::uint64_t value) { return std::to_string(value); }
std::string Fields::toml_of(double value, RealRange) { return format_exact(value); }
std::string Fields::toml_of(const std::optional<double>& value, RealRange) {
  return value ? format_exact(*value) : "";
}
std::string Fields::toml_of(bool value) { return value ? "true" : "false"; }
std::string Fields::toml_of(const std::string& value) {
  return value.empty() ? "" : toml_string(value);
}
std::string Fields::toml_of(const std::filesystem::path& value) { return toml_of(value.string()); }

void Fields::table(const Key& key, const List& list) {
  if (!is_reading()) {
    write_inner(key.name, "[", "]", list);
  } else if (const Value* found = reader_->table(key)) {
    Fields inner(reader_->inner(*found));
    list(inner);
  }
}

void Fields::section(const Key& key, const List& list) {
  if (!is_reading()) {
    write_inner(key.name, "[", "]", list);
    return;
  }
  const Value empty = Value::table(reader_->self().position(), std::string(key.name));
  const Value* found = reader_->table(key);
  Fields inner(reader_->inner(found == nullptr ? empty : *found));
  list(inner);
}

void Fields::finish() {
  if (!is_reading()) return;
  Reader copy = *reader_;  // what it takes stays unknown to the reader
  for (const Member& member : copy.take_rest()) {
    const std::string tables = tables_with(member.key);
    if (tables.empty()) continue;
    reader_->problem(member.key, {.failed = "unknown key here", .expected = "it in " + tables});
  }
  reader_->finish();
}

void Fields::write(std::string_view key, const std::string& value) {
  if (!value.empty()) lines_.emplace_back(key, value);
}

void Fields::put_before(std::string_view key, std::string_view other) {
  const auto line_of = [&](std::string_view name) {
    return std::ranges::find(lines_, name, [](const auto& line) { return line.first; });
  };
  const auto from = line_of(key);
  const auto to = line_of(other);
  if (from > to && from != lines_.end()) std::rotate(to, from, from + 1);
}

std::string Fields::text() const {
  std::string out = header_;
  for (const auto& [key, value] : lines_) out += str(key, " = ", value, '\n');
  return out + inner_;
}

void Fields::write_inner(std::string_view key, std::string_view open, std::string_view close,
                         const List& list) {
  const std::string path = str(path_, path_.empty() ? "" : ".", key);
  Fields inner(path, str(path_.empty() && inner_.empty() ? "" : "\n", open, path, close, '\n'));
  list(inner);
  inner_ += inner.text();
}

Experiment read_experiment(Reader reader, Problems& problems) {
  Experiment experiment;
  const Value& root = reader.self();
  Fields keys(std::move(reader));
  list_experiment(keys, experiment);
  const Value* model = root.find("model");
  if (model != nullptr && !model->is_table()) model = nullptr;
  const Value* same_length = model == nullptr ? nullptr : model->find("same_length");
  const Value& place = same_length != nullptr ? *same_length : model != nullptr ? *model : root;
  check_together(experiment.model, experiment.memory, place.position(), problems);
  return experiment;
}

Experiment parse_experiment(const std::filesystem::path& path,
                            const std::vector<Override>& overrides,
                            const std::optional<std::filesystem::path>& memory_file,
                            Problems& problems) {
  Value root = parse_toml_file(path);
  refuse_suite(root, path);
  const bool has_data = std::ranges::any_of(
      overrides, [](const Override& one) { return one.key.starts_with("data."); });
  if (!has_data) refuse_memory_file(root, path);
  if (memory_file) {
    const Value memory_root = read_memory_file(*memory_file);
    refuse_suite(memory_root, *memory_file);
    Value memory = memory_section(memory_root, problems);
    problems.throw_if_any();  // further checks of a wrong memory would only confuse
    const Position position = memory.position();
    root.set("memory", position, std::move(memory));
  }
  check_tier_keys(root, overrides);
  apply_overrides(root, overrides);
  return read_experiment(Reader(root, problems), problems);
}

Experiment parse_experiment(const std::filesystem::path& path,
                            const std::vector<Override>& overrides,
                            const std::optional<std::filesystem::path>& memory_file) {
  Problems problems;
  Experiment experiment = parse_experiment(path, overrides, memory_file, problems);
  problems.throw_if_any();
  return experiment;
}

Experiment parse_experiment_text(std::string_view text, const std::string& source,
                                 const std::filesystem::path& folder,
                                 const std::vector<Override>& overrides) {
  Value root = parse_toml(text, source, folder);
  check_tier_keys(root, overrides);
  apply_overrides(root, overrides);
  Problems problems;
  Experiment experiment = read_experiment(Reader(root, problems), problems);
  problems.throw_if_any();
  return experiment;
}

MemoryConfig parse_memory_file(const std::filesystem::path& path,
                               const std::vector<Override>& overrides) {
  Value root = read_memory_file(path);
  for (const Override& override : overrides) {
    if (override.key.starts_with("memory.")) continue;
    throw_usage({.where = override.text(),
                 .failed = "a memory file has no such key",
                 .expected = "memory.<key>",
                 .got = override.key});
  }
  check_tier_keys(root, overrides);
  apply_overrides(root, overrides);
  Problems problems;
  const Value table = memory_section(root, problems);
  MemoryConfig memory;
  Fields keys(Reader(table, problems));
  list_memory(keys, memory);
  problems.throw_if_any();
  return memory;
}

bool may_differ_from_training(std::string_view key) {
  return key == "model.same_length" || key == "model.clamp_distance" || is_choice_of_kernels(key);
}

bool is_choice_of_kernels(std::string_view key) {
  return key == "model.attention_kernel" || key == "model.row_kernels";
}

std::int64_t ModelConfig::longest_context() const {
  const bool is_dynamic =
      position == PositionScheme::kRotary && rotary.scaling == RotaryScaling::kDynamic;
  return is_dynamic ? rotary.original_positions : 0;
}

std::vector<std::int64_t> shortest_windows(const std::vector<std::int64_t>& windows,
                                           std::int64_t layers) {
  std::vector<std::int64_t> all;
  for (std::size_t i = 0; !windows.empty() && i < static_cast<std::size_t>(layers); ++i) {
    all.push_back(windows[i % windows.size()]);
  }
  if (std::ranges::all_of(all, [](std::int64_t one) { return one == 0; })) return {};
  const auto repeats = [&](std::size_t period) {
    for (std::size_t i = period; i < all.size(); ++i) {
      if (all[i] != all[i - period]) return false;
    }
    return true;
  };
  std::size_t period = 1;
  while (!repeats(period)) ++period;
  all.resize(period);
  return all;
}

Experiment with_memory(const Experiment& experiment, const MemoryConfig& memory) {
  Problems problems;
  check_together(experiment.model, memory, {}, problems);
  problems.throw_if_any();
  Experiment result = experiment;
  result.memory = memory;
  return result;
}

std::string to_toml(const MemoryConfig& memory) {
  MemoryConfig written = memory;
  Fields root("", "");
  root.section("memory", [&](Fields& keys) { list_memory(keys, written); });
  return root.text();
}

std::string to_toml(const Experiment& experiment) {
  Experiment written = experiment;
  Fields root("", "");
  list_experiment(root, written);
  return root.text();
}

}  // namespace mneme::config
