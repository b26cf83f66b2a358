#include "plan/verbose.h"

#include "base/system.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

static void add_problem(struct text *text, const char *what, const struct clattn_plan *plan,
                        const struct extent *extent)
{
    const clattn_plan_desc *desc = &plan->problem.desc;

    text_format(text, "clattn: %s %s %s B=%lld,T=%lld,H=%lld", what, plan->problem.rule->name, dtype_name(desc->dtype),
                (long long)extent->batch, (long long)extent->seq_len, (long long)desc->heads);
    if (extent->kv_len > 0 && desc->kv_len > 0)
        text_format(text, ",TK=%lld", (long long)extent->kv_len);
    text_format(text, ",HQ=%lld,K=%lld,V=%lld: %s", (long long)desc->qk_heads, (long long)desc->key_dim,
                (long long)desc->value_dim, plan->solver->space.name);
}

/* One write, so that lines of several threads do not mix. */
static void print(struct text *text)
{
    char *line = text_take(text);

    if (line != NULL)
        fputs(line, stderr);
    free(line);
}

void verbose_plan(const struct clattn_plan *plan, double seconds)
{
    struct text text = {0};

    add_problem(&text, "plan", plan, &plan->most);
    text_format(&text, ", tiles by %s, %.3g ms\n", plan->tiles_by != NULL ? plan->tiles_by : "the library",
                1e3 * seconds);
    print(&text);
}

static void add_call(struct text *text, const struct clattn_plan *plan, const struct arguments *arguments)
{
    struct extent extent = plan->most;

    problem_extent(&plan->problem, arguments, &extent, NULL);
    add_problem(text, "call", plan, &extent);
}

void verbose_call(const struct clattn_plan *plan, const struct arguments *arguments, double seconds)
{
    struct text text = {0};

    add_call(&text, plan, arguments);
    text_format(&text, ", %.3g ms\n", 1e3 * seconds);
    print(&text);
}

/* A call that runs. The plan may be gone when it is done. */
struct running {
    double begin;
    char *line;
};

static void CL_CALLBACK done(cl_event event, cl_int status, void *user)
{
    struct running *running = user;
    struct text text = {0};

    (void)event;
    text_format(&text, "%s, %.3g ms%s\n", running->line != NULL ? running->line : "clattn: call",
                1e3 * (now_seconds() - running->begin), status < 0 ? ", failed" : "");
    print(&text);
    free(running->line);
    free(running);
}

void verbose_enqueued(const struct clattn_plan *plan, const struct arguments *arguments, double begin, cl_event event)
{
    struct running *running = calloc(1, sizeof *running);
    struct text text = {0};

    if (running == NULL)
        return;
    add_call(&text, plan, arguments);
    running->begin = begin;
    running->line = text_take(&text);
    if (plan->context->device.cl->SetEventCallback(event, CL_COMPLETE, done, running) == CL_SUCCESS)
        return;
    free(running->line);
    free(running);
}
