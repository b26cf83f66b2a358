/* SIGINT, SIGTERM and SIGHUP while work is long and in pieces: a thread waits for them, so that what it does then
 * may print and take locks, wherever the others are. */
#ifndef CLATTN_SRC_CLI_PROCESS_INTERRUPT_H
#define CLATTN_SRC_CLI_PROCESS_INTERRUPT_H

#include <signal.h>

/* Calls interrupted(user, signal) on a thread of its own, once; a second signal ends the process. Before other
 * threads are started, which would take the signals. What the process was started with blocked or ignored stays so. */
void interrupt_watch(void (*interrupted)(void *user, int signal), void *user);
/* At the first SIGINT sets *flag and prints line on stderr, from the handler; a second one ends the process. */
void interrupt_flag(volatile sig_atomic_t *flag, const char *line);
/* Ends the process as the shell names it, 128 + signal, and nothing else: drivers may be in the middle of anything. */
void interrupt_exit(int signal);

#endif
