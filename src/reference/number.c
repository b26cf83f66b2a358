#include "reference/number.h"

#include <math.h>
#include <string.h>

static double f16_load(uint16_t bits)
{
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double value;

    if (exponent == 31)
        value = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent == 0)
        value = ldexp(fraction, -24);
    else
        value = ldexp(1024 + fraction, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

static uint16_t f16_store(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double size = fabs(value);
    int exponent;
    long scaled;

    if (isnan(value))
        return 0x7e00;
    if (size >= 65520)
        return (uint16_t)(sign | 0x7c00);
    frexp(size, &exponent);
    if (exponent < -13)
        exponent = -13; /* subnormal: units of 2^-24 */
    scaled = lrint(ldexp(size, 11 - exponent));
    if (scaled < 1024)
        return (uint16_t)(sign | scaled);
    return (uint16_t)(sign | (((exponent + 13) << 10) + scaled)); /* a carry into the exponent gives the right number */
}

static double bf16_load(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

/* Goes through f32 with rounding to odd, so that rounding twice gives the same result as rounding once. */
static uint16_t bf16_store(double value)
{
    float narrow = (float)value;
    uint32_t bits;

    if (isnan(value))
        return 0x7fc0;
    if (fabs((double)narrow) > fabs(value))
        narrow = nextafterf(narrow, 0);
    memcpy(&bits, &narrow, sizeof bits);
    if ((double)narrow != value && !isinf(narrow))
        bits |= 1;
    bits += 0x7fff + (bits >> 16 & 1);
    return (uint16_t)(bits >> 16);
}

static float load_4(const void *array, int64_t index)
{
    float value;

    memcpy(&value, (const char *)array + index * (int64_t)sizeof value, sizeof value);
    return value;
}

static uint16_t load_2(const void *array, int64_t index)
{
    uint16_t bits;

    memcpy(&bits, (const char *)array + index * (int64_t)sizeof bits, sizeof bits);
    return bits;
}

static void store_4(void *array, int64_t index, float value)
{
    memcpy((char *)array + index * (int64_t)sizeof value, &value, sizeof value);
}

static void store_2(void *array, int64_t index, uint16_t bits)
{
    memcpy((char *)array + index * (int64_t)sizeof bits, &bits, sizeof bits);
}

double number_load(clattn_dtype dtype, const void *array, int64_t index)
{
    switch (dtype) {
    case CLATTN_F32: return (double)load_4(array, index);
    case CLATTN_F16: return f16_load(load_2(array, index));
    case CLATTN_BF16: return bf16_load(load_2(array, index));
    }
    return 0;
}

void number_store(clattn_dtype dtype, void *array, int64_t index, double value)
{
    switch (dtype) {
    case CLATTN_F32: store_4(array, index, (float)value); return;
    case CLATTN_F16: store_2(array, index, f16_store(value)); return;
    case CLATTN_BF16: store_2(array, index, bf16_store(value)); return;
    }
}

int64_t number_index(const void *array, int64_t index, int is_64)
{
    int32_t narrow;
    int64_t wide;

    if (is_64) {
        memcpy(&wide, (const char *)array + index * (int64_t)sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&narrow, (const char *)array + index * (int64_t)sizeof narrow, sizeof narrow);
    return narrow;
}

double number_round(clattn_dtype dtype, double value)
{
    uint32_t room = 0;

    number_store(dtype, &room, 0, value);
    return number_load(dtype, &room, 0);
}

double number_bound(clattn_dtype dtype)
{
    static const double bounds[] = {[CLATTN_F32] = 1e-5, [CLATTN_F16] = 5e-3, [CLATTN_BF16] = 5e-3};

    return bounds[dtype];
}

double number_bound_of(const clattn_plan_desc *desc)
{
    enum { NARROW = 8, WIDE = 10 }; /* of two roundings, in thousandths; and as a multiple of the forward pass's */

    if (desc->pass == CLATTN_PASS_BACKWARD)
        return desc->dtype != CLATTN_F32 ? NARROW * 1e-3 : WIDE * number_bound(CLATTN_F32);
    if (desc->muon != CLATTN_MUON_NONE && desc->dtype == CLATTN_F32 && desc->rule != CLATTN_LACT)
        return 2e-4;
    if ((desc->flags & CLATTN_NORM_OUTPUT) && desc->dtype != CLATTN_F32) /* o may be rounded before, too */
        return NARROW * 1e-3;
    return desc->muon != CLATTN_MUON_NONE && desc->dtype != CLATTN_F32 ? 2e-2 : number_bound(desc->dtype);
}

double number_softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}
