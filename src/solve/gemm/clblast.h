/* Parameters of CLBlast's kernel Xgemm, by its own names. */
#ifndef CLATTN_SRC_SOLVE_GEMM_CLBLAST_H
#define CLATTN_SRC_SOLVE_GEMM_CLBLAST_H

#include "solve/gemm/gemm.h"

/* clang-format off */
#define CLBLAST_PARAMETERS(X) \
    X(GEMMK, 0, 1)            X(KREG,  1, 2, 4)         X(KWG,   1, 16, 32)       X(KWI,   1, 2, 8) \
    X(MDIMA, 1, 4, 8, 16, 32) X(MDIMC, 1, 4, 8, 16, 32) X(MWG,   16, 32, 64, 128) X(NDIMB, 1, 4, 8, 16, 32) \
    X(NDIMC, 1, 4, 8, 16, 32) X(NWG,   16, 32, 64, 128) X(SA,    0, 1)            X(SB,    0, 1) \
    X(STRM,  0, 1)            X(STRN,  0, 1)            X(VWM,   1, 2, 4, 8)      X(VWN,   1, 2, 4, 8)
/* clang-format on */

struct clblast_tiles {
#define CLBLAST_FIELD(name, ...) int name;
    CLBLAST_PARAMETERS(CLBLAST_FIELD)
#undef CLBLAST_FIELD
};

/* Whether the divisors divide, as CLBlast's own tuner demands of this kernel, GEMMK 0. CLBlast checks nothing: with others
 * it computes something else, or ends a driver's compiler. */
int clblast_is_sound(const struct clblast_tiles *tiles, size_t most_group);

#endif
