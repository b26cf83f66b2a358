#include "base/decimal.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Printing: one conversion at a time, so that the locale's decimal point can be found in a single number ------ */

struct out {
    char *to;
    size_t size, used; /* used: the length of the whole text, which may exceed size */
};

/* A conversion, "%-*.3lld", with the numbers for its stars */
struct conversion {
    char flags[6], length[3], kind;
    int width, precision; /* negative precision: none */
};

/* A struct because va_list may be an array, which cannot be passed by reference. */
struct values {
    va_list list;
};

static void put(struct out *out, const char *from, size_t size)
{
    if (out->used < out->size) {
        size_t room = out->size - out->used;
        memcpy(out->to + out->used, from, size < room ? size : room);
    }
    out->used += size;
}

static void put_repeated(struct out *out, char c, int count)
{
    for (int i = 0; i < count; i++)
        put(out, &c, 1);
}

/* Copies characters from *format while they are in `set` and fit */
static void read_characters(const char **format, const char *set, char *to, size_t size)
{
    size_t count = strspn(*format, set), kept = count < size ? count : size - 1;

    memcpy(to, *format, kept);
    to[kept] = '\0';
    *format += count;
}

static int read_count(const char **format, struct values *values)
{
    int number = 0;

    if (**format == '*') {
        ++*format;
        return va_arg(values->list, int);
    }
    for (; **format >= '0' && **format <= '9'; ++*format)
        number = 10 * number + (**format - '0');
    return number;
}

/* Reads what follows a %. */
static struct conversion read_conversion(const char **format, struct values *values)
{
    struct conversion c = {.precision = -1};

    read_characters(format, "-+ #0", c.flags, sizeof c.flags);
    c.width = read_count(format, values);
    if (**format == '.') {
        ++*format;
        c.precision = read_count(format, values);
    }
    read_characters(format, "hlzjtL", c.length, sizeof c.length);
    c.kind = **format;
    *format += c.kind != '\0';
    return c;
}

/* The formats of snprintf below consist of parts of a format that the compiler has checked. */
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#endif

#define PUT(out, ...)                                                                                                  \
    do {                                                                                                               \
        size_t put_at_ = (out)->used < (out)->size ? (out)->used : (out)->size;                                        \
        char *put_to_ = (out)->to != NULL ? (out)->to + put_at_ : NULL;                                                \
        int put_size_ = snprintf(put_to_, (out)->size - put_at_, __VA_ARGS__);                                         \
        (out)->used += put_size_ > 0 ? (size_t)put_size_ : 0;                                                          \
    } while (0)

static void put_integer(struct out *out, const struct conversion *c, struct values *values)
{
    char spec[20];

    snprintf(spec, sizeof spec, "%%%s*.*%s%c", c->flags, c->length, c->kind);
    if (strcmp(c->length, "ll") == 0)
        PUT(out, spec, c->width, c->precision, va_arg(values->list, long long));
    else if (*c->length == 'l')
        PUT(out, spec, c->width, c->precision, va_arg(values->list, long));
    else if (*c->length == 'z')
        PUT(out, spec, c->width, c->precision, va_arg(values->list, size_t));
    else if (*c->length == 'j')
        PUT(out, spec, c->width, c->precision, va_arg(values->list, intmax_t));
    else if (*c->length == 't')
        PUT(out, spec, c->width, c->precision, va_arg(values->list, ptrdiff_t));
    else
        PUT(out, spec, c->width, c->precision, va_arg(values->list, int));
}

static void put_text(struct out *out, const struct conversion *c, struct values *values)
{
    char spec[20];

    snprintf(spec, sizeof spec, c->kind == 's' ? "%%%s*.*%c" : "%%%s*%c", c->flags, c->kind);
    if (c->kind == 's')
        PUT(out, spec, c->width, c->precision, va_arg(values->list, const char *));
    else if (c->kind == 'c')
        PUT(out, spec, c->width, va_arg(values->list, int));
    else
        PUT(out, spec, c->width, va_arg(values->list, void *));
}

/* Replaces the locale's decimal point by '.'. The point is whatever stands between digits and is neither a digit nor a
 * letter; it may have several bytes. */
static void set_point(char *text)
{
    static const char known[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+- ";
    char *point = text + strspn(text, known), *after = point;

    if (*point == '\0')
        return;
    while (*after != '\0' && strchr(known, *after) == NULL)
        after++;
    *point = '.';
    memmove(point + 1, after, strlen(after) + 1);
}

static void put_real(struct out *out, const struct conversion *c, double x)
{
    enum { LONGEST = 500 };
    char spec[20], text[LONGEST + 1];
    int left = strchr(c->flags, '-') != NULL || c->width < 0, pad, sign;

    snprintf(spec, sizeof spec, "%%%s.*%c", c->flags, c->kind);
    snprintf(text, sizeof text, spec, c->precision, x);
    set_point(text);
    pad = abs(c->width) - (int)strlen(text);
    sign = *text == '-' || *text == '+' || *text == ' ';
    if (!left && strchr(c->flags, '0') != NULL && x - x == 0) {
        put(out, text, (size_t)sign);
        put_repeated(out, '0', pad);
        put(out, text + sign, strlen(text + sign));
        return;
    }
    put_repeated(out, ' ', left ? 0 : pad);
    put(out, text, strlen(text));
    put_repeated(out, ' ', left ? pad : 0);
}

#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif

static void put_conversion(struct out *out, const struct conversion *c, struct values *values)
{
    if (c->kind == '%')
        put(out, "%", 1);
    else if (c->kind != '\0' && strchr("diuxXo", c->kind) != NULL)
        put_integer(out, c, values);
    else if (c->kind != '\0' && strchr("csp", c->kind) != NULL)
        put_text(out, c, values);
    else if (c->kind != '\0')
        put_real(out, c, va_arg(values->list, double));
}

size_t decimal_vprint(char *to, size_t size, const char *format, va_list args)
{
    struct out out = {to, size, 0};
    struct values copy;

    va_copy(copy.list, args);
    while (*format != '\0') {
        size_t plain = strcspn(format, "%");
        put(&out, format, plain);
        format += plain;
        if (*format == '%') {
            struct conversion c;
            format++;
            c = read_conversion(&format, &copy);
            put_conversion(&out, &c, &copy);
        }
    }
    va_end(copy.list);
    if (size > 0)
        to[out.used < size ? out.used : size - 1] = '\0';
    return out.used;
}

/* ---- Reading: digits without a point and a power of ten, which strtod reads alike in every locale ---------------- */

/* Further digits do not change the double, except by whether one of them is not 0. */
enum { MOST_DIGITS = 800, MOST_POWER = 100000 };

struct digits {
    char text[MOST_DIGITS + 32];
    size_t count;
    long long power; /* the power of ten by which the digits are multiplied */
    int dropped, any;
};

static void add_digit(struct digits *digits, char digit, int fraction)
{
    int kept = digits->count < MOST_DIGITS;

    digits->any = 1;
    if (kept && (digit != '0' || digits->count > 0))
        digits->text[digits->count++] = digit;
    if (!kept)
        digits->dropped |= digit != '0';
    digits->power += !kept - fraction;
}

static const char *read_digits(const char *text, struct digits *digits)
{
    int fraction = 0;

    for (;; text++) {
        if (*text >= '0' && *text <= '9')
            add_digit(digits, *text, fraction);
        else if (*text == '.' && !fraction)
            fraction = 1;
        else
            return text;
    }
}

/* Reads an exponent, "e-5", if it is complete */
static const char *read_exponent(const char *text, struct digits *digits)
{
    const char *at = text + 1;
    int minus = *text != '\0' && *at == '-';
    long long power = 0;

    if (*text != 'e' && *text != 'E')
        return text;
    at += *at == '-' || *at == '+';
    if (*at < '0' || *at > '9')
        return text;
    for (; *at >= '0' && *at <= '9'; at++)
        power = power < MOST_POWER ? 10 * power + (*at - '0') : power;
    digits->power += minus ? -power : power;
    return at;
}

const char *decimal_read(const char *text, double *value)
{
    struct digits digits = {.count = 0};
    int minus = *text == '-';
    const char *end = read_digits(text + (minus || *text == '+'), &digits);

    if (!digits.any)
        return NULL;
    end = read_exponent(end, &digits);
    if (digits.count == 0)
        digits.text[digits.count++] = '0';
    if (digits.dropped) {
        digits.text[digits.count++] = '1';
        digits.power--;
    }
    snprintf(digits.text + digits.count, sizeof digits.text - digits.count, "e%lld", digits.power);
    *value = minus ? -strtod(digits.text, NULL) : strtod(digits.text, NULL);
    return end;
}
