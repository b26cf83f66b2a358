/* SIGINT, SIGTERM and SIGHUP during long work. A thread waits for them, so that the handler may print and take
 * locks. */
#ifndef CLATTN_SRC_CLI_PROCESS_INTERRUPT_H
#define CLATTN_SRC_CLI_PROCESS_INTERRUPT_H

#include <signal.h>

/* Calls interrupted(user, signal) once, on a thread of its own. A second signal ends the process. Must be called before
 * other threads start, because they would receive the signals. Signals that the process inherited as blocked or ignored
 * stay so. */
void interrupt_watch(void (*interrupted)(void *user, int signal), void *user);
/* The first SIGINT sets *flag and prints line on stderr, from the handler. A second one ends the process. */
void interrupt_flag(volatile sig_atomic_t *flag, const char *line);
/* Ends the process with 128 + signal, as shells report it, and without cleaning up: a driver may be in any state. */
void interrupt_exit(int signal);

#endif
