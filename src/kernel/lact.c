/* The small kernels between a learner's products: tiles by rule of thumb, and what follows from them. A group works
 * `chunk` rows of a batch's tokens, or of a head's weights, with `lanes_k` work-items a row of these. */
#include "kernel/plain.h"

enum { SERIAL_VEC = 16, SHARED_VEC = 4, SERIAL_ROWS = 64, ROWS = 16, TOKENS = 8, SERIAL_TOKENS = 16 };

static int is_of_tokens(const struct variant *variant)
{
    return variant->kernel == KERNEL_LACT_MIX || variant->kernel == KERNEL_LACT_SLOPE;
}

/* Whether its groups sum over rows together */
static int has_sums(const struct variant *variant)
{
    return !is_of_tokens(variant) && variant->kernel != KERNEL_LACT_CLOSE;
}

static void lay_out(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;
    const int noncausal = (desc->flags & CLATTN_NONCAUSAL) != 0;
    int64_t rows = !noncausal && desc->mini_batch < desc->seq_len ? desc->mini_batch : desc->seq_len;

    layout->step.options = PLAIN_OPTIONS;
    layout_constant(layout, "HIDDEN_DIM", desc->hidden_dim);
    layout_constant(layout, "HEADS", desc->heads);
    layout_constant(layout, "LANES", t->lanes_k);
    layout_constant(layout, "HAS_FACTORS", desc->dtype != CLATTN_F32);
    layout_constant(layout, "HAS_MOMENTUM", (desc->flags & CLATTN_WITH_MOMENTUM) != 0);
    layout_constant(layout, "FROM_MUON", desc->muon != CLATTN_MUON_NONE);
    layout_constant(layout, "PRE_NORM", (desc->flags & CLATTN_PRE_NORM) != 0);
    if (has_sums(variant))
        layout_local(layout, "LOCAL_SUMS", t->group, sizeof(float));
    layout_header(layout, desc->dtype == CLATTN_BF16 ? FILE_hidden_f32 : FILE_hidden_data);
    if (is_of_tokens(variant))
        layout->stretch = (int)divide_up(rows, t->chunk);
    else
        layout->value_groups = (int)divide_up(2 * desc->hidden_dim + desc->value_dim, t->chunk);
}

static void describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    (void)layout;
    text_format(text, "group %d, vec %d, %d rows of %s\n", t->group, t->vec, t->chunk,
                is_of_tokens(variant) ? "a batch" : "the weights");
}

/* As many work-items of a row as have something to do. */
static clattn_status heuristic(const struct device *device, struct variant *variant, int most_group)
{
    enum { GROUP = 128, LANES = 32 };
    const clattn_plan_desc *desc = &variant->problem->desc;
    int serial = device->serial || most_group < SHARED_VEC, tokens = is_of_tokens(variant);
    int64_t widest = desc->key_dim > desc->hidden_dim ? desc->key_dim : desc->hidden_dim;
    struct tiles *t = &variant->tiles;

    *t = (struct tiles){.group = serial ? 1 : lower(GROUP, most_group),
                        .vec = serial ? SERIAL_VEC : SHARED_VEC,
                        .sub_group = serial ? 0 : device->sub_group};
    t->chunk = tokens ? (serial ? SERIAL_TOKENS : TOKENS) : (serial ? SERIAL_ROWS : ROWS);
    t->lanes_k = 1;
    while (2 * t->lanes_k <= lower(LANES, t->group) && t->lanes_k * t->vec < widest)
        t->lanes_k *= 2;
    return CLATTN_SUCCESS;
}

static clattn_status complete(const struct device *device, struct variant *variant)
{
    struct tiles *t = &variant->tiles;
    int sound;

    t->lanes_k = lower(t->lanes_k, t->group);
    sound = t->chunk >= 1 && t->group >= 1 && t->group % t->lanes_k == 0 &&
            (size_t)t->group <= device->info.max_work_group && (t->group == 1 || !device->serial) &&
            layout_fits(device, variant, lay_out);
    return sound ? CLATTN_SUCCESS : CLATTN_UNSUPPORTED;
}

const struct family family_lact = {heuristic, complete, lay_out, describe, 0, 0};
