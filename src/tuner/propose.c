#include "tuner/propose.h"

#include "tune/tiles.h"

#include <string.h>

/* splitmix64 */
static uint64_t next_random(struct propose *propose)
{
    uint64_t x = propose->random += 0x9e3779b97f4a7c15u;

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static int random_below(struct propose *propose, int n)
{
    return (int)(next_random(propose) % (uint64_t)n);
}

int tuned_equal(const struct tuned *a, const struct tuned *b)
{
    return a->space == b->space && memcmp(a->values, b->values, sizeof a->values) == 0;
}

static int count_values(const struct parameter *parameter)
{
    int count = 0;

    while (parameter->values[count] != BY_HEURISTIC)
        count++;
    return count;
}

static int count_parameters(const struct space *space)
{
    int count = 0;

    while (space->parameters[count].name != NULL)
        count++;
    return count;
}

/* The index of the value, or of the next larger one. */
static int position(const struct parameter *parameter, int value)
{
    int at = 0, last = count_values(parameter) - 1;

    while (at < last && parameter->values[at] < value)
        at++;
    return at;
}

int propose_is_valid(const struct propose *propose, const struct tuned *tuned)
{
    struct point_tiles tiles;

    return tuning_point_tiles(propose->context, propose->problem, tuned, &tiles);
}

/* Several values may give equal tiles, if the problem is smaller than they are. Chooses the smallest. */
static void reduce(const struct propose *propose, struct tuned *tuned)
{
    struct point_tiles tiles, same;

    tuning_point_tiles(propose->context, propose->problem, tuned, &tiles);
    for (int i = 0; tuned->space->parameters[i].name != NULL; i++)
        for (const int16_t *value = tuned->space->parameters[i].values; *value != BY_HEURISTIC; value++) {
            struct tuned less = *tuned;
            less.values[i] = *value;
            if (*value >= tuned->values[i] || !tuning_point_tiles(propose->context, propose->problem, &less, &same) ||
                memcmp(&tiles, &same, sizeof tiles) != 0)
                continue;
            *tuned = less;
            break;
        }
}

/* Moves one parameter to the next value, if the device can have it. */
static void step(struct propose *propose, struct tuned *tuned, int i)
{
    const struct parameter *parameter = &tuned->space->parameters[i];
    int count = count_values(parameter), before = tuned->values[i];
    int at = before == BY_HEURISTIC ? random_below(propose, count)
                                    : position(parameter, before) + (random_below(propose, 2) ? 1 : -1);

    if (at < 0 || at >= count)
        return;
    tuned->values[i] = parameter->values[at];
    if (!propose_is_valid(propose, tuned))
        tuned->values[i] = before;
}

/* Draws any values for about half of the parameters. All are drawn before the point is checked, because some constrain
 * each other. */
static struct tuned jump_from(struct propose *propose, const struct tuned *from, int count)
{
    enum { ATTEMPTS = 200 };

    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        struct tuned tuned = *from;
        for (int i = 0; i < count; i++) {
            const struct parameter *parameter = &from->space->parameters[i];
            if (random_below(propose, 2))
                tuned.values[i] = parameter->values[random_below(propose, count_values(parameter))];
        }
        if (propose_is_valid(propose, &tuned))
            return tuned;
    }
    return *from;
}

struct tuned propose_near(struct propose *propose, const struct tuned *from, int far)
{
    struct tuned tuned = *from;
    int count = count_parameters(from->space), changes = 1 + random_below(propose, 2);

    if (far)
        tuned = jump_from(propose, from, count);
    for (int i = 0; i < changes && !far; i++)
        step(propose, &tuned, random_below(propose, count));
    reduce(propose, &tuned);
    return tuned;
}
