/* torchrun reads its object from one key, in base64, and unpickles it. */
#include "launcher/torchrun_rendezvous.h"

#include <stdio.h>
#include <string.h>

/* "cTEXT\nx\n." is a pickle of x in the module TEXT. Python cannot import that and prints its name:
 * "this is the rendezvous of ddprun, start ddprun or torchrun on all nodes". */
#define STATE \
    "Y3RoaXMgaXMgdGhlIHJlbmRlenZvdXMgb2YgZGRwcnVuLCBzdGFydCBkZHBydW4g" \
    "b3IgdG9yY2hydW4gb24gYWxsIG5vZGVzCngKLg=="

#define KEY_BYTES 128 // longer than the prefix with any run id

static const char *write_key(char key[KEY_BYTES], const char *run_id)
{
    snprintf(key, KEY_BYTES, "torch.rendezvous.%s", run_id);
    return key;
}

void torchrun_refuse(Store *store, const char *run_id)
{
    char key[KEY_BYTES];
    store_set(store, write_key(key, run_id), STATE, strlen(STATE));
}

bool torchrun_is_here(Store *store, const char *run_id)
{
    char key[KEY_BYTES];
    return store_check(store, write_key(key, run_id));
}
