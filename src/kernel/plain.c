/* The read of a list on any device, and words that other families have of it. */
#include "kernel/plain.h"

#include "solve/state_words.h"

enum { FLOAT = 4 };

static const enum embedded_file bias_headers[] = {
#define DECAY(value, name, dims, list_dims, plain, matrix, bias, ...) FILE_##bias,
#include "op/words.def"
};

enum embedded_file plain_erase_header(const struct variant *variant)
{
    return erase_words(variant->problem).header;
}

enum embedded_file plain_weights(clattn_weights weights)
{
    static const enum embedded_file headers[] = {
#define WEIGHTS(value, name, header) [CLATTN_WEIGHTS_##value] = FILE_##header,
#include "op/words.def"
    };
    return headers[weights];
}

void plain_list_headers(const struct variant *variant, enum embedded_file weights, struct layout *layout)
{
    layout_header(layout, bias_headers[problem_decay(variant->problem)]);
    layout_header(layout, weights);
    layout_header(layout, variant->attn ? FILE_list_units : FILE_list_values);
    layout_header(layout, output_words(variant->problem, OUTPUTS_WRITTEN));
}

void plain_lay_out(const struct variant *variant, struct layout *layout)
{
    const clattn_plan_desc *desc = &variant->problem->desc;
    const struct tiles *t = &variant->tiles;
    const int channels = round_up(desc->key_dim, t->block_k), pitch = t->block_k + t->pad;
    const int columns = round_up(t->chunk, t->vec), values = t->chunk * t->block_v;
    const int bias = variant->problem->rule->decay == DECAY_NONE ? 1 : 2 * t->chunk + columns;

    layout->step.options = PLAIN_OPTIONS;
    layout_local(layout, "LOCAL_QUERIES", (int64_t)channels * columns, FLOAT);
    layout_local(layout, "LOCAL_ROWS", higher((int64_t)t->chunk * pitch, values), FLOAT);
    layout_local(layout, "LOCAL_SCORES", (int64_t)t->chunk * columns, FLOAT);
    layout_local(layout, "LOCAL_OUTPUT", values, FLOAT);
    layout_local(layout, "LOCAL_WEIGHTS", 4 * columns, FLOAT);
    layout_local(layout, "LOCAL_NORMS", t->chunk, FLOAT);
    layout_local(layout, "LOCAL_BIAS", bias, FLOAT);
    layout->value_groups = (int)divide_up(variant_values(variant), t->block_v);
    layout_constant(layout, "BK", t->block_k);
    layout_constant(layout, "BV", t->block_v);
    layout_constant(layout, "KP", channels);
    layout_constant(layout, "RP", pitch);
    layout_constant(layout, "CP", columns);
    layout_constant(layout, "KV_GROUP", desc->heads / desc->kv_heads);
    plain_list_headers(variant, plain_weights(desc->kernel), layout);
}

void plain_describe(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, vec %d, chunk %d, key slice %d, value tile %d, key lanes %d, local %zu bytes\n",
                t->group, t->vec, t->chunk, t->block_k, t->block_v, t->lanes_k, layout->step.local_bytes);
}

void plain_describe_spans(struct text *text, const struct variant *variant, const struct layout *layout)
{
    const struct tiles *t = &variant->tiles;

    text_format(text, "group %d, vec %d, chunk %d, span of %d chunks, key slice %d, value tile %d, local %zu bytes\n",
                t->group, t->vec, t->chunk, t->span, t->block_k, t->block_v, layout->step.local_bytes);
}
