// Removes the short forms of ops_macros.hpp. No include guard: every op header ends with
// it.
#undef MNEME_SDK_OP
#undef MNEME_SDK_UNARY
#undef MNEME_SDK_BINARY
#undef MNEME_SDK_OPERATOR
#undef MNEME_SDK_REDUCTION
#undef MNEME_SDK_SINGLE_REDUCTION
