/* A pool of worker processes. Each runs this command with other arguments; its output is read line by line. */
#ifndef CLATTN_SRC_CLI_PROCESS_WORKERS_H
#define CLATTN_SRC_CLI_PROCESS_WORKERS_H

#include "base/thread.h"
#include "cli/process/process.h"

enum { MAX_WORKERS = 64 };

struct workers {
    mutex lock;
    struct process processes[MAX_WORKERS]; /* id 0: a free place */
    int stopped;
};

void workers_init(struct workers *workers);

/* Runs one worker to its end and calls on_line with every line that it prints, without the newline. Returns its exit
 * status, or -1 if it could not start or a signal ended it. `how` says what happened, as process_end does. At most
 * MAX_WORKERS threads may call it at the same time. */
int workers_run(struct workers *workers, const char *const *words, void (*on_line)(void *user, char *line), void *user,
                char *how, size_t size);

/* Ends all workers; none starts after it. Their unfinished cache entries are removed. */
void workers_stop(struct workers *workers);

#endif
