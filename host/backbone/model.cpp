#include "host/backbone/model.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "host/backbone/attention/attention.hpp"
#include "host/backbone/decoder.hpp"
#include "host/backbone/parameters.hpp"
#include "host/base/error.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"

namespace mneme::backbone {
namespace {

using config::PositionScheme;

void refuse(const std::string& key, const std::string& failed, const std::string& expected,
            const std::string& hint) {
  throw_usage(ErrorText{.where = key, .failed = failed, .expected = expected, .hint = hint});
}

void check_positions(const config::ModelConfig& c) {
  const bool is_relative = config::is_relative(c.position);
  const std::string position = str("model.position = \"", config::to_word(c.position), "\"");
  if (is_relative && c.width % 2 != 0) {
    refuse("model.width", str("relative positions pair sines and cosines; width is ", c.width),
           "an even width", "use an even width or another position scheme");
  }
  if (c.clamp_distance > 0 && !is_relative && c.position != PositionScheme::kAlibi) {
    refuse("model.clamp_distance", str("there are no distances to clamp with ", position),
           "position = \"relative\", \"disentangled\" or \"alibi\"", "set clamp_distance = 0");
  }
  if (c.memory_position == config::MemoryPosition::kFixed &&
      c.position != PositionScheme::kRotary) {
    refuse("model.memory_position = \"fixed\"", str("rows have no turn to fix with ", position),
           "position = \"rotary\"", "set memory_position = \"previous\"");
  }
  if (c.untie_position_bias && !is_relative) {
    refuse("model.untie_position_bias", str("there are no position biases with ", position),
           "position = \"relative\"", "set untie_position_bias = false");
  }
}

void check(const config::ModelConfig& c, const ModelSetup& setup) {
  check_positions(c);
  if (setup.vocabulary < 1) {
    refuse("data", str("the vocabulary has ", setup.vocabulary, " ids"), "at least one id",
           "check the training data");
  }
  if (setup.bf16_autocast && setup.dtype != at::kFloat) {
    refuse("train.precision", "bf16 needs parameters in f32", "parameters in f32",
           "choose one of f64, f32 and bf16");
  }
  if (setup.dtype != at::kFloat && setup.dtype != at::kDouble) {
    refuse("train.precision", str("parameters in ", tensor::dtype_text(setup.dtype)),
           "parameters in f32 or f64", "choose one of f64, f32 and bf16");
  }
  if (c.position == PositionScheme::kLearned && c.positions < 1 && setup.train_segment < 1 &&
      setup.eval_segment < 1) {
    refuse("model.position = \"learned\"", "the longest segment is not known",
           "train.segment or eval.segment of at least 1", "set train.segment");
  }
  const auto check_length = [&](const char* key, int64_t segment) {
    if (c.position != PositionScheme::kLearned || c.positions < 1 || segment <= c.positions) return;
    refuse(str(key, " = ", segment), "the segment is longer than the table of learned positions",
           str("at most model.positions, ", c.positions), "shorten the segments");
  };
  // What the rows of memories add is known when the first segment is computed.
  check_context(c, setup.train_segment, 0, str("train.segment = ", setup.train_segment));
  check_context(c, setup.eval_segment, 0, str("eval.segment = ", setup.eval_segment));
  check_length("train.segment", setup.train_segment);
  check_length("eval.segment", setup.eval_segment);
}

}  // namespace

bool is_low_rank_update(std::string_view parameter) {
  return parameter.find(".update.") != parameter.npos;
}

memory::BackboneInfo backbone_info(const config::ModelConfig& config, const ModelSetup& setup) {
  memory::BackboneInfo info;
  info.layers = config.layers;
  info.width = config.width;
  info.heads = config.heads;
  info.kv_heads = config.key_heads();
  info.head_width = config.head_width;
  info.is_pre_norm = config.norm == config::Norm::kPre;
  info.position = std::string(config::to_word(config.position));
  info.attention_dropout = config.attention_dropout;
  info.compute_dtype = setup.bf16_autocast ? at::kBFloat16 : setup.dtype;
  info.device = setup.device;
  info.train_segment = setup.train_segment;
  info.eval_segment = setup.eval_segment;
  info.bptt_segments = setup.bptt_segments;
  info.seed = setup.seed;
  info.draws_parameters = setup.draws_parameters;
  return info;
}

std::unique_ptr<Model> make_model(const config::ModelConfig& config, const ModelSetup& setup) {
  check(config, setup);
  return std::make_unique<Decoder>(config, setup);
}

}  // namespace mneme::backbone
