#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "host/base/file/checksum.hpp"
#include "host/base/file/sha256_blocks.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

// FIPS 180-4 examples, as published by NIST.
TEST(Sha256, MatchesFipsVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(sha256_hex("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjk"
                       "lmnopqklmnopqrlmnopqrsmnopqrstnopqrstu"),
            "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  EXPECT_EQ(sha256_hex(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256, PiecesGiveTheDigestOfTheWhole) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (std::size_t length : {55u, 56u, 63u, 64u, 65u, 119u, 120u, 300u}) {
    const std::string whole = text.substr(0, length);
    for (std::size_t piece : {1u, 3u, 64u}) {
      Sha256 digest;
      for (std::size_t at = 0; at < length; at += piece) {
        digest.update(std::string_view(whole).substr(at, piece));
      }
      EXPECT_EQ(digest.hex(), sha256_hex(whole)) << length << " in pieces of " << piece;
    }
  }
}

TEST(Sha256, ReadsFiles) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(sha256_file(folder.write("f", "abc")), sha256_hex("abc"));
  EXPECT_EQ(sha256_file(folder.write("empty", "")), sha256_hex(""));
  const auto missing = folder / "missing";
  EXPECT_EQ(test::error_of([&] { static_cast<void>(sha256_file(missing)); }),
            "1: " + missing.string() + ": cannot open: No such file or directory; check the path");
}

// Both ways to compute a block give the same state, over several blocks from unaligned bytes.
TEST(Sha256, TheProcessorsInstructionsAgreeWithThePortableCode) {
  if (!sha256::has_extension()) GTEST_SKIP() << "this processor has no SHA instructions";
  constexpr std::size_t kBlocks = 5;
  std::vector<std::uint8_t> bytes(kBlocks * sha256::kBlockBytes + 1);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::uint8_t>(i * 37 + i / 7);
  sha256::State portable = {1, 2, 3, 0x80000000, 5, 6, 7, 0xffffffff}, extended = portable;
  sha256::compress_portable(portable, bytes.data() + 1, kBlocks);
  sha256::compress_extended(extended, bytes.data() + 1, kBlocks);
  EXPECT_EQ(portable, extended);
}

}  // namespace
}  // namespace mneme
