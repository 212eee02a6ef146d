#include <algorithm>
#include <functional>

#include "host/base/error.hpp"
#include "host/memory/groups/normalise.hpp"
#include "host/memory/hook_context.hpp"
#include "host/memory/merge.hpp"
#include "host/memory/ops.hpp"
#include "host/memory/stack.hpp"
#include "host/torch.hpp"

namespace mneme::memory {
namespace {

constexpr uint64_t kAbsorbLocal = MNEME_WANT_ABSORB_Z | MNEME_WANT_ABSORB_LSE |
                                  MNEME_WANT_ABSORB_Q | MNEME_WANT_ABSORB_K | MNEME_WANT_ABSORB_V |
                                  MNEME_WANT_ABSORB_MASS;
constexpr uint64_t kReadLocal = MNEME_WANT_READ_Q | MNEME_WANT_READ_K | MNEME_WANT_READ_V |
                                MNEME_WANT_READ_Z | MNEME_WANT_READ_LSE;

struct ColumnRange {
  int64_t from = 0;
  int64_t rows = 0;
};

}  // namespace

struct SegmentRun::Impl {
  Stack& stack;
  StackState& state;
  SegmentInput input;
  SegmentShared shared;
  mneme_ctx ctx;
  mneme_error error;
  std::vector<TierState> work;
  std::vector<int64_t> feeders;  // the tier that feeds tier i with released rows, -1 = the segment
  Riders riders;
  int64_t rider_tier = -1;
  std::vector<int64_t> valid_count;
  std::vector<int64_t> tokens;  // of each lane since it started afresh, before this segment
  at::Tensor layer_input;       // of the layer that runs, as context() got it
  std::map<int64_t, std::map<std::size_t, ColumnRange>>
      columns;                              // of each tier's context, by layer
  std::map<int64_t, int64_t> context_rows;  // all tiers, by layer
  std::vector<mneme_tensor> layer_handles;

  Impl(Stack& stack_in, StackState& state_in, const SegmentInput& input_in)
      : stack(stack_in), state(state_in), input(input_in) {}

  void prepare();
  void begin_hooks();
  const Tier& tier(std::size_t i) const { return *stack.tiers_[i]; }
  template <typename Call>
  void call(std::size_t i, Hook hook, int64_t layer, LayerServices* services, const at::Tensor& x,
            Call hook_call);
  void deliver(std::size_t from, int64_t layer, const std::vector<Rows>& released);
  void absorb(std::size_t i, int64_t layer, const Rows& rows, const at::Tensor& x,
              const LocalAttention* local, LayerServices& services);
  Rows segment_rows(const at::Tensor& x) const;
  at::Tensor mass_of(std::size_t i, int64_t layer, const at::Tensor& mass, int64_t& rows) const;
  ReadResult read(std::size_t i, int64_t layer, uint32_t site, const LocalAttention& local,
                  const at::Tensor& projected, LayerServices& services);
  ReadResult checked(const mneme_read& out, uint32_t site) const;
  std::map<std::string, Reported> reported(const std::map<std::string, Accumulated>& from) const;
  bool any_tier(int64_t layer, const std::function<bool(const Instance&)>& predicate) const;
};

template <typename Call>
void SegmentRun::Impl::call(std::size_t i, Hook hook, int64_t layer, LayerServices* services,
                            const at::Tensor& x, Call hook_call) {
  ctx.tier = &tier(i);
  ctx.instance = &work[i].instance();
  ctx.state = &work[i];
  ctx.hook = hook;
  ctx.layer = layer;
  ctx.services = services;
  ctx.x = x;
  ctx.handles.begin_call();
  ctx.count_arrays.clear();
  std::vector<Rows> released;
  ctx.released = hook == Hook::kAbsorb || hook == Hook::kRide ? &released : nullptr;
  shared.segment.valid = ctx.handles.borrow(shared.valid);
  shared.segment.reset_mask = ctx.handles.borrow(shared.reset_mask);
  error.struct_size = sizeof(error);
  error.code = error.native_code = error.line = 0;
  error.file[0] = error.message[0] = '\0';
  const mneme_status status = hook_call(ctx.instance->table(), ctx.instance->handle());
  if (status != MNEME_OK) throw_plugin_status(ctx.where(), status, error);
  ctx.handles.begin_call();  // everything that the hook left is released
  if (!released.empty()) deliver(i, layer, released);
}

void SegmentRun::Impl::prepare() {
  if (input.length < 1) throw_run("a segment needs at least one token, got ", input.length);
  const auto lanes = static_cast<std::size_t>(state.lanes_);
  valid_count = input.valid_count;
  if (valid_count.empty()) valid_count.assign(lanes, input.length);
  if (valid_count.size() != lanes)
    throw_run("valid_count: expected ", lanes, " lanes, got ", valid_count.size());
  const BackboneInfo& backbone = stack.backbone();
  if (std::any_of(valid_count.begin(), valid_count.end(),
                  [&](int64_t n) { return n != input.length; })) {
    const at::Tensor counts = torch::tensor(valid_count, at::kLong).unsqueeze(1);
    shared.valid =
        torch::arange(input.length, at::kLong).unsqueeze(0).lt(counts).to(backbone.device);
  }
  const bool any_reset =
      std::any_of(state.reset_.begin(), state.reset_.end(), [](uint8_t r) { return r != 0; });
  if (any_reset) {
    shared.reset_mask = torch::from_blob(state.reset_.data(), {state.lanes_}, at::kByte)
                            .to(at::kBool)
                            .to(backbone.device);
  }
  for (const auto& tier_state : state.tiers_) {
    work.push_back(*tier_state);
    if (any_reset && state.segments_ > 0) work.back().reset(state.reset_);
    work.back().begin_segment();
  }
  for (std::size_t i = 0; i < work.size(); ++i) {
    int64_t feeder = -1;
    for (std::size_t j = i;
         tier(i).config().feed == config::Feed::kReleased && feeder < 0 && j-- > 0;) {
      if ((work[j].instance().traits().flags & MNEME_TIER_RELEASES) != 0)
        feeder = static_cast<int64_t>(j);
    }
    feeders.push_back(feeder);
  }
  const bool training = state.phase_ == Phase::kTraining && at::GradMode::is_enabled();
  shared.stack = &stack;
  shared.seed = backbone.seed;
  shared.index = state.segments_;
  shared.lanes = state.lanes_;
  shared.length = input.length;
  shared.caches_projections = !at::GradMode::is_enabled();
  shared.weights_version = stack.weights_version();
  shared.streams = &state.streams_;
  shared.input = &input;
  ctx.shared = &shared;
  mneme_segment& segment = shared.segment;
  segment = MNEME_INIT(mneme_segment);
  segment.flags =
      (training ? MNEME_SEGMENT_TRAINING : 0u) | (any_reset ? MNEME_SEGMENT_ANY_RESET : 0u);
  segment.index = state.segments_;
  segment.lanes = state.lanes_;
  segment.length = input.length;
  segment.previous_length = state.previous_length_;
  segment.layers = backbone.layers;
  tokens = state.tokens_;
  for (std::size_t b = 0; b < tokens.size(); ++b) {
    if (state.reset_[b] != 0) tokens[b] = 0;
  }
  segment.tokens = tokens.data();
  segment.valid_count = valid_count.data();
  segment.reset = state.reset_.data();
  segment.compute_dtype = dtype_code_of(backbone.compute_dtype);
  segment.device_type = backbone.device.is_cuda() ? MNEME_DEVICE_CUDA : MNEME_DEVICE_CPU;
}

void SegmentRun::Impl::begin_hooks() {
  for (std::size_t i = 0; i < work.size(); ++i) {
    const int64_t longest = work[i].instance().traits().max_segment;
    if (longest > 0 && input.length > longest) {
      throw_usage(ErrorText{.where = str("tier ", tier(i).name()),
                            .failed = "the segment is longer than the memory can serve",
                            .expected = str("at most ", longest, " tokens"),
                            .got = str(input.length)});
    }
    if (work[i].instance().table().begin == nullptr) continue;
    call(i, Hook::kBegin, -1, nullptr, {}, [&](const mneme_plugin& table, void* self) {
      Roomy<mneme_riders> room;
      mneme_riders& out = room.value;
      const mneme_status status = table.begin(self, &ctx, &shared.segment, &out, &error);
      if (status != MNEME_OK || out.rows == 0) return status;
      return guard(&error, [&] {
        if ((ctx.instance->traits().flags & MNEME_TIER_RIDERS) == 0)
          throw CallError(MNEME_E_STATE, "riders need MNEME_TIER_RIDERS in the tier's traits");
        mneme_rows rows = MNEME_INIT(mneme_rows);
        rows.hidden = out.rows;
        rows.valid = out.valid;
        const Rows checked = ctx.rows_in(rows);
        riders = {checked.hidden, checked.valid, checked.count};
        rider_tier = static_cast<int64_t>(i);
      });
    });
  }
}

Rows SegmentRun::Impl::segment_rows(const at::Tensor& x) const {
  Rows rows;
  rows.count = input.length;
  rows.hidden = x;
  rows.valid = shared.valid;
  if (rows.valid.defined()) rows.counts = valid_count;
  return rows;
}

void SegmentRun::Impl::deliver(std::size_t from, int64_t layer, const std::vector<Rows>& released) {
  for (std::size_t i = from + 1; i < work.size(); ++i) {
    const int64_t served = tier(i).served_index(layer);
    if (feeders[i] != static_cast<int64_t>(from) || served < 0 ||
        work[i].instance().table().absorb == nullptr)
      continue;
    for (const Rows& rows : released) {
      auto block = std::make_shared<RowsBlock>();
      block->rows = rows;
      work[i].layer(served).waiting.append(std::move(block));
    }
  }
}

// The columns of the tier's own context rows, then the tokens.
at::Tensor SegmentRun::Impl::mass_of(std::size_t i, int64_t layer, const at::Tensor& mass,
                                     int64_t& rows) const {
  const at::Tensor own = mass.narrow(1, mass.size(1) - input.length, input.length);
  const auto by_layer = columns.find(layer);
  const auto range = by_layer == columns.end()      ? ColumnRange{}
                     : by_layer->second.contains(i) ? by_layer->second.at(i)
                                                    : ColumnRange{};
  rows = range.rows;
  return rows == 0 ? own : at::cat({mass.narrow(1, range.from, rows), own}, 1);
}

void SegmentRun::Impl::absorb(std::size_t i, int64_t layer, const Rows& rows, const at::Tensor& x,
                              const LocalAttention* local, LayerServices& services) {
  call(i, Hook::kAbsorb, layer, &services, x, [&](const mneme_plugin& table, void* self) {
    const mneme_rows given = ctx.rows_out(rows);
    mneme_absorb in = MNEME_INIT(mneme_absorb);
    in.segment = &shared.segment;
    in.layer = layer;
    in.rows = &given;
    const auto wants = [&](uint64_t bit) { return ctx.instance->wants(bit); };
    if (wants(MNEME_WANT_ABSORB_X)) in.x = ctx.handles.borrow(x);
    if (local != nullptr) {
      if (wants(MNEME_WANT_ABSORB_Z)) in.z = ctx.handles.borrow(local->z);
      if (wants(MNEME_WANT_ABSORB_LSE)) in.lse = ctx.handles.borrow(local->lse);
      if (wants(MNEME_WANT_ABSORB_Q)) in.q = ctx.handles.borrow(local->q);
      if (wants(MNEME_WANT_ABSORB_K)) in.k = ctx.handles.borrow(local->k);
      if (wants(MNEME_WANT_ABSORB_V)) in.v = ctx.handles.borrow(local->v);
      if (wants(MNEME_WANT_ABSORB_MASS) && local->mass.defined())
        in.mass = ctx.handles.borrow(mass_of(i, layer, local->mass.detach(), in.mass_rows));
    }
    return table.absorb(self, &ctx, &in, &error);
  });
}

ReadResult SegmentRun::Impl::checked(const mneme_read& out, uint32_t site) const {
  ReadResult result;
  result.merge = out.merge;
  if (out.merge > MNEME_MERGE_REPLACE)
    throw CallError(MNEME_E_INVALID_ARGUMENT,
                    str("read: merge: expected one of MNEME_MERGE_*, got ", out.merge));
  if (out.merge == MNEME_MERGE_LSE && site != MNEME_SITE_HEADS)
    throw CallError(MNEME_E_INVALID_ARGUMENT, "read: MNEME_MERGE_LSE belongs to MNEME_SITE_HEADS");
  const BackboneInfo& backbone = stack.backbone();
  const bool heads = site == MNEME_SITE_HEADS;
  result.out = ctx.handles.get(out.out);
  if (heads && result.out.dim() == 3 &&
      result.out.size(2) == backbone.heads * backbone.head_width) {
    result.out = result.out.unflatten(2, {backbone.heads, backbone.head_width});
  }
  const std::vector<int64_t> full =
      heads ? std::vector<int64_t>{shared.lanes, shared.length, backbone.heads, backbone.head_width}
            : std::vector<int64_t>{shared.lanes, shared.length, backbone.width};
  const auto fits = [&](const at::Tensor& t, bool exact_tail) {
    if (t.dim() != static_cast<int64_t>(full.size())) return false;
    for (std::size_t d = 0; d < full.size(); ++d) {
      const int64_t size = t.size(static_cast<int64_t>(d));
      if (size != full[d] && !(size == 1 && (d < 2 || !exact_tail))) return false;
    }
    return true;
  };
  if (!fits(result.out, true))
    throw CallError(MNEME_E_SHAPE,
                    str("read: out: expected ", list_text(full), " (B and T may be 1), got ",
                        list_text(result.out.sizes().vec())));
  if (out.merge == MNEME_MERGE_GATE) {
    result.gate = ctx.handles.get(out.gate);
    while (result.gate.dim() < static_cast<int64_t>(full.size()))
      result.gate = result.gate.unsqueeze(0);
    if (!fits(result.gate, false))
      throw CallError(MNEME_E_SHAPE,
                      str("read: gate: expected something that broadcasts to ", list_text(full),
                          ", got ", list_text(ctx.handles.get(out.gate).sizes().vec())));
  }
  if (out.merge == MNEME_MERGE_LSE) {
    result.lse = ctx.handles.get(out.lse);
    const std::vector<int64_t> expected = {shared.lanes, backbone.heads, shared.length};
    if (result.lse.sizes() != at::IntArrayRef(expected))
      throw CallError(MNEME_E_SHAPE, str("read: lse: expected ", list_text(expected), ", got ",
                                         list_text(result.lse.sizes().vec())));
  }
  return result;
}

ReadResult SegmentRun::Impl::read(std::size_t i, int64_t layer, uint32_t site,
                                  const LocalAttention& local, const at::Tensor& projected,
                                  LayerServices& services) {
  ReadResult result;
  call(i, Hook::kRead, layer, &services, {}, [&](const mneme_plugin& table, void* self) {
    mneme_queries in = MNEME_INIT(mneme_queries);
    in.segment = &shared.segment;
    in.layer = layer;
    in.site = site;
    const auto wants = [&](uint64_t bit) { return ctx.instance->wants(bit); };
    if (wants(MNEME_WANT_READ_Q)) in.q = ctx.handles.borrow(local.q);
    if (wants(MNEME_WANT_READ_K)) in.k = ctx.handles.borrow(local.k);
    if (wants(MNEME_WANT_READ_V)) in.v = ctx.handles.borrow(local.v);
    if (wants(MNEME_WANT_READ_Z)) in.z = ctx.handles.borrow(local.z);
    if (wants(MNEME_WANT_READ_LSE)) in.lse = ctx.handles.borrow(local.lse);
    if (wants(MNEME_WANT_READ_PROJECTED) && site == MNEME_SITE_OUT)
      in.projected = ctx.handles.borrow(projected);
    if (wants(MNEME_WANT_READ_X)) in.x = ctx.handles.borrow(layer_input);
    Roomy<mneme_read> room;
    mneme_read& out = room.value;
    const mneme_status status = table.read(self, &ctx, &in, &out, &error);
    if (status != MNEME_OK || out.merge == MNEME_MERGE_NONE) return status;
    return guard(&error, [&] { result = checked(out, site); });
  });
  return result;
}

bool SegmentRun::Impl::any_tier(int64_t layer,
                                const std::function<bool(const Instance&)>& predicate) const {
  for (std::size_t i = 0; i < work.size(); ++i) {
    if (tier(i).served_index(layer) >= 0 && predicate(work[i].instance())) return true;
  }
  return false;
}

std::map<std::string, Reported> SegmentRun::Impl::reported(
    const std::map<std::string, Accumulated>& from) const {
  std::map<std::string, Reported> out;
  for (const auto& [name, entry] : from) {
    Reported value;
    value.weight = entry.weight;
    for (const auto& [layer, sums] : entry.by_layer) {
      const at::Tensor total = sums.second.detach();
      const at::Tensor mean = sums.first / at::where(total == 0, torch::ones_like(total), total);
      value.value = value.value.defined() ? value.value + mean : mean;
    }
    out[name] = value;
  }
  return out;
}

SegmentRun::SegmentRun(Stack& stack, StackState& state, const SegmentInput& input)
    : impl_(std::make_unique<Impl>(stack, state, input)) {
  impl_->prepare();
  impl_->begin_hooks();
}

SegmentRun::~SegmentRun() = default;

const Riders& SegmentRun::riders() const { return impl_->riders; }

void SegmentRun::absorb_before(int64_t layer, const at::Tensor& x, LayerServices& services) {
  for (std::size_t i = 0; i < impl_->work.size(); ++i) {
    const int64_t served = impl_->tier(i).served_index(layer);
    if (served < 0 || impl_->work[i].instance().traits().absorb != MNEME_ABSORB_BEFORE_READING)
      continue;
    RowsQueue& waiting = impl_->work[i].layer(served).waiting;
    if (waiting.size() == 0) continue;
    const Rows rows = waiting.rows();
    waiting = RowsQueue();
    impl_->absorb(i, layer, rows, x, nullptr, services);
  }
}

LayerContext SegmentRun::context(int64_t layer, const at::Tensor& x, LayerServices& services) {
  impl_->layer_input = x;
  std::vector<LayerContext> by_tier(impl_->work.size());
  LayerContext out;
  for (std::size_t i = 0; i < impl_->work.size(); ++i) {
    if (impl_->tier(i).served_index(layer) < 0 ||
        impl_->work[i].instance().table().context == nullptr)
      continue;
    impl_->ctx.context = &by_tier[i];
    impl_->call(i, Hook::kContext, layer, &services, x, [&](const mneme_plugin& table, void* self) {
      mneme_context in = MNEME_INIT(mneme_context);
      in.segment = &impl_->shared.segment;
      in.layer = layer;
      in.x = impl_->ctx.handles.borrow(x);
      return table.context(self, &impl_->ctx, &in, &impl_->error);
    });
    impl_->ctx.context = nullptr;
    const at::Tensor& bias = by_tier[i].token_bias;
    if (bias.defined()) out.token_bias = out.token_bias.defined() ? out.token_bias + bias : bias;
  }
  auto& columns = impl_->columns[layer];
  int64_t from = 0;
  for (std::size_t i = by_tier.size(); i-- > 0;) {  // farthest tier first
    columns[i] = {from, by_tier[i].rows()};
    from += by_tier[i].rows();
    std::move(by_tier[i].blocks.begin(), by_tier[i].blocks.end(), std::back_inserter(out.blocks));
  }
  return out;
}

bool SegmentRun::caches_projections() const {
  return impl_->shared.caches_projections && !impl_->work.empty();
}

uint64_t SegmentRun::weights_version() const { return impl_->shared.weights_version; }

void SegmentRun::token_projection(int64_t layer, const at::Tensor& k, const at::Tensor& v) {
  if (impl_->shared.caches_projections)
    impl_->shared.token_projections[layer] = {k, v, impl_->shared.weights_version};
}

bool SegmentRun::wants_mass(int64_t layer) const {
  return impl_->any_tier(
      layer, [](const Instance& instance) { return instance.wants(MNEME_WANT_ABSORB_MASS); });
}

bool SegmentRun::wants_local(int64_t layer) const {
  return impl_->any_tier(layer, [](const Instance& instance) {
    return instance.wants(kAbsorbLocal | kReadLocal) ||
           (instance.traits().sites & MNEME_SITE_HEADS) != 0;
  });
}

at::Tensor SegmentRun::ride(int64_t layer, const at::Tensor& hidden, const at::Tensor& q_riders,
                            const at::Tensor& k, const at::Tensor& v, LayerServices& services) {
  at::Tensor result;
  Impl& impl = *impl_;
  if (impl.rider_tier < 0) return result;
  const auto i = static_cast<std::size_t>(impl.rider_tier);
  const bool is_last = layer + 1 == impl.stack.backbone().layers;
  if (impl.tier(i).served_index(layer) < 0) {
    throw_usage(ErrorText{
        .where = str("tier ", impl.tier(i).name()),
        .failed = str("a memory with riders must serve every layer; layer ", layer, " is left out"),
        .hint = "remove the tier's key `layers`"});
  }
  impl.call(i, Hook::kRide, layer, &services, {}, [&](const mneme_plugin& table, void* self) {
    mneme_ride in = MNEME_INIT(mneme_ride);
    in.segment = &impl.shared.segment;
    in.layer = layer;
    in.riders = impl.riders.count;
    in.q_riders = impl.ctx.handles.borrow(q_riders);
    in.k = impl.ctx.handles.borrow(k);
    in.v = impl.ctx.handles.borrow(v);
    in.hidden = impl.ctx.handles.borrow(hidden);
    in.is_last = is_last ? 1 : 0;
    at::Tensor valid;
    if (impl.riders.valid.defined() || impl.shared.valid.defined()) {
      const auto all = [&](int64_t n) {
        return torch::ones({impl.shared.lanes, n},
                           at::TensorOptions().dtype(at::kBool).device(k.device()));
      };
      valid = at::cat({impl.riders.valid.defined() ? impl.riders.valid : all(impl.riders.count),
                       impl.shared.valid.defined() ? impl.shared.valid : all(impl.shared.length)},
                      1);
    }
    in.valid = impl.ctx.handles.borrow(valid);
    mneme_tensor out = 0;
    const mneme_status status = table.ride(self, &impl.ctx, &in, &out, &impl.error);
    if (status != MNEME_OK) return status;
    return guard(&impl.error, [&] {
      if (out == 0 && is_last) return;
      result = impl.ctx.handles.get(out);
      if (result.sizes() != q_riders.sizes())
        throw CallError(MNEME_E_SHAPE, str("ride: expected ", list_text(q_riders.sizes().vec()),
                                           ", got ", list_text(result.sizes().vec())));
    });
  });
  return result;
}

at::Tensor SegmentRun::read_heads(int64_t layer, const LocalAttention& local,
                                  LayerServices& services) {
  std::vector<ReadResult> results;
  for (std::size_t i = 0; i < impl_->work.size(); ++i) {
    if (impl_->tier(i).served_index(layer) < 0 ||
        (impl_->work[i].instance().traits().sites & MNEME_SITE_HEADS) == 0)
      continue;
    ReadResult result = impl_->read(i, layer, MNEME_SITE_HEADS, local, {}, services);
    if (result.merge != MNEME_MERGE_NONE) results.push_back(std::move(result));
  }
  return results.empty() ? local.z : merge_reads(local.z, local.lse, results);
}

at::Tensor SegmentRun::read_out(int64_t layer, const at::Tensor& projected,
                                const LocalAttention& local, LayerServices& services) {
  std::vector<ReadResult> results;
  for (std::size_t i = 0; i < impl_->work.size(); ++i) {
    if (impl_->tier(i).served_index(layer) < 0 ||
        (impl_->work[i].instance().traits().sites & MNEME_SITE_OUT) == 0)
      continue;
    ReadResult result = impl_->read(i, layer, MNEME_SITE_OUT, local, projected, services);
    if (result.merge != MNEME_MERGE_NONE) results.push_back(std::move(result));
  }
  return results.empty() ? projected : merge_reads(projected, {}, results);
}

void SegmentRun::absorb_after(int64_t layer, const at::Tensor& x, const LocalAttention& local,
                              LayerServices& services) {
  Impl& impl = *impl_;
  if (impl.work.empty()) return;
  const Rows rows = impl.segment_rows(x.detach());
  for (std::size_t i = 0; i < impl.work.size(); ++i) {
    const int64_t served = impl.tier(i).served_index(layer);
    const Instance& instance = impl.work[i].instance();
    if (served < 0 || instance.table().absorb == nullptr) continue;
    RowsQueue& waiting = impl.work[i].layer(served).waiting;
    const bool fed_by_segment = impl.feeders[i] < 0;
    if (instance.traits().absorb == MNEME_ABSORB_BEFORE_READING) {
      if (!fed_by_segment) continue;
      auto block = std::make_shared<RowsBlock>();
      block->rows = rows;
      waiting.append(std::move(block));
      continue;
    }
    if (fed_by_segment) {
      impl.absorb(i, layer, rows, x, &local, services);
    } else if (waiting.size() > 0) {
      const Rows released = waiting.rows();
      waiting = RowsQueue();
      impl.absorb(i, layer, released, x, &local, services);
    }
  }
}

void SegmentRun::absorb_rows(std::size_t tier, int64_t layer, const Rows& rows, const at::Tensor& x,
                             const LocalAttention& local, LayerServices& services) {
  impl_->absorb(tier, layer, rows, x, &local, services);
}

bool SegmentRun::wants_layer_outputs() const {
  return std::any_of(impl_->work.begin(), impl_->work.end(), [](const TierState& tier) {
    return tier.instance().wants(MNEME_WANT_FINISH_LAYERS);
  });
}

void SegmentRun::finish(const at::Tensor& top, const std::vector<at::Tensor>& layers,
                        const at::Tensor& targets, const at::Tensor& logp) {
  for (std::size_t i = 0; i < impl_->work.size(); ++i) {
    if (impl_->work[i].instance().table().finish == nullptr) continue;
    impl_->call(i, Hook::kFinish, -1, nullptr, {}, [&](const mneme_plugin& table, void* self) {
      mneme_finish in = MNEME_INIT(mneme_finish);
      in.segment = &impl_->shared.segment;
      const auto wants = [&](uint64_t bit) { return impl_->ctx.instance->wants(bit); };
      if (wants(MNEME_WANT_FINISH_TOP)) in.top = impl_->ctx.handles.borrow(top);
      if (wants(MNEME_WANT_FINISH_TARGETS)) in.targets = impl_->ctx.handles.borrow(targets);
      if (wants(MNEME_WANT_FINISH_LOGP)) in.logp = impl_->ctx.handles.borrow(logp);
      impl_->layer_handles.clear();
      if (wants(MNEME_WANT_FINISH_LAYERS)) {
        for (const at::Tensor& layer : layers)
          impl_->layer_handles.push_back(impl_->ctx.handles.borrow(layer));
        in.layers = impl_->layer_handles.data();
      }
      return table.finish(self, &impl_->ctx, &in, &impl_->error);
    });
  }
}

std::map<std::string, Reported> SegmentRun::losses() const {
  return impl_->reported(impl_->shared.losses);
}

std::map<std::string, Reported> SegmentRun::metrics() const {
  return impl_->reported(impl_->shared.metrics);
}

at::Tensor SegmentRun::total_loss() const {
  at::Tensor total;
  for (const auto& [name, loss] : losses()) {
    const at::Tensor term = loss.value * loss.weight;
    total = total.defined() ? total + term : term;
  }
  return total;
}

void SegmentRun::commit() {
  StackState& state = impl_->state;
  const bool cut = ++state.graph_segments_ >= impl_->stack.backbone().bptt_segments ||
                   !at::GradMode::is_enabled();
  for (std::size_t i = 0; i < impl_->work.size(); ++i) {
    impl_->work[i].detach(cut);
    *state.tiers_[i] = std::move(impl_->work[i]);
  }
  impl_->work.clear();
  if (cut) state.graph_segments_ = 0;
  for (std::size_t b = 0; b < state.tokens_.size(); ++b)
    state.tokens_[b] = impl_->tokens[b] + impl_->valid_count[b];
  ++state.segments_;
  state.previous_length_ = impl_->input.length;
  state.reset_.assign(state.reset_.size(), 0);
}

}  // namespace mneme::memory
