#include "host/validate/interposer.hpp"

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "host/base/text.hpp"
#include "host/memory/abi/groups.hpp"
#include "host/memory/tier/declared_ids.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::validate {

Interposer& interposer() {
  static Interposer one;
  return one;
}

void Interposer::count(std::int64_t failing_call) {
  calls = 0;
  failing = failing_call;
  failed.clear();
  is_counting = true;
}

bool Interposer::fails(const char* function) {
  if (!is_counting || calls++ != failing) return false;
  failed = function;
  return true;
}

void Interposer::start_notes() { stops_gradients = draws = keeps_graph = keeps_values = false; }

void Interposer::trace() {
  lines.clear();
  is_tracing = true;
}

std::vector<std::string> Interposer::take_trace() {
  is_tracing = false;
  return std::move(lines);
}

void Interposer::keep_kernel_calls(std::int64_t most) {
  kept.clear();
  kept_most = most;
}

std::vector<KernelCall> Interposer::take_kernel_calls() {
  kept_most = 0;
  return std::move(kept);
}

std::string Interposer::name_of(mneme_op op) const {
  const auto found = op_names.find(op);
  return found == op_names.end() ? str("op ", op) : found->second;
}

namespace {

// --- Traces ---

std::string input_text(mneme_ctx* ctx, mneme_tensor tensor) {
  if (tensor == 0) return "none";
  auto shape = MNEME_INIT(mneme_shape);
  if (memory::tensor_api()->shape(ctx, tensor, &shape, nullptr) != MNEME_OK) return "?";
  return str(shape.dtype, list_text({shape.dims, shape.dims + shape.rank}));
}

std::string attribute_text(const mneme_attr& attr) {
  std::string text = str(attr.name, '=');
  if (attr.type == MNEME_ATTR_INT) return str(text, attr.integer);
  if (attr.type == MNEME_ATTR_REAL) return str(text, attr.real);
  if (attr.type == MNEME_ATTR_TEXT) return str(text, attr.text);
  return str(text, list_text({attr.ints, attr.ints + attr.count}));
}

// The line of a call by its arguments. Numbers are shown, pointers are not. Handles of tensors are
// numbers that differ from call to call, so that shapes are shown instead.
template <typename T>
void append_argument(std::string& line, mneme_ctx* ctx, T value) {
  if constexpr (std::is_same_v<T, mneme_tensor>) {
    line += ' ' + input_text(ctx, value);
  } else if constexpr (std::is_arithmetic_v<T>) {
    line += str(' ', value);
  }
}

// Of a function of `create`.
template <typename... Args>
std::string line_of(const char* function, mneme_setup* /*setup*/, Args... args) {
  std::string line = function;
  (append_argument(line, nullptr, args), ...);
  return line;
}

// Of a function of hooks.
template <typename... Args>
std::string line_of(const char* function, mneme_ctx* ctx, Args... args) {
  std::string line = function;
  (append_argument(line, ctx, args), ...);
  return line;
}

// Of one that gets an id: what it names is shown, because its number differs from instance to
// instance.
template <typename... Args>
std::string line_of_id(const char* function, mneme_ctx* ctx, std::uint32_t id, Args... args) {
  return line_of(function, ctx, memory::DeclaredIds::in_instance(id), args...);
}

std::string line_of_op(mneme_ctx* ctx, mneme_op op, const mneme_tensor* inputs, std::uint32_t n_in,
                       const mneme_attr* attrs, std::uint32_t n_attrs, mneme_tensor* /*outputs*/,
                       std::uint32_t /*n_out*/, mneme_error* /*error*/) {
  std::string line = interposer().name_of(op);
  for (std::uint32_t i = 0; i < n_in; ++i) line += ' ' + input_text(ctx, inputs[i]);
  for (std::uint32_t i = 0; i < n_attrs; ++i) line += ' ' + attribute_text(attrs[i]);
  return line;
}

std::string line_of_kernel(mneme_ctx* ctx, mneme_kernel kernel, const mneme_tensor* inputs,
                           std::uint32_t n_in, const std::int64_t* integers,
                           std::uint32_t n_integers, const double* /*reals*/,
                           std::uint32_t /*n_reals*/, mneme_tensor* /*outputs*/,
                           std::uint32_t /*n_out*/, mneme_error* /*error*/) {
  std::string line = str("kernel ", memory::DeclaredIds::in_instance(kernel));
  for (std::uint32_t i = 0; i < n_in; ++i) line += ' ' + input_text(ctx, inputs[i]);
  for (std::uint32_t i = 0; i < n_integers; ++i) line += str(' ', integers[i]);
  return line;
}

// --- The interposed functions ---

// A function of a group, and its name.
template <auto kMember>
struct Named {
  const char* name;
};

// What is noted of a call besides its trace.
template <auto kMember, typename... Args>
void note(const Args&... args) {
  constexpr auto is = []<auto... kOthers>(Named<kOthers>...) {
    return (std::is_same_v<Named<kMember>, Named<kOthers>> || ...);
  };
  const auto all = std::tie(args...);
  Interposer& notes = interposer();
  if constexpr (is(Named<&mneme_op_api::call>{})) {
    if (notes.name_of(std::get<1>(all)) == "detach/1") notes.stops_gradients = true;
  } else if constexpr (is(Named<&mneme_layer_api::norm>{}, Named<&mneme_layer_api::project>{},
                          Named<&mneme_layer_api::weight>{})) {
    const std::uint32_t flags = std::get<sizeof...(Args) - 3>(all);
    if ((flags & MNEME_NO_WEIGHT_GRADIENT) != 0) notes.stops_gradients = true;
  } else if constexpr (is(Named<&mneme_state_api::add_slot>{})) {
    const mneme_slot_decl* const decl = std::get<1>(all);
    // Whole numbers, such as places, have no gradient that differences would see.
    const bool is_kept = decl != nullptr && (decl->flags & MNEME_SLOT_COUNTS) == 0 &&
                         decl->lifetime == MNEME_LIFETIME_RUN && decl->dtype != MNEME_I32 &&
                         decl->dtype != MNEME_I64 && decl->dtype != MNEME_BOOL;
    const bool has_graph = is_kept && decl->gradient == MNEME_GRADIENT_THROUGH;
    if (is_kept) (has_graph ? notes.keeps_graph : notes.keeps_values) = true;
  } else if constexpr (is(Named<&mneme_state_api::add_queue>{})) {
    notes.keeps_values = true;
  } else if constexpr (is(Named<&mneme_random_api::uniform>{},
                          Named<&mneme_random_api::normal>{})) {
    notes.draws = true;
  }
}

template <auto Member>
struct Interposed;

template <typename Api, typename... Args, mneme_status (*Api::*Member)(Args...)>
struct Interposed<Member> {
  static inline const Api* host = nullptr;
  static inline const char* name = nullptr;

  static mneme_status call(Args... args) {
    if (interposer().fails(name))
      return made_error(std::get<sizeof...(Args) - 1>(std::tuple(args...)));
    note<Member>(args...);
    if (interposer().is_tracing) interposer().lines.push_back(line(args...));
    return (host->*Member)(args...);
  }
  static std::string line(Args... args) {
    if constexpr (std::is_same_v<Named<Member>, Named<&mneme_op_api::call>>) {
      return line_of_op(args...);
    } else if constexpr (std::is_same_v<Named<Member>, Named<&mneme_kernel_api::call>>) {
      return line_of_kernel(args...);
    } else if constexpr (std::is_same_v<Api, mneme_state_api> &&
                         std::is_same_v<std::tuple_element_t<0, std::tuple<Args...>>, mneme_ctx*>) {
      return line_of_id(name, args...);
    } else if constexpr (!std::is_same_v<Api, mneme_tensor_api> &&
                         !std::is_same_v<Api, mneme_layer_api>) {
      return line_of(name, args...);
    } else {
      return name;
    }
  }
};

// Puts the interposed function in the place of the host's.
template <auto Member, typename Api>
void interpose(Api& api, const Api* host, const char* name) {
  Interposed<Member>::host = host;
  Interposed<Member>::name = name;
  api.*Member = &Interposed<Member>::call;
}

// The group with these functions interposed.
template <typename Api, auto... kMembers>
const Api* interposed(const Api* host, Named<kMembers>... members) {
  static const Api api = [&] {
    Api out = *host;
    (interpose<kMembers>(out, host, members.name), ...);
    return out;
  }();
  return &api;
}

const mneme_tensor_api* interposed_tensor() {
  using Api = mneme_tensor_api;
  return interposed(memory::tensor_api(), Named<&Api::shape>{"tensor.shape"},
                    Named<&Api::from_data>{"tensor.from_data"},
                    Named<&Api::constant_find>{"tensor.constant_find"},
                    Named<&Api::constant_put>{"tensor.constant_put"});
}

mneme_status resolve(mneme_setup* setup, const char* const* names, std::uint32_t count,
                     mneme_op* out, mneme_error* error) {
  const mneme_status status =
      Interposed<&mneme_op_api::resolve>::call(setup, names, count, out, error);
  if (status != MNEME_OK) return status;
  // Nothing is written for a known op: other threads may be reading.
  for (std::uint32_t i = 0; i < count; ++i) interposer().op_names.try_emplace(out[i], names[i]);
  return status;
}

const mneme_op_api* interposed_op() {
  using Api = mneme_op_api;
  static const Api api = [] {
    Api out = *interposed(memory::op_api(), Named<&Api::resolve>{"op.resolve"},
                          Named<&Api::call>{"op.call"});
    out.resolve = resolve;
    return out;
  }();
  return &api;
}

const mneme_state_api* interposed_state() {
  using Api = mneme_state_api;
  return interposed(
      memory::state_api(), Named<&Api::add_parameter>{"state.add_parameter"},
      Named<&Api::add_slot>{"state.add_slot"}, Named<&Api::add_queue>{"state.add_queue"},
      Named<&Api::parameter>{"state.parameter"}, Named<&Api::slot_get>{"state.slot_get"},
      Named<&Api::slot_set>{"state.slot_set"}, Named<&Api::queue_size>{"state.queue_size"},
      Named<&Api::queue_blocks>{"state.queue_blocks"}, Named<&Api::queue_rows>{"state.queue_rows"},
      Named<&Api::queue_append>{"state.queue_append"},
      Named<&Api::queue_pop_oldest>{"state.queue_pop_oldest"},
      Named<&Api::queue_assign>{"state.queue_assign"}, Named<&Api::counts_get>{"state.counts_get"},
      Named<&Api::counts_set>{"state.counts_set"});
}

const mneme_layer_api* interposed_layer() {
  using Api = mneme_layer_api;
  return interposed(memory::layer_api(), Named<&Api::emit_block>{"layer.emit_block"},
                    Named<&Api::emit_token_bias>{"layer.emit_token_bias"},
                    Named<&Api::norm>{"layer.norm"}, Named<&Api::project>{"layer.project"},
                    Named<&Api::weight>{"layer.weight"}, Named<&Api::attention>{"layer.attention"},
                    Named<&Api::release>{"layer.release"},
                    Named<&Api::positions>{"layer.positions"});
}

const mneme_report_api* interposed_report() {
  using Api = mneme_report_api;
  return interposed(memory::report_api(), Named<&Api::aux>{"report.aux"},
                    Named<&Api::metric>{"report.metric"});
}

const mneme_config_api* interposed_config() {
  using Api = mneme_config_api;
  return interposed(memory::config_api(), Named<&Api::integer>{"config.integer"},
                    Named<&Api::real>{"config.real"}, Named<&Api::boolean>{"config.boolean"},
                    Named<&Api::text>{"config.text"}, Named<&Api::integers>{"config.integers"},
                    Named<&Api::reals>{"config.reals"});
}

const mneme_random_api* interposed_random() {
  using Api = mneme_random_api;
  return interposed(memory::random_api(), Named<&Api::uniform>{"random.uniform"},
                    Named<&Api::normal>{"random.normal"});
}

const mneme_kernel_api* interposed_kernel() {
  using Api = mneme_kernel_api;
  static const Api api = [] {
    Api out = *interposed(memory::kernel_api(), Named<&Api::call>{"kernel.call"});
    out.add = add_kernel;
    return out;
  }();
  return &api;
}

}  // namespace

const void* interposed_group(std::string_view id) {
  const std::vector<std::string>& hidden = interposer().hidden_groups;
  if (std::ranges::find(hidden, id) != hidden.end()) return nullptr;
  if (id == MNEME_GROUP_TENSOR) return interposed_tensor();
  if (id == MNEME_GROUP_OP) return interposed_op();
  if (id == MNEME_GROUP_KERNEL) return interposed_kernel();
  if (id == MNEME_GROUP_STATE) return interposed_state();
  if (id == MNEME_GROUP_LAYER) return interposed_layer();
  if (id == MNEME_GROUP_REPORT) return interposed_report();
  if (id == MNEME_GROUP_CONFIG) return interposed_config();
  if (id == MNEME_GROUP_RANDOM) return interposed_random();
  return memory::find_group(id);
}

}  // namespace mneme::validate
