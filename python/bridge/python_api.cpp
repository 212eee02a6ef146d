#include "python/bridge/python_api.hpp"

#include <dlfcn.h>

#include <mutex>
#include <stdexcept>

namespace mneme::python {

PythonApi py;

namespace {

template <typename Symbol>
void find(void* library, const std::string& path, const char* name, Symbol& out) {
  out = reinterpret_cast<Symbol>(::dlsym(library, name));
  if (out == nullptr)
    throw std::runtime_error(path + " has no " + name +
                             ": expected the libpython of 3.10 or newer");
}

// Extension modules do not link libpython, so its symbols have to be global.
void load(const std::string& path) {
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) throw std::runtime_error(std::string("cannot load ") + ::dlerror());
  PythonApi api;
#define MNEME_PYTHON_FIND(result, name, arguments) find(library, path, #name, api.name);
  MNEME_PYTHON_FUNCTIONS(MNEME_PYTHON_FIND)
#undef MNEME_PYTHON_FIND
  find(library, path, "_Py_NoneStruct", api.none);
  // A program without setlocale reads file names and output as ASCII otherwise.
  int* is_utf8 = nullptr;
  find(library, path, "Py_UTF8Mode", is_utf8);
  if (api.Py_IsInitialized() == 0) *is_utf8 = 1;
  py = api;
}

}  // namespace

void start_python(const std::string& executable, const std::string& library) {
  static std::mutex one_at_a_time;
  const std::scoped_lock lock(one_at_a_time);
  if (py.none == nullptr) load(library);
  if (py.Py_IsInitialized() != 0) return;
  // From the program's name Python finds its folders, those of a venv too. The text is Python's for
  // the process's life.
  const wchar_t* const name = py.Py_DecodeLocale(executable.c_str(), nullptr);
  if (name == nullptr) throw std::runtime_error("not in the locale's encoding: " + executable);
  py.Py_SetProgramName(name);
  py.Py_InitializeEx(0);
  py.PyEval_SaveThread();
}

}  // namespace mneme::python
