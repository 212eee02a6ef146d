/* mini_host PLUGIN           runs the scenario (scenario.h) and prints its numbers
 * mini_host PLUGIN NUMBERS   compares them with those in a file
 *
 * PLUGIN is a build of plugin.c. Exit status 1 when the plugin is refused, fails, or computes other
 * numbers. Gradients are central differences: this host has no autograd. */
#include "mini_host.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "scenario.h"

void give_up(const char* what, const char* expected, const char* got) {
  fprintf(stderr, "error: %s: expected %s, got %s\n", what, expected, got);
  exit(1);
}

/* Structs that the plugin fills. */
typedef struct filled_error {
  mneme_error value;
  char extension[kExtensionBytes];
} filled_error;
static filled_error failure;

static mneme_error* fresh_error(void) {
  memset(&failure, 0, sizeof(failure));
  failure.value.struct_size = (uint32_t)sizeof(failure.value);
  return &failure.value;
}

static void require(mneme_status status, const char* function) {
  char got[sizeof(failure.value.message) + 64];
  if (status != MNEME_OK) {
    snprintf(got, sizeof(got), "status %d, \"%s\" (line %d)", (int)status, failure.value.message,
             (int)failure.value.line);
    give_up(function, "status 0", got);
  }
}

/* ---- loading ------------------------------------------------------------------------------ */

static mneme_plugin table;
static void* instance;

static void load(const char* path) {
  struct {
    mneme_plugin_answer value;
    char extension[kExtensionBytes];
  } answer;
  mneme_host_offer offer = MNEME_INIT(mneme_host_offer);
  mneme_negotiate_fn entry = NULL;
  mneme_status status = MNEME_OK;
  void* symbol = NULL;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    give_up("dlopen", "a library", dlerror());
  }
  symbol = dlsym(library, MNEME_ENTRY_SYMBOL);
  if (symbol == NULL) {
    give_up("dlsym", MNEME_ENTRY_SYMBOL, "nothing");
  }
  memcpy(&entry, &symbol, sizeof(entry));
  memset(&answer, 0, sizeof(answer));
  answer.value.struct_size = (uint32_t)sizeof(answer.value);
  offer.abi_min = MNEME_ABI_MAJOR == 0 ? MNEME_ABI_VERSION : MNEME_ABI_MAKE(MNEME_ABI_MAJOR, 0);
  offer.abi_current = MNEME_ABI_VERSION;
  offer.host = host_handle();
  offer.get_group = find_group;
  offer.host_version = MNEME_SDK_VERSION;
  status = entry(&offer, &answer.value);
  if (status != MNEME_OK || answer.value.plugin == NULL) {
    answer.value.reason[sizeof(answer.value.reason) - 1] = '\0';
    give_up("negotiation", "a table of functions", answer.value.reason);
  }
  if (answer.value.effective < offer.abi_min || answer.value.effective > offer.abi_current) {
    give_up("negotiation", "an effective version that this host speaks", "another");
  }
  TAKE(mneme_plugin, table, answer.value.plugin);
  if (table.init == NULL || table.create == NULL || table.destroy == NULL || table.begin == NULL ||
      table.absorb == NULL || table.context == NULL || table.ride == NULL || table.read == NULL ||
      table.finish == NULL || table.id == NULL || strcmp(table.id, SCENARIO_PLUGIN_ID) != 0) {
    give_up("the table of functions", "all of them, and the id " SCENARIO_PLUGIN_ID, "another");
  }
  the_mini_host.plugin = &table;
  require(table.init(host_handle(), find_group, fresh_error()), "init");
}

static void create(void) {
  static const int64_t served[kScenarioLayers] = {0, 1};
  struct {
    mneme_tier_traits value;
    char extension[kExtensionBytes];
  } traits;
  mneme_model_info model = MNEME_INIT(mneme_model_info);
  uint64_t wants = 0;
  memset(&traits, 0, sizeof(traits));
  traits.value.struct_size = (uint32_t)sizeof(traits.value);
  model.width = kScenarioWidth;
  model.heads = kScenarioHeads;
  model.kv_heads = kScenarioHeads;
  model.head_width = kScenarioHeadWidth;
  model.layers = kScenarioLayers;
  model.served = served;
  model.served_count = kScenarioLayers;
  model.segment = kScenarioLongest;
  model.bptt_segments = 1;
  model.position = "relative";
  model.compute_dtype = MNEME_F64;
  require(
      table.create(host_handle(), setup_handle(), &model, &traits.value, &instance, fresh_error()),
      "create");
  wants = traits.value.wants;
#ifdef MNEME_WANT_READ_NORMED
  wants &= ~MNEME_WANT_READ_NORMED; /* since 1.2 */
#endif
  if (instance == NULL || traits.value.flags != (MNEME_TIER_RELEASES | MNEME_TIER_RIDERS) ||
      wants != (MNEME_WANT_READ_X | MNEME_WANT_FINISH_TOP) ||
      traits.value.absorb != MNEME_ABSORB_AFTER_SEGMENT || traits.value.sites != MNEME_SITE_OUT ||
      traits.value.context_rows != 5) {
    give_up("create", "the traits of plugin.c", "others");
  }
}

/* ---- the scenario ------------------------------------------------------------------------- */

/* What a run changes, for differences: a parameter's element, or one of x in layer 0. */
typedef struct change {
  uint32_t parameter; /* index + 1, 0 = none */
  int64_t layer;
  int64_t element;
  int is_of_x;
  double by;
} change;

static mneme_tensor make(uint32_t rank, const int64_t* dims, int64_t what, int64_t segment,
                         int64_t layer) {
  const mneme_tensor out = tensor_new(MNEME_F64, rank, dims);
  tensor* made = tensor_at(out);
  int64_t i = 0;
  for (i = 0; i < made->count; ++i) {
    made->data[i] = scenario_value(what, segment, layer, i);
  }
  return out;
}

static mneme_tensor make_rows(int64_t rows, int64_t what, int64_t segment, int64_t layer) {
  const int64_t dims[3] = {kScenarioLanes, rows, kScenarioWidth};
  return make(3, dims, what, segment, layer);
}

static mneme_tensor make_heads(int64_t rows, int64_t what, int64_t segment, int64_t layer) {
  const int64_t dims[4] = {kScenarioLanes, rows, kScenarioHeads, kScenarioHeadWidth};
  return make(4, dims, what, segment, layer);
}

/* Sum of a tensor's elements under fixed weights. */
static double weighted(mneme_tensor t, int64_t layer) {
  double sum = 0;
  int64_t i = 0;
  for (i = 0; i < tensor_at(t)->count; ++i) {
    sum += tensor_at(t)->data[i] * scenario_value(kScenarioLossWeights, 0, layer, i);
  }
  return sum;
}

static void start_state(void) {
  uint32_t i = 0;
  int64_t layer = 0;
  forget_constants();
  for (i = 0; i < the_mini_host.n_queues; ++i) {
    memset(the_mini_host.queues[i].rows, 0, sizeof(the_mini_host.queues[i].rows));
  }
  for (i = 0; i < the_mini_host.n_slots; ++i) {
    slot* s = &the_mini_host.slots[i];
    memset(s->counts, 0, sizeof(s->counts));
    if ((s->decl.flags & MNEME_SLOT_COUNTS) != 0) {
      continue;
    }
    for (layer = 0; layer < kScenarioLayers; ++layer) {
      int64_t dims[2];
      int64_t e = 0;
      tensor* value = NULL;
      dims[0] = s->decl.dims[0] == MNEME_LANES ? kScenarioLanes : s->decl.dims[0];
      dims[1] = s->decl.dims[1];
      s->value[layer] = tensor_new(MNEME_F64, s->decl.rank, dims);
      value = tensor_at(s->value[layer]);
      for (e = 0; e < value->count; ++e) {
        value->data[e] = s->decl.start == MNEME_START_CONSTANT ? s->decl.start_value : 0;
        if (s->decl.start == MNEME_START_PARAMETER) {
          value->data[e] = the_mini_host.parameters[s->decl.start_parameter - 1]
                               .values[layer][e % s->decl.dims[1]];
        }
      }
    }
  }
}

/* Stage 1; returns the riders' rows. */
static mneme_tensor run_begin(const mneme_segment* segment) {
  struct {
    mneme_riders value;
    char extension[kExtensionBytes];
  } riders;
  memset(&riders, 0, sizeof(riders));
  riders.value.struct_size = (uint32_t)sizeof(riders.value);
  require(table.begin(instance, ctx_handle(), segment, &riders.value, fresh_error()), "begin");
  if (tensor_at(riders.value.rows) == NULL || tensor_at(riders.value.rows)->dims[1] != 1 ||
      riders.value.valid != 0 || riders.value.unseen != 0) {
    give_up("begin", "one rider for each lane", "something else");
  }
  record_tensor("riders", segment->index, -1, riders.value.rows);
  return riders.value.rows;
}

/* Stages 3 and 5; returns the riders' result. */
static mneme_tensor run_context_and_ride(const mneme_segment* segment, mneme_tensor x,
                                         mneme_tensor hidden) {
  const int64_t layer = the_mini_host.layer;
  mneme_context context = MNEME_INIT(mneme_context);
  mneme_ride ride = MNEME_INIT(mneme_ride);
  mneme_tensor result = 0;
  context.segment = segment;
  context.layer = layer;
  context.x = x;
  the_mini_host.told.block = 0;
  require(table.context(instance, ctx_handle(), &context, fresh_error()), "context");
  record_tensor("context", segment->index, layer, the_mini_host.told.block);
  ride.segment = segment;
  ride.layer = layer;
  ride.riders = 1;
  ride.q_riders = make_heads(1, kScenarioRiderQueries, segment->index, layer);
  ride.k = make_heads(1 + segment->length, kScenarioKeys, segment->index, layer);
  ride.v = make_heads(1 + segment->length, kScenarioValues, segment->index, layer);
  ride.hidden = hidden;
  ride.is_last = layer == kScenarioLayers - 1;
  require(table.ride(instance, ctx_handle(), &ride, &result, fresh_error()), "ride");
  if (tensor_at(result) == NULL) {
    give_up("ride", "a result", "none");
  }
  record_tensor("ride", segment->index, layer, result);
  return result;
}

/* Stage 6; returns what is added to the local result. */
static mneme_tensor run_read(const mneme_segment* segment, mneme_tensor x) {
  struct {
    mneme_read value;
    char extension[kExtensionBytes];
  } out;
  mneme_queries queries = MNEME_INIT(mneme_queries);
  memset(&out, 0, sizeof(out));
  out.value.struct_size = (uint32_t)sizeof(out.value);
  queries.segment = segment;
  queries.layer = the_mini_host.layer;
  queries.site = MNEME_SITE_OUT;
  queries.x = x;
#ifdef MNEME_WANT_READ_NORMED
  queries.normed = make(tensor_at(x)->rank, tensor_at(x)->dims, kScenarioNormed, segment->index,
                        queries.layer); /* since 1.2 */
#endif
  the_mini_host.told.probe = 0;
  require(table.read(instance, ctx_handle(), &queries, &out.value, fresh_error()), "read");
  if (out.value.merge != MNEME_MERGE_ADD || tensor_at(out.value.out) == NULL) {
    give_up("read", "a result that is added", "something else");
  }
  record_tensor("read", segment->index, queries.layer, out.value.out);
  record_tensor("squashed", segment->index, queries.layer, the_mini_host.told.probe);
  return out.value.out;
}

/* Stage 7. */
static void run_absorb(const mneme_segment* segment, mneme_tensor x) {
  mneme_absorb in = MNEME_INIT(mneme_absorb);
  mneme_rows rows = MNEME_INIT(mneme_rows);
  rows.kind = MNEME_ROWS_HIDDEN;
  rows.rows = segment->length;
  rows.hidden = x;
  rows.counts = segment->valid_count;
  in.flags = MNEME_ABSORBS_OWN_SEGMENT;
  in.segment = segment;
  in.layer = the_mini_host.layer;
  in.rows = &rows;
  require(table.absorb(instance, ctx_handle(), &in, fresh_error()), "absorb");
}

/* Stage 8. */
static void run_finish(const mneme_segment* segment) {
  mneme_finish in = MNEME_INIT(mneme_finish);
  in.segment = segment;
  in.top = make_rows(segment->length, kScenarioTop, segment->index, 0);
  require(table.finish(instance, ctx_handle(), &in, fresh_error()), "finish");
}

/* Returns the loss of the segment. */
static double run_segment(mneme_segment* segment, const change* changed) {
  double loss = 0;
  double aux = 0;
  mneme_tensor riders = 0;
  int64_t layer = 0;
  the_mini_host.segment = segment->index;
  the_mini_host.layer = -1;
  the_mini_host.told.aux = 0;
  the_mini_host.told.metric = 0;
  riders = run_begin(segment);
  loss += weighted(riders, 0);
  for (layer = 0; layer < kScenarioLayers; ++layer) {
    const mneme_tensor x = make_rows(segment->length, kScenarioX, segment->index, layer);
    if (changed->is_of_x && layer == 0) {
      tensor_at(x)->data[changed->element] += changed->by;
    }
    the_mini_host.layer = layer;
    loss += weighted(run_context_and_ride(segment, x, riders), layer);
    loss += weighted(run_read(segment, x), layer);
    run_absorb(segment, x);
  }
  the_mini_host.layer = -1;
  run_finish(segment);
  aux = the_mini_host.told.aux;
  record("distance", segment->index, -1, &aux, 1);
  record("gate", segment->index, -1, &the_mini_host.told.metric, 1);
  return loss + aux;
}

/* Runs the first `segments` segments; returns the first one's loss. */
static double run(int64_t segments, const change* changed) {
  static const uint8_t all_reset[kScenarioLanes] = {1, 1};
  static const uint8_t none_reset[kScenarioLanes] = {0, 0};
  const size_t mark = tensor_mark();
  double* changed_value = NULL;
  double loss = 0;
  int64_t tokens[kScenarioLanes] = {0, 0};
  int64_t i = 0;
  if (changed->parameter != 0) {
    changed_value =
        &the_mini_host.parameters[changed->parameter - 1].values[changed->layer][changed->element];
    *changed_value += changed->by;
  }
  start_state();
  for (i = 0; i < segments; ++i) {
    const int64_t length = scenario_length(i);
    const int64_t valid_count[kScenarioLanes] = {length, length};
    mneme_segment segment = MNEME_INIT(mneme_segment);
    double this_loss = 0;
    segment.flags = MNEME_SEGMENT_TRAINING | (i == 0 ? MNEME_SEGMENT_ANY_RESET : 0u);
    segment.index = i;
    segment.lanes = kScenarioLanes;
    segment.length = length;
    segment.previous_length = i == 0 ? 0 : scenario_length(i - 1);
    segment.layers = kScenarioLayers;
    segment.tokens = tokens;
    segment.valid_count = valid_count;
    segment.reset = i == 0 ? all_reset : none_reset;
    segment.compute_dtype = MNEME_F64;
    segment.device_type = MNEME_DEVICE_CPU;
    this_loss = run_segment(&segment, changed);
    loss = i == 0 ? this_loss : loss;
    tokens[0] += length;
    tokens[1] += length;
  }
  if (changed_value != NULL) {
    *changed_value -= changed->by;
  }
  tensor_end_from(mark);
  return loss;
}

static void record_gradients(void) {
  const double step = 1e-4;
  double values[kMostValues];
  change changed;
  uint32_t p = 0;
  records_numbers = 0;
  memset(&changed, 0, sizeof(changed));
  for (p = 0; p < the_mini_host.n_parameters; ++p) {
    const parameter* of = &the_mini_host.parameters[p];
    const int64_t layers = of->decl.scope == MNEME_SCOPE_MODEL ? 1 : kScenarioLayers;
    char name[kMostNames + 16];
    int64_t n = 0;
    changed.parameter = p + 1;
    for (changed.layer = 0; changed.layer < layers; ++changed.layer) {
      for (changed.element = 0; changed.element < of->decl.dims[0]; ++changed.element) {
        double above = 0;
        changed.by = step;
        above = run(1, &changed);
        changed.by = -step;
        values[n++] = (above - run(1, &changed)) / (2 * step);
      }
    }
    snprintf(name, sizeof(name), "gradient.%s", of->name);
    records_numbers = 1;
    record(name, 0, -1, values, n);
    records_numbers = 0;
  }
  memset(&changed, 0, sizeof(changed));
  changed.is_of_x = 1;
  for (changed.element = 0; changed.element < kScenarioGradientsOfX; ++changed.element) {
    double above = 0;
    changed.by = step;
    above = run(1, &changed);
    changed.by = -step;
    values[changed.element] = (above - run(1, &changed)) / (2 * step);
  }
  records_numbers = 1;
  record("gradient.x", 0, -1, values, kScenarioGradientsOfX);
}

int main(int argc, char** argv) {
  const change nothing = {0, 0, 0, 0, 0};
  if (argc < 2 || argc > 3) {
    fprintf(stderr, "usage: mini_host PLUGIN [NUMBERS]\n");
    return 2;
  }
  the_mini_host.lanes = kScenarioLanes;
  the_mini_host.width = kScenarioWidth;
  load(argv[1]);
  create();
  records_numbers = 1;
  the_mini_host.checks_kernels = 1;
  run(kScenarioSegments, &nothing);
  if (the_mini_host.told.log_lines != kScenarioSegments ||
      the_mini_host.told.released != 2 * (3 + 2 + 3 - 4) ||
      the_mini_host.kernel_calls != kScenarioSegments * kScenarioLayers) {
    give_up("what the hooks told", "a log line a segment, 8 released rows, 6 kernel calls",
            "other numbers");
  }
  the_mini_host.checks_kernels = 0;
  record_gradients();
  table.destroy(instance);
  if (argc == 3) {
    return compare_numbers(argv[2]);
  }
  print_numbers();
  return 0;
}
