// Requests of `mneme serve`, which a small model answers.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "host/base/json_text.hpp"
#include "host/cli/display.hpp"
#include "host/cli/serve/serve.hpp"
#include "host/weights/pretrained/import_folder.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"
#include "tests/weights/gguf/gguf_support.hpp"

namespace mneme::fuzz {
namespace {

constexpr std::int64_t kMostGenerated = 4;  // a request may ask for any number of tokens

// A run of ten tokens without a memory, which is opened once.
struct Served {
  CLI::App app;
  cli::Action action;
  cli::GenerateArguments arguments;
  cli::OpenGeneration opened;

  Served() {
    test::GgufBuilder file = test::gguf_of(test::small_llama());
    test::add_byte_tokenizer(file);
    weights::FolderImportOptions options;
    options.run = empty_folder() / "run";
    static_cast<void>(weights::import_folder(write_alone("m.gguf", file.bytes()), options));
    arguments.parser = cli::Command(app, action).subcommand("serve", "of the test");
    arguments.run = options.run;
    arguments.reads_split = false;
    arguments.serves = true;
    std::ostringstream unread;
    const cli::Streams streams{.out = unread, .err = unread};
    cli::Display display(streams, /*is_quiet=*/true);
    opened = cli::open_generation(arguments, display);
  }
};

void check_answer(const Json& answer, const cli::ServeRequest& request) {
  require(answer.at("id") == request.id, "an answer has the id of its request");
  const std::string text = json_text(answer);
  require(is_utf8(text) && text.find('\n') == std::string::npos, "an answer is a line of UTF-8");
  if (answer.contains("error")) {
    const std::string message = answer.at("error").at("message");
    check_message(message);
    require(!message.starts_with("unexpected failure"), str("a request is foreseen: ", message));
  } else if (request.kind == cli::ServeRequest::Kind::kScore) {
    require(answer.at("logprob").is_number() && answer.at("tokens") >= 1, "a score is a number");
  }
}

bool read_serve(std::string_view input) {
  static const Served served;
  Json json;
  try {
    json = parse_json_or_throw(input);
  } catch (const Json::exception&) {
    return false;
  }
  bool is_accepted = false;  // one of them
  std::vector<cli::ServeRequest> requests;
  for (const Json& one : json.is_array() ? json : Json::array({json})) {
    is_accepted =
        accepts([&] { requests.push_back(cli::read_request(one, served.opened)); }) && is_accepted;
    static_cast<void>(json_text(cli::id_of(one)));
  }
  for (cli::ServeRequest& one : requests) one.tokens = std::min(one.tokens, kMostGenerated);
  const std::vector<Json> answers =
      cli::ServeAnswers(served.arguments, served.opened).answer(requests);
  require(answers.size() == requests.size(), "each request has an answer");
  for (std::size_t i = 0; i < answers.size(); ++i) {
    check_answer(answers[i], requests[i]);
    is_accepted = is_accepted || !answers[i].contains("error");
  }
  return is_accepted;
}

std::vector<std::string> serve_seeds() {
  // Most changes of a long id leave a request.
  return {
      R"({"id": ")" + repeated("id ", 150) + R"(", "request": "score", "text": "a b"})",
      R"({"id": 1, "request": "score", "context": "a", "text": "b ab", "logprobs": true})",
      R"({"id": "x", "request": "score", "text": [2, 3, 4], "windows": "separate", "bos": false})",
      R"({"id": 2, "request": "generate", "prompt": "ab", "tokens": 2, "until": ["c"], "seed": 3,
          "temperature": 0.5, "top_k": 4, "top_p": 0.9, "min_p": 0.1})",
      R"([{"id": 3, "request": "score", "text": "a b", "carry": true},
          {"id": 4, "request": "generate", "prompt": "", "tokens": 1, "greedy": true, "carry": true},
          {"id": 5, "request": "describe"}, {"id": 6, "request": "reset"},
          {"id": 7, "request": "score", "text": "ab", "context": [2]}])"};
}

std::vector<std::string> serve_extremes() {
  const std::string begin = R"({"id": 1, "request": "score", "text": )";
  return {repeated("[", 200'000) + repeated("]", 200'000),
          begin + repeated("[", 200'000) + repeated("]", 200'000) + "}",
          begin + '"' + repeated("\\u0000", 20'000) + "\"}",
          begin + '"' + repeated("ab ", 2'000) + "\"}",
          begin + '[' + repeated("2,", 2'000) + "99999999999999999999]}",
          R"({"id": ")" + repeated("x", 300'000) + R"(", "request": ")" + repeated("y", 300'000) +
              "\"}",
          '[' + repeated("{},", 10'000) + "{}]"};
}

}  // namespace

Target serve_target() { return {"serve", read_serve, serve_seeds, serve_extremes}; }

}  // namespace mneme::fuzz
