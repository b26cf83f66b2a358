/* The product of probe_matrix.cl by a team, of all widths that it has: each sub-group leaves the sum over TILES tiles
 * of columns, which are alike. One team. */
KERNEL
probe_team(global const data_t *a, global const data_t *b, global float *out)
{
    LOCAL_NUMBERS(A, LOCAL_PROBE)
    LOCAL_NUMBERS(keys, LOCAL_KEYS)
    LOCAL_NUMBERS(values, LOCAL_VALUES)
    ENGINE_LOCALS
    engine_t m = engine_begin(engine_scratch);
    acc_t product[TILES], sum = 0;
    chain_t rows, columns;
    float x[ACC];

    for_each(i, 256)
        A_numbers[i / 16 * PROBE_PITCH + i % 16] = ((global const ushort *)a)[i];
    for_each(i, TILES * 256) {
        int c = i / 16, k = i % 16;
        keys_numbers[panel_place(0, c, k)] = ((global const ushort *)b)[c % 16 * 16 + k];
        values_numbers[panel_place(VALUE_PITCH, k, c)] = ((global const ushort *)b)[k * 16 + c % 16];
    }
    team_written();
    SYNC();
    rows = chain_load(m, address_of(A + chain_lane(m, PROBE_PITCH)), PROBE_PITCH);
    columns = chain_load_t(m, address_of(A + chain_lane_t(m, PROBE_PITCH)), PROBE_PITCH);
    engine_unrolled
    for (int c = 0; c < TILES; c++)
        product[c] = 0;
    team_begin();
    team_multiply(m, product, TILES, rows, address_of(keys), 0, 0, 0, 0);
    team_multiply(m, product, TILES, columns, address_of(values), VALUE_PITCH, 0, 0, 1);
    team_end();
    engine_unrolled
    for (int c = 0; c < TILES; c++)
        sum += product[c];
    CAT(vstore, ACC)(sum, 0, x);
    engine_unrolled
    for (int l = 0; l < ACC; l++)
        out[LANE / ENGINE_LANES * 256 + acc_row(m, l) * 16 + acc_column(m, l)] = x[l];
}
