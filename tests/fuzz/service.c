/*
 * Requests to a store from three clients that take turns: the client, the number of bytes, then
 * the bytes. In the end all have gone, and nothing that they stored is left.
 */
#include "common/comm/store/store_service.h"

#include "tests/fuzz/targets.h"

enum { NUM_CLIENTS = 3, STRANGER = 128 };

void fuzz_service(Input input)
{
    Service service = { 0 };
    Client clients[NUM_CLIENTS] = { { .validated = true }, { .validated = true } };
    for (int i = 0; i < NUM_CLIENTS; i++)
        clients[i].service = &service;
    bool gone[NUM_CLIENTS] = { false };
    while (input.size > 0) {
        const int i = input_byte(&input) % NUM_CLIENTS;
        const Input part = input_part(&input);
        if (gone[i])
            continue;
        gone[i] = !service_feed(&clients[i], part.data, part.size);
        if (clients[i].unread > 0 || service.num_values > 0)
            world_passed(); // a whole request is answered
        if (gone[i])
            service_remove(&clients[i]);
        for (int j = 0; j < NUM_CLIENTS; j++)
            EXPECT(!gone[j] || clients[j].unread == 0);
    }
    for (int i = 0; i < NUM_CLIENTS; i++)
        if (!gone[i])
            service_remove(&clients[i]);
    service_free(&service);
    EXPECT(service.bytes == 0 && service.num_values == 0);
}
