#include "races.h"

#include "found.h"

#include <stdlib.h>
#include <string.h>

enum { GRAIN = 2 };

/* An access by a lane of a group at that time of its; group 0: none. Groups are numbered over all launches. */
struct access {
    uint64_t group;
    const void *pc;
    uint32_t time;
    uint16_t lane;
};

struct cell {
    struct access write, read;
    uint64_t many_groups; /* the launch in which several groups read it */
    uint32_t *readers;    /* time of the last read of each lane, where several lanes read since the last write */
};

static struct memory *memories;
static uint64_t group, launch_first = 1;
static int lanes;
static clock_of_lanes clocks[MOST_LANES];

int races_add(struct memory *memory)
{
    memory->cells = calloc((memory->bytes + GRAIN - 1) / GRAIN, sizeof *memory->cells);
    if (memory->cells == NULL)
        return 0;
    memory->next = memories;
    memories = memory;
    return 1;
}

static void forget(struct memory *memory)
{
    size_t count = (memory->bytes + GRAIN - 1) / GRAIN;

    for (size_t i = 0; i < count; i++)
        free(memory->cells[i].readers);
    memset(memory->cells, 0, count * sizeof *memory->cells);
}

void races_remove(struct memory *memory)
{
    struct memory **at = &memories;

    while (*at != memory)
        at = &(*at)->next;
    *at = memory->next;
    forget(memory);
    free(memory->cells);
}

static size_t told_count;

void races_launch(void)
{
    launch_first = group + 1;
    told_count = 0;
}

void races_group(int count, struct memory *local)
{
    group++;
    lanes = count;
    for (int i = 0; i < lanes; i++) {
        memset(clocks[i], 0, (size_t)lanes * sizeof clocks[i][0]);
        clocks[i][i] = 1;
    }
    forget(local);
    memset(local->base, 0xff, local->bytes);
}

static void join(uint32_t *to, const uint32_t *from)
{
    for (int i = 0; i < lanes; i++)
        to[i] = to[i] > from[i] ? to[i] : from[i];
}

void races_leave(int lane, uint32_t *clock)
{
    join(clock, clocks[lane]);
    clocks[lane][lane]++;
}

void races_take(int lane, const uint32_t *clock)
{
    join(clocks[lane], clock);
}

/* ---- Accesses ---------------------------------------------------------------------------------------------------- */

/* Places in the kernel that this launch's report has already */
static struct {
    const void *pc, *other;
} told[64];

static int is_told(const void *pc, const void *other)
{
    for (size_t i = 0; i < told_count; i++)
        if (told[i].pc == pc && told[i].other == other)
            return 1;
    if (told_count < sizeof told / sizeof *told) {
        told[told_count].pc = pc;
        told[told_count++].other = other;
    }
    return 0;
}

static const char *name_of(const struct memory *memory)
{
    return memory->local ? "local memory" : "a buffer";
}

static void report(const struct memory *memory, const char *now, int lane, const void *pc, const char *before,
                   const struct access *other, const char *how)
{
    char here[256], there[256];

    if (is_told(pc, other->pc))
        return;
    found_line(pc, here, sizeof here);
    found_line(other->pc, there, sizeof there);
    found("race in %s: lane %d %s at %s\n    and lane %d%s %s at %s", name_of(memory), lane, now, here, other->lane,
          how, before, there);
}

/* Whether the access was before what the lane does now */
static int is_before(const struct access *access, int lane)
{
    return access->group < launch_first || (access->group == group && access->time <= clocks[lane][access->lane]);
}

static const char *whose(const struct access *access)
{
    return access->group != group ? " of another group" : "";
}

/* A lane whose read is not before the write; -1 for none */
static int unordered_reader(const struct cell *cell, int lane)
{
    for (int i = 0; i < lanes; i++)
        if (cell->readers[i] > clocks[lane][i])
            return i;
    return -1;
}

/* A write beside another, until it is seen whether it changed anything: several lanes may write the same. */
static struct {
    const struct memory *memory;
    const unsigned char *at;
    size_t bytes;
    unsigned char before[64];
    struct access other;
    const void *pc;
    int lane;
} beside;

static void note_beside(const struct memory *memory, const struct access *other, int lane, const unsigned char *at,
                        size_t bytes, const void *pc)
{
    beside.memory = memory;
    beside.at = at;
    beside.bytes = bytes < sizeof beside.before ? bytes : sizeof beside.before;
    memcpy(beside.before, at, beside.bytes);
    beside.other = *other;
    beside.pc = pc;
    beside.lane = lane;
}

void races_settle(void)
{
    if (beside.memory != NULL && memcmp(beside.before, beside.at, beside.bytes) != 0)
        report(beside.memory, "writes", beside.lane, beside.pc, "writes", &beside.other, whose(&beside.other));
    beside.memory = NULL;
}

static int check_write(const struct memory *memory, struct cell *cell, int lane, const void *pc)
{
    struct access reader = cell->read;

    if (cell->many_groups == launch_first) {
        report(memory, "writes", lane, pc, "reads", &reader, " and other groups");
        return 0;
    }
    if (cell->readers != NULL && reader.group == group) {
        int other = unordered_reader(cell, lane);
        if (other < 0)
            return 1;
        reader.lane = (uint16_t)other;
    } else if (is_before(&reader, lane))
        return 1;
    report(memory, "writes", lane, pc, "reads", &reader, whose(&reader));
    return 0;
}

static int check_read(const struct memory *memory, const struct cell *cell, int lane, enum way way, const void *pc)
{
    char here[256];

    if (memory->local && cell->write.group == 0) {
        if (way == WAY_MOVE)
            return 1;
        if (is_told(pc, NULL))
            return 0;
        found_line(pc, here, sizeof here);
        found("lane %d reads local memory that nobody wrote, byte %zu, at %s", lane,
              (size_t)(cell - memory->cells) * GRAIN, here);
        return 0;
    }
    if (is_before(&cell->write, lane))
        return 1;
    report(memory, "reads", lane, pc, "writes", &cell->write, whose(&cell->write));
    return 0;
}

static void note_write(struct cell *cell, struct access now)
{
    free(cell->readers);
    cell->readers = NULL;
    cell->read.group = 0;
    cell->write = now;
}

/* One reader is remembered by itself; several of one group by the time of each. */
static void note_read(struct cell *cell, struct access now)
{
    if (cell->read.group == group && cell->read.lane != now.lane && cell->readers == NULL) {
        cell->readers = calloc((size_t)lanes, sizeof *cell->readers);
        if (cell->readers != NULL)
            cell->readers[cell->read.lane] = cell->read.time;
    } else if (cell->read.group != group) {
        if (cell->read.group >= launch_first)
            cell->many_groups = launch_first;
        free(cell->readers);
        cell->readers = NULL;
    }
    if (cell->readers != NULL)
        cell->readers[now.lane] = now.time;
    cell->read = now;
}

/* Whether the bytes are the memory's; some outside are reported. */
static int contains(const struct memory *memory, const unsigned char *at, size_t bytes)
{
    return at >= memory->base && at + bytes <= memory->base + memory->bytes;
}

void races_access(int lane, const void *at, size_t bytes, enum way way, const void *pc)
{
    const unsigned char *address = at;
    struct access now = {group, pc, clocks[lane][lane], (uint16_t)lane};
    struct memory *memory = memories;
    char here[256];
    int right = 1;

    races_settle();
    while (memory != NULL && !contains(memory, address, bytes))
        memory = memory->next;
    if (memory == NULL && is_told(pc, NULL))
        return;
    if (memory == NULL) {
        found_line(pc, here, sizeof here);
        found("lane %d %s %zu bytes outside of buffers and local arrays at %s", lane,
              way == WAY_WRITE ? "writes" : "reads", bytes, here);
        return;
    }
    for (size_t i = (size_t)(address - memory->base) / GRAIN; i * GRAIN < (size_t)(address - memory->base) + bytes;
         i++) {
        struct cell *cell = &memory->cells[i];
        if (way == WAY_WRITE && !is_before(&cell->write, lane))
            note_beside(memory, &cell->write, lane, address, bytes, pc);
        right =
            right && (way == WAY_WRITE ? check_write(memory, cell, lane, pc) : check_read(memory, cell, lane, way, pc));
        if (way == WAY_WRITE)
            note_write(cell, now);
        else
            note_read(cell, now);
    }
}
