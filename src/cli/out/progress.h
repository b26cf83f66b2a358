/* How far long work has come: a bar on stderr where that is a terminal, else nothing. */
#ifndef CLATTN_SRC_CLI_OUT_PROGRESS_H
#define CLATTN_SRC_CLI_OUT_PROGRESS_H

#include <stddef.h>

/* done of total steps, and what is being done now. */
void progress_show(size_t done, size_t total, const char *what);
void progress_clear(void);
/* From now on nothing is shown. */
void progress_hide(void);

#endif
