/* What tuning may choose of each solver: a row a number. A chunk's record binds prepare and scan to the same chunk and
 * vec. */
#include "tune/space.h"

#include "kernel/kernel.h"

#include <string.h>

#define IN(name) (UINT64_C(1) << KERNEL_##name)
#define FIELD(name) offsetof(struct tiles, name)
/* clang-format off */
/* Sets of kernels. Not enumerators, which C11 keeps within an int. */
#define PATH (IN(PREPARE_PATH) | IN(CARRY_PATH) | IN(TURN_PATH) | IN(FLASH_PATH))
#define PATH_MATRIX (IN(PREPARE_PATH_MATRIX) | IN(CARRY_PATH_MATRIX) | IN(FLASH_PATH_MATRIX))
#define PATH_TEAM (IN(PREPARE_PATH_TEAM) | IN(CARRY_PATH_TEAM) | IN(FLASH_PATH_TEAM))

static const struct parameter path[] = {
    {"chunk",           PATH,            FIELD(chunk),     {8, 16, 32, 64, BY_THUMB}},
    {"vec",             PATH,            FIELD(vec),       {4, 16, BY_THUMB}},
    {"span",            PATH,            FIELD(span),      {2, 4, 8, 16, 32, 64, BY_THUMB}},
    {"prepare.group",   PATH & ~IN(FLASH_PATH), FIELD(group), {1, 16, 32, 64, 128, 256, BY_THUMB}},
    {"flash.group",     IN(FLASH_PATH),  FIELD(group),     {1, 16, 32, 64, 128, 256, BY_THUMB}},
    {"block_k",         PATH,            FIELD(block_k),   {16, 32, 64, 128, BY_THUMB}},
    {"block_v",         IN(FLASH_PATH),  FIELD(block_v),   {16, 32, 64, 128, 256, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};

static const struct parameter path_matrix[] = {
    {"chunk",           PATH_MATRIX,           FIELD(chunk),   {16, 32, 64, 128, 256, BY_THUMB}},
    {"span",            PATH_MATRIX,           FIELD(tokens),  {32, 64, 128, 256, 512, 1024, BY_THUMB}},
    {"keys",            IN(FLASH_PATH_MATRIX), FIELD(keys),    {16, 32, 64, 128, BY_THUMB}},
    {"stages",          IN(FLASH_PATH_MATRIX), FIELD(stages),  {1, 2, 3, BY_THUMB}},
    {"block_v",         IN(FLASH_PATH_MATRIX), FIELD(block_v), {16, 32, 64, 128, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};

static const struct parameter path_team[] = {
    {"span",            PATH_TEAM,             FIELD(tokens),  {128, 256, 512, 1024, BY_THUMB}},
    {NULL, 0, 0, {BY_THUMB}},
};

/* clang-format on */

/* Ranks are the order in which they are tried. */
static const struct solver old_solvers[] = {
    {.space = {"path_team", path_team, 1024, 0, 1, 1}, .mode = CLATTN_MODE_CHUNK, .rank = 890, .old = 1},
    {.space = {"path_matrix", path_matrix, 1024, 0, 1, 1}, .mode = CLATTN_MODE_CHUNK, .rank = 880, .old = 1},
    {.space = {"path", path, 1024, 0, 0, 1}, .mode = CLATTN_MODE_CHUNK, .rank = 870, .old = 1},
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
