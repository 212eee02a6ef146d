#include "host/tensor/dispatch/deterministic.hpp"

#include "host/tensor/torch.hpp"

namespace mneme::tensor {

DeterministicAlgorithms::DeterministicAlgorithms()
    : is_on_(at::globalContext().deterministicAlgorithms()),
      warns_(at::globalContext().deterministicAlgorithmsWarnOnly()),
      fills_(at::globalContext().deterministicFillUninitializedMemory()) {
  at::globalContext().setDeterministicAlgorithms(true, false);
  at::globalContext().setDeterministicFillUninitializedMemory(false);
}

DeterministicAlgorithms::~DeterministicAlgorithms() {
  at::globalContext().setDeterministicAlgorithms(is_on_, warns_);
  at::globalContext().setDeterministicFillUninitializedMemory(fills_);
}

bool DeterministicAlgorithms::are_asked_for() {
  return at::globalContext().deterministicAlgorithms();
}

}  // namespace mneme::tensor
