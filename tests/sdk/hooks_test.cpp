// A tier with every hook, declaration, option and service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/sdk/driver.hpp"

namespace {

using mneme::test::Driver;
using mneme::test::SdkPlugin;
using mneme::test::table_of;
using testing::ElementsAre;

struct Doubler {
  static constexpr const char* kName = "doubler";
  static constexpr uint32_t kInputs = 1;
  static constexpr uint32_t kOutputs = 1;
  static constexpr uint32_t kSaved = 2;
  static constexpr uint64_t kKeepInputs = 1;
  void infer(mneme::KernelPlan& plan) const { plan.output(0, plan.input(0)); }
  void forward_cpu(const mneme::KernelCall& call) const {
    if (call.integer(0) == 13) mneme::fail(MNEME_E_NUMERIC, "unlucky");
  }
  void backward_cpu(const mneme::KernelCall& /*call*/) const {}
};

class Everything : public mneme::Tier {
 public:
  static constexpr const char* kLosses = "loss";
  static constexpr const char* kSummary = "every hook";
  static constexpr auto kOptions = mneme::options(
      mneme::integer("rows", mneme::kRequired, 1, mneme::kUnlimited, "rows").at_evaluation(),
      mneme::boolean("sticky", true, "sticks").trained(), mneme::text("name", "x", "a name"),
      mneme::choice("mode", "mean", "mean|max", "how"),
      mneme::integers("taps", "[1, 2, 3]", 1, 9, "taps"), mneme::reals("weights", "[0.5]", "w"));

  explicit Everything(mneme::Setup& s) {
    EXPECT_EQ(s.width(), 4);
    EXPECT_THAT(s.served(), ElementsAre(0, 2));
    EXPECT_EQ(s.position(), "relative");
    EXPECT_TRUE(s.is_evaluation());
    EXPECT_FALSE(s.is_pre_norm());
    EXPECT_EQ(s.integer("rows"), 8);
    EXPECT_TRUE(s.boolean("sticky"));
    EXPECT_EQ(s.text("mode"), "max");
    EXPECT_THAT(s.integers("taps"), ElementsAre(1, 2, 3));
    EXPECT_THAT(s.reals("weights"), ElementsAre(0.5));
    mneme::ParameterSettings slow;
    slow.scope = mneme::Scope::kModel;
    slow.lr_factor = 0.5;
    start_ = s.parameter("start", {4}, mneme::normal(0.0, 0.02), slow);
    mneme::SlotSettings through;
    through.gradient = mneme::Gradient::kThrough;
    through.dtype = mneme::DType::kF64;
    slot_ = s.slot("state", {mneme::kLanes, 4}, start_, through);
    mneme::QueueSettings settings;
    settings.kind = mneme::RowsKind::kKeysValues;
    settings.capacity = 8;
    settings.start_rows = 2;
    queue_ = s.queue("cache", settings);
    kernel_ = s.kernel(doubler_);
    s.absorbs_before_reading();
    s.reads_at(MNEME_SITE_HEADS);
    s.wants(MNEME_WANT_READ_Q | MNEME_WANT_FINISH_LAYERS);
    s.context_rows(8);
    s.max_segment(64);
    s.releases();
    s.emits_token_bias();
    s.is_cut_invariant();
  }
  mneme::Riders begin(mneme::Segment& s) override {
    EXPECT_TRUE(s.is_training());
    EXPECT_TRUE(s.any_reset());
    EXPECT_FALSE(s.is_reset(0));
    EXPECT_TRUE(s.is_reset(1));
    EXPECT_EQ(s.valid_count(1), 4);
    EXPECT_EQ(s.tokens(0), 10);
    return {mneme::from_data<float>({1, 2}, {1.0F, 2.0F}), {}};
  }
  void absorb(mneme::Layer& l, const mneme::Rows& rows) override {
    EXPECT_EQ(l.layer(), 2);
    EXPECT_EQ(l.index(), 6);
    EXPECT_EQ(l.local().mass_rows, 9);
    EXPECT_EQ(l.x().dim(-1), 4);
    l.queue(queue_).append(rows);
    EXPECT_EQ(l.queue("cache").size(), 3);
    EXPECT_EQ(l.queue(queue_).blocks().size(), 3U);
    const mneme::Rows gone = l.queue(queue_).pop_oldest(1);
    l.queue(queue_).drop_oldest(1);
    l.release(gone);
    l.call(kernel_, {rows.hidden}, {7}, {0.5});
    l.slot(slot_) = l.slot("state");
    l.aux("loss", rows.hidden);
    l.metric("size", rows.hidden);
    for (int i = 0; i < 2; ++i) {
      mneme::constant("ridge", {2}, [] { return std::vector<double>{1.0, 2.0}; });
    }
    if (l.wants_probe("memory.write")) l.probe("memory.write", rows.hidden);
    EXPECT_FALSE(l.wants_probe("memory.span"));
  }
  void context(mneme::Layer& l) override {
    l.emit(queue_);
    mneme::BlockSettings settings;
    settings.position = MNEME_POSITION_EXPLICIT;
    settings.distance = l.normal("distance", {2, 5});
    l.emit(mneme::Rows::of_hidden(l.norm(l.x(), mneme::WeightGradient::kStops), {}), settings);
    l.emit_token_bias(l.x());
  }
  mneme::Tensor ride(mneme::Layer& l, const mneme::Ride& in) override {
    EXPECT_TRUE(in.is_last);
    mneme::Attention call;
    call.q = in.q;
    call.k = in.k;
    call.mask = MNEME_MASK_WINDOW;
    call.has_positions = call.has_content_bias = call.has_dropout = true;
    call.key_count = 4;
    return l.attention(call).z;
  }
  mneme::Read read(mneme::Layer& l, const mneme::Queries& in) override {
    l.weight(mneme::Weight::kNorm);
    return mneme::gate(l.project(mneme::Project::kV, in.q), in.q);
  }
  void finish(mneme::Segment& s, const mneme::Finish& in) override {
    EXPECT_EQ(in.layers.size(), static_cast<std::size_t>(s.layers()));
    EXPECT_EQ(in.layers[2].dim(0), 3);
    EXPECT_FALSE(in.logp);
  }

 private:
  Doubler doubler_;
  mneme::Parameter start_;
  mneme::Slot slot_;
  mneme::Queue queue_;
  mneme::KernelId kernel_;
};

class SdkEverything : public SdkPlugin {
 protected:
  SdkEverything() : driver(table_of<Everything>()) {}
  void SetUp() override {
    SdkPlugin::SetUp();
    host().options = {{"rows", 8}, {"sticky", 1}};
    host().texts = {{"mode", "max"}};
    ASSERT_EQ(driver.create(), MNEME_OK) << driver.error.message;
    created = host().log;
    host().log.clear();
  }
  Driver driver;
  std::vector<std::string> created;
};

TEST_F(SdkEverything, DeclaresWhatTheConstructorSaid) {
  EXPECT_THAT(std::vector<std::string>(created.begin() + 1, created.end()),
              ElementsAre("parameter start [4] scope=1 init=2 mean=0 deviation=0.02 lr=0.5",
                          "slot state [-1,4] dtype=4 gradient=1 start=2 value=0 parameter=1",
                          "queue cache kind=2 capacity=8 start=2",
                          "kernel doubler 1->1 saved=2 keep=1 backward"));
  const mneme_tier_traits& traits = driver.traits;
  EXPECT_EQ(traits.flags, MNEME_TIER_RELEASES | MNEME_TIER_RIDERS | MNEME_TIER_TOKEN_BIAS |
                              MNEME_TIER_CUT_INVARIANT);
  EXPECT_EQ(traits.absorb, static_cast<uint32_t>(MNEME_ABSORB_BEFORE_READING));
  EXPECT_EQ(traits.sites, MNEME_SITE_HEADS);
  EXPECT_EQ(traits.wants, MNEME_WANT_READ_Q | MNEME_WANT_FINISH_LAYERS);
  EXPECT_EQ(traits.context_rows, 8);
  EXPECT_EQ(traits.max_segment, 64);
}

TEST_F(SdkEverything, PublishesEveryKindOfOption) {
  const mneme_plugin table = table_of<Everything>();
  ASSERT_EQ(table.option_count, 6U);
  EXPECT_STREQ(table.summary, "every hook");
  EXPECT_STREQ(table.losses, "loss");
  EXPECT_EQ(table.options[0].flags,
            MNEME_OPTION_REQUIRED | MNEME_OPTION_BOUNDED | MNEME_OPTION_AT_EVALUATION);
  EXPECT_EQ(table.options[1].default_integer, 1);
  EXPECT_EQ(table.options[1].flags, MNEME_OPTION_TRAINED);
  EXPECT_STREQ(table.options[2].default_text, "x");
  ASSERT_EQ(table.options[3].choice_count, 2U);
  EXPECT_STREQ(table.options[3].choices[0], "mean");
  EXPECT_STREQ(table.options[3].choices[1], "max");
  ASSERT_EQ(table.options[4].default_count, 3U);
  EXPECT_EQ(table.options[4].default_integers[2], 3);
  EXPECT_EQ(table.options[4].max_integer, 9);
  EXPECT_EQ(table.options[5].type, static_cast<uint32_t>(MNEME_OPTION_REALS));
  ASSERT_EQ(table.options[5].default_count, 1U);
  EXPECT_EQ(table.options[5].default_reals[0], 0.5);
}

TEST_F(SdkEverything, RunsEveryHook) {
  mneme_riders riders = MNEME_INIT(mneme_riders);
  ASSERT_EQ(driver.begin(riders), MNEME_OK) << driver.error.message;
  EXPECT_EQ(host().tensors.at(riders.rows).references, 1);
  EXPECT_EQ(riders.valid, 0U);
  host().wanted_probe = "memory.write";
  ASSERT_EQ(driver.absorb(), MNEME_OK) << driver.error.message;
  ASSERT_EQ(driver.context(), MNEME_OK) << driver.error.message;
  mneme_tensor ridden = 0;
  ASSERT_EQ(driver.ride(ridden), MNEME_OK) << driver.error.message;
  mneme_read out = MNEME_INIT(mneme_read);
  ASSERT_EQ(driver.read(out), MNEME_OK) << driver.error.message;
  ASSERT_EQ(driver.finish(), MNEME_OK) << driver.error.message;
  EXPECT_EQ(out.merge, static_cast<uint32_t>(MNEME_MERGE_GATE));
  EXPECT_THAT(
      host().log,
      ElementsAre("from_data [1,2] 1 8", "append 3 rows", "pop 1", "drop 1",
                  "release 1 rows, masked", "kernel_call 1 1->1 [7] 1", testing::_,
                  testing::StartsWith("slot_set 1"), "aux loss weight=0", "metric size",
                  "constant ridge", "publish memory.write", "emit queue=1 rows=0 position=0",
                  "draw distance [2,5]", "norm flags=1", "emit queue=0 rows=5 position=1 distance",
                  "token_bias", "attention mask=2 flags=7 offset=0 keys=4", "weight 5",
                  "project 3 flags=0"));
  EXPECT_EQ(host().live_references(), 3) << "riders, ride and read hand one reference each";
}

TEST_F(SdkEverything, TurnsAKernelsFailureIntoAStatus) {
  const Doubler doubler;
  const mneme_kernel_decl decl = mneme::detail::declare_kernel(doubler);
  const int64_t integers[] = {13};
  mneme_kernel_call call = MNEME_INIT(mneme_kernel_call);
  mneme_error error = MNEME_INIT(mneme_error);
  EXPECT_EQ(decl.forward_cpu(decl.user, &call, &error), MNEME_E_INVALID_ARGUMENT);
  EXPECT_STREQ(error.message, "kernel doubler: integer 0 was not given");
  call.integers = integers;
  call.n_integers = 1;
  EXPECT_EQ(decl.forward_cpu(decl.user, &call, &error), MNEME_E_NUMERIC);
  EXPECT_STREQ(error.message, "unlucky");
}

}  // namespace
