/* Numbers as text and back: what C's own functions make of them in the C locale, in every locale. It runs in the C locale
 * and in others, which CLATTN_TEST_LOCALE names. */
#include "harness.h"

#include "base/decimal.h"
#include "base/json.h"
#include "base/text.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The locale of the process in the place of the C locale, and back */
static char own_locale[64];

static void enter_c(void)
{
    snprintf(own_locale, sizeof own_locale, "%s", setlocale(LC_NUMERIC, NULL));
    assert_non_null(setlocale(LC_NUMERIC, "C"));
}

static void leave_c(void)
{
    assert_non_null(setlocale(LC_NUMERIC, own_locale));
}

static size_t print(char *to, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);
static size_t print(char *to, size_t size, const char *format, ...)
{
    va_list args;
    size_t length;

    va_start(args, format);
    length = decimal_vprint(to, size, format, args);
    va_end(args);
    return length;
}

/* ---- Printing --------------------------------------------------------------------------------------------------- */

static const double numbers[] = {0,
                                 -0.0,
                                 1,
                                 -1.5,
                                 0.1,
                                 1.0 / 3,
                                 -2.5e-7,
                                 123456.789,
                                 1e15,
                                 1e16,
                                 1e300,
                                 DBL_MIN,
                                 DBL_MAX,
                                 5e-324,
                                 9.5,
                                 99.95,
                                 0.5,
                                 (double)INFINITY,
                                 -(double)INFINITY,
                                 (double)NAN,
                                 2.5e-10,
                                 1e-5,
                                 0.0001,
                                 1234567.,
                                 65536.5,
                                 16777216,
                                 1e22,
                                 1e23};

static void same(const char *format, const char *actual, size_t length, const char *expected)
{
    if (strcmp(actual, expected) != 0 || length != strlen(expected))
        fail_msg("\"%s\" gives \"%s\" of %zu bytes, expected \"%s\"", format, actual, length, expected);
}

/* The text of a call, and that of snprintf in the C locale */
#define SAME(format, ...)                                                                                              \
    do {                                                                                                               \
        char actual_[1600], expected_[1600];                                                                           \
        size_t length_ = print(actual_, sizeof actual_, format, __VA_ARGS__);                                          \
        enter_c();                                                                                                     \
        snprintf(expected_, sizeof expected_, format, __VA_ARGS__);                                                    \
        leave_c();                                                                                                     \
        same(format, actual_, length_, expected_);                                                                     \
    } while (0)

static void test_reals(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        double x = numbers[i];
        SAME("%f", x);
        SAME("%.0f|%#.0f", x, x);
        SAME("%.9ef", x);
        SAME("%g, %.17g, %G", x, x, x);
        SAME("%a %.3A", x, x);
        SAME("%8.3f|%-8.3f|%+.1e|% g", x, x, x, x);
        SAME("%012.2f|%+09.1f|% 09.1f|%02.0f", x, x, x, x);
        SAME("%*.*f|%-*.*g|%*g", 12, 3, x, 14, 5, x, -9, x);
    }
}

static void test_others(void **state)
{
    (void)state;
    SAME("%d %5d %-5d| %05d %+d %.3d %i", 1, -2, 3, -4, 5, 6, 7);
    SAME("%u %x %X %#x %o %08x", 1u, 0xbeefu, 0xbeefu, 0xbeefu, 8u, 0xau);
    SAME("%hhu %hd", (unsigned char)200, (short)-3);
    SAME("%ld %lu %lld %llu %llx", -1L, 2UL, -3LL, 4ULL, 0xffffffffffffffffULL);
    SAME("%zu %5zu %zd %jd %td", (size_t)1, SIZE_MAX, (size_t)3, (intmax_t)-4, (ptrdiff_t)-5);
    SAME("%s|%10s|%-10s|%.2s|%.*s|%*s|%-*s", "one", "two", "three", "four", 3, "five", 6, "six", 7, "seven");
    SAME("%c%5c%-3c|", 'a', 'b', 'c');
    SAME("%p", (void *)own_locale);
    SAME("100 %% of %s, %d, %.1f", "1,5; 1.5", 1, 1.5);
    SAME("%s", "");
}

/* Of every size the beginning of the text, and the whole length. */
static void test_cut(void **state)
{
    char whole[80], part[80];
    size_t length = print(whole, sizeof whole, "%s: %.3f and %d and %.1e", "text", 1.5, 77, -0.25);

    (void)state;
    assert_string_equal(whole, "text: 1.500 and 77 and -2.5e-01");
    assert_int_equal(print(NULL, 0, "%s: %.3f and %d and %.1e", "text", 1.5, 77, -0.25), length);
    for (size_t size = 1; size <= length + 2; size++) {
        memset(part, 'x', sizeof part);
        assert_int_equal(print(part, size, "%s: %.3f and %d and %.1e", "text", 1.5, 77, -0.25), length);
        assert_int_equal(strlen(part), size <= length ? size - 1 : length);
        assert_memory_equal(part, whole, strlen(part));
        assert_int_equal(part[size], 'x');
    }
}

/* ---- Reading ---------------------------------------------------------------------------------------------------- */

static void assert_reads(const char *text)
{
    double actual = -7, expected;
    const char *end = decimal_read(text, &actual);
    char *expected_end;

    enter_c();
    expected = strtod(text, &expected_end);
    leave_c();
    if (end != expected_end || memcmp(&actual, &expected, sizeof actual) != 0)
        fail_msg("\"%.40s\" is read as %a, %d bytes, expected %a, %d bytes", text, actual,
                 end != NULL ? (int)(end - text) : -1, expected, (int)(expected_end - text));
}

static void test_reads(void **state)
{
    static const char *const texts[] = {"0",
                                        "-0",
                                        "+1",
                                        "1.5",
                                        "-1.5",
                                        ".5",
                                        "5.",
                                        "1,5",
                                        "1.5.5",
                                        "1e5",
                                        "1E+5",
                                        "1.5e-5",
                                        "1e",
                                        "1e+",
                                        "1.e2",
                                        "2m",
                                        "1.5h",
                                        "00012.50",
                                        "0.1",
                                        "123456789012345678901234567890",
                                        "0.000000000000000000000000000001",
                                        "1e400",
                                        "-1e400",
                                        "1e-400",
                                        "4.9e-324",
                                        "2.4703282292062327208e-324",
                                        "2.4703282292062328e-324",
                                        "1e99999999999999999999",
                                        "1e-99999999999999999999",
                                        "0e99999999999999999999",
                                        "9007199254740993",
                                        "9007199254740992.99999999999999999999",
                                        "9007199254740993.00000000000000000000001",
                                        "1.7976931348623157e308",
                                        "1.7976931348623159e308",
                                        "17976931348623157e292",
                                        "8.5, 9",
                                        "1e5e5",
                                        "1-2",
                                        "3 "};
    static const char *const none[] = {"", ".", "-", "+", "e5", " 1", "inf", "nan", "-.", ",5", "--1", "+-1"};
    double x;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_reads(texts[i]);
    for (size_t i = 0; i < COUNT(none); i++)
        assert_null(decimal_read(none[i], &x));
}

/* Half of the way between two doubles, and by one digit of many more or less than that */
static void test_long_digits(void **state)
{
    static const char half[] = "9007199254740993.";
    char text[2000];

    (void)state;
    for (size_t zeros = 700; zeros < 1900; zeros += 100) {
        memset(text, '0', sizeof text);
        memcpy(text, half, strlen(half));
        text[zeros] = '1';
        text[zeros + 1] = '\0';
        assert_reads(text);
        text[zeros] = '0';
        assert_reads(text);
        memset(text, '1', zeros);
        assert_reads(text);
        memset(text, '0', zeros);
        memcpy(text, "0.", 2);
        text[zeros] = '7';
        assert_reads(text);
    }
}

static void test_there_and_back(void **state)
{
    uint64_t bits = 1;

    (void)state;
    for (int i = 0; i < 20000; i++) {
        double x, again = 0;
        char text[32];
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        memcpy(&x, &bits, sizeof x);
        if (!isfinite(x))
            continue;
        text_fit(text, sizeof text, "%.17g", x);
        assert_ptr_equal(decimal_read(text, &again), text + strlen(text));
        assert_memory_equal(&x, &again, sizeof x);
    }
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void assert_json(const char *text, const char *expected)
{
    cJSON *json = json_parse(text);
    char *again = json_text(json);

    assert_non_null(json);
    assert_non_null(again);
    assert_string_equal(again, expected);
    cJSON_free(again);
    cJSON_Delete(json);
}

static void test_json(void **state)
{
    (void)state;
    assert_json("1.5", "1.5");
    assert_json("[0.1,-2.25e-3,1e21,-0.5E2,7,17179869184,9007199254740992,123456789.125]",
                "[0.1,-0.00225,1e+21,-50,7,17179869184,9007199254740992,123456789.125]");
    assert_json(
        "{\"a.5\": {\"b\": [0.30000000000000004, 0.3], \"c\\\"1.5\": \"2.5, \\\\\"}, \"d\": [[], {}, null, true]}",
        "{\"a.5\":{\"b\":[0.30000000000000004,0.3],\"c\\\"1.5\":\"2.5, \\\\\"},\"d\":[[],{},null,true]}");
    assert_json("[1e999, -1.5e999]", "[null,null]");
    assert_null(json_parse("{\"a\": 1.5.5}"));
    assert_null(json_parse("1.5.5"));
    assert_null(json_parse(".5"));
    assert_null(json_parse("[1.5"));
    assert_null(json_parse("\"1.5"));
    assert_null(json_parse(""));
    assert_null(json_parse(NULL));
}

/* Doubles are read as they were written. */
static void test_json_numbers(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(numbers); i++) {
        cJSON *object = cJSON_CreateObject(), *again;
        char *text;
        cJSON_AddNumberToObject(object, "x", numbers[i]);
        text = json_text_indented(object);
        again = json_parse(text);
        assert_non_null(again);
        if (isfinite(numbers[i]))
            assert_true(cJSON_GetObjectItem(again, "x")->valuedouble == numbers[i]);
        else
            assert_true(cJSON_IsNull(cJSON_GetObjectItem(again, "x")));
        assert_true(cJSON_IsNumber(cJSON_GetObjectItem(object, "x")));
        cJSON_free(text);
        cJSON_Delete(again);
        cJSON_Delete(object);
    }
}

/* Where the value ends, or ceases to be one, in the caller's text: as cJSON says in the C locale. */
static void test_json_ends(void **state)
{
    static const char *const texts[] = {"[1.5, 2.25] x",     "{\"a\": 0.001}", "7.5",   "[1.5, 2.25, x]",
                                        "{\"a.b\": 0.1, 5}", "[1.25 x",        "[\"1.5"};

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        size_t end = 99;
        const char *expected_end = NULL;
        cJSON *json = json_parse_part(texts[i], strlen(texts[i]), &end), *expected;
        enter_c();
        expected = cJSON_ParseWithLengthOpts(texts[i], strlen(texts[i]), &expected_end, 0);
        leave_c();
        if ((json != NULL) != (expected != NULL) || end != (size_t)(expected_end - texts[i]))
            fail_msg("%s: ended at %zu, expected %d", texts[i], end, (int)(expected_end - texts[i]));
        cJSON_Delete(json);
        cJSON_Delete(expected);
    }
}

/* ---- text.h ----------------------------------------------------------------------------------------------------- */

static void test_text(void **state)
{
    struct text text = {0};
    char fit[8], line[64] = "", *whole;
    FILE *file = tmpfile();

    (void)state;
    text_format(&text, "%.2f,", 1.25);
    text_format(&text, "%g", -0.5);
    whole = text_take(&text);
    assert_string_equal(whole, "1.25,-0.5");
    free(whole);
    text_fit(fit, sizeof fit, "%.3f", 12345.5);
    assert_string_equal(fit, "1234...");
    assert_non_null(file);
    text_print(file, "M%.1f %d V%.1e", 2.5, 3, 0.25);
    rewind(file);
    assert_non_null(fgets(line, sizeof line, file));
    assert_string_equal(line, "M2.5 3 V2.5e-01");
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reals), cmocka_unit_test(test_others),       cmocka_unit_test(test_cut),
        cmocka_unit_test(test_reads), cmocka_unit_test(test_long_digits),  cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_json),  cmocka_unit_test(test_json_numbers), cmocka_unit_test(test_json_ends),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
