// The answers of `mneme serve`.
#include <algorithm>
#include <new>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/text.hpp"
#include "host/cli/interrupt.hpp"
#include "host/cli/serve/serve.hpp"
#include "host/data/tokenizer/tokenizer.hpp"
#include "host/eval/score.hpp"
#include "host/generate/text.hpp"
#include "host/run/run_description.hpp"
#include "host/weights/pretrained/folder_record.hpp"
#include "mneme/abi.h"

namespace mneme::cli {
namespace {

using Kind = ServeRequest::Kind;

// Runs f, which gives an answer; what it throws becomes the answer.
template <typename F>
Json answer_or_error(const Json& id, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const Error& error) {
    return failed_answer(id, error);
  } catch (const std::bad_alloc&) {
    return failed_answer(id, Error(ErrorKind::kRun, "out of memory; try a shorter text"));
  } catch (const std::exception& error) {
    return failed_answer(
        id, Error(ErrorKind::kRun, str("unexpected failure: ", without_trace(error.what()))));
  }
}

Json score_answer(const ServeRequest& request, const std::vector<generate::ScoredToken>& scored) {
  double sum = 0.0;
  bool is_greedy = true;
  Json each = Json::array();
  for (const generate::ScoredToken& one : scored) {
    sum -= one.nll;
    is_greedy = is_greedy && one.is_correct;
    if (request.wants_each) each.push_back(-one.nll);
  }
  const auto all = static_cast<std::int64_t>(request.ids.size());
  Json answer = {{"id", request.id},
                 {"logprob", sum},
                 {"tokens", scored.size()},
                 {"text_tokens", all - request.context},
                 {"is_greedy", is_greedy}};
  if (request.wants_each) answer["logprobs"] = each;
  if (request.unknown > 0) answer["unknown"] = request.unknown;
  return answer;
}

[[noreturn]] void refuse_unpredicted() {
  throw_usage({.where = "key \"text\"",
               .failed = "no token is scored: the first token of a text is predicted by nothing",
               .expected = "a text of at least two tokens, or one behind a context",
               .hint = "give \"context\", or \"bos\": true where the tokenizer has such a token"});
}

}  // namespace

std::unique_ptr<generate::Generator> ServeAnswers::new_text() const {
  return std::make_unique<generate::Generator>(opened_.runtime().model(), opened_.runtime().stack(),
                                               opened_.settings.options);
}

// A stream of rows has no types of tokens: such models read their texts one after another.
bool ServeAnswers::is_batched(const ServeRequest& request) const {
  return request.kind == Kind::kScore && !request.carries &&
         opened_.settings.options.type_marks.empty();
}

// Separate windows are those of lm-evaluation-harness: each predicts as many tokens as a segment has,
// behind one token before them, and the last one is filled up with tokens before it.
std::vector<ServeAnswers::Row> ServeAnswers::rows_of(const ServeRequest& request) const {
  const auto size = static_cast<std::int64_t>(request.ids.size());
  const std::int64_t first = std::max<std::int64_t>(1, request.context);
  if (first >= size) refuse_unpredicted();
  if (!request.has_separate_windows) return {{request.ids, size - first}};
  const std::int64_t window = opened_.runtime().experiment().eval.segment;
  std::vector<Row> rows;
  for (std::int64_t done = first; done < size;) {
    const std::int64_t end = std::min(size, done + window);
    const std::int64_t begin = std::max<std::int64_t>(0, end - 1 - window);
    rows.push_back({{request.ids.begin() + begin, request.ids.begin() + end}, end - done});
    done = end;
  }
  return rows;
}

std::vector<ServeAnswers::Scores> ServeAnswers::score_rows(
    const std::vector<const Row*>& rows) const {
  eval::TokenRows tokens{
      .rows = static_cast<std::int64_t>(rows.size()), .columns = 0, .input = {}, .target = {}};
  for (const Row* row : rows)
    tokens.columns = std::max(tokens.columns, static_cast<std::int64_t>(row->ids.size()) - 1);
  const auto columns = static_cast<std::size_t>(tokens.columns);
  tokens.input.assign(rows.size() * columns, 0);
  tokens.target.assign(rows.size() * columns, data::kNoTarget);
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::vector<std::int32_t>& ids = rows[r]->ids;
    const std::size_t length = ids.size() - 1;
    const auto scored = static_cast<std::size_t>(rows[r]->scored);
    for (std::size_t i = 0; i < length; ++i) {
      tokens.input[r * columns + i] = ids[i];
      if (i >= length - scored) tokens.target[r * columns + i] = ids[i + 1];
    }
    tokens.lengths.push_back(static_cast<std::int64_t>(length));
  }
  run::Runtime& runtime = opened_.runtime();
  const eval::ScoreOptions options{
      .segment = runtime.experiment().eval.segment,
      .lanes = tokens.rows,
      .shares_stream = true,
      .on_progress = [](std::int64_t, std::int64_t) { throw_if_interrupted(); }};
  const eval::RowScores found = eval::score(runtime.model(), runtime.stack(), tokens, options);
  std::vector<Scores> all(rows.size());
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const std::size_t length = rows[r]->ids.size() - 1;
    for (std::size_t i = length - static_cast<std::size_t>(rows[r]->scored); i < length; ++i)
      all[r].push_back({found.nll[r * columns + i], found.correct[r * columns + i] != 0});
  }
  return all;
}

std::vector<ServeAnswers::Scores> ServeAnswers::score(
    const std::vector<const ServeRequest*>& requests) const {
  std::vector<Row> rows;
  std::vector<std::size_t> owner;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (Row& row : rows_of(*requests[i])) {
      rows.push_back(std::move(row));
      owner.push_back(i);
    }
  }
  // Rows of about the same length side by side: little of a batch is padding.
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, [&](std::size_t a, std::size_t b) { return rows[a].ids.size() > rows[b].ids.size(); });
  const auto lanes = static_cast<std::size_t>(opened_.runtime().experiment().eval.lanes);
  std::vector<Scores> of_row(rows.size());
  for (std::size_t from = 0; from < order.size(); from += lanes) {
    std::vector<const Row*> batch;
    for (std::size_t i = from; i < std::min(order.size(), from + lanes); ++i)
      batch.push_back(&rows[order[i]]);
    std::vector<Scores> scored = score_rows(batch);
    for (std::size_t i = 0; i < batch.size(); ++i) of_row[order[from + i]] = std::move(scored[i]);
  }
  std::vector<Scores> all(requests.size());
  for (std::size_t r = 0; r < rows.size(); ++r)
    all[owner[r]].insert(all[owner[r]].end(), of_row[r].begin(), of_row[r].end());
  return all;
}

std::vector<Json> ServeAnswers::score_batch(
    const std::vector<const ServeRequest*>& requests) const {
  std::vector<Json> answers;
  try {
    const std::vector<Scores> scored = score(requests);
    for (std::size_t i = 0; i < requests.size(); ++i)
      answers.push_back(score_answer(*requests[i], scored[i]));
    return answers;
  } catch (const std::exception&) {
    answers.clear();  // one of them is the cause
  }
  for (const ServeRequest* request : requests) {
    answers.push_back(answer_or_error(
        request->id, [&] { return score_answer(*request, score({request}).front()); }));
  }
  return answers;
}

std::vector<Json> ServeAnswers::answer(const std::vector<ServeRequest>& requests) {
  std::vector<Json> answers;
  for (std::size_t i = 0; i < requests.size();) {
    std::vector<const ServeRequest*> batch;
    while (i + batch.size() < requests.size() && is_batched(requests[i + batch.size()]))
      batch.push_back(&requests[i + batch.size()]);
    if (batch.empty()) {
      answers.push_back(answer_one(requests[i++]));
      continue;
    }
    for (Json& one : score_batch(batch)) answers.push_back(std::move(one));
    i += batch.size();
  }
  return answers;
}

Json ServeAnswers::answer_one(const ServeRequest& request) {
  throw_if_interrupted();
  return answer_or_error(request.id, [&]() -> Json {
    if (request.kind == Kind::kDescribe) return describe(request);
    if (request.kind == Kind::kReset) {
      session_.reset();
      return {{"id", request.id}};
    }
    return request.carries ? carry_on(request) : answer_behind(*new_text(), request);
  });
}

Json ServeAnswers::carry_on(const ServeRequest& request) {
  std::optional<generate::Generator::Saved> before;
  if (session_) before = session_->save();
  if (!session_) session_ = new_text();
  try {
    return answer_behind(*session_, request);
  } catch (const std::exception& error) {
    session_.reset();
    if (before) restore_session(*before, error);
    throw;
  }
}

void ServeAnswers::restore_session(const generate::Generator::Saved& before,
                                   const std::exception& cause) {
  try {
    std::unique_ptr<generate::Generator> text = new_text();
    text->restore(before);
    session_ = std::move(text);
  } catch (const std::exception& error) {
    throw_run({.where = "session",
               .failed = str("it could not be restored after this error: ", cause.what()),
               .expected = "the text before the request",
               .got = error.what(),
               .hint = "the session is empty now"});
  }
}

Json ServeAnswers::answer_behind(generate::Generator& text, const ServeRequest& request) const {
  return request.kind == Kind::kScore ? score_behind(text, request)
                                      : generate_behind(text, request);
}

Json ServeAnswers::score_behind(generate::Generator& text, const ServeRequest& request) const {
  if (!request.carries) {  // of a model with types of tokens
    Scores all;
    for (const Row& row : rows_of(request)) {
      const Scores scored = new_text()->score(row.ids);
      all.insert(all.end(), scored.end() - row.scored, scored.end());
    }
    return score_answer(request, all);
  }
  const bool is_first = text.tokens() == 0;
  Scores scored = text.score(request.ids);
  const std::int64_t left_out = std::max<std::int64_t>(0, request.context - (is_first ? 1 : 0));
  scored.erase(scored.begin(),
               scored.begin() + std::min(left_out, static_cast<std::int64_t>(scored.size())));
  if (scored.empty()) refuse_unpredicted();
  return score_answer(request, scored);
}

Json ServeAnswers::generate_behind(generate::Generator& text, const ServeRequest& request) const {
  text.set_seed(request.seed);
  text.set_sampling(request.sampling);
  text.prompt(request.ids);
  generate::SampleText sample(opened_.vocabulary(), opened_.settings.detokenises, request.until);
  sample.follow(request.ids);
  text.generate(request.tokens, [&](std::int64_t, std::int32_t id) {
    throw_if_interrupted();
    if (opened_.settings.ends_with(id)) {
      sample.end_with(id);
      return false;
    }
    static_cast<void>(sample.add(id));
    return !sample.is_stopped();
  });
  static_cast<void>(sample.end());
  Json answer = {{"id", request.id},
                 {"text", sample.text()},
                 {"ids", sample.ids()},
                 {"end", sample.is_stopped()  ? "stop"
                         : sample.is_at_end() ? "eos"
                                              : "tokens"}};
  if (request.unknown > 0) answer["unknown"] = request.unknown;
  return answer;
}

Json ServeAnswers::describe(const ServeRequest& request) const {
  run::Runtime& runtime = opened_.runtime();
  const data::Vocabulary* const vocabulary = opened_.vocabulary();
  const bool has_tokenizer = vocabulary != nullptr && vocabulary->tokenizer() != nullptr;
  const std::vector<std::int32_t>& end = opened_.settings.end.ids;
  Json answer = {
      {"id", request.id},
      {"format", "mneme-serve"},
      {"version", MNEME_SDK_VERSION},
      {"abi", str(MNEME_ABI_MAJOR, '.', MNEME_ABI_MINOR)},
      {"run", arguments_.run.string()},
      {"step", opened_.checkpoint->progress().step},
      {"memory", opened_.memory_name},
      {"plugins", run::to_json(runtime.stack().identities())},
      {"differs_from_run", run::to_json(opened_.sweep->differences())},
      {"device", arguments_.machine.device},
      {"precision", config::to_word(runtime.precision())},
      {"segment", runtime.experiment().eval.segment},
      {"generate_segment", opened_.settings.options.segment},
      {"lanes", runtime.experiment().eval.lanes},
      {"vocabulary",
       {{"kind", vocabulary == nullptr ? "ids" : to_word(vocabulary->kind())},
        {"size", vocabulary == nullptr ? runtime.model().vocabulary() : vocabulary->size()}}},
      {"beginning_ids",
       has_tokenizer ? vocabulary->tokenizer()->beginning() : std::vector<std::int32_t>()},
      {"end_ids", end},
      {"beginning", has_tokenizer ? vocabulary->decode(vocabulary->tokenizer()->beginning()) : ""},
      {"end", has_tokenizer && !end.empty() ? vocabulary->decode({end.data(), 1}) : ""},
      {"session_tokens", session_ ? session_->tokens() : 0},
      {"session_bytes", session_ ? session_->state().bytes() : 0}};
  if (vocabulary != nullptr) answer["vocabulary"]["sha256"] = vocabulary->sha256();
  if (!opened_.untrained.empty()) answer["untrained_parameters"] = opened_.untrained;
  if (const auto record = weights::FolderRecord::find(arguments_.run)) {
    if (const std::string text = record->chat_template_text(); !text.empty())
      answer["chat_template"] = text;
  }
  return answer;
}

}  // namespace mneme::cli
