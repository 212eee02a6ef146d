#include "host/plugin/reported_call.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <thread>

namespace mneme::memory {
namespace {

std::string text() { return std::string(plugin::ReportedCall::text().view()); }

TEST(ReportedCall, IsToldWhileItLivesAndTheOuterOneAfterIt) {
  EXPECT_EQ(plugin::ReportedCall::serial(), 0U);
  EXPECT_EQ(text(), "");
  {
    const plugin::ReportedCall hook("org.example.echo", 2, "read", 17);
    const uint64_t serial = plugin::ReportedCall::serial();
    EXPECT_EQ(text(), "plugin org.example.echo, tier 2, hook read, layer 17");
    {
      const plugin::ReportedCall kernel("plugin org.example.echo, tier 2", "kernel sum");
      EXPECT_EQ(text(), "plugin org.example.echo, tier 2, kernel sum");
      EXPECT_NE(plugin::ReportedCall::serial(), serial);
    }
    EXPECT_EQ(plugin::ReportedCall::serial(), serial);
    EXPECT_EQ(text(), "plugin org.example.echo, tier 2, hook read, layer 17");
  }
  EXPECT_EQ(plugin::ReportedCall::serial(), 0U);
  EXPECT_EQ(text(), "");
  const plugin::ReportedCall begin("org.example.echo", 0, "begin", -1);
  EXPECT_EQ(text(), "plugin org.example.echo, tier 0, hook begin");
}

TEST(ReportedCall, EndsWithAnException) {
  try {
    const plugin::ReportedCall hook("org.example.echo", 0, "read", 0);
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(plugin::ReportedCall::serial(), 0U);
}

TEST(ReportedCall, LongTextsAreCut) {
  const std::string name(2 * plugin::ReportedCall::kMaxText, 'x');
  const plugin::ReportedCall hook(name, 0, "read", 0);
  EXPECT_EQ(text(), ("plugin " + name).substr(0, plugin::ReportedCall::kMaxText));
}

// Another thread reads one of the texts or none, never parts of two.
TEST(ReportedCall, IsReadWholeFromAnotherThread) {
  const std::string a = "plugin " + std::string(100, 'a') + ", tier 0, hook read";
  const std::string b = "plugin " + std::string(60, 'b') + ", tier 0, hook read";
  std::atomic<bool> is_done = false;
  std::thread writer([&] {
    while (!is_done) {
      const plugin::ReportedCall first(std::string_view(a).substr(7, 100), 0, "read", -1);
      const plugin::ReportedCall second(std::string_view(b).substr(7, 60), 0, "read", -1);
    }
  });
  std::string wrong;
  for (int seen = 0; seen < 1000 && wrong.empty();) {
    const std::string now = text();
    seen += now.empty() ? 0 : 1;
    if (!now.empty() && now != a && now != b) wrong = now;
  }
  is_done = true;
  writer.join();
  EXPECT_EQ(wrong, "");
}

}  // namespace
}  // namespace mneme::memory
