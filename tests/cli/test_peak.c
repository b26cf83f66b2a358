/* How often `clattn bench` measures a device's peaks, and which it takes: numbers in the place of the device's. */
#include "harness.h"

#include "cli/device/peak.h"

static const struct row {
    const char *name;
    struct peak now[4]; /* 0: it fails */
    int taken;
    struct peak expected;
} rows[] = {
    {"twice the same", {{93, 20}, {93, 20}, {50, 10}}, 2, {93, 20}},
    {"nearly the same", {{93, 20}, {90, 19.5}, {50, 10}}, 2, {93, 20}},
    {"others were at it first", {{50, 20}, {93, 20}, {93, 20}, {95, 20}}, 3, {93, 20}},
    {"and at its memory", {{93, 8}, {93, 20}, {93, 20}, {95, 20}}, 3, {93, 20}},
    {"and in between", {{93, 20}, {50, 10}, {93, 20}}, 3, {93, 20}},
    {"no two agree", {{30, 20}, {60, 5}, {45, 12}, {60, 20}}, 3, {60, 20}},
    {"the second fails", {{93, 20}, {0, 0}, {93, 20}}, 2, {93, 20}},
};

struct clock {
    const struct row *row;
    int taken;
};

static clattn_status measure(void *user, struct peak *now)
{
    struct clock *clock = user;

    *now = clock->row->now[clock->taken++];
    return now->flops > 0 ? CLATTN_SUCCESS : CLATTN_DEVICE_ERROR;
}

static void test_row(void **state)
{
    struct clock clock = {.row = *state};
    const struct peak *expected = &clock.row->expected;
    struct peak peak = {-1, -1};
    clattn_status status = peak_often(measure, &clock, &peak);

    assert_int_equal(clock.taken, clock.row->taken);
    assert_int_equal(status == CLATTN_SUCCESS, clock.row->now[clock.taken - 1].flops > 0);
    if (peak.flops != expected->flops || peak.bytes != expected->bytes)
        fail_msg("%s: %g and %g, expected %g and %g", clock.row->name, peak.flops, peak.bytes, expected->flops,
                 expected->bytes);
}

int main(void)
{
    struct CMUnitTest tests[COUNT(rows)];

    for (size_t i = 0; i < COUNT(rows); i++)
        tests[i] = (struct CMUnitTest){rows[i].name, test_row, NULL, NULL, (void *)(uintptr_t)&rows[i]};
    return test_run_group("peak", tests, COUNT(rows), NULL, NULL);
}
