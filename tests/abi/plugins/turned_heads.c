/* Replaces the attention by (sum over c of rotate(q)_c k_c) v, with heads of 4 numbers of queries
 * and keys and of 3 of values: what ABI 1.2 added. Built with the headers of sdk/abi/1.2, and with
 * today's. */
#include "mneme/sdk.h"

#define TRY(call)                     \
  do {                                \
    const mneme_status try_ = (call); \
    if (try_ != MNEME_OK) {           \
      return try_;                    \
    }                                 \
  } while (0)

enum { OP_ARANGE, OP_MUL, OP_ROTATE, OP_SUM, OP_UNSQUEEZE, OP_COUNT };
static const char* const kOpNames[OP_COUNT] = {"arange/1", "mul/1", "rotate/1", "sum/1",
                                               "unsqueeze/1"};
static const mneme_op_api* ops;
static mneme_op op[OP_COUNT]; /* the same for every instance */

static mneme_status init(const mneme_host* host, mneme_get_group_fn get_group, mneme_error* error) {
  ops = get_group(host, MNEME_GROUP_OP);
  return ops != NULL ? MNEME_OK
                     : MNEME_FAIL(error, MNEME_E_UNSUPPORTED, "no group " MNEME_GROUP_OP);
}

static mneme_status create(const mneme_host* host, mneme_setup* setup,
                           const mneme_model_info* model, mneme_tier_traits* traits,
                           void** instance, mneme_error* error) {
  (void)host;
  (void)model;
  traits->flags = MNEME_TIER_REPLACES_ATTENTION;
  traits->wants = MNEME_WANT_READ_Q | MNEME_WANT_READ_K | MNEME_WANT_READ_V;
  traits->sites = MNEME_SITE_HEADS;
  traits->key_width = 4;
  traits->value_width = 3;
  *instance = op;
  return ops->resolve(setup, kOpNames, OP_COUNT, op, error);
}

static void destroy(void* instance) { (void)instance; }

static mneme_status read(void* instance, mneme_ctx* ctx, const mneme_queries* in, mneme_read* out,
                         mneme_error* error) {
  static const int64_t kWidthDim = 3;
  const mneme_attr count[] = {
      {.name = "end", .type = MNEME_ATTR_REAL, .real = (double)in->segment->length},
      {.name = "dtype", .type = MNEME_ATTR_INT, .integer = MNEME_I64}};
  const mneme_attr in_front = {.name = "dim", .type = MNEME_ATTR_INT};
  const mneme_attr width[] = {
      {.name = "dims", .type = MNEME_ATTR_INTS, .count = 1, .ints = &kWidthDim},
      {.name = "keepdim", .type = MNEME_ATTR_INT, .integer = 1}};
  mneme_tensor tokens = 0;
  mneme_tensor of_rotate[2] = {in->q, 0};
  mneme_tensor of_product[2] = {0, in->k};
  mneme_tensor products = 0;
  mneme_tensor of_result[2] = {0, in->v};
  (void)instance;
  TRY(ops->call(ctx, op[OP_ARANGE], NULL, 0, count, 2, &tokens, 1, error));
  TRY(ops->call(ctx, op[OP_UNSQUEEZE], &tokens, 1, &in_front, 1, &of_rotate[1], 1, error));
  TRY(ops->call(ctx, op[OP_ROTATE], of_rotate, 2, NULL, 0, of_product, 1, error));
  TRY(ops->call(ctx, op[OP_MUL], of_product, 2, NULL, 0, &products, 1, error));
  TRY(ops->call(ctx, op[OP_SUM], &products, 1, width, 2, of_result, 1, error));
  out->merge = MNEME_MERGE_REPLACE;
  return ops->call(ctx, op[OP_MUL], of_result, 2, NULL, 0, &out->out, 1, error);
}

static const mneme_plugin kPlugin = {.struct_size = (uint32_t)sizeof(mneme_plugin),
                                     .id = "test.turned_heads",
                                     .version = "0.1.0",
                                     .summary = "turned queries times keys times values",
                                     .init = init,
                                     .create = create,
                                     .destroy = destroy,
                                     .read = read};

MNEME_PLUGIN_ENTRY(kPlugin, "test.turned_heads", "0.1.0", MNEME_GROUP_OP);
