// The host's ops as functions and operators. `mneme abi ops` prints what each one means, its dtypes
// and its defaults; a function here has the op's name, and its parameters are the op's inputs and
// attributes in the schema's order.
//
// All of them may be called in hooks only and throw Failure with the host's text. Dimensions count
// from the end when negative. Mixed dtypes are an error: say cast(x, dtype).
#pragma once

#include "mneme/cpp/ops_math.hpp"
#include "mneme/cpp/ops_network.hpp"
#include "mneme/cpp/ops_reduce.hpp"
#include "mneme/cpp/ops_shape.hpp"
