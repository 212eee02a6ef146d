// The last words of a process that ends in the middle of a call into a plugin.
#pragma once

namespace mneme::cli {

// From now on a fault (SIGSEGV, SIGBUS, SIGILL, SIGFPE) or an abort says on stderr which call into
// a plugin ran, if one did, and the process dies by the same signal; exit() inside such a call is
// said too, and the exit status is that of a plugin's error. What another handler has already been
// set for (a sanitizer's, a debugger's) stays. To be called once, on the main thread, which gets a
// stack for it: a hook may have used up its own.
void name_culprits();

}  // namespace mneme::cli
