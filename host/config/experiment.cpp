#include "host/config/experiment.hpp"

#include <utility>

#include "host/base/error.hpp"
#include "host/config/memory.hpp"
#include "host/config/sections/sections.hpp"

namespace mneme::config {
namespace {

// A section of the file; where it is absent, an empty one at the file's beginning.
Value section(Reader& root, const std::string& key) {
  const Value* found = root.table(key);
  return found == nullptr ? Value::table(root.self().position(), key) : *found;
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

Experiment read_experiment(Reader reader, Problems& problems) {
  Experiment experiment;
  const Value model = section(reader, "model");
  const auto inner = [&](const std::string& key) { return section(reader, key); };
  experiment.model = read_model(reader.inner(model));
  const Value memory = inner("memory");
  experiment.memory = read_memory(reader.inner(memory));
  const Value data = inner("data");
  experiment.data = read_data(reader.inner(data));
  const Value train = inner("train");
  experiment.train = read_train(reader.inner(train), experiment.data);
  const Value eval = inner("eval");
  experiment.eval = read_eval(reader.inner(eval), experiment.data, experiment.train);
  const Value generate = inner("generate");
  experiment.generate = read_generate(reader.inner(generate), experiment.eval);
  const Value* same_length = model.find("same_length");
  check_together(experiment.model, experiment.memory,
                 same_length == nullptr ? model.position() : same_length->position(), problems);
  reader.finish();
  return experiment;
}

Experiment parse_experiment(const std::filesystem::path& path,
                            const std::vector<Override>& overrides,
                            const std::optional<std::filesystem::path>& memory_file,
                            Problems& problems) {
  Value root = parse_toml_file(path);
  if (memory_file) {
    const Value memory_root = parse_toml_file(*memory_file);
    Value memory = memory_section(memory_root, problems);
    problems.throw_if_any();  // the rest would be about a memory that nobody meant
    const Position position = memory.position();
    root.set("memory", position, std::move(memory));
  }
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
  apply_overrides(root, overrides);
  Problems problems;
  Experiment experiment = read_experiment(Reader(root, problems), problems);
  problems.throw_if_any();
  return experiment;
}

MemoryConfig parse_memory_file(const std::filesystem::path& path,
                               const std::vector<Override>& overrides) {
  Value root = parse_toml_file(path);
  for (const Override& override : overrides) {
    if (override.key.starts_with("memory.")) continue;
    throw_usage({.where = override.text(),
                 .failed = "a memory file has no such key",
                 .expected = "memory.<key>",
                 .got = override.key});
  }
  apply_overrides(root, overrides);
  Problems problems;
  const Value table = memory_section(root, problems);
  MemoryConfig memory = read_memory(Reader(table, problems));
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
