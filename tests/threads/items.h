/* Work-items of a group, each with a stack of its own, all in one host thread: one goes on until it waits at a
 * barrier. */
#ifndef CLATTN_TESTS_THREADS_ITEMS_H
#define CLATTN_TESTS_THREADS_ITEMS_H

#include "races.h"

/* One group of a launch: what the work-items call, and where they are. */
struct group {
    void (*entry)(void **arguments);
    void **arguments;
    int lanes;
    size_t id[3], count[3];
};

/* Runs the group; 0 where some work-item never ends. */
int items_run(const struct group *group, struct memory *local);

#endif
