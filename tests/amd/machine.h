/* An interpreter of AMD's machine code, over the text that llvm-objdump -d prints of a code object.
 *
 * A launch runs work-group after work-group. The waves of a group take turns: each runs until its next barrier or its
 * end, in forward or in reverse order, so that a missing barrier gives different results. Device addresses are host
 * addresses. Registers and LDS hold poison at the start. What this does not show: hazards, waits, caches, time. */
#ifndef CLATTN_TESTS_AMD_MACHINE_H
#define CLATTN_TESTS_AMD_MACHINE_H

#include <stddef.h>
#include <stdint.h>

/* The instructions of one code object. */
struct code;

/* Reads the text of llvm-objdump -d for a target such as "gfx1100". NULL, and what is wrong with which line in error,
 * when the text is not understood; a mnemonic that is not known is an error when it is executed. */
struct code *code_parse(const char *disassembly, const char *target, char *error, size_t size);
void code_free(struct code *code);

struct launch {
    const struct code *code;
    const unsigned char *image;        /* the mapped segments: address a of the text is image + a */
    uint64_t entry;                    /* the kernel's first instruction, an address of the text */
    uint32_t rsrc1, rsrc2, properties; /* of the kernel's descriptor */
    uint32_t group_bytes;              /* LDS of a group, static and dynamic */
    uint32_t private_bytes;            /* scratch of a work-item */
    const void *kernarg;               /* the kernel's arguments */
    const void *packet;                /* the dispatch packet, 64 bytes as HSA lays them out */
    uint32_t dimensions, groups[3], local[3];
    int reverse; /* the waves of a group run in reverse order */
    /* NULL; else *line is the text of the memory access that runs, for handlers of signals. */
    const char *volatile *line;
};

/* 0, or another value and, in error, what is wrong with which instruction. */
int launch_run(const struct launch *launch, char *error, size_t size);

#endif
