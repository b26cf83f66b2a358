/* One head of the gated delta rule in C++17: on the best device where there is one, and in double precision. */
#include <clattn.hpp>

#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

constexpr std::size_t T = 100, K = 16, V = 16;

struct layer {
    std::vector<float> q, k, v, g, beta, o;

    layer() : q(T * K), k(T * K), v(T * V), g(T), beta(T, 0.5f), o(T * V)
    {
        for (std::size_t i = 0; i < T * K; i++) {
            float x = static_cast<float>(i);
            q[i] = std::cos(x);
            k[i] = std::sin(7 * x);
            v[i] = std::sin(3 * x);
            g[i / K] = -0.01f * static_cast<float>(i / K % 10);
        }
    }
    std::array<clattn_operand, 6> operands()
    {
        return {clattn::on_host(CLATTN_Q, q), clattn::on_host(CLATTN_K, k),       clattn::on_host(CLATTN_V, v),
                clattn::on_host(CLATTN_G, g), clattn::on_host(CLATTN_BETA, beta), clattn::on_host(CLATTN_O, o)};
    }
};

int main()
{
    clattn_plan_desc desc{};
    desc.rule = CLATTN_GATED_DELTA_RULE;
    desc.flags = CLATTN_QK_L2NORM;
    desc.seq_len = T;
    desc.heads = 1;
    desc.key_dim = K;
    desc.value_dim = V;

    try {
        layer exact, here;
        auto exact_operands = exact.operands(), operands = here.operands(); /* a call points at them */
        clattn::reference(desc, clattn::make_call(exact_operands));

        /* A machine without a device is no error of this program: this call says so instead of throwing. */
        clattn::context context;
        if (context.try_create({}) != CLATTN_SUCCESS) {
            std::printf("no device (%s); o = %g in double precision\n", clattn::last_error(), double(exact.o.back()));
            return 0;
        }
        clattn::plan plan(context, desc); /* once: everything slow */
        plan.run(clattn::make_call(operands));
        std::printf("%so = %g, in double precision %g\n", plan.describe().c_str(), double(here.o.back()),
                    double(exact.o.back()));
        return std::fabs(here.o.back() - exact.o.back()) > 1e-4f * std::fabs(exact.o.back()) + 1e-6f;
    } catch (const clattn::error &error) {
        std::fprintf(stderr, "clattn: %s\n", error.what());
        return 1;
    }
}
