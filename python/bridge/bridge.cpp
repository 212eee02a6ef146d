// python_memory: the plugin of every memory that is written in Python. Built once, it is copied for
// each memory with its declaration and source in it (payload.h).
#include "python/bridge/bridge.hpp"

#include <array>

#include "mneme/sdk.h"
#include "python/bridge/hooks.hpp"

namespace mneme::python {
namespace {

template <typename Api>
void find_group(mneme_get_group_fn get_group, const mneme_host* host, const char* id, Api& out) {
  out = static_cast<Api>(get_group(host, id));
}

// The loader has refused a host without the groups that the note requires.
mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* /*error*/) {
  groups.host = host;
  find_group(get_group, host, MNEME_GROUP_TENSOR, groups.tensor);
  find_group(get_group, host, MNEME_GROUP_STATE, groups.state);
  find_group(get_group, host, MNEME_GROUP_LAYER, groups.layer);
  find_group(get_group, host, MNEME_GROUP_CONFIG, groups.config);
  find_group(get_group, host, MNEME_GROUP_REPORT, groups.report);
  find_group(get_group, host, MNEME_GROUP_RANDOM, groups.random);
  find_group(get_group, host, MNEME_GROUP_TORCH, groups.torch);
  find_group(get_group, host, MNEME_GROUP_PROBE, groups.probe);
  find_group(get_group, host, MNEME_GROUP_LOG, groups.log);
  return MNEME_OK;
}

struct Table {
  std::array<mneme_option, MNEME_PAYLOAD_OPTIONS> options;
  std::array<const char*, MNEME_PAYLOAD_NUMBERS> choices;
  mneme_plugin plugin;
};

mneme_option option_of(const mneme_payload_option& from, const char** choices) {
  mneme_option out = MNEME_INIT(mneme_option);
  out.type = from.type;
  out.flags = from.flags;
  out.key = payload_text(from.key);
  out.help = payload_text(from.help);
  out.default_text = payload_text(from.default_text);
  out.default_integers = payload().integers + from.default_numbers;
  out.default_reals = payload().reals + from.default_numbers;
  out.default_count = from.default_count;
  out.choices = choices;
  out.choice_count = from.choice_count;
  out.default_integer = from.default_integer;
  out.min_integer = from.min_integer;
  out.max_integer = from.max_integer;
  out.default_real = from.default_real;
  out.min_real = from.min_real;
  out.max_real = from.max_real;
  const char* word = payload_text(from.choices);
  for (uint32_t i = 0; i < from.choice_count; ++i) {
    choices[i] = word;
    while (*word != '\0') ++word;
    ++word;
  }
  return out;
}

// Fills a table that stays where it is: the plugin points into it.
void fill(Table& table) {
  const mneme_payload& from = payload();
  mneme_plugin& plugin = table.plugin;
  plugin = MNEME_INIT(mneme_plugin);
  plugin.id = payload_text(from.id);
  plugin.version = payload_text(from.version);
  plugin.summary = payload_text(from.summary);
  plugin.losses = payload_text(from.losses);
  const char** choices = table.choices.data();
  for (uint32_t i = 0; i < from.option_count; ++i) {
    table.options[i] = option_of(from.options[i], choices);
    choices += from.options[i].choice_count;
  }
  plugin.options = table.options.data();
  plugin.option_count = from.option_count;
  plugin.option_stride = sizeof(mneme_option);
  plugin.init = &init;
  plugin.create = &create;
  plugin.destroy = &destroy;
  if ((from.hooks & MNEME_PAYLOAD_BEGIN) != 0) plugin.begin = &begin;
  if ((from.hooks & MNEME_PAYLOAD_ABSORB) != 0) plugin.absorb = &absorb;
  if ((from.hooks & MNEME_PAYLOAD_CONTEXT) != 0) plugin.context = &context;
  if ((from.hooks & MNEME_PAYLOAD_RIDE) != 0) plugin.ride = &ride;
  if ((from.hooks & MNEME_PAYLOAD_READ) != 0) plugin.read = &read;
  if ((from.hooks & MNEME_PAYLOAD_FINISH) != 0) plugin.finish = &finish;
}

const mneme_plugin* plugin() {
  static Table table{};
  static const bool is_filled = (fill(table), true);
  return is_filled ? &table.plugin : nullptr;
}

}  // namespace
}  // namespace mneme::python

MNEME_PLUGIN_NOTE(MNEME_BRIDGE_ID, "0.1.1",
                  "mneme.config/1 mneme.layer/1 mneme.random/1 mneme.report/1 mneme.state/1 "
                  "mneme.tensor/1 mneme.torch/1 mneme.log/1? mneme.probe/1?");

extern "C" MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer,
                                                        mneme_plugin_answer* answer) {
  const mneme_status status = mneme_sdk_negotiate(offer, answer, mneme::python::plugin());
  if (status != MNEME_OK || mneme::python::payload().hooks != 0) return status;
  answer->plugin = nullptr;
  mneme_sdk_append(answer->reason, 0, sizeof(answer->reason),
                   "this is the bridge for memories in Python, without a memory: name the memory's "
                   "own file, such as my_memory.py");
  return MNEME_E_VERSION;
}
