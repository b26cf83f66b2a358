/* The intermediate form by itself: expressions, loops, the places of scratch tensors, and the order of launches. No device
 * is needed: every step is a foreign one that notes what it was asked. */
#include "harness.h"

#include "ir/ir.h"

#include <stdio.h>
#include <string.h>

enum { ROWS = 10, PER_TURN = 4 };

/* What steps were asked, as text: "step(size) " or "step(size).part "; and how often. */
struct notes {
    char text[512];
    int count;
};

static clattn_status note(const struct ir_foreign *foreign)
{
    struct notes *notes = (struct notes *)(uintptr_t)foreign->user;
    size_t used = strlen(notes->text);

    snprintf(notes->text + used, sizeof notes->text - used, foreign->part > 0 ? "%d(%lld).%lld " : "%d(%lld) ",
             foreign->step, (long long)foreign->sizes[0], (long long)foreign->part);
    notes->count++;
    return CLATTN_SUCCESS;
}

static struct ir_step step_of(struct ir_recipe *recipe, struct notes *notes, ir_expression size)
{
    return (struct ir_step){.condition = IR_NONE,
                            .foreign = note,
                            .user = notes,
                            .grid = {IR_NONE, IR_NONE, IR_NONE},
                            .tensors = {IR_NONE, IR_NONE, IR_NONE, IR_NONE},
                            .sizes = {size, IR_NONE, IR_NONE, IR_NONE},
                            .parts = ir_constant(recipe, 1)};
}

static const char *run(struct ir_recipe *recipe, struct notes *notes, int64_t tokens)
{
    struct ir_call call = {.recipe = recipe,
                           .in_order = 1,
                           .extent = {.batch = 2, .seq_len = tokens, .sequences = 3, .kv_len = 7, .tail = 5}};

    memset(notes, 0, sizeof *notes);
    assert_status(ir_finish(recipe), SUCCESS);
    assert_status(ir_enqueue(&call, 0, NULL, NULL, NULL), SUCCESS);
    return notes->text;
}

static void test_expressions(void **state)
{
    static const struct {
        enum ir_operation operation;
        int64_t left, right, value;
    } rows[] = {{IR_ADD, 7, 3, 10},      {IR_SUBTRACT, 3, 7, -4}, {IR_MULTIPLY, 7, 3, 21}, {IR_DIVIDE, 7, 3, 2},
                {IR_DIVIDE_UP, 7, 3, 3}, {IR_DIVIDE_UP, 6, 3, 2}, {IR_LOWER, 7, 3, 3},     {IR_HIGHER, 7, 3, 7},
                {IR_LESS, 3, 7, 1},      {IR_LESS, 7, 7, 0},      {IR_EQUAL, 7, 7, 1},     {IR_EQUAL, 3, 7, 0},
                {IR_SHIFT, 3, 4, 48},    {IR_BITS, 0, 0, 0},      {IR_BITS, 7, 0, 3},      {IR_BITS, 8, 8, 4}};
    static const int64_t lengths[] = {
        [IR_BATCH] = 1, [IR_TOKENS] = 2, [IR_SEQUENCES] = 3, [IR_KEYS] = 4, [IR_TAIL] = 5};
    struct ir_recipe recipe = {0};
    struct ir_call call = {.recipe = &recipe,
                           .extent = {.batch = 1, .seq_len = 2, .sequences = 3, .kv_len = 4, .tail = 5}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        const ir_expression left = ir_constant(&recipe, rows[i].left), right = ir_constant(&recipe, rows[i].right);
        assert_int_equal(ir_value(&call, ir_binary(&recipe, rows[i].operation, left, right)), rows[i].value);
    }
    for (int i = 0; i < (int)COUNT(lengths); i++)
        assert_int_equal(ir_value(&call, ir_length(&recipe, (enum ir_length)i)), lengths[i]);
    ir_close(&recipe);
}

/* Steps 1 and 2 for every four rows, all of that twice. The short turn has the last rows, whichever way the loop runs. */
static void test_loops(void **state)
{
    static const struct {
        int down;
        int64_t tokens;
        const char *once; /* twice, it is what is run */
    } rows[] = {{0, 10, "0(1) 1(4) 2(4) 1(4) 2(4) 1(2) 2(2) 3(1) "},
                {1, 10, "0(1) 1(2) 2(2) 1(4) 2(4) 1(4) 2(4) 3(1) "},
                {0, 4, "0(1) 1(4) 2(4) 3(1) "},
                {0, 0, "0(1) 3(1) "}};

    (void)state;
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct ir_recipe recipe = {0};
        struct notes notes;
        const ir_expression one = ir_constant(&recipe, 1), count = ir_loop_value(&recipe, IR_LOOP_ROWS, 0);
        const size_t length = strlen(rows[i].once);

        for (int step = 0; step < 4; step++) {
            const struct ir_step added = step_of(&recipe, &notes, step == 1 || step == 2 ? count : one);
            ir_step(&recipe, &added);
        }
        ir_loop(&recipe, &(struct ir_loop){.first = 1,
                                           .last = 2,
                                           .rows = ir_length(&recipe, IR_TOKENS),
                                           .per_turn = PER_TURN,
                                           .down = rows[i].down});
        ir_loop(&recipe, &(struct ir_loop){.first = 0, .last = 3, .rows = IR_NONE, .turns = 2});
        run(&recipe, &notes, rows[i].tokens);
        assert_memory_equal(notes.text, rows[i].once, length);
        assert_string_equal(notes.text + length, rows[i].once);
        assert_int_equal(ir_count(&recipe, &(struct extent){.seq_len = rows[i].tokens}), notes.count);
        ir_close(&recipe);
    }
}

/* The first row of every turn; and how many rows a turn has at most, whichever turn has the rest. */
static void test_first_rows(void **state)
{
    (void)state;
    for (int down = 0; down < 2; down++) {
        struct ir_recipe recipe = {0};
        struct notes notes;
        const ir_expression one = ir_constant(&recipe, 1), rows = ir_loop_value(&recipe, IR_LOOP_ROWS, 0);
        struct ir_step step =
            step_of(&recipe, &notes, ir_binary(&recipe, IR_ADD, ir_loop_value(&recipe, IR_LOOP_FIRST, 0), one));

        ir_step(&recipe, &step);
        ir_loop(&recipe, &(struct ir_loop){.rows = ir_length(&recipe, IR_TOKENS), .per_turn = PER_TURN, .down = down});
        assert_string_equal(run(&recipe, &notes, ROWS), down ? "0(9) 0(5) 0(1) " : "0(1) 0(5) 0(9) ");
        assert_int_equal(ir_most(&recipe, &(struct extent){.seq_len = ROWS}, rows), PER_TURN);
        assert_int_equal(ir_most(&recipe, &(struct extent){.seq_len = PER_TURN - 1}, rows), PER_TURN - 1);
        ir_close(&recipe);
    }
}

/* A step whose condition is 0, or one of whose sizes is, is left out; parts follow each other. */
static void test_conditions(void **state)
{
    struct ir_recipe recipe = {0};
    struct notes notes;
    const ir_expression zero = ir_constant(&recipe, 0), tokens = ir_length(&recipe, IR_TOKENS);
    struct ir_step never = step_of(&recipe, &notes, tokens), empty = step_of(&recipe, &notes, zero);
    struct ir_step some = step_of(&recipe, &notes, tokens), last = step_of(&recipe, &notes, tokens);

    (void)state;
    never.condition = zero;
    some.parts = ir_length(&recipe, IR_SEQUENCES);
    last.condition = ir_loop_value(&recipe, IR_LOOP_LAST, 0);
    ir_step(&recipe, &never);
    ir_step(&recipe, &empty);
    ir_step(&recipe, &some);
    ir_step(&recipe, &last);
    ir_loop(&recipe, &(struct ir_loop){.first = 3, .last = 3, .rows = tokens, .per_turn = PER_TURN});
    assert_string_equal(run(&recipe, &notes, 9), "2(9) 2(9).1 2(9).2 3(9) ");
    ir_close(&recipe);
}

static int overlap(const struct ir_tensor *a, const struct ir_tensor *b)
{
    return a->at < b->at + b->bytes && b->at < a->at + a->bytes;
}

static int scratch(struct ir_recipe *recipe, enum ir_home home, int64_t bytes)
{
    return ir_tensor(
        recipe, &(struct ir_tensor){.name = "t", .home = home, .element = 4, .bytes = bytes, .strides = {-1, -1, -1}});
}

/* Tensors that no step has at once share memory, others do not; what is saved shares nothing; what a slice names, its
 * tensor has. */
static void test_places(void **state)
{
    (void)state;
    for (int home = IR_SCRATCH; home <= IR_SAVED; home++) {
        struct ir_recipe recipe = {0};
        struct notes notes;
        struct ir_step step = step_of(&recipe, &notes, ir_constant(&recipe, 1));
        const int a = scratch(&recipe, (enum ir_home)home, 2000), b = scratch(&recipe, IR_SCRATCH, 400),
                  c = scratch(&recipe, (enum ir_home)home, 1792);
        const int slice = ir_tensor(&recipe, &(struct ir_tensor){.home = IR_SLICE,
                                                                 .base = c,
                                                                 .element = 4,
                                                                 .strides = {-1, -1, -1},
                                                                 .tokens = IR_NONE,
                                                                 .heads = IR_NONE,
                                                                 .elements = IR_NONE});

        step.tensors[0] = a;
        ir_step(&recipe, &step);
        step.tensors[1] = b;
        ir_step(&recipe, &step);
        step.tensors[0] = slice;
        ir_step(&recipe, &step);
        assert_status(ir_finish(&recipe), SUCCESS);
        assert_false(overlap(&recipe.tensors[b], &recipe.tensors[a]) && home == IR_SCRATCH);
        assert_false(overlap(&recipe.tensors[b], &recipe.tensors[c]) && home == IR_SCRATCH);
        assert_int_equal(overlap(&recipe.tensors[a], &recipe.tensors[c]), home == IR_SCRATCH);
        assert_int_equal(recipe.bytes[IR_SCRATCH], home == IR_SCRATCH ? 2048 + 512 : 512);
        assert_int_equal(recipe.bytes[IR_SAVED], home == IR_SCRATCH ? 0 : 2048 + 1792);
        ir_close(&recipe);
    }
}

/* In a loop that carries tensors live as long as the loop; in another one only those from before it do. */
static void test_loop_lifetimes(void **state)
{
    (void)state;
    for (int carries = 0; carries < 2; carries++) {
        struct ir_recipe recipe = {0};
        struct notes notes;
        struct ir_step step = step_of(&recipe, &notes, ir_constant(&recipe, 1));
        const int before = scratch(&recipe, IR_SCRATCH, 256), early = scratch(&recipe, IR_SCRATCH, 256),
                  late = scratch(&recipe, IR_SCRATCH, 256);

        step.tensors[0] = before;
        ir_step(&recipe, &step); /* ahead of the loop */
        step.tensors[1] = early;
        ir_step(&recipe, &step);
        step.tensors[0] = step.tensors[1] = late;
        ir_step(&recipe, &step);
        ir_loop(&recipe, &(struct ir_loop){.first = 1, .last = 2, .rows = IR_NONE, .turns = 3, .carries = carries});
        assert_status(ir_finish(&recipe), SUCCESS);
        assert_false(overlap(&recipe.tensors[before], &recipe.tensors[late]));
        assert_int_equal(overlap(&recipe.tensors[early], &recipe.tensors[late]), !carries);
        ir_close(&recipe);
    }
}

/* A slice lies where its base does, so many tokens and heads on, in elements of its own size. */
static void test_slices(void **state)
{
    struct ir_recipe recipe = {0};
    const struct ir_place operands[] = {{NULL, {1000, 100, 10, 2}}};
    struct ir_call call = {.recipe = &recipe, .operands = operands, .extent = {.seq_len = 3}};
    const int base = ir_tensor(&recipe, &(struct ir_tensor){.home = IR_OPERAND, .element = 4});
    const ir_expression tokens = ir_length(&recipe, IR_TOKENS), one = ir_constant(&recipe, 1);
    const struct ir_tensor slice = {.home = IR_SLICE,
                                    .base = base,
                                    .element = 2,
                                    .strides = {IR_NONE, IR_NONE, IR_NONE},
                                    .tokens = tokens,
                                    .heads = one,
                                    .elements = ir_constant(&recipe, 5),
                                    .head_step = 3};
    struct ir_place place;

    (void)state;
    place = ir_resolve(&call, ir_tensor(&recipe, &slice));
    assert_int_equal(place.view.offset, (1000 + 3 * 10 + 2) * 2 + 5);
    assert_int_equal(place.view.batch, 100);
    assert_int_equal(place.view.token, 10);
    assert_int_equal(place.view.head, 6);
    assert_null(ir_resolve(&call, IR_NONE).memory);
    ir_close(&recipe);
}

/* A slice may have the strides of another tensor in any order, and one of a step's launches its own part. */
static void test_parts(void **state)
{
    struct ir_recipe recipe = {0};
    const struct ir_place operands[] = {{NULL, {1000, 100, 10, 2}}};
    struct ir_call call = {.recipe = &recipe, .operands = operands};
    const int base = ir_tensor(&recipe, &(struct ir_tensor){.home = IR_OPERAND, .element = 4});
    const ir_expression batch = ir_stride(&recipe, base, IR_STRIDE_BATCH), part = ir_part(&recipe);
    const struct ir_tensor slice = {
        .home = IR_SLICE,
        .base = base,
        .element = 4,
        .strides = {ir_stride(&recipe, base, IR_STRIDE_HEAD), ir_stride(&recipe, base, IR_STRIDE_TOKEN), batch},
        .tokens = IR_NONE,
        .heads = IR_NONE,
        .elements = ir_binary(&recipe, IR_MULTIPLY, part, batch)};
    const int tensor = ir_tensor(&recipe, &slice);

    (void)state;
    for (call.at.part = 0; call.at.part < 3; call.at.part++) {
        const struct view view = ir_resolve(&call, tensor).view;
        assert_int_equal(view.offset, 1000 + 100 * call.at.part);
        assert_int_equal(view.batch, 2);
        assert_int_equal(view.token, 10);
        assert_int_equal(view.head, 100);
    }
    ir_close(&recipe);
}

/* A step that is replaced stays where it is, with other arguments. */
static void test_replace(void **state)
{
    struct ir_recipe recipe = {0};
    struct notes notes;
    const ir_expression one = ir_constant(&recipe, 1), two = ir_constant(&recipe, 2);
    const struct ir_step first = step_of(&recipe, &notes, one), second = step_of(&recipe, &notes, two);

    (void)state;
    ir_step(&recipe, &first);
    ir_argument(&recipe, &(struct ir_argument){.kind = IR_FLOAT});
    ir_step(&recipe, &first);
    ir_argument(&recipe, &(struct ir_argument){.kind = IR_FLOAT});
    ir_replace(&recipe, 0, &second);
    ir_argument(&recipe, &(struct ir_argument){.kind = IR_INTEGER, .width = 2, .integers = {one, two}});
    ir_argument(&recipe, &(struct ir_argument){.kind = IR_TENSOR, .tensor = IR_NONE});
    assert_string_equal(run(&recipe, &notes, 1), "0(2) 1(1) ");
    assert_int_equal(recipe.steps[0].argument_count, 2);
    assert_int_equal(recipe.arguments[recipe.steps[0].first_argument].width, 2);
    assert_int_equal(recipe.steps[1].argument_count, 1);
    assert_int_equal(recipe.arguments[recipe.steps[1].first_argument].kind, IR_FLOAT);
    ir_close(&recipe);
}

/* A child of a tensor and two steps, the second of which is run for every four rows of an operand. */
static void make_child(struct ir_recipe *child, struct notes *notes)
{
    const ir_expression rows = ir_loop_value(child, IR_LOOP_ROWS, 0), tokens = ir_length(child, IR_TOKENS);
    struct ir_step first = step_of(child, notes, tokens), looped = step_of(child, notes, rows);

    first.tensors[0] = looped.tensors[1] = scratch(child, IR_SCRATCH, 512);
    looped.tensors[0] = ir_tensor(child, &(struct ir_tensor){.home = IR_OPERAND, .element = 4, .operand = CLATTN_Q});
    ir_step(child, &first);
    ir_step(child, &looped);
    ir_loop(child, &(struct ir_loop){.first = 1, .last = 1, .rows = tokens, .per_turn = PER_TURN});
    assert_status(ir_finish(child), SUCCESS);
}

/* Children run one after the other; their scratch memory is shared, what stands for their operands lives on. */
static void test_children(void **state)
{
    struct ir_recipe recipe = {0}, child = {0};
    struct ir_tensor slices[CLATTN_Q + 1];
    struct notes notes;
    const int passed_on = scratch(&recipe, IR_SCRATCH, 256);

    (void)state;
    make_child(&child, &notes);
    slices[CLATTN_Q] = (struct ir_tensor){.home = IR_SLICE,
                                          .base = passed_on,
                                          .element = 4,
                                          .strides = {IR_NONE, IR_NONE, IR_NONE},
                                          .tokens = IR_NONE,
                                          .heads = IR_NONE};
    assert_int_equal(ir_inline(&recipe, &child, slices, NULL), 0);
    assert_int_equal(ir_inline(&recipe, &child, slices, NULL), 2);
    ir_close(&child);
    assert_string_equal(run(&recipe, &notes, 6), "0(6) 1(4) 1(2) 2(6) 3(4) 3(2) ");
    assert_int_equal(recipe.bytes[IR_SCRATCH], 512 + 256);
    ir_close(&recipe);
}

/* A child of other lengths, whose strides are those of what stands for its operand. */
static void test_lengths_of_children(void **state)
{
    struct ir_recipe recipe = {0}, child = {0};
    struct notes notes;
    const int operand = ir_tensor(&child, &(struct ir_tensor){.home = IR_OPERAND, .element = 4});
    const ir_expression stride = ir_stride(&child, operand, IR_STRIDE_TOKEN);
    const struct ir_step step = step_of(&child, &notes, ir_length(&child, IR_TOKENS)),
                         of_stride = step_of(&child, &notes, stride);
    const ir_expression doubled =
        ir_binary(&recipe, IR_ADD, ir_length(&recipe, IR_TOKENS), ir_length(&recipe, IR_TOKENS));
    const ir_expression lengths[IR_LENGTHS] = {IR_NONE, doubled, IR_NONE, IR_NONE, IR_NONE};
    const ir_expression seven = ir_constant(&recipe, 7);
    const struct ir_tensor slice = {.home = IR_SLICE,
                                    .base = scratch(&recipe, IR_SCRATCH, 256),
                                    .element = 4,
                                    .strides = {seven, seven, seven},
                                    .tokens = IR_NONE,
                                    .heads = IR_NONE,
                                    .elements = IR_NONE};

    (void)state;
    ir_step(&child, &step);
    ir_step(&child, &of_stride);
    assert_status(ir_finish(&child), SUCCESS);
    assert_int_equal(ir_inline(&recipe, &child, &slice, lengths), 0);
    ir_close(&child);
    assert_string_equal(run(&recipe, &notes, 6), "0(12) 1(7) ");
    ir_close(&recipe);
}

/* A recipe that ran out of memory, or has too many loops, is not finished. */
static void test_incomplete(void **state)
{
    struct ir_recipe recipe = {0};

    (void)state;
    for (int i = 0; i < IR_MAX_LOOPS; i++)
        assert_int_equal(ir_loop(&recipe, &(struct ir_loop){.turns = 1}), i);
    assert_int_equal(ir_loop(&recipe, &(struct ir_loop){.turns = 1}), IR_NONE);
    assert_status(ir_finish(&recipe), OUT_OF_MEMORY);
    ir_close(&recipe);
    assert_int_equal(ir_binary(&recipe, IR_ADD, IR_NONE, IR_NONE), IR_NONE);
    assert_status(ir_finish(&recipe), OUT_OF_MEMORY);
    ir_close(&recipe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_expressions),
                                       cmocka_unit_test(test_loops),
                                       cmocka_unit_test(test_first_rows),
                                       cmocka_unit_test(test_conditions),
                                       cmocka_unit_test(test_places),
                                       cmocka_unit_test(test_loop_lifetimes),
                                       cmocka_unit_test(test_slices),
                                       cmocka_unit_test(test_parts),
                                       cmocka_unit_test(test_replace),
                                       cmocka_unit_test(test_children),
                                       cmocka_unit_test(test_lengths_of_children),
                                       cmocka_unit_test(test_incomplete)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
