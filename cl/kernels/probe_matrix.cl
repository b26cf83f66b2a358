/* One product on the matrix engine, so that the host can see whether the device computes it: out[r][c] = Σ_k a[r][k]
 * b[c][k], both as they are and loaded transposed. One sub-group. */
KERNEL
probe_matrix(global const data_t *a, global const data_t *b, global float *out)
{
    LOCAL_NUMBERS(A, LOCAL_PROBE)
    LOCAL_NUMBERS(B, LOCAL_PROBE)
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    float x[ACC];

    for_each(i, 256) {
        A_numbers[i / 16 * PROBE_PITCH + i % 16] = ((global const ushort *)a)[i];
        B_numbers[i / 16 * PROBE_PITCH + i % 16] = ((global const ushort *)b)[i];
    }
    SYNC();
    for (int row = 0; row < 16; row += ACC_ROWS) {
        acc_t product =
            mma_frag(m, 0, chain_load(m, address_of(A + row * PROBE_PITCH + chain_lane(m, PROBE_PITCH)), PROBE_PITCH),
                     frag_load(m, address_of(B + frag_lane(m, PROBE_PITCH)), PROBE_PITCH));
        product = mma_frag(m, product, chain_load_t(m, address_of(A + row + chain_lane_t(m, PROBE_PITCH)), PROBE_PITCH),
                           frag_load_t(m, address_of(B + frag_lane_t(m, PROBE_PITCH)), PROBE_PITCH));
        CAT(vstore, ACC)(product, 0, x);
        engine_unrolled
        for (int l = 0; l < ACC; l++)
            out[(row + acc_row(m, l)) * 16 + acc_column(m, l)] = x[l];
    }
}
