#include "host/base/file/file_kind.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

using namespace std::string_literals;
using test::error_of;
using test::TemporaryFolder;
using ::testing::HasSubstr;

const std::string kLfsPointer =
    "version https://git-lfs.github.com/spec/v1\n"
    "oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

TEST(FileKind, NamesThePackerAndHowToUnpack) {
  struct Row {
    std::string name;
    std::string bytes;
    std::string got;
    std::string hint;
  };
  const std::string rest(600, 'x');
  const std::vector<Row> rows = {
      {"a.txt.gz", "\x1F\x8B\x08\0"s, "gzip", "gunzip -k a.txt.gz"},
      {"a b", "\x1F\x8B\x08\0"s, "gzip", "gzip -dc 'a b' > 'a b.unpacked'"},
      {"a.tar.gz", "\x1F\x8B\x08\0"s, "gzip", "tar -xf a.tar.gz"},
      {"a.tgz", "\x1F\x8B\x08\0"s, "gzip", "tar -xf a.tgz"},
      {"a.xz", "\xFD\x37zXZ\0"s, "xz", "xz -dk a.xz"},
      {"a.zst", "\x28\xB5\x2F\xFD"s, "zstd", "zstd -d a.zst"},
      {"a.bz2", "BZh91AY&SY", "bzip2", "bunzip2 -k a.bz2"},
      {"a", "BZh91AY&SY", "bzip2", "bzip2 -dc a > a.unpacked"},
      {"a.lz4", "\x04\x22\x4D\x18"s, "lz4", "lz4 -dk a.lz4"},
      {"a.lzma", "\x5D\0\0\x80\0"s, "lzma", "xz -dk a.lzma"},
      {"a.lz", "LZIP\x01"s, "lzip", "lzip -dk a.lz"},
      {"a.Z", "\x1F\x9D\x90"s, "compress", "gunzip -k a.Z"},
      {"enwik8.zip", "PK\x03\x04"s, "zip", "unzip enwik8.zip"},
      {"empty.zip", "PK\x05\x06"s, "zip", "unzip empty.zip"},
      {"a.7z", "7z\xBC\xAF\x27\x1C"s, "7-Zip", "7z x a.7z"},
      {"a.rar", "Rar!\x1A\x07\0"s, "RAR", "unrar x a.rar"},
      {"a.deb", "!<arch>\n", "ar", "ar x a.deb"},
      {"a.tar", "name" + std::string(253, '\0') + "ustar\0"s, "tar", "tar -xf a.tar"},
      {"a.tar", "name" + std::string(253, '\0') + "ustar  \0"s, "tar", "tar -xf a.tar"}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const std::optional<FileKind> kind = find_file_kind(row.name, row.bytes + rest);
    ASSERT_TRUE(kind.has_value());
    EXPECT_EQ(kind->failed, "the file is packed");
    EXPECT_EQ(kind->got, "data packed by " + row.got);
    EXPECT_EQ(kind->hint, "unpack it: " + row.hint);
  }
}

TEST(FileKind, NamesTablesAndContainers) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"PAR1....PAR1", "a Parquet table"},
      {"ARROW1\0\0data"s, "an Arrow table"},
      {"\xFF\xFF\xFF\xFF\x78\x01\0\0data"s, "an Arrow stream"},
      {"FEA1....FEA1", "a Feather table"},
      {"ORC.......ORC\x17", "an ORC table"},
      {"Obj\x01....", "an Avro table"},
      {"SQLite format 3\0..."s, "an SQLite database"},
      {"\x89HDF\r\n\x1A\n....", "an HDF5 file"},
      {"\x93NUMPY\x01\0"s, "an array of NumPy"},
      {"%PDF-1.7\n", "a PDF document"},
      {"GGUF\x03\0\0\0"s, "a GGUF file"},
      {"\x80\x04\x95....", "a pickle, which can run any code"},
      {"PK\x03\x04\0\0"s + std::string(24, '\0') + "archive/data.pkl",
       "a pickle, which can run any code"}};
  for (const auto& [bytes, got] : rows) {
    const std::optional<FileKind> kind = find_file_kind("a", bytes);
    ASSERT_TRUE(kind.has_value()) << got;
    EXPECT_EQ(kind->got, got);
    EXPECT_FALSE(kind->hint.empty()) << got;
  }
  EXPECT_EQ(find_file_kind("x y.pdf", "%PDF-1.7\n")->hint,
            "take its text out: pdftotext 'x y.pdf'");
  EXPECT_THAT(find_file_kind("m.pt", "\x80\x02}")->hint,
              HasSubstr("scripts/pytorch_to_safetensors.py m.pt OUT.safetensors"));
}

TEST(FileKind, TextsAreOfNoKind) {
  const std::string pointer_in_a_text = kLfsPointer + std::string(2000, 'x');
  for (const std::string& text :
       {""s,
        "a"s,
        "BZh9 is a mark"s,
        "BZh91AY"s,
        "LZIP is a program"s,
        "7z is one too"s,
        "PK\n"s,
        "ORC: a creature"s,
        "PAR1 and PAR2"s,
        "FEA1\n"s,
        "Obj 1"s,
        "RIFF"s,
        "\xFF\xFE\x68\0"s,
        "\xFF\xFF\xFF\xFF"s,
        "\xFF\xFF\xFF\xFFno stream"s,
        "version https://git-lfs.github.com/spec/v1"s,
        "on pointers: version https://git-lfs.github.com/spec/v1\noid sha256:0\n"s,
        pointer_in_a_text,
        "ustar"s,
        std::string(257, 'x') + "ustar is a format"}) {
    EXPECT_FALSE(find_file_kind("a", text).has_value()) << text.substr(0, 40);
  }
}

TEST(FileKind, PointersSayHowTheirFilesAreFetched) {
  const std::optional<FileKind> lfs = find_file_kind("models/a b/model.safetensors", kLfsPointer);
  ASSERT_TRUE(lfs.has_value());
  EXPECT_EQ(lfs->failed, "the file is a pointer of Git LFS: its contents were not fetched");
  EXPECT_EQ(lfs->got, str("a text of ", kLfsPointer.size(), " bytes that names them"));
  EXPECT_EQ(
      lfs->hint,
      "fetch them in the repository: git lfs pull --include model.safetensors; or download the "
      "file itself");
  const std::optional<FileKind> annex =
      find_pointer_kind("d/a.txt", "/annex/objects/SHA256E-s12--34.txt\n");
  ASSERT_TRUE(annex.has_value());
  EXPECT_EQ(annex->failed, "the file is a pointer of git-annex: its contents were not fetched");
  EXPECT_EQ(annex->hint, "fetch them in the repository: git annex get a.txt");
  EXPECT_FALSE(find_pointer_kind("a.gz", "\x1F\x8B").has_value());
}

TEST(FileKind, FindsAPackedFileBesideAPath) {
  const TemporaryFolder folder;
  EXPECT_FALSE(find_packed_beside(folder / "a.txt").has_value());
  EXPECT_FALSE(find_packed_beside("").has_value());
  const auto packed = folder.write("a.txt.bz2", "any");
  const std::optional<FileKind> kind = find_packed_beside(folder / "a.txt");
  ASSERT_TRUE(kind.has_value());
  EXPECT_EQ(kind->failed, "the file is not there");
  EXPECT_EQ(kind->got, "a packed file beside it");
  EXPECT_EQ(kind->hint, "unpack it: bunzip2 -k " + packed.string());
}

TEST(FileKind, TensorsAreNoText) {
  const TemporaryFolder folder;
  SafetensorsWriter writer;
  const std::vector<std::int64_t> ids = {1, 2, 3};
  writer.add("tokens", DType::I64, {3}, ids.data());
  writer.write(folder / "ids.safetensors");
  const std::string bytes = read_file(folder / "ids.safetensors");
  const auto error = [](const std::string& text) {
    return error_of([&] { check_is_no_tensors(text, "--train: x", "a text file", "name one"); });
  };
  EXPECT_EQ(error(bytes),
            "2: --train: x: the file is no text: expected a text file, got a safetensors file; "
            "name one");
  for (const std::string& text : {""s, "{"s, "1234567"s, "12345678{\"a\": 1}"s,
                                  "\2\0\0\0\0\0\0\0x{}"s, "\x09\0\0\0\0\0\0\0{}"s}) {
    EXPECT_NO_THROW(check_is_no_tensors(text, "x", "a text", "")) << text;
  }
}

TEST(FileKind, ReadersOfFilesRefuseThem) {
  const TemporaryFolder folder;
  const auto pointer = folder.write("config.json", kLfsPointer);
  EXPECT_EQ(
      error_of([&] { static_cast<void>(read_file(pointer)); }),
      str("2: ", pointer.string(),
          ": the file is a pointer of Git LFS: its contents were not fetched: expected a text, "
          "got a text of ",
          kLfsPointer.size(),
          " bytes that names them; fetch them in the "
          "repository: git lfs pull --include config.json; or download the file itself"));
  const auto packed = folder.write("vocab.json", "\x1F\x8B\x08.");
  EXPECT_THAT(
      error_of([&] { static_cast<void>(read_file(packed)); }),
      HasSubstr("vocab.json: the file is packed: expected a text, got data packed by gzip"));
  const auto open = [&](const std::string& bytes) {
    const auto path = folder.write("model.safetensors", bytes);
    return error_of([&] { static_cast<void>(SafetensorsFile::open(path)); });
  };
  EXPECT_THAT(
      open(kLfsPointer),
      HasSubstr("model.safetensors: the file is a pointer of Git LFS: its contents were not "
                "fetched: expected a safetensors file, got"));
  EXPECT_THAT(open("\x1F\x8B\x08 and so on"),
              HasSubstr("the file is packed: expected a safetensors"));
  EXPECT_THAT(open("PK\x03\x04" + std::string(26, 'x') + "model/data.pkl"),
              HasSubstr("the file holds tensors of PyTorch: expected a safetensors file, got a "
                        "pickle, which can run any code; scripts/pytorch_to_safetensors.py"));
  EXPECT_THAT(open("GGUF\x03 and so on"),
              HasSubstr("got a GGUF file; take the model's safetensors"));
}

}  // namespace
}  // namespace mneme
