/* Products of matrices. */
#include "interpreter.h"

const struct row matrix_rows[] = {{0}};
