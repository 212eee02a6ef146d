// The C++ layer against a host that writes every call down: the one-page memory, hooks, errors,
// ownership.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/sdk/decayed_mean.hpp"
#include "tests/sdk/fake_host.hpp"

MNEME_PLUGIN(DecayedMean, "org.example.decayed_mean", "0.1.0")

namespace {

using mneme::test::FakeHost;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

mneme_model_info model() {
  static const int64_t served[] = {0, 2};
  mneme_model_info info = MNEME_INIT(mneme_model_info);
  info.flags = MNEME_MODEL_EVALUATION;
  info.width = 4;
  info.heads = 2;
  info.head_width = 2;
  info.layers = 3;
  info.served = served;
  info.served_count = 2;
  info.segment = 5;
  info.bptt_segments = 1;
  info.position = "relative";
  info.compute_dtype = MNEME_F32;
  return info;
}

// A plugin's table with an instance, driven as the host drives it.
class Driver {
 public:
  explicit Driver(const mneme_plugin& table) : table_(table) {
    FakeHost& host = FakeHost::get();
    const mneme_host_offer offer = host.offer();
    if (table_.init != nullptr) {
      EXPECT_EQ(table_.init(offer.host, offer.get_group, &error), MNEME_OK);
    }
  }
  ~Driver() {
    if (instance_ != nullptr) table_.destroy(instance_);
  }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  mneme_status create() {
    const mneme_model_info info = model();
    return table_.create(FakeHost::get().offer().host, FakeHost::get().setup(), &info, &traits,
                         &instance_, &error);
  }
  void create_or_fail() {
    ASSERT_EQ(create(), MNEME_OK) << error.message;
    FakeHost::get().log.clear();
  }
  mneme_status absorb(int64_t rows = 3, bool is_masked = false) {
    FakeHost& host = FakeHost::get();
    mneme_rows given = MNEME_INIT(mneme_rows);
    given.rows = rows;
    given.hidden = host.borrowed({2, rows, 4});
    if (is_masked) given.valid = host.borrowed({2, rows}, MNEME_BOOL);
    mneme_absorb in = MNEME_INIT(mneme_absorb);
    in.segment = &segment();
    in.layer = 2;
    in.rows = &given;
    in.x = host.borrowed({2, 5, 4});
    in.mass_rows = 9;
    return table_.absorb(instance_, host.ctx(), &in, &error);
  }
  mneme_status read(mneme_read& out) {
    FakeHost& host = FakeHost::get();
    mneme_queries in = MNEME_INIT(mneme_queries);
    in.segment = &segment();
    in.layer = 2;
    in.site = MNEME_SITE_OUT;
    in.q = host.borrowed({2, 5, 2, 2});
    return table_.read(instance_, host.ctx(), &in, &out, &error);
  }
  mneme_status context() {
    mneme_context in = MNEME_INIT(mneme_context);
    in.segment = &segment();
    in.layer = 1;
    in.x = FakeHost::get().borrowed({2, 5, 4});
    return table_.context(instance_, FakeHost::get().ctx(), &in, &error);
  }
  mneme_status begin(mneme_riders& out) {
    return table_.begin(instance_, FakeHost::get().ctx(), &segment(), &out, &error);
  }
  mneme_status ride(mneme_tensor& out) {
    mneme_ride in = MNEME_INIT(mneme_ride);
    in.segment = &segment();
    in.riders = 2;
    in.q_riders = FakeHost::get().borrowed({2, 2, 2, 2});
    in.k = FakeHost::get().borrowed({2, 7, 2, 2});
    in.is_last = 1;
    return table_.ride(instance_, FakeHost::get().ctx(), &in, &out, &error);
  }
  mneme_status finish() {
    mneme_finish in = MNEME_INIT(mneme_finish);
    in.segment = &segment();
    in.top = FakeHost::get().borrowed({2, 5, 4});
    const mneme_tensor layers[3] = {FakeHost::get().borrowed({1}), FakeHost::get().borrowed({2}),
                                    FakeHost::get().borrowed({3})};
    in.layers = layers;
    return table_.finish(instance_, FakeHost::get().ctx(), &in, &error);
  }

  static const mneme_segment& segment() {
    static const int64_t counts[] = {5, 4};
    static const int64_t tokens[] = {10, 0};
    static const uint8_t resets[] = {0, 1};
    static const mneme_segment out = [] {
      mneme_segment s = MNEME_INIT(mneme_segment);
      s.flags = MNEME_SEGMENT_TRAINING | MNEME_SEGMENT_ANY_RESET;
      s.index = 6;
      s.lanes = 2;
      s.length = 5;
      s.previous_length = 5;
      s.layers = 3;
      s.tokens = tokens;
      s.valid_count = counts;
      s.reset = resets;
      s.compute_dtype = MNEME_F32;
      return s;
    }();
    return out;
  }

  mneme_error error = MNEME_INIT(mneme_error);
  mneme_tier_traits traits = MNEME_INIT(mneme_tier_traits);

 private:
  mneme_plugin table_;
  void* instance_ = nullptr;
};

template <typename T>
mneme_plugin table_of() {
  return mneme::detail::Hooks<T>::table("test", "1");
}

class SdkPlugin : public testing::Test {
 protected:
  void SetUp() override {
    FakeHost::get().clear();
    FakeHost::get().options["decay"] = 0.75;
  }
  FakeHost& host() { return FakeHost::get(); }
};

const mneme_plugin* negotiated() {
  const mneme_host_offer offer = FakeHost::get().offer();
  mneme_plugin_answer answer = MNEME_INIT(mneme_plugin_answer);
  EXPECT_EQ(mneme_negotiate_v1(&offer, &answer), MNEME_OK);
  return answer.plugin;
}

TEST_F(SdkPlugin, AnswersTheSameWheneverItIsAsked) {
  const mneme_plugin* table = negotiated();
  ASSERT_NE(table, nullptr);
  EXPECT_EQ(table, negotiated());
  EXPECT_STREQ(table->id, "org.example.decayed_mean");
  EXPECT_STREQ(table->version, "0.1.0");
  EXPECT_TRUE(host().log.empty());
}

TEST_F(SdkPlugin, RefusesAnotherMinorWhileTheMajorIsZero) {
  mneme_host_offer offer = host().offer();
  offer.abi_min = offer.abi_current = MNEME_ABI_MAKE(0, 2);
  mneme_plugin_answer answer = MNEME_INIT(mneme_plugin_answer);
  EXPECT_EQ(mneme_negotiate_v1(&offer, &answer), MNEME_E_VERSION);
  EXPECT_EQ(answer.plugin, nullptr);
  EXPECT_STRNE(answer.reason, "");
}

TEST_F(SdkPlugin, OffersExactlyTheHooksThatTheClassOverrides) {
  const mneme_plugin* table = negotiated();
  EXPECT_NE(table->absorb, nullptr);
  EXPECT_NE(table->read, nullptr);
  EXPECT_EQ(table->begin, nullptr);
  EXPECT_EQ(table->context, nullptr);
  EXPECT_EQ(table->ride, nullptr);
  EXPECT_EQ(table->finish, nullptr);
}

TEST_F(SdkPlugin, PublishesTheOptionSchema) {
  const mneme_plugin* table = negotiated();
  ASSERT_EQ(table->option_count, 1U);
  EXPECT_EQ(table->option_stride, sizeof(mneme_option));
  EXPECT_STREQ(table->options[0].key, "decay");
  EXPECT_EQ(table->options[0].type, static_cast<uint32_t>(MNEME_OPTION_REAL));
  EXPECT_EQ(table->options[0].flags, MNEME_OPTION_BOUNDED);
  EXPECT_EQ(table->options[0].default_number, 0.9);
  EXPECT_EQ(table->options[0].max, 1.0);
}

TEST_F(SdkPlugin, ResolvesTheOpsThatItUsesInOneCallAndDeclaresItsState) {
  Driver driver(*negotiated());
  ASSERT_EQ(driver.create(), MNEME_OK) << driver.error.message;
  EXPECT_THAT(host().resolved,
              testing::IsSupersetOf({"add/1", "mul/1", "mean/1", "sigmoid/1", "unsqueeze/1"}));
  EXPECT_THAT(host().resolved, testing::Not(testing::Contains("matmul/1")))
      << "an op that no code of this program uses";
  EXPECT_THAT(host().log,
              ElementsAre("resolve " + std::to_string(host().resolved.size()),
                          "parameter gate [4] scope=0 init=0 a=0 b=0 lr=1",
                          "slot mean [-1,4] dtype=1 gradient=0 start=0 value=0 parameter=0"));
  EXPECT_EQ(driver.traits.absorb, static_cast<uint32_t>(MNEME_ABSORB_AFTER_SEGMENT));
  EXPECT_EQ(driver.traits.sites, MNEME_SITE_OUT);
}

TEST_F(SdkPlugin, CarriesTheHostsListOfMissingOpsUnchanged) {
  host().missing_op = "sigmoid/1";
  Driver driver(*negotiated());
  EXPECT_EQ(driver.create(), MNEME_E_UNSUPPORTED);
  EXPECT_STREQ(driver.error.message, "missing: sigmoid/1");
}

TEST_F(SdkPlugin, WritesTheOnePageMemoryAsItReads) {
  Driver driver(*negotiated());
  driver.create_or_fail();
  ASSERT_EQ(driver.absorb(), MNEME_OK) << driver.error.message;
  EXPECT_EQ(host().live_references(), 0) << "every temporary was given back";
  // 1 and 2 are rows and x. The compiler chooses which operand of + comes first.
  EXPECT_THAT(host().log,
              testing::IsSupersetOf({testing::MatchesRegex("slot_get 1 -> [0-9]+"),
                                     testing::MatchesRegex("mul/1\\(0,[0-9]+\\) scalar=0.75.*"),
                                     testing::MatchesRegex("mean/1\\(1\\) dims=.1. keepdim=0.*"),
                                     testing::MatchesRegex("mul/1\\(0,[0-9]+\\) scalar=0.25.*"),
                                     testing::MatchesRegex("add/1\\([0-9]+,[0-9]+\\) -> [0-9]+")}));
  EXPECT_THAT(host().log.back(), testing::MatchesRegex("slot_set 1 [0-9]+"));
}

TEST_F(SdkPlugin, HandsOneReferenceOfAResultToTheHost) {
  Driver driver(*negotiated());
  driver.create_or_fail();
  mneme_read out = MNEME_INIT(mneme_read);
  ASSERT_EQ(driver.read(out), MNEME_OK) << driver.error.message;
  EXPECT_EQ(out.merge, static_cast<uint32_t>(MNEME_MERGE_ADD));
  EXPECT_EQ(host().live_references(), 1);
  EXPECT_EQ(host().tensors.at(out.out).references, 1);
  EXPECT_EQ(out.gate, 0U);
  EXPECT_THAT(host().log, testing::Not(testing::Contains("bad release")));
}

TEST_F(SdkPlugin, CarriesAnOpsErrorUnchanged) {
  Driver driver(*negotiated());
  driver.create_or_fail();
  host().failing_op = "mean/1";
  EXPECT_EQ(driver.absorb(), MNEME_E_SHAPE);
  EXPECT_STREQ(driver.error.message, "mean/1: shapes do not fit");
  EXPECT_STREQ(driver.error.file, "fake.cpp");
  EXPECT_EQ(driver.error.line, 42);
  EXPECT_EQ(driver.error.native_code, 7);
  EXPECT_EQ(host().live_references(), 0);
}

// ---- a tier that does what the test tells it ----

std::function<void(mneme::Layer&, const mneme::Rows&)> on_absorb;
std::function<void(mneme::Setup&)> on_create;

class Scripted : public mneme::Tier {
 public:
  explicit Scripted(mneme::Setup& s) {
    if (on_create) on_create(s);
  }
  void absorb(mneme::Layer& l, const mneme::Rows& rows) override { on_absorb(l, rows); }
};

class SdkFailure : public SdkPlugin {
 protected:
  void SetUp() override {
    SdkPlugin::SetUp();
    on_create = nullptr;
    on_absorb = nullptr;
  }
  // The error of an absorb hook with this body.
  mneme_error error_of(std::function<void(mneme::Layer&, const mneme::Rows&)> body) {
    Driver driver(table_of<Scripted>());
    EXPECT_EQ(driver.create(), MNEME_OK) << driver.error.message;
    on_absorb = std::move(body);
    EXPECT_NE(driver.absorb(), MNEME_OK);
    return driver.error;
  }
};

TEST_F(SdkFailure, NamesFileAndLineOfFail) {
  const int line = __LINE__ + 2;
  const mneme_error error = error_of([](mneme::Layer&, const mneme::Rows&) {
    mneme::fail(MNEME_E_NUMERIC, "the decay exploded");
  });
  EXPECT_EQ(error.code, MNEME_E_NUMERIC);
  EXPECT_STREQ(error.message, "the decay exploded");
  EXPECT_STREQ(error.file, "plugin_test.cpp");
  EXPECT_EQ(error.line, line);
}

TEST_F(SdkFailure, CatchesWhateverAHookThrows) {
  EXPECT_THAT(error_of([](auto&, auto&) { throw std::runtime_error("plain"); }).message,
              HasSubstr("plain"));
  EXPECT_EQ(error_of([](auto&, auto&) { throw std::runtime_error("plain"); }).code,
            MNEME_E_INTERNAL);
  EXPECT_EQ(error_of([](auto&, auto&) { throw std::bad_alloc(); }).code, MNEME_E_OUT_OF_MEMORY);
  EXPECT_THAT(error_of([](auto&, auto&) { throw 3; }).message, HasSubstr("no std::exception"));
}

TEST_F(SdkFailure, CutsALongMessageAndEndsIt) {
  const mneme_error error =
      error_of([](auto&, auto&) { mneme::fail(MNEME_E_SHAPE, std::string(5000, 'x')); });
  EXPECT_EQ(std::strlen(error.message), sizeof(error.message) - 1);
}

TEST_F(SdkFailure, NamesWhatWasDeclaredWhenANameIsUnknown) {
  on_create = [](mneme::Setup& s) {
    s.slot("mean", {mneme::kLanes, 4});
    s.slot("count", {mneme::kLanes});
  };
  const mneme_error error = error_of([](mneme::Layer& l, auto&) { l.slot("maen"); });
  EXPECT_EQ(error.code, MNEME_E_INVALID_ARGUMENT);
  EXPECT_THAT(error.message, HasSubstr("no slot \"maen\""));
  EXPECT_THAT(error.message, HasSubstr("declared: mean, count"));
}

TEST_F(SdkFailure, NamesTheGroupThatTheHostLacks) {
  host().missing_group = MNEME_GROUP_RANDOM;
  const mneme_error error = error_of([](mneme::Layer& l, auto&) { l.uniform("u", {2, 3}); });
  EXPECT_EQ(error.code, MNEME_E_UNSUPPORTED);
  EXPECT_THAT(error.message, HasSubstr("mneme.random/1"));
}

TEST_F(SdkFailure, SaysThatTensorsBelongIntoHooks) {
  const mneme::Tensor tensor = mneme::Tensor::borrow(1);
  try {
    tensor.shape();
    FAIL() << "expected a Failure";
  } catch (const mneme::Failure& failure) {
    EXPECT_EQ(failure.code(), MNEME_E_STATE);
    EXPECT_THAT(failure.what(), HasSubstr("only inside a hook"));
  }
}

TEST_F(SdkFailure, RefusesARandomStartOfASlotAndADimensionOutOfRange) {
  Driver driver(table_of<Scripted>());
  on_create = [](mneme::Setup& s) { s.slot("noise", {mneme::kLanes}, mneme::normal(0.0, 1.0)); };
  EXPECT_EQ(driver.create(), MNEME_E_INVALID_ARGUMENT);
  EXPECT_THAT(driver.error.message, HasSubstr("random starts belong into a parameter"));
  EXPECT_THROW(mneme::Shape({1, 2})[2], mneme::Failure);
  EXPECT_THROW(mneme::Shape(std::vector<int64_t>(9, 1)), mneme::Failure);
  EXPECT_EQ(mneme::Shape({1, 2})[-1], 2);
}

// ---- a tier with all hooks ----

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
  static constexpr const char* kSummary = "every hook";
  static constexpr auto kOptions = mneme::options(
      mneme::integer("rows", mneme::kRequired, 1, mneme::kUnlimited, "rows").at_evaluation(),
      mneme::boolean("sticky", true, "sticks"), mneme::text("name", "x", "a name"),
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
    call.has_positions = true;
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
              ElementsAre("parameter start [4] scope=1 init=2 a=0 b=0.02 lr=0.5",
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
  EXPECT_EQ(table.options[0].flags,
            MNEME_OPTION_REQUIRED | MNEME_OPTION_BOUNDED | MNEME_OPTION_AT_EVALUATION);
  EXPECT_EQ(table.options[1].default_number, 1.0);
  EXPECT_STREQ(table.options[2].default_text, "x");
  EXPECT_STREQ(table.options[3].choices, "mean|max");
  EXPECT_STREQ(table.options[4].default_text, "[1, 2, 3]");
  EXPECT_EQ(table.options[4].max, 9.0);
  EXPECT_EQ(table.options[5].type, static_cast<uint32_t>(MNEME_OPTION_REALS));
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
                  "token_bias", "attention mask=2 flags=1 offset=0 keys=4", "weight 5",
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

// ---- Tensor ----

TEST_F(SdkPlugin, CountsReferencesOfCopiesAndMoves) {
  const mneme::detail::CtxScope scope(host().ctx());
  const mneme_host_offer offer = host().offer();
  mneme::detail::look_up_groups(offer.host, offer.get_group, nullptr);
  const mneme_tensor handle = host().own({2});
  {
    mneme::Tensor a = mneme::Tensor::adopt(handle);
    const mneme::Tensor b = a;
    EXPECT_EQ(host().tensors.at(handle).references, 2);
    const mneme::Tensor c = std::move(a);
    EXPECT_FALSE(a);  // NOLINT: a moved-from tensor is empty
    EXPECT_EQ(host().tensors.at(handle).references, 2);
    mneme::Tensor d;
    d = c;
    EXPECT_EQ(host().tensors.at(handle).references, 3);
    d = mneme::Tensor();
    EXPECT_EQ(host().tensors.at(handle).references, 2);
  }
  EXPECT_EQ(host().live_references(), 0);
  const mneme_tensor lent = host().borrowed({3});
  {
    const mneme::Tensor a = mneme::Tensor::borrow(lent);
    const mneme::Tensor b = a;  // NOLINT: the copy is what is tested
  }
  EXPECT_EQ(host().tensors.count(lent), 1U);
  EXPECT_THAT(host().log, testing::Not(testing::Contains("bad release")));
}

// ---- bf16 and f16 ----

TEST(SdkHalf, RoundTripsEveryFiniteValue) {
  for (uint32_t bits = 0; bits < 0x10000U; ++bits) {
    mneme::BFloat16 b;
    b.bits = static_cast<uint16_t>(bits);
    const float as_float = b;
    if (as_float == as_float) {
      EXPECT_EQ(mneme::BFloat16(as_float).bits, b.bits);
    } else {
      EXPECT_NE(static_cast<float>(mneme::BFloat16(as_float)), as_float);
    }
    mneme::Float16 h;
    h.bits = static_cast<uint16_t>(bits);
    const float value = h;
    if (value == value) {
      EXPECT_EQ(mneme::Float16(value).bits, h.bits);
    } else {
      EXPECT_NE(static_cast<float>(mneme::Float16(value)), value);
    }
  }
}

TEST(SdkHalf, RoundsToNearestAndHalvesToEven) {
  for (uint32_t bits = 0; bits < 0x7BFFU;
       ++bits) {  // every pair of neighbours that are finite in f16
    mneme::Float16 low;
    mneme::Float16 high;
    low.bits = static_cast<uint16_t>(bits);
    high.bits = static_cast<uint16_t>(bits + 1);
    const float middle = (static_cast<float>(low) + static_cast<float>(high)) / 2;
    EXPECT_EQ(mneme::Float16(middle).bits, (bits % 2 == 0) ? low.bits : high.bits);
    EXPECT_EQ(mneme::Float16(std::nextafter(middle, 0.0F)).bits, low.bits);
    EXPECT_EQ(mneme::Float16(std::nextafter(middle, 1e9F)).bits, high.bits);
  }
  EXPECT_EQ(mneme::Float16(65519.0F).bits, 0x7BFFU);
  EXPECT_EQ(mneme::Float16(65520.0F).bits, 0x7C00U);
  EXPECT_EQ(mneme::BFloat16(1.00390625F).bits, 0x3F80U);  // half way, to even
  EXPECT_EQ(mneme::BFloat16(1.01171875F).bits, 0x3F82U);  // half way, to even
}

}  // namespace
