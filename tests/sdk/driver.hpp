// Drives a plugin's table as the host does, against the host that writes every call down.
#pragma once

#include <gtest/gtest.h>

#include "mneme/plugin.hpp"
#include "tests/sdk/fake_host.hpp"

namespace mneme::test {

// Three layers of width 4 with 2 heads, of which 0 and 2 are served; evaluation.
mneme_model_info small_model();

// A plugin's table with one instance. Hooks run on layer 2 (context: 1) of segment(), with tensors
// of B = 2, T = 5, D = 4.
class Driver {
 public:
  // Calls init.
  explicit Driver(const mneme_plugin& table);
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  mneme_status create();
  // create() must succeed; what it logged is forgotten.
  void create_or_fail();
  mneme_status absorb(int64_t rows = 3, bool is_masked = false);
  mneme_status read(mneme_read& out);
  mneme_status context();
  mneme_status begin(mneme_riders& out);
  mneme_status ride(mneme_tensor& out);
  // Without layers: as for a tier that does not want them.
  mneme_status finish(bool has_layers = true);

  // Training, the seventh segment; lane 1 was reset and has one token of padding.
  static const mneme_segment& segment();

  mneme_error error = MNEME_INIT(mneme_error);
  mneme_tier_traits traits = MNEME_INIT(mneme_tier_traits);

 private:
  mneme_plugin table_;
  void* instance_ = nullptr;
};

// What the note of a table_of() lists; set before a Driver is made.
inline const char* features =
    MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL " " MNEME_GROUP_RANDOM;

template <typename T>
mneme_plugin table_of() {
  return mneme::detail::Hooks<T>::table(
      "test", "1", [](const mneme_host* host, mneme_get_group_fn get_group, mneme_error*) {
        return mneme::detail::look_up_groups(host, get_group, features);
      });
}

// A cleared host with the option of the one-page memory.
class SdkPlugin : public testing::Test {
 protected:
  void SetUp() override {
    FakeHost::get().clear();
    FakeHost::get().options["decay"] = 0.75;
  }
  FakeHost& host() { return FakeHost::get(); }
};

}  // namespace mneme::test
