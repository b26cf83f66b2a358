/* Linear attention on the host, in double precision: no OpenCL on the machine, neither headers nor library. */
#include <clattn.h>
#include <stdio.h>

int main(void)
{
    float q[3] = {1, 1, 1}, k[3] = {1, 1, 1}, v[3] = {1, 2, 3}, o[3];
    clattn_status status = clattn_reference(
        &(clattn_plan_desc){.rule = CLATTN_LINEAR_ATTN, .seq_len = 3, .heads = 1, .key_dim = 1, .value_dim = 1},
        &(clattn_call){.operands = (clattn_operand[]){{CLATTN_Q, .host = q},
                                                      {CLATTN_K, .host = k},
                                                      {CLATTN_V, .host = v},
                                                      {CLATTN_O, .host = o}},
                       .operand_count = 4,
                       .seq_len = CLATTN_WHOLE},
        NULL, NULL);

    if (status != CLATTN_SUCCESS)
        return fprintf(stderr, "%s\n", clattn_status_text(status)), 1;
    printf("%g %g %g\n", (double)o[0], (double)o[1], (double)o[2]); /* the sums of v so far: 1 3 6 */
    return !(o[0] == 1 && o[1] == 3 && o[2] == 6);
}
