/* A recipe made like another has that one's tiles, kernel by kernel: the self-test runs what the plan will run. */
#include "harness.h"

#include "plan/recipe.h"

static struct variant variant_of(int id)
{
    return (struct variant){.kernel = (enum kernel_id)id, .tiles.chunk = id + 1};
}

/* Of every pair of kernels: whether one has tiles from a recipe that has the other alone. */
static void test_like(void **state)
{
    (void)state;
    for (int has = 0; has < KERNEL_COUNT; has++)
        for (int asks = 0; asks < KERNEL_COUNT; asks++) {
            struct step step = {.variant = variant_of(has)};
            const struct recipe like = {.steps = &step, .step_count = 1};
            const struct recipe_maker maker = {.like = &like};
            struct variant variant = {.kernel = (enum kernel_id)asks};
            int expected = has == asks;

            assert_int_equal(maker_tiles(&maker, &variant) == CLATTN_SUCCESS, expected);
            assert_int_equal(variant.tiles.chunk, expected ? has + 1 : 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_like)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
