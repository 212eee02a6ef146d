// An experiment file as plain structs. Every field is resolved: defaults are filled in and paths
// are absolute. docs/configuration.md lists the keys.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/words.hpp"
#include "host/config/replay.hpp"
#include "host/config/task_settings.hpp"
#include "host/config/toml/toml.hpp"

namespace mneme::config {

using mneme::to_word;

class Problems;

// A set of defaults of [model]; the other keys say what a decoder is made of.
enum class Backbone { kXl, kDecoder, kGpt2 };
constexpr auto words_of(Backbone) { return std::array{"xl", "decoder", "gpt2"}; }
enum class PositionScheme { kRelative, kDisentangled, kRotary, kAlibi, kLearned, kNone };
constexpr auto words_of(PositionScheme) {
  return std::array{"relative", "disentangled", "rotary", "alibi", "learned", "none"};
}
// The schemes with Transformer-XL's terms: projected sinusoids of the distance, and two biases.
// Tokens compute the same under both schemes. Under "disentangled" the two directions share one
// table of distances and differ in their biases alone; the bias of keys to the right belongs to a
// memory [LaMemo, eq. 10].
constexpr bool is_relative(PositionScheme scheme) {
  return scheme == PositionScheme::kRelative || scheme == PositionScheme::kDisentangled;
}
// Sandwich: before each part, as kPre, and of its result before the residual sum.
enum class Norm { kPost, kPre, kSandwich };
constexpr auto words_of(Norm) { return std::array{"post", "pre", "sandwich"}; }
enum class NormKind { kLayer, kRms };
constexpr auto words_of(NormKind) { return std::array{"layer", "rms"}; }
// gelu_tanh: GELU by its tanh approximation, as GPT-2 has it. swiglu: SiLU(gate) * up. geglu:
// GELU(gate) * up by the same approximation. relu2: relu(x)^2.
enum class FeedForward { kRelu, kGelu, kGeluTanh, kSwiglu, kGeglu, kRelu2 };
constexpr auto words_of(FeedForward) {
  return std::array{"relu", "gelu", "gelu_tanh", "swiglu", "geglu", "relu2"};
}
// How rotary frequencies are stretched for longer contexts; as the models that use them do.
enum class RotaryScaling { kNone, kLinear, kLlama3, kYarn, kDynamic };
constexpr auto words_of(RotaryScaling) {
  return std::array{"none", "linear", "llama3", "yarn", "dynamic"};
}
// The places of the rows of memories: directly before the segment in their order, or all of them at
// the place before its first token.
enum class MemoryPosition { kPrevious, kFixed };
constexpr auto words_of(MemoryPosition) { return std::array{"previous", "fixed"}; }
enum class EmbeddingScale { kSqrt, kNone };
constexpr auto words_of(EmbeddingScale) { return std::array{"sqrt", "none"}; }
// What computes a layer's attention (host/backbone/attention/kernels/choice.hpp).
enum class AttentionKernel { kAuto, kOperations, kFused, kFlash, kEfficient };
constexpr auto words_of(AttentionKernel) {
  return std::array{"auto", "operations", "fused", "flash", "efficient"};
}
enum class RowKernels { kAuto, kOperations };
constexpr auto words_of(RowKernels) { return std::array{"auto", "operations"}; }
enum class Init { kOfficial, kArticle, kGpt2 };
constexpr auto words_of(Init) { return std::array{"official", "article", "gpt2"}; }
enum class Carry { kRefuse, kReset };
constexpr auto words_of(Carry) { return std::array{"refuse", "reset"}; }
// What a tier absorbs: the rows that the nearest earlier tier releases (those of the segment when
// no earlier tier releases any), or always the rows of the segment.
enum class Feed { kReleased, kSegment };
constexpr auto words_of(Feed) { return std::array{"released", "segment"}; }
enum class Vocabulary { kByte, kChar, kWord, kTokenizer };
constexpr auto words_of(Vocabulary) { return std::array{"byte", "char", "word", "tokenizer"}; }
enum class Reset { kDocument, kSegment, kNever, kMask };
constexpr auto words_of(Reset) { return std::array{"document", "segment", "never", "mask"}; }
enum class Documents { kFile, kHeading, kMark, kLine };
constexpr auto words_of(Documents) { return std::array{"file", "heading", "mark", "line"}; }
// muon: Muon for matrices of the layers and of memories, AdamW for all other parameters.
enum class Optimizer { kAdam, kAdamW, kMuon };
constexpr auto words_of(Optimizer) { return std::array{"adam", "adamw", "muon"}; }
// Which of muon's two rules updates the parameters of a group; auto = by their kind.
enum class GroupOptimizer { kAuto, kAdamW, kMuon };
constexpr auto words_of(GroupOptimizer) { return std::array{"auto", "adamw", "muon"}; }
// wsd: warm-up, stable, decay; wsd_sqrt: the same, whose decay falls by 1 - sqrt.
enum class Schedule { kCosine, kLinear, kConstant, kInverseSqrt, kWsd, kWsdSqrt };
constexpr auto words_of(Schedule) {
  return std::array{"cosine", "linear", "constant", "inverse_sqrt", "wsd", "wsd_sqrt"};
}
constexpr bool has_decay(Schedule schedule) {
  return schedule == Schedule::kWsd || schedule == Schedule::kWsdSqrt;
}
// kAuto: bf16 where it is fast, f32 elsewhere (run::chosen_precision).
enum class Precision { kF64, kF32, kBf16, kAuto };
constexpr auto words_of(Precision) { return std::array{"f64", "f32", "bf16", "auto"}; }
// What gradients are rounded to where ranks sum them: nothing (kFull) or bf16.
enum class GradientPrecision { kFull, kBf16 };
constexpr auto words_of(GradientPrecision) { return std::array{"full", "bf16"}; }
// Which parameters keep their values in training.
enum class Freeze { kNothing, kBackbone };
constexpr auto words_of(Freeze) { return std::array{"nothing", "backbone"}; }

// [model.adaptive]: adaptive embedding and softmax.
struct AdaptiveConfig {
  // Increasing, each at least 1; the vocabulary's end is implied.
  std::vector<std::int64_t> cutoffs;
  std::int64_t div = 1;              // cluster i has width embedding / div^i
  std::int64_t embedding = 0;        // always equal to ModelConfig::embedding
  std::vector<bool> tie_projection;  // one a cluster; default false, true, true, ...

  friend bool operator==(const AdaptiveConfig&, const AdaptiveConfig&) = default;
};

// [model.rotary]: rotary positions. Pair i of a head turns by base^(-2i/d) a token.
struct RotaryConfig {
  double base = 10000.0;
  RotaryScaling scaling = RotaryScaling::kNone;
  double factor = 1.0;                  // how many times longer the context is, at least 1
  std::int64_t original_positions = 0;  // llama3, yarn, dynamic: the context before; required there
  // llama3: periods longer than original_positions / low_factor are stretched, those shorter than
  // original_positions / high_factor stay; between them frequencies are interpolated.
  double low_factor = 1.0;
  double high_factor = 4.0;
  // yarn: pairs that turn more than beta_fast times in the original context stay, those below
  // beta_slow are stretched; truncate rounds the two pairs outwards. Queries and keys are
  // multiplied by attention_factor; 0 = by 0.1 ln(factor) + 1.
  double beta_fast = 32.0;
  double beta_slow = 1.0;
  double attention_factor = 0.0;
  bool truncate = true;
  // Base of layers with a window, whose frequencies no scaling lowers; 0 = they turn as the others.
  double local_base = 0.0;

  friend bool operator==(const RotaryConfig&, const RotaryConfig&) = default;
};

// [model]
struct ModelConfig {
  Backbone backbone = Backbone::kXl;
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t kv_heads = 0;     // of keys and values; divides heads; 0 = heads
  std::int64_t head_width = 64;  // default width / heads; heads * head_width need not equal width
  std::int64_t width = 256;      // even with relative positions
  std::int64_t ff = 1024;        // default 4 * width; gated: 8/3 * width, a multiple of 32
  std::int64_t embedding = 256;  // width of the embedding table; default width
  double dropout = 0.1;          // in [0, 1)
  double attention_dropout = 0.0;
  AttentionKernel attention_kernel = AttentionKernel::kAuto;  // a way of computing: not trained
  RowKernels row_kernels = RowKernels::kAuto;                 // the same
  PositionScheme position = PositionScheme::kRelative;
  std::int64_t positions = 0;  // learned: rows of the table; 0 = the longest segment
  // The windows of the first layers, repeated over all; in the shortest form, none = no layer has
  // one. Where it is above 0, a layer's tokens see distances 0 .. window-1.
  std::vector<std::int64_t> window = {};
  MemoryPosition memory_position = MemoryPosition::kPrevious;
  Norm norm = Norm::kPost;
  NormKind norm_kind = NormKind::kLayer;
  double norm_epsilon = 1e-5;
  bool final_norm = false;  // a norm after the last layer
  bool qk_norm = false;     // an RMS norm of every head's queries and keys, before the positions
  FeedForward feed_forward = FeedForward::kRelu;
  bool norm_unit_offset = false;  // norms multiply by 1 + weight
  // Scores are divided by its root; 0 = head_width.
  std::int64_t score_width = 0;
  // Scores and logits s become cap * tanh(s / cap); 0 = none.
  double attention_softcap = 0.0;
  double logit_softcap = 0.0;
  bool scale_by_layer = false;  // scores are divided by the layer's number too, from 1
  // Attention reads a * the layer's values + b * those of the first layer with attention; a and b are
  // learned numbers of each later layer [Zhou et al. 2024, arXiv 2410.17897].
  bool value_residual = false;
  bool qkv_bias = false;
  bool output_bias = false;  // of the attention's output projection
  bool ff_bias = true;
  bool softmax_bias = true;
  bool tie_embedding = true;
  EmbeddingScale embedding_scale = EmbeddingScale::kSqrt;
  std::int64_t clamp_distance = 0;  // 0 = off
  bool same_length = false;
  bool untie_position_bias = false;
  Init init = Init::kOfficial;
  // Low-rank updates of the attention's projections: W + lora_alpha / lora_rank B A; rank 0 = off.
  std::int64_t lora_rank = 0;
  double lora_alpha = 16.0;
  RotaryConfig rotary = {};                     // position rotary only
  std::optional<AdaptiveConfig> adaptive = {};  // absent = plain softmax

  [[nodiscard]] std::int64_t key_heads() const { return kv_heads > 0 ? kv_heads : heads; }
  // Of a layer; 0 = its tokens see all.
  [[nodiscard]] std::int64_t window_of(std::int64_t layer) const {
    return window.empty() ? 0 : window[static_cast<std::size_t>(layer) % window.size()];
  }
  // The most tokens and rows of memories, together, that attention may see: those for which a
  // scaling that depends on the context's length has no effect; 0 = any number.
  [[nodiscard]] std::int64_t longest_context() const;
  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

// The first key of [model], as `where`, that does not go with the position scheme, and why.
[[nodiscard]] std::optional<ErrorText> find_position_problem(const ModelConfig& model);

// ModelConfig::window of windows that are repeated over so many layers.
[[nodiscard]] std::vector<std::int64_t> shortest_windows(const std::vector<std::int64_t>& windows,
                                                         std::int64_t layers);

// Whether a trained model may be evaluated with another value of this key of [model]: of
// same_length and clamp_distance, which published evaluations of Transformer-XL turn on for weights
// trained without them, and of attention_kernel and row_kernels.
[[nodiscard]] bool may_differ_from_training(std::string_view key);
// Of these: whether losses stay as they are, but for rounding.
[[nodiscard]] bool is_choice_of_kernels(std::string_view key);

// One [[memory.tier]]: the host's own keys, and the plugin's options as they were written.
struct TierConfig {
  std::string plugin;
  std::optional<std::vector<std::int64_t>> layers = {};  // sorted; absent = all
  Feed feed = Feed::kReleased;
  std::string sha256 = {};                     // 64 lower-case hexadecimal digits; "" = not pinned
  std::optional<double> lr = {};               // absent = train.lr
  std::optional<double> weight_decay = {};     // absent = train.weight_decay
  std::map<std::string, double> weights = {};  // weight.<auxiliary loss>; absent losses count 1
  Value weight_table = {};  // the same keys as written, with their positions, for messages
  Value options = {};       // a table: every key that is not the host's
  Value eval_options = {};  // a table: the keys eval_<option>, without "eval_"
  Position position = {};   // of the [[memory.tier]]
  // No key: what a lock asks for (plugin::apply_lock); "" = the tier is not locked.
  std::string locked_sha256 = {};

  // The checksum that the plugin's file must have; "" = any.
  [[nodiscard]] const std::string& pin() const {
    return locked_sha256.empty() ? sha256 : locked_sha256;
  }
  // Equal settings; position and lock do not count.
  friend bool operator==(const TierConfig& a, const TierConfig& b);
};

// [memory]
struct MemoryConfig {
  // Folders, absolute, searched in order; none = those of the program that runs.
  std::vector<std::filesystem::path> plugins = {};
  Carry carry = Carry::kRefuse;
  std::vector<TierConfig> tiers = {};  // nearest memory first

  friend bool operator==(const MemoryConfig&, const MemoryConfig&) = default;
};

// Dialogues about a document [infinity-former, 4.3].
struct DialogueConfig {
  bool has_document = true;     // key with_document: the document is read before the turns
  bool has_token_types = true;  // key token_types: embeddings of <doc> or the speaker are added

  friend bool operator==(const DialogueConfig&, const DialogueConfig&) = default;
};

// [data]
struct DataConfig {
  Task task = Task::kText;
  // text: a folder that `mneme data prepare` wrote, in place of files and vocabulary; "" = none.
  std::filesystem::path prepared = {};
  // Required by text (unless prepared), tokens and dialogue.
  std::filesystem::path train = {};
  std::filesystem::path valid = {};  // "" = none
  std::filesystem::path test = {};
  // Shares of data.train that become train, valid and test, in this order; empty = all is train.
  std::vector<double> split = {};
  Vocabulary vocabulary = Vocabulary::kByte;  // of text
  // A saved vocabulary, or the files of a tokenizer; "" = built from data.train.
  std::filesystem::path vocabulary_file = {};
  std::int64_t min_count = 1;  // word: rarer words become <unk>
  bool add_eos = true;         // word: one <eos> at each line's end
  // What begins a document of a text: the file; a heading line " = Title = " as WikiText's; a line
  // equal to document_mark, which is left out; every line.
  Documents documents = Documents::kFile;
  std::string document_mark = {};
  // word: the most words that are kept; tokens: ids are below it; 0 = what the training data holds.
  std::int64_t vocabulary_size = 0;
  Reset reset = Reset::kDocument;
  MotifConfig motif = {};         // keys alphabet, period_min, period_max
  SequenceConfig sequences = {};  // keys length, alphabet, <split>_sequences
  RecallConfig recall = {};       // keys of the recall tasks
  TrackingConfig tracking = {};   // keys automaton, states
  DialogueConfig dialogue = {};   // keys with_document, token_types
  std::uint64_t seed = 1;         // of generated tasks

  // Whether tokens attend to those of their own document alone, while nothing is emptied. Sequences
  // of other tasks begin with an empty memory.
  [[nodiscard]] bool masks_documents() const {
    return reset == Reset::kMask && (task == Task::kText || task == Task::kTokens);
  }

  friend bool operator==(const DataConfig&, const DataConfig&) = default;
};

// A key of [data] whose value does not fit to the others.
struct SizeProblem {
  std::string_view key;
  std::string expected;
  std::string got;
};
// The first size of a task with an answer that cannot be: a length or an alphabet below 2 (of tasks
// that have them), a split without sequences, an answer longer than its prompt, more questions than
// places.
[[nodiscard]] std::optional<SizeProblem> find_size_problem(const DataConfig& data);
// The first and the last place of the prompt where task needle may put the needle's first token.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> needle_places(const DataConfig& data);
// Task in_context_recall: how often a sequence has all pairs, with at least the share of noise.
[[nodiscard]] std::int64_t recall_rounds(const DataConfig& data);

// [[train.group]]: parameters with settings of their own. The first group that names a parameter
// counts.
struct ParameterGroup {
  // Names with "*" for any characters: "model.*.norm.*", "memory.0.*".
  std::vector<std::string> parameters;
  std::optional<double> lr = {};                     // absent = train.lr, or the tier's own
  std::optional<double> weight_decay = {};           // absent = the default rule
  GroupOptimizer optimizer = GroupOptimizer::kAuto;  // with train.optimizer = muon

  friend bool operator==(const ParameterGroup&, const ParameterGroup&) = default;
};

// [[train.accumulate_from]]: the number of backward passes a step from this step on, each of
// bptt_segments segments; the update period of the Compressive Transformer.
struct AccumulateFrom {
  std::int64_t step = 0;      // steps done before it holds, increasing from group to group
  std::int64_t segments = 1;  // backward passes, in place of train.accumulate

  friend bool operator==(const AccumulateFrom&, const AccumulateFrom&) = default;
};

// [train]
struct TrainConfig {
  std::int64_t segment = 128;  // tokens
  std::int64_t lanes = 16;
  std::int64_t steps = 0;  // exactly one of steps and epochs is given; the other is 0
  std::int64_t epochs = 0;
  Optimizer optimizer = Optimizer::kAdam;
  double lr = 2.5e-4;
  double lr_min = 0.0;  // where schedules that fall end; at most lr
  Schedule schedule = Schedule::kCosine;
  double decay_share = 0.2;  // wsd, wsd_sqrt: of the steps, the last ones, whose rate falls
  std::int64_t warmup = 0;   // steps of linear growth from 0; inverse_sqrt: at least 1
  double clip = 0.25;        // global gradient norm; 0 = off
  double beta1 = 0.9;        // key betas = [beta1, beta2]
  double beta2 = 0.999;
  double eps = 1e-8;
  double momentum = 0.95;  // of Muon
  Precision precision = Precision::kF32;
  std::int64_t bptt_segments = 1;  // segments that `through` slots keep their graph
  std::uint64_t seed = 1;
  bool recompute = false;       // feed-forward parts' inner rows: made again, not kept
  std::int64_t accumulate = 1;  // backward passes a step, of bptt_segments segments each
  std::vector<AccumulateFrom> accumulate_from = {};
  // adam: added to the gradient; adamw: decoupled. Biases, norms and other vectors have none,
  // unless a group names them.
  double weight_decay = 0.0;
  std::vector<ParameterGroup> groups = {};  // [[train.group]]
  // backbone: only the memory's parameters and the backbone's low-rank updates are trained.
  Freeze freeze = Freeze::kNothing;
  // Factor of the mean of (log of the softmax's denominator)^2 in the loss that is trained; 0 = off.
  double z_loss = 0.0;
  // Decay of the moving averages of weights that are evaluated and saved; 0 = there are none.
  double average = 0.0;
  // Where several ranks train: megabytes of gradients that are summed at once, their precision on
  // the way, and whether each rank keeps and updates a part of the optimiser's moments alone.
  std::int64_t bucket_mb = 25;
  GradientPrecision gradients = GradientPrecision::kFull;
  bool shard_optimizer = false;
  Replay replay = Replay::kAuto;     // auto = off, until it has been measured on a GPU
  std::int64_t replay_check = 1000;  // windows between comparisons with the hooks; 0 = never
  std::int64_t early_stop = 0;  // evaluations without a lower loss that end the training; 0 = off
  std::int64_t keep_checkpoints = 2;  // newest ones kept, beside the best; at least 1
  bool tensorboard = true;            // event files in the run's folder
  std::int64_t log_every = 100;       // steps; 0 = never
  std::int64_t eval_every = 0;        // steps; 0 = at the end only
  std::int64_t save_every = 0;        // steps; 0 = at the end only

  // Steps of the decay of a run of so many; 0 = the schedule has none.
  [[nodiscard]] std::int64_t decay_steps(std::int64_t total) const;
  friend bool operator==(const TrainConfig&, const TrainConfig&) = default;
};

// [eval]
struct EvalConfig {
  std::int64_t segment = 128;             // default train.segment
  std::int64_t lanes = 16;                // default train.lanes
  Precision precision = Precision::kF32;  // default train.precision
  std::int64_t steps = 0;  // segments a split; 0 = all; motif, which has no end: default 50

  friend bool operator==(const EvalConfig&, const EvalConfig&) = default;
};

// [generate]
struct GenerateConfig {
  std::int64_t segment = 128;     // default eval.segment
  Replay replay = Replay::kAuto;  // auto = off

  friend bool operator==(const GenerateConfig&, const GenerateConfig&) = default;
};

struct Experiment {
  ModelConfig model = {};
  MemoryConfig memory = {};
  DataConfig data = {};
  TrainConfig train = {};
  EvalConfig eval = {};
  GenerateConfig generate = {};

  friend bool operator==(const Experiment&, const Experiment&) = default;
};

// Reads an experiment file. The [memory] of `memory_file`, when given, replaces its own; then the
// overrides apply in order. Throws one Error (kUsage) with a line "file:line:column: key: expected
// ..., got ..." per problem; Error (kRun) when a file cannot be read. Plugin options are only
// checked by options.hpp, when the plugin's schema is known.
[[nodiscard]] Experiment parse_experiment(
    const std::filesystem::path& path, const std::vector<Override>& overrides = {},
    const std::optional<std::filesystem::path>& memory_file = std::nullopt);

// The same, but problems with keys are added to `problems`, and the keys get their defaults.
[[nodiscard]] Experiment parse_experiment(const std::filesystem::path& path,
                                          const std::vector<Override>& overrides,
                                          const std::optional<std::filesystem::path>& memory_file,
                                          Problems& problems);

// The same from a text; `source` is its name in messages, `folder` is the base of relative paths.
[[nodiscard]] Experiment parse_experiment_text(std::string_view text, const std::string& source,
                                               const std::filesystem::path& folder = ".",
                                               const std::vector<Override>& overrides = {});

// Reads a file that holds only [memory]. Overrides of other keys than memory.* are refused.
[[nodiscard]] MemoryConfig parse_memory_file(const std::filesystem::path& path,
                                             const std::vector<Override>& overrides = {});

// The experiment with another memory; checks what depends on both (layers, same_length).
[[nodiscard]] Experiment with_memory(const Experiment& experiment, const MemoryConfig& memory);

// The whole experiment as TOML, every key written; parses to an equal Experiment.
[[nodiscard]] std::string to_toml(const Experiment& experiment);
// A memory as a file of its own.
[[nodiscard]] std::string to_toml(const MemoryConfig& memory);

}  // namespace mneme::config
