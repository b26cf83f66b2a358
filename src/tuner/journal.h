/* What a tuner was doing when it stopped: a line for every point before it runs, and one after. A point that was begun
 * and has no end has stopped the process. */
#ifndef CLATTN_SRC_TUNER_JOURNAL_H
#define CLATTN_SRC_TUNER_JOURNAL_H

#include "tuner/trial.h"

#include <stdio.h>

struct journal_entry {
    char *item; /* the search it belongs to */
    struct tuned tuned;
    enum trial_state state;
    double time, error;
};

struct journal {
    char *path;
    FILE *file;
    int lock;
    struct journal_entry *entries; /* of earlier runs, the last of every point */
    size_t count;
    char **finished; /* items that an earlier run has brought to their end */
    size_t finished_count;
};

/* Reads what is there and goes on writing behind it; waits for no other tuner. */
clattn_status journal_open(struct journal *journal, const char *path, const struct log *log);
/* With done the file goes. */
void journal_close(struct journal *journal, int done);

void journal_write(struct journal *journal, const char *item, const struct tuned *tuned, enum trial_state state,
                   double time, double error);
void journal_finish(struct journal *journal, const char *item);
int journal_finished(const struct journal *journal, const char *item);

#endif
