/* Printing and reading numbers with a decimal point in every locale. The program that embeds the library may have set a
 * locale with a comma. All of src prints numbers with fractions through these functions, or through text.h and json.h,
 * which use them; tests/project/check_numbers.sh fails if a file does not. */
#ifndef CLATTN_SRC_DECIMAL_H
#define CLATTN_SRC_DECIMAL_H

#include "base/log.h"

#include <stdarg.h>
#include <stddef.h>

/* vsnprintf in the C locale. Returns the length of the whole text and writes as much as fits. Numbers with fractions
 * have at most 500 characters. %n, %lc, %ls and %Lf are not supported. */
size_t decimal_vprint(char *to, size_t size, const char *format, va_list args) PRINTF_LIKE(3, 0);

/* strtod in the C locale. *value is the double nearest to the decimal number at the beginning of the text, or infinite
 * if the number is too large. Returns the text after the number, or NULL if there is no number. Leading blanks,
 * hexadecimal numbers, "inf" and "nan" are not accepted. */
const char *decimal_read(const char *text, double *value);

#endif
