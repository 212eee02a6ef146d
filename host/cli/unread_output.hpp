// Output to a pipe whose reader has ended: `mneme ... 2>&1 | head -2`.
#pragma once

namespace mneme::cli {

// From now on a write that nobody reads (SIGPIPE) ends the process as that signal does where stdout
// has lost its reader. Elsewhere, as on stderr, the write fails with EPIPE, and the text is
// dropped. A SIGPIPE that was ignored or handled at the start stays so.
void take_broken_pipes();

// From now on, to the end of the process, a write to a stdout that nobody reads is dropped too. For
// commands whose work is saved. Called before their first line of progress.
void go_on_unread();

// True where stdout has no reader any more.
[[nodiscard]] bool is_stdout_unread();

// True where take_broken_pipes() took the signal: a command then ends by it.
[[nodiscard]] bool ends_unread();

}  // namespace mneme::cli
