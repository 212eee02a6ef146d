// Python objects as C++ values, and host values as Python objects: what crosses between the bridge
// and the runtime (python/mneme/memory/runtime.py). All functions need the interpreter's lock.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "mneme/plugin.h"
#include "python/bridge/python_api.hpp"

namespace mneme::python {

// A Python exception is set; functions for Python catch it and return NULL.
struct Raised {};

// Owns one reference, or none.
class Ref {
 public:
  Ref() = default;
  explicit Ref(Object* owned) noexcept : object_(owned) {}
  ~Ref() {
    if (object_ != nullptr) py.Py_DecRef(object_);
  }
  Ref(Ref&& other) noexcept : object_(other.release()) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  [[nodiscard]] Object* get() const noexcept { return object_; }
  Object* release() noexcept { return std::exchange(object_, nullptr); }
  explicit operator bool() const noexcept { return object_ != nullptr; }

 private:
  Object* object_ = nullptr;
};

// What a function of Python returned. Errors: Raised.
inline Ref made(Object* owned) {
  if (owned == nullptr) throw Raised();
  return Ref(owned);
}

// ---- to Python ----

// Another reference to an object that somebody else owns.
inline Ref shared(Object* object) {
  py.Py_IncRef(object);
  return Ref(object);
}
inline Ref none() { return shared(py.none); }
inline Ref to_python(Ref object) { return object ? std::move(object) : none(); }
inline Ref to_python(int64_t value) { return made(py.PyLong_FromLongLong(value)); }
inline Ref to_python(int32_t value) { return to_python(static_cast<int64_t>(value)); }
inline Ref to_python(uint32_t value) { return to_python(static_cast<int64_t>(value)); }
inline Ref to_python(uint64_t value) { return made(py.PyLong_FromUnsignedLongLong(value)); }
inline Ref to_python(double value) { return made(py.PyFloat_FromDouble(value)); }
inline Ref to_python(const char* text) { return made(py.PyUnicode_FromString(text)); }
inline Ref to_python(const std::string& text) { return to_python(text.c_str()); }
// A tensor of the running hook; None for 0.
struct Handle {
  mneme_tensor tensor;
};
Ref to_python(Handle handle);
// (kind, count, hidden, k, v, valid, position, mass, counts), `counts` for `lanes` or None.
Ref to_python(const mneme_rows& rows, int64_t lanes);

template <typename... Values>
Ref tuple(Values&&... values) {
  Ref out = made(py.PyTuple_New(sizeof...(values)));
  std::ptrdiff_t index = 0;
  (py.PyTuple_SetItem(out.get(), index++, to_python(std::forward<Values>(values)).release()), ...);
  return out;
}
template <typename Value>
Ref tuple_of(const Value* values, int64_t count) {
  Ref out = made(py.PyTuple_New(count));
  for (int64_t i = 0; i < count; ++i)
    py.PyTuple_SetItem(out.get(), i, to_python(values[i]).release());
  return out;
}

// ---- from Python ----

// The items of a tuple, one after the other. Errors: Raised, for an item of another type.
class Items {
 public:
  explicit Items(Object* tuple) noexcept : tuple_(tuple) {}

  Object* next();
  int64_t integer();
  uint32_t number() { return static_cast<uint32_t>(integer()); }
  uint64_t bits();
  double real();
  bool boolean();
  const char* text();           // valid as long as the tuple
  const char* optional_text();  // nullptr for None
  // A handle of the running hook, with a reference that the hook's end gives back; 0 for None.
  mneme_tensor tensor();
  void shape(uint32_t& rank, int64_t* dims);
  std::vector<int64_t> integers();
  // As to_python gives rows; `counts` holds the array that the rows point to.
  mneme_rows rows(std::vector<int64_t>& counts);
  [[nodiscard]] bool is_none();  // the next item, which is taken if it is None

 private:
  Object* tuple_;
  std::ptrdiff_t index_ = 0;
};

// ---- errors ----

// The host refused a call: raises the runtime's HostError with its text and code. Throws Raised.
[[noreturn]] void raise_host_error(mneme_status status, const mneme_error& error);
// Raises the runtime's HostError with a text of the bridge itself.
[[noreturn]] void raise(mneme_status status, const std::string& text);
// The same without a throw: NULL, for a function that Python called.
Object* fail(const char* text) noexcept;
// The text of the exception that is set, which is none afterwards.
std::string take_text();
// The same with the runtime's description: as an error with the line of the memory's
// own files.
mneme_status take_exception(mneme_error* error);

// Calls `function`(arguments ..., &error) of the host. Errors: Raised.
template <typename Function, typename... Arguments>
void call_host(Function function, Arguments... arguments) {
  mneme_error error = MNEME_INIT(mneme_error);
  const mneme_status status = function(arguments..., &error);
  if (status != MNEME_OK) raise_host_error(status, error);
}

}  // namespace mneme::python
