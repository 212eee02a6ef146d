// LibTorch's deterministic algorithms, for single operations.
#pragma once

namespace mneme::tensor {

// While one lives, LibTorch's operations in the whole process take deterministic algorithms, or
// fail where they have none. LibTorch would also fill every tensor that it makes without values
// then; that is turned off.
class DeterministicAlgorithms {
 public:
  DeterministicAlgorithms();
  ~DeterministicAlgorithms();
  DeterministicAlgorithms(const DeterministicAlgorithms&) = delete;
  DeterministicAlgorithms& operator=(const DeterministicAlgorithms&) = delete;

  // Whether operations take them now.
  [[nodiscard]] static bool are_asked_for();

 private:
  bool is_on_, warns_, fills_;
};

}  // namespace mneme::tensor
