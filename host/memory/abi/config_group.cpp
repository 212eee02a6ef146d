// Group mneme.config/1: an instance's options, already checked against the plugin's schema.
#include <functional>
#include <vector>

#include "host/config/options.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/call/boundary.hpp"
#include "host/memory/call/normalise.hpp"
#include "host/memory/tier/setup.hpp"

namespace mneme::memory {
namespace {

using config::OptionMap;

// *out = value(options, key)
template <typename Out, typename Value>
mneme_status read(mneme_setup* opaque, const char* key, Out* out, mneme_error* error, Value value) {
  return in_create(opaque, error, [&](mneme_setup* setup) {
    need(key, "key");
    need(out, "out");
    *out = std::invoke(value, *setup->options, key);
  });
}

template <typename T, typename List>
mneme_status read_list(mneme_setup* setup, const char* key, const T** out, std::uint64_t* count,
                       mneme_error* error, List list) {
  return read(setup, key, out, error, [&](const OptionMap& options, const char* name) {
    need(count, "count");
    const std::vector<T>& values = std::invoke(list, options, name);
    *count = values.size();
    return values.data();
  });
}

mneme_status integer(mneme_setup* setup, const char* key, std::int64_t* out, mneme_error* error) {
  return read(setup, key, out, error, &OptionMap::integer);
}
mneme_status real(mneme_setup* setup, const char* key, double* out, mneme_error* error) {
  return read(setup, key, out, error, &OptionMap::real);
}
mneme_status boolean(mneme_setup* setup, const char* key, std::int32_t* out, mneme_error* error) {
  return read(setup, key, out, error, &OptionMap::boolean);
}
mneme_status text(mneme_setup* setup, const char* key, const char** out, mneme_error* error) {
  return read(setup, key, out, error, [](const OptionMap& options, const char* name) {
    return options.text(name).c_str();
  });
}
mneme_status integers(mneme_setup* setup, const char* key, const std::int64_t** out,
                      std::uint64_t* count, mneme_error* error) {
  return read_list(setup, key, out, count, error, &OptionMap::integers);
}
mneme_status reals(mneme_setup* setup, const char* key, const double** out, std::uint64_t* count,
                   mneme_error* error) {
  return read_list(setup, key, out, count, error, &OptionMap::reals);
}

}  // namespace

const mneme_config_api* config_api() {
  static const mneme_config_api api = {
      sizeof(mneme_config_api), 0, integer, real, boolean, text, integers, reals};
  return &api;
}

}  // namespace mneme::memory
