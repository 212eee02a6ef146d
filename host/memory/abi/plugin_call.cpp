#include "host/memory/abi/plugin_call.hpp"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <new>
#include <typeinfo>

#include "host/base/text.hpp"

namespace mneme::memory {
namespace {

// "std::runtime_error", of the exception being handled.
std::string exception_type() {
  const std::type_info* const type = abi::__cxa_current_exception_type();
  if (type == nullptr) return "an exception of unknown type";
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> name(
      abi::__cxa_demangle(type->name(), nullptr, nullptr, &status), &std::free);
  return name != nullptr ? name.get() : type->name();
}

}  // namespace

mneme_status fill_escaped_exception(mneme_error& error) noexcept {
  try {
    const std::string type = exception_type();
    std::string text;
    mneme_status status = MNEME_E_INTERNAL;
    try {
      throw;
    } catch (const std::bad_alloc& e) {
      status = MNEME_E_OUT_OF_MEMORY;
      text = e.what();
    } catch (const std::exception& e) {
      text = e.what();
    } catch (...) {
      text.clear();
    }
    error.file[0] = '\0';
    error.native_code = error.line = 0;
    return fill_error(&error, status,
                      str("a C++ exception left it: ", type, text.empty() ? "" : ": ", text,
                          "; catch it there and return a code")
                          .c_str());
  } catch (...) {
    return fill_error(&error, MNEME_E_INTERNAL, "a C++ exception left it");
  }
}

}  // namespace mneme::memory
