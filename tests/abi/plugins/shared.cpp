// Gives the host the tensor of LibTorch whose address its option `impl` holds, or by -1 the layer's
// input by way of its address; NULL for 0.
#include "mneme/sdk.h"

namespace {

const mneme_config_api* config;
const mneme_torch_api* torch;

mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* /*error*/) {
  config = static_cast<const mneme_config_api*>(get_group(host, MNEME_GROUP_CONFIG));
  torch = static_cast<const mneme_torch_api*>(get_group(host, MNEME_GROUP_TORCH));
  return MNEME_OK;
}

mneme_status create(const mneme_host* /*host*/, mneme_setup* setup,
                    const mneme_model_info* /*model*/, mneme_tier_traits* traits, void** instance,
                    mneme_error* error) {
  int64_t impl = 0;
  const mneme_status status = config->integer(setup, "impl", &impl, error);
  if (status != MNEME_OK) return status;
  traits->sites = MNEME_SITE_OUT;
  traits->wants = MNEME_WANT_READ_X;
  *instance = new int64_t(impl);
  return MNEME_OK;
}

void destroy(void* instance) { delete static_cast<int64_t*>(instance); }

mneme_status read(void* instance, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out,
                  mneme_error* error) {
  const int64_t address = *static_cast<int64_t*>(instance);
  void* impl = reinterpret_cast<void*>(address);
  if (address == -1) {
    const mneme_status status = torch->impl(ctx, in->x, &impl, error);
    if (status != MNEME_OK) return status;
  }
  out->merge = MNEME_MERGE_ADD;
  return torch->handle(ctx, impl, &out->out, error);
}

mneme_option impl_option() {
  mneme_option option = MNEME_INIT(mneme_option);
  option.key = "impl";
  option.help = "address of a tensor";
  option.type = MNEME_OPTION_INTEGER;
  return option;
}

const mneme_option kOption = impl_option();

mneme_plugin make_table() {
  mneme_plugin table = MNEME_INIT(mneme_plugin);
  table.id = "test.shared";
  table.version = "0.1.0";
  table.summary = "gives a tensor of LibTorch";
  table.options = &kOption;
  table.option_count = 1;
  table.option_stride = sizeof(mneme_option);
  table.init = init;
  table.create = create;
  table.destroy = destroy;
  table.read = read;
  return table;
}

const mneme_plugin kTable = make_table();

}  // namespace

MNEME_PLUGIN_NOTE("test.shared", "0.1.0", "mneme.config/1 mneme.torch/1");

extern "C" MNEME_EXPORT mneme_status mneme_negotiate_v1(const mneme_host_offer* offer,
                                                        mneme_plugin_answer* answer) {
  return mneme_sdk_negotiate(offer, answer, &kTable);
}
