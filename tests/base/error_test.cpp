#include "host/base/error.hpp"

#include <gtest/gtest.h>

#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

TEST(Error, ComposesEveryPart) {
  const ErrorText text{
      .where = "a.toml:1:2", .failed = "bad rows", .expected = "5", .got = "6", .hint = "use 5"};
  EXPECT_EQ(text.compose(), "a.toml:1:2: bad rows: expected 5, got 6; use 5");
}

TEST(Error, LeavesOutAbsentParts) {
  EXPECT_EQ((ErrorText{.where = "f", .expected = "5", .got = "6"}).compose(),
            "f: expected 5, got 6");
  EXPECT_EQ((ErrorText{.where = "f", .failed = "gone"}).compose(), "f: gone");
  EXPECT_EQ((ErrorText{.failed = "gone", .got = "x"}).compose(), "gone: got x");
  EXPECT_EQ((ErrorText{.where = "f", .hint = "look"}).compose(), "f; look");
  EXPECT_EQ(ErrorText{}.compose(), "");
}

TEST(Error, CarriesKindExitCodeAndHint) {
  const Error error(ErrorKind::kPlugin, "no symbol", "rebuild it");
  EXPECT_EQ(error.kind(), ErrorKind::kPlugin);
  EXPECT_EQ(error.exit_code(), 3);
  EXPECT_EQ(error.hint(), "rebuild it");
  EXPECT_STREQ(error.what(), "no symbol; rebuild it");
}

TEST(Error, ContextGoesInFrontAndKeepsTheRest) {
  const Error error = Error(ErrorKind::kDevice, "out of memory", "use fewer lanes");
  const Error wrapped = error.with_context("tier 1, hook read");
  EXPECT_STREQ(wrapped.what(), "tier 1, hook read: out of memory; use fewer lanes");
  EXPECT_EQ(wrapped.kind(), ErrorKind::kDevice);
  EXPECT_EQ(wrapped.hint(), "use fewer lanes");
}

TEST(Error, ShowsWhatATerminalWouldObey) {
  const Error error(ErrorKind::kRun, {.where = "a\tb",
                                      .failed = "one\ntwo",
                                      .got = std::string("\x1b[31m\0\xC2\x9B", 8),
                                      .hint = "\xFF"});
  EXPECT_STREQ(error.what(), "a\\tb: one\ntwo: got \\x1b[31m\\x00\\xc2\\x9b; \\xff");
  EXPECT_EQ(error.hint(), "\\xff");
}

TEST(Error, CutsWhatIsTooLongToRead) {
  const std::string part(100'000, 'x');
  const std::string cut = ErrorText{.where = "f", .got = part, .hint = "look"}.compose();
  EXPECT_EQ(cut, "f: got " + std::string(8192, 'x') + " .. (100000 bytes); look");
  EXPECT_EQ(std::string(Error(ErrorKind::kRun, part).what()),
            std::string(65536, 'x') + " .. (100000 bytes)");
}

TEST(Error, HelpersThrowTheirKind) {
  using test::error_of;
  EXPECT_EQ(error_of([] { throw_run("a ", 1); }), "1: a 1");
  EXPECT_EQ(error_of([] { throw_usage("b ", 2.5); }), "2: b 2.5");
  EXPECT_EQ(error_of([] { throw_plugin("c"); }), "3: c");
  EXPECT_EQ(error_of([] { throw_device("d"); }), "4: d");
  EXPECT_EQ(error_of([] { throw_run({.where = "a", .failed = "b"}); }), "1: a: b");
  EXPECT_EQ(error_of([] { throw_usage({.where = "a", .failed = "b"}); }), "2: a: b");
  EXPECT_EQ(error_of([] { throw_plugin({.where = "a", .failed = "b"}); }), "3: a: b");
  EXPECT_EQ(error_of([] { throw_device({.where = "a", .failed = "b"}); }), "4: a: b");
  EXPECT_EQ(error_of([] { throw_error(ErrorKind::kDevice, {.failed = "b"}); }), "4: b");
}

}  // namespace
}  // namespace mneme
