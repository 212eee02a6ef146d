// [data] task = "text"
#include <algorithm>
#include <utility>

#include "host/base/error.hpp"
#include "host/data/dataset.hpp"
#include "host/data/prepare/prepared.hpp"

namespace mneme::data {
namespace {

// The texts of the splits: a file each, or parts of the training file.
class SplitTexts {
 public:
  SplitTexts(const config::DataConfig& config, VocabularyKind kind)
      : config_(config), kind_(kind) {}

  [[nodiscard]] bool has(Split split) const {
    if (config_.split.empty()) return !path(split).empty();
    return config_.split[static_cast<std::size_t>(split)] > 0.0;
  }
  [[nodiscard]] const std::filesystem::path& path(Split split) const {
    if (split == Split::kTrain || !config_.split.empty()) return config_.train;
    return split == Split::kValid ? config_.valid : config_.test;
  }
  // The split's text, mapped until the next call.
  const std::vector<NamedText>& open(Split split) {
    const bool is_cut = !config_.split.empty();
    const std::filesystem::path& file = path(split);
    files_.emplace(file.empty() ? std::vector<std::filesystem::path>{} : std::vector{file},
                   key_of(is_cut ? Split::kTrain : split));
    texts_ = files_->texts();
    if (is_cut) {
      const auto parts = cut_shares(texts_.front(), config_.split, kind_, documents());
      texts_ = {parts[static_cast<std::size_t>(split)]};
    }
    return texts_;
  }
  [[nodiscard]] DocumentOptions documents() const {
    return {.unit = config_.documents, .mark = config_.document_mark};
  }

 private:
  const config::DataConfig& config_;
  VocabularyKind kind_;
  std::optional<TextFiles> files_;
  std::vector<NamedText> texts_;
};

VocabularyKind kind_of(config::Vocabulary vocabulary) {
  switch (vocabulary) {
    case config::Vocabulary::kByte:
      return VocabularyKind::kByte;
    case config::Vocabulary::kChar:
      return VocabularyKind::kChar;
    case config::Vocabulary::kWord:
      return VocabularyKind::kWord;
    case config::Vocabulary::kGpt2:
      break;
  }
  throw_usage({.where = "data.vocabulary",
               .failed = "this vocabulary is not available",
               .expected = quoted_list({"byte", "char", "word"}),
               .got = str("\"", config::to_word(vocabulary), "\"")});
}

// `owner` says whose vocabulary it is.
void check_kind(const config::DataConfig& config, const Vocabulary& vocabulary,
                const std::string& owner) {
  if (to_word(vocabulary.kind()) != config::to_word(config.vocabulary)) {
    throw_usage({.where = "data.vocabulary",
                 .failed = str("it differs from ", owner),
                 .expected = str("\"", to_word(vocabulary.kind()), "\""),
                 .got = str("\"", config::to_word(config.vocabulary), "\"")});
  }
  if (vocabulary.kind() == VocabularyKind::kWord && vocabulary.adds_eos() != config.add_eos) {
    throw_usage({.where = "data.add_eos",
                 .failed = str("it differs from ", owner),
                 .expected = vocabulary.adds_eos() ? "true" : "false",
                 .got = config.add_eos ? "true" : "false"});
  }
}

Vocabulary build_vocabulary(const config::DataConfig& config, SplitTexts& texts) {
  if (!config.vocabulary_file.empty()) {
    check_data_file(config.vocabulary_file, "data.vocabulary_file", "a vocabulary.json");
    Vocabulary vocabulary = Vocabulary::load(config.vocabulary_file);
    check_kind(config, vocabulary, str("data.vocabulary_file, ", config.vocabulary_file.string()));
    return vocabulary;
  }
  switch (kind_of(config.vocabulary)) {
    case VocabularyKind::kByte:
      break;
    case VocabularyKind::kChar:
      return Vocabulary::characters(texts.open(Split::kTrain));
    case VocabularyKind::kWord:
      return Vocabulary::words(texts.open(Split::kTrain), {.add_eos = config.add_eos,
                                                           .min_count = config.min_count,
                                                           .max_size = config.vocabulary_size});
  }
  return Vocabulary::bytes();
}

}  // namespace

const std::filesystem::path& Dataset::path(Split split) const {
  if (split == Split::kTrain) return config_.train;
  return split == Split::kValid ? config_.valid : config_.test;
}

void Dataset::open_prepared(const DatasetOptions& options) {
  const PreparedFolder folder = PreparedFolder::open(config_.prepared);
  if (options.vocabulary && !(*options.vocabulary == folder.vocabulary())) {
    throw_usage({.where = str("data.prepared: ", config_.prepared.string()),
                 .failed = "the data were prepared with another vocabulary than the run's",
                 .expected = str("the ", options.vocabulary->summary()),
                 .got = str("a ", folder.vocabulary().summary()),
                 .hint = str("prepare the text with the run's vocabulary: mneme data prepare "
                             "--train FILE --vocabulary ",
                             to_word(options.vocabulary->kind()),
                             " --vocabulary-file RUN/vocabulary.json --out DIR")});
  }
  vocabulary_ = folder.vocabulary();
  vocabulary_size_ = vocabulary_->size();
  for (const Split split : options.splits) {
    if (folder.has(split)) slot(split) = std::make_shared<const Corpus>(folder.corpus(split));
  }
}

void Dataset::open_text(const DatasetOptions& options) {
  if (!config_.prepared.empty()) return open_prepared(options);
  SplitTexts texts(config_, kind_of(config_.vocabulary));
  if (options.vocabulary) {
    vocabulary_ = options.vocabulary;
    check_kind(config_, *vocabulary_, "the run's stored vocabulary");
  } else {
    vocabulary_ = build_vocabulary(config_, texts);
  }
  vocabulary_size_ = vocabulary_->size();
  for (const Split split : options.splits) {
    if (!texts.has(split)) continue;
    slot(split) = std::make_shared<const Corpus>(encode_corpus(
        {texts.path(split)}, key_of(split), texts.open(split), *vocabulary_, texts.documents()));
  }
}

}  // namespace mneme::data
