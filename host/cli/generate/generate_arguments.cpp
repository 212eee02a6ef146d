// The command line of `mneme generate`.
#include <CLI/CLI.hpp>
#include <limits>

#include "host/cli/generate/generate.hpp"
#include "host/cli/ranges.hpp"

namespace mneme::cli {
namespace {

void add_text_options(CLI::App& command, GenerateArguments& arguments) {
  CLI::Option* const text =
      command.add_option("--prompt", arguments.prompt, "The text to continue")->type_name("TEXT");
  CLI::Option* const file =
      command.add_option("--prompt-file", arguments.prompt_file, "The same from a file, as it is")
          ->type_name("FILE");
  CLI::Option* const ids =
      command.add_option("--prompt-ids", arguments.prompt_ids, "The same as ids: 1,2,3")
          ->type_name("LIST")
          ->expected(1);
  text->excludes(file)->excludes(ids);
  file->excludes(ids);
  command
      .add_option("--state", arguments.state,
                  "Go on with a saved conversation; a prompt is then its next turn")
      ->type_name("FILE");
  command
      .add_option("--save-state", arguments.save_state, "Where to save the conversation at the end")
      ->type_name("FILE");
  command.add_option("--tokens", arguments.tokens, "Tokens to generate, a sample (default 256)")
      ->type_name("N")
      ->check(between(0, kMostCount));
  command.add_option("--stop", arguments.stop, "Ends a sample where this text appears")
      ->type_name("TEXT");
  command.add_flag("--detokenize", arguments.detokenises,
                   "Join words, punctuation and WikiText's @-@ as they were written");
}

void add_sampling_options(CLI::App& command, GenerateArguments& arguments) {
  command.add_flag("--greedy", arguments.is_greedy, "Take the likeliest token every time");
  command
      .add_option("--temperature", arguments.temperature,
                  "Divide log-probabilities by it (default 1)")
      ->type_name("X");
  command.add_option("--top-k", arguments.top_k, "Draw among the K likeliest tokens only")
      ->type_name("K");
  command
      .add_option("--top-p", arguments.top_p,
                  "Draw among the likeliest tokens that together exceed P")
      ->type_name("P");
  command
      .add_option("--min-p", arguments.min_p,
                  "Leave out tokens below P times the likeliest one's probability")
      ->type_name("P");
  command
      .add_option("--seed", arguments.seed,
                  "Of the draws: the same seed gives the same text (default 1)")
      ->type_name("N")
      ->check(at_least(0));
  command.add_option("--samples", arguments.samples, "Texts to generate at once")
      ->type_name("N")
      ->check(between(1, 4096))
      ->capture_default_str();
}

void add_model_options(CLI::App& command, GenerateArguments& arguments) {
  command
      .add_option("--segment", arguments.segment,
                  "Tokens of a segment; 1 = every token a segment of its own (default "
                  "generate.segment)")
      ->type_name("T")
      ->check(between(1, kMostExtent));
  command
      .add_option("--protocol", arguments.protocol,
                  "released: as LaMemo's released code: prompt in chunks of 256 without <eos>, 256 "
                  "tokens as "
                  "segments of one, top-p .95, 512 rows, clamp 400, seed 42, detokenised")
      ->type_name("NAME")
      ->check(CLI::IsMember({"released"}));
  add_memory_files(command, arguments.memory, "Memory file in place of the run's own");
  command
      .add_option("--checkpoint", arguments.checkpoint,
                  "The run's checkpoint: last, best or its number of steps")
      ->type_name("WHICH")
      ->capture_default_str();
  arguments.set.add(command);
  arguments.machine.add(command);
  arguments.json.add(command);
  command.add_flag("--quiet", arguments.is_quiet, "Show the text, warnings and errors only");
}

}  // namespace

void GenerateArguments::add(CLI::App& command) {
  command.add_option("RUN", run, "The run's folder")->required()->type_name("");
  add_text_options(command, *this);
  add_sampling_options(command, *this);
  add_model_options(command, *this);
}

}  // namespace mneme::cli
