#include "solve/state_tile.h"

enum { FLOAT = 4, SERIAL_VEC = 16, SHARED_VEC = 4 };

struct state_sizes state_sizes(const struct problem *problem, const struct state_tile *t)
{
    struct state_sizes s;

    s.channels = round_up(problem->desc.key_dim, t->block_k);
    s.pitch = t->block_k + t->pad;
    s.slice = t->chunk * s.pitch;
    s.matrix = t->chunk * round_up(t->chunk, t->vec);
    s.values = t->chunk * t->block_v;
    s.factors = 6 * t->chunk + t->vec;
    s.token_parts = (int)divide_up(problem->desc.key_dim, t->vec);
    s.record = (1 + erase_words(problem).recorded) * s.matrix + s.factors;
    return s;
}

int value_groups(const struct problem *problem, int block_v)
{
    return (int)divide_up(problem_values(problem), block_v);
}

int64_t value_groups_of_all(const struct problem *problem, int block_v)
{
    return problem_heads(problem) * value_groups(problem, block_v);
}

/* The width of a slice of channels: at most `most`, a multiple of `unit`, with as little padding as possible. */
static int slice_of(int64_t channels, int most, int unit)
{
    const int64_t count = divide_up(channels, most);

    return round_up(divide_up(channels, count), unit);
}

/* Tiles of one work-item: wide vectors, and as many value columns as leave every core a few tiles. */
static void serial_tile(const struct device_facts *facts, const struct problem *problem, struct state_tile *t)
{
    enum { MOST_COLUMNS = 64 };
    const int64_t wanted = 4 * (int64_t)facts->device->info.compute_units;

    t->group = t->lanes_k = 1;
    t->vec = SERIAL_VEC;
    t->pad = t->sub_group = 0;
    t->block_k = slice_of(problem->desc.key_dim, 64, SERIAL_VEC);
    t->block_v = lower(round_up(problem_values(problem), SERIAL_VEC), MOST_COLUMNS);
    while (t->block_v > SERIAL_VEC &&
           (t->block_v % (2 * SERIAL_VEC) != 0 || value_groups_of_all(problem, t->block_v) < wanted))
        t->block_v -= SERIAL_VEC;
}

/* Tiles that a group shares. */
static void shared_tile(const struct device_facts *facts, const struct problem *problem, const struct shared_wish *wish,
                        struct state_tile *t)
{
    enum { GROUP = 64 };

    t->vec = t->pad = SHARED_VEC;
    t->lanes_k = 1;
    t->block_k = slice_of(problem->desc.key_dim, wish->slice, SHARED_VEC);
    t->block_v = lower(round_up(problem_values(problem), SHARED_VEC), wish->most_columns);
    while (t->block_v > wish->least_columns && value_groups_of_all(problem, t->block_v) < wish->groups)
        t->block_v = round_up(t->block_v / 2, SHARED_VEC);
    t->group = lower(GROUP, facts->most_group);
    t->sub_group = facts->device->sub_group;
}

struct state_tile state_tile(const struct device_facts *facts, const struct problem *problem,
                             const struct shared_wish *wish)
{
    enum { CHUNK = 16 };
    struct state_tile t = {.chunk = problem->desc.chunk != 0 ? problem->desc.chunk : CHUNK};

    if (is_serial(facts))
        serial_tile(facts, problem, &t);
    else
        shared_tile(facts, problem, wish, &t);
    return t;
}

void state_tile_follow(struct state_tile *t, const struct problem *problem)
{
    t->block_v = lower(t->block_v, round_up(problem_values(problem), t->vec));
    t->block_k = lower(round_up(t->block_k, t->vec), round_up(problem->desc.key_dim, t->vec));
}

int states_are_at_chunks(const struct problem *problem, int chunk)
{
    const clattn_plan_desc *desc = &problem->desc;

    return desc->state_window == 0 && desc->state_every * desc->steps % chunk == 0;
}

int state_tile_is_sound(const struct state_tile *t, const struct device_facts *facts)
{
    return t->block_v >= t->vec && t->block_v % t->vec == 0 && t->block_k >= t->vec && t->block_k % t->vec == 0 &&
           t->group >= 1 && (size_t)t->group <= facts->device->info.max_work_group &&
           (t->group == 1 || !facts->device->serial);
}

struct kernel_step state_step(enum embedded_file file, const struct problem *problem, const struct state_tile *t,
                              const struct state_sizes *s, enum outputs outputs)
{
    struct kernel_step step = kernel_step(file, problem);
    const struct number numbers[] = {
        {"BK", t->block_k},
        {"BV", t->block_v},
        {"LANES_K", t->lanes_k},
        {"KP", s->channels},
        {"PAD", t->pad},
        {"RP", s->pitch},
        {"CP", round_up(t->chunk, t->vec)},
        {"MATRIX", s->matrix},
        {"RECORD", s->record},
        {"ERASE_MATRICES", erase_words(problem).recorded},
        {"TOKEN_PARTS", s->token_parts},
    };

    step_tile(&step, t->group, t->vec, t->chunk, t->sub_group);
    step_constants(&step, numbers, sizeof numbers / sizeof *numbers);
    add_recurrence_words(&step, problem, outputs);
    return step;
}

void add_decay_locals(struct kernel_step *step, const struct problem *problem, const struct state_tile *t,
                      const struct state_sizes *s)
{
    switch (problem_decay(problem)) {
    case DECAY_VALUE: /* one factor a channel */
    case DECAY_COMPLEX:
    case DECAY_PRODUCT:
    case DECAY_FULL:
    case DECAY_NONE: break;
    case DECAY_SCALAR: step_local(step, "LOCAL_DECAY_LOG", t->chunk, FLOAT); break;
    case DECAY_CHANNEL:
        step_local(step, "LOCAL_DECAY_LOG", s->slice, FLOAT);
        step_local(step, "LOCAL_DECAY_TOTAL", t->block_k, FLOAT);
        break;
    }
}

void add_some_locals(struct kernel_step *step, const char *const *names, int count, int64_t floats)
{
    for (int i = 0; i < count; i++)
        step_local(step, names[i], floats, FLOAT);
}

int64_t state_chunk_turns(const struct problem *problem, const struct state_tile *tile)
{
    enum { LOADS = 8 };
    const struct state_tile *t = tile;
    const int64_t slices = divide_up(problem->desc.key_dim, t->block_k), words = 1 + erase_words(problem).streams;
    const int64_t read = product_turns(t->group, t->vec, t->chunk, t->block_v, t->block_k);
    const int64_t write = product_turns(t->group, t->vec, t->block_k, t->block_v, t->chunk);
    const int64_t own = product_turns(t->group, t->vec, t->chunk, t->block_v, t->chunk);
    const int64_t loads = LOADS * divide_up(t->chunk * t->block_k, t->vec * t->group);

    return slices * (words * (read + write) + loads) + words * own + loads;
}

void state_tile_describe(struct text *text, const struct state_tile *t, const char *chunk_name)
{
    text_format(text, "group %d, vec %d, %s %d, key slice %d, value tile %d, key lanes %d, ", t->group, t->vec,
                chunk_name, t->chunk, t->block_k, t->block_v, t->lanes_k);
}
