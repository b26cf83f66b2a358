/* Numbers as text and back, with a decimal point in every locale: a program that embeds the library may have set one
 * with a comma. All of src prints numbers with fractions by these two, or by text.h and json.h, which stand on them;
 * tests/project/check_numbers.sh fails on what does not. */
#ifndef CLATTN_SRC_DECIMAL_H
#define CLATTN_SRC_DECIMAL_H

#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>

/* vsnprintf in the C locale: the length of the whole text, of which what fits is written. Numbers with fractions have
 * at most 500 characters; %n, %lc, %ls and %Lf are not known. */
size_t decimal_vprint(char *to, size_t size, const char *format, va_list args) PRINTF_LIKE(3, 0);

/* strtod in the C locale: *value is the double nearest to the decimal number that text begins with, infinite where that
 * is too large. What follows the number is returned, NULL where there is none. Neither blanks before it, nor
 * hexadecimal numbers, nor "inf" and "nan" are read. */
const char *decimal_read(const char *text, double *value);

#endif
