#include <vector>

#include "host/base/text.hpp"
#include "host/eval/result.hpp"

namespace mneme::eval {
namespace {

std::string percent(std::int64_t part, std::int64_t whole) {
  if (whole == 0) return "0";
  return format_number(100.0 * static_cast<double>(part) / static_cast<double>(whole), 2);
}

std::string normalisation(const Result& result) {
  const std::string& unit = result.protocol.unit;
  std::string text = "loss and perplexity are per token; a token is ";
  if (unit == "word") {
    text += "a word";
    if (result.end_of_line) {
      text += str(" or the <eos> of a line, which counts (", result.end_of_line->tokens,
                  " of the targets)");
    }
  } else if (unit == "char") {
    text += "a character";
  } else {
    text += unit.empty() ? std::string("an id of the task or file") : "a " + unit;
  }
  return text;
}

std::string counted(const Result& result) {
  const Protocol& protocol = result.protocol;
  std::string text = str(result.total.tokens, " tokens counted");
  if (protocol.tokens == 0) return text;
  const std::int64_t rest = protocol.tokens - protocol.dropped - result.total.tokens;
  return text + str(" of the split's ", protocol.tokens, ": ", protocol.dropped,
                    " dropped by cutting into ", protocol.lanes, " equal lanes, ", rest,
                    " without a prediction (a lane's or document's first, or not reached)");
}

std::string context(const Result& result) {
  const Protocol& protocol = result.protocol;
  return str("context: the segment of at most ", protocol.segment, " tokens and at most ",
             protocol.context_rows, " memory rows",
             protocol.read_rows > 0
                 ? str(", and at most ", protocol.read_rows, " rows that memories read")
                 : std::string());
}

std::string resets(const Result& result) {
  const Protocol& protocol = result.protocol;
  std::string text =
      str("each of the ", protocol.lanes, " lanes starts with an empty memory, which is emptied ");
  if (protocol.reset == "document") return text + "where a document begins";
  if (protocol.reset == "segment") return text + "at the segment after a document's start";
  if (protocol.reset == "never") return text + "never again, documents run on";
  return text + "where a sequence of the task begins";
}

std::string unknown(const Result& result) {
  return str("<unk>: ", result.unknown->tokens, " of the targets (",
             percent(result.unknown->tokens, result.total.tokens), " %)");
}

}  // namespace

std::string statement(const Result& result) {
  std::vector<std::string> parts = {normalisation(result), counted(result), context(result),
                                    resets(result)};
  if (result.unknown) parts.push_back(unknown(result));
  return join(parts, "; ") + ".";
}

}  // namespace mneme::eval
