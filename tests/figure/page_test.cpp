#include "host/figure/page.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "host/figure/resources.hpp"

namespace mneme::figure {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Theme, TakesTheColourOfThePageOrHasItsOwn) {
  EXPECT_EQ(theme(Look::kPage).at("axis").at("labelColor"), "currentColor");
  EXPECT_TRUE(theme(Look::kPage).at("background").is_null());
  EXPECT_EQ(theme(Look::kLight).at("axis").at("labelColor"), "#1f2328");
  EXPECT_EQ(theme(Look::kLight).at("background"), "#ffffff");
  EXPECT_THAT(json_text(theme(Look::kLight)), Not(HasSubstr("currentColor")));
  EXPECT_EQ(colours().size(), 7U);
}

TEST(Page, EscapesTextAndScripts) {
  EXPECT_EQ(element("p", "a<b & \"c\" 'd'", " id=\"x\""),
            "<p id=\"x\">a&lt;b &amp; &quot;c&quot; &#39;d&#39;</p>\n");
  EXPECT_EQ(script_json({{"a", "</script><!--"}}), "{\"a\":\"\\u003c/script>\\u003c!--\"}");
}

TEST(Page, HoldsItsFiguresAndLoadsNothing) {
  const Figure figure{.key = "k<1>",
                      .title = "A & B",
                      .caption = "What it shows",
                      .spec = {{"data", {{"values", {{{"name", "</script>"}}}}}}}};
  const std::string page = figures_page("The <title>", {"a line"}, {figure}, "var vega;");
  EXPECT_THAT(page, HasSubstr("<title>The &lt;title&gt;</title>"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("<p class=\"faint\">a line</p>"));
  // No element names a file or an address.
  const std::string head = page.substr(0, page.find("<script>"));
  EXPECT_FALSE(std::regex_search(head, std::regex("(src|href)\\s*=")));
  EXPECT_THAT(page, Not(HasSubstr("<link")));
  EXPECT_THAT(page, Not(HasSubstr("<script src")));
  EXPECT_THAT(page, HasSubstr("Redistribution and use in source and binary forms"));
  EXPECT_THAT(page, HasSubstr("<h3>A &amp; B</h3>"));
  EXPECT_THAT(page, HasSubstr("<figcaption>What it shows</figcaption>"));
  EXPECT_THAT(page, HasSubstr("data-file=\"k&lt;1&gt;\">{\"data\""));
  EXPECT_THAT(page, HasSubstr("<script>\nvar vega;\n</script>"));
}

TEST(Page, WithoutVegaSaysHowToGetTheFigures) {
  const std::string page = figures_page("t", {}, {{.key = "k", .title = "A figure"}}, "");
  EXPECT_THAT(page, HasSubstr("id=\"no-figures\""));
  EXPECT_THAT(page, HasSubstr("-DMNEME_VEGA=FILE"));
  EXPECT_THAT(page, Not(HasSubstr("A figure")));
  EXPECT_THAT(page, Not(HasSubstr("<script")));
}

TEST(Resources, AreWhole) {
  EXPECT_THAT(std::string(page_script()), HasSubstr("vegaEmbed"));
  EXPECT_THAT(std::string(page_style()), HasSubstr("prefers-color-scheme: dark"));
  EXPECT_TRUE(theme_text().ends_with("}\n"));
}

TEST(Resources, HoldVegaWhole) {
  if (!has_vega()) GTEST_SKIP() << "built without Vega";
  EXPECT_THAT(std::string(vega_bundle()), Not(HasSubstr("</script")));
  EXPECT_THAT(std::string(vega_bundle()), HasSubstr("vegaEmbed"));
}

}  // namespace
}  // namespace mneme::figure
