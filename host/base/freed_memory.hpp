// How the process treats memory that it has freed, and of what pages its memory is made. Both are
// called once, before the first thread, and do nothing with another C library than glibc.
#pragma once

namespace mneme {

// Keeps it for the next allocation. A step frees its tensors and the next one allocates the same
// sizes: memory that is returned to the system in between has to be mapped and zeroed again, which
// took 40 % of an evaluation's time. By default glibc returns large blocks, and which ones depends
// on what was freed before, so that equal code may differ by a quarter in speed.
void keep_freed_memory();

// Asks for huge pages for the first half of the machine's memory that will be allocated, where the
// system gives them on request. A segment reads all weights, keys and values once; with pages of 4
// KiB, translating their addresses took a seventh of attention's time. After keep_freed_memory,
// without which the address range would not be kept.
void ask_for_huge_pages();

}  // namespace mneme
