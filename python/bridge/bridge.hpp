// What the files of the bridge share: the host's groups, the Python objects of the memory, and the
// running call. There is one of each in a copy of the bridge, which is one build of one memory.
#pragma once

#include <exception>

#include "mneme/plugin.h"
#include "python/bridge/payload.h"
#include "python/bridge/values.hpp"

namespace mneme::python {

// The memory that this file holds (payload.cpp).
const mneme_payload& payload();
inline const char* payload_text(uint32_t place) { return payload().text + place; }

struct Groups {
  const mneme_host* host = nullptr;
  const mneme_tensor_api* tensor = nullptr;
  const mneme_state_api* state = nullptr;
  const mneme_layer_api* layer = nullptr;
  const mneme_config_api* config = nullptr;
  const mneme_report_api* report = nullptr;
  const mneme_random_api* random = nullptr;
  const mneme_torch_api* torch = nullptr;
  const mneme_probe_api* probe = nullptr;  // may be absent
  const mneme_log_api* log = nullptr;      // may be absent
};
extern Groups groups;

// Objects of Python that live as long as the process, so nobody gives them back.
struct Objects {
  Object* memory_class = nullptr;
  Object* host_error = nullptr;
  Object* describe_error = nullptr;
  Object* create = nullptr;
  Object* begin = nullptr;
  Object* absorb = nullptr;
  Object* context = nullptr;
  Object* ride = nullptr;
  Object* read = nullptr;
  Object* finish = nullptr;
  Object* tensor = nullptr;  // torch.Tensor
  Object* cdata = nullptr;   // "_cdata"
  // THPVariable_Wrap(const at::TensorBase&): a TensorBase is the address of a TensorImpl.
  Object* (*wrap)(void* const* tensor) = nullptr;
};
extern Objects objects;

// The call that runs on this thread. Plain data: a thread_local of a plugin has no destructor.
struct RunningCall {
  mneme_setup* setup;
  mneme_ctx* ctx;
  const mneme_segment* segment;
};
extern thread_local RunningCall running;

// Those of the running call. Errors: Raised where none runs.
mneme_setup* setup();
mneme_ctx* ctx();

// Add the functions of the host for the runtime to a dict.
void add_setup_functions(Object* dict);
void add_state_functions(Object* dict);
void add_layer_functions(Object* dict);

// A function for Python from one that gets the items of its arguments and may throw Raised.
using Body = Ref (*)(Items& items);
template <Body body>
Object* function_of(Object* /*self*/, Object* arguments) {
  try {
    Items items(arguments);
    return to_python(body(items)).release();
  } catch (const Raised&) {
    return nullptr;
  } catch (const std::exception& failure) {
    return fail(failure.what());
  } catch (...) {
    return fail("an exception of C++ without text");
  }
}
template <Body body>
void add_function(Object* dict, const char* name) {
  static MethodDef method{name, &function_of<body>, kVarArgs, nullptr};
  const Ref function = made(py.PyCFunction_NewEx(&method, nullptr, nullptr));
  if (py.PyDict_SetItemString(dict, name, function.get()) != 0) throw Raised();
}

}  // namespace mneme::python
