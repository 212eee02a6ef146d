// Folders that transformers writes: the ids of its AutoTokenizer, or a refusal that names file and
// key (tests/data/tokenizer/make_folders.py).
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "tests/data/data_files.hpp"
#include "tests/data/tokenizer_files.hpp"

namespace mneme::data {
namespace {

using FolderJson = nlohmann::ordered_json;
using testing::ElementsAre;
using AllIds = std::vector<std::vector<std::int32_t>>;

constexpr int kShownStrings = 3;

FolderJson golden_folders() {
  return FolderJson::parse(
      read_file(std::filesystem::path(MNEME_SOURCE_DIR) / "tests/data/tokenizer/folders.json"));
}

std::string merges_text(const FolderJson& merges) {
  std::string text = "#version: 0.2\n";
  for (const auto& merge : merges) {
    text += str(merge[0].get<std::string>(), " ", merge[1].get<std::string>(), "\n");
  }
  return text;
}

// The folder's files with what they take from the vocabulary.
TokenizerFiles files_of(const FolderJson& folder, const FolderJson& vocabularies) {
  const FolderJson& vocabulary = vocabularies.at(folder.at("vocabulary").get<std::string>());
  TokenizerFiles files;
  files.folder = "folder";
  for (const auto& [name, content] : folder.at("files").items()) {
    if (name == "merges.txt") {
      files.texts[name] = merges_text(vocabulary.at("merges"));
    } else if (name == "vocab.json") {
      files.texts[name] = vocabulary.at("vocab").dump();
    } else {
      FolderJson whole = content;
      if (name == "tokenizer.json") whole["model"].update(vocabulary);
      files.texts[name] = whole.dump();
    }
  }
  return files;
}

AllIds expected_ids(const FolderJson& folder, const std::map<std::string, AllIds>& earlier) {
  if (folder.contains("ids")) return folder.at("ids").get<AllIds>();
  AllIds ids = earlier.at(folder.at("like").get<std::string>());
  for (const auto& [place, value] : folder.at("differ").items()) {
    ids.at(std::stoul(place)) = value.get<std::vector<std::int32_t>>();
  }
  return ids;
}

// The number of strings with other ids.
int count_differences(const Tokenizer& tokenizer, const std::vector<std::string>& strings,
                      const AllIds& expected) {
  int differ = 0;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    const std::vector<std::int32_t> got = tokenizer.encode(strings[i]);
    if (got == expected.at(i) || ++differ > kShownStrings) continue;
    ADD_FAILURE() << FolderJson(strings[i]).dump(-1, ' ', true) << "\n  got      "
                  << FolderJson(got).dump() << "\n  expected " << FolderJson(expected[i]).dump();
  }
  return differ;
}

TEST(TokenizerFolders, GiveTheIdsOfAutoTokenizerOrNameTheKey) {
  const FolderJson golden = golden_folders();
  const auto strings = golden.at("strings").get<std::vector<std::string>>();
  ASSERT_GE(strings.size(), 500U);
  std::map<std::string, AllIds> all;
  std::size_t refused = 0;
  for (const FolderJson& folder : golden.at("folders")) {
    const auto name = folder.at("name").get<std::string>();
    SCOPED_TRACE(name);
    const TokenizerFiles files = files_of(folder, golden.at("vocabularies"));
    if (folder.contains("refused")) {
      ++refused;
      expect_error(ErrorKind::kUsage, folder.at("refused").get<std::vector<std::string>>(),
                   [&] { static_cast<void>(Tokenizer(files)); });
      std::cout << "  refused  " << name << "\n";
      continue;
    }
    all[name] = expected_ids(folder, all);
    ASSERT_EQ(all[name].size(), strings.size());
    EXPECT_NO_THROW({
      const int differ = count_differences(Tokenizer(files), strings, all[name]);
      std::cout << (differ == 0 ? "  equal    " : "  DIFFERS  ") << name << "\n";
    });
  }
  EXPECT_GE(all.size(), 50U);
  EXPECT_GE(refused, 25U);
}

TEST(TokenizerFolders, KeysWithoutInfluenceArePassedOver) {
  TokenizerFiles files;
  files.texts["tokenizer.json"] = small_tokenizer_json().dump();
  const Tokenizer plain(files);
  files.texts["tokenizer_config.json"] =
      R"({"chat_template": "{{ x }}", "model_max_length": 4, "my_note": {"a": 1}, "padding_side": "left"})";
  files.texts["special_tokens_map.json"] = R"({"my_other_note": 1})";
  const Tokenizer tokenizer(files);
  EXPECT_EQ(tokenizer.sha256(), plain.sha256());
  ASSERT_EQ(tokenizer.notes().size(), 2U);
  EXPECT_NE(tokenizer.notes()[0].find("tokenizer_config.json: my_note"), std::string::npos);
  EXPECT_NE(tokenizer.notes()[1].find("special_tokens_map.json: my_other_note"), std::string::npos);
}

TEST(TokenizerFolders, OfAFolderTheModelsConfigDecidesTheClassToo) {
  const TestFolder folder;
  static_cast<void>(folder.write("tokenizer.json", small_tokenizer_json().dump()));
  static_cast<void>(folder.write("config.json", R"({"model_type": "llama", "hidden_size": 8})"));
  static_cast<void>(folder.write("tokenizer_config.json",
                                 R"({"tokenizer_class": "GPT2Tokenizer", "unk_token": "<unk>"})"));
  const Tokenizer tokenizer = Tokenizer::load(folder.path());
  EXPECT_EQ(tokenizer.files().texts.at("config.json"), R"({"model_type":"llama"})");
  EXPECT_EQ(tokenizer.id_of("<|endoftext|>"), 8);  // of the class
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("ab")), "ab");
  static_cast<void>(folder.write("config.json", R"({"model_type": "mistral"})"));
  EXPECT_FALSE(Tokenizer::load(folder.path()).id_of("<|endoftext|>"));  // as it stands
}

TEST(TokenizerFolders, SpecialTokensComeFromTheFilesBesideIt) {
  TokenizerFiles files;
  files.texts["tokenizer.json"] = small_tokenizer_json().dump();
  files.texts["tokenizer_config.json"] =
      R"({"bos_token": "<s>", "pad_token": null, "add_bos_token": true})";
  files.texts["special_tokens_map.json"] = R"({"bos_token": "a", "pad_token": {"content": "b"}})";
  const Tokenizer tokenizer(files);
  EXPECT_THAT(tokenizer.beginning(), ElementsAre(1));  // special_tokens_map.json comes last
  EXPECT_TRUE(tokenizer.is_special(2));
  files.texts.erase("special_tokens_map.json");
  files.texts["tokenizer_config.json"] = R"({"bos_token": "<s>", "eos_token": "</s>"})";
  const Tokenizer more(files);
  EXPECT_TRUE(more.is_special(7));
  EXPECT_EQ(more.id_of("</s>"), 8);  // a token that the vocabulary lacks gets the next id
  EXPECT_EQ(more.size(), 9);
}

TEST(TokenizerFolders, VocabJsonTakesItsTokensFromTheFilesBeside) {
  TokenizerFiles files;
  files.texts["vocab.json"] = R"({"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3})";
  files.texts["merges.txt"] = "#version: 0.2\r\na b\r\n";
  EXPECT_THAT(Tokenizer(files).encode("ab<|endoftext|>"), ElementsAre(2, 3));
  EXPECT_TRUE(Tokenizer(files).is_special(3));
  files.texts["added_tokens.json"] = R"({"<x>": 4, "<y>": 5})";
  files.texts["special_tokens_map.json"] = R"({"eos_token": "<y>"})";
  const Tokenizer tokenizer(files);
  EXPECT_THAT(tokenizer.encode("<y>a<x>"), ElementsAre(5, 0, 4));
  EXPECT_TRUE(tokenizer.is_special(5));
  EXPECT_FALSE(tokenizer.is_special(4));
  files.texts["added_tokens.json"] = R"({"<x>": 4, "<y>": 6})";
  expect_error(ErrorKind::kUsage, {"added_tokens.json: <y>", "expected 5", "got 6"},
               [&] { static_cast<void>(Tokenizer(files)); });
}

TEST(TokenizerFolders, BeginningIsThatOfTheTemplateUnlessTheConfigurationSays) {
  TokenizerFiles files;
  FolderJson json = small_tokenizer_json();
  const auto beginning = [&] {
    files.texts["tokenizer.json"] = json.dump();
    return Tokenizer(files).beginning();
  };
  EXPECT_THAT(beginning(), ElementsAre());
  files.texts["tokenizer_config.json"] = R"({"bos_token": "<s>", "add_bos_token": true})";
  EXPECT_THAT(beginning(), ElementsAre(7));
  json["post_processor"] = FolderJson::parse(R"({"type": "TemplateProcessing",
    "single": [{"SpecialToken": {"id": "b", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [], "special_tokens": {"b": {"id": "b", "ids": [1], "tokens": ["b"]}}})");
  files.texts["tokenizer_config.json"] = R"({"bos_token": "<s>"})";
  EXPECT_THAT(beginning(), ElementsAre(1));
  files.texts["tokenizer_config.json"] = R"({"bos_token": "<s>", "add_bos_token": false})";
  EXPECT_THAT(beginning(), ElementsAre());
}

// Of Gemma's class, whose default names the small vocabulary has not all.
TEST(TokenizerFolders, GemmaTakesUnknownAndBeginningByTheirNames) {
  TokenizerFiles files;
  files.texts["tokenizer.json"] = small_tokenizer_json().dump();
  const auto with = [&](const char* keys) {
    files.texts["tokenizer_config.json"] =
        str(R"({"tokenizer_class": "GemmaTokenizer")", keys, "}");
    return Tokenizer(files);
  };
  EXPECT_THAT(with("").encode("xya"), ElementsAre(0, 1));
  EXPECT_EQ(with("").id_of("<mask>"), 11);  // behind <s>, <bos>, <eos> and <pad>
  EXPECT_THAT(with("").beginning(), ElementsAre());
  EXPECT_THAT(with(R"(, "add_bos_token": true)").beginning(), ElementsAre(8));
  EXPECT_THAT(with(R"(, "unk_token": {"content": "a"})").encode("xb"), ElementsAre(4));  // "ab"
  expect_error(ErrorKind::kUsage,
               {"tokenizer_config.json: unk_token: the vocabulary lacks", "\"None\""},
               [&] { static_cast<void>(with(R"(, "unk_token": null)").encode("x")); });
}

TEST(TokenizerFolders, OfALinkToWhatIsNotThereTheTargetIsTold) {
  const TestFolder folder;
  const std::filesystem::path target = "/mnt/absent_disk/file";
  const auto refuse = [&](const std::filesystem::path& link, const auto& read) {
    std::filesystem::create_symlink(target, link);
    expect_error(ErrorKind::kRun,
                 {link.string() + ": cannot open: got a symbolic link to " + target.string() +
                      ", which is not there",
                  "correct the link"},
                 read);
    std::filesystem::remove(link);
  };
  const auto load = [&] { static_cast<void>(read_tokenizer_files(folder.path())); };
  for (const char* name : {"tokenizer.json", "vocab.json", "tokenizer.model"}) {
    const std::filesystem::path link = folder.path() / name;
    refuse(link, load);
    refuse(link, [&] { static_cast<void>(read_tokenizer_files(link)); });
    refuse(link, [&] { static_cast<void>(has_tokenizer(folder.path())); });
  }
  static_cast<void>(folder.write("tokenizer.json", small_tokenizer_json().dump()));
  refuse(folder.path() / "tokenizer_config.json", load);
  refuse(folder.path() / "config.json", load);
  refuse(folder.path() / "other",
         [&] { static_cast<void>(read_tokenizer_files(folder.path() / "other")); });
}

}  // namespace
}  // namespace mneme::data
