// The section of the page that shows samples side by side.
#include <cstddef>
#include <string>
#include <utility>

#include "host/figure/page.hpp"
#include "host/report/samples/samples.hpp"

namespace mneme::report {
namespace {

std::string card_html(const std::string& title, const std::string& body_html,
                      const std::string& note = "") {
  std::string out = "<div class=\"card\">" + figure::element("h4", title) +
                    "<div class=\"text\" dir=\"auto\">" + body_html + "</div>";
  if (!note.empty()) out += figure::element("p", note, " class=\"faint\"");
  return out + "</div>\n";
}

std::string answer_html(const Shown& sample) {
  std::string out;
  for (std::size_t i = 0; i < sample.made.size(); ++i) {
    const std::string id = str(sample.made[i]);
    const bool is_right = i < sample.expected.size() && sample.made[i] == sample.expected[i];
    out += (i == 0 ? "" : " ") + (is_right ? id : "<u class=\"wrong\">" + id + "</u>");
  }
  return out;
}

std::string made_html(const std::string& arm, const Shown* made) {
  if (made == nullptr) return card_html(arm, "", "none stored");
  if (!made->is_answer) return card_html(arm, figure::escape(made_text(*made)));
  return card_html(arm, answer_html(*made),
                   str(right_tokens(*made), " of ", made->expected.size(), " right"));
}

std::string sample_html(const Comparison& comparison, const SideBySide& one) {
  const Shown& asked = *one.asked;
  std::string out = "<section class=\"sample\">\n" + figure::element("h3", title_of(asked));
  if (!asked.is_answer) {
    const Excerpt prompt = prompt_excerpt(asked);
    out += figure::element("p", prompt_title(asked, prompt) + ":", " class=\"faint\"") +
           figure::element("p", (prompt.is_shortened ? "\xE2\x80\xA6 " : "") + prompt.text,
                           " class=\"text prompt\" dir=\"auto\"");
  }
  if (asked.left_out > 0) {
    out += figure::element(
        "p",
        str("the last ", asked.expected.size(), " of ",
            asked.left_out + static_cast<std::int64_t>(asked.expected.size()), " targets"),
        " class=\"faint\"");
  }
  out += "<div class=\"cards\">\n" + card_html(asked.is_answer ? "answer" : "true continuation",
                                               figure::escape(expected_text(asked)));
  for (std::size_t a = 0; a < one.of_arms.size(); ++a) {
    out += made_html(comparison.arms[a].name, one.of_arms[a]);
  }
  return out + "</div>\n</section>\n";
}

}  // namespace

std::string samples_html(const Comparison& comparison) {
  const std::vector<SideBySide> all = side_by_side(comparison);
  const std::string missing = missing_words(comparison);
  if (all.empty() && missing.empty()) return "";
  const bool is_answer = !all.empty() && all.front().asked->is_answer;
  std::string out = figure::element("h2", is_answer ? "Answers" : "Generated samples");
  std::string said;
  for (const SideBySide& one : all) {
    const std::string words = explanation(one);
    if (words != std::exchange(said, words)) {
      out += figure::element("p", words, " class=\"faint\"");
    }
    out += sample_html(comparison, one);
  }
  if (!missing.empty()) out += figure::element("p", missing, " class=\"faint\"");
  return "<section id=\"samples\">\n" + out + "</section>\n";
}

}  // namespace mneme::report
