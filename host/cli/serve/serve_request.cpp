// Requests of `mneme serve` as JSON.
#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/json_text.hpp"
#include "host/base/text.hpp"
#include "host/base/utf8.hpp"
#include "host/cli/serve/serve.hpp"
#include "host/data/tokenizer/tokenizer.hpp"

namespace mneme::cli {
namespace {

using Kind = ServeRequest::Kind;

struct RequestForm {
  const char* name;
  Kind kind;
  std::vector<std::string> keys;  // beside id and request
};

const std::vector<RequestForm>& request_forms() {
  static const std::vector<RequestForm> forms = {
      {"score", Kind::kScore, {"text", "context", "carry", "bos", "logprobs", "windows"}},
      {"generate",
       Kind::kGenerate,
       {"prompt", "carry", "bos", "tokens", "until", "greedy", "temperature", "top_k", "top_p",
        "min_p", "seed"}},
      {"reset", Kind::kReset, {}},
      {"describe", Kind::kDescribe, {}}};
  return forms;
}

// The keys of a request.
class RequestKeys {
 public:
  explicit RequestKeys(const Json& request) : request_(request) {
    if (request.is_object()) return;
    throw_usage({.where = "request",
                 .failed = "it is no object",
                 .expected = R"({"id": 1, "request": "score", "text": "..."})",
                 .got = request.type_name()});
  }

  [[nodiscard]] const RequestForm& form() const {
    std::vector<std::string> names;
    for (const RequestForm& form : request_forms()) names.emplace_back(form.name);
    const std::string name = text("request");
    const auto found = std::ranges::find(names, name);
    if (found != names.end())
      return request_forms()[static_cast<std::size_t>(found - names.begin())];
    throw_usage({.where = "request",
                 .failed = "there is no such request",
                 .expected = join(names, ", "),
                 .got = str('"', printable(name), '"', did_you_mean(name, names))});
  }
  void check_known(const RequestForm& form) const {
    std::vector<std::string> known = form.keys;
    known.insert(known.end(), {"id", "request"});
    for (const auto& [key, value] : request_.items()) {
      if (std::ranges::find(known, key) != known.end()) continue;
      throw_usage({.where = str("request ", form.name),
                   .failed = str("unknown key \"", printable(key), '"', did_you_mean(key, known)),
                   .expected = join(known, ", ")});
    }
  }

  [[nodiscard]] bool has(const char* key) const { return request_.contains(key); }
  [[nodiscard]] const Json& at(const char* key) const {
    const auto found = request_.find(key);
    if (found == request_.end()) throw_usage("request: the key \"", key, "\" is missing");
    return *found;
  }
  [[nodiscard]] std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) refuse(key, "a text");
    return value.get<std::string>();
  }
  [[nodiscard]] bool flag(const char* key) const {
    if (!has(key)) return false;
    if (!at(key).is_boolean()) refuse(key, "true or false");
    return at(key).get<bool>();
  }
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t absent,
                                     std::int64_t most) const {
    if (!has(key)) return absent;
    try {
      return json_integer(at(key), 0, most);
    } catch (const Json::exception&) {
      refuse(key, str("an integer from 0 to ", most));
    }
  }
  [[nodiscard]] double number(const char* key, double absent) const {
    if (!has(key)) return absent;
    if (!at(key).is_number()) refuse(key, "a number");
    return at(key).get<double>();
  }
  [[nodiscard]] std::vector<std::string> texts(const char* key) const {
    if (!has(key)) return {};
    const Json& value = at(key);
    const bool fits = value.is_array() && std::ranges::all_of(value, [](const Json& one) {
                        return one.is_string() && !one.get_ref<const std::string&>().empty();
                      });
    if (!fits) refuse(key, "a list of texts that are not empty");
    return value.get<std::vector<std::string>>();
  }
  // A list of ids; absent for a text.
  [[nodiscard]] std::optional<std::vector<std::int32_t>> ids(const char* key) const {
    if (at(key).is_string()) return std::nullopt;
    try {
      return json_ids(at(key));
    } catch (const Json::exception&) {
      refuse(key, "a text or a list of ids");
    }
  }

 private:
  [[noreturn]] void refuse(const char* key, const std::string& expected) const {
    std::string got = json_text(at(key));
    if (got.size() > 60) got = got.substr(0, 60) + "...";
    throw_usage({.where = str("key \"", key, '"'),
                 .failed = "wrong value",
                 .expected = expected,
                 .got = printable(got)});
  }

  const Json& request_;
};

generate::Prompt encode_text(const char* key, const std::string& text,
                             const OpenGeneration& opened) {
  if (opened.vocabulary() != nullptr)
    return generate::encode_prompt(*opened.vocabulary(), {key, text}, opened.settings.keeps_eos);
  throw_usage(
      {.where = str("key \"", key, '"'),
       .failed = "the run was trained on ids: it has no text vocabulary",
       .expected = str("a list of ids from 0 to ", opened.runtime().model().vocabulary() - 1),
       .got = "a text"});
}

generate::Prompt read_tokens(const RequestKeys& keys, const char* key,
                             const OpenGeneration& opened) {
  std::optional<std::vector<std::int32_t>> ids = keys.ids(key);
  if (!ids) return encode_text(key, keys.text(key), opened);
  generate::Prompt given;
  given.ids = std::move(*ids);
  return given;
}

// What the tokenizer's template puts before a text. Error (kUsage) where there is nothing.
const std::vector<std::int32_t>& served_beginning(const OpenGeneration& opened) {
  const data::Vocabulary* const vocabulary = opened.vocabulary();
  const data::Tokenizer* const tokenizer =
      vocabulary == nullptr ? nullptr : vocabulary->tokenizer().get();
  if (tokenizer != nullptr && !tokenizer->beginning().empty()) return tokenizer->beginning();
  throw_usage({.where = "key \"bos\"",
               .failed = "the run has no token that begins a text",
               .hint = "leave the key out"});
}

// A text and its context that are both texts are encoded together: the tokens of the text are those
// behind as many as the context alone has.
void read_scored(const RequestKeys& keys, const OpenGeneration& opened, ServeRequest& request) {
  generate::Prompt all;
  if (!keys.has("context")) {
    all = read_tokens(keys, "text", opened);
  } else if (keys.at("context").is_string() && keys.at("text").is_string()) {
    const std::string context = keys.text("context");
    all = encode_text("text", context + keys.text("text"), opened);
    const auto alone =
        static_cast<std::int64_t>(encode_text("context", context, opened).ids.size());
    request.context = std::min(alone, static_cast<std::int64_t>(all.ids.size()));
  } else {
    all = read_tokens(keys, "context", opened);
    request.context = static_cast<std::int64_t>(all.ids.size());
    const generate::Prompt text = read_tokens(keys, "text", opened);
    all.ids.insert(all.ids.end(), text.ids.begin(), text.ids.end());
    all.unknown += text.unknown;
  }
  request.ids = std::move(all.ids);
  request.unknown = all.unknown;
  request.wants_each = keys.flag("logprobs");
  const std::string windows = keys.has("windows") ? keys.text("windows") : "carried";
  request.has_separate_windows = windows == "separate";
  if (windows != "carried" && windows != "separate") {
    throw_usage({.where = "key \"windows\"",
                 .failed = "wrong value",
                 .expected = "\"carried\" or \"separate\"",
                 .got = str('"', printable(windows), '"')});
  }
  if (request.has_separate_windows && request.carries)
    throw_usage(
        "key \"windows\": separate windows begin with an empty memory, and \"carry\" does not");
}

void read_generated(const RequestKeys& keys, const OpenGeneration& opened, ServeRequest& request) {
  generate::Prompt prompt = read_tokens(keys, "prompt", opened);
  request.ids = std::move(prompt.ids);
  request.unknown = prompt.unknown;
  request.tokens = keys.integer("tokens", request.tokens, kMaxCount);
  request.until = keys.texts("until");
  request.seed =
      static_cast<std::uint64_t>(keys.integer("seed", 1, std::numeric_limits<std::int64_t>::max()));
  generate::Sampling& sampling = request.sampling;
  sampling.is_greedy = keys.flag("greedy");
  sampling.temperature = keys.number("temperature", sampling.temperature);
  sampling.top_k = keys.integer("top_k", sampling.top_k, kMaxCount);
  sampling.top_p = keys.number("top_p", sampling.top_p);
  sampling.min_p = keys.number("min_p", sampling.min_p);
  generate::check(sampling, /*is_request=*/true);
}

// Before the model runs, so that a request fails alone.
void check_served_ids(const ServeRequest& request, std::int64_t vocabulary) {
  for (std::size_t i = 0; i < request.ids.size(); ++i) {
    if (request.ids[i] >= 0 && request.ids[i] < vocabulary) continue;
    throw_usage({.where = str("token ", i + 1),
                 .failed = "the vocabulary has no such id",
                 .expected = str("0 to ", vocabulary - 1),
                 .got = str(request.ids[i])});
  }
}

}  // namespace

Json id_of(const Json& request) {
  if (!request.is_object() || !request.contains("id")) return nullptr;
  const Json& id = request.at("id");
  return id.is_string() || id.is_number_integer() ? id : Json();
}

ServeRequest read_request(const Json& json, const OpenGeneration& opened) {
  const RequestKeys keys(json);
  ServeRequest request;
  if (!keys.at("id").is_string() && !keys.at("id").is_number_integer()) {
    throw_usage({.where = "key \"id\"",
                 .failed = "wrong value",
                 .expected = "a text or an integer",
                 .got = keys.at("id").type_name()});
  }
  request.id = keys.at("id");
  const RequestForm& form = keys.form();
  keys.check_known(form);
  request.kind = form.kind;
  request.carries = keys.flag("carry");
  if (form.kind == Kind::kScore) read_scored(keys, opened, request);
  if (form.kind == Kind::kGenerate) read_generated(keys, opened, request);
  if (keys.flag("bos")) {
    const std::vector<std::int32_t>& beginning = served_beginning(opened);
    request.ids.insert(request.ids.begin(), beginning.begin(), beginning.end());
    request.context += static_cast<std::int64_t>(beginning.size());
  }
  check_served_ids(request, opened.runtime().model().vocabulary());
  return request;
}

Json failed_answer(const Json& id, const Error& error) {
  const ErrorKind kind = error.kind();
  const char* const word = kind == ErrorKind::kUsage    ? "usage"
                           : kind == ErrorKind::kPlugin ? "plugin"
                           : kind == ErrorKind::kDevice ? "device"
                                                        : "run";
  return {{"id", id}, {"error", {{"kind", word}, {"message", error.what()}}}};
}

}  // namespace mneme::cli
