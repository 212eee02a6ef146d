// What keeps a difference from being taken at its word: memories that failed a check, and trainings
// that had not converged.
#pragma once

#include <string>
#include <vector>

#include "host/report/comparison/comparison.hpp"

namespace mneme::report {

// "not causal, lanes touch": what is wrong with an arm's memory, before or after a training of it;
// "" = nothing is known to be.
[[nodiscard]] std::string faults_of(const Arm& arm);
[[nodiscard]] bool has_faults(const Comparison& comparison);
// A sentence for each fault of each arm, with what was measured; then one that names the arms of
// which a check was not made, and why; then one for each certificate that fails. Empty: all checks
// were made, and all hold.
[[nodiscard]] std::vector<std::string> check_sentences(const Comparison& comparison);

// "the arms were evaluated with other settings: eval.segment 64 and 8": how the evaluations of two
// arms on a split differ, but for lanes; "" = they do not.
[[nodiscard]] std::string other_settings_words(const Arm& arm, const Arm& baseline,
                                               const std::string& split);

// By how much an arm's loss on its learning curve fell over the last tenth of the training, a mean
// over its seeds; between two points as on a line. NaN = there is no curve.
[[nodiscard]] double last_fall(const Arm& arm);

}  // namespace mneme::report
