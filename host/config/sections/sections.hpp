// The fields of an experiment file, each listed once: its key, the member that holds it, what it
// may hold and what it means. Reading, writing and `mneme config keys` walk the same lists. Only
// for this folder.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host/config/experiment.hpp"
#include "host/config/toml/schema.hpp"

namespace mneme::config {

inline constexpr RealRange kProbability{.min = 0.0, .max = 1.0, .is_open_max = true};
inline constexpr RealRange kAboveZero{.min = 0.0, .is_open_min = true};
inline constexpr RealRange kFromZero{.min = 0.0};
inline constexpr RealRange kFromOne{.min = 1.0};
inline constexpr IntegerRange kCount{1, 1'000'000'000};  // steps and the like
inline constexpr IntegerRange kCountOrZero{0, 1'000'000'000};
inline constexpr IntegerRange kExtent{1, 1'048'576};  // one extent of a tensor
inline constexpr IntegerRange kExtentOrZero{0, 1'048'576};
inline constexpr IntegerRange kLayers{1, 4096};

// One table of an experiment file that is read into its struct, or written from it.
//
// Reading: a member's value before field() is the default of its key; it stays where the key is
// absent or wrong, and wrong keys go to the reader's problems. Writing: every key that is listed is
// written, except empty lists, texts, paths and optional members, which mean absent keys.
class Fields {
 public:
  explicit Fields(Reader reader) : reader_(std::move(reader)) {}
  // Writes the table at `path`, "" = the root; `header` begins its text.
  Fields(std::string path, std::string header)
      : path_(std::move(path)), header_(std::move(header)) {}

  [[nodiscard]] bool is_reading() const { return reader_.has_value(); }
  // Of a table that is read.
  [[nodiscard]] Reader& reader() { return *reader_; }
  // True while reading, and while writing when `is_written`: for keys that only some files have.
  [[nodiscard]] bool lists(bool is_written) const { return is_reading() || is_written; }

  // `range` bounds a number, or each number of a list. True when a list was read and is right.
  template <typename T, typename... Range>
  bool field(const Key& key, T& value, const Range&... range) {
    if (is_reading()) return read(key, value, range...);
    write(key.name, toml_of(value, range...));
    return false;
  }

  // Reading only: reports a missing key; false when it is missing.
  bool require(std::string_view key, const std::string& what) {
    return !is_reading() || reader_->require(key, what);
  }

  using List = std::function<void(Fields&)>;
  // A table inside this one; not listed where it is absent.
  void table(const Key& key, const List& list);
  // The same, but an absent one is read as an empty one.
  void section(const Key& key, const List& list);
  // An array of tables.
  template <typename T, typename ListOne>
  void tables(const Key& key, std::vector<T>& items, ListOne list) {
    if (is_reading()) {
      for (const Value* table : reader_->tables(key)) {
        Fields inner(reader_->inner(*table));
        list(inner, items.emplace_back());
      }
    } else {
      for (T& item : items) {
        write_inner(key.name, "[[", "]]", [&](Fields& inner) { list(inner, item); });
      }
    }
  }
  // Reading only: reports the keys that are not listed, with the tables that they belong to.
  void finish();

  // Writing only. `key` as it is written before "=", `value` as TOML, "" = an absent key.
  void write(std::string_view key, const std::string& value);
  // Writing only: moves a key's line before that of `other`, if both are written. Checkpoints hold
  // hashes of the written text, whose order differs in places from the order of the lists.
  void put_before(std::string_view key, std::string_view other);
  // What was written.
  [[nodiscard]] std::string text() const;

 private:
  template <typename T, typename... Range>
  bool read(const Key& key, T& value, Range... range) {
    if constexpr (std::is_enum_v<T>) {
      value = reader_->choice(key, value);
    } else if constexpr (std::same_as<T, std::int64_t>) {
      value = reader_->integer(key, value, range...);
    } else if constexpr (std::same_as<T, std::uint64_t>) {
      value = reader_->seed(key, value);
    } else if constexpr (std::same_as<T, double>) {
      value = reader_->real(key, value, range...);
    } else if constexpr (std::same_as<T, std::optional<double>>) {
      value = reader_->optional_real(key, range...);
    } else if constexpr (std::same_as<T, bool>) {
      value = reader_->boolean(key, value);
    } else if constexpr (std::same_as<T, std::string>) {
      value = reader_->text(key, value);
    } else if constexpr (std::same_as<T, std::filesystem::path>) {
      value = reader_->path(key);
    } else if constexpr (std::same_as<T, OneOrMore>) {
      value = reader_->one_or_more(key, range...);
    } else if constexpr (std::same_as<T, std::vector<std::string>>) {
      value = reader_->texts(key);
    } else if constexpr (std::same_as<T, std::vector<std::filesystem::path>>) {
      value = reader_->paths(key);
    } else {
      std::optional<T> list;
      if constexpr (std::same_as<T, std::vector<std::int64_t>>)
        list = reader_->integers(key, range...);
      if constexpr (std::same_as<T, std::vector<double>>) list = reader_->reals(key, range...);
      if constexpr (std::same_as<T, std::vector<bool>>) list = reader_->booleans(key);
      if (list) value = std::move(*list);
      return list.has_value();
    }
    return true;
  }

  // A member as TOML; "" = its key is absent.
  static std::string toml_of(std::int64_t value, IntegerRange range);
  static std::string toml_of(std::uint64_t value);
  static std::string toml_of(double value, RealRange range);
  static std::string toml_of(const std::optional<double>& value, RealRange range);
  static std::string toml_of(bool value);
  static std::string toml_of(const std::string& value);
  static std::string toml_of(const std::filesystem::path& value);
  template <typename T, typename... Range>
  static std::string toml_of(const std::vector<T>& values, const Range&... range) {
    std::string out;
    for (const T& value : values) out += (out.empty() ? "[" : ", ") + toml_of(value, range...);
    return out.empty() ? out : out + ']';
  }
  static std::string toml_of(const OneOrMore& value, IntegerRange range) {
    return value.values.size() == 1 ? toml_of(value.values.front(), range)
                                    : toml_of(value.values, range);
  }
  template <HasWords E>
  static std::string toml_of(E value) {
    return toml_string(to_word(value));
  }

  void write_inner(std::string_view key, std::string_view open, std::string_view close,
                   const List& list);

  std::optional<Reader> reader_;
  std::string path_;
  std::string header_;
  std::vector<std::pair<std::string, std::string>> lines_;  // of this table: keys and values
  std::string inner_;                                       // the text of the tables inside it
};

void list_model(Fields& keys, ModelConfig& model);
// Of list_model, for rotary positions.
void list_rotary(Fields& keys, RotaryConfig& rotary);
void list_memory(Fields& keys, MemoryConfig& memory);
void list_data(Fields& keys, DataConfig& data);
// Of list_data, for generated tasks.
void list_motif(Fields& keys, MotifConfig& motif);
void list_sequences(Fields& keys, DataConfig& data);
void list_train(Fields& keys, TrainConfig& train, const DataConfig& data, const ModelConfig& model);
void list_eval(Fields& keys, EvalConfig& eval, const DataConfig& data, const TrainConfig& train);
void list_generate(Fields& keys, GenerateConfig& generate, const EvalConfig& eval);

// The whole file, with what depends on several sections checked.
[[nodiscard]] Experiment read_experiment(Reader reader, Problems& problems);

// What depends on model and memory together. `model_position` is where messages about the model
// point; it may be empty.
void check_together(const ModelConfig& model, const MemoryConfig& memory,
                    const Position& model_position, Problems& problems);

}  // namespace mneme::config
