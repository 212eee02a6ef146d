// What `setup` of a memory calls: options and declarations. Arguments are in the order of the
// structs' fields; runtime.py gives them.
#include "python/bridge/bridge.hpp"

namespace mneme::python {
namespace {

// (key, type) -> the option's value.
Ref option(Items& items) {
  const char* const key = items.text();
  const mneme_config_api& api = *groups.config;
  switch (items.number()) {
    case MNEME_OPTION_INTEGER: {
      int64_t value = 0;
      call_host(api.integer, setup(), key, &value);
      return to_python(value);
    }
    case MNEME_OPTION_REAL: {
      double value = 0;
      call_host(api.real, setup(), key, &value);
      return to_python(value);
    }
    case MNEME_OPTION_BOOLEAN: {
      int32_t value = 0;
      call_host(api.boolean, setup(), key, &value);
      return made(py.PyBool_FromLong(value));
    }
    case MNEME_OPTION_INTEGERS: {
      const int64_t* values = nullptr;
      uint64_t count = 0;
      call_host(api.integers, setup(), key, &values, &count);
      return tuple_of(values, static_cast<int64_t>(count));
    }
    case MNEME_OPTION_REALS: {
      const double* values = nullptr;
      uint64_t count = 0;
      call_host(api.reals, setup(), key, &values, &count);
      return tuple_of(values, static_cast<int64_t>(count));
    }
    default: {
      const char* value = nullptr;
      call_host(api.text, setup(), key, &value);
      return to_python(value);
    }
  }
}

// (name, scope, dims, init, value, mean, deviation, low, high, gain, fan_in, lr_factor, group) -> id
Ref add_parameter(Items& items) {
  mneme_parameter_decl decl = MNEME_INIT(mneme_parameter_decl);
  decl.name = items.text();
  decl.scope = items.number();
  items.shape(decl.rank, decl.dims);
  decl.init = items.number();
  decl.value = items.real();
  decl.mean = items.real();
  decl.deviation = items.real();
  decl.low = items.real();
  decl.high = items.real();
  decl.gain = items.real();
  decl.fan_in = items.integer();
  decl.lr_factor = items.real();
  decl.group = items.optional_text();
  mneme_parameter id = 0;
  call_host(groups.state->add_parameter, setup(), &decl, &id);
  return to_python(id);
}

// (name, flags, scope, dtype, gradient, lifetime, revision, dims, start, start_parameter,
// start_value) -> id
Ref add_slot(Items& items) {
  mneme_slot_decl decl = MNEME_INIT(mneme_slot_decl);
  decl.name = items.text();
  decl.flags = items.number();
  decl.scope = items.number();
  decl.dtype = items.number();
  decl.gradient = items.number();
  decl.lifetime = items.number();
  decl.revision = items.number();
  items.shape(decl.rank, decl.dims);
  decl.start = items.number();
  decl.start_parameter = items.number();
  decl.start_value = items.real();
  mneme_slot id = 0;
  call_host(groups.state->add_slot, setup(), &decl, &id);
  return to_python(id);
}

// (name, scope, kind, attributes, revision, start_rows, capacity) -> id
Ref add_queue(Items& items) {
  mneme_queue_decl decl = MNEME_INIT(mneme_queue_decl);
  decl.name = items.text();
  decl.scope = items.number();
  decl.kind = items.number();
  decl.attributes = items.number();
  decl.revision = items.number();
  decl.start_rows = items.integer();
  decl.capacity = items.integer();
  mneme_queue id = 0;
  call_host(groups.state->add_queue, setup(), &decl, &id);
  return to_python(id);
}

// (level, text): at any time.
Ref log(Items& items) {
  const uint32_t level = items.number();
  const std::string text = items.text();
  if (groups.log != nullptr)
    groups.log->write(groups.host, level, payload_text(payload().id), text.data(), text.size());
  return none();
}

}  // namespace

void add_setup_functions(Object* dict) {
  add_function<option>(dict, "option");
  add_function<add_parameter>(dict, "add_parameter");
  add_function<add_slot>(dict, "add_slot");
  add_function<add_queue>(dict, "add_queue");
  add_function<log>(dict, "log");
}

}  // namespace mneme::python
