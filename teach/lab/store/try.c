/*
 * Usage: try
 * The harness of lab-store: serves the learner's store at a free port, which it prints, and obeys a
 * line each on standard input: "cpu" prints the processor's milliseconds so far, "bytes" the memory
 * in use (with a sanitizer), "stop" stops the store, "start" starts it again at the same port.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/log.h"
#include "common/comm/store/store.h"

extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

int main(void)
{
    int port = 0;
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    CHECK(server != NULL, "store_server_start: %s", strerror(errno));
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%d\n", port);
    for (char line[32]; fgets(line, sizeof line, stdin) != NULL;) {
        if (strcmp(line, "cpu\n") == 0) {
            printf("%ld\n", (long)(clock() / (CLOCKS_PER_SEC / 1000)));
        } else if (strcmp(line, "bytes\n") == 0) {
            const bool known = __sanitizer_get_current_allocated_bytes != NULL;
            printf("%zu\n", known ? __sanitizer_get_current_allocated_bytes() : 0);
        } else if (strcmp(line, "stop\n") == 0) {
            store_server_stop(server);
            printf("0\n");
        } else {
            server = store_server_start("127.0.0.1", &port, NULL);
            printf("%d\n", server != NULL ? port : -1);
        }
    }
    return 0;
}
