#include "host/memory/abi/call_error.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <new>

#include "host/base/error.hpp"
#include "host/plugin/known_fields.hpp"
#include "host/ops/ops.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// LibTorch appends a stack trace after the first line; plugins get the text alone.
std::string first_lines(const std::string& text) {
  const auto end = text.find("\nException raised from");
  return end == std::string::npos ? text : text.substr(0, end);
}

std::string bounded(const char* text, std::size_t capacity) {
  return {text, strnlen(text, capacity)};
}

}  // namespace

mneme_status fill_error(mneme_error* error, mneme_status code, const char* message) noexcept {
  if (error == nullptr) return code;
  error->code = code;
  std::strncpy(error->message, message, sizeof(error->message) - 1);
  error->message[sizeof(error->message) - 1] = '\0';
  return code;
}

mneme_status fill_current_exception(mneme_error* error) noexcept {
  try {
    throw;
  } catch (const CallError& e) {
    return fill_error(error, e.code(), e.what());
  } catch (const ops::OpError& e) {
    return fill_error(error, e.status(), e.what());
  } catch (const Error& e) {
    return fill_error(error, MNEME_E_INVALID_ARGUMENT, e.what());
  } catch (const c10::OutOfMemoryError& e) {
    return fill_error(error, MNEME_E_OUT_OF_MEMORY, e.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    return fill_error(error, MNEME_E_OUT_OF_MEMORY, "the host is out of memory");
  } catch (const c10::Error& e) {
    return fill_error(error, MNEME_E_INVALID_ARGUMENT,
                      first_lines(e.what_without_backtrace()).c_str());
  } catch (const std::exception& e) {
    return fill_error(error, MNEME_E_INTERNAL, first_lines(e.what()).c_str());
  } catch (...) {
    return fill_error(error, MNEME_E_INTERNAL, "an exception of unknown type");
  }
}

const char* status_text(mneme_status status) {
  static constexpr std::array kTexts = {
      "done", "invalid argument", "unsupported", "shape",   "dtype", "device",    "out of memory",
      "CUDA", "numeric",          "state",       "version", "I/O",   "cancelled", "internal"};
  return status >= 0 && static_cast<std::size_t>(status) < kTexts.size()
             ? kTexts[static_cast<std::size_t>(status)]
             : "unknown code";
}

std::string plugin_error_text(mneme_status status, const mneme_error& error) {
  std::string text = bounded(error.message, sizeof(error.message));
  if (text.empty()) text = "the plugin gave no message";
  text += str(" (code ", status, ": ", status_text(status));
  if (error.native_code != 0) text += str(", native code ", error.native_code);
  if (const auto unknown = plugin::unknown_value(error)) text += ", in mneme_error " + unknown->text();
  const std::string file = bounded(error.file, sizeof(error.file));
  if (!file.empty()) text += str(", at ", file, ":", error.line);
  return text + ")";
}

void throw_plugin_status(const std::string& where, mneme_status status, const mneme_error& error) {
  throw_plugin(ErrorText{.where = where, .failed = plugin_error_text(status, error)});
}

}  // namespace mneme::memory
