#include "host/data/corpus/id_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
#include "host/base/file/checksum.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/base/text.hpp"

namespace mneme::data {
namespace {

// The header is written last, when the sizes are known, into a place that is kept free for it.
constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kHeaderBytes = 504;
constexpr std::size_t kWriteBytes = std::size_t{1} << 20;

DType dtype_of(int width) {
  if (width == 1) return DType::U8;
  return width == 2 ? DType::U16 : DType::I32;
}

int width_of(DType dtype) {
  if (dtype == DType::U8) return 1;
  if (dtype == DType::U16) return 2;
  return dtype == DType::I32 ? 4 : 0;
}

[[noreturn]] void refuse_tensor(const std::filesystem::path& path, const std::string& tensor,
                                const std::string& expected, const std::string& got) {
  throw_usage({.where = str(path.string(), ": tensor ", tensor),
               .failed = "the prepared file is damaged",
               .expected = expected,
               .got = got,
               .hint = "prepare the data again"});
}

// What stands before the ids: the header's length and the header. Without documents their tensor is
// left out.
std::string file_start(std::int64_t tokens, int width, std::optional<std::size_t> documents) {
  const std::int64_t end = tokens * width;
  Json json;
  json["__metadata__"] = {{"format", "mneme.ids"}, {"revision", "1"}};
  json["tokens"] = {
      {"dtype", dtype_name(dtype_of(width))}, {"shape", {tokens}}, {"data_offsets", {0, end}}};
  if (documents) {
    const auto bytes = static_cast<std::int64_t>(*documents * sizeof(std::int64_t));
    json["documents"] = {
        {"dtype", "I64"}, {"shape", {*documents}}, {"data_offsets", {end, end + bytes}}};
  }
  std::string header = json.dump();
  header.resize(kHeaderBytes, ' ');  // three numbers of 19 digits fit twice
  std::string start(kLengthBytes, '\0');
  const std::uint64_t length = kHeaderBytes;
  std::memcpy(start.data(), &length, sizeof length);
  return start + header;
}

std::string tensor_text(const TensorView* tensor) {
  return tensor == nullptr ? "none" : str(dtype_name(tensor->dtype), list_text(tensor->shape));
}

}  // namespace

IdFileWriter::IdFileWriter(std::filesystem::path path, std::int64_t vocabulary_size,
                           std::function<void(std::int64_t)> on_write)
    : path_(std::move(path)), width_(token_width(vocabulary_size)), on_write_(std::move(on_write)) {
  file_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (file_.get() < 0) fail(errno);
  waiting_.resize(kLengthBytes + kHeaderBytes);
}

void IdFileWriter::fail(int code) const {
  throw_run({.where = path_.string(),
             .failed = str("cannot write: ", std::generic_category().message(code)),
             .hint = "free space or choose another --out; nothing half-written is kept"});
}

void IdFileWriter::write(std::span<const std::int32_t> ids) {
  append_narrow(ids, width_, waiting_);
  if (waiting_.size() < kWriteBytes) return;
  put(waiting_);
  waiting_.clear();
  if (on_write_) on_write_(count());
}

void IdFileWriter::put(std::span<const std::byte> bytes) {
  if (const int code = write_bytes(file_.get(), bytes); code != 0) fail(code);
}

void IdFileWriter::write_start(const std::string& start) {
  if (::lseek(file_.get(), 0, SEEK_SET) != 0) fail(errno);
  put(std::as_bytes(std::span(start)));
  if (::fsync(file_.get()) != 0) fail(errno);
  if (file_.close() != 0) fail(errno);
}

void IdFileWriter::write_rest() {
  flush();
  put(waiting_);
  waiting_.clear();
}

void IdFileWriter::finish(const std::vector<std::int64_t>& documents) {
  write_rest();
  put(std::as_bytes(std::span(documents)));
  write_start(file_start(count(), width_, documents.size()));
}

void IdFileWriter::finish() {
  write_rest();
  write_start(file_start(count(), width_, std::nullopt));
}

IdFile open_id_file(const std::filesystem::path& path) {
  IdFile out;
  out.path = path;
  try {
    out.file = std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path));
  } catch (const Error& error) {  // the user's input, so wrong use rather than a failed run
    throw Error(ErrorKind::kUsage, error.what(), "prepare the data again");
  }
  const TensorView* const tokens = out.file->find("tokens");
  if (tokens == nullptr || tokens->shape.size() != 1 || width_of(tokens->dtype) == 0 ||
      tokens->elements() == 0) {
    refuse_tensor(path, "tokens", "[n] of U8, U16 or I32 with at least one id",
                  tensor_text(tokens));
  }
  out.tokens = {out.file, tokens->data, tokens->elements(), width_of(tokens->dtype)};
  out.documents = out.file->find("documents");
  return out;
}

std::vector<std::int64_t> read_documents(const IdFile& file, std::int64_t tokens) {
  const TensorView* const view = file.documents;
  if (view == nullptr || view->shape.size() != 1 || view->dtype != DType::I64 ||
      view->elements() == 0) {
    refuse_tensor(file.path, "documents", "[d] of I64 with at least one place", tensor_text(view));
  }
  std::vector<std::int64_t> documents(static_cast<std::size_t>(view->elements()));
  std::memcpy(documents.data(), view->data, view->bytes);
  std::int64_t least = 0;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const bool is_first_wrong = i == 0 && documents[i] != 0;
    if (documents[i] < least || documents[i] >= tokens || is_first_wrong) {
      refuse_tensor(file.path, str("documents[", i, "]"),
                    i == 0 ? "0" : str("from ", least, " to ", tokens - 1), str(documents[i]));
    }
    least = documents[i] + 1;
  }
  return documents;
}

Corpus read_id_file(const std::filesystem::path& path) {
  const IdFile file = open_id_file(path);
  Corpus corpus;
  corpus.files = {path};
  corpus.tokens = file.tokens;
  corpus.documents = read_documents(file, corpus.size());
  return corpus;
}

std::string id_file_sha256(const TokenArray& tokens, const std::vector<std::int64_t>& documents) {
  Sha256 digest;
  digest.update(file_start(tokens.size(), tokens.width(), documents.size()));
  for (const std::span<const std::byte> piece : tokens.pieces()) digest.update(piece);
  digest.update(std::as_bytes(std::span(documents)));
  return digest.hex();
}

}  // namespace mneme::data
