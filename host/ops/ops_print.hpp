// The op set as people and programs read it.
#pragma once

#include <iosfwd>

namespace mneme::ops {

// Prints every op's schema: a text table, or one JSON array of objects {name, inputs, outputs,
// attributes, dtypes, differentiable, help} and a line end.
void print_ops(std::ostream& out, bool json);

}  // namespace mneme::ops
