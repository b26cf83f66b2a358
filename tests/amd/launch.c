/* A launch: groups one after the other, the waves of a group in turns from barrier to barrier. */
#include <stdio.h>
#include <stdlib.h>

#include "interpreter.h"

void wave_fault(struct wave *wave, const struct instruction *in, const char *what)
{
    if (wave->state != FAULTED)
        snprintf(wave->group->error, wave->group->error_size, "%s: %llx: %s", what, (unsigned long long)in->address,
                 in->line);
    wave->state = FAULTED;
}

static void poison(void *memory, size_t bytes)
{
    const u32 word = POISON;
    for (size_t at = 0; at < bytes; at++)
        ((unsigned char *)memory)[at] = (unsigned char)(word >> at % 4 * 8);
}

/* ---- A wave's registers at its start ------------------------------------------------------------------------------------ */

/* The scalars that the descriptor asks for, in their order. */
static unsigned user_scalars(const struct launch *launch, u32 *s)
{
    u64 packet = (u64)(uintptr_t)launch->packet, kernarg = (u64)(uintptr_t)launch->kernarg;
    const struct {
        int words;
        u64 value;
    } parts[] = {{4, 0}, {2, packet}, {2, 0}, {2, kernarg}, {2, 0}, {2, 0}, {1, launch->private_bytes}};
    unsigned at = 0;
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++)
        for (int word = 0; word < parts[i].words && (launch->properties >> i & 1); word++)
            s[at++] = word < 2 ? (u32)(parts[i].value >> 32 * word) : 0;
    return at;
}

static void scalars_start(struct wave *wave, const u32 *group)
{
    const struct launch *launch = wave->group->launch;
    unsigned at = launch->rsrc2 >> 1 & 31;
    for (int i = 0; i < SCALARS; i++)
        wave->s[i] = POISON;
    user_scalars(launch, wave->s);
    if (wave->code->generation >= 12) {
        wave->s[TTMP + 9] = group[0];
        wave->s[TTMP + 7] = group[1] | group[2] << 16;
        return;
    }
    for (unsigned axis = 0; axis < 3; axis++)
        if (launch->rsrc2 >> (7 + axis) & 1)
            wave->s[at++] = group[axis];
    at += launch->rsrc2 >> 10 & 1;
    if (launch->rsrc2 & 1)
        wave->s[at] = 0; /* where the wave's scratch begins, for targets that add it */
}

static void work_items_start(struct wave *wave, u32 first)
{
    const struct launch *launch = wave->group->launch;
    const u32 *local = launch->local;
    u32 count = local[0] * local[1] * local[2];
    u64 mask = 0;
    for (u32 lane = 0; lane < (u32)wave->lanes && first + lane < count; lane++) {
        u32 flat = first + lane, x = flat % local[0], y = flat / local[0] % local[1], z = flat / local[0] / local[1];
        mask |= (u64)1 << lane;
        wave->v[0][lane] = wave->code->packed_ids ? x | y << 10 | z << 20 : x;
        if (!wave->code->packed_ids && (launch->rsrc2 >> 11 & 3) >= 1)
            wave->v[1][lane] = y;
        if (!wave->code->packed_ids && (launch->rsrc2 >> 11 & 3) >= 2)
            wave->v[2][lane] = z;
    }
    wave->s[EXEC] = (u32)mask;
    wave->s[EXEC + 1] = (u32)(mask >> 32);
    wave->active_of = ~mask;
    wave_refresh(wave);
}

static void wave_start(struct wave *wave, const u32 *group, u32 first)
{
    const struct launch *launch = wave->group->launch;
    poison(wave->v, sizeof wave->v);
    poison(wave->private, (size_t)wave->private_bytes * (size_t)wave->lanes);
    scalars_start(wave, group);
    work_items_start(wave, first);
    wave->scc = wave->indexed = 0;
    wave->mode = launch->rsrc1 >> 12 & 255;
    wave->flush32 = (wave->mode >> 4 & 3) == 0;
    wave->next = launch->code->at[(launch->entry - launch->code->base) / 4] - 1;
    wave->state = RUNS;
}

/* ---- Running -------------------------------------------------------------------------------------------------------------- */

static void wave_run(struct wave *wave)
{
    const struct code *code = wave->code;
    while (wave->state == RUNS) {
        const struct instruction *in = &code->list[wave->next];
        wave->next += in->advance;
        in->run(wave, in);
    }
}

struct machine {
    struct group group;
    struct wave *waves;
    u32 count;
};

/* Each wave runs until its next barrier; 1 when waves are left, 0 at the end of all, -1 for a fault. */
static int group_turn(struct machine *machine, int reverse)
{
    int left = 0;
    for (u32 i = 0; i < machine->count; i++) {
        struct wave *wave = &machine->waves[reverse ? machine->count - 1 - i : i];
        if (wave->state == AT_BARRIER)
            wave->state = RUNS;
        wave_run(wave);
        if (wave->state == FAULTED)
            return -1;
        left |= wave->state == AT_BARRIER;
    }
    return left;
}

static int group_run(struct machine *machine, const u32 *group)
{
    int left = 1;
    poison(machine->group.shared, machine->group.shared_bytes);
    for (u32 i = 0; i < machine->count; i++)
        wave_start(&machine->waves[i], group, i * (u32)machine->waves[i].lanes);
    while (left > 0)
        left = group_turn(machine, machine->group.launch->reverse);
    return left;
}

static int machine_make(struct machine *machine, const struct launch *launch)
{
    u32 lanes = launch->code->generation >= 10 && (launch->properties >> 10 & 1) ? 32 : 64;
    u32 items = launch->local[0] * launch->local[1] * launch->local[2];
    machine->count = (items + lanes - 1) / lanes;
    machine->waves = calloc(machine->count, sizeof(*machine->waves));
    machine->group.shared = malloc(launch->group_bytes + 1u);
    if (!machine->waves || !machine->group.shared)
        return -1;
    for (u32 i = 0; i < machine->count; i++) {
        struct wave *wave = &machine->waves[i];
        wave->group = &machine->group;
        wave->code = launch->code;
        wave->lanes = (int)lanes;
        wave->private_bytes = launch->private_bytes;
        wave->private = malloc((size_t)lanes * launch->private_bytes + 1);
        if (!wave->private)
            return -1;
    }
    return 0;
}

static void machine_free(struct machine *machine)
{
    for (u32 i = 0; machine->waves && i < machine->count; i++)
        free(machine->waves[i].private);
    free(machine->waves);
    free(machine->group.shared);
}

static int groups_run(struct machine *machine, const struct launch *launch)
{
    const u32 *groups = launch->groups;
    for (u32 i = 0; i < groups[0] * groups[1] * groups[2]; i++) {
        u32 group[3] = {i % groups[0], i / groups[0] % groups[1], i / groups[0] / groups[1]};
        if (group_run(machine, group))
            return -1;
    }
    return 0;
}

static const char *launch_mistake(const struct launch *launch)
{
    const struct code *code = launch->code;
    u32 items = launch->local[0] * launch->local[1] * launch->local[2];
    if (launch->entry < code->base || launch->entry >= code->end || !code->at[(launch->entry - code->base) / 4])
        return "no instruction at the entry";
    if (items == 0 || items > 1024)
        return "a group is of 1 to 1024 work-items";
    if (launch->rsrc1 >> 12 & 15)
        return "only rounding to nearest even is known";
    return (launch->rsrc1 >> 18 & 3) == 0 ? "denormals of f16 and f64 cannot be zero" : NULL;
}

int launch_run(const struct launch *launch, char *error, size_t size)
{
    struct machine machine = {
        .group = {.launch = launch, .shared_bytes = launch->group_bytes, .error = error, .error_size = size}};
    const char *mistake = launch_mistake(launch);
    int result = -1;
    if (mistake)
        snprintf(error, size, "%s", mistake);
    else if (machine_make(&machine, launch))
        snprintf(error, size, "no memory for a launch");
    else
        result = groups_run(&machine, launch);
    machine_free(&machine);
    return result;
}
