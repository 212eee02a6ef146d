// An error in a plugin reaches the host as a code and a text that names the cause.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/sdk/driver.hpp"

namespace {

using mneme::test::Driver;
using mneme::test::SdkPlugin;
using mneme::test::table_of;
using testing::AllOf;
using testing::HasSubstr;

// A tier that does what the test tells it.
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
    mneme::test::features = MNEME_PLUGIN_CPP_FEATURES " " MNEME_GROUP_KERNEL " " MNEME_GROUP_RANDOM;
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
  EXPECT_STREQ(error.file, "failure_test.cpp");
  EXPECT_EQ(error.line, line);
}

// A mistake in one line of a hook.
struct Mistake {
  int line;
  std::function<void(mneme::Layer&, const mneme::Rows&)> body;
};

TEST_F(SdkFailure, NamesTheAuthorsLineOfEveryFunctionAndOperator) {
  using mneme::Layer;
  using mneme::Rows;
  using mneme::Tensor;
  // clang-format off
  const Mistake mistakes[] = {
      {__LINE__, [](Layer&, const Rows& r) { mean(r.hidden, 1); }},
      {__LINE__, [](Layer&, const Rows& r) { mneme::cat({r.hidden, r.hidden}, 1); }},
      {__LINE__, [](Layer&, const Rows&) { mneme::full({1, 2}, 0.5); }},
      {__LINE__, [](Layer&, const Rows& r) { r.hidden + r.hidden; }},
      {__LINE__, [](Layer&, const Rows& r) { 1 - r.hidden; }},
      {__LINE__, [](Layer&, const Rows& r) { -r.hidden; }},
      {__LINE__, [](Layer& l, const Rows&) { 0.5 * l.slot("state"); }},
      {__LINE__, [](Layer& l, const Rows&) { l.slot("state") / l.slot("state"); }},
      {__LINE__, [](Layer& l, const Rows&) { l.slot("staet"); }},
      {__LINE__, [](Layer& l, const Rows&) { l.counts("state"); }},
      {__LINE__, [](Layer& l, const Rows&) { l.queue("state"); }},
      {__LINE__, [](Layer& l, const Rows&) { l.parameter("state"); }},
      {__LINE__, [](Layer& l, const Rows& r) { l.call("state", {r.hidden}); }},
      {__LINE__, [](Layer& l, const Rows&) { l.emit("state"); }},
      {__LINE__, [](Layer&, const Rows&) { Tensor::borrow(999).shape(); }},
      {__LINE__, [](Layer&, const Rows&) { Tensor::borrow(999).dim(1); }},
      {__LINE__, [](Layer&, const Rows& r) { r.hidden.dim(3); }},
      {__LINE__, [](Layer&, const Rows&) { Tensor::borrow(999).rank(); }},
      {__LINE__, [](Layer&, const Rows&) { Tensor::borrow(999).dtype(); }},
      {__LINE__, [](Layer&, const Rows&) { Rows::of_hidden(Tensor::borrow(999)); }},
      {__LINE__, [](Layer&, const Rows& r) { r.hidden.shape()[7]; }},
      {__LINE__, [](Layer&, const Rows&) { mneme::Shape{1, 2, 3, 4, 5, 6, 7, 8, 9}; }},
      {__LINE__, [](Layer&, const Rows& r) { mean(r.hidden, std::vector<int64_t>(9, 0)); }},
      {__LINE__, [](Layer&, const Rows&) { mneme::require(false, MNEME_E_SHAPE, "odd"); }},
      {__LINE__, [](Layer&, const Rows&) { mneme::visit_bytes(3, [](auto) {}); }},
      {__LINE__, [](Layer&, const Rows& r) { mneme::check_rank("x", r.hidden.shape(), 9, "[]"); }},
  };
  // clang-format on
  on_create = [](mneme::Setup& s) { s.slot("state", {mneme::kLanes, 4}); };
  host().failing_op = "*";
  for (const Mistake& mistake : mistakes) {
    const mneme_error error = error_of(mistake.body);
    EXPECT_STREQ(error.file, "failure_test.cpp") << error.message;
    EXPECT_EQ(error.line, mistake.line) << error.message;
  }
}

TEST_F(SdkFailure, NamesTheAuthorsLineInTheConstructor) {
  Driver driver(table_of<Scripted>());
  int line = 0;
  const auto expect = [&](std::function<void(mneme::Setup&)> body) {
    on_create = std::move(body);
    EXPECT_NE(driver.create(), MNEME_OK);
    EXPECT_STREQ(driver.error.file, "failure_test.cpp") << driver.error.message;
    EXPECT_EQ(driver.error.line, line) << driver.error.message;
  };
  expect([&line](mneme::Setup& s) { line = __LINE__, s.integer("absent"); });
  expect([&line](mneme::Setup& s) { line = __LINE__, s.real("absent"); });
  expect([&line](mneme::Setup& s) { line = __LINE__, s.boolean("absent"); });
  expect([&line](mneme::Setup& s) { line = __LINE__, s.slot("a", {4}, mneme::normal(0, 1)); });
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
  EXPECT_STREQ(error.message,
               "this host does not offer the function group mneme.random/1; run the plugin with a "
               "newer host");
}

// A group and what a plugin does with it.
struct GroupUse {
  const char* group;
  std::function<void(mneme::Layer&)> use;
};

std::vector<GroupUse> uses_of_groups() {
  return {{MNEME_GROUP_RANDOM,
           [](mneme::Layer& l) {
             l.normal("u", {2, 3});
           }},
          {MNEME_GROUP_PROBE, [](mneme::Layer& l) { l.wants_probe("memory.write"); }},
          {MNEME_GROUP_REPORT, [](mneme::Layer& l) { l.metric("size", mneme::Tensor()); }},
          {MNEME_GROUP_LOG,
           [](mneme::Layer&) { mneme::log_line(mneme::LogLevel::kInfo, "test", "a line"); }},
          {MNEME_GROUP_PARALLEL,
           [](mneme::Layer&) { mneme::parallel_for(3, 1, [](int64_t, int64_t) noexcept {}); }},
          {MNEME_GROUP_KERNEL, [](mneme::Layer& l) {
             l.call(mneme::KernelId{1, 1}, {});
           }}};
}

TEST_F(SdkFailure, NamesTheGroupThatTheNoteDoesNotList) {
  mneme::test::features = "mneme.tensor/1 mneme.op/1 mneme.state/1 mneme.layer/1 mneme.config/1";
  for (const GroupUse& used : uses_of_groups()) {
    host().missing_group = used.group;
    const mneme_error error = error_of([&](mneme::Layer& l, auto&) { used.use(l); });
    EXPECT_EQ(error.code, MNEME_E_UNSUPPORTED) << used.group;
    EXPECT_THAT(error.message,
                AllOf(HasSubstr(std::string("the plugin's note does not list the function group ") +
                                used.group),
                      HasSubstr("MNEME_PLUGIN_WITH_FEATURES")));
    EXPECT_STREQ(error.file, "failure_test.cpp") << used.group;
  }
}

TEST_F(SdkFailure, DoesWithoutAnOptionalGroupThatTheHostLacks) {
  for (const char* const group : {MNEME_GROUP_PROBE, MNEME_GROUP_LOG, MNEME_GROUP_PARALLEL}) {
    host().missing_group = group;
    Driver driver(table_of<Scripted>());
    EXPECT_EQ(driver.create(), MNEME_OK) << driver.error.message;
    for (const GroupUse& used : uses_of_groups()) {
      if (std::string(used.group) != group) continue;
      on_absorb = [&](mneme::Layer& l, const mneme::Rows&) { used.use(l); };
      EXPECT_EQ(driver.absorb(), MNEME_OK) << group << ": " << driver.error.message;
    }
  }
}

// Uses of inputs that were not wanted, and their messages.
struct UnwantedUse {
  std::string input;
  std::string bit;
  std::function<void(mneme::Layer&)> use;
};

TEST_F(SdkFailure, NamesTheBitOfAnInputThatWasNotWanted) {
  using mneme::Layer;
  const UnwantedUse uses[] = {
      {"local().z in absorb", "MNEME_WANT_ABSORB_Z", [](Layer& l) { mean(l.local().z, 1); }},
      {"local().lse in absorb", "MNEME_WANT_ABSORB_LSE", [](Layer& l) { l.local().lse.dtype(); }},
      {"local().q in absorb", "MNEME_WANT_ABSORB_Q", [](Layer& l) { 2.0 * l.local().q; }},
      {"local().k in absorb", "MNEME_WANT_ABSORB_K",
       [](Layer& l) {
         mneme::cat({l.local().k, l.local().k}, 1);
       }},
      {"local().v in absorb", "MNEME_WANT_ABSORB_V",
       [](Layer& l) { l.queue("cache").append(mneme::Rows::of_hidden(l.local().v)); }},
      {"local().mass in absorb", "MNEME_WANT_ABSORB_MASS",
       [](Layer& l) {
         mneme::Rows rows;
         rows.mass = l.local().mass;
         l.queue("cache").append(rows);
       }},
      {"local().context_k in absorb", "MNEME_WANT_ABSORB_CONTEXT_KV",
       [](Layer& l) { l.aux("loss", l.local().context_k); }},
      {"local().context_v in absorb", "MNEME_WANT_ABSORB_CONTEXT_KV",
       [](Layer& l) { l.slot("state") = l.local().context_v; }},
  };
  on_create = [](mneme::Setup& s) {
    s.slot("state", {mneme::kLanes, 4});
    s.queue("cache");
  };
  for (const UnwantedUse& used : uses) {
    const mneme_error error = error_of([&](Layer& l, auto&) { used.use(l); });
    EXPECT_EQ(error.code, MNEME_E_INVALID_ARGUMENT);
    EXPECT_EQ(error.message, used.input +
                                 " is empty, because the tier does not want it: say wants(" +
                                 used.bit + ") in the constructor");
    EXPECT_STREQ(error.file, "failure_test.cpp") << used.input;
  }
}

// Reads and finishes without having asked for anything.
class Unasking : public mneme::Tier {
 public:
  explicit Unasking(mneme::Setup& s) { s.reads_at(MNEME_SITE_OUT); }
  mneme::Read read(mneme::Layer& l, const mneme::Queries& q) override { return on_read(l, q); }
  void finish(mneme::Segment&, const mneme::Finish& in) override { mean(in.layers[2]); }
  static inline std::function<mneme::Read(mneme::Layer&, const mneme::Queries&)> on_read;
};

TEST_F(SdkFailure, NamesTheBitInReadAndFinishToo) {
  using mneme::Layer;
  using mneme::Queries;
  Driver driver(table_of<Unasking>());
  driver.create_or_fail();
  mneme_read out = MNEME_INIT(mneme_read);
  const auto expect = [&](const char* text, auto use) {
    Unasking::on_read = use;
    EXPECT_EQ(driver.read(out), MNEME_E_INVALID_ARGUMENT) << text;
    EXPECT_THAT(driver.error.message, HasSubstr(text));
  };
  expect("x() in read is empty, because the tier does not want it: say wants(MNEME_WANT_READ_X)",
         [](Layer& l, const Queries&) { return mneme::add(l.x()); });
  expect("z in read is empty, because the tier does not want it: say wants(MNEME_WANT_READ_Z)",
         [](Layer&, const Queries& q) { return mneme::gate(q.q, q.z); });
  expect("MNEME_WANT_READ_PROJECTED",
         [](Layer&, const Queries& q) { return mneme::replace(q.projected); });
  expect("MNEME_WANT_READ_LSE", [](Layer&, const Queries& q) { return mneme::lse(q.q, q.lse); });
  expect("MNEME_WANT_READ_K", [](Layer&, const Queries& q) {
    mneme::Read read;
    read.merge = MNEME_MERGE_ADD;
    read.out = q.k;
    return read;
  });
  EXPECT_EQ(driver.finish(false), MNEME_E_INVALID_ARGUMENT);
  EXPECT_THAT(driver.error.message,
              HasSubstr("layers in finish is empty, because the tier does not "
                        "want it: say wants(MNEME_WANT_FINISH_LAYERS)"));
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

}  // namespace
