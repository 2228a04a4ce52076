/*
 * Where a job's secret comes from. Only the path of its file is passed on to other processes, never
 * its value.
 */
#include <fcntl.h>
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

/* Each service has a key of its own, so a proof for one of them is not valid for another. */
static void derive(Key256 *key, HandshakeService service, const uint8_t secret[HANDSHAKE_BYTES])
{
    const char *purpose = service == HANDSHAKE_STORE     ? "ddp.c store"
                          : service == HANDSHAKE_BACKEND ? "ddp.c backend"
                                                         : "ddp.c endpoint";
    crypto_auth(key->bytes, (const uint8_t *)purpose, strlen(purpose), secret);
}

char secret_run_id[128] = "none";

static void read_run_id(void)
{
    const char *run_id = getenv("TORCHELASTIC_RUN_ID");
    if (run_id == NULL || run_id[0] == '\0')
        run_id = "none";
    CHECK(strlen(run_id) < sizeof secret_run_id, "TORCHELASTIC_RUN_ID is too long: %s", run_id);
    if (strcmp(secret_run_id, run_id) != 0) // only before a server's thread reads it
        strcpy(secret_run_id, run_id);
}

bool secret_find(HandshakeService service, Key256 *key)
{
    const char *path = getenv(SECRET_VARIABLE);
    if (path == NULL || path[0] == '\0')
        return false;
    read_run_id();
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); // not to wait for a pipe
    if (fd < 0)
        usage_error(SECRET " %s: %s", path, strerror(errno));
    struct stat file;
    SYS_CHECK(fstat(fd, &file));
    if (!S_ISREG(file.st_mode) || file.st_uid != geteuid() || (file.st_mode & 0177) != 0)
        usage_error(SECRET " %s: it must be a file of yours, for you alone: chmod 600 it", path);
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
    crypto_hash_sha512(hash, text, (unsigned long long)count);
    derive(key, service, hash);
    sodium_memzero(text, sizeof text);
    sodium_memzero(hash, sizeof hash);
    return true;
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
