/* What tuning may choose of each solver: a row a number. A chunk's record binds prepare and scan to the same chunk and
 * vec. */
#include "tune/space.h"

#include "kernel/kernel.h"

#include <string.h>

#define IN(name) (UINT64_C(1) << KERNEL_##name)
#define FIELD(name) offsetof(struct tiles, name)
/* clang-format off */
/* Sets of kernels. Not enumerators, which C11 keeps within an int. */
#define DELTA (IN(WRITE_BEFORE) | IN(WRITE_SOLVE))
#define DELTA_MATRIX (IN(WRITE_BEFORE_MATRIX) | IN(WRITE_SOLVE_MATRIX))
#define DELTA_TEAM (IN(WRITE_BEFORE_TEAM) | IN(WRITE_SOLVE_TEAM))

static const struct parameter channels[] = {
    {"vec",             IN(CHANNELS),    FIELD(vec),       {4, 16, BY_THUMB}},
    {"lanes_k",         IN(CHANNELS),    FIELD(lanes_k),   {1, 2, 4, 8, 16, 32, BY_THUMB}},
    {"block_v",         IN(CHANNELS),    FIELD(block_v),   {4, 8, 16, 32, 64, 128, BY_THUMB}},
    {"spans",           IN(CHANNELS),    FIELD(spans),     {1, 2, 4, 8, 16, 32, BY_THUMB}},
    {"tokens",          IN(CHANNELS),    FIELD(tokens),    {1, 2, 4, 8, 16, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};

static const struct parameter channels_lanes[] = {
    {"block_v",         IN(CHANNELS_LANES), FIELD(block_v), {4, 8, 16, 32, 64, BY_THUMB}},
    {"tokens",          IN(CHANNELS_LANES), FIELD(tokens),  {1, 2, 3, 4, 8, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};

static const struct parameter delta[] = {
    {"chunk",           DELTA,           FIELD(chunk),     {8, 16, 32, 64, BY_THUMB}},
    {"vec",             DELTA,           FIELD(vec),       {4, 16, BY_THUMB}},
    {"span",            DELTA,           FIELD(span),      {2, 4, 8, 16, 32, 64, BY_THUMB}},
    {"group",           DELTA,           FIELD(group),     {1, 16, 32, 64, 128, 256, BY_THUMB}},
    {"block_k",         DELTA,           FIELD(block_k),   {16, 32, 64, 128, BY_THUMB}},
    {"solve.block_v",   IN(WRITE_SOLVE), FIELD(block_v),   {16, 32, 64, 128, 256, BY_THUMB}},
    {"flash.chunk",     IN(FLASH),       FIELD(chunk),     {8, 16, 32, 64, BY_THUMB}},
    {"flash.group",     IN(FLASH),       FIELD(group),     {1, 16, 32, 64, 128, 256, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};

static const struct parameter delta_matrix[] = {
    {"span",            DELTA_MATRIX,            FIELD(tokens),      {64, 128, 256, 512, 1024, BY_THUMB}},
    {"splits",          DELTA_MATRIX,            FIELD(splits),      {1, 2, 4, 8, 16, BY_THUMB}},
    {"before.chunk",    IN(WRITE_BEFORE_MATRIX), FIELD(chunk),       {16, 32, 64, 128, 256, BY_THUMB}},
    {"before.keys",     IN(WRITE_BEFORE_MATRIX), FIELD(keys),        {16, 32, 64, 128, BY_THUMB}},
    {"before.step",     IN(WRITE_BEFORE_MATRIX), FIELD(step),        {1, 2, 4, BY_THUMB}},
    {"before.stages",   IN(WRITE_BEFORE_MATRIX), FIELD(stages),      {1, 2, 3, BY_THUMB}},
    {"solve.subs",      IN(WRITE_SOLVE_MATRIX),  FIELD(value_tiles), {2, 4, 8, 16, BY_THUMB}},
    {"solve.block_v",   IN(WRITE_SOLVE_MATRIX),  FIELD(block_v),     {16, 32, 64, 128, BY_THUMB}},
    {"chunk",           IN(FLASH_MATRIX),        FIELD(chunk),       {16, 32, 64, 128, 256, BY_THUMB}},
    {"keys",            IN(FLASH_MATRIX),        FIELD(keys),        {16, 32, 64, 128, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};

static const struct parameter delta_team[] = {
    {"span",            DELTA_TEAM,            FIELD(tokens),      {128, 256, 512, 1024, BY_THUMB}},
    {"splits",          DELTA_TEAM,            FIELD(splits),      {1, 2, 4, 8, 16, BY_THUMB}},
    {"solve.subs",      IN(WRITE_SOLVE_TEAM),  FIELD(value_tiles), {2, 4, 8, 16, BY_THUMB}},
    {"solve.block_v",   IN(WRITE_SOLVE_TEAM),  FIELD(block_v),     {16, 32, 64, 128, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};

/* clang-format on */

/* Ranks are the order in which they are tried. */
static const struct solver old_solvers[] = {
    {.space = {"delta_team", delta_team, 1024, 0, 1, 1}, .mode = CLATTN_MODE_CHUNK, .rank = 850, .old = 1},
    {.space = {"delta_matrix", delta_matrix, 1024, 0, 1, 1}, .mode = CLATTN_MODE_CHUNK, .rank = 840, .old = 1},
    {.space = {"delta", delta, 1024, 0, 0, 1}, .mode = CLATTN_MODE_CHUNK, .rank = 830, .old = 1},
    {.space = {"channels", channels, 1024, 0, 0, 1}, .mode = CLATTN_MODE_RECURRENT, .rank = 820, .old = 1},
    {.space = {"channels_lanes", channels_lanes, 1024, 0, 0, 1}, .mode = CLATTN_MODE_RECURRENT, .rank = 810, .old = 1},
};

enum { OLD_COUNT = sizeof old_solvers / sizeof *old_solvers };

static int listed(void)
{
    int count = 0;

    while (solver_list[count] != NULL)
        count++;
    return count;
}

const struct solver *solver_at(int index)
{
    const int count = listed();

    if (index < count)
        return solver_list[index];
    return index - count < OLD_COUNT ? &old_solvers[index - count] : NULL;
}

const struct solver *solver_find(const char *name)
{
    int i = 0;

    while (solver_at(i) != NULL && strcmp(solver_at(i)->space.name, name) != 0)
        i++;
    return solver_at(i);
}

const struct space *space_at(int index)
{
    const struct solver *solver = solver_at(index);

    return solver != NULL ? &solver->space : NULL;
}

const struct space *space_find(const char *name)
{
    const struct solver *solver = solver_find(name);

    return solver != NULL ? &solver->space : NULL;
}

uint64_t space_kernels(const struct space *space)
{
    uint64_t kernels = 0;

    for (const struct parameter *parameter = space->parameters; parameter->name != NULL; parameter++)
        kernels |= parameter->kernels;
    return kernels;
}
