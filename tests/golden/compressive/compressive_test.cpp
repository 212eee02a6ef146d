// The Compressive Transformer against its fixtures (tests/golden/compressive).
//
// Every file of the family is read when the test runs; every setting comes from its metadata, also
// what is skipped: README.md in the folder of the files lists it.
#include <gtest/gtest.h>

#include <iostream>

#include "host/base/error.hpp"
#include "host/tensor/torch.hpp"
#include "tests/golden/compressive/compressive_case.hpp"

namespace mneme {
namespace {

using golden::Comparison;
using golden::CompressiveForm;

void compare(const SafetensorsFile& file, at::ScalarType dtype, Comparison& to,
             golden::LeftOut& left_out) {
  switch (golden::compressive_form(file)) {
    case CompressiveForm::kPaper:
      return golden::compare_paper(file, dtype, to, left_out);
    case CompressiveForm::kFunctions:
      return golden::compare_functions(file, dtype, to, left_out);
    case CompressiveForm::kLucidrains:
    case CompressiveForm::kLabml:
      return golden::compare_peer(file, dtype, to, left_out);
  }
}

TEST(GoldenCompressive, EveryFileAgrees) {
  int64_t compared = 0;
  for (const auto& path : golden::files("compressive")) {
    const std::string title = path.stem().string();
    golden::LeftOut left_out;
    for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
      Comparison comparison(str(title, dtype == at::kDouble ? " f64" : " f32"),
                            dtype == at::kDouble ? 1e-6 : 1e-4);
      try {
        compare(SafetensorsFile::open(path), dtype, comparison, left_out);
      } catch (const std::exception& error) {
        ADD_FAILURE() << title << ": " << error.what();
      }
      EXPECT_TRUE(comparison.count() > 0 || !left_out.empty()) << title << ": nothing was compared";
      std::cout << comparison.summary() << std::endl;
      compared += comparison.count();
    }
    for (const std::string& line : left_out) std::cout << title << ": " << line << std::endl;
  }
  EXPECT_GT(compared, 0) << "no file of the family could be compared";
}

}  // namespace
}  // namespace mneme
