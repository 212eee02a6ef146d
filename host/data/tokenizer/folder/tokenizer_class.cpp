#include "host/data/tokenizer/folder/tokenizer_class.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/json_text.hpp"

namespace mneme::data {
namespace {

constexpr const char* kConfigFile = "config.json";
constexpr const char* kSettingsFile = "tokenizer_config.json";

struct NamedClass {
  std::string_view name;  // without "Fast" at its end
  TokenizerClass type;
};
constexpr std::array<NamedClass, 9> kClasses = {{
    {"BloomTokenizer", TokenizerClass::kAsItStands},
    {"GemmaTokenizer", TokenizerClass::kGemma},
    {"GPT2Tokenizer", TokenizerClass::kGpt2},
    {"GPTNeoXTokenizer", TokenizerClass::kGptNeoX},
    {"LlamaTokenizer", TokenizerClass::kLlama},
    {"PreTrainedTokenizer", TokenizerClass::kAsItStands},
    {"PythonBackend", TokenizerClass::kAsItStands},
    {"Qwen2Tokenizer", TokenizerClass::kQwen2},
    {"TokenizersBackend", TokenizerClass::kAsItStands},
}};

// The other classes of transformers 5.24, without "Tokenizer" at their ends. Of a class that it does
// not have it takes the file as it stands.
constexpr std::string_view kOtherClasses =
    " Albert Auto Bart Barthez Bartpho Basic Bert BertGeneration BertJapanese Bertweet BigBird "
    "BioGpt Blenderbot BlenderbotSmall ByT5 CLIP CTRL Camembert Canine Character Clvp CodeGen "
    "CodeLlama Cohere ConvBert Cpm CpmAnt DPRContextEncoder DPRQuestionEncoder DPRReader "
    "Deberta DebertaV2 Dia DistilBert Electra Esm Esmc FNet FSMT FastSpeech2Conformer Flaubert "
    "Funnel GPTNeoXJapanese GPTSw3 Herbert LED Lasr LayoutLM LayoutLMv2 LayoutLMv3 LayoutXLM "
    "Longformer Luke Lxmert M2M100 MBart MBart50 MLuke MPNet Marian MarkupLM Mecab Mgpstr "
    "MobileBert Mvp MyT5 Nllb Nougat OpenAIGPT PLBart Parakeet Pegasus Perceiver Phi3 Phobert "
    "Pop2Piano ProphetNet Qwen3_5 Rag Reformer RemBert RoCBert RoFormer Roberta SeamlessM4T "
    "Siglip Siglip2 Speech2Text SpeechT5 Splinter SqueezeBert T5 Tapas Tipsv2 Udop VideoPrism "
    "Vits Wav2Vec2CTC Wav2Vec2PhonemeCTC Whisper Wordpiece XGLM XLM XLMRoberta XLNet ";

// The kinds of models for which transformers registers each class; "" = none.
using Registered = std::map<std::string, std::vector<std::string>>;

const Registered& registered_classes() {
  static const Registered kRegistered = {
      {"", {"", "llama", "smollm3"}},
      {"GemmaTokenizer",
       {"diffusion_gemma", "gemma", "gemma2", "gemma3", "gemma3_text", "gemma3n", "gemma3n_text",
        "recurrent_gemma", "shieldgemma2", "t5gemma", "zaya"}},
      {"GPT2Tokenizer", {"codegen", "gpt2", "gpt_neo", "gptj", "opt", "phi", "starcoder2"}},
      {"GPTNeoXTokenizer", {"gpt_neox", "mamba", "mamba2", "mpt", "olmo", "olmoe", "rwkv"}},
      {"Qwen2Tokenizer", {"qwen2", "qwen2_moe", "qwen2_vl", "qwen3", "qwen3_moe", "qwen3_next"}},
      {"TokenizersBackend",
       {"gpt_bigcode", "granite", "granitemoe", "ministral", "mistral", "mixtral", "olmo2", "olmo3",
        "phi3", "stablelm"}}};
  return kRegistered;
}

// Kinds of models whose folders name a wrong class, so that the registered one is taken.
constexpr std::array<std::string_view, 7> kTakeRegistered = {
    "hyperclovax_vision_v2", "phi3", "qwen2", "qwen3_5", "qwen3_5_moe", "qwen4_exp", "siglip2"};

// [Qwen2], as transformers' class has it built in.
constexpr std::string_view kQwen2Parts = R"json({
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
    {"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": false}]},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}})json";

constexpr std::string_view kGemmaParts = R"json({
  "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
  "pre_tokenizer": {"type": "Split", "behavior": "MergedWithPrevious", "invert": false, "pattern": {"String": " "}},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]}})json";

constexpr std::string_view kGpt2Parts = R"json({
  "normalizer": null,
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true}})json";

constexpr std::string_view kLlamaParts = R"json({
  "normalizer": null,
  "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": false},
  "decoder": {"type": "Sequence", "decoders": [
    {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
    {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}})json";

std::string without_fast(std::string name) {
  if (name.ends_with("Fast")) name.resize(name.size() - 4);
  return name;
}

// A string of a file's object; "" where it is missing, null or empty.
struct NamedIn {
  std::string file;
  std::string value;
};

NamedIn member_of(const TokenizerFiles& files, const char* file, const char* key) {
  if (!files.has(file)) return {};
  const FileJson json = parse_file_json(json_of_python(files.texts.at(file)), files.place(file));
  const auto field = Field(json, files.place(file)).find(key);
  return field ? NamedIn{file, field->text()} : NamedIn{};
}

std::optional<TokenizerClass> find_class(const std::string& given) {
  constexpr std::string_view kEnd = "Tokenizer";
  std::string name = without_fast(given);
  for (const NamedClass& each : kClasses) {
    if (each.name == name) return each.type;
  }
  if (!name.ends_with(kEnd)) return std::nullopt;
  name.resize(name.size() - kEnd.size());
  if (kOtherClasses.find(str(" ", name, " ")) != kOtherClasses.npos) return std::nullopt;
  return TokenizerClass::kAsItStands;
}

TokenizerClass class_named(const TokenizerFiles& files, const NamedIn& named) {
  if (const auto found = find_class(named.value)) return *found;
  throw_usage(
      {.where = str(files.place(named.file), ": tokenizer_class"),
       .failed = "the class makes its tokenizer by rules that are not known here",
       .expected = quoted_list({"PreTrainedTokenizerFast", "GemmaTokenizer", "GPT2Tokenizer",
                                "GPTNeoXTokenizer", "LlamaTokenizer", "Qwen2Tokenizer"}),
       .got = str("\"", named.value, "\""),
       .hint = "\"PreTrainedTokenizerFast\" in its place reads tokenizer.json as it stands"});
}

}  // namespace

TokenizerClass class_of(const TokenizerFiles& files) {
  const std::string model_type = member_of(files, kConfigFile, "model_type").value;
  NamedIn named = member_of(files, kSettingsFile, "tokenizer_class");
  if (named.value.empty()) named = member_of(files, kConfigFile, "tokenizer_class");
  const bool takes_registered =
      std::ranges::find(kTakeRegistered, model_type) != kTakeRegistered.end();
  const Registered& classes = registered_classes();
  const auto registered = std::ranges::find_if(classes, [&](const auto& each) {
    return std::ranges::find(each.second, model_type) != each.second.end();
  });
  if (registered == classes.end()) {
    const bool stands = find_class(named.value) == TokenizerClass::kAsItStands;
    if (stands && !takes_registered) return TokenizerClass::kAsItStands;
    throw_usage(
        {.where = str(files.place(kConfigFile), ": model_type"),
         .failed = str("which class transformers takes for the tokenizer of such a model is "
                       "not known here"),
         .expected = str(
             "a known kind of model",
             takes_registered
                 ? ""
                 : ", or tokenizer_class = \"PreTrainedTokenizerFast\" in tokenizer_config.json"),
         .got = str("\"", model_type, "\""),
         .hint = "a copy of tokenizer.json under another name is read alone, as it stands"});
  }
  const std::string name = without_fast(named.value);
  const bool is_byte_level =
      files.has("tokenizer.json") &&
      files.texts.at("tokenizer.json").find("\"ByteLevel\"") != std::string::npos;
  if (name == "LlamaTokenizer" && !takes_registered && is_byte_level) {
    return TokenizerClass::kAsItStands;
  }
  const std::string& registered_name = registered->first;
  if (name.empty()) return find_class(registered_name).value_or(TokenizerClass::kAsItStands);
  if (registered_name.empty() || registered_name == name) return class_named(files, named);
  const TokenizerClass registered_class = *find_class(registered_name);
  if (registered_class == TokenizerClass::kAsItStands || takes_registered) return registered_class;
  return class_named(files, named);
}

void require_class_of_pieces(const TokenizerFiles& files) {
  NamedIn named = member_of(files, kSettingsFile, "tokenizer_class");
  if (named.value.empty()) named = member_of(files, kConfigFile, "tokenizer_class");
  const auto type = find_class(named.value);
  if (named.value.empty() || type == TokenizerClass::kAsItStands ||
      type == TokenizerClass::kGemma || type == TokenizerClass::kLlama) {
    return;
  }
  throw_usage(
      {.where = str(files.place(named.file), ": tokenizer_class"),
       .failed = "whether the class gives the ids of tokenizer.model is not known here",
       .expected = quoted_list({"PreTrainedTokenizerFast", "GemmaTokenizer", "LlamaTokenizer"}),
       .got = str("\"", named.value, "\""),
       .hint = "a copy of tokenizer.model under another name is read alone, as it is"});
}

ClassParts parts_of(TokenizerClass type, const FolderSettings& settings) {
  const bool adds_space = settings.flag("add_prefix_space", type == TokenizerClass::kLlama);
  const std::string_view text = type == TokenizerClass::kGemma   ? kGemmaParts
                                : type == TokenizerClass::kLlama ? kLlamaParts
                                : type == TokenizerClass::kQwen2 ? kQwen2Parts
                                                                 : kGpt2Parts;
  FileJson json = FileJson::parse(text);
  ClassParts parts;
  parts.falls_back_to_bytes = type == TokenizerClass::kGemma || type == TokenizerClass::kLlama;
  if (type == TokenizerClass::kLlama) {
    const auto legacy = settings.find("legacy");
    const bool is_legacy = legacy && !legacy->is_null() && legacy->flag();
    json["pre_tokenizer"]["prepend_scheme"] = !adds_space ? "never"
                                              : is_legacy ? "always"
                                                          : "first";
    if (!adds_space) json["decoder"]["decoders"].erase(3);
  } else if (type == TokenizerClass::kQwen2) {
    json["pre_tokenizer"]["pretokenizers"][1]["add_prefix_space"] = adds_space;
  } else if (type != TokenizerClass::kGemma) {
    json["pre_tokenizer"]["add_prefix_space"] = adds_space;
    if (type == TokenizerClass::kGptNeoX) json["normalizer"] = {{"type", "NFC"}};
  }
  parts.normalizer = std::move(json["normalizer"]);
  parts.pre_tokenizer = std::move(json["pre_tokenizer"]);
  parts.decoder = std::move(json["decoder"]);
  return parts;
}

std::optional<std::string> default_token(TokenizerClass type, const std::string& name) {
  const bool is_bos = name == "bos_token";
  const bool is_eos_or_unknown = name == "eos_token" || name == "unk_token";
  switch (type) {
    case TokenizerClass::kAsItStands:
      break;
    case TokenizerClass::kGemma:
      if (name == "sep_token" || name == "cls_token") break;
      return str("<", name.substr(0, name.find('_')), ">");
    case TokenizerClass::kGpt2:
    case TokenizerClass::kGptNeoX:
      if (is_bos || is_eos_or_unknown) return "<|endoftext|>";
      if (name == "pad_token" && type == TokenizerClass::kGptNeoX) return "<|padding|>";
      break;
    case TokenizerClass::kLlama:
      if (is_bos) return "<s>";
      if (name == "eos_token") return "</s>";
      if (name == "unk_token") return "<unk>";
      break;
    case TokenizerClass::kQwen2:
      if (is_eos_or_unknown || name == "pad_token") return "<|endoftext|>";
      break;
  }
  return std::nullopt;
}

}  // namespace mneme::data
