// Breaks one rule of the contract at a time, as option `fault` says; the host must answer with a
// message that names plugin, tier, hook and layer.
#include <cstring>
#include <stdexcept>

#include "mneme/plugin.hpp"

namespace {

using namespace mneme;  // NOLINT: ops read like mathematics

class Faulty : public mneme::Tier {
 public:
  static constexpr const char* kLosses = "loss";
  static constexpr auto kOptions = mneme::options(mneme::choice(
      "fault", "none",
      "none|error|exception|read_shape|read_dtype|lse_at_out|slot_shape|slot_dtype|dead_handle|"
      "borrowed_release|no_layer|release_undeclared|token_bias_undeclared|rows_shape|"
      "mixed_dtypes|unknown_attribute|kernel_fails|create_fails|twice_the_same_name|bad_name|"
      "carried|emit_in_read|distance_missing|aux_shape|aux_undeclared|create_wants|rows_size|null_"
      "output|null_key|"
      "null_ops|null_data|no_struct_size|shape_size|pop_size|"
      "negative_keys|kernel_without_inputs|backward_fails|backward_memory|"
      "reserved_rows|counts_of_others|rows_counts|reserved_block|no_name|host_name|scope|parameter_"
      "extent|"
      "parameter_init|parameter_rate|parameter_fan_in|slot_extent|slot_gradient|start_unknown|"
      "start_any|"
      "counts_as_tensor|tensor_as_counts|counts_size|slot_flags|counts_gradient|"
      "start_shape|queue_kind|queue_attributes|queue_rows|position_count|positions_missing|biases_"
      "missing|riders_undeclared|riders_unseen|ride_shape|"
      "unwanted_handle|unwanted_input|unwanted_result|unwanted_local|heads_at_out|out_at_heads|"
      "heads_at_both|parameter_group|block_mask|token_mask|attention_mask",
      "the rule to break"));

  struct Failing {
    static constexpr const char* kName = "failing";
    static constexpr uint32_t kInputs = 1;
    static constexpr uint32_t kOutputs = 1;
    void infer(mneme::KernelPlan& plan) const { plan.output(0, plan.input(0)); }
    void forward_cpu(const mneme::KernelCall&) const {
      mneme::fail(MNEME_E_NUMERIC, "the kernel found no pivot");
    }
  };

  struct Sourceless {
    static constexpr const char* kName = "sourceless";
    static constexpr uint32_t kInputs = 0;
    static constexpr uint32_t kOutputs = 1;
    void infer(mneme::KernelPlan& plan) const { plan.output(0, mneme::DType::kF64, {1}); }
    void forward_cpu(const mneme::KernelCall&) const {
      mneme::fail(MNEME_E_NUMERIC, "a kernel without inputs runs");
    }
  };

  // With an integer, its backward asks for more memory than any machine has.
  struct OneWay {
    static constexpr const char* kName = "one_way";
    static constexpr uint32_t kInputs = 1;
    static constexpr uint32_t kOutputs = 1;
    void infer(mneme::KernelPlan& plan) const {
      plan.output(0, plan.input(0));
      if (plan.integer_count() > 0) plan.backward_workspace(uint64_t{1} << 50);
    }
    void forward_cpu(const mneme::KernelCall& call) const {
      const mneme::View out = call.output(0);
      std::memset(out.data<void>(), 0,
                  static_cast<std::size_t>(out.elements() * out.element_size()));
    }
    void backward_cpu(const mneme::KernelCall&) const {
      mneme::fail(MNEME_E_NUMERIC, "the gradient overflows");
    }
  };

  explicit Faulty(mneme::Setup& s) : fault_(s.text("fault")) {
    if (fault_ == "create_fails")
      mneme::fail(MNEME_E_UNSUPPORTED, "basis must be a multiple of widths");
    slot_ = s.slot("state", {mneme::kLanes, s.width()});
    counts_ = s.counts("counted");
    if (fault_ == "twice_the_same_name") s.slot("state", {mneme::kLanes, s.width()});
    if (fault_ == "bad_name") s.slot("Bad Name", {mneme::kLanes});
    queue_ = s.queue("rows");
    declare_wrongly(s);
    kernel_ = s.kernel(failing_);
    sourceless_kernel_ = s.kernel(sourceless_);
    one_way_kernel_ = s.kernel(one_way_);
    s.wants(MNEME_WANT_READ_X);
    if (fault_ == "ride_shape" || fault_ == "riders_unseen")
      s.context_rows(2);
    else
      s.has_no_riders();
    if (fault_ == "out_at_heads") s.reads_at(MNEME_SITE_HEADS);
    if (fault_ == "heads_at_both") s.reads_at(MNEME_SITE_HEADS | MNEME_SITE_OUT);
    if (fault_ == "block_mask") s.context_rows(s.segment());
    if (fault_ == "token_mask") s.emits_token_bias();
    if (fault_ == "create_wants") {
      s.absorbs_before_reading();
      s.wants(MNEME_WANT_ABSORB_Z);
    }
  }

  mneme::Riders begin(mneme::Segment& s) override {
    if (fault_ != "riders_undeclared" && fault_ != "riders_unseen" && fault_ != "ride_shape")
      return {};
    return {
        full({s.lanes(), 2, 6}, 0.0, mneme::DType::kF64), {}, fault_ == "riders_unseen" ? 3 : 0};
  }

  mneme::Tensor ride(mneme::Layer&, const mneme::Ride& in) override { return slice(in.q, 1, 0, 1); }

  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    if (fault_ == "error")
      mneme::fail(MNEME_E_NUMERIC, "the ridge matrix is not positive definite");
    if (fault_ == "exception") throw std::out_of_range("index 7 of 3");
    if (fault_ == "slot_shape") l.slot(slot_) = rows.hidden;
    if (fault_ == "slot_dtype") l.slot(slot_) = cast(mean(rows.hidden, 1), mneme::DType::kBF16);
    if (fault_ == "counts_as_tensor") l.slot(mneme::Slot{counts_.id}).get();
    if (fault_ == "tensor_as_counts") l.counts(mneme::Counts{slot_.id}).get();
    if (fault_ == "counts_size") l.counts(counts_).set({1});
    if (fault_ == "release_undeclared") l.release(rows);
    if (fault_ == "rows_shape")
      l.queue(queue_).append(mneme::Rows::of_hidden(slice(rows.hidden, 2, 0, 1)));
    if (fault_ == "rows_size") {
      mneme::Rows wrong = rows;
      wrong.count = rows.count + 1;
      l.queue(queue_).append(wrong);
    }
    if (fault_ == "counts_of_others") {
      const int64_t counts[] = {5, 4, 5};
      mneme::Rows wrong = rows;
      wrong.counts = counts;
      l.queue(queue_).append(wrong);
    }
    if (fault_ == "rows_counts") {
      const int64_t counts[] = {5, 6, 5};
      mneme::Rows wrong = rows;
      wrong.counts = counts;
      l.queue(queue_).append(wrong);
    }
    if (fault_ == "carried") l.queue(queue_).assign(rows, rows.count + 5);
    if (fault_ == "mixed_dtypes") rows.hidden + cast(rows.hidden, mneme::DType::kBF16);
    if (fault_ == "kernel_fails") l.call(kernel_, {rows.hidden});
    if (fault_ == "aux_shape") l.aux("loss", rows.hidden);
    if (fault_ == "aux_undeclared") l.aux("los", full({l.lanes()}, 0.0));
    if (fault_ == "negative_keys") {
      mneme::Attention call;
      call.q = call.k = call.v = l.project(mneme::Project::kQ, rows.hidden);
      call.key_count = -2;
      l.attention(call);
    }
    if (fault_ == "attention_mask") {
      mneme::Attention call;
      call.q = call.k = call.v = l.project(mneme::Project::kQ, rows.hidden);
      call.bias = mask_of(l);
      l.attention(call);
    }
    if (fault_ == "position_count") l.positions(1, 0);
    if (fault_ == "positions_missing") l.positions(1, 3);
    if (fault_ == "biases_missing") l.weight(mneme::Weight::kContentBias);
    if (fault_ == "unwanted_local") mean(l.local().z, 1);
    call_without_cplusplus(rows);
    if (fault_ == "dead_handle") {
      mneme::Tensor t = mean(rows.hidden, 1);
      const mneme::Tensor stale = mneme::Tensor::borrow(t.raw());
      t = mneme::Tensor();
      stale.shape();
    }
  }

  // Mistakes that only plain C permits.
  void call_without_cplusplus(const mneme::Rows& rows) const {
    const detail::HostGroups& host = detail::groups;
    mneme_ctx* const ctx = detail::ctx();
    mneme_error error = MNEME_INIT(mneme_error);
    mneme_status status = MNEME_OK;
    mneme_tensor out = 0;
    mneme_rows unsized = {};
    mneme_shape info = {};
    mneme_shape sized = MNEME_INIT(mneme_shape);
    if (fault_ == "null_output") status = host.state->slot_get(ctx, slot_.id, nullptr, &error);
    if (fault_ == "null_key") status = host.tensor->constant_find(ctx, nullptr, &out, &error);
    if (fault_ == "null_ops")
      status = host.op->call(ctx, 1, nullptr, 1, nullptr, 0, nullptr, 1, &error);
    if (fault_ == "null_data") {
      const mneme_shape shape = mneme::Shape({1}).raw(mneme::DType::kF32);
      const float value = 1.0F;
      status = host.tensor->from_data(ctx, &shape, &value, sizeof(value), nullptr, &error);
    }
    if (fault_ == "reserved_rows") {
      mneme_rows given = rows.raw();
      given.reserved = 3;
      status = host.state->queue_append(ctx, queue_.id, &given, &error);
    }
    if (fault_ == "no_struct_size")
      status = host.state->queue_rows(ctx, queue_.id, &unsized, &error);
    if (fault_ == "pop_size")
      status = host.state->queue_pop_oldest(ctx, queue_.id, 1, &unsized, &error);
    if (fault_ == "shape_size") status = host.tensor->shape(ctx, rows.hidden.raw(), &info, &error);
    if (fault_ == "kernel_without_inputs")
      status = host.kernel->call(ctx, sourceless_kernel_.id, nullptr, 0, nullptr, 0, nullptr, 0,
                                 &out, 1, &error);
    if (fault_ == "unwanted_handle") status = host.tensor->shape(ctx, 0, &sized, &error);
    if (fault_ == "unwanted_input") {
      const mneme_tensor inputs[] = {0};
      const mneme_op op = detail::OpUse<detail::op::mean, void>::entry.id;
      status = host.op->call(ctx, op, inputs, 1, nullptr, 0, &out, 1, &error);
    }
    if (fault_ == "borrowed_release") status = host.tensor->release(ctx, rows.hidden.raw(), &error);
    if (status != MNEME_OK) mneme::fail(status, error.message);
  }

  void context(mneme::Layer& l) override {
    if (fault_ == "token_bias_undeclared")
      l.emit_token_bias(full({1, 1, 1, l.length()}, 0.0, l.x().dtype()));
    if (fault_ == "reserved_block") {
      mneme_error error = MNEME_INIT(mneme_error);
      mneme_block block = MNEME_INIT(mneme_block);
      block.queue = queue_.id;
      block.reserved2 = 4;
      const mneme_status status = detail::groups.layer->emit_block(detail::ctx(), &block, &error);
      if (status != MNEME_OK) mneme::fail(status, error.message);
    }
    if (fault_ == "distance_missing") {
      mneme::BlockSettings settings;
      settings.position = MNEME_POSITION_EXPLICIT;
      l.emit(mneme::Rows::of_hidden(l.x()), settings);
    }
    if (fault_ == "token_mask") l.emit_token_bias(mask_of(l));
    if (fault_ == "block_mask") {
      mneme::BlockSettings settings;
      settings.bias = mask_of(l);
      l.emit(mneme::Rows::of_hidden(l.x()), settings);
    }
  }

  mneme::Read read(mneme::Layer& l, const mneme::Queries&) override {
    if (fault_ == "unwanted_result") {
      mneme::Read read;
      read.merge = MNEME_MERGE_ADD;
      return read;
    }
    if (fault_ == "heads_at_out" || fault_ == "heads_at_both")
      return mneme::add(full({l.lanes(), l.length(), 2, 4}, 0.0, l.x().dtype()));
    if (fault_ == "out_at_heads") return mneme::add(l.x());
    if (fault_ == "read_shape") return mneme::add(slice(l.x(), 2, 0, 1));
    if (fault_ == "read_dtype") return mneme::add(cast(l.x(), mneme::DType::kI64));
    if (fault_ == "lse_at_out") return mneme::lse(l.x(), l.x());
    if (fault_ == "backward_fails") return mneme::add(l.call(one_way_kernel_, {l.x()})[0]);
    if (fault_ == "backward_memory") return mneme::add(l.call(one_way_kernel_, {l.x()}, {1})[0]);
    if (fault_ == "emit_in_read") l.emit(queue_);
    return mneme::nothing();
  }

  void finish(mneme::Segment& s, const mneme::Finish&) override {
    if (fault_ == "no_layer") s.slot(slot_).get();
  }

 private:
  // [1,1,1,T] bool, of the shape that a bias has.
  static mneme::Tensor mask_of(const mneme::Layer& l) {
    return lt(full({1, 1, 1, l.length()}, 0.0), 1.0);
  }

  void declare_wrongly(mneme::Setup& s) const {
    mneme::ParameterSettings parameter;
    mneme::SlotSettings slot;
    mneme::QueueSettings queue;
    if (fault_ == "no_name") s.parameter("", {1});
    if (fault_ == "host_name") s.slot("waiting", {mneme::kLanes});
    if (fault_ == "scope") parameter.scope = static_cast<mneme::Scope>(5);
    if (fault_ == "parameter_rate") parameter.lr_factor = -1.0;
    if (fault_ == "parameter_group") parameter.group = "fast";
    mneme::Init init;
    if (fault_ == "parameter_init") init.rule = 9;
    if (fault_ == "parameter_fan_in") init.fan_in = -2;
    const int64_t extent = fault_ == "parameter_extent" ? 0 : 4;
    const mneme::Parameter source = s.parameter("source", {extent}, init, parameter);
    if (fault_ == "slot_extent") s.slot("wrong", {mneme::kLanes, mneme::kLanes});
    if (fault_ == "slot_gradient") slot.gradient = static_cast<mneme::Gradient>(7);
    mneme::SlotSettings flagged;
    flagged.flags = fault_ == "slot_flags" ? 4U : MNEME_SLOT_COUNTS;
    flagged.dtype = mneme::DType::kI64;
    flagged.gradient = mneme::Gradient::kThrough;
    if (fault_ == "slot_flags" || fault_ == "counts_gradient")
      s.slot("wrong", {mneme::kLanes}, mneme::zeros(), flagged);
    if (fault_ == "start_unknown") s.slot("wrong", {mneme::kLanes, 4}, mneme::Parameter{9});
    if (fault_ == "start_any") s.slot("wrong", {mneme::kLanes, MNEME_ANY}, source);
    if (fault_ == "start_shape") s.slot("wrong", {mneme::kLanes, 3}, source);
    s.slot("other", {mneme::kLanes}, mneme::zeros(), slot);
    if (fault_ == "queue_kind") queue.kind = static_cast<mneme::RowsKind>(9);
    if (fault_ == "queue_attributes") queue.attributes = 64;
    if (fault_ == "queue_rows") queue.start_rows = -1;
    s.queue("more", queue);
  }

  std::string fault_;
  Failing failing_;
  Sourceless sourceless_;
  OneWay one_way_;
  mneme::KernelId one_way_kernel_;
  mneme::KernelId sourceless_kernel_;
  mneme::Slot slot_;
  mneme::Counts counts_;
  mneme::Queue queue_;
  mneme::KernelId kernel_;
};

}  // namespace

MNEME_PLUGIN_WITH_FEATURES(Faulty, "test.faulty", "0.1.0",
                           MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL)
