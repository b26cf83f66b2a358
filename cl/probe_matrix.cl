/* One product on the matrix engine, so that the host can see whether the device computes it: out[r][c] = Σ_k a[r][k] b[c][k], both
 * as they are and loaded transposed. One sub-group. */
KERNEL
probe_matrix(global const data_t *a, global const data_t *b, global float *out)
{
    local data_t A[16 * 24] __attribute__((aligned(64))), B[16 * 24] __attribute__((aligned(64)));
    ENGINE_LOCALS
    engine_t m = engine_begin();
    acc_t product = 0;
    float x[ACC];

    for_each(i, 256)
    {
        A[i / 16 * 24 + i % 16] = a[i];
        B[i / 16 * 24 + i % 16] = b[i];
    }
    SYNC();
    product = mma_frag(m, product, chain_load(m, address_of(A + chain_lane(m, 24)), 24),
                       frag_load(m, address_of(B + frag_lane(m, 24)), 24));
    product = mma_frag(m, product, chain_load_t(m, address_of(A + chain_lane_t(m, 24)), 24),
                       frag_load_t(m, address_of(B + frag_lane_t(m, 24)), 24));
    CAT(vstore, ACC)(product, 0, x);
    engine_unrolled for (int l = 0; l < ACC; l++) out[acc_row(m, l) * 16 + acc_column(m, l)] = x[l];
}
