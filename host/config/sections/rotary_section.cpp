// The fields of [model.rotary].
#include "host/base/text.hpp"
#include "host/config/sections/sections.hpp"

namespace mneme::config {
namespace {

void check_rotary(Reader& reader, const RotaryConfig& rotary) {
  const bool is_plain = rotary.scaling == RotaryScaling::kNone;
  if (is_plain && rotary.factor != 1.0) {
    reader.problem("factor", {.failed = "nothing is stretched with scaling = \"none\"",
                              .got = format_exact(rotary.factor),
                              .hint = "name a scaling, or remove the key"});
  }
  const bool has_context = !is_plain && rotary.scaling != RotaryScaling::kLinear;
  if (has_context && rotary.original_positions == 0) {
    reader.problem("original_positions",
                   {.failed = "missing",
                    .expected = str("the longest context before the scaling, which scaling = \"",
                                    to_word(rotary.scaling), "\" needs")});
  }
  if (rotary.scaling == RotaryScaling::kLlama3 && rotary.high_factor <= rotary.low_factor) {
    reader.problem("high_factor", {.expected = str("more than low_factor, ", rotary.low_factor),
                                   .got = format_exact(rotary.high_factor)});
  }
  if (rotary.scaling != RotaryScaling::kYarn) return;
  if (rotary.base <= 1.0) {
    reader.problem("base", {.expected = "more than 1 with scaling = \"yarn\"",
                            .got = format_exact(rotary.base)});
  }
  if (rotary.beta_fast <= rotary.beta_slow) {
    reader.problem("beta_fast", {.expected = str("more than beta_slow, ", rotary.beta_slow),
                                 .got = format_exact(rotary.beta_fast)});
  }
}

}  // namespace

void list_rotary(Fields& keys, RotaryConfig& rotary) {
  keys.field({"base", "pair i of a head's numbers turns by base^(-2i / head_width) a token"},
             rotary.base, kAboveZero);
  keys.field({"scaling",
              "how frequencies are lowered for contexts longer than those of the training: as the "
              "models that use it do; dynamic = not within original_positions, and longer contexts "
              "are refused"},
             rotary.scaling);
  keys.field({"factor", "how many times longer the context is"}, rotary.factor, kFromOne);
  keys.field(
      {"original_positions", "the longest context before the scaling; llama3, yarn and dynamic"},
      rotary.original_positions, kCountOrZero);
  keys.field(
      {"low_factor",
       "llama3: periods longer than original_positions / low_factor are stretched by factor"},
      rotary.low_factor, kAboveZero);
  keys.field({"high_factor", "llama3: those shorter than original_positions / high_factor stay"},
             rotary.high_factor, kAboveZero);
  keys.field({"beta_fast", "yarn: pairs with more turns in the original context stay"},
             rotary.beta_fast, kAboveZero);
  keys.field({"beta_slow", "yarn: pairs with fewer turns are stretched by factor"},
             rotary.beta_slow, kAboveZero);
  keys.field({"attention_factor", "yarn: factor of queries and keys; 0 = 0.1 ln(factor) + 1"},
             rotary.attention_factor, kFromZero);
  if (keys.lists(!rotary.truncate)) {
    keys.field({"truncate", "yarn: the pairs of beta_fast and beta_slow are rounded outwards"},
               rotary.truncate);
  }
  if (keys.lists(rotary.local_base > 0.0)) {
    keys.field(
        {"local_base",
         "base of layers with a model.window, whose frequencies are not scaled; 0 = they turn "
         "as the others"},
        rotary.local_base, kFromZero);
  }
  if (keys.is_reading()) check_rotary(keys.reader(), rotary);
  keys.finish();
}

}  // namespace mneme::config
