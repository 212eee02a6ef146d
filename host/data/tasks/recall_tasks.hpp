// Generated tasks whose answers are copies of earlier tokens: copy, selective copy, needle in a
// haystack, multi-query associative recall, recall over documents.
//
// Symbols, keys and values that are asked for are drawn uniformly and independently, so a model
// that does not see the source of a question has accuracy 1 / alphabet (1 / values) at best. Which
// sequences are asked within one segment varies: a layer learns to look things up only where
// gradients reach what it reads, and cached rows are detached.
#pragma once

#include <memory>

#include "host/config/experiment.hpp"
#include "host/data/tasks/answer_task.hpp"

namespace mneme::data {

// The task that data.task names; nullptr when config::is_recall is false. Errors as AnswerTask's.
[[nodiscard]] std::unique_ptr<AnswerTask> make_recall_task(const config::DataConfig& data);

}  // namespace mneme::data
