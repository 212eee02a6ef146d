// The files of a pretrained model's tokenizer, and texts that it encodes.
#include <algorithm>
#include <memory>

#include "host/data/tokenizer/decoder.hpp"
#include "host/data/tokenizer/streaming_decoder.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "tests/data/tokenizer/pieces/piece_builder.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"

namespace mneme::fuzz {
namespace {

constexpr std::string_view kText =
    " a ab  abc\n\tThe cat's 12 \xE2\x96\x81x\xC3\xA9\xCC\x81 \xF0\x9F\x98\x80<s><unk></s>";
constexpr std::int64_t kMostTokens = 4096;  // of which each is looked at

// Where a run of byte tokens is not UTF-8, the two decoders differ (streaming_decoder.hpp).
bool has_byte_fallback(const data::Tokenizer& tokenizer) {
  return std::ranges::any_of(tokenizer.decoder().steps(), [](const data::DecoderStep& step) {
    return std::holds_alternative<data::ByteFallbackStep>(step);
  });
}

void check_decoding(const std::shared_ptr<const data::Tokenizer>& tokenizer,
                    const std::vector<std::int32_t>& ids, bool skips_special) {
  const std::string decoded = tokenizer->decode(ids, skips_special);
  require(is_utf8(decoded), "a decoded text is UTF-8");
  data::StreamingDecoder streaming(tokenizer, skips_special);
  std::string streamed;
  for (const std::int32_t id : ids) streamed += streaming.push(id);
  streamed += streaming.finish();
  require(is_utf8(streamed), "a text that is decoded as it comes is UTF-8");
  require(streamed == decoded || has_byte_fallback(*tokenizer),
          "a text that is decoded as it comes is the text");
}

void check_text(const std::shared_ptr<const data::Tokenizer>& tokenizer, std::string_view text) {
  for (const bool is_plain : {true, false}) {
    const std::vector<std::int32_t> ids =
        tokenizer->encode(text, {.adds_special = !is_plain, .finds_special = is_plain});
    for (const std::int32_t id : ids) {
      require(id >= 0 && id < tokenizer->size(), "an id lies in the vocabulary");
    }
    check_decoding(tokenizer, ids, is_plain);
  }
}

bool read_tokenizer(std::string_view input) {
  Files files = Files::of(input, "tokenizer.json");
  const std::string text = files.has("text") ? files.texts.at("text") : "";
  files.texts.erase("text");
  return accepts([&] {
    data::TokenizerFiles given;
    given.texts = files.texts;
    const auto tokenizer = std::make_shared<const data::Tokenizer>(given);
    require(data::Tokenizer(given).sha256() == tokenizer->sha256(), "a checksum is the same again");
    for (std::int64_t id = 0; id < std::min<std::int64_t>(tokenizer->size(), kMostTokens); ++id) {
      static_cast<void>(tokenizer->token(id));
      static_cast<void>(tokenizer->bytes_of(id));
      static_cast<void>(tokenizer->is_special(id));
    }
    for (const std::string_view one : {kText, std::string_view(text)}) {
      static_cast<void>(accepts([&] { check_text(tokenizer, one); }));
    }
    static_cast<void>(accepts([&] { static_cast<void>(tokenizer->token(tokenizer->size())); }));
  });
}

// A tokenizer over characters with these parts.
std::string with_parts(const std::string& normalizer, const std::string& pre_tokenizer,
                       const std::string& post_processor, const std::string& decoder,
                       const std::string& settings) {
  return str(R"({"version":"1.0","truncation":null,"padding":null,"added_tokens":[)",
             R"({"id":0,"content":"<unk>","special":true},)",
             R"({"id":9,"content":"<s>","lstrip":true,"rstrip":true,"special":true},)",
             R"({"id":10,"content":"the","single_word":true,"normalized":true}],)",
             R"("normalizer":)", normalizer, R"(,"pre_tokenizer":)", pre_tokenizer,
             R"(,"post_processor":)", post_processor, R"(,"decoder":)", decoder,
             R"(,"model":{"type":"BPE",)", settings,
             R"("vocab":{"<unk>":0,"a":1,"b":2,"c":3,"ab":4,"abc":5," ":6,"▁":7,"<0xC3>":8},)",
             R"("merges":[["a","b"],"ab c"]}})");
}

// A tokenizer.model of a few pieces.
test::PieceModel piece_seed(bool is_unigram) {
  test::PieceModel model = test::PieceModel::of({"a", "b", "ab", "\xE2\x96\x81",
                                                 "\xE2\x96\x81"
                                                 "a"});
  model.is_unigram = is_unigram;
  model.add("<x>", data::PieceKind::kUserDefined);
  return model;
}

std::string as_model(const std::string& bytes) { return "==> tokenizer.model\n" + bytes; }

std::vector<std::string> tokenizer_seeds() {
  test::PieceModel with_bytes = piece_seed(false);
  with_bytes.add_bytes();
  with_bytes.removes_extra_spaces = false;
  test::PieceModel with_rules = piece_seed(true);
  with_rules.charsmap = test::charsmap_of('b', "a");
  return {
      as_model(piece_seed(true).bytes()) + "\n==> text\n ab  <x>b<s>",
      as_model(with_bytes.bytes()) +
          "\n==> tokenizer_config.json\n{\"add_bos_token\":true,"
          "\"legacy\":true}\n==> text\nabab  <x>b<s>\xC3\xA9",
      as_model(with_rules.bytes()) + "\n==> text\nabba",
      with_parts("null", "null", "null", R"({"type":"Fuse"})", R"("unk_token":"<unk>",)"),
      with_parts(R"({"type":"Sequence","normalizers":[{"type":"NFC"},{"type":"Prepend",)"
                 R"("prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]})",
                 "null",
                 R"({"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<s>",)"
                 R"("type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],)"
                 R"("special_tokens":{"<s>":{"id":"<s>","ids":[9],"tokens":["<s>"]}}})",
                 R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},)"
                 R"("content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip",)"
                 R"("content":" ","start":1,"stop":0}]})",
                 R"("unk_token":"<unk>","fuse_unk":true,"byte_fallback":true,)") +
          "\n==> text\nabc  <s> \xC3\xA9",
      with_parts("null",
                 R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":)"
                 R"("(?i:'s|'t)|\\p{L}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\d{1,3}"},)"
                 R"("behavior":"MergedWithNext","invert":false},{"type":"Digits",)"
                 R"("individual_digits":true},{"type":"ByteLevel","add_prefix_space":true,)"
                 R"("use_regex":true}]})",
                 R"({"type":"ByteLevel"})", R"({"type":"ByteLevel"})", R"("ignore_merges":true,)"),
      with_parts(R"({"type":"NFKC"})",
                 R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"first"})", "null",
                 R"({"type":"Metaspace","replacement":"▁"})", ""),
      "==> vocab.json\n{\"a\":0,\"b\":1,\"ab\":2,\"<|endoftext|>\":3,\"Ġ\":4}\n"
      "==> merges.txt\n#version: 0.2\na b\n"
      "==> tokenizer_config.json\n{\"tokenizer_class\":\"GPT2Tokenizer\",\"bos_token\":"
      "{\"content\":\"<|endoftext|>\"},\"add_prefix_space\":true}\n"
      "==> added_tokens.json\n{\"<pad>\":5}\n"
      "==> special_tokens_map.json\n{\"pad_token\":\"<pad>\"}\n"
      "==> generation_config.json\n{\"eos_token_id\":[3]}\n"
      "==> text\nab abba",
      with_parts("null", "null", "null", R"({"type":"Fuse"})", R"("unk_token":"<unk>",)") +
          "\n==> config.json\n{\"model_type\":\"llama\"}\n"
          "==> tokenizer_config.json\n{\"tokenizer_class\":\"LlamaTokenizer\",\"legacy\":true,"
          "\"bos_token\":{\"__type\":\"AddedToken\",\"content\":\"<s>\",\"lstrip\":true},"
          "\"image_token\":\"<img>\",\"extra_special_tokens\":{\"a\":\"<a>\"},"
          "\"split_special_tokens\":false,\"note\":1}\n"
          "==> special_tokens_map.json\n{\"eos_token\":\"<x>\",\"add_prefix_space\":false,"
          "\"additional_special_tokens\":[\"<y>\"]}\n"
          "==> added_tokens.json\n{\"<x>\":11}\n"
          "==> text\nab <x><img> the<y>",
      with_parts("null", "null", "null", R"({"type":"Fuse"})", R"("unk_token":"<unk>",)") +
          "\n==> tokenizer_config.json\n{\"tokenizer_class\":\"Qwen2Tokenizer\",\"eos_token\":null,"
          "\"added_tokens_decoder\":{\"0\":{\"content\":\"<unk>\",\"rstrip\":true},"
          "\"9\":{\"content\":\"<|endoftext|>\",\"special\":true}}}\n"
          "==> text\nab <unk> <|endoftext|>"};
}

std::vector<std::string> tokenizer_extremes() {
  const std::string deep = repeated("[", 200'000) + repeated("]", 200'000);
  const std::string none = "null";
  std::string added;
  for (int i = 0; i < 3000; ++i) {
    added += str(i == 0 ? "" : ",", R"({"id":)", 11 + i, R"(,"content":"<t)", i, R"(>"})");
  }
  std::string many = with_parts(none, none, none, none, "");
  many.insert(many.find("],\"normalizer\""), "," + added);
  const auto regex = [&](const std::string& pattern) {
    return with_parts(none,
                      str(R"({"type":"Split","pattern":{"Regex":")", pattern,
                          R"("},"behavior":"Isolated","invert":false})"),
                      none, none, "") +
           "\n==> text\n" + std::string(5000, 'a');
  };
  test::PieceModel wide = piece_seed(true);
  for (std::size_t size = 1; size <= 256; ++size) {
    wide.add(std::string(size, 'c'), data::PieceKind::kNormal, -1.0F);
  }
  test::PieceModel merged = wide;
  merged.is_unigram = false;
  const std::string run = "\n==> text\n" + std::string(5000, 'c');
  return {
      as_model(wide.bytes()) + run,
      as_model(merged.bytes()) + run,
      as_model("\x0A" + std::string(9, '\xFF')),
      with_parts(deep, none, none, none, ""),
      with_parts(none, none, none, none, "\"dropout\":" + deep + ","),
      many,
      regex("(a*)*b"),
      regex("(a|aa)+b"),
      regex("(?:a{1,900}){1,900}b"),
      regex(repeated("(", 20'000) + "a" + repeated(")", 20'000)),
      regex(repeated("(?=", 300) + "a" + repeated(")", 300)),
      regex("a" + repeated("?", 2)),
      with_parts(R"({"type":"Replace","pattern":{"Regex":"a*"},"content":"aa"})", none, none, none,
                 "") +
          "\n==> text\n" + std::string(20'000, 'b'),
      with_parts(none, none, none,
                 R"({"type":"Strip","content":"a","start":9223372036854775807,)"
                 R"("stop":9223372036854775807})",
                 ""),
      with_parts(none, none, none, none, "") + "\n==> text\n" + std::string(200'000, 'a') + "\xFF",
      "==> vocab.json\n{\"\":0}\n==> merges.txt\n \n",
      with_parts(
          R"({"type":"Sequence","normalizers":[)" +
              repeated(R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"},)", 40) +
              R"({"type":"NFC"}]})",
          none, none, none, ""),
      with_parts(
          none, none, none,
          R"({"type":"Sequence","decoders":[)" +
              repeated(R"({"type":"Replace","pattern":{"String":"a"},"content":"aa"},)", 40) +
              R"({"type":"Fuse"}]})",
          ""),
  };
}

}  // namespace

Target tokenizer_target() {
  return {"tokenizer", read_tokenizer, tokenizer_seeds, tokenizer_extremes};
}

}  // namespace mneme::fuzz
