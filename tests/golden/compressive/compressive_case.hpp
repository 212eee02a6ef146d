// What the tests of the Compressive Transformer's files share (tests/golden/compressive): which
// form a file has, the tier that its settings ask for, and layouts of parameters.
#pragma once

#include <set>
#include <string>

#include "host/base/file/safetensors.hpp"
#include "host/config/experiment.hpp"
#include "host/memory/stack/stack.hpp"
#include "host/memory/state/stack_state.hpp"
#include "tests/golden/golden.hpp"

namespace mneme::golden {

// paper: a whole model on the Transformer-XL's attention; functions: each compression function
// alone; lucidrains, labml: two peers, of which the memories are compared at the level of hooks.
enum class CompressiveForm { kPaper, kFunctions, kLucidrains, kLabml };

// By the settings that the metadata hold. Errors: Error(kRun) for those of no known form.
CompressiveForm compressive_form(const SafetensorsFile& file);

// Lines "<what>: skipped by setting <key> = <value>: <reason>".
using LeftOut = std::set<std::string>;

// A whole-number setting. Errors: Error or a JSON exception when it is missing or none.
int64_t whole(const SafetensorsFile& file, const std::string& key);
// A setting that may be missing.
std::string text_or(const SafetensorsFile& file, const std::string& key, const std::string& other);

// "" when our dilation is the file's, else what is skipped.
std::string left_out_of_dilated(const SafetensorsFile& file);

// A memory of one compressive tier; `options` are lines of TOML.
config::MemoryConfig compressive_memory(const std::string& options);

// One loader for the whole program.
plugin::PluginLoader& plugin_loader();

// The tier's parameter of a layer. Errors: Error(kRun) when there is none.
at::Tensor tier_parameter(const memory::Stack& stack, int64_t layer, const std::string& name);

// A parameter of ours, or its gradient, as a view in the layout of the files. `name`: weight
// [D,c,D] (out, tap, in) as [out,in,tap]; decoder_weight [c,D,D] (tap, out, in) as [in,out,tap];
// biases as they are. Undefined for undefined.
at::Tensor file_layout(const std::string& name, const at::Tensor& ours);

// The rows of a layer's queue in a saved state, oldest first [B,m,D]; undefined when it is empty.
at::Tensor queue_rows(const memory::StackState& state, int64_t layer, const std::string& queue);

// A loss of a file; 0 where the file has what rounding leaves of it, as with rate = 1 and mean: the
// distance to it is absolute then.
at::Tensor read_loss(const SafetensorsFile& file, const std::string& name);

// Compares one file at one dtype.
void compare_paper(const SafetensorsFile& file, at::ScalarType dtype, Comparison& to,
                   LeftOut& left_out);
void compare_functions(const SafetensorsFile& file, at::ScalarType dtype, Comparison& to,
                       LeftOut& left_out);
void compare_peer(const SafetensorsFile& file, at::ScalarType dtype, Comparison& to,
                  LeftOut& left_out);

}  // namespace mneme::golden
