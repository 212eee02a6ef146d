// The prompts of `mneme generate`, and notes on the text that they are a part of.
#include <algorithm>
#include <string_view>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/file_kind.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/cli/display.hpp"
#include "host/cli/generate/generate.hpp"
#include "host/cli/streams.hpp"
#include "host/data/text/text.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "host/generate/tokenize.hpp"

namespace mneme::cli {
namespace {

constexpr std::size_t kShownPrompt = 200;  // bytes of a prompt that a note quotes

// "<s> (id 1)" of each id.
std::string ids_text(const std::vector<std::int32_t>& ids, const data::Vocabulary* vocabulary) {
  std::vector<std::string> out;
  for (const std::int32_t id : ids) {
    const bool is_known = vocabulary != nullptr && id < vocabulary->size();
    out.push_back(is_known ? str(printable(vocabulary->symbol(id)), " (id ", id, ')')
                           : str("id ", id));
  }
  return join(out, ", ");
}

// The advice that --tokenize would help a prompt with unknown words; "" where it would not.
std::string tokenize_advice(const data::NamedText& text, const OpenGeneration& opened,
                            std::int64_t unknown) {
  if (opened.settings.tokenises) return "";
  const std::string words = generate::tokenize(text.text, *opened.vocabulary());
  const generate::Prompt other =
      generate::encode_prompt(*opened.vocabulary(), {text.source, words}, true);
  if (other.unknown >= unknown) return "";
  return str("; with --tokenize the prompt is \"", printable(cut_text(words, kShownPrompt)), "\", ",
             other.unknown == 0 ? "of which all words are known"
                                : str(other.unknown, " of its words are unknown"));
}

generate::Prompt encode(const data::NamedText& given, const OpenGeneration& opened,
                        Display& display) {
  if (opened.vocabulary()->kind() != data::VocabularyKind::kByte) data::check_not_wide(given);
  std::string words;
  data::NamedText text = given;
  if (opened.settings.tokenises) {
    words = generate::tokenize(given.text, *opened.vocabulary());
    text = {.source = given.source + ", tokenized", .text = words};
  }
  generate::Prompt prompt =
      generate::encode_prompt(*opened.vocabulary(), text, opened.settings.keeps_eos);
  if (prompt.unknown > 0 && prompt.unknown_list.empty()) {
    display.note(str("the tokenizer lacks ", prompt.unknown,
                     " of the prompt's characters: they are <unk>, or left out if it has none"));
  } else if (prompt.unknown > 0) {
    // The list is of different words.
    const std::string different = prompt.unknown_words == prompt.unknown
                                      ? ""
                                      : str(" (", prompt.unknown_words, " different ones)");
    display.note(str("the vocabulary lacks ", prompt.unknown, " of the prompt's words", different,
                     ", <unk> stands for them: ", prompt.unknown_list,
                     tokenize_advice(text, opened, prompt.unknown)));
  }
  return prompt;
}

}  // namespace

generate::Prompt read_prompt(const GenerateArguments& arguments, const OpenGeneration& opened,
                             Display& display) {
  if (!arguments.has_prompt()) return {};
  if (arguments.prompt_ids) return generate::parse_prompt_ids(*arguments.prompt_ids);
  const data::Vocabulary* const vocabulary = opened.vocabulary();
  if (vocabulary == nullptr) {
    throw_usage({.where = arguments.prompt ? "--prompt" : "--prompt-file",
                 .failed = "the run was trained on ids: it has no text vocabulary",
                 .expected = str("ids from 0 to ", opened.runtime().model().vocabulary() - 1),
                 .got = "a text",
                 .hint = "give the prompt's ids: --prompt-ids 1,2,3"});
  }
  const std::string text = arguments.prompt
                               ? *arguments.prompt
                               : read_input([&] { return read_file(arguments.prompt_file); });
  const std::string source = arguments.prompt ? "--prompt" : arguments.prompt_file.string();
  if (!arguments.prompt) check_is_no_tensors(text, source, "a text", "give ids by --prompt-ids");
  const data::NamedText named =
      arguments.prompt ? data::NamedText{source, text} : data::text_of_file(source, text);
  if (data::follows_byte_order_mark(named)) {
    display.note(str(source, ": the byte order mark at its start was skipped"));
  }
  return encode(named, opened, display);
}

generate::Prompt read_document_prompt(const GenerateArguments& arguments,
                                      const OpenGeneration& opened, Display& display) {
  const std::string text = read_input([&] { return read_file(arguments.document); });
  const std::string source = arguments.document.string();
  check_is_no_tensors(text, source, "a text", "name the text that the ids are of");
  return encode(data::text_of_file(source, text), opened, display);
}

generate::Prompt read_line_prompt(const std::string& line, std::int64_t number,
                                  const OpenGeneration& opened, Display& display) {
  if (opened.vocabulary() == nullptr) {
    return generate::parse_prompt_ids(line, str("standard input, line ", number));
  }
  // Messages count lines from the beginning of the input.
  const auto before = static_cast<std::size_t>(number - 1);
  const std::string all = std::string(before, '\n') + line;
  return encode({"standard input", std::string_view(all).substr(before), all}, opened, display);
}

std::vector<std::string> forgetting_notes(const OpenGeneration& opened,
                                          const generate::Generator& generator) {
  std::vector<std::string> notes;
  if (!opened.runtime().stack().is_empty()) return notes;
  const std::int64_t gone = generator.tokens() - generator.open_tokens();
  if (gone > 0) {
    notes.push_back(
        str("there is no memory: the first ", gone, " tokens of the conversation are forgotten"));
  }
  const std::int64_t segment = generator.options().segment;
  if (generator.open_tokens() + opened.settings.tokens > segment) {
    notes.push_back(str("there is no memory: after every ", segment,
                        " tokens the model starts afresh (generate.segment)"));
  }
  return notes;
}

std::vector<std::string> boundary_notes(const GenerateArguments& arguments,
                                        const OpenGeneration& opened) {
  std::vector<std::string> notes;
  const GenerateSettings& settings = opened.settings;
  const data::Vocabulary* const vocabulary = opened.vocabulary();
  if (!settings.beginning.empty()) {
    notes.push_back("the text begins with " + ids_text(settings.beginning, vocabulary));
  } else if (vocabulary != nullptr && vocabulary->tokenizer() &&
             !vocabulary->tokenizer()->beginning().empty() && arguments.state.empty()) {
    notes.push_back(str("the tokenizer's template begins a text with ",
                        ids_text(vocabulary->tokenizer()->beginning(), vocabulary),
                        ", which is put there with --bos alone"));
  }
  if (!settings.end.ids.empty()) {
    notes.push_back(str("a sample ends at ", ids_text(settings.end.ids, vocabulary), ", as ",
                        settings.end.source, " says; --ignore-eos goes on"));
  }
  return notes;
}

std::vector<std::int32_t> with_beginning(const OpenGeneration& opened,
                                         std::vector<std::int32_t> ids) {
  const std::vector<std::int32_t>& beginning = opened.settings.beginning;
  const bool has_it =
      ids.size() >= beginning.size() && std::equal(beginning.begin(), beginning.end(), ids.begin());
  if (!has_it) ids.insert(ids.begin(), beginning.begin(), beginning.end());
  return ids;
}

}  // namespace mneme::cli
