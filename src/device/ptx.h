/* Instructions of NVIDIA's that OpenCL's front end does not know: sm_90a's. A kernel has them in comments of PTX, //@,
 * which its compiler carries along. The program's binary is that PTX, and its assembler takes what is uncovered there.
 */
#ifndef CLATTN_SRC_PTX_H
#define CLATTN_SRC_PTX_H

#include <stddef.h>

/* Whether a kernel's source hides any. */
int ptx_hides(const char *source);

/* A program's binary with what is hidden in it uncovered, for sm_90a: to be freed, with its size. NULL where it is not
 * PTX for sm_90, or there is no memory. */
unsigned char *ptx_uncover(const unsigned char *binary, size_t size, size_t *uncovered);

#endif
