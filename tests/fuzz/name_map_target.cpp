// Names of an official program's weights, *.names.toml.
#include "host/base/text.hpp"
#include "host/weights/name_map.hpp"
#include "tests/fuzz/files.hpp"
#include "tests/fuzz/target.hpp"

namespace mneme::fuzz {
namespace {

bool read_name_map(std::string_view input) {
  const std::filesystem::path path = write_alone("one.names.toml", input);
  return accepts([&] {
    const weights::NameMap map = weights::NameMap::read(path);
    const config::Value options = config::parse_toml("rows = 4\nkind = \"a\"", "options");
    static_cast<void>(map.excludes(options));
    static_cast<void>(map.arguments(options));
    for (const char* name : {"embedding.0.weight", "layers.3.attention.qkv.weight", "", "x"}) {
      for (const weights::NamePart& part : map.parts_of(name)) {
        require(part.rows >= 1, "a part has a share");
        require(part.official.empty() || map.has_own(part.official),
                "a map knows the names that it gives");
      }
    }
    for (const weights::UnusedTensor& tensor : map.unused(2)) {
      double numbers = 1;
      for (const std::int64_t extent : tensor.shape) numbers *= static_cast<double>(extent);
      require(numbers <= 0x1p31, "a tensor that is written fits into memory");
    }
    static_cast<void>(map.name_of_tier_parameter(str("memory.0.", map.plugin, ".1.x")));
  });
}

std::vector<std::string> name_map_seeds() {
  return {"format = \"other\"\nplugin = \"org.example.one\"\n",
          R"(format = "other"
plugin = "org.example.one"
position = ["relative", "disentangled"]
[unless]
rows = 4
[backbone]
"embedding.{layer}.weight" = "tables.{layer}.w"
"layers.{layer}.attention.qkv.weight" = [
  { name = "blocks.{layer}.q" },
  { name = "blocks.{layer}.kv", rows = 2 },
]
[memory]
"{layer}.x" = "blocks.{layer}.memory"
[unused]
"mask" = { shape = [2, 3], value = 0.5 }
"blocks.{layer}.mask" = { shape = [1] }
[[argument]]
name = "mem_len"
value = 4
when = { rows = 4 }
[[argument]]
name = "kind"
value = "a"
)"};
}

std::vector<std::string> name_map_extremes() {
  const std::string head = "format = \"a\"\nplugin = \"b\"\n";
  std::string many = head + "[memory]\n";
  for (int i = 0; i < 2000; ++i) many += str("\"k", i, "\" = \"n", i, "\"\n");
  return {
      many,
      head + "[memory]\n\"" + repeated("{layer}", 20'000) + "\" = \"a\"\n",
      head + "[unused]\na = { shape = [" + repeated("2147483648,", 2000) + "] }\n",
      head + "[unused]\na = { shape = [" + repeated("2,", 2000) + "] }\n",
      head + "[backbone]\n\"" + repeated("x", 100'000) + "\" = \"a\"\n",
  };
}

}  // namespace

Target name_map_target() { return {"name_map", read_name_map, name_map_seeds, name_map_extremes}; }

}  // namespace mneme::fuzz
