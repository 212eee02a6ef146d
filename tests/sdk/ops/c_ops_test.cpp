// Every function of mneme/c/ops.h against the C++ layer's function of the same op: both have to
// make the same call of the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <regex>
#include <set>
#include <sstream>

#include "host/ops/ops.hpp"
#include "mneme/c/ops.h"
#include "mneme/plugin.hpp"
#include "tests/sdk/fake_host.hpp"

namespace {

using mneme::DType;
using mneme::Tensor;
using mneme::test::FakeHost;
using mneme::test::OpRecord;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::StrEq;
namespace schemas = mneme::ops;

// What the two sides of a pair compute with.
struct CppSide {
  Tensor x, y, z;
};
struct CSide {
  const mneme_ops* ops;
  mneme_ctx* ctx;
  mneme_tensor x, y, z;
  mneme_tensor* out;
  mneme_tensor* more;
  mneme_error* error;
};

struct Pair {
  std::string function;  // of C, without its prefix
  std::function<void(const CppSide&)> cpp;
  std::function<mneme_status(const CSide&)> c;
};

// PAIR(expression of the C++ layer, function of C, its arguments between ctx and the outputs...)
#define PAIR(expression, name, ...)                                                   \
  Pair {                                                                              \
#name,                                                                              \
        [](const CppSide& s) {                                                          \
          [[maybe_unused]] const auto &x = s.x, &y = s.y, &z = s.z;                     \
          (expression);                                                                 \
        },                                                                              \
        [](const CSide& s) {                                                            \
          [[maybe_unused]] const mneme_tensor x = s.x, y = s.y, z = s.z;                \
          return mneme_op_##name(s.ops, s.ctx, __VA_ARGS__, s.out, s.error);            \
        } \
  }
#define PAIR_OF_TWO(expression, name, ...)                                            \
  Pair {                                                                              \
#name, [](const CppSide& s) {                                                       \
      const auto& x = s.x;                                                              \
      (expression);                                                                     \
    },                                                                                  \
        [](const CSide& s) {                                                            \
          const mneme_tensor x = s.x;                                                   \
          return mneme_op_##name(s.ops, s.ctx, __VA_ARGS__, s.out, s.more, s.error);    \
        } \
  }
#define UNARY(name) PAIR(mneme::name(x), name, x)
#define BINARY(name)                                                                     \
  PAIR(mneme::name(x, y), name, x, y), PAIR(mneme::name(x, 2.5), name##_scalar, x, 2.5), \
      PAIR(mneme::name(2.5, y), name##_scalar_a, 2.5, y)
#define OPERATOR(symbol, name)                                             \
  PAIR(x symbol y, name, x, y), PAIR(x symbol 2.5, name##_scalar, x, 2.5), \
      PAIR(2.5 symbol y, name##_scalar_a, 2.5, y)
#define REDUCTION(name) PAIR(mneme::name(x, {0, 2}, true), name, x, kDims, 2, 1)
#define SINGLE_REDUCTION(name) PAIR(mneme::name(x, 1, true), name, x, 1, 1)

constexpr int64_t kDims[2] = {0, 2};

std::vector<Pair> elementwise() {
  return {OPERATOR(+, add),
          OPERATOR(-, sub),
          OPERATOR(*, mul),
          OPERATOR(/, div),
          UNARY(neg),
          BINARY(pow),
          BINARY(maximum),
          BINARY(minimum),
          BINARY(logaddexp),
          BINARY(fmod),
          BINARY(eq),
          BINARY(ne),
          BINARY(lt),
          BINARY(le),
          BINARY(gt),
          BINARY(ge),
          PAIR(mneme::logical_and(x, y), logical_and, x, y),
          PAIR(mneme::logical_or(x, y), logical_or, x, y),
          UNARY(logical_not),
          UNARY(isfinite),
          UNARY(abs),
          UNARY(sign),
          UNARY(exp),
          UNARY(expm1),
          UNARY(log),
          UNARY(log1p),
          UNARY(sqrt),
          UNARY(rsqrt),
          UNARY(square),
          UNARY(reciprocal),
          UNARY(sin),
          UNARY(cos),
          UNARY(erf),
          UNARY(normal_cdf),
          UNARY(floor),
          UNARY(round),
          UNARY(sigmoid),
          UNARY(tanh),
          UNARY(relu),
          UNARY(silu),
          UNARY(softplus),
          PAIR(mneme::gelu(x, "tanh"), gelu, x, "tanh"),
          PAIR(mneme::elu(x, 0.5), elu, x, 0.5),
          PAIR(mneme::where(x, y, z), where, x, y, z),
          PAIR(mneme::where(x, y, 0.5), where_scalar, x, y, 0.5),
          PAIR(mneme::where(x, 0.5, z), where_scalar_a, x, 0.5, z),
          PAIR(mneme::masked_fill(x, y, -1.5), masked_fill, x, y, -1.5),
          PAIR(mneme::clamp(x, -0.5, 0.5), clamp, x, -0.5, 0.5),
          PAIR(mneme::cast(x, DType::kF64), cast, x, MNEME_F64),
          UNARY(detach),
          UNARY(contiguous)};
}

std::vector<Pair> reductions() {
  return {REDUCTION(sum),
          REDUCTION(mean),
          REDUCTION(amax),
          REDUCTION(amin),
          REDUCTION(norm2),
          REDUCTION(any),
          REDUCTION(all),
          REDUCTION(logsumexp),
          SINGLE_REDUCTION(prod),
          SINGLE_REDUCTION(argmax),
          SINGLE_REDUCTION(argmin),
          PAIR(mneme::var(x, {0, 2}, true, 0), var, x, kDims, 2, 1, 0),
          PAIR(mneme::softmax(x, 1), softmax, x, 1),
          PAIR(mneme::log_softmax(x, 1), log_softmax, x, 1),
          PAIR(mneme::cumsum(x, 1), cumsum, x, 1),
          PAIR_OF_TWO(mneme::sort(x, 1, true), sort, x, 1, 1),
          PAIR_OF_TWO(mneme::topk(x, 3, 1, false, false), topk, x, 3, 1, 0, 0),
          PAIR(mneme::searchsorted(x, y, true), searchsorted, x, y, 1)};
}

std::vector<Pair> shapes() {
  return {PAIR(mneme::reshape(x, {0, 2}), reshape, x, kDims, 2),
          PAIR(mneme::permute(x, {0, 2}), permute, x, kDims, 2),
          PAIR(mneme::transpose(x, 0, 1), transpose, x, 0, 1),
          PAIR(mneme::unsqueeze(x, 1), unsqueeze, x, 1),
          PAIR(mneme::squeeze(x, 1), squeeze, x, 1),
          PAIR(mneme::expand(x, {0, 2}), expand, x, kDims, 2),
          PAIR(mneme::flatten(x, 1, 2), flatten, x, 1, 2),
          PAIR(mneme::slice(x, 1, 2, 7, 3), slice, x, 1, 2, 7, 3),
          PAIR(mneme::flip(x, {0, 2}), flip, x, kDims, 2),
          PAIR(mneme::roll(x, {0, 2}, {1}), roll, x, kDims, 2, std::array<int64_t, 1>{1}.data(), 1),
          PAIR(mneme::tril(x, 1), tril, x, 1),
          PAIR(mneme::triu(x, 1), triu, x, 1),
          PAIR(mneme::cat({x, y}, 1), cat, std::array{x, y}.data(), 2, 1),
          PAIR(mneme::stack({x, y, z}, 1), stack, std::array{x, y, z}.data(), 3, 1),
          PAIR(mneme::repeat(x, {0, 2}), repeat, x, kDims, 2),
          PAIR(mneme::repeat_interleave(x, 2, 1), repeat_interleave, x, 2, 1),
          PAIR(mneme::pad(x, {0, 2}, 0.5), pad, x, kDims, 2, 0.5),
          PAIR(mneme::gather(x, y, 1), gather, x, y, 1),
          PAIR(mneme::take_along_dim(x, y, 1), take_along_dim, x, y, 1),
          PAIR(mneme::index_select(x, y, 1), index_select, x, y, 1),
          PAIR(mneme::scatter_add(x, y, z, 1), scatter_add, x, y, z, 1),
          PAIR(mneme::one_hot(x, 5, DType::kF32), one_hot, x, 5, MNEME_F32),
          PAIR(mneme::full({0, 2}, 0.5, DType::kF64), full, kDims, 2, 0.5, MNEME_F64),
          PAIR(mneme::arange(1.0, 5.0, 2.0, DType::kI64), arange, 1.0, 5.0, 2.0, MNEME_I64),
          PAIR(mneme::linspace(0.0, 1.0, 5, DType::kF64), linspace, 0.0, 1.0, 5, MNEME_F64),
          PAIR(mneme::eye(3, DType::kBool), eye, 3, MNEME_BOOL),
          UNARY(zeros_like),
          PAIR(mneme::full_like(x, 0.5), full_like, x, 0.5)};
}

std::vector<Pair> network() {
  return {PAIR(mneme::matmul(x, y), matmul, x, y),
          PAIR(mneme::linear(x, y, z), linear, x, y, z),
          PAIR(mneme::einsum("ij,jk->ik", {x, y}), einsum, std::array{x, y}.data(), 2, "ij,jk->ik"),
          PAIR(mneme::layer_norm(x, y, z, 0.5), layer_norm, x, y, z, 0.5),
          PAIR(mneme::rotate(x, y, 0.5), rotate, x, y, 0.5),
          PAIR(mneme::conv1d(x, y, z, {2, 3, 4, 5}), conv1d, x, y, z, 2, 3, 4, 5),
          PAIR(mneme::max_pool1d(x, 3, 2, 1, 4), max_pool1d, x, 3, 2, 1, 4),
          PAIR(mneme::avg_pool1d(x, 3, 2, 1), avg_pool1d, x, 3, 2, 1)};
}

std::vector<Pair> all_pairs() {
  std::vector<Pair> all;
  for (const auto& part : {elementwise(), reductions(), shapes(), network()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

// Whether a value is the one that the schema gives to an absent attribute.
bool is_default(const schemas::AttrSchema& attr, const std::string& value) {
  if (attr.is_required || attr.default_text.empty()) return false;
  if (attr.type != schemas::AttrType::kInteger && attr.type != schemas::AttrType::kReal) {
    return value == attr.default_text;
  }
  if (attr.default_text == "MNEME_F32") return value == std::to_string(MNEME_F32);
  if (attr.default_text == "MNEME_I64") return value == std::to_string(MNEME_I64);
  char* end = nullptr;
  const double number = std::strtod(attr.default_text.c_str(), &end);
  return *end == '\0' && number == std::strtod(value.c_str(), nullptr);
}

const schemas::OpSchema& schema_of(const OpRecord& call) {
  return schemas::op_schemas().at(schemas::find_op(call.name) - 1);
}

// The attributes that differ from their defaults, so that it does not matter who gave them.
std::map<std::string, std::string> meaning_of(const OpRecord& call) {
  std::map<std::string, std::string> meaning = call.values;
  for (const schemas::AttrSchema& attr : schema_of(call).attrs) {
    const auto found = meaning.find(attr.name);
    if (found != meaning.end() && is_default(attr, found->second)) meaning.erase(found);
  }
  return meaning;
}

std::set<std::string> functions_of_the_header() {
  std::ifstream file(std::string(MNEME_SOURCE_DIR) + "/sdk/include/mneme/c/ops.h");
  std::stringstream text;
  text << file.rdbuf();
  const std::string header = text.str();
  const std::regex function("static inline mneme_status mneme_op_(\\w+)\\(");
  std::set<std::string> names;
  for (std::sregex_iterator at(header.begin(), header.end(), function), end; at != end; ++at) {
    names.insert((*at)[1]);
  }
  return names;
}

class COps : public testing::Test {
 protected:
  void SetUp() override {
    host_.clear();
    const mneme_host_offer offer = host_.offer();
    mneme::detail::look_up_groups(offer.host, offer.get_group, MNEME_PLUGIN_CPP_FEATURES);
    api_ = static_cast<const mneme_op_api*>(offer.get_group(offer.host, MNEME_GROUP_OP));
  }
  mneme_status resolve(const std::vector<mneme_op_id>& used) {
    return mneme_ops_resolve(&ops_, api_, host_.setup(), used.data(),
                             static_cast<uint32_t>(used.size()), &error_);
  }
  void resolve_all() {
    std::vector<mneme_op_id> all;
    for (int id = 0; id < MNEME_OP_COUNT; ++id) all.push_back(static_cast<mneme_op_id>(id));
    ASSERT_EQ(resolve(all), MNEME_OK) << error_.message;
  }
  // The attributes of the last call.
  [[nodiscard]] std::vector<std::string> attributes() const {
    std::vector<std::string> names;
    for (const auto& [name, type] : host_.ops.back().attrs) names.push_back(name);
    return names;
  }

  FakeHost& host_ = FakeHost::get();
  const mneme_op_api* api_ = nullptr;
  mneme_ops ops_ = {};
  mneme_error error_ = MNEME_INIT(mneme_error);
};

TEST_F(COps, CallOpsAsTheCppLayerDoes) {
  const std::vector<Pair> pairs = all_pairs();
  const std::array handles = {host_.borrowed({2, 3}), host_.borrowed({2, 3}),
                              host_.borrowed({2, 3})};
  mneme::detail::resolve_ops(host_.setup());
  {
    const mneme::detail::CtxScope scope(host_.ctx());
    const CppSide side{Tensor::borrow(handles[0]), Tensor::borrow(handles[1]),
                       Tensor::borrow(handles[2])};
    for (const Pair& pair : pairs) pair.cpp(side);
  }
  const std::vector<OpRecord> expected = host_.ops;
  ASSERT_EQ(expected.size(), pairs.size());

  resolve_all();
  host_.ops.clear();
  std::set<std::string> called;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    SCOPED_TRACE(pairs[i].function);
    mneme_tensor out = 0, more = 0;
    ASSERT_EQ(
        pairs[i].c({&ops_, host_.ctx(), handles[0], handles[1], handles[2], &out, &more, &error_}),
        MNEME_OK)
        << error_.message;
    const OpRecord& call = host_.ops.back();
    EXPECT_EQ(call.name, expected[i].name);
    EXPECT_EQ(call.handles, expected[i].handles);
    EXPECT_EQ(meaning_of(call), meaning_of(expected[i]));
    for (const auto& [name, type] : call.attrs) {
      const auto& attrs = schema_of(call).attrs;
      const auto found = std::find_if(attrs.begin(), attrs.end(),
                                      [&wanted = name](const auto& a) { return a.name == wanted; });
      ASSERT_NE(found, attrs.end()) << name;
      EXPECT_EQ(static_cast<uint32_t>(found->type), type) << name;
    }
    EXPECT_EQ(call.outputs, expected[i].outputs);
    EXPECT_NE(out, 0U);
    EXPECT_EQ(more != 0, call.outputs == 2);
    called.insert(pairs[i].function);
  }
  EXPECT_EQ(called, functions_of_the_header());
}

TEST_F(COps, LeaveAbsentAttributesOut) {
  resolve_all();
  const mneme_tensor x = host_.borrowed({2, 3});
  mneme_ctx* const ctx = host_.ctx();
  mneme_tensor y = 0;
  ASSERT_EQ(mneme_op_sum(&ops_, ctx, x, nullptr, 0, 0, &y, &error_), MNEME_OK);
  EXPECT_THAT(attributes(), ElementsAre("keepdim"));
  ASSERT_EQ(mneme_op_argmax(&ops_, ctx, x, MNEME_OP_ABSENT, 0, &y, &error_), MNEME_OK);
  EXPECT_THAT(attributes(), ElementsAre("keepdim"));
  ASSERT_EQ(mneme_op_slice(&ops_, ctx, x, 1, -1, MNEME_OP_ABSENT, 1, &y, &error_), MNEME_OK);
  EXPECT_THAT(attributes(), ElementsAre("dim", "start", "step"));
  ASSERT_EQ(mneme_op_avg_pool1d(&ops_, ctx, x, 3, MNEME_OP_ABSENT, 0, &y, &error_), MNEME_OK);
  EXPECT_THAT(attributes(), ElementsAre("kernel", "padding"));
  ASSERT_EQ(mneme_op_clamp(&ops_, ctx, x, std::nan(""), 0.5, &y, &error_), MNEME_OK);
  EXPECT_THAT(attributes(), ElementsAre("max"));
  ASSERT_EQ(mneme_op_gelu(&ops_, ctx, x, nullptr, &y, &error_), MNEME_OK);
  EXPECT_THAT(attributes(), IsEmpty());
}

TEST_F(COps, NeedTheOpsAloneThatAPluginUses) {
  host_.missing_op = "matmul/1";
  ASSERT_EQ(resolve({MNEME_OP_ADD, MNEME_OP_TANH}), MNEME_OK);
  EXPECT_THAT(host_.resolved, ElementsAre("add/1", "tanh/1"));
  const mneme_tensor x = host_.borrowed({2, 3});
  mneme_tensor y = 0;
  EXPECT_EQ(mneme_op_tanh(&ops_, host_.ctx(), x, &y, &error_), MNEME_OK);
  EXPECT_EQ(host_.ops.back().name, "tanh/1");
  EXPECT_EQ(mneme_op_matmul(&ops_, host_.ctx(), x, x, &y, &error_), MNEME_E_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, StrEq("matmul/1 is not resolved: name it in mneme_ops_resolve"));

  EXPECT_EQ(resolve({MNEME_OP_ADD, MNEME_OP_MATMUL}), MNEME_E_UNSUPPORTED);
  EXPECT_THAT(error_.message, StrEq("missing: matmul/1"));
  EXPECT_EQ(mneme_op_tanh(&ops_, host_.ctx(), x, &y, &error_), MNEME_E_INVALID_ARGUMENT);
}

TEST_F(COps, RefuseIdsThatAreNone) {
  EXPECT_EQ(resolve({MNEME_OP_ADD, MNEME_OP_COUNT}), MNEME_E_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message, StrEq("mneme_ops_resolve: no such op; expected ids MNEME_OP_..."));
  EXPECT_EQ(resolve(std::vector<mneme_op_id>(MNEME_OP_COUNT + 1, MNEME_OP_ADD)),
            MNEME_E_INVALID_ARGUMENT);
  EXPECT_THAT(error_.message,
              StrEq("mneme_ops_resolve: more ops than there are; is `count` right?"));
  EXPECT_STREQ(mneme_op_name(MNEME_OP_COUNT), "");
  EXPECT_STREQ(mneme_op_name(MNEME_OP_MATMUL), "matmul/1");
}

TEST_F(COps, PassTheHostsErrorsOn) {
  resolve_all();
  host_.failing_op = "sort/1";
  const mneme_tensor x = host_.borrowed({2, 3});
  mneme_tensor values = 7, indices = 8;
  EXPECT_EQ(mneme_op_sort(&ops_, host_.ctx(), x, 1, 0, &values, &indices, &error_), MNEME_E_SHAPE);
  EXPECT_THAT(error_.message, StrEq("sort/1: shapes do not fit"));
  EXPECT_EQ(values, 7U);
  EXPECT_EQ(indices, 8U);
}

}  // namespace
