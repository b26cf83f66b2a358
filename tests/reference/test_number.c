/* Storage types: every bit pattern there and back, and rounding to nearest even against a search. */
#include "harness.h"

#include "reference/number.h"

#include <math.h>

struct format {
    clattn_dtype dtype;
    int fraction_bits, exponent_bits;
};
static const struct format formats[] = {{CLATTN_F16, 10, 5}, {CLATTN_BF16, 7, 8}};

/* The value of a pattern, from the definition of the format. */
static double decode(const struct format *format, uint32_t bits)
{
    uint32_t fraction = bits & ((1u << format->fraction_bits) - 1);
    int top = (1 << format->exponent_bits) - 1, exponent = (int)(bits >> format->fraction_bits) & top;
    double sign = bits & 0x8000 ? -1 : 1, step = ldexp(1, -format->fraction_bits);

    if (exponent == top)
        return fraction ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0)
        return sign * ldexp(step * fraction, 2 - (1 << (format->exponent_bits - 1)));
    return sign * ldexp(1 + step * fraction, exponent - (top >> 1));
}

/* The positive pattern nearest to x >= 0, ties to even: by bisection over the patterns, which are in order. */
static uint32_t encode_slowly(const struct format *format, double x)
{
    uint32_t low = 0, high = (((1u << format->exponent_bits) - 1) << format->fraction_bits);
    double below, above, beyond;

    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (decode(format, middle) <= x)
            low = middle;
        else
            high = middle;
    }
    below = decode(format, low);
    above = decode(format, high);
    beyond = isinf(above) ? 2 * below - decode(format, low - 1) : above; /* infinity rounds as the next number would */
    if (x - below == beyond - x)
        return low & 1 ? high : low;
    return x - below < beyond - x ? low : high;
}

static uint16_t store(clattn_dtype dtype, double value)
{
    uint16_t pair[3] = {0x1234, 0, 0x5678};

    number_store(dtype, pair, 1, value);
    assert_int_equal(pair[0], 0x1234);
    assert_int_equal(pair[2], 0x5678);
    return pair[1];
}

static double load(clattn_dtype dtype, uint16_t bits)
{
    uint16_t pair[2] = {0, bits};

    return number_load(dtype, pair, 1);
}

static void test_round_trip(void **state)
{
    (void)state;
    for (size_t f = 0; f < COUNT(formats); f++) {
        for (uint32_t bits = 0; bits < 0x10000; bits++) {
            double value = load(formats[f].dtype, (uint16_t)bits), expected = decode(&formats[f], bits);
            if (isnan(expected)) {
                assert_true(isnan(value));
                assert_true(isnan(load(formats[f].dtype, store(formats[f].dtype, value))));
                continue;
            }
            assert_true(value == expected && signbit(value) == signbit(expected));
            assert_int_equal(store(formats[f].dtype, value), bits);
        }
    }
}

/* Between every two neighbours: the middle, a little beside it, and beside the ends. */
static void test_rounding(void **state)
{
    (void)state;
    for (size_t f = 0; f < COUNT(formats); f++) {
        uint32_t infinite = (((1u << formats[f].exponent_bits) - 1) << formats[f].fraction_bits);
        for (uint32_t bits = 0; bits + 1 < infinite; bits++) {
            double low = decode(&formats[f], bits), high = decode(&formats[f], bits + 1), half = (high - low) / 2;
            const double points[] = {low + half,         nextafter(low + half, 0), nextafter(low + half, high),
                                     nextafter(high, 0), nextafter(low, high),     low + half / 3};
            for (size_t i = 0; i < COUNT(points); i++) {
                uint32_t expected = encode_slowly(&formats[f], points[i]);
                if (store(formats[f].dtype, points[i]) != expected ||
                    store(formats[f].dtype, -points[i]) != (expected | 0x8000))
                    fail_msg("%a rounds to %04x, expected %04x", points[i], store(formats[f].dtype, points[i]),
                             expected);
            }
        }
    }
}

static void test_extremes(void **state)
{
    (void)state;
    assert_int_equal(store(CLATTN_F16, 65519.999), 0x7bff);
    assert_int_equal(store(CLATTN_F16, 65520), 0x7c00);
    assert_int_equal(store(CLATTN_F16, 1e300), 0x7c00);
    assert_int_equal(store(CLATTN_F16, ldexp(1, -25)), 0);
    assert_int_equal(store(CLATTN_F16, nextafter(ldexp(1, -25), 1)), 1);
    assert_int_equal(store(CLATTN_BF16, 3.3961775292304957e38), 0x7f80);
    assert_int_equal(store(CLATTN_BF16, 3.39e38), 0x7f7f);
    assert_int_equal(store(CLATTN_BF16, 1e300), 0x7f80);
    assert_int_equal(store(CLATTN_BF16, -1e-300), 0x8000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
