#include "solve/parameter.h"

#include <string.h>

struct tuned tuned_default(const struct space *space)
{
    struct tuned tuned = {.space = space};

    for (int i = 0; i < MAX_PARAMETERS; i++)
        tuned.values[i] = BY_HEURISTIC;
    return tuned;
}

int tuned_set(struct tuned *tuned, const char *name, int value)
{
    const struct parameter *parameters = tuned->space->parameters;

    for (int i = 0; parameters[i].name != NULL; i++)
        if (strcmp(parameters[i].name, name) == 0 && parameter_has(&parameters[i], value)) {
            tuned->values[i] = value;
            return 1;
        }
    return 0;
}

void tuned_tiles(const struct tuned *tuned, void *tiles, size_t size)
{
    int *numbers = tiles;

    for (size_t i = 0; i < size / sizeof(int); i++)
        numbers[i] = TILE_OPEN;
    if (tuned == NULL)
        return;
    for (int i = 0; tuned->space->parameters[i].name != NULL; i++)
        numbers[tuned->space->parameters[i].field / sizeof(int)] = tuned->values[i];
}

int take_tiles(void *tiles, const void *given, size_t size)
{
    int *to = tiles, any = 0;

    for (size_t i = 0; i < size / sizeof(int); i++)
        if (((const int *)given)[i] != TILE_OPEN) {
            to[i] = ((const int *)given)[i];
            any = 1;
        }
    return any;
}

int tuned_is_default(const struct tuned *tuned)
{
    for (int i = 0; i < MAX_PARAMETERS; i++)
        if (tuned->values[i] != BY_HEURISTIC)
            return 0;
    return 1;
}

double space_points(const struct space *space)
{
    double points = 1;

    for (const struct parameter *parameter = space->parameters; parameter->name != NULL; parameter++) {
        int count = 0;
        while (parameter->values[count] != BY_HEURISTIC)
            count++;
        points *= count;
    }
    return points;
}

int parameter_has(const struct parameter *parameter, int value)
{
    for (const int16_t *known = parameter->values; *known != BY_HEURISTIC; known++)
        if (*known == value)
            return 1;
    return 0;
}
