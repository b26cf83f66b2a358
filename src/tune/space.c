/* Solvers by number and by name. */
#include "tune/space.h"

#include "solve/solve.h"

#include <string.h>

const struct solver *solver_at(int index)
{
    return solver_list[index];
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
