#include "host/base/error.hpp"

#include "host/base/utf8.hpp"

namespace mneme {
namespace {

// Messages quote what files hold, which may be a megabyte of control characters.
constexpr std::size_t kLongestPart = std::size_t{8} << 10;
constexpr std::size_t kLongestMessage = std::size_t{64} << 10;

std::string shown_message(std::string_view message) {
  return printable_lines(cut_text(message, kLongestMessage));
}

}  // namespace

std::string ErrorText::compose() const {
  const auto cut = [](const std::string& part) { return cut_text(part, kLongestPart); };
  std::string message = cut(where);
  const auto append = [&message](const std::string& part, std::string_view separator) {
    if (part.empty()) return;
    if (!message.empty()) message += separator;
    message += part;
  };
  append(cut(failed), ": ");
  if (!expected.empty()) append("expected " + cut(expected), ": ");
  if (!got.empty()) append("got " + cut(got), expected.empty() ? ": " : ", ");
  append(cut(hint), "; ");
  return message;
}

Error::Error(ErrorKind kind, const ErrorText& text)
    : Error(Ready{}, kind, text.compose(), text.hint) {}

Error::Error(ErrorKind kind, const std::string& message, const std::string& hint)
    : Error(Ready{}, kind, hint.empty() ? message : message + "; " + hint, hint) {}

Error::Error(Ready, ErrorKind kind, const std::string& message, const std::string& hint)
    : std::runtime_error(shown_message(message)), kind_(kind), hint_(shown_message(hint)) {}

Error Error::with_context(const std::string& context) const {
  return Error(Ready{}, kind_, context + ": " + what(), hint_);
}

void throw_error(ErrorKind kind, const ErrorText& text) { throw Error(kind, text); }
void throw_run(const ErrorText& text) { throw Error(ErrorKind::kRun, text); }
void throw_usage(const ErrorText& text) { throw Error(ErrorKind::kUsage, text); }
void throw_plugin(const ErrorText& text) { throw Error(ErrorKind::kPlugin, text); }
void throw_device(const ErrorText& text) { throw Error(ErrorKind::kDevice, text); }

}  // namespace mneme
