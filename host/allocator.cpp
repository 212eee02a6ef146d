// The settings of jemalloc, which the program is linked with in place of the C library's heap.
//
// Freed memory is kept, that of large tensors too: a step frees its tensors and the next one
// allocates the same sizes. Memory that is returned to the system in between has to be mapped and
// zeroed again, which took 40 % of an evaluation's time, and still 5 % of one with segments of two
// seconds when memory was returned after half a minute. Its pages are huge where the system gives
// them on request: a segment reads all weights, keys and values once, and with pages of 4 KiB
// translating their addresses took a seventh of attention's time. And rows that live long do not
// cut up the heap between temporaries: an evaluation with the C library's had 1.2 times as much
// memory.
//
// Freed memory of up to 1024 times a request (2^10) is cut for it. By default jemalloc leaves whole
// what is more than 64 times as large (lg_extent_max_active_fit is 6) and asks the system instead.
// That counts on freed memory going back, which it does not here: freed neighbours are joined, so
// the keys and values of a memory that is reset became one piece too large to be cut for the next
// ones, and an evaluation of questions grew by them with every question.

// jemalloc looks for this name; the environment's MALLOC_CONF goes before it.
extern "C" __attribute__((visibility("default"))) const char* malloc_conf;
const char* malloc_conf =
    "dirty_decay_ms:-1,oversize_threshold:0,thp:always,lg_extent_max_active_fit:10";
