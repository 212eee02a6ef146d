// The one source of mneme_pch: a precompiled header has to belong to a target that compiles
// something.
