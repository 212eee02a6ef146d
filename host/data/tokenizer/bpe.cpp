#include "host/data/tokenizer/bpe.hpp"

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <queue>
#include <utility>

#include "host/base/text.hpp"
#include "host/base/utf8.hpp"

namespace mneme::data {
namespace {

constexpr std::uint32_t kNoRank = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint64_t kNoPair = std::numeric_limits<std::uint64_t>::max();
constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581
constexpr std::size_t kKeptWordBytes = 64;
constexpr std::size_t kKeptWords = std::size_t{1} << 16;
constexpr std::size_t kShortWord =
    32;  // symbols up to which the least rank is looked for one by one

std::uint64_t pair_of(std::int32_t left, std::int32_t right) {
  return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32) |
         static_cast<std::uint32_t>(right);
}

std::size_t mixed(std::uint64_t pair) {
  pair *= 0x9E3779B97F4A7C15ULL;
  return static_cast<std::size_t>(pair ^ (pair >> 32));
}

}  // namespace

Bpe::Bpe(std::vector<std::string> tokens, const std::vector<Merge>& merges,
         const BpeSettings& settings, const std::vector<std::string>& hidden)
    : TokenModel(std::move(tokens)),
      settings_(settings),
      byte_ids_(ids_of_bytes()),
      hidden_(hidden) {
  character_ids_.fill(-1);
  const auto add_character = [&](std::string_view text, std::int32_t id) {
    const CodePoint point = text.empty() ? CodePoint{} : decode_utf8(text, 0);
    const bool is_character = point.bytes > 0 && point.bytes == text.size();
    if (is_character && point.value < character_ids_.size()) character_ids_[point.value] = id;
  };
  for (std::int32_t id = 0; id < size(); ++id) add_character(token(id), id);
  for (std::size_t i = 0; i < hidden_.size(); ++i) {
    const std::int32_t id = size() + static_cast<std::int32_t>(i);
    add_character(hidden_[i], id);
    hidden_ids_.emplace(hidden_[i], id);
  }
  slots_.assign(std::bit_ceil(2 * merges.size() + 2), Slot{kNoPair, kNoRank, -1});
  std::uint32_t rank = 0;
  for (std::size_t m = 0; m < merges.size(); ++m) {
    if (m > 0 && !merges[m].ties) ++rank;
    const std::uint64_t pair = pair_of(merges[m].left, merges[m].right);
    std::size_t i = mixed(pair) & (slots_.size() - 1);
    while (slots_[i].pair != kNoPair && slots_[i].pair != pair) i = (i + 1) & (slots_.size() - 1);
    slots_[i] = {pair, rank, merges[m].result};
  }
  find_cuts(merges);
}

void Bpe::find_cuts(const std::vector<Merge>& merges) {
  const bool has_all_bytes =
      settings_.falls_back_to_bytes && std::ranges::find(byte_ids_, -1) == byte_ids_.end();
  // A merge reaches over a character that is left out.
  has_cuts_ = (settings_.unknown || has_all_bytes) && find(kSpaceMark).has_value();
  // A merge of what stands for unknown characters could reach over any place.
  std::unordered_set<std::int32_t> stand_ins(byte_ids_.begin(), byte_ids_.end());
  if (settings_.unknown) stand_ins.insert(*settings_.unknown);
  for (const Merge& merge : merges) {
    if (stand_ins.contains(merge.left) || stand_ins.contains(merge.right)) has_cuts_ = false;
  }
  if (!has_cuts_) return;
  for (const std::string& token : tokens()) {
    for (std::size_t i = token.find(kSpaceMark, 1); i < token.size();
         i = token.find(kSpaceMark, i + 1)) {
      before_space_.insert(
          decode_utf8(token, start_of_last_character(std::string_view(token).substr(0, i))).value);
    }
  }
}

std::int32_t Bpe::find_character(std::string_view character, char32_t value) const {
  if (value < character_ids_.size()) return character_ids_[value];
  if (const auto id = find(character)) return *id;
  const auto hidden = hidden_ids_.find(character);
  return hidden == hidden_ids_.end() ? -1 : hidden->second;
}

// A free slot where the pair is not merged.
const Bpe::Slot& Bpe::find_pair(std::int32_t left, std::int32_t right) const {
  const std::uint64_t pair = pair_of(left, right);
  std::size_t i = mixed(pair) & (slots_.size() - 1);
  while (slots_[i].pair != pair && slots_[i].pair != kNoPair) i = (i + 1) & (slots_.size() - 1);
  return slots_[i];
}

std::int64_t Bpe::encode(std::string_view word, std::vector<std::int32_t>& ids) {
  if (!has_cuts_ || settings_.ignores_merges) return encode_part(word, ids);
  std::int64_t unknown = 0;
  std::size_t begin = 0;
  for (std::size_t i = word.find(kSpaceMark, 1); i < word.size();
       i = word.find(kSpaceMark, i + 1)) {
    const std::size_t before = start_of_last_character(word.substr(0, i));
    if (before_space_.contains(decode_utf8(word, before).value)) continue;
    unknown += encode_part(word.substr(begin, i - begin), ids);
    begin = i;
  }
  return unknown + encode_part(word.substr(begin), ids);
}

std::int64_t Bpe::encode_part(std::string_view word, std::vector<std::int32_t>& ids) {
  if (word.empty()) return 0;
  if (settings_.ignores_merges) {
    if (const auto id = find(word)) {
      ids.push_back(*id);
      return 0;
    }
  }
  if (word.size() > kKeptWordBytes) return merge_word(word, ids);
  if (const auto found = kept_.find(word); found != kept_.end()) {
    const auto begin = kept_ids_.begin() + found->second.begin;
    ids.insert(ids.end(), begin, begin + found->second.count);
    return found->second.unknown;
  }
  if (kept_.size() >= kKeptWords) {
    kept_.clear();
    kept_ids_.clear();
  }
  const std::size_t before = ids.size();
  const std::int64_t unknown = merge_word(word, ids);
  kept_.emplace(word, Kept{static_cast<std::uint32_t>(kept_ids_.size()),
                           static_cast<std::uint32_t>(ids.size() - before), unknown});
  kept_ids_.insert(kept_ids_.end(), ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end());
  return unknown;
}

std::int64_t Bpe::merge_word(std::string_view word, std::vector<std::int32_t>& ids) {
  symbols_.clear();
  const std::int64_t unknown = append_symbols(word, symbols_);
  symbols_.size() <= kShortWord ? merge_short(symbols_) : merge_long(symbols_);
  if (!hidden_.empty()) return unknown + append_merged(ids);
  ids.insert(ids.end(), symbols_.begin(), symbols_.end());
  return unknown;
}

// Appends the merged symbols. Hidden characters that are left over become what characters become
// that the vocabulary lacks; returns how many it had to give up.
std::int64_t Bpe::append_merged(std::vector<std::int32_t>& ids) const {
  std::int64_t unknown = 0;
  std::int32_t last = -1;
  const auto push = [&](std::int32_t id) {
    const bool is_fused = settings_.fuses_unknown && id == last && id == settings_.unknown;
    if (!is_fused) ids.push_back(id);
    last = id;
  };
  for (const std::int32_t symbol : symbols_) {
    if (symbol < size()) {
      push(symbol);
    } else if (settings_.falls_back_to_bytes) {
      for (const char byte : hidden_[static_cast<std::size_t>(symbol - size())]) {
        push(byte_ids_[static_cast<unsigned char>(byte)]);
      }
    } else {
      ++unknown;
      if (settings_.unknown) push(*settings_.unknown);
    }
  }
  return unknown;
}

std::int64_t Bpe::append_symbols(std::string_view word, std::vector<std::int32_t>& symbols) const {
  std::int64_t unknown = 0;
  // One unknown token waits until the next character of the vocabulary: tokens of bytes pass it, as
  // they do in PyPI tokenizers.
  bool is_waiting = false;
  const auto flush = [&] {
    if (is_waiting) symbols.push_back(*settings_.unknown);
    is_waiting = false;
  };
  for (std::size_t i = 0; i < word.size();) {
    const CodePoint point = decode_utf8(word, i);
    const std::string_view character = word.substr(i, point.bytes);
    i += point.bytes;
    const std::int32_t id = find_character(character, point.value);
    if (id >= 0) {
      flush();
      symbols.push_back(id);
      continue;
    }
    const auto byte_id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
    const bool has_bytes =
        settings_.falls_back_to_bytes &&
        std::all_of(character.begin(), character.end(), [&](char c) { return byte_id(c) >= 0; });
    if (has_bytes) {
      for (const char byte : character) symbols.push_back(byte_id(byte));
      continue;
    }
    if (settings_.missing_unknown) {
      ErrorText error = *settings_.missing_unknown;
      error.got = str("the character \"", character, "\"");
      throw_usage(error);
    }
    ++unknown;
    if (!settings_.unknown) continue;
    if (!settings_.fuses_unknown) flush();
    is_waiting = true;
  }
  flush();
  return unknown;
}

void Bpe::merge_short(std::vector<std::int32_t>& symbols) const {
  std::array<std::uint32_t, kShortWord> ranks{};  // of the pair that begins at each symbol
  std::size_t size = symbols.size();
  for (std::size_t i = 0; i + 1 < size; ++i) ranks[i] = rank(symbols[i], symbols[i + 1]);
  while (size > 1) {
    const auto end = ranks.begin() + static_cast<std::ptrdiff_t>(size - 1);
    const auto least = std::min_element(ranks.begin(), end);
    if (*least == kNoRank) break;
    const auto at = static_cast<std::size_t>(least - ranks.begin());
    symbols[at] = merged(symbols[at], symbols[at + 1]);
    for (std::size_t i = at + 1; i + 1 < size; ++i) symbols[i] = symbols[i + 1];
    for (std::size_t i = at; i + 2 < size; ++i) ranks[i] = ranks[i + 1];
    --size;
    if (at + 1 < size) ranks[at] = rank(symbols[at], symbols[at + 1]);
    if (at > 0) ranks[at - 1] = rank(symbols[at - 1], symbols[at]);
  }
  symbols.resize(size);
}

// Least rank first, leftmost of equals, as merge_short; entries of pairs that have changed since
// are skipped.
void Bpe::merge_long(std::vector<std::int32_t>& symbols) const {
  constexpr std::uint32_t kEnd = std::numeric_limits<std::uint32_t>::max();
  const std::size_t size = symbols.size();
  std::vector<std::uint32_t> next(size);
  std::vector<std::uint32_t> previous(size);
  std::vector<std::uint32_t> ranks(size, kNoRank);  // kNoRank too where a symbol is gone
  std::vector<std::uint64_t> entries;
  for (std::size_t i = 0; i < size; ++i) {
    next[i] = i + 1 < size ? static_cast<std::uint32_t>(i + 1) : kEnd;
    previous[i] = i > 0 ? static_cast<std::uint32_t>(i - 1) : kEnd;
    if (i + 1 < size) ranks[i] = rank(symbols[i], symbols[i + 1]);
    if (ranks[i] != kNoRank) entries.push_back((static_cast<std::uint64_t>(ranks[i]) << 32) | i);
  }
  std::priority_queue<std::uint64_t, std::vector<std::uint64_t>, std::greater<>> queue(
      std::greater<>(), std::move(entries));
  const auto rank_again = [&](std::uint32_t at) {
    ranks[at] = next[at] == kEnd ? kNoRank : rank(symbols[at], symbols[next[at]]);
    if (ranks[at] != kNoRank) queue.push((static_cast<std::uint64_t>(ranks[at]) << 32) | at);
  };
  while (!queue.empty()) {
    const std::uint64_t entry = queue.top();
    queue.pop();
    const auto at = static_cast<std::uint32_t>(entry & 0xFFFF'FFFFU);
    const auto entry_rank = static_cast<std::uint32_t>(entry >> 32);
    if (ranks[at] != entry_rank) continue;
    const std::uint32_t right = next[at];
    symbols[at] = merged(symbols[at], symbols[right]);
    ranks[right] = kNoRank;
    next[at] = next[right];
    if (next[at] != kEnd) previous[next[at]] = at;
    rank_again(at);
    if (previous[at] != kEnd) rank_again(previous[at]);
  }
  std::size_t count = 0;
  for (std::uint32_t i = 0; i != kEnd; i = next[i]) symbols[count++] = symbols[i];
  symbols.resize(count);
}

}  // namespace mneme::data
