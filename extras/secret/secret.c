/*
 * Where a job's secret comes from. Only the path of its file is passed on to other processes, never
 * its value. The keys lie in memory of libsodium's that is left out of core dumps and, where the
 * system lets us, not swapped; everything else that has held the secret is wiped.
 */
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "extras/secret/hello.h"

#define MIN_BYTES 32 // 256 random bits
#define MAX_BYTES 4096
#define SECRET "--secret-file or " SECRET_VARIABLE

/* The keys made from one file and run id. */
typedef struct {
    char path[PATH_MAX], run_id[NAME_MAX];
    Key256 key[HANDSHAKE_BACKEND + 1]; // by service
} Secret;

static Secret *known; // the latest one; earlier ones stay, as a server may use them
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static int open_file(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // so as not to wait for a pipe
    struct stat file = { 0 };
    const int reason = fd < 0 ? errno : 0;
    const bool is_ours = fd >= 0 && fstat(fd, &file) == 0 && S_ISREG(file.st_mode) &&
                         file.st_uid == geteuid() && (file.st_mode & 0177) == 0;
    if (!is_ours && strncmp(path, "/proc/", 6) == 0) // made by secret_make
        usage_error("the launcher's secret %s cannot be read here (%s): ranks of another user or "
                    "PID namespace need a file: --secret-file",
                    path, reason != 0 ? strerror(reason) : "it is another file");
    if (fd < 0)
        usage_error(SECRET " %s: %s", path, strerror(reason));
    if (!is_ours)
        usage_error(SECRET " %s: it must be a file of yours, for you alone: chmod 600 it", path);
    return fd;
}

/* Gives each service of each job a key of its own, so a proof for one of them is not valid for
 * another. */
static void derive(Secret *secret, const uint8_t hash[HANDSHAKE_BYTES])
{
    for (HandshakeService service = HANDSHAKE_STORE; service <= HANDSHAKE_BACKEND; service++) {
        char text[32 + sizeof secret->run_id];
        snprintf(text, sizeof text, "ddp.c %s %s", service == HANDSHAKE_STORE ? "store" : "backend",
                 secret->run_id);
        crypto_auth(secret->key[service].bytes, (const uint8_t *)text, strlen(text), hash);
    }
}

static Secret *read_secret(const char *path, const char *run_id)
{
    const int fd = open_file(path);
    uint8_t text[MAX_BYTES + 1], hash[crypto_hash_sha512_BYTES];
    const ssize_t count = read(fd, text, sizeof text);
    close(fd);
    int different = 0; // 32 random bytes have about 30 different ones, zeros have 1
    for (int i = 0; i < count; i++)
        different += memchr(text, text[i], (size_t)i) == NULL;
    if (count < MIN_BYTES || count > MAX_BYTES || different < 8)
        usage_error(SECRET " %s: it has %zd bytes, %d different, and must have %d to %d, 8 "
                           "different; head -c 32 /dev/urandom >FILE makes one",
                    path, count, different, MIN_BYTES, MAX_BYTES);
    CHECK(sodium_init() >= 0, "libsodium cannot start");
    Secret *secret = sodium_malloc(sizeof *secret);
    CHECK(secret != NULL, "out of memory: %zu bytes wanted", sizeof *secret);
    CHECK(strlen(run_id) < sizeof secret->run_id, "TORCHELASTIC_RUN_ID is too long: %s", run_id);
    strcpy(secret->run_id, run_id);
    snprintf(secret->path, sizeof secret->path, "%s", path);
    crypto_hash_sha512(hash, text, (unsigned long long)count);
    derive(secret, hash);
    sodium_memzero(text, sizeof text);
    sodium_memzero(hash, sizeof hash);
    return secret;
}

const Key256 *secret_find(HandshakeService service)
{
    const char *path = getenv(SECRET_VARIABLE);
    if (path == NULL || path[0] == '\0')
        return NULL;
    const char *run_id = getenv("TORCHELASTIC_RUN_ID");
    run_id = run_id == NULL || run_id[0] == '\0' ? "none" : run_id;
    pthread_mutex_lock(&mutex);
    if (known == NULL || strcmp(known->path, path) != 0 || strcmp(known->run_id, run_id) != 0)
        known = read_secret(path, run_id);
    const Key256 *key = &known->key[service];
    pthread_mutex_unlock(&mutex);
    return key;
}

void secret_make(void)
{
    if (getenv(SECRET_VARIABLE) != NULL)
        return;
    char path[64];
    uint8_t random[MIN_BYTES];
    const int fd = memfd_create("ddp secret", MFD_CLOEXEC); // stays open as long as this process
    SYS_CHECK(fd);
    SYS_CHECK(fchmod(fd, 0600));
    randombytes_buf(random, sizeof random);
    CHECK(write(fd, random, sizeof random) == sizeof random, "no secret: %s", strerror(errno));
    sodium_memzero(random, sizeof random);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    SYS_CHECK(setenv(SECRET_VARIABLE, path, 1));
}
