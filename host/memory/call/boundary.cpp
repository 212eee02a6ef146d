#include "host/memory/call/boundary.hpp"

#include <cxxabi.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <typeinfo>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/ops/op_table.hpp"
#include "host/plugin/known_fields.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::memory {
namespace {

// The newest call of this thread: where nearly every look-up ends.
thread_local CallHandle* newest = nullptr;

struct Entry {
  HandleKind kind;
  std::uintptr_t number;
  void* object;
};

// All running calls, for look-ups from other threads.
struct Registry {
  std::mutex mutex;
  std::vector<Entry> entries;
};

Registry& registry() {
  static Registry one;
  return one;
}

std::uintptr_t next_number() {
  static std::atomic<std::uintptr_t> last{0};
  constexpr std::uintptr_t kStep = 16;
  return last.fetch_add(kStep, std::memory_order_relaxed) + kStep;
}

}  // namespace

CallHandle::CallHandle(HandleKind kind, void* object)
    : number_(next_number()), outer_(newest), kind_(kind), object_(object) {
  const std::lock_guard lock(registry().mutex);
  registry().entries.push_back({kind, number_, object});
  newest = this;
}

CallHandle::~CallHandle() {
  newest = outer_;
  const std::lock_guard lock(registry().mutex);
  std::erase_if(registry().entries, [&](const Entry& entry) { return entry.number == number_; });
}

void* find_object(HandleKind kind, const void* handle) {
  const auto number = reinterpret_cast<std::uintptr_t>(handle);
  if (newest != nullptr && newest->number_ == number && newest->kind_ == kind)
    return newest->object_;
  const char* const name = kind == HandleKind::kHook ? "mneme_ctx" : "mneme_setup";
  const char* const call = kind == HandleKind::kHook ? "hook" : "create";
  if (handle == nullptr)
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    str("the ", name, " is NULL: give the one that ", call, " got"));
  {
    const std::lock_guard lock(registry().mutex);
    for (const Entry& entry : registry().entries) {
      if (entry.number == number && entry.kind == kind) return entry.object;
    }
  }
  throw CallError(MNEME_E_INVALID_ARGUMENT,
                  str("the ", name, " belongs to no running ", call, ": it is valid until its ",
                      call, " returns; pass the one that this ", call, " got"));
}

namespace {

// "shape", "out of memory", ... for a code of the plugin that the message names.
const char* status_text(mneme_status status) {
  static constexpr std::array kTexts = {"done",          "invalid argument",
                                        "unsupported",   "shape",
                                        "dtype",         "device",
                                        "out of memory", "CUDA",
                                        "numeric",       "state",
                                        "version",       "I/O",
                                        "cancelled",     "an error of its own"};
  return status >= 0 && static_cast<std::size_t>(status) < kTexts.size()
             ? kTexts[static_cast<std::size_t>(status)]
             : "unknown code";
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
                      without_trace(e.what_without_backtrace()).c_str());
  } catch (const std::exception& e) {
    return fill_error(error, MNEME_E_INTERNAL, without_trace(e.what()).c_str());
  } catch (...) {
    return fill_error(error, MNEME_E_INTERNAL, "an exception of unknown type");
  }
}

std::string plugin_error_text(mneme_status status, const mneme_error& error) {
  std::string text = plugin::fixed_text(error.message);
  if (text.empty()) text = "the plugin gave no message";
  text += str(" (code ", status, ": ", status_text(status));
  if (error.native_code != 0) text += str(", native code ", error.native_code);
  if (const auto unknown = plugin::unknown_value(error))
    text += ", in mneme_error " + unknown->text();
  const std::string file = plugin::fixed_text(error.file);
  // The C++ layer of the SDK gives the hook and no line where something else than its Error is thrown.
  if (!file.empty()) text += error.line > 0 ? str(", at ", file, ':', error.line) : ", in " + file;
  return text + ")";
}

void throw_plugin_status(const std::string& where, mneme_status status, const mneme_error& error) {
  throw_plugin(ErrorText{.where = where, .failed = plugin_error_text(status, error)});
}

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
    } catch (const std::exception& e) {
      if (dynamic_cast<const std::bad_alloc*>(&e) != nullptr) status = MNEME_E_OUT_OF_MEMORY;
      text = e.what();
    } catch (...) {  // its type is all that is known
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
