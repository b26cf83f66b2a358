#include <clattn.h>
#include <stdio.h>

int main(void)
{
    float q[3] = {1, 1, 1}, k[3] = {1, 1, 1}, v[3] = {1, 2, 3}, o[3] = {0};
    clattn_plan_desc desc = {.rule = CLATTN_LINEAR_ATTN, .seq_len = 3, .heads = 1, .key_dim = 1, .value_dim = 1};
    clattn_operand operands[] = {
        {CLATTN_Q, .host = q}, {CLATTN_K, .host = k}, {CLATTN_V, .host = v}, {CLATTN_O, .host = o}};
    clattn_call call = {.operands = operands, .operand_count = 4, .seq_len = 3};

    clattn_reference(&desc, &call, NULL, NULL);
    printf("clattn %s: %g %g %g\n", clattn_version(), o[0], o[1], o[2]);
    return o[2] == 6 ? 0 : 1;
}
