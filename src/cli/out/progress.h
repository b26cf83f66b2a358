/* A progress bar on stderr, if that is a terminal. */
#ifndef CLATTN_SRC_CLI_OUT_PROGRESS_H
#define CLATTN_SRC_CLI_OUT_PROGRESS_H

#include <stddef.h>

/* done of total steps, and a text for the current one. */
void progress_show(size_t done, size_t total, const char *what);
void progress_clear(void);
/* Calls work(user), on another thread where the system has one. If it takes longer than a second, a line says so:
 * *phase, which the work may change, and the time. NULL: nothing is said. */
void progress_while(const char *_Atomic *phase, void (*work)(void *user), void *user);
/* Turns the bar off. */
void progress_hide(void);

#endif
