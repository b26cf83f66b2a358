#include "items.h"

#include "found.h"
#include "harness.h"
#include "reference/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

enum { STACK = 256 << 10, SUB_GROUP = 32, SUB_GROUPS = MOST_LANES / SUB_GROUP, BARRIERS = 16, GROUP_BARRIER = 0 };

/* Who has come to a barrier since it was last complete. clock: what they did before; of an instruction, which orders
 * nothing, what all of them do when the last has come. */
struct barrier {
    int lanes, joined, waiting;
    uint16_t waiters[MOST_LANES];
    uint8_t has[MOST_LANES];
    clock_of_lanes clock;
};

static struct {
    const struct group *group;
    ucontext_t scheduler, items[MOST_LANES];
    unsigned char *stacks;
    int current, unfinished, ready_count;
    uint16_t ready[MOST_LANES];
    char waits_at[MOST_LANES][40];
    struct barrier barriers[BARRIERS], own[SUB_GROUPS], together[SUB_GROUPS];
    uint32_t random;
} items = {.random = 1};

/* ---- Work-items in turn ------------------------------------------------------------------------------------------ */

static uint32_t draw(uint32_t below)
{
    items.random ^= items.random << 13;
    items.random ^= items.random >> 17;
    items.random ^= items.random << 5;
    return items.random % below;
}

static void run_item(void)
{
    items.group->entry(items.group->arguments);
    races_settle();
    items.unfinished--;
    for (;;) /* it is not ready again */
        swapcontext(&items.items[items.current], &items.scheduler);
}

static void make_ready(int lane)
{
    items.waits_at[lane][0] = '\0';
    items.ready[items.ready_count++] = (uint16_t)lane;
}

static void pause_item(void)
{
    swapcontext(&items.items[items.current], &items.scheduler);
}

static int begin(const struct group *group, struct memory *local)
{
    if (items.stacks == NULL) {
        void *stacks =
            mmap(NULL, (size_t)STACK * MOST_LANES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stacks == MAP_FAILED)
            return 0;
        items.stacks = stacks;
    }
    items.group = group;
    items.unfinished = group->lanes;
    items.ready_count = 0;
    memset(items.barriers, 0, sizeof items.barriers);
    memset(items.own, 0, sizeof items.own);
    memset(items.together, 0, sizeof items.together);
    races_group(group->lanes, local);
    for (int lane = 0; lane < group->lanes; lane++) {
        getcontext(&items.items[lane]);
        items.items[lane].uc_stack.ss_sp = items.stacks + (size_t)lane * STACK;
        items.items[lane].uc_stack.ss_size = STACK;
        makecontext(&items.items[lane], run_item, 0);
        make_ready(lane);
    }
    return 1;
}

/* A line for each run of lanes that wait at the same place */
static void report_waiting(void)
{
    for (int lane = 0, first = 0; lane < items.group->lanes; lane++) {
        if (lane + 1 < items.group->lanes && strcmp(items.waits_at[lane], items.waits_at[lane + 1]) == 0)
            continue;
        if (items.waits_at[lane][0] != '\0')
            found("lanes %d to %d wait for ever at %s", first, lane, items.waits_at[lane]);
        first = lane + 1;
    }
}

int items_run(const struct group *group, struct memory *local)
{
    if (!begin(group, local)) {
        found("no memory for the stacks of work-items");
        return 0;
    }
    while (items.ready_count > 0) {
        uint32_t i = draw((uint32_t)items.ready_count);
        items.current = items.ready[i];
        items.ready[i] = items.ready[--items.ready_count];
        swapcontext(&items.scheduler, &items.items[items.current]);
    }
    if (items.unfinished == 0)
        return 1;
    report_waiting();
    return 0;
}

/* ---- Barriers ---------------------------------------------------------------------------------------------------- */

static void complete(struct barrier *barrier, int orders)
{
    for (int i = 0; i < barrier->waiting; i++) {
        if (orders)
            races_take(barrier->waiters[i], barrier->clock);
        make_ready(barrier->waiters[i]);
    }
    memset(barrier, 0, sizeof *barrier);
}

/* The current work-item comes to a barrier of so many lanes, and stays until they have come or goes on. */
static void come(struct barrier *barrier, const char *name, int lanes, int stays, int orders)
{
    int lane = items.current;

    races_settle();
    if (barrier->joined > 0 && barrier->lanes != lanes)
        found("lane %d comes to %s as one of %d lanes, others as one of %d", lane, name, lanes, barrier->lanes);
    if (barrier->has[lane])
        found("lane %d comes to %s again before the others have come", lane, name);
    barrier->has[lane] = 1;
    barrier->lanes = lanes;
    barrier->joined++;
    if (orders)
        races_leave(lane, barrier->clock);
    if (stays) {
        snprintf(items.waits_at[lane], sizeof items.waits_at[lane], "%s of %d lanes", name, lanes);
        barrier->waiters[barrier->waiting++] = (uint16_t)lane;
    }
    if (barrier->joined >= lanes)
        complete(barrier, orders);
    if (stays)
        pause_item();
}

static void come_to(int number, int lanes, int stays)
{
    char name[24];

    snprintf(name, sizeof name, "barrier %d", number);
    if (number < 0 || number >= BARRIERS || lanes % SUB_GROUP != 0 || lanes > items.group->lanes)
        found("there is no %s of %d lanes", name, lanes);
    else
        come(&items.barriers[number], name, lanes, stays, 1);
}

/* ---- What kernels call: OpenCL, and cl/nvidia_threads.clh -------------------------------------------------------- */

size_t get_local_id(unsigned dimension);
size_t get_group_id(unsigned dimension);
size_t get_num_groups(unsigned dimension);
void threads_wait_group(void);
void threads_wait(int barrier, int lanes);
void threads_signal(int barrier, int lanes);
void threads_wait_own(void);
void threads_mma(const uint32_t *ab, float *d, int bf16);
void threads_matrices_load(const void *row, uint32_t *x, int transposed);
void threads_matrices_put(void *row, const uint32_t *x);

size_t get_local_id(unsigned dimension)
{
    return dimension == 0 ? (size_t)items.current : 0;
}

size_t get_group_id(unsigned dimension)
{
    return items.group->id[dimension];
}

size_t get_num_groups(unsigned dimension)
{
    return items.group->count[dimension];
}

void threads_wait_group(void)
{
    come(&items.barriers[GROUP_BARRIER], "the group's barrier", items.group->lanes, 1, 1);
}

void threads_wait(int barrier, int lanes)
{
    come_to(barrier, lanes, 1);
}

void threads_signal(int barrier, int lanes)
{
    come_to(barrier, lanes, 0);
}

void threads_wait_own(void)
{
    come(&items.own[items.current / SUB_GROUP], "a sub-group's barrier", SUB_GROUP, 1, 1);
}

/* What lanes of a sub-group bring to an instruction */
static struct {
    const void *rows[SUB_GROUP];
    uint32_t words[SUB_GROUP][8];
} brought[SUB_GROUPS];
#define MINE brought[items.current / SUB_GROUP]

/* All lanes of the sub-group have brought what is theirs. */
static void together(const char *instruction)
{
    come(&items.together[items.current / SUB_GROUP], instruction, SUB_GROUP, 1, 0);
}

/* They have taken what they want of it. */
static void apart(const char *instruction)
{
    together(instruction);
}

static float number(uint32_t pair, int high, int bf16)
{
    uint16_t bits = (uint16_t)(high ? pair >> 16 : pair);
    return (float)number_load(bf16 ? CLATTN_BF16 : CLATTN_F16, &bits, 0);
}

/* By the map of m16n8k16 that cl/nvidia_emulated.clh has: registers 0-3 are A, 4-5 B of columns 0-7, 6-7 of columns
 * 8-15. */
static float left_number(int row, int k, int bf16)
{
    return number(MINE.words[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2], k % 2, bf16);
}

static float right_number(int k, int column, int bf16)
{
    return number(MINE.words[column % 8 * 4 + k % 8 / 2][4 + column / 8 * 2 + k / 8], k % 2, bf16);
}

void threads_mma(const uint32_t *ab, float *d, int bf16)
{
    int lane = items.current % SUB_GROUP;

    memcpy(MINE.words[lane], ab, sizeof MINE.words[lane]);
    together("mma");
    for (int i = 0; i < 8; i++)
        for (int k = 0; k < 16; k++)
            d[i] += left_number(lane / 4 + i / 2 % 2 * 8, k, bf16) *
                    right_number(k, lane % 4 * 2 + i % 2 + i / 4 * 8, bf16);
    apart("mma");
}

static uint32_t element(int matrix, int row, int column)
{
    return ((const uint16_t *)MINE.rows[matrix * 8 + row])[column];
}

static void check_row(const void *row, const char *instruction)
{
    if ((uintptr_t)row % 16 != 0)
        found("lane %d: %s of a row that is not aligned to 16 bytes", items.current, instruction);
}

void threads_matrices_load(const void *row, uint32_t *x, int transposed)
{
    int lane = items.current % SUB_GROUP, g = lane / 4, t = lane % 4 * 2;

    races_access(items.current, row, 16, WAY_MOVE, __builtin_return_address(0));
    check_row(row, "ldmatrix");
    MINE.rows[lane] = row;
    together("ldmatrix");
    for (int i = 0; i < 4; i++)
        x[i] =
            transposed ? element(i, t, g) | element(i, t + 1, g) << 16 : element(i, g, t) | element(i, g, t + 1) << 16;
    apart("ldmatrix");
}

void threads_matrices_put(void *row, const uint32_t *x)
{
    int lane = items.current % SUB_GROUP, r = lane % 8, matrix = lane / 8;

    races_access(items.current, row, 16, WAY_WRITE, __builtin_return_address(0));
    check_row(row, "stmatrix");
    memcpy(MINE.words[lane], x, 4 * sizeof *x);
    together("stmatrix");
    for (int c = 0; c < 8; c++)
        ((uint16_t *)row)[c] = (uint16_t)(MINE.words[c * 4 + r / 2][matrix] >> r % 2 * 16);
    apart("stmatrix");
}

/* ---- What clang's -fsanitize=kernel-address calls at every access -------------------------------------- */

/* An item's own stack holds what is private. */
static void access(const void *at, size_t bytes, enum way way, const void *pc)
{
    const unsigned char *stack = items.stacks + (size_t)items.current * STACK, *address = at;

    if (address < stack || address >= stack + STACK)
        races_access(items.current, at, bytes, way, pc);
}

#define ACCESS(bytes)                                                                                                  \
    void threads_load##bytes##_noabort(const void *at);                                                                \
    void threads_load##bytes##_noabort(const void *at)                                                                 \
    {                                                                                                                  \
        access(at, bytes, WAY_READ, __builtin_return_address(0));                                                      \
    }                                                                                                                  \
    void threads_store##bytes##_noabort(const void *at);                                                               \
    void threads_store##bytes##_noabort(const void *at)                                                                \
    {                                                                                                                  \
        access(at, bytes, WAY_WRITE, __builtin_return_address(0));                                                     \
    }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void threads_loadN_noabort(const void *at, size_t bytes);
void threads_loadN_noabort(const void *at, size_t bytes)
{
    access(at, bytes, WAY_READ, __builtin_return_address(0));
}
void threads_storeN_noabort(const void *at, size_t bytes);
void threads_storeN_noabort(const void *at, size_t bytes)
{
    access(at, bytes, WAY_WRITE, __builtin_return_address(0));
}

/* ---- What clang's -fsanitize=alignment calls at an access to less than its type's alignment ---------------------- */

/* The beginning of what clang says of the access */
struct misaligned {
    struct {
        const char *file;
        uint32_t line, column;
    } place;
    const struct {
        uint16_t kind, info;
        char name[];
    } * type;
    uint8_t log_alignment;
};

void __ubsan_handle_type_mismatch_v1(const struct misaligned *what, uintptr_t address);
void __ubsan_handle_type_mismatch_v1(const struct misaligned *what, uintptr_t address)
{
    char line[512];

    found_line(__builtin_return_address(0), line, sizeof line);
    if (found_count() == 0) /* at once: the access may end the process */
        print_error("%s is not aligned: %s\n", what->type->name, line);
    found("lane %d: %s at an address that is %d past a multiple of %d: %s", items.current, what->type->name,
          (int)(address & ((1u << what->log_alignment) - 1)), 1 << what->log_alignment, line);
}
