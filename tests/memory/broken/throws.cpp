// Lets a C++ exception out of the entry point or, with TEST_THROW_IN_INIT, out of init.
#include <stdexcept>

#include "mneme/sdk.h"

namespace {

mneme_status init(const mneme_host* /*host*/, mneme_get_group_fn /*get_group*/,
                  mneme_error* /*error*/) {
  throw 7;
}

mneme_status create(const mneme_host* /*host*/, mneme_setup* /*setup*/,
                    const mneme_model_info* /*model*/, mneme_tier_traits* /*traits*/,
                    void** /*instance*/, mneme_error* /*error*/) {
  return MNEME_OK;
}

void destroy(void* /*instance*/) {}

mneme_status finish(void* /*instance*/, mneme_ctx* /*ctx*/, const mneme_finish* /*in*/,
                    mneme_error* /*error*/) {
  return MNEME_OK;
}

mneme_plugin make_table() {
  auto table = MNEME_INIT(mneme_plugin);
  table.id = "org.example.tier";
  table.version = "1.0.0";
  table.init = init;
  table.create = create;
  table.destroy = destroy;
  table.finish = finish;
  return table;
}

const mneme_plugin kTable = make_table();

}  // namespace

MNEME_PLUGIN_NOTE("org.example.tier", "1.0.0", "");

extern "C" MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer,
                                                        mneme_plugin_answer* answer) {
#ifdef TEST_THROW_IN_INIT
  return mneme_sdk_negotiate(offer, answer, &kTable);
#else
  (void)offer;
  (void)answer;
  (void)kTable;
  throw std::runtime_error("thrown on purpose");
#endif
}
