// Commands of `mneme generate` that messages tell people to type.
#include <filesystem>
#include <optional>
#include <string>

#include "host/base/text.hpp"
#include "host/cli/generate/generate.hpp"

namespace mneme::cli {

namespace fs = std::filesystem;

std::string typed_command(const GenerateArguments& arguments) {
  std::string text = "mneme generate " + shell_word(arguments.run.string());
  const auto add = [&](const char* option, const std::string& value) {
    if (!value.empty()) text += str(' ', option, ' ', shell_word(value));
  };
  if (arguments.prompt) text += " --prompt " + shell_word(*arguments.prompt);
  add("--prompt-file", arguments.prompt_file.string());
  add("--prompt-ids", arguments.prompt_ids.value_or(""));
  add("--state", arguments.state.string());
  if (arguments.tokenises) text += " --tokenize";
  for (const fs::path& memory : arguments.memory) add("--memory", memory.string());
  return text + arguments.set.typed();
}

namespace {

// The options that decide which tokens follow a text, each with a blank in front. --bos and
// --document are not among them: they begin a text.
std::string typed_text_options(const GenerateArguments& arguments) {
  std::string text;
  const auto add = [&](const char* option, const std::string& value) {
    text += str(' ', option, ' ', shell_word(value));
  };
  const auto integer = [&](const char* option, const std::optional<std::int64_t>& value) {
    if (value) add(option, str(*value));
  };
  const auto real = [&](const char* option, const std::optional<double>& value) {
    if (value) add(option, format_exact(*value));
  };
  const auto flag = [&](const char* option, bool is_given) {
    if (is_given) text += str(' ', option);
  };
  if (!arguments.protocol.empty()) add("--protocol", arguments.protocol);
  integer("--segment", arguments.segment);
  integer("--tokens", arguments.tokens);
  flag("--greedy", arguments.is_greedy);
  real("--temperature", arguments.temperature);
  integer("--top-k", arguments.top_k);
  real("--top-p", arguments.top_p);
  real("--min-p", arguments.min_p);
  integer("--seed", arguments.seed);
  for (const std::string& stop : arguments.stops) add("--stop", stop);
  flag("--ignore-eos", arguments.ignores_end);
  flag("--detokenize", arguments.detokenises);
  if (arguments.machine.device != "cpu") add("--device", arguments.machine.device);
  if (arguments.machine.threads != 0) add("--threads", str(arguments.machine.threads));
  return text;
}

}  // namespace

std::string saved_text(const GenerateArguments& arguments, std::int64_t left) {
  GenerateArguments next = arguments;
  next.prompt.reset();
  next.prompt_ids.reset();
  next.prompt_file.clear();
  next.state = arguments.save_state;
  if (left > 0) next.tokens = left;
  std::string text = "; saved; continue with " + typed_command(next);
  if (next.checkpoint != "last") text += " --checkpoint " + shell_word(next.checkpoint);
  text += typed_text_options(next);
  if (next.is_chat) text += " --chat";
  return text;
}

}  // namespace mneme::cli
