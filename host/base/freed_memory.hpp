// How the process treats memory that it has freed.
#pragma once

namespace mneme {

// Keeps it for the next allocation. A step frees its tensors and the next one allocates the same
// sizes: memory that is returned to the system in between has to be mapped and zeroed again, which
// took 40 % of an evaluation's time. By default glibc returns large blocks, and which ones depends
// on what was freed before, so that equal code may differ by a quarter in speed. Called once,
// before the first thread; does nothing with another C library.
void keep_freed_memory();

}  // namespace mneme
