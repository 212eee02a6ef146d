// What interposed functions (interposer.cpp, kernels/watched_kernels.cpp) do with the interposer.
// Not for checks.
#pragma once

#include <string>

#include "host/base/text.hpp"
#include "host/validate/interposer.hpp"
#include "mneme/op.h"

namespace mneme::validate {

class InterposedCall {
 public:
  static bool fails(const char* function) { return interposer().fails(function); }
  static bool is_tracing() { return interposer().is_tracing_; }
  static void add_line(std::string line) { interposer().lines_.push_back(std::move(line)); }
  // Nothing is written for a known op: other threads may be reading.
  static void name_op(mneme_op op, const char* name) {
    interposer().op_names_.try_emplace(op, name);
  }
  static std::string name_of(mneme_op op) {
    const auto& names = interposer().op_names_;
    const auto found = names.find(op);
    return found == names.end() ? str("op ", op) : found->second;
  }
  static void note_stop() { interposer().stops_gradients_ = true; }
  static void note_draw() { interposer().draws_ = true; }
  static void note_kept(bool has_graph) {
    (has_graph ? interposer().keeps_graph_ : interposer().keeps_values_) = true;
  }
};

// The status and the text of a call that is made to fail.
mneme_status made_error(mneme_error* error);

// mneme_kernel_api.add: puts functions in the place of the kernel's own that keep its calls.
mneme_status add_kernel(mneme_setup* setup, const mneme_kernel_decl* decl, mneme_kernel* out,
                        mneme_error* error);

}  // namespace mneme::validate
