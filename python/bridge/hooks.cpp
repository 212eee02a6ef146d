#include "python/bridge/hooks.hpp"

#include <dlfcn.h>
#include <signal.h>

#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>

#include "mneme/sdk.h"
#include "python/bridge/bridge.hpp"
#include "python/bridge/interpreter.hpp"

namespace mneme::python {
namespace {

// Keeps signal handlers away while Python computes: oneDNN's products move the stack pointer, where
// a handler may not be entered (tensor::SignalShield of the program says more). Signals of faults
// pass; the others are delivered when the hook returns.
class Shield {
 public:
  Shield() : before_{} {
    sigset_t waiting;
    ::sigfillset(&waiting);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
      ::sigdelset(&waiting, fault);
    ::pthread_sigmask(SIG_BLOCK, &waiting, &before_);
  }
  ~Shield() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Shield(const Shield&) = delete;
  Shield& operator=(const Shield&) = delete;

 private:
  sigset_t before_;
};

// body(), with every exception as an error: one of C++ says what this machine lacks.
template <typename Body>
mneme_status in_python(mneme_error* error, Body body) noexcept {
  try {
    body();
    return MNEME_OK;
  } catch (const Raised&) {
    return take_exception(error);
  } catch (const std::exception& failure) {
    return mneme_sdk_fail(error, MNEME_E_UNSUPPORTED, "", 0, failure.what());
  } catch (...) {
    return mneme_sdk_fail(error, MNEME_E_INTERNAL, "", 0, "an exception of C++ without text");
  }
}

// A hook: body() with the interpreter's lock, while the runtime's functions find this call.
template <typename Body>
mneme_status in_hook(mneme_ctx* ctx, const mneme_segment* segment, mneme_error* error,
                     Body body) noexcept {
  const Shield shield;
  const Gil gil;
  running = {nullptr, ctx, segment};
  py.PyErr_Clear();  // LibTorch leaves the exception of a backward pass
  const mneme_status status = in_python(error, body);
  running = {};
  return status;
}

template <typename... Arguments>
Ref call(Object* function, Arguments&&... arguments) {
  const Ref all = tuple(std::forward<Arguments>(arguments)...);
  return made(py.PyObject_CallObject(function, all.get()));
}

Ref memory_of(void* instance) { return shared(static_cast<Object*>(instance)); }

Ref segment_of(const mneme_segment& segment) {
  return tuple(segment.flags, segment.index, segment.lanes, segment.length, segment.previous_length,
               segment.layers, segment.offset, Handle{segment.valid}, Handle{segment.reset_mask},
               segment.compute_dtype, segment.device_type);
}

// ---- loading ----

// The interpreter of the program, or the one that is found.
void start() {
  const char* const executable = std::getenv(kInterpreter);
  const char* const library = std::getenv(kLibrary);
  if (executable != nullptr && library != nullptr) return start_python(executable, library);
  const Interpreter found = find_interpreter();
  start_python(found.executable, found.library);
}

Object* attribute(const Ref& module, const char* name) {
  return made(py.PyObject_GetAttrString(module.get(), name)).release();
}

Ref files() {
  Ref out = made(py.PyTuple_New(payload().file_count));
  for (uint32_t i = 0; i < payload().file_count; ++i) {
    const mneme_payload_file& file = payload().files[i];
    Ref parts = tuple(payload_text(file.module), payload_text(file.name), payload_text(file.source),
                      made(py.PyBool_FromLong(static_cast<long>(file.is_package))));
    py.PyTuple_SetItem(out.get(), i, parts.release());
  }
  return out;
}

// The runtime of the package that has read the declaration, though the interpreter may have another
// one. Errors: Raised, std::runtime_error.
Ref import_runtime() {
  const char* const folder = std::getenv(kPackage);
  Ref path;
  if (folder != nullptr) {
    const Ref system = made(py.PyImport_ImportModule("sys"));
    path = made(py.PyObject_GetAttrString(system.get(), "path"));
    call(Ref(attribute(path, "insert")).get(), 0, folder);
  }
  Ref runtime(py.PyImport_ImportModule("mneme.memory.runtime"));
  const std::string failed = runtime ? "" : take_text();
  if (folder != nullptr) call(Ref(attribute(path, "remove")).get(), folder);
  if (!runtime)
    throw std::runtime_error("the Python package mneme cannot be imported: " + failed +
                             "; install it with pip, or name its folder in " + kPackage);
  return runtime;
}

// Imports the runtime, which imports torch, and the memory's class. Errors: Raised,
// std::runtime_error.
void load_memory() {
  objects.cdata = made(py.PyUnicode_InternFromString("_cdata")).release();
  const Ref runtime = import_runtime();
  objects.describe_error = attribute(runtime, "describe_error");
  objects.host_error = attribute(runtime, "HostError");
  const Ref start = Ref(attribute(runtime, "start"));
  call(start.get(), groups.torch->version, groups.torch->library);
  objects.tensor = attribute(made(py.PyImport_ImportModule("torch")), "Tensor");
  void* const library = ::dlopen("libtorch_python.so", RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr)
    objects.wrap = reinterpret_cast<decltype(objects.wrap)>(
        ::dlsym(library, "_Z16THPVariable_WrapRKN2at10TensorBaseE"));
  if (objects.wrap == nullptr)
    raise(MNEME_E_UNSUPPORTED, "libtorch_python has no THPVariable_Wrap: expected torch 2.11");
  const Ref functions = made(py.PyDict_New());
  add_setup_functions(functions.get());
  add_state_functions(functions.get());
  add_layer_functions(functions.get());
  objects.create = attribute(runtime, "create");
  objects.begin = attribute(runtime, "begin");
  objects.absorb = attribute(runtime, "absorb");
  objects.context = attribute(runtime, "context");
  objects.ride = attribute(runtime, "ride");
  objects.read = attribute(runtime, "read");
  objects.finish = attribute(runtime, "finish");
  const Ref load = Ref(attribute(runtime, "load"));
  objects.memory_class = call(load.get(), shared(functions.get()), files(),
                              payload_text(payload().class_name), payload_text(payload().id))
                             .release();
}

}  // namespace

mneme_status create(const mneme_host* /*host*/, mneme_setup* setup, const mneme_model_info* model,
                    mneme_tier_traits* traits, void** instance, mneme_error* error) {
  static std::mutex one_at_a_time;
  const mneme_status started = in_python(error, start);
  if (started != MNEME_OK) return started;
  const std::scoped_lock lock(one_at_a_time);
  const Gil gil;
  return in_python(error, [&] {
    if (objects.memory_class == nullptr) load_memory();
    running = {setup, nullptr, nullptr};
    struct Over {
      ~Over() { running = {}; }
    } over;
    const Ref sizes =
        tuple(model->flags, model->width, model->heads, model->head_width, model->layers,
              tuple_of(model->served, model->served_count), model->segment, model->bptt_segments,
              model->position, model->compute_dtype, model->attention_dropout, model->kv_heads);
    const Ref made_of = call(objects.create, shared(objects.memory_class), shared(sizes.get()));
    Items items(made_of.get());
    Ref memory = shared(items.next());
    traits->flags = items.number();
    traits->wants = items.bits();
    traits->absorb = items.number();
    traits->sites = items.number();
    traits->context_rows = items.integer();
    traits->max_segment = items.integer();
    traits->read_rows = items.integer();
    traits->key_width = items.integer();
    traits->value_width = items.integer();
    *instance = memory.release();
  });
}

void destroy(void* instance) {
  const Gil gil;
  py.Py_DecRef(static_cast<Object*>(instance));
}

// ---- hooks ----

mneme_status begin(void* instance, mneme_ctx* ctx, const mneme_segment* segment, mneme_riders* out,
                   mneme_error* error) {
  return in_hook(ctx, segment, error, [&] {
    const Ref result = call(objects.begin, memory_of(instance), segment_of(*segment));
    if (result.get() == py.none) return;
    Items items(result.get());
    out->rows = items.tensor();
    out->valid = items.tensor();
    out->unseen = items.integer();
  });
}

mneme_status absorb(void* instance, mneme_ctx* ctx, const mneme_absorb* in, mneme_error* error) {
  return in_hook(ctx, in->segment, error, [&] {
    call(objects.absorb, memory_of(instance), segment_of(*in->segment), in->layer, in->flags,
         to_python(*in->rows, in->segment->lanes), Handle{in->x}, Handle{in->z}, Handle{in->lse},
         Handle{in->q}, Handle{in->k}, Handle{in->v}, Handle{in->mass}, in->mass_rows,
         Handle{in->context_k}, Handle{in->context_v});
  });
}

mneme_status context(void* instance, mneme_ctx* ctx, const mneme_context* in, mneme_error* error) {
  return in_hook(ctx, in->segment, error, [&] {
    call(objects.context, memory_of(instance), segment_of(*in->segment), in->layer, Handle{in->x});
  });
}

mneme_status ride(void* instance, mneme_ctx* ctx, const mneme_ride* in, mneme_tensor* result,
                  mneme_error* error) {
  return in_hook(ctx, in->segment, error, [&] {
    const Ref given =
        tuple(call(objects.ride, memory_of(instance), segment_of(*in->segment), in->layer,
                   in->riders, Handle{in->q_riders}, Handle{in->k}, Handle{in->v},
                   Handle{in->valid}, Handle{in->hidden}, in->is_last));
    *result = Items(given.get()).tensor();
  });
}

mneme_status read(void* instance, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out,
                  mneme_error* error) {
  return in_hook(ctx, in->segment, error, [&] {
    const Ref result =
        call(objects.read, memory_of(instance), segment_of(*in->segment), in->layer, in->site,
             Handle{in->q}, Handle{in->k}, Handle{in->v}, Handle{in->z}, Handle{in->lse},
             Handle{in->projected}, Handle{in->x}, Handle{in->normed});
    Items items(result.get());
    out->merge = items.number();
    out->out = items.tensor();
    out->gate = items.tensor();
    out->lse = items.tensor();
  });
}

mneme_status finish(void* instance, mneme_ctx* ctx, const mneme_finish* in, mneme_error* error) {
  return in_hook(ctx, in->segment, error, [&] {
    Ref layers;
    if (in->layers != nullptr) {
      layers = made(py.PyTuple_New(in->segment->layers));
      for (int64_t i = 0; i < in->segment->layers; ++i)
        py.PyTuple_SetItem(layers.get(), i, to_python(Handle{in->layers[i]}).release());
    }
    call(objects.finish, memory_of(instance), segment_of(*in->segment), Handle{in->top},
         Handle{in->targets}, Handle{in->logp}, std::move(layers), Handle{in->riders});
  });
}

}  // namespace mneme::python
