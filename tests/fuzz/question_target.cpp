// Files of questions with answers or choices.
#include "host/data/questions/questions.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"

namespace mneme::fuzz {
namespace {

bool read_question_file(std::string_view input) {
  const std::filesystem::path path = empty_folder() / "questions.jsonl";
  write_files(path.parent_path(), Files::of(input, "questions.jsonl"), {"questions.jsonl"});
  return accepts([&] {
    const std::vector<data::OwnQuestion> read = data::read_questions(path);
    require(!read.empty(), "a file has questions");
    for (const data::OwnQuestion& one : read) {
      require(!one.prompt.empty() && one.right < one.choices.size(), "a question has its answer");
      for (const std::string& choice : one.choices) require(!choice.empty(), "a choice has a text");
    }
    require(data::texts_of(read).size() >= 2 * read.size(), "a question has two texts");
  });
}

std::vector<std::string> question_seeds() {
  return {R"({"prompt": "1 + 1 =", "answer": " 2", "id": "a", "groups": {"task": "sum"}})"
          "\n\n"
          R"({"prompt": "?", "choices": ["x", "\u00e9"], "answer": 1, "groups": {"task": "t"}})"
          "\r\n"};
}

std::vector<std::string> question_extremes() {
  return {R"({"prompt": "p", "answer": 0, "choices": [)" + repeated("\"a\",", 50'000) + "\"b\"]}",
          R"({"prompt": )" + repeated("[", 100'000),
          R"({"prompt": "p", "answer": "a", "groups": {"x": ")" + repeated("\\u001b", 50'000) +
              "\"}}\n" + R"({"prompt": "p", "answer": "a"})",
          repeated(R"({"prompt": "p", "answer": "a"})"
                   "\n",
                   10'000)};
}

}  // namespace

Target question_target() {
  return {"question", read_question_file, question_seeds, question_extremes};
}

}  // namespace mneme::fuzz
