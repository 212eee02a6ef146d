// Bundles: what is in them, that they verify, and that manipulations are found and named.
#include "host/report/bundle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>

#include "host/base/file/checksum.hpp"
#include "host/base/file/file.hpp"
#include "host/report/archive/tar.hpp"
#include "host/report/bundle_files.hpp"
#include "host/scores/certificate.hpp"
#include "mneme/abi.h"
#include "tests/report/report_folders.hpp"

namespace mneme::report {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

// Text files alone can be read by read_file.
std::string bytes_at(const fs::path& file) {
  const MappedFile map(file);
  return {reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()};
}

class Bundle : public test::ReportFolders {
 protected:
  using Files = std::map<std::string, std::string>;

  void SetUp() override {
    test::write_comparison(folder("runs"), small_);
    write_file_atomic(folder("runs") / "none-seed1" / "model.safetensors", "weights");
    scores::write_certificate(folder("runs") / "none-seed1",
                              test::fixture_certificate(small_.arms[0], 1));
    write_bundle(file(), {folder("runs")}, {.has_pairs = true});
  }
  [[nodiscard]] fs::path file() const { return folder("a.tar"); }
  [[nodiscard]] Files files() const {
    const std::string archive = bytes_at(file());
    Files out;
    for (const TarEntry& one : read_tar(std::as_bytes(std::span(archive)), "a.tar"))
      out[one.name] = {reinterpret_cast<const char*>(one.bytes.data()), one.bytes.size()};
    return out;
  }
  // A bundle with other files; `is_listed`: as one makes it who adapts the checksums.
  void write(Files files, bool is_listed = true) const {
    Json head = Json::parse(files["bundle.json"]);
    if (is_listed) {
      head["sha256"] = Json::object();
      for (const auto& [name, text] : files) {
        if (name != "bundle.json") head["sha256"][name] = sha256_hex(text);
      }
    }
    files["bundle.json"] = head.dump();
    std::vector<TarEntry> entries;
    for (const auto& [name, text] : files)
      entries.push_back({name, std::as_bytes(std::span(text))});
    write_tar(file(), entries);
  }
  // What verify_bundle says of the bundle after `change`.
  [[nodiscard]] std::string found(const std::function<void(Files&)>& change,
                                  bool is_listed = true) const {
    Files all = files();
    const Files before = all;
    change(all);
    write(all, is_listed);
    const std::string out = join(verify_bundle(file()).findings, "\n");
    write(before);
    return out;
  }
  static std::string named(const Files& files, const std::string& part, const std::string& end) {
    for (const auto& [name, text] : files) {
      if (name.find(part) != name.npos && name.ends_with(end)) return name;
    }
    throw std::out_of_range(part + end);
  }
  static void flip(std::string& bytes) { bytes.back() = static_cast<char>(bytes.back() ^ 1); }
  static void edit_json(std::string& text, const std::function<void(Json&)>& change) {
    Json json = Json::parse(text);
    change(json);
    text = json.dump(1) + '\n';
  }
  [[nodiscard]] std::string refusal() const {
    try {
      static_cast<void>(verify_bundle(file()));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Bundle, VerifiesAndHasNoWeights) {
  const Verification result = verify_bundle(file());
  EXPECT_EQ(join(result.findings, "\n"), "");
  EXPECT_EQ(result.runs, 6u);
  EXPECT_EQ(result.evaluations, 6u);
  EXPECT_EQ(result.losses, 6u * 12 * 32);
  EXPECT_GT(result.numbers, 500u);
  EXPECT_THAT(result.text(), HasSubstr("Verified"));
  EXPECT_THAT(result.text(), HasSubstr("1 certificate of runs"));
  EXPECT_EQ(result.json()["verified"], true);
  EXPECT_EQ(result.sha256, sha256_file(file()));
  const Files all = files();
  EXPECT_FALSE(all.contains("runs/none-seed1/model.safetensors"));
  EXPECT_TRUE(all.contains("runs/none-seed1/certificate.json"));
  EXPECT_TRUE(all.contains("report/report.json") && all.contains("report/differences.csv"));
  EXPECT_FALSE(all.contains("report/index.html"));
}

// Not every difference of a report by another version is a manipulation.
TEST_F(Bundle, OfAnotherVersionIsSaidToBe) {
  const auto of_another = [](Files& all) {
    edit_json(all["bundle.json"], [](Json& json) { json["mneme"] = "0.0.9"; });
  };
  EXPECT_EQ(found(of_another), "");
  const auto reword = [](Files& all) {
    edit_json(all["report/report.json"], [](Json& json) { json["setup"]["model"] = "large"; });
  };
  const std::string own = found(reword);
  EXPECT_THAT(own, HasSubstr("report.json: setup, model: says \"large\", but the report computed "
                             "anew has "));
  EXPECT_THAT(own, Not(HasSubstr("the report is of mneme")));
  const std::string other = found([&](Files& all) {
    of_another(all);
    reword(all);
  });
  EXPECT_EQ(other,
            str(own, "\nthe report is of mneme 0.0.9, and computed anew by ", MNEME_SDK_VERSION,
                ", which may write other words, tables and figures: whether it was changed, mneme "
                "0.0.9 says"));
  const auto add = [&](Files& all) {
    of_another(all);
    all["extra.txt"] = "more";
  };
  EXPECT_EQ(found(add, /*is_listed=*/false), "extra.txt: is in the bundle, but not listed");
}

TEST_F(Bundle, IsTheSameWhereverTheRunsLie) {
  const std::string before = bytes_at(file());
  fs::create_directories(folder("elsewhere"));
  fs::rename(folder("runs"), folder("elsewhere") / "runs");
  write_bundle(file(), {folder("elsewhere") / "runs"}, {.has_pairs = true});
  EXPECT_EQ(bytes_at(file()), before);
}

TEST_F(Bundle, OfRunFoldersVerifiesWithItsBaseline) {
  write_bundle(file(),
               {folder("runs") / "none-seed1", folder("runs") / "xl_cache-seed1",
                folder("runs") / "none-seed2", folder("runs") / "xl_cache-seed2" / ""},
               {.baseline = "xl_cache"});
  const Verification result = verify_bundle(file());
  EXPECT_EQ(join(result.findings, "\n"), "");
  EXPECT_EQ(result.runs, 4u);
  EXPECT_EQ(Json::parse(files()["report/report.json"])["arms"][0]["name"], "xl_cache");
  const std::string left_out = found([](Files& all) {
    edit_json(all["bundle.json"], [](Json& json) { json["folders"].erase(3); });
  });
  EXPECT_THAT(left_out, HasSubstr("runs/4/xl_cache-seed2: is a run that no report reads"));
}

// JSON has no names but UTF-8.
TEST_F(Bundle, OfAFolderWhoseNameIsNoUtf8Verifies) {
  const fs::path named = folder("caf\xe9-seed1");
  fs::rename(folder("runs") / "none-seed1", named);
  write_file_atomic(named / "b\xe9.json", "{}");
  write_bundle(file(), {named, folder("runs") / "xl_cache-seed1"}, {});
  EXPECT_EQ(join(verify_bundle(file()).findings, "\n"), "");
  EXPECT_TRUE(files().contains("runs/1/caf\xef\xbf\xbd-seed1/b\xef\xbf\xbd.json"));
}

class BundleInAFolder : public Bundle {
 protected:
  ~BundleInAFolder() override {
    if (before_) {
      ::setenv("TMPDIR", before_->c_str(), 1);
    } else {
      ::unsetenv("TMPDIR");
    }
  }
  void use(const std::string& name) const { ::setenv("TMPDIR", folder(name).c_str(), 1); }

 private:
  std::optional<std::string> before_ = std::getenv("TMPDIR") == nullptr
                                           ? std::nullopt
                                           : std::optional<std::string>(std::getenv("TMPDIR"));
};

TEST_F(BundleInAFolder, NamesTheVariableOfOneThatIsNotThere) {
  use("nowhere");
  EXPECT_THAT(refusal(), HasSubstr("TMPDIR: there is no folder for temporary files: got "));
}

// What a process that a signal ended has left goes with the next one.
TEST_F(BundleInAFolder, RemovesWhatStoppedProcessesLeft) {
  const fs::path used = folder("tmp"), left = used / "mneme-bundle-stopped";
  for (const char* const name : {"mneme-bundle-stopped/runs", "mneme-bundle-new", "another"})
    fs::create_directories(used / name);
  use("tmp");
  const WorkFolder other;
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(1);
  for (const fs::path& path : {left, used / "another", other.path()})
    fs::last_write_time(path, old);
  EXPECT_EQ(join(verify_bundle(file()).findings, "\n"), "");
  EXPECT_FALSE(fs::exists(left));
  for (const fs::path& path : {used / "another", used / "mneme-bundle-new", other.path()})
    EXPECT_TRUE(fs::exists(path)) << path;
}

TEST_F(Bundle, VerifiesWhatIsHeldAgainstAMargin) {
  EXPECT_FALSE(Json::parse(files()["bundle.json"]).contains("margin"));
  write_bundle(file(), {folder("runs")}, {.margin = 0.25});
  EXPECT_EQ(join(verify_bundle(file()).findings, "\n"), "");
  EXPECT_TRUE(files().contains("report/margin.csv"));
  const std::string changed = found([](Files& all) {
    edit_json(all["report/report.json"],
              [](Json& json) { json["differences"][1]["margin"]["shown"] = "yes"; });
  });
  EXPECT_THAT(changed,
              HasSubstr("margin, shown: says \"yes\", but the report computed anew has true"));
  const std::string other = found([](Files& all) {
    edit_json(all["bundle.json"], [](Json& json) { json["margin"] = 0.0001; });
  });
  EXPECT_THAT(other,
              HasSubstr("margin, margin: says 0.25, but the report computed anew has 0.0001"));
}

TEST_F(Bundle, ChangesWithoutChecksumsAreNamed) {
  const auto nll = named(files(), "runs/xl_cache-seed1/", "nll.safetensors");
  const std::string changed = found([&](Files& all) { flip(all[nll]); }, false);
  EXPECT_THAT(changed, HasSubstr(nll + ": was changed"));
  EXPECT_THAT(found([&](Files& all) { all.erase(nll); }, false),
              HasSubstr(nll + ": is listed, but not in the bundle"));
  EXPECT_THAT(found([](Files& all) { all["runs/more.json"] = "{}"; }, false),
              HasSubstr("runs/more.json: is in the bundle, but not listed"));
}

TEST_F(Bundle, ChangedCertificateIsNamed) {
  const std::string changed = found([](Files& all) {
    edit_json(all["runs/none-seed1/certificate.json"],
              [](Json& json) { json["lines"][0]["difference"] = 1e-4; });
  });
  EXPECT_THAT(changed,
              HasSubstr(", difference: says 1e-07, but the report computed anew has 0.0001"));
}

// Ten manipulations by one who adapts the checksums of bundle.json.
TEST_F(Bundle, ManipulationsAreFoundAndNamed) {
  const Files all = files();
  const auto swap_runs = [](Files& files, const std::string& a, const std::string& b) {
    Files out;
    for (const auto& [name, text] : files) {
      std::string moved = name;
      if (name.starts_with(a)) moved.replace(0, a.size(), b);
      if (name.starts_with(b)) moved.replace(0, b.size(), a);
      out[moved] = text;
    }
    files = std::move(out);
  };
  const auto erase_run = [](Files& files, const std::string& run) {
    std::erase_if(files, [&](const auto& file) { return file.first.starts_with(run); });
  };
  const auto evaluation = named(all, "runs/xl_cache-seed1/", "evaluation.json");
  // 1 a loss
  EXPECT_THAT(found([&](Files& files) {
                flip(files[named(files, "runs/xl_cache-seed1/", "nll.safetensors")]);
              }),
              HasSubstr("runs/xl_cache-seed1/evaluations/"));
  // 2 two arms, in one seed
  EXPECT_THAT(found([&](Files& files) {
                swap_runs(files, "runs/xl_cache-seed1/", "runs/compressive-seed1/");
              }),
              HasSubstr("runs/xl_cache-seed1: has another [memory] than the arm xl_cache"));
  // 3 two seeds
  EXPECT_THAT(found([&](Files& files) {
                swap_runs(files, "runs/xl_cache-seed1/", "runs/xl_cache-seed2/");
              }),
              HasSubstr("runs/xl_cache-seed1: has another train.seed than the arm xl_cache"));
  // 4 a seed that is dropped
  EXPECT_THAT(found([&](Files& files) { erase_run(files, "runs/xl_cache-seed2/"); }),
              HasSubstr("report.json: arms, xl_cache, runs, seed 2"));
  // 5 the same, in the plan too
  EXPECT_THAT(found([&](Files& files) {
                erase_run(files, "runs/xl_cache-seed2/");
                edit_json(files["runs/comparison.json"],
                          [](Json& json) { json["arms"][1]["runs"].erase(1); });
              }),
              HasSubstr("report.json: arms, xl_cache, runs: says \"2 entries\""));
  // 6 the number of targets that an evaluation states
  EXPECT_THAT(found([&](Files& files) {
                edit_json(files[evaluation], [](Json& json) { json["result"]["tokens"] = 400; });
              }),
              HasSubstr("runs/xl_cache-seed1/evaluations/"));
  const auto of_report = [&](const char* key, const Json& value) {
    return found([&](Files& files) {
      edit_json(files["report/report.json"],
                [&](Json& json) { json["differences"][0][key] = value; });
    });
  };
  // 7 the number of targets of the report, 8 an interval, 9 a p
  EXPECT_THAT(of_report("targets", 1),
              HasSubstr("targets: says 1, but the report computed anew has "));
  EXPECT_THAT(of_report("low", -9.0), HasSubstr("xl_cache none valid loss, low: says -9.0"));
  EXPECT_THAT(of_report("p", 0.001), HasSubstr("xl_cache none valid loss, p: says 0.001"));
  // 10 a table
  EXPECT_THAT(found([&](Files& files) { files["report/differences.csv"] += "x\r\n"; }),
              HasSubstr("report/differences.csv: line "));
  // and what is left out or added
  EXPECT_THAT(found([&](Files& files) {
                edit_json(files["runs/comparison.json"],
                          [](Json& json) { json["arms"][1]["runs"].erase(1); });
              }),
              HasSubstr("runs/xl_cache-seed2: is a run that no report reads"));
  EXPECT_THAT(found([&](Files& files) { files.erase("report/differences.csv"); }),
              HasSubstr("report/differences.csv: is part of the report, but not in the bundle"));
  EXPECT_THAT(found([&](Files& files) { files["report/better.csv"] = ""; }),
              HasSubstr("report/better.csv: is no part of the report"));
  EXPECT_THAT(found([&](Files& files) { files["runs/comparison.json"] = "{}"; }),
              HasSubstr("comparison.json and the runs do not agree"));
}

TEST_F(Bundle, IsRefusedWhenItIsNone) {
  const std::string archive = bytes_at(file());
  for (std::size_t part = 0; part < 40; ++part) {
    write_file_atomic(file(), archive.substr(0, archive.size() * part / 40));
    EXPECT_THAT(refusal(), HasSubstr("a.tar: byte ")) << part;
  }
  write_file_atomic(file(), archive);
  Files all = files();
  const auto with_head = [&](const char* key, const Json& value) {
    Files changed = all;
    edit_json(changed["bundle.json"], [&](Json& json) { json[key] = value; });
    write(changed, false);
    return refusal();
  };
  EXPECT_THAT(with_head("version", 2), HasSubstr("got format \"mneme-bundle\", version 2"));
  EXPECT_THAT(with_head("folders", {"../runs"}), HasSubstr("the folder ../runs"));
  EXPECT_THAT(with_head("pairs", 3), HasSubstr("is no bundle that this program can read"));
  write_tar(file(), {});
  EXPECT_THAT(refusal(), HasSubstr("an archive without it"));
}

}  // namespace
}  // namespace mneme::report
