/* OpenCL whose devices say of themselves what a test wants: PoCL's devices, of which POCL_DEVICES makes as many as are
 * wanted, are listed as others, by as many platforms. Kernels run on them as on PoCL.
 *
 * Text with a line, or a part between two |, for each device, in the order in which OpenCL is to list them:
 *
 *     platform=NVIDIA CUDA; name=NVIDIA GeForce RTX 3050; type=gpu; unified=0; units=20; clock=1500
 *
 * What is not named is what PoCL says. context=fails: clCreateContext fails with CL_OUT_OF_RESOURCES. tests/lies.c has
 * the other keys. As a library (lying_opencl.c) the text is CLATTN_TEST_LIES of the environment. */
#ifndef CLATTN_TESTS_LIES_H
#define CLATTN_TESTS_LIES_H

#include "device/opencl.h"

/* Puts the functions that lie in the table; again: other lies. 0 where PoCL has too few devices. */
int lies_put(struct opencl *cl, const char *text);

#endif
