// Checks of memories in Python: rules of the contract that PyTorch allows to break. The package mneme
// looks at each hook (python/mneme/memory/checking.py); a hook that breaks a rule fails.

#include <cstdlib>
#include <string_view>

#include "host/base/error.hpp"
#include "host/config/memory_file.hpp"
#include "host/tensor/torch.hpp"
#include "host/validate/check.hpp"
#include "host/validate/setting.hpp"

namespace mneme::validate {
namespace {

// A training and an evaluation with this rule looked at.
Outcome python_rule(const Subject& subject, const char* rule) {
  if (!config::is_python_memory(subject.file)) throw Skipped("the memory is not in Python");
  ::setenv("MNEME_PYTHON_CHECKS", rule, 1);  // read when the memory is loaded
  const auto session = open(subject);
  const at::Tensor ids = ids_of(subject, *session, kSegments);
  for (const memory::Phase phase : kPhases) {
    const at::AutoGradMode grad(phase == memory::Phase::kTraining);
    memory::StackState state = session->fresh(ids.size(0), phase);
    static_cast<void>(losses_of(*session, state, ids));
  }
  return {};
}

// A hook that computes in f32 is a remark: the kernel that it calls may have nothing else, and the
// checks of gradients compare to the digits that are left.
Outcome python_dtype(const Subject& subject) {
  try {
    return python_rule(subject, "dtype");
  } catch (const Error& error) {
    if (std::string_view(error.what()).find("python.dtype: ") == std::string_view::npos) throw;
    return {Grade::kWarn, error.what()};
  }
}

}  // namespace

std::vector<Check> python_checks() {
  return {
      {"python.values",
       "Does no hook in Python read a tensor's values, or depend on them by shapes?",
       [](const Subject& subject) { return python_rule(subject, "values"); }},
      {"python.writes", "Does no hook in Python write into a tensor that it was given?",
       [](const Subject& subject) { return python_rule(subject, "writes"); }},
      {"python.random", "Does no hook in Python draw from torch's generators?",
       [](const Subject& subject) { return python_rule(subject, "random"); }},
      {"python.keeps", "Are no tensors kept in a memory's Python objects after a hook?",
       [](const Subject& subject) { return python_rule(subject, "keeps"); }},
      {"python.dtype", "Does no hook in Python round numbers of an f64 run to fewer digits?",
       python_dtype},
  };
}

}  // namespace mneme::validate
