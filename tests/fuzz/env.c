/* A launcher's variables, with any values, up to connecting to the store that they name. */
#include "common/comm/dist_env.h"
#include "common/comm/store/store.h"
#include "common/nn/device.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/words.h"

void fuzz_env(Input input)
{
    static Words words;
    world_set_peers(input_part(&input)); // the store's answers
    read_words(&words, input);

    DistEnv env;
    dist_env_init(&env);
    world_passed();
    EXPECT(env.rank >= 0 && env.rank < env.world_size && env.local_rank >= 0 && env.node >= 0);
    Device device;
    device_init(&device, &(Args){ .device = DEVICE_CPU }, env.local_rank);
    EXPECT(device.threads > 0);
    dist_env_log(&env, device.name, device.place);
    device_free(&device);

    Store store;
    if (env.master_addr == NULL)
        return;
    store_init(&store, env.master_addr, env.master_port, false, 1);
    store_free(&store);
}
