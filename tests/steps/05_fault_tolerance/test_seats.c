/* What a launcher makes of ranks that have ended, by the order in which it can find them. */
#include <stdlib.h>

#include "05_fault_tolerance/reconfigure/agreement.h"
#include "05_fault_tolerance/reconfigure/seats.h"
#include "common/comm/store/store.h"
#include "tests/helpers/unit.h"

/* Lets a launcher look at rank 0, which ended with a status, and rank 1, which was killed, while
 * the store has `end`. Returns the seat that it would fill. */
static int look(Workers *workers, int status, const char *end, char *end_after, size_t bytes)
{
    int port = 0;
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    assert_non_null(server);
    char *words[] = { "ddprun", "--master-addr", "127.0.0.1", "sleep", NULL };
    static Flags flags;
    flags_parse(&flags, NULL, sizeof words / sizeof words[0] - 1, words);
    flags.nproc_per_node = 2;
    Agents agents = { .master_port = port };
    Logs logs = { .flags = &flags, .attempt = "/dev/null" }; // no rank has left its error there
    workers->logs = &logs;
    Seats seats;
    assert_int_equal(setenv("DDP_RECONFIGURE", "1", 1), 0);
    seats_open(&seats, &flags, &agents, 0); // which allows no restart
    if (end != NULL)
        store_set(&seats.store, "end", end, 1);
    workers->worker[0] = (Worker){ .pid = 1, .status = status };
    workers->worker[1] = (Worker){ .pid = 1, .status = 128 + SIGKILL, .signal = SIGKILL };
    const int seat = seats_vacant(&seats, workers);
    agreement_look(&seats.store, "end", end_after, bytes);
    seats_close(&seats);
    store_server_stop(server);
    flags_free(&flags);
    return seat;
}

static void test_both_have_ended(void **state)
{
    (void)state;
    static const struct {
        const char *end;
        int status, status_0,
            status_1; // rank 0's as it ended, and both as the launcher reports them
        const char *end_after;
    } cases[] = {
        { "0", 0, 0, 0, "0" }, // rank 1 was killed after the last file was written
        { "0", 1, 1, 0,
          "1" }, // rank 0 did not find the file: its failure is the cause, not rank 1's
        { "7", 1, 7, 7, "7" },
        { NULL, 1, 1, 128 + SIGKILL, "1" }, // no restart is left
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char end_after[TEXT_BYTES];
        Worker worker[2];
        Workers workers = { .worker = worker, .num_workers = 2 };
        assert_int_equal(look(&workers, cases[i].status, cases[i].end, end_after, sizeof end_after),
                         -1);
        assert_int_equal(worker[0].status, cases[i].status_0);
        assert_int_equal(worker[1].status, cases[i].status_1);
        assert_int_equal(worker[1].signal, cases[i].status_1 > 128 ? SIGKILL : 0);
        assert_string_equal(end_after, cases[i].end_after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_have_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
