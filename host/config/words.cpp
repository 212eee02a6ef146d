#include "host/config/words.hpp"

namespace mneme::config {

std::string_view to_word(Backbone value) { return word_of(value, kBackboneWords); }
std::string_view to_word(PositionScheme value) { return word_of(value, kPositionWords); }
std::string_view to_word(Norm value) { return word_of(value, kNormWords); }
std::string_view to_word(EmbeddingScale value) { return word_of(value, kEmbeddingScaleWords); }
std::string_view to_word(Init value) { return word_of(value, kInitWords); }
std::string_view to_word(Carry value) { return word_of(value, kCarryWords); }
std::string_view to_word(Feed value) { return word_of(value, kFeedWords); }
std::string_view to_word(Task value) { return word_of(value, kTaskWords); }
std::string_view to_word(Vocabulary value) { return word_of(value, kVocabularyWords); }
std::string_view to_word(Reset value) { return word_of(value, kResetWords); }
std::string_view to_word(Documents value) { return word_of(value, kDocumentsWords); }
std::string_view to_word(Optimizer value) { return word_of(value, kOptimizerWords); }
std::string_view to_word(Schedule value) { return word_of(value, kScheduleWords); }
std::string_view to_word(Precision value) { return word_of(value, kPrecisionWords); }

}  // namespace mneme::config
