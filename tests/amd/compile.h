/* Programs for AMD: clang compiles and links them, llvm-objdump writes their instructions. Both are kept in the folder
 * CLATTN_AMD_CACHE, else in one of the user's own in the folder for temporary files. */
#ifndef CLATTN_TESTS_AMD_COMPILE_H
#define CLATTN_TESTS_AMD_COMPILE_H

#include <stddef.h>

struct compiled {
    char *object; /* a code object */
    size_t bytes;
    char *disassembly;
    char *log; /* what a tool that failed wrote, or NULL */
};

/* What a source makes with clBuildProgram's options. 0: it was refused. */
int compile_source(const char *source, const char *options, const char *target, struct compiled *compiled);
/* The same for a code object that was compiled before. */
int compile_binary(const void *object, size_t bytes, struct compiled *compiled);
void compiled_free(struct compiled *compiled);

#endif
