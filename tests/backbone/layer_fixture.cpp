#include "tests/backbone/layer_fixture.hpp"

#include "host/tensor/torch.hpp"

namespace mneme::backbone {

LayerCase::LayerCase(config::PositionScheme position, int64_t lanes, int64_t tokens, int64_t clamp,
                     bool is_pre_norm) {
  settings.layers = 1;
  settings.width = 8;
  settings.heads = settings.kv_heads = 2;
  settings.head_width = 4;
  settings.ff = 8;
  settings.position = position;
  settings.clamp_distance = clamp;
  settings.norm = is_pre_norm ? config::Norm::kPre : config::Norm::kPost;
  settings.dropout = 0.0;
  settings.compute = at::kDouble;
  if (position == config::PositionScheme::kAlibi) settings.slopes = alibi_slopes(settings.heads);
  if (position == config::PositionScheme::kRotary) {
    rotary = std::make_unique<RotaryTables>(config::RotaryConfig{.base = kRotaryBase},
                                            settings.head_width, at::kCPU);
  }
  noise = std::make_unique<Noise>(4);
  tables = std::make_unique<PositionTables>(settings.width, clamp,
                                            at::TensorOptions().dtype(at::kDouble), noise.get());
  memory::BackboneInfo info;
  info.layers = 1;
  info.width = settings.width;
  info.heads = settings.heads;
  info.head_width = settings.head_width;
  info.compute_dtype = at::kDouble;
  info.train_segment = info.eval_segment = tokens;
  stack = std::make_unique<memory::Stack>(config::MemoryConfig{}, info, loader);
  state = stack->new_state(memory::Phase::kTraining, lanes);
  memory::SegmentInput input;
  input.length = tokens;
  hooks = std::make_unique<memory::SegmentHooks>(*stack, state, input);
  layer = std::make_unique<Layer>(0, settings, InitScheme{config::Init::kArticle}, at::Tensor(),
                                  at::Tensor(), store);
  scope =
      std::make_unique<SegmentScope>(SegmentScope{*hooks, *tables, rotary.get(), masks, *noise});
}

}  // namespace mneme::backbone
