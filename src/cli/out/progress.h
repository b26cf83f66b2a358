/* A progress bar on stderr, if that is a terminal. */
#ifndef CLATTN_SRC_CLI_OUT_PROGRESS_H
#define CLATTN_SRC_CLI_OUT_PROGRESS_H

#include <stddef.h>

/* done of total steps, and a text for the current one. */
void progress_show(size_t done, size_t total, const char *what);
void progress_clear(void);
/* Turns the bar off. */
void progress_hide(void);

#endif
