// The Python that memories run in: which interpreter, and the shared library to embed. Used by the
// program, which reads a memory's declaration with it, and by the bridge; so it needs the standard
// library alone.
#pragma once

#include <stdexcept>
#include <string>

namespace mneme::python {

// The environment: the interpreter, and the folder that holds the package `mneme` where it is not
// installed in the interpreter. The program sets kLibrary for its plugins, so that the
// interpreter is asked once.
inline constexpr const char* kInterpreter = "MNEME_PYTHON";
inline constexpr const char* kLibrary = "MNEME_LIBPYTHON";
inline constexpr const char* kPackage = "MNEME_PYTHON_PACKAGE";

struct Interpreter {
  std::string executable;  // absolute, as it was found: in a venv, that of the venv
  std::string version;     // "3.11.7"
  std::string library;     // absolute path of libpython3.11.so.1.0; "" = this Python has none
  std::string torch;       // version of the installed torch; "" = none
  std::string advice;      // where `library` is empty: the command that installs it
};

// What went wrong, as a whole sentence with what to do.
class InterpreterError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What the interpreter at `executable` says of itself. It runs for about 50 ms, and imports nothing
// of torch. Errors: InterpreterError when it cannot be run or answers nonsense.
Interpreter ask_interpreter(const std::string& executable);

// $MNEME_PYTHON; else the python3 of $VIRTUAL_ENV; else the first python3 on $PATH that has torch.
// Errors: InterpreterError when there is none, or it has no shared library or no torch.
Interpreter find_interpreter();

}  // namespace mneme::python
