// The one source of mneme_gtest_pch: a precompiled header has to belong to a target that compiles something.
