#include "host/generate/conversation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "host/base/error.hpp"
#include "host/base/file/file.hpp"
#include "host/base/file/safetensors.hpp"
#include "host/run/checkpoint/checkpoint_files.hpp"
#include "host/tensor/dtypes.hpp"
#include "host/tensor/torch.hpp"
#include "tests/base/temporary_folder.hpp"
#include "tests/generate/support.hpp"

namespace mneme::generate {
namespace {

using ::testing::HasSubstr;

const Identity kIdentity = {{"checkpoint", "step 7"}, {"memory", "one"}};
constexpr std::int64_t kVocabulary = 11;

void expect_equal_states(const memory::StackState& a, const memory::StackState& b) {
  const memory::NamedState left = a.save(), right = b.save();
  EXPECT_EQ(left.metadata, right.metadata);
  ASSERT_EQ(left.tensors.size(), right.tensors.size());
  for (std::size_t i = 0; i < left.tensors.size(); ++i) {
    EXPECT_EQ(left.tensors[i].first, right.tensors[i].first);
    EXPECT_TRUE(left.tensors[i].second.equal(right.tensors[i].second)) << left.tensors[i].first;
  }
}

class Conversations : public testing::TestWithParam<Memory> {
 protected:
  test::TemporaryFolder folder_;
};

// In f32, where another grouping of products would show: tokens and states are equal bit for bit.
TEST_P(Conversations, ContinueAsIfTheyHadNeverStopped) {
  const auto path = folder_ / "talk.safetensors";
  const Options options{.segment = 6, .sampling = {.temperature = 1.3}, .seed = 9};
  const Ids first = random_prompt(20, 5), second = random_prompt(21, 3);
  const std::int64_t before_turn = GetParam().name == "none" ? 0 : 17;
  backbone::MemorySession one = session_with(GetParam(), at::kFloat);
  Generator whole(*one.model, one.stack, options);
  whole.prompt(first);
  Ids expected;
  const auto keep = [&](const Ids& ids) {
    expected.insert(expected.end(), ids.begin(), ids.end());
  };
  if (before_turn > 0) {
    keep(next(whole, before_turn)[0]);
    whole.prompt(second);
  }
  keep(next(whole, 11)[0]);

  Ids made;
  const auto pieces = {before_turn, std::int64_t{4}, std::int64_t{7}};
  bool is_first = true, is_turn = before_turn > 0;
  for (const std::int64_t count : pieces) {
    if (count == 0) continue;
    // As a process of its own: model, plugins and tables are not those of the last one.
    backbone::MemorySession own = session_with(GetParam(), at::kFloat);
    Generator generator(*own.model, own.stack, options);
    if (is_first) {
      generator.prompt(first);
    } else {
      generator.restore(read_conversation(path, kIdentity, kVocabulary));
      if (std::exchange(is_turn, false)) generator.prompt(second);
    }
    is_first = false;
    const Ids ids = next(generator, count)[0];
    made.insert(made.end(), ids.begin(), ids.end());
    write_conversation(path, generator.save(), kIdentity);
  }
  EXPECT_EQ(made, expected);
  backbone::MemorySession last = session_with(GetParam(), at::kFloat);
  Generator end(*last.model, last.stack, options);
  end.restore(read_conversation(path, kIdentity, kVocabulary));
  EXPECT_EQ(end.tokens(), whole.tokens());
  expect_equal_states(end.state(), whole.state());
}

TEST_P(Conversations, BranchIntoSamples) {
  const auto path = folder_ / "talk.safetensors";
  backbone::MemorySession session = session_with(GetParam());
  const Options options{.segment = 6, .seed = 9};
  Generator generator(*session.model, session.stack, options);
  generator.prompt(random_prompt(22, 5));
  next(generator, 3);
  write_conversation(path, generator.save(), kIdentity);
  const Ids expected = next(generator, 9)[0];
  Generator branched(*session.model, session.stack, options);
  branched.restore(read_conversation(path, kIdentity, kVocabulary));
  branched.multiply(3);
  const std::vector<Ids> texts = next(branched, 9);
  EXPECT_EQ(texts[0], expected);
  EXPECT_NE(texts[1], expected);
}

INSTANTIATE_TEST_SUITE_P(All, Conversations, testing::ValuesIn(memories()),
                         [](const auto& made) { return made.param.name; });

class BadConversation : public testing::Test {
 protected:
  void SetUp() override {
    Generator generator(*session_.model, session_.stack, {.segment = 6, .seed = 4});
    generator.prompt({1, 2, 3});
    next(generator, 7);
    saved_ = generator.save();
    write_conversation(path_, saved_, kIdentity);
  }
  std::string read_error(const Identity& identity = kIdentity) const {
    return error_of([&] { static_cast<void>(read_conversation(path_, identity, kVocabulary)); });
  }

  test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "talk.safetensors";
  backbone::MemorySession session_ = session_with(knn());
  Generator::Saved saved_;
};

TEST_F(BadConversation, KeepsWhatItWasGiven) {
  const Generator::Saved read = read_conversation(path_, kIdentity, kVocabulary);
  EXPECT_EQ(read.seed, 4U);
  EXPECT_EQ(read.segment, 6);
  EXPECT_EQ(segment_of_conversation(path_), 6);
  EXPECT_EQ(read.pending, saved_.pending);
  EXPECT_EQ(read.text.tokens, 9);
  EXPECT_EQ(read.text.lanes, 1);
  ASSERT_EQ(read.text.steps.size(), 3U);  // 6 tokens are committed, three wait in steps of one
  EXPECT_EQ(read.text.state.tensors.size(), saved_.text.state.tensors.size());
}

// As programs wrote them before files said it.
TEST_F(BadConversation, MayLackItsSegment) {
  saved_.segment = 0;
  write_conversation(path_, saved_, kIdentity);
  EXPECT_FALSE(SafetensorsFile::open(path_).metadata().contains("segment"));
  EXPECT_EQ(segment_of_conversation(path_), 0);
  EXPECT_EQ(read_conversation(path_, kIdentity, kVocabulary).segment, 0);
}

TEST_F(BadConversation, OfAnotherModel) {
  const std::string message = read_error({{"checkpoint", "step 8"}, {"memory", "one"}});
  EXPECT_THAT(message, HasSubstr("talk.safetensors"));
  EXPECT_THAT(message, HasSubstr("another model: checkpoint: expected step 8, got step 7"));
  EXPECT_THAT(read_error({{"vocabulary", "two"}}), HasSubstr("expected two, got none"));
}

TEST_F(BadConversation, OfAnotherMemory) {
  backbone::MemorySession other = session_with({"none", ""});
  Generator generator(*other.model, other.stack, {.segment = 6});
  backbone::MemorySession riders = session_with(memories()[1]);
  Generator riding(*riders.model, riders.stack, {.segment = 6});
  EXPECT_THAT(error_of([&] { riding.restore(read_conversation(path_, kIdentity, kVocabulary)); }),
              HasSubstr("no tier of this name"));
}

TEST_F(BadConversation, Damaged) {
  std::string bytes = read_file(path_);
  bytes[bytes.size() - 3] = static_cast<char>(bytes[bytes.size() - 3] ^ 1);
  write_file_atomic(path_, bytes);
  EXPECT_THAT(read_error(), HasSubstr("checksum"));
  write_file_atomic(path_, bytes.substr(0, bytes.size() / 2));
  EXPECT_THAT(read_error(), HasSubstr("talk.safetensors"));
}

TEST_F(BadConversation, OfAnotherKind) {
  SafetensorsWriter writer;
  writer.set_metadata("format", "mneme-checkpoint");
  writer.write(path_);
  EXPECT_THAT(read_error(), HasSubstr("no conversation that mneme can read"));
  EXPECT_THAT(read_error(), HasSubstr("--save-state"));
  EXPECT_THAT(error_of([&] { static_cast<void>(segment_of_conversation(path_)); }),
              HasSubstr("no conversation that mneme can read"));
}

// The checksums are right, but no generator wrote the file.
TEST_F(BadConversation, WithCountersThatAreNone) {
  Generator::Saved changed = saved_;
  changed.text.state.metadata["segments"] = "many";
  write_conversation(path_, changed, kIdentity);
  Generator generator(*session_.model, session_.stack, {.segment = 6});
  EXPECT_THAT(
      error_of([&] { generator.restore(read_conversation(path_, kIdentity, kVocabulary)); }),
      HasSubstr("the saved \"segments\" holds something else"));
}

// The file with one piece of metadata, or with another open segment, and checksums that agree.
class ChangedConversation : public BadConversation {
 protected:
  std::string error_with(const std::string& key, const std::string& value) {
    return rewritten(file().at("open"), {{key, value}});
  }
  std::string error_with(const at::Tensor& open) {
    return rewritten({.name = "open",
                      .dtype = tensor::to_dtype(open.scalar_type()),
                      .shape = open.sizes().vec(),
                      .data = static_cast<const std::byte*>(open.const_data_ptr()),
                      .bytes = open.nbytes()},
                     {});
  }
  // The three tokens of the open segment.
  at::Tensor open() { return tensor::to_tensor(file().at("open")); }

 private:
  SafetensorsFile file() const { return SafetensorsFile::open(path_); }
  std::string rewritten(const TensorView& open, const std::map<std::string, std::string>& changes) {
    const SafetensorsFile whole = file();
    std::map<std::string, std::string> metadata = whole.metadata();
    metadata.erase("checksum");
    metadata.erase("tensor_checksums");
    for (const auto& [key, value] : changes) metadata.at(key) = value;
    std::vector<TensorView> views{open};
    for (const std::string& name : whole.names()) {
      if (name != "open") views.push_back(whole.at(name));
    }
    SafetensorsWriter writer;
    for (const TensorView& view : views) {
      writer.add_copy(view.name, view.dtype, view.shape, view.data);
    }
    run::add_checksums(metadata, views);
    for (const auto& [key, value] : metadata) writer.set_metadata(key, value);
    const auto changed = folder_ / "changed.safetensors";
    writer.write(changed);
    return error_of([&] { static_cast<void>(read_conversation(changed, kIdentity, kVocabulary)); });
  }
};

TEST_F(ChangedConversation, IsRefusedWhereItsTextIsNone) {
  EXPECT_EQ(error_with("seed", "5"), "");
  const auto refuses = [](const std::string& message, const std::string& got) {
    EXPECT_THAT(message, HasSubstr("changed.safetensors: this conversation cannot be read"));
    EXPECT_THAT(message, HasSubstr(got));
  };
  refuses(error_with("pending", "11"), "pending is 11, not an id from 0 to 10");
  refuses(error_with("pending", "-2"), "pending is -2");
  refuses(error_with("pending", "one"), "metadata \"pending\" is \"one\"");
  refuses(error_with("tokens", "-5"), "a text of -5 tokens, an open segment of 3");
  refuses(error_with("tokens", "2"), "a text of 2 tokens");
  refuses(error_with("lanes", "2"), "2 lanes, not one");
  refuses(error_with("segment", "0"), "segments of 0 tokens");
  refuses(error_with("segment", "x"), "metadata \"segment\" is \"x\"");
  refuses(error_with("steps", "[1]"), "steps of 1 tokens, an open segment of 3");
  refuses(error_with("steps", "[1,3]"), "a step of 3 tokens where 2 of the open segment are left");
  refuses(error_with("steps", "[0,3]"), "a step of 0 tokens");
  refuses(error_with("steps", "[\"a\"]"), "expected an integer");
  refuses(error_with(open() + 11), "holds ids that are not from 0 to 10");
  refuses(error_with(open() - 11), "holds ids that are not from 0 to 10");
  refuses(error_with(open().view({3})), "tensor \"open\" is I64 [3], not I64 [1, n]");
  refuses(error_with(open().view({3, 1})), "I64 [3, 1]");
  refuses(error_with(open().to(at::kFloat)), "F32 [1, 3]");
}

#ifdef MNEME_HAS_LAMEMO
TEST_F(BadConversation, WithKeysThatAreNotTheRows) {
  backbone::MemorySession session =
      session_with({"cache", "[[memory.tier]]\nplugin = \"xl_cache\"\nrows = 9\n"});
  Generator generator(*session.model, session.stack, {.segment = 6});
  generator.prompt({1, 2, 3});
  next(generator, 7);
  Generator::Saved changed = generator.save();
  std::size_t count = 0;
  for (auto& [name, tensor] : changed.text.state.tensors) {
    if (name.find("projection.1.v") == std::string::npos) continue;
    tensor = tensor.narrow(1, 0, 5);
    ++count;
  }
  ASSERT_EQ(count, 1U);
  write_conversation(path_, changed, kIdentity);
  const std::string message =
      error_of([&] { generator.restore(read_conversation(path_, kIdentity, kVocabulary)); });
  EXPECT_THAT(message, HasSubstr("projection.1.v"));
  EXPECT_THAT(message, HasSubstr("do not fit their rows: expected [1, 6, 3, 5], got [1, 5, 3, 5]"));
}
#endif

}  // namespace
}  // namespace mneme::generate
