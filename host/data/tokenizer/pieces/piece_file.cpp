#include "host/data/tokenizer/pieces/piece_file.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/utf8.hpp"
#include "host/data/tokenizer/decoder.hpp"
#include "host/data/tokenizer/pieces/wire_message.hpp"
#include "host/data/tokenizer/token_model.hpp"

namespace mneme::data {
namespace {

constexpr std::size_t kLongestPiece = 1024;  // bytes
constexpr std::size_t kMostPieces = std::size_t{1} << 24;

// Fields by number, of sentencepiece_model.proto.
constexpr std::uint32_t kPieces = 1, kTrainer = 2, kNormalizer = 3, kDenormalizer = 5;
constexpr std::uint32_t kText = 1, kScore = 2, kKind = 3;
constexpr std::uint32_t kModelType = 3, kSpacesBehind = 24, kByteFallback = 35, kBeginId = 41,
                        kBeginPiece = 46;
constexpr std::uint32_t kCharsmap = 2, kAddsSpace = 3, kRemovesSpaces = 4, kMarksSpaces = 5;

// What the file says of the begin of a text, before its piece is looked for.
struct Begin {
  std::string text = "<s>";
  bool is_absent = false;
};

Piece read_piece(WireMessage message) {
  Piece piece;
  while (message.next()) {
    if (message.number() == kText) {
      piece.text = message.text("piece");
    } else if (message.number() == kScore) {
      piece.score = message.real("score");
      if (!std::isfinite(piece.score)) {
        message.refuse("score", "a finite number", str(static_cast<double>(piece.score)));
      }
    } else if (message.number() == kKind) {
      const std::uint64_t kind = message.integer("type");
      if (kind < 1 || kind > 6) message.refuse("type", "an integer from 1 to 6", str(kind));
      piece.kind = static_cast<PieceKind>(kind);
    }
  }
  return piece;
}

void read_trainer(WireMessage message, PieceFile& file, Begin& begin) {
  while (message.next()) {
    switch (message.number()) {
      case kModelType: {
        const std::uint64_t type = message.integer("model_type");
        if (type != 1 && type != 2) {
          message.refuse("model_type", "1 (unigram) or 2 (byte pair encoding)",
                         type == 3   ? "3 (words)"
                         : type == 4 ? "4 (characters)"
                                     : str(type));
        }
        file.is_unigram = type == 1;
        break;
      }
      case kSpacesBehind:
        if (message.flag("treat_whitespace_as_suffix")) {
          message.refuse("treat_whitespace_as_suffix", "false", "true");
        }
        break;
      case kByteFallback:
        file.falls_back_to_bytes = message.flag("byte_fallback");
        break;
      case kBeginId:  // -1 = none
        begin.is_absent = static_cast<std::int32_t>(message.integer("bos_id")) < 0;
        break;
      case kBeginPiece:
        begin.text = message.text("bos_piece");
        break;
      default:
        break;
    }
  }
}

void read_normalizer(WireMessage message, PieceFile& file) {
  while (message.next()) {
    switch (message.number()) {
      case kCharsmap:
        file.charsmap = message.text("precompiled_charsmap");
        break;
      case kAddsSpace:
        file.adds_space = message.flag("add_dummy_prefix");
        break;
      case kRemovesSpaces:
        file.removes_extra_spaces = message.flag("remove_extra_whitespaces");
        break;
      case kMarksSpaces:
        file.marks_spaces = message.flag("escape_whitespaces");
        break;
      default:
        break;
    }
  }
}

void refuse_denormalizer(WireMessage message) {
  while (message.next()) {
    if (message.number() != kCharsmap || message.text("precompiled_charsmap").empty()) continue;
    message.refuse("precompiled_charsmap", "no rules for decoded texts",
                   str(message.text("precompiled_charsmap").size(), " bytes of them"));
  }
}

// --- Pieces that agree with each other ---

class PieceCheck {
 public:
  PieceCheck(PieceFile& file, const std::string& name, const Begin& begin)
      : file_(file), name_(name), begin_(begin) {}

  void run() {
    if (file_.pieces.empty()) fail(name_, "the file has no pieces", "pieces", "none");
    std::vector<bool> bytes(256, false);
    bool has_unknown = false;
    for (std::size_t id = 0; id < file_.pieces.size(); ++id) {
      const Piece& piece = file_.pieces[id];
      check_text(piece, id);
      if (piece.kind == PieceKind::kByte) bytes[byte_of(piece, id)] = true;
      if (piece.kind == PieceKind::kUnused && !file_.is_unigram) {
        fail(place(id), "an unused piece is not read in byte pair encoding",
             "a piece of another type", "type 5");
      }
      if (piece.kind == PieceKind::kControl && piece.text == begin_.text && !begin_.is_absent) {
        file_.begin = static_cast<std::int32_t>(id);
      }
      if (piece.kind != PieceKind::kUnknownPiece) continue;
      if (has_unknown) {
        fail(place(id), "the file has two unknown pieces", "one piece of type 2",
             str("pieces ", file_.unknown, " and ", id));
      }
      has_unknown = true;
      file_.unknown = static_cast<std::int32_t>(id);
    }
    if (!has_unknown) fail(name_, "the file has no unknown piece", "one piece of type 2", "none");
    if (!file_.falls_back_to_bytes) return;
    const auto absent = std::ranges::find(bytes, false);
    if (absent == bytes.end()) return;
    fail(name_, "byte_fallback is set, but a byte has no piece", "256 pieces of type 6",
         str("none for ", byte_token(static_cast<int>(absent - bytes.begin()))));
  }

 private:
  [[noreturn]] static void fail(const std::string& where, const std::string& failed,
                                const std::string& expected, const std::string& got) {
    throw_usage({.where = where, .failed = failed, .expected = expected, .got = got});
  }
  [[nodiscard]] std::string place(std::size_t id) const { return str(name_, ": pieces[", id, "]"); }

  void check_text(const Piece& piece, std::size_t id) {
    const std::string& text = piece.text;
    if (text.empty()) fail(place(id), "a piece is empty", "at least one character", "\"\"");
    if (text.size() > kLongestPiece) {
      fail(place(id), "a piece is too long", str("at most ", kLongestPiece, " bytes"),
           str(text.size(), " bytes"));
    }
    if (!is_utf8(text) || text.find('\0') != text.npos) {
      fail(place(id), "a piece is no text", "UTF-8 without NUL", str('"', printable(text), '"'));
    }
    const auto [first, is_new] = ids_.emplace(text, id);
    if (is_new) return;
    fail(place(id), "two pieces have the same text", "pieces that differ",
         str('"', text, "\" as pieces ", first->second, " and ", id));
  }

  [[nodiscard]] std::size_t byte_of(const Piece& piece, std::size_t id) const {
    const int byte = byte_of_token(piece.text);
    if (byte < 0 || byte_token(byte) != piece.text) {
      fail(place(id), "a piece of type 6 is no byte", "<0x00> to <0xFF>",
           str('"', piece.text, '"'));
    }
    if (!file_.falls_back_to_bytes) {
      fail(place(id), "a piece of a byte, but byte_fallback is not set", "no piece of type 6",
           str('"', piece.text, '"'));
    }
    return static_cast<std::size_t>(byte);
  }

  PieceFile& file_;
  const std::string& name_;
  const Begin& begin_;
  std::unordered_map<std::string_view, std::size_t> ids_;
};

// The characters of pieces, by text.
class MergeFinder {
 public:
  MergeFinder(const PieceFile& file, std::vector<std::string>& hidden)
      : file_(file), hidden_(hidden) {
    for (std::size_t id = 0; id < file.pieces.size(); ++id) {
      ids_.emplace(file.pieces[id].text, static_cast<std::int32_t>(id));
    }
  }

  // Appends the pairs that give the piece.
  void add(std::int32_t id, std::vector<Merge>& merges) {
    const std::string_view text = file_.pieces[static_cast<std::size_t>(id)].text;
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if (is_continuation(text[cut])) continue;
      const std::int32_t left = part(text.substr(0, cut));
      const std::int32_t right = left < 0 ? -1 : part(text.substr(cut));
      if (right >= 0) merges.push_back({left, right, id});
    }
  }

 private:
  // The id of a part of a piece; -1 for what merging never gives.
  std::int32_t part(std::string_view text) {
    const bool is_character = decode_utf8(text, 0).bytes == text.size();
    const auto found = ids_.find(text);
    if (found != ids_.end()) {
      const PieceKind kind = file_.pieces[static_cast<std::size_t>(found->second)].kind;
      const bool is_merged = kind == PieceKind::kNormal;
      return is_merged || (is_character && kind != PieceKind::kUserDefined) ? found->second : -1;
    }
    if (!is_character) return -1;
    const auto next = static_cast<std::int32_t>(file_.pieces.size() + hidden_.size());
    const auto [place, is_new] = hidden_ids_.emplace(text, next);
    if (is_new) hidden_.emplace_back(text);
    return place->second;
  }

  const PieceFile& file_;
  std::vector<std::string>& hidden_;
  std::unordered_map<std::string_view, std::int32_t> ids_;
  std::unordered_map<std::string, std::int32_t> hidden_ids_;
};

}  // namespace

PieceFile read_piece_file(std::string_view bytes, const std::string& file) {
  PieceFile out;
  Begin begin;
  WireMessage message(bytes, file);
  while (message.next()) {
    if (message.number() == kPieces) {
      const std::string name = str("pieces[", out.pieces.size(), "]");
      if (out.pieces.size() == kMostPieces) {
        message.refuse(name, str("at most ", kMostPieces, " pieces"), "more");
      }
      out.pieces.push_back(read_piece(message.message(name)));
    } else if (message.number() == kTrainer) {
      read_trainer(message.message("trainer_spec"), out, begin);
    } else if (message.number() == kNormalizer) {
      read_normalizer(message.message("normalizer_spec"), out);
    } else if (message.number() == kDenormalizer) {
      refuse_denormalizer(message.message("denormalizer_spec"));
    }
  }
  PieceCheck(out, file, begin).run();
  return out;
}

std::vector<Merge> merges_of(const PieceFile& file, std::vector<std::string>& hidden) {
  std::vector<std::int32_t> order;
  for (std::size_t id = 0; id < file.pieces.size(); ++id) {
    if (file.pieces[id].kind == PieceKind::kNormal) order.push_back(static_cast<std::int32_t>(id));
  }
  const auto score = [&](std::int32_t id) {
    return file.pieces[static_cast<std::size_t>(id)].score;
  };
  std::ranges::stable_sort(order,
                           [&](std::int32_t a, std::int32_t b) { return score(a) > score(b); });
  std::vector<Merge> merges;
  MergeFinder finder(file, hidden);
  for (const std::int32_t id : order) {
    const std::size_t first = merges.size();
    finder.add(id, merges);
    for (std::size_t i = std::max<std::size_t>(first, 1); i < merges.size(); ++i) {
      merges[i].ties = score(merges[i - 1].result) == score(id);
    }
  }
  return merges;
}

}  // namespace mneme::data
