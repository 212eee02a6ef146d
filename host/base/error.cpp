#include "host/base/error.hpp"

namespace mneme {

std::string ErrorText::compose() const {
  std::string message = where;
  const auto append = [&message](const std::string& part, std::string_view separator) {
    if (part.empty()) return;
    if (!message.empty()) message += separator;
    message += part;
  };
  append(failed, ": ");
  if (!expected.empty()) append("expected " + expected, ": ");
  if (!got.empty()) append("got " + got, expected.empty() ? ": " : ", ");
  append(hint, "; ");
  return message;
}

Error::Error(ErrorKind kind, const ErrorText& text)
    : Error(Ready{}, kind, text.compose(), text.hint) {}

Error::Error(ErrorKind kind, const std::string& message, const std::string& hint)
    : Error(Ready{}, kind, hint.empty() ? message : message + "; " + hint, hint) {}

Error::Error(Ready, ErrorKind kind, const std::string& message, const std::string& hint)
    : std::runtime_error(message), kind_(kind), hint_(hint) {}

Error Error::with_context(const std::string& context) const {
  return Error(Ready{}, kind_, context + ": " + what(), hint_);
}

void throw_error(ErrorKind kind, const ErrorText& text) { throw Error(kind, text); }
void throw_run(const ErrorText& text) { throw Error(ErrorKind::kRun, text); }
void throw_usage(const ErrorText& text) { throw Error(ErrorKind::kUsage, text); }
void throw_plugin(const ErrorText& text) { throw Error(ErrorKind::kPlugin, text); }
void throw_device(const ErrorText& text) { throw Error(ErrorKind::kDevice, text); }

}  // namespace mneme
