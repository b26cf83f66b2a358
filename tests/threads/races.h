/* Which accesses to memory no barrier orders: every two bytes remember who wrote and who read them last, by vector
 * clocks. */
#ifndef CLATTN_TESTS_THREADS_RACES_H
#define CLATTN_TESTS_THREADS_RACES_H

#include <stddef.h>
#include <stdint.h>

enum { MOST_LANES = 1024 };

/* Memory that kernels may use: a buffer, or the local arrays of one. */
struct memory {
    unsigned char *base;
    size_t bytes;
    int local;
    struct cell *cells;
    struct memory *next;
};
int races_add(struct memory *memory);
void races_remove(struct memory *memory);

/* What was done before a launch is before all of it. Groups are not ordered. Local memory is unwritten as a group
 * begins. */
void races_launch(void);
void races_group(int lanes, struct memory *local);

/* How far each other lane had come when what this knows of it happened. */
typedef uint32_t clock_of_lanes[MOST_LANES];
/* The lane leaves all that it has done in `clock`, for others. */
void races_leave(int lane, uint32_t *clock);
/* All in `clock` happened before what the lane does next. */
void races_take(int lane, const uint32_t *clock);

/* WAY_MOVE: a read of what may not have been written yet, and is not used then: whole matrices are moved where a part
 * is used. (Unwritten local memory is NaN, so that its use shows in the results.) */
enum way { WAY_READ, WAY_WRITE, WAY_MOVE };
void races_access(int lane, const void *at, size_t bytes, enum way way, const void *pc);
/* The lane waits or ends: its last access is done. */
void races_settle(void);

#endif
