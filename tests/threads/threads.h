/* An OpenCL device for tests that sees what others do not: each work-item of a group goes its own way, from barrier to
 * barrier, in an order drawn at random; every access to memory is checked against all others that no barrier orders;
 * and the engine nvidia_threads has there what NVIDIA has: sub-groups that load, read and compute, and barriers of a
 * part of a group. Kernels are compiled for the host by clang, and run in one host thread: a run is the same each time.
 *
 * It finds races between work-items of a group and between groups of a launch, local memory that is read before it is
 * written, accesses outside of buffers and local arrays, accesses that are not aligned as their type asks, barriers that never complete, that are joined twice, or whose
 * number of lanes is not said alike, and matrix instructions that a lane of the sub-group misses. Where it finds
 * something a launch fails. */
#ifndef CLATTN_TESTS_THREADS_H
#define CLATTN_TESTS_THREADS_H

#include "harness.h"

/* What is looked for: all that is said above, or accesses alone that begin where their type may not. */
enum threads_checks { THREADS_ALL, THREADS_ALIGNMENT };

/* Puts the device in the place of OpenCL, with files under `folder`; fails the test where there is no OpenCL library to
 * replace. */
void threads_install(const char *folder, enum threads_checks checks);

/* In the kernels built from now on, all of `from` is `to`: to see that a mistake is found. NULL: kernels are as they
 * are. threads_edited is how many kernels had it. */
void threads_edit(const char *from, const char *to);
int threads_edited(void);

/* What was found since the last threads_clear, a line each; "" for nothing. */
const char *threads_report(void);
void threads_clear(void);

#endif
