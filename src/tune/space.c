/* Solvers by number and name, and their parameters. */
#include "tune/space.h"

#include <string.h>

const struct solver *solver_at(int index)
{
    int count = 0;

    while (count < index && solver_list[count] != NULL)
        count++;
    return solver_list[count];
}

const struct solver *solver_find(const char *name)
{
    int i = 0;

    while (solver_list[i] != NULL && strcmp(solver_list[i]->space.name, name) != 0)
        i++;
    return solver_list[i];
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
