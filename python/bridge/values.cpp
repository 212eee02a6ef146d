#include "python/bridge/values.hpp"

#include "mneme/sdk.h"
#include "python/bridge/bridge.hpp"

namespace mneme::python {

Groups groups;
Objects objects;
thread_local RunningCall running;

mneme_setup* setup() {
  if (running.setup == nullptr) raise(MNEME_E_STATE, "this may be called in setup alone");
  return running.setup;
}

mneme_ctx* ctx() {
  if (running.ctx == nullptr)
    raise(MNEME_E_STATE,
          "this may be called in a hook alone, on its thread: the objects that a hook gets end "
          "with it");
  return running.ctx;
}

// ---- to Python ----

Ref to_python(Handle handle) {
  if (handle.tensor == 0) return none();
  void* impl = nullptr;
  call_host(groups.torch->impl, ctx(), handle.tensor, &impl);
  return made(objects.wrap(&impl));
}

Ref to_python(const mneme_rows& rows, int64_t lanes) {
  return tuple(rows.kind, rows.rows, Handle{rows.hidden}, Handle{rows.k}, Handle{rows.v},
               Handle{rows.valid}, Handle{rows.position}, Handle{rows.mass},
               rows.counts == nullptr ? Ref() : tuple_of(rows.counts, lanes));
}

// ---- from Python ----

namespace {

// A number that may also be -1, the sign of an error.
template <typename Value>
Value checked(Value value) {
  if (value == static_cast<Value>(-1) && py.PyErr_Occurred() != nullptr) throw Raised();
  return value;
}

}  // namespace

Object* Items::next() {
  Object* const item = py.PyTuple_GetItem(tuple_, index_++);
  if (item == nullptr) throw Raised();
  return item;
}

int64_t Items::integer() { return checked<int64_t>(py.PyLong_AsLongLong(next())); }

uint64_t Items::bits() { return checked<uint64_t>(py.PyLong_AsUnsignedLongLong(next())); }

double Items::real() { return checked(py.PyFloat_AsDouble(next())); }

bool Items::boolean() { return checked(py.PyObject_IsTrue(next())) != 0; }

const char* Items::text() {
  std::ptrdiff_t size = 0;
  const char* const out = py.PyUnicode_AsUTF8AndSize(next(), &size);
  if (out == nullptr) throw Raised();
  return out;
}

bool Items::is_none() {
  if (next() == py.none) return true;
  --index_;
  return false;
}

const char* Items::optional_text() { return is_none() ? nullptr : text(); }

mneme_tensor Items::tensor() {
  if (is_none()) return 0;
  Object* const item = next();
  // Storages and generators have a _cdata too.
  if (checked(py.PyObject_IsInstance(item, objects.tensor)) == 0) {
    const Ref type = made(py.PyObject_GetAttrString(item, "__class__"));
    const Ref arguments = tuple(made(py.PyObject_GetAttrString(type.get(), "__name__")));
    raise(MNEME_E_INVALID_ARGUMENT,
          std::string("expected a torch.Tensor, got a ") + Items(arguments.get()).text());
  }
  const Ref address = made(py.PyObject_GetAttr(item, objects.cdata));
  void* const impl = py.PyLong_AsVoidPtr(address.get());
  if (impl == nullptr) {
    if (py.PyErr_Occurred() != nullptr) throw Raised();
    raise(MNEME_E_INVALID_ARGUMENT, "the tensor is an undefined one");
  }
  mneme_tensor out = 0;
  call_host(groups.torch->handle, ctx(), impl, &out);
  return out;
}

void Items::shape(uint32_t& rank, int64_t* dims) {
  const std::vector<int64_t> extents = integers();
  if (extents.size() > MNEME_MAX_RANK) raise(MNEME_E_SHAPE, "a shape has at most 8 extents");
  rank = static_cast<uint32_t>(extents.size());
  for (std::size_t i = 0; i < extents.size(); ++i) dims[i] = extents[i];
}

std::vector<int64_t> Items::integers() {
  Object* const inner = next();
  const std::ptrdiff_t size = checked(py.PyTuple_Size(inner));
  std::vector<int64_t> out;
  Items items(inner);
  for (std::ptrdiff_t i = 0; i < size; ++i) out.push_back(items.integer());
  return out;
}

mneme_rows Items::rows(std::vector<int64_t>& counts) {
  Items items(next());
  mneme_rows out = MNEME_INIT(mneme_rows);
  out.kind = items.number();
  out.rows = items.integer();
  out.hidden = items.tensor();
  out.k = items.tensor();
  out.v = items.tensor();
  out.valid = items.tensor();
  out.position = items.tensor();
  out.mass = items.tensor();
  if (items.is_none()) return out;
  counts = items.integers();
  out.counts = counts.data();
  return out;
}

// ---- errors ----

void raise(mneme_status status, const std::string& text) {
  const Ref value = tuple(text, status);
  py.PyErr_SetObject(objects.host_error, value.get());
  throw Raised();
}

Object* fail(const char* text) noexcept {
  try {
    raise(MNEME_E_INTERNAL, text);
  } catch (...) {
  }
  return nullptr;
}

void raise_host_error(mneme_status status, const mneme_error& error) {
  raise(status, error.message);
}

namespace {

// The exception that is set, with its traceback.
Ref take_set() {
  Object* type = nullptr;
  Object* value = nullptr;
  Object* trace = nullptr;
  py.PyErr_Fetch(&type, &value, &trace);
  py.PyErr_NormalizeException(&type, &value, &trace);
  const Ref owned_type(type);
  const Ref owned_trace(trace);
  if (trace != nullptr) py.PyException_SetTraceback(value, trace);
  return Ref(value);
}

}  // namespace

std::string take_text() {
  const Ref exception = take_set();
  try {
    const Ref text = tuple(made(py.PyObject_Str(exception.get())));
    return Items(text.get()).text();
  } catch (const Raised&) {
    py.PyErr_Clear();
    return "an exception without text";
  }
}

mneme_status take_exception(mneme_error* error) {
  if (objects.describe_error == nullptr)  // the runtime has not been imported
    return mneme_sdk_fail(error, MNEME_E_INTERNAL, "", 0, take_text().c_str());
  Ref exception = take_set();
  try {
    const Ref arguments = tuple(std::move(exception));
    const Ref described = made(py.PyObject_CallObject(objects.describe_error, arguments.get()));
    Items items(described.get());
    const auto status = static_cast<mneme_status>(items.integer());
    const char* const file = items.text();
    const auto line = static_cast<int>(items.integer());
    return mneme_sdk_fail(error, status, file, line, items.text());
  } catch (const Raised&) {
    py.PyErr_Clear();
    return MNEME_FAIL(error, MNEME_E_INTERNAL, "an exception of Python that cannot be described");
  }
}

}  // namespace mneme::python
