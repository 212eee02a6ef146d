#include "host/base/file/csv.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

#include "host/base/file/file.hpp"
#include "tests/base/temporary_folder.hpp"

namespace mneme {
namespace {

TEST(Csv, QuotesWhatWouldBreakALine) {
  Csv csv({"token", "share", "count"});
  csv.add("a,b", 0.1, 3);
  csv.add("say \"x\"", 1.0, -1);
  csv.add("two\nlines", 1e-300, 0);
  EXPECT_EQ(csv.text(),
            "token,share,count\r\n\"a,b\",0.1,3\r\n\"say "
            "\"\"x\"\"\",1.0,-1\r\n\"two\nlines\",1e-300,0\r\n");
  const test::TemporaryFolder folder;
  csv.save(folder / "table.csv");
  EXPECT_EQ(read_file(folder / "table.csv"), csv.text());
}

TEST(Csv, ARowOfAnotherLengthIsAMistakeOfOurs) {
  Csv csv({"one", "two"});
  EXPECT_THROW(csv.add("a"), std::logic_error);
}

}  // namespace
}  // namespace mneme
