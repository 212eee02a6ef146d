// Group mneme.config/1: an instance's options, already checked against the plugin's schema.
#include "host/base/error.hpp"
#include "host/memory/abi/call_error.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/abi/setup.hpp"

namespace mneme::memory {
namespace {

mneme_status integer(mneme_setup* opaque, const char* key, int64_t* out, mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    *out = setup->options->integer(key);
  });
}
mneme_status real(mneme_setup* opaque, const char* key, double* out, mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    *out = setup->options->real(key);
  });
}
mneme_status boolean(mneme_setup* opaque, const char* key, int32_t* out, mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    *out = setup->options->boolean(key) ? 1 : 0;
  });
}
mneme_status text(mneme_setup* opaque, const char* key, const char** out, mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    *out = setup->options->text(key).c_str();
  });
}
mneme_status integers(mneme_setup* opaque, const char* key, const int64_t** out, uint64_t* count,
                      mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    need(count, "count");
    const auto& values = setup->options->integers(key);
    *out = values.data();
    *count = values.size();
  });
}
mneme_status reals(mneme_setup* opaque, const char* key, const double** out, uint64_t* count,
                   mneme_error* error) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    need(count, "count");
    const auto& values = setup->options->reals(key);
    *out = values.data();
    *count = values.size();
  });
}

}  // namespace

const mneme_config_api* config_api() {
  static const mneme_config_api api = {
      sizeof(mneme_config_api), 0, integer, real, boolean, text, integers, reals};
  return &api;
}

}  // namespace mneme::memory
