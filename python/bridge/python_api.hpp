// The functions of CPython that the bridge calls. All belong to its stable ABI and are looked up in
// a libpython when a memory is created: one bridge serves every Python from 3.10 on, and links none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace mneme::python {

struct Object;  // PyObject

// PyMethodDef.
struct MethodDef {
  const char* name;
  Object* (*function)(Object* self, Object* arguments);
  int flags;
  const char* doc;
};
inline constexpr int kVarArgs = 1;  // METH_VARARGS

// X(result, name, arguments)
#define MNEME_PYTHON_FUNCTIONS(X)                                                       \
  X(int, Py_IsInitialized, ())                                                          \
  X(wchar_t*, Py_DecodeLocale, (const char* text, std::size_t* size))                   \
  X(void, Py_SetProgramName, (const wchar_t* name))                                     \
  X(void, Py_InitializeEx, (int with_signals))                                          \
  X(void*, PyEval_SaveThread, ())                                                       \
  X(int, PyGILState_Ensure, ())                                                         \
  X(void, PyGILState_Release, (int state))                                              \
  X(void, Py_IncRef, (Object * object))                                                 \
  X(void, Py_DecRef, (Object * object))                                                 \
  X(Object*, PyErr_Occurred, ())                                                        \
  X(void, PyErr_Clear, ())                                                              \
  X(void, PyErr_SetObject, (Object * type, Object * value))                             \
  X(void, PyErr_Fetch, (Object * *type, Object * *value, Object * *trace))              \
  X(void, PyErr_NormalizeException, (Object * *type, Object * *value, Object * *trace)) \
  X(int, PyException_SetTraceback, (Object * value, Object * trace))                    \
  X(Object*, PyImport_ImportModule, (const char* name))                                 \
  X(Object*, PyObject_GetAttr, (Object * object, Object * name))                        \
  X(Object*, PyObject_GetAttrString, (Object * object, const char* name))               \
  X(Object*, PyObject_CallObject, (Object * callable, Object * arguments))              \
  X(Object*, PyObject_Str, (Object * object))                                           \
  X(int, PyObject_IsTrue, (Object * object))                                            \
  X(int, PyObject_IsInstance, (Object * object, Object * type))                         \
  X(Object*, PyCFunction_NewEx, (MethodDef * method, Object * self, Object * module))   \
  X(Object*, PyDict_New, ())                                                            \
  X(int, PyDict_SetItemString, (Object * dict, const char* key, Object* value))         \
  X(Object*, PyTuple_New, (std::ptrdiff_t size))                                        \
  X(int, PyTuple_SetItem, (Object * tuple, std::ptrdiff_t index, Object * stolen))      \
  X(std::ptrdiff_t, PyTuple_Size, (Object * tuple))                                     \
  X(Object*, PyTuple_GetItem, (Object * tuple, std::ptrdiff_t index))                   \
  X(Object*, PyBool_FromLong, (long value))                                             \
  X(Object*, PyFloat_FromDouble, (double value))                                        \
  X(double, PyFloat_AsDouble, (Object * object))                                        \
  X(Object*, PyLong_FromLongLong, (long long value))                                    \
  X(long long, PyLong_AsLongLong, (Object * object))                                    \
  X(Object*, PyLong_FromUnsignedLongLong, (unsigned long long value))                   \
  X(unsigned long long, PyLong_AsUnsignedLongLong, (Object * object))                   \
  X(void*, PyLong_AsVoidPtr, (Object * object))                                         \
  X(Object*, PyUnicode_FromString, (const char* text))                                  \
  X(Object*, PyUnicode_InternFromString, (const char* text))                            \
  X(const char*, PyUnicode_AsUTF8AndSize, (Object * object, std::ptrdiff_t * size))

struct PythonApi {
#define MNEME_PYTHON_MEMBER(result, name, arguments) result(*name) arguments = nullptr;
  MNEME_PYTHON_FUNCTIONS(MNEME_PYTHON_MEMBER)
#undef MNEME_PYTHON_MEMBER
  Object* none = nullptr;
};

extern PythonApi py;

// Loads the library and starts its interpreter as `executable` would start, unless that was done in
// this process. The signals stay the program's. Errors: std::runtime_error, a whole sentence.
void start_python(const std::string& executable, const std::string& library);

// Holds the interpreter's lock.
class Gil {
 public:
  Gil() : state_(py.PyGILState_Ensure()) {}
  ~Gil() { py.PyGILState_Release(state_); }
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;

 private:
  int state_;
};

}  // namespace mneme::python
