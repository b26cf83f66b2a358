/* A ledger of the OpenCL objects that go through the library's function table: created, retained, released. */
#ifndef CLATTN_TESTS_LEDGER_H
#define CLATTN_TESTS_LEDGER_H

/* Puts counting functions in the table, once; what is created before does not count. 0 where there is no OpenCL. */
int ledger_open(void);

/* Objects of a kind that are alive: references that were created or retained, and not released. */
enum ledger_kind {
    LEDGER_context,
    LEDGER_queue,
    LEDGER_buffer,
    LEDGER_program,
    LEDGER_kernel,
    LEDGER_event,
    LEDGER_KINDS
};
int ledger_alive(enum ledger_kind kind);

/* Of cmocka, around a test: as many of each kind are alive after it as before. A context that outlives the test
 * keeps its programs: ledger_check_plans does not count those. */
int ledger_begin(void **state);
int ledger_check(void **state);
int ledger_check_plans(void **state);

/* Group teardown, last: nothing at all is alive. */
int ledger_close(void);

#endif
