// A host that computes nothing: it issues handles, counts references and records every call, so
// that the C++ layer can be executed and watched without LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "mneme/plugin.h"

namespace mneme::test {

// An op call, as text and in parts.
struct OpRecord {
  std::string name;
  uint32_t inputs = 0;
  uint32_t outputs = 0;
  std::vector<std::pair<std::string, uint32_t>> attrs;  // name, MNEME_ATTR_*
  std::vector<mneme_tensor> handles;                    // of the inputs
  std::map<std::string, std::string> values;            // of the attributes
};

class FakeHost {
 public:
  static FakeHost& get();
  // Forgets everything but resolved ops.
  void clear();

  mneme_host_offer offer() const;
  mneme_ctx* ctx() { return reinterpret_cast<mneme_ctx*>(this); }
  mneme_setup* setup() { return reinterpret_cast<mneme_setup*>(this); }

  // A handle that the host owns, with a shape for info().
  mneme_tensor borrowed(std::vector<int64_t> shape, uint32_t dtype = MNEME_F32);
  // References that the plugin holds and should have given back.
  int64_t live_references() const;

  std::vector<std::string> log;  // every call but tensor bookkeeping
  std::vector<OpRecord> ops;
  std::vector<std::string> resolved;
  std::map<std::string, double> options;  // numbers
  std::map<std::string, std::string> texts;
  std::string missing_op;     // resolve refuses this name
  std::string failing_op;     // call refuses this name, "*" = every one
  std::string missing_group;  // get_group gives NULL for it
  int64_t queue_rows = 0;
  bool masks_rows = true;  // rows of the queue come with a mask
  std::string wanted_probe;
  std::map<std::string, mneme_tensor> constants;

  struct Entry {
    std::vector<int64_t> shape;
    uint32_t dtype = MNEME_F32;
    int64_t references = 0;
    bool is_borrowed = false;
  };
  std::map<mneme_tensor, Entry> tensors;
  mneme_tensor next = 1;
  mneme_tensor own(std::vector<int64_t> shape = {}, uint32_t dtype = MNEME_F32);
};

}  // namespace mneme::test
