// What the parts of `mneme generate` share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host/cli/arguments.hpp"
#include "host/cli/display.hpp"
#include "host/cli/eval/eval.hpp"
#include "host/cli/streams.hpp"
#include "host/generate/conversation.hpp"
#include "host/generate/generator.hpp"
#include "host/generate/text.hpp"
#include "host/run/run_folder.hpp"
#include "host/run/sweep.hpp"
#include "host/weights/pretrained/end_of_text.hpp"

namespace mneme::cli {

// The command line of `mneme generate`; what is absent was not given.
struct GenerateArguments : OpenArguments {
  std::int64_t for_report = 0;     // --for-report: prompts from the split; 0 = generate a text
  std::int64_t prompt_tokens = 0;  // of each of them; 0 = by the segment
  std::optional<std::string> prompt;
  std::filesystem::path prompt_file;
  std::optional<std::string> prompt_ids;
  std::filesystem::path state;
  std::filesystem::path save_state;
  std::optional<std::int64_t> tokens;
  bool is_greedy = false;
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::int64_t> top_k;
  std::optional<std::int64_t> seed;
  std::int64_t samples = 1;
  bool is_chat = false;
  bool serves = false;             // mneme serve: any number of texts
  std::filesystem::path document;  // of --chat
  std::optional<std::int64_t> segment;
  std::vector<std::string> stops;
  bool ignores_end = false;     // --ignore-eos
  bool puts_beginning = false;  // --bos
  bool detokenises = false;
  bool tokenises = false;  // prompts
  std::string protocol;    // "" or "released"

  void add(const Command& to);
  [[nodiscard]] bool has_prompt() const {
    return prompt.has_value() || !prompt_file.empty() || prompt_ids.has_value();
  }
};

// How text is generated: defaults, a protocol over them, the command line over both.
struct GenerateSettings {
  std::int64_t tokens = 256;
  generate::Options options = {};
  bool has_seed = false;   // given, or the protocol's: it replaces a continued conversation's
  bool keeps_eos = true;   // of the prompt
  bool tokenises = false;  // the prompt
  bool detokenises = false;
  std::vector<std::int32_t> beginning = {};  // put before the first prompt
  weights::EndOfText end = {};               // ids that end a sample

  [[nodiscard]] bool ends_with(std::int32_t id) const {
    return std::ranges::find(end.ids, id) != end.ids.end();
  }
};

// A run opened for generation.
struct OpenGeneration {
  std::unique_ptr<run::Checkpoint> checkpoint;
  std::unique_ptr<run::Sweep> sweep;
  std::string memory_name;
  std::vector<std::string> untrained;  // parameters that keep their initial values
  std::string chat_template;           // the file with the pretrained model's; "" = it has none
  GenerateSettings settings;

  [[nodiscard]] run::Runtime& runtime() const { return sweep->runtime(); }
  // Null for ids.
  [[nodiscard]] const data::Vocabulary* vocabulary() const {
    return runtime().dataset()->vocabulary();
  }
};

// The run's experiment with the memory as its file says now. Error (kUsage | kRun).
[[nodiscard]] config::Experiment read_experiment(const GenerateArguments& arguments,
                                                 const run::RunFolder& folder);

// Continues the conversation of --state: its text and memory, and its seed where none is given.
// Error (kUsage) for a file that is not one of this model.
void continue_saved(const GenerateArguments& arguments, const OpenGeneration& opened,
                    generate::Generator& generator);

// Notes on tokens of the conversation that the next ones do not see because there is no memory:
// those that are gone, and those that will be.
[[nodiscard]] std::vector<std::string> forgetting_notes(const OpenGeneration& opened,
                                                        const generate::Generator& generator);

// Notes on where texts begin and end by the files of a pretrained model: the tokens of its
// tokenizer's template before a text, put there or not, and the ids that end a sample.
[[nodiscard]] std::vector<std::string> boundary_notes(const GenerateArguments& arguments,
                                                      const OpenGeneration& opened);

// The ids behind those that begin a text, unless they begin with them already.
[[nodiscard]] std::vector<std::int32_t> with_beginning(const OpenGeneration& opened,
                                                       std::vector<std::int32_t> ids);

// "; saved; continue with mneme generate ...": the end of a line about a signal, where the
// conversation was saved. The command repeats every option that decides the text, so that it goes
// on as it would have. `left`: tokens that are not generated yet; 0 = as many as the options say.
[[nodiscard]] std::string saved_text(const GenerateArguments& arguments, std::int64_t left = 0);

// mneme generate RUN --chat: prompts from stdin, one a line. A plugin or memory file that changed
// takes effect before the next one.
int run_chat(const GenerateArguments& arguments, const Streams& streams);

// Reads the run and the memory. Error (kUsage | kRun | kPlugin | kDevice).
[[nodiscard]] OpenGeneration open_generation(const GenerateArguments& arguments, Display& display);

// Writes the conversation to the file of --save-state, with what it must match: checkpoint,
// precision, model, memory and vocabulary. False = there is no such option. Error (kRun).
bool save_conversation(const GenerateArguments& arguments, const OpenGeneration& opened,
                       const generate::Generator& generator);

// The prompt's tokens, with notes on words that the vocabulary lacks. Error (kUsage).
[[nodiscard]] generate::Prompt read_prompt(const GenerateArguments& arguments,
                                           const OpenGeneration& opened, Display& display);
// The text of --document as tokens, likewise.
[[nodiscard]] generate::Prompt read_document_prompt(const GenerateArguments& arguments,
                                                    const OpenGeneration& opened, Display& display);
// The same for a line of standard input, counted from 1: a text, or ids where the run has no text
// vocabulary.
[[nodiscard]] generate::Prompt read_line_prompt(const std::string& line, std::int64_t number,
                                                const OpenGeneration& opened, Display& display);

}  // namespace mneme::cli
