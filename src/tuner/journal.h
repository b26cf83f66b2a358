/* Records what a tuner does, so that a stopped run can be resumed: one line before each point runs and one after. A
 * point with a first line but no second one has crashed the process. */
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
    struct journal_entry *entries; /* of earlier runs: the last line of every point */
    size_t count;
    char **finished; /* searches that an earlier run completed */
    size_t finished_count;
};

/* Reads the existing journal and appends to it. Fails if another tuner has it. */
clattn_status journal_open(struct journal *journal, const char *path, const struct log *log);
/* done: removes the file. */
void journal_close(struct journal *journal, int done);

void journal_write(struct journal *journal, const char *item, const struct tuned *tuned, enum trial_state state,
                   double time, double error);
void journal_finish(struct journal *journal, const char *item);
int journal_finished(const struct journal *journal, const char *item);

#endif
