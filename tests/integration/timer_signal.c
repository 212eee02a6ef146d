/* Preloaded into a program, interrupts it a thousand times a second of processor time, as a
 * profiler does: SIGPROF with a handler that runs on the interrupted thread's own stack and does
 * nothing. At the end the file that MNEME_TEST_SIGNALS names holds how many there were. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

static volatile sig_atomic_t signals;

static void count(int signal) {
  (void)signal;
  signals = signals + 1;
}

__attribute__((constructor)) static void start(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = count;
  action.sa_flags = SA_RESTART;
  sigaction(SIGPROF, &action, NULL);
  const struct itimerval every = {{0, 1000}, {0, 1000}};
  setitimer(ITIMER_PROF, &every, NULL);
}

/* At an ordinary end, which a program with a sanitizer or a GPU has. */
__attribute__((destructor)) static void tell(void) {
  const char* const path = getenv("MNEME_TEST_SIGNALS");
  FILE* const file = path == NULL ? NULL : fopen(path, "w");
  if (file == NULL) return;
  fprintf(file, "%ld\n", (long)signals);
  fclose(file);
}

/* In place of the C library's: other programs end with it, without destructors. */
void _Exit(int status) {
  tell();
  _exit(status);
}
