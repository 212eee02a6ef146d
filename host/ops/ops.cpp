#include "host/ops/ops.hpp"

#include <algorithm>
#include <new>

#include "host/ops/op_table.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::ops {
namespace {

bool mentions(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// LibTorch's own message, without its stack of C++ frames.
[[noreturn]] void rethrow_libtorch(const OpCall& call, const c10::Error& error) {
  const std::string cause = error.what_without_backtrace();
  // The CPU allocator throws a plain c10::Error.
  const bool is_memory = dynamic_cast<const c10::OutOfMemoryError*>(&error) != nullptr ||
                         mentions(cause, "DefaultCPUAllocator");
  if (is_memory) call.fail(MNEME_E_OUT_OF_MEMORY, "out of memory: " + cause);
  if (dynamic_cast<const c10::AcceleratorError*>(&error) != nullptr) {
    call.fail(MNEME_E_CUDA, "the accelerator failed: " + cause);
  }
  call.fail(MNEME_E_INVALID_ARGUMENT, "LibTorch refused the call: " + cause);
}

void run_checked(const Op& op, OpCall& call) {
  try {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    op.run(call);
  } catch (const OpError&) {
    throw;
  } catch (const c10::Error& error) {
    rethrow_libtorch(call, error);
  } catch (const std::bad_alloc&) {
    call.fail(MNEME_E_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception& error) {
    call.fail(MNEME_E_INTERNAL, str("LibTorch failed: ", error.what()));
  }
}

const Op& op_at(mneme_op op) {
  const OpList& table = op_table();
  if (op == 0 || op > table.size()) {
    throw OpError(MNEME_E_INVALID_ARGUMENT,
                  {.failed = "no such op handle",
                   .expected = str("1 .. ", table.size()),
                   .got = str(op),
                   .hint = "use a handle that resolve gave for a name of `mneme abi ops`"});
  }
  return table[op - 1];
}

}  // namespace

const std::vector<OpSchema>& op_schemas() {
  static const std::vector<OpSchema> schemas = [] {
    std::vector<OpSchema> all;
    for (const Op& op : op_table()) all.push_back(op.schema);
    return all;
  }();
  return schemas;
}

mneme_op find_op(std::string_view name) {
  const OpList& table = op_table();
  const auto found =
      std::lower_bound(table.begin(), table.end(), name,
                       [](const Op& op, std::string_view n) { return op.schema.name < n; });
  if (found == table.end() || found->schema.name != name) return 0;
  return static_cast<mneme_op>(found - table.begin()) + 1;
}

std::string nearest_op(std::string_view name) {
  std::vector<std::string> names;
  for (const Op& op : op_table()) names.push_back(op.schema.name);
  return nearest(name, names);
}

bool op_supports(mneme_op op, uint32_t dtype, uint32_t device_type) {
  const OpList& table = op_table();
  if (op == 0 || op > table.size() || dtype == 0 || dtype > MNEME_BOOL) return false;
  if (device_type != MNEME_DEVICE_CPU && device_type != MNEME_DEVICE_CUDA) return false;
  return (table[op - 1].dtypes >> dtype & 1U) != 0;
}

void run_op(mneme_op op, std::span<const at::Tensor> inputs, std::span<const mneme_attr> attrs,
            at::Device device, std::span<at::Tensor> outputs) {
  const Op& entry = op_at(op);
  OpCall call(entry, inputs, attrs, device, outputs);
  call.check();
  run_checked(entry, call);
  for (const at::Tensor& output : outputs) {
    if (output.dim() > MNEME_MAX_RANK) {
      call.fail(MNEME_E_SHAPE, "the result has too many dimensions",
                str("at most ", MNEME_MAX_RANK), shape_text(output.sizes()));
    }
  }
}

std::vector<at::Tensor> run_op(mneme_op op, std::span<const at::Tensor> inputs,
                               std::span<const mneme_attr> attrs, at::Device device) {
  std::vector<at::Tensor> outputs(op_at(op).schema.outputs.size());
  run_op(op, inputs, attrs, device, outputs);
  return outputs;
}

}  // namespace mneme::ops
