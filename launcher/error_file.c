/* {"message": {"message": TEXT, "extraInfo": {"timestamp": SECONDS, ...}, "errorCode": STATUS}},
 * the format of PyTorch's torch.distributed.elastic.multiprocessing.errors. */
#include "launcher/error_file.h"

#include <jansson.h>

#include "common/base/log.h"
#include "common/base/signals.h"

static json_t *pack_error(const Failure *root)
{
    char ended[128];
    if (root->signal != 0)
        snprintf(ended, sizeof ended, "rank %d was killed by %s", root->rank,
                 signal_name(root->signal));
    else
        snprintf(ended, sizeof ended, "rank %d ended with exit status %d", root->rank,
                 root->status);
    return json_pack("{s{so s{so}}}", "message", "message",
                     json_text(root->message[0] != '\0' ? root->message : ended), "extraInfo",
                     "timestamp", json_sprintf("%.0f", root->time));
}

void error_file_write(const char *path, const Failure *root, const Logs *logs)
{
    if (path == NULL)
        return;
    json_t *error = NULL;
    if (root->node == logs->flags->node_rank && root->rank >= 0) {
        char worker_path[PATH_MAX];
        logs_path(logs, root->local_rank, "error.json", worker_path);
        error = failure_load_file(worker_path);
    }
    if (!json_is_object(json_object_get(error, "message"))) { // not PyTorch's
        json_decref(error);
        error = pack_error(root);
    }
    json_object_set_new(json_object_get(error, "message"), "errorCode",
                        json_integer(root->signal != 0 ? -root->signal : root->status));
    if (json_dump_file(error, path, 0) != 0)
        log_warning("cannot write the error file %s: %s", path, strerror(errno));
    json_decref(error);
}
