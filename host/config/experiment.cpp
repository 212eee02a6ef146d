#include "host/config/experiment.hpp"

#include <utility>

#include "host/base/error.hpp"
#include "host/config/memory.hpp"
#include "host/config/sections.hpp"

namespace mneme::config {
namespace {

// A section of the file; where it is absent, an empty one at the file's beginning.
Value section(Reader& root, const std::string& key) {
  const Value* found = root.table(key);
  return found == nullptr ? Value::table(root.self().position(), key) : *found;
}

Experiment read_experiment(Value root, const std::vector<Override>& overrides) {
  for (const Override& override : overrides) apply_override(root, override);
  Problems problems;
  Reader reader(root, problems);
  Experiment experiment;
  const Value model = section(reader, "model");
  experiment.model = read_model(model, problems);
  experiment.memory = read_memory(section(reader, "memory"), problems);
  experiment.data = read_data(section(reader, "data"), problems);
  experiment.train = read_train(section(reader, "train"), experiment.data, problems);
  experiment.eval = read_eval(section(reader, "eval"), experiment.data, experiment.train, problems);
  const Value generate = section(reader, "generate");
  Reader generate_reader(generate, problems);
  experiment.generate.segment =
      generate_reader.integer("segment", experiment.eval.segment, kExtent);
  generate_reader.finish();
  const Value* same_length = model.find("same_length");
  check_together(experiment.model, experiment.memory,
                 same_length == nullptr ? model.position() : same_length->position(), problems);
  reader.finish();
  problems.throw_if_any();
  return experiment;
}

// The [memory] of a file that holds nothing else.
Value memory_section(const Value& root, Problems& problems) {
  Reader reader(root, problems);
  const bool has_memory = reader.require("memory", "a table, [memory]");
  Value memory = section(reader, "memory");
  for (const Member& member : reader.take_rest()) {
    problems.add(
        member.key_position, member.value.path(),
        {.failed = "a memory file holds [memory] and nothing else",
         .hint = has_memory ? "" : str("rename it to memory, or name an experiment file")});
  }
  return memory;
}

}  // namespace

Experiment parse_experiment(const std::filesystem::path& path,
                            const std::vector<Override>& overrides,
                            const std::optional<std::filesystem::path>& memory_file) {
  Value root = parse_toml_file(path);
  if (memory_file) {
    Problems problems;
    const Value memory_root = parse_toml_file(*memory_file);
    Value memory = memory_section(memory_root, problems);
    problems.throw_if_any();
    const Position position = memory.position();
    root.set("memory", position, std::move(memory));
  }
  return read_experiment(std::move(root), overrides);
}

Experiment parse_experiment_text(std::string_view text, const std::string& source,
                                 const std::filesystem::path& folder,
                                 const std::vector<Override>& overrides) {
  return read_experiment(parse_toml(text, source, folder), overrides);
}

MemoryConfig parse_memory_file(const std::filesystem::path& path,
                               const std::vector<Override>& overrides) {
  Value root = parse_toml_file(path);
  for (const Override& override : overrides) {
    if (override.key.starts_with("memory.")) {
      apply_override(root, override);
    } else {
      throw_usage({.where = str("--set ", override.key),
                   .failed = "a memory file has no such key",
                   .expected = "memory.<key>",
                   .got = override.key});
    }
  }
  Problems problems;
  const Value table = memory_section(root, problems);
  MemoryConfig memory = read_memory(table, problems);
  problems.throw_if_any();
  return memory;
}

Experiment with_memory(const Experiment& experiment, const MemoryConfig& memory) {
  Problems problems;
  check_together(experiment.model, memory, {}, problems);
  problems.throw_if_any();
  Experiment result = experiment;
  result.memory = memory;
  return result;
}

}  // namespace mneme::config
