/* NVIDIA instructions that the OpenCL compiler does not know: those of sm_90a. A kernel has them in PTX comments that
 * begin with //@, which the compiler keeps. The program's binary is PTX text. Uncovering removes the comment marks, and
 * the driver's assembler accepts the result. */
#ifndef CLATTN_SRC_PTX_H
#define CLATTN_SRC_PTX_H

#include <stddef.h>

/* Whether a kernel's source hides instructions. */
int ptx_hides(const char *source);

/* The program's binary with its hidden instructions uncovered, for sm_90a, and its size; to be freed. NULL: it is not
 * PTX for sm_90, or memory ran out. */
unsigned char *ptx_uncover(const unsigned char *binary, size_t size, size_t *uncovered);

#endif
