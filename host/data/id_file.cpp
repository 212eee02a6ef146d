#include "host/data/id_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "host/base/error.hpp"
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

std::vector<std::int64_t> read_documents(const std::filesystem::path& path, const TensorView& view,
                                         std::int64_t tokens) {
  std::vector<std::int64_t> documents(static_cast<std::size_t>(view.elements()));
  if (!documents.empty()) std::memcpy(documents.data(), view.data, view.bytes);
  std::int64_t least = 0;
  for (std::size_t i = 0; i < documents.size(); ++i) {
    const bool is_first_wrong = i == 0 && documents[i] != 0;
    if (documents[i] < least || documents[i] >= tokens || is_first_wrong) {
      refuse_tensor(path, str("documents[", i, "]"),
                    i == 0 ? "0" : str("from ", least, " to ", tokens - 1), str(documents[i]));
    }
    least = documents[i] + 1;
  }
  return documents;
}

}  // namespace

IdFileWriter::IdFileWriter(std::filesystem::path path, std::int64_t vocabulary_size,
                           std::function<void(std::int64_t)> on_write)
    : path_(std::move(path)), width_(token_width(vocabulary_size)), on_write_(std::move(on_write)) {
  file_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail(errno);
  waiting_.resize(kLengthBytes + kHeaderBytes);
}

IdFileWriter::~IdFileWriter() {
  if (file_ >= 0) ::close(file_);
}

void IdFileWriter::fail(int code) const {
  throw_run({.where = path_.string(),
             .failed = str("cannot write: ", std::generic_category().message(code)),
             .hint = "free space or choose another --out; nothing half-written is kept"});
}

void IdFileWriter::write(std::span<const std::int32_t> ids) {
  append_narrow(ids, width_, waiting_);
  if (waiting_.size() < kWriteBytes) return;
  write_bytes(waiting_);
  waiting_.clear();
  if (on_write_) on_write_(count());
}

void IdFileWriter::write_bytes(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(file_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(errno);
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

std::string IdFileWriter::header(std::size_t documents) const {
  const std::int64_t end = count() * width_;
  Json json;
  json["__metadata__"] = {{"format", "mneme.ids"}, {"revision", "1"}};
  json["tokens"] = {
      {"dtype", dtype_name(dtype_of(width_))}, {"shape", {count()}}, {"data_offsets", {0, end}}};
  json["documents"] = {
      {"dtype", "I64"},
      {"shape", {documents}},
      {"data_offsets", {end, end + static_cast<std::int64_t>(documents * sizeof(std::int64_t))}}};
  std::string text = json.dump();
  text.resize(kHeaderBytes, ' ');  // three numbers of 19 digits fit twice
  return text;
}

void IdFileWriter::finish(const std::vector<std::int64_t>& documents) {
  flush();
  write_bytes(waiting_);
  waiting_.clear();
  write_bytes(std::as_bytes(std::span(documents)));
  std::string start(kLengthBytes, '\0');
  const std::uint64_t length = kHeaderBytes;
  std::memcpy(start.data(), &length, sizeof length);
  start += header(documents.size());
  if (::lseek(file_, 0, SEEK_SET) != 0) fail(errno);
  write_bytes(std::as_bytes(std::span(start)));
  if (::fsync(file_) != 0) fail(errno);
  if (::close(std::exchange(file_, -1)) != 0) fail(errno);
}

Corpus read_id_file(const std::filesystem::path& path) {
  const auto file = [&] {
    try {
      return std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path));
    } catch (const Error& error) {  // the user's input, so wrong use rather than a failed run
      throw Error(ErrorKind::kUsage, error.what(), "prepare the data again");
    }
  }();
  const TensorView* const tokens = file->find("tokens");
  const TensorView* const documents = file->find("documents");
  if (tokens == nullptr || tokens->shape.size() != 1 || width_of(tokens->dtype) == 0 ||
      tokens->elements() == 0) {
    refuse_tensor(
        path, "tokens", "[n] of U8, U16 or I32 with at least one id",
        tokens == nullptr ? "none" : str(dtype_name(tokens->dtype), list_text(tokens->shape)));
  }
  if (documents == nullptr || documents->shape.size() != 1 || documents->dtype != DType::I64 ||
      documents->elements() == 0) {
    refuse_tensor(path, "documents", "[d] of I64 with at least one place",
                  documents == nullptr
                      ? "none"
                      : str(dtype_name(documents->dtype), list_text(documents->shape)));
  }
  Corpus corpus;
  corpus.files = {path};
  corpus.tokens = {file, tokens->data, tokens->elements(), width_of(tokens->dtype)};
  corpus.documents = read_documents(path, *documents, corpus.size());
  return corpus;
}

}  // namespace mneme::data
