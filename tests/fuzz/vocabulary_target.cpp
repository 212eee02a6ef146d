// vocabulary.json of a run's or a prepared folder.
#include <nlohmann/json.hpp>

#include "host/base/text.hpp"
#include "host/data/vocabulary/vocabulary.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"

namespace mneme::fuzz {
namespace {

constexpr const char* kSomeText = "a b\tab <eos>\nc \xC3\xA9\xF0\x9F\x98\x80 <doc> ab";

void check_symbols(const data::Vocabulary& vocabulary, std::string_view text) {
  std::vector<std::int32_t> ids;
  static_cast<void>(vocabulary.encode({"text", text}, ids));
  for (const std::int32_t id : ids) {
    require(id >= 0 && id < vocabulary.size(), "an id lies in the vocabulary");
    static_cast<void>(vocabulary.symbol(id));
  }
  const std::string decoded = vocabulary.decode(ids);
  const bool keeps_all =
      vocabulary.kind() == data::VocabularyKind::kChar ||
      (vocabulary.kind() == data::VocabularyKind::kByte && !vocabulary.drops_newlines());
  require(!keeps_all || decoded == text, "the ids of a text give the text");
}

bool read_vocabulary(std::string_view input) {
  const std::filesystem::path path = write_alone("vocabulary.json", input);
  return accepts([&] {
    const data::Vocabulary vocabulary = data::Vocabulary::load(path);
    const Json json = vocabulary.to_json();
    const data::Vocabulary again = data::Vocabulary::from_json(json, "again");
    require(again == vocabulary && again.to_json() == json, "a vocabulary reads back");
    require(again.sha256() == vocabulary.sha256(), "its checksum stays");
    vocabulary.save(path);
    require(data::Vocabulary::load(path) == vocabulary, "a vocabulary reads back from its file");
    for (const std::string_view text : {std::string_view(kSomeText), std::string_view("a"),
                                        std::string_view("b\nab"), std::string_view()}) {
      static_cast<void>(accepts([&] { check_symbols(vocabulary, text); }));
    }
    static_cast<void>(accepts([&] { static_cast<void>(vocabulary.symbol(-1)); }));
    static_cast<void>(vocabulary.summary());
  });
}

std::vector<std::string> vocabulary_seeds() {
  const data::NamedText text{"text", kSomeText};
  const std::string_view marks[] = {"<doc>", "<1>"};
  const data::Vocabulary words = data::Vocabulary::words(std::span(&text, 1));
  std::vector<std::string> out;
  for (const data::Vocabulary& one :
       {data::Vocabulary::bytes(), data::Vocabulary::bytes_without_newline(std::span(&text, 1)),
        data::Vocabulary::characters(std::span(&text, 1)), words, words.with_marks(marks),
        data::Vocabulary::bytes().with_marks(marks)}) {
    out.push_back(one.to_json().dump());
  }
  const Json files = {{"vocab.json", R"({"a":0,"b":1,"ab":2,"<|endoftext|>":3})"},
                      {"merges.txt", "#version: 0.2\na b\n"}};
  out.push_back(Json({{"format", "mneme.vocabulary"},
                      {"revision", 1},
                      {"kind", "tokenizer"},
                      {"marks", {"<doc>"}},
                      {"files", files}})
                    .dump());
  return out;
}

std::vector<std::string> vocabulary_extremes() {
  const std::string head = R"({"format":"mneme.vocabulary","revision":1,"kind":)";
  std::string marks;
  for (int i = 0; i < 3000; ++i) marks += str(i == 0 ? "" : ",", "\"m", i, '"');
  return {
      head + repeated("[", 200'000) + repeated("]", 200'000) + "}",
      head + R"("char","symbols":[)" + repeated("[", 200'000) + repeated("]", 200'000) + "]}",
      head + R"("word","add_eos":)" + repeated("{\"a\":", 200'000) + "1" + repeated("}", 200'000) +
          "}",
      head + R"("byte","bytes":{"a":)" + repeated("[", 200'000) + repeated("]", 200'000) + "}}",
      head + R"("byte","marks":[)" + marks + "]}",
      repeated("[", 200'000),
      head + "\"" + repeated("x", 300'000) + "\"}",
  };
}

}  // namespace

Target vocabulary_target() {
  return {"vocabulary", read_vocabulary, vocabulary_seeds, vocabulary_extremes};
}

}  // namespace mneme::fuzz
