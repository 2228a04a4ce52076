/*
 * The job's secret and what is proven with it, by libsodium. Only the path of its file is passed on
 * to other processes, never its value.
 */
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/comm/store/handshake.h"

#define MIN_BYTES 32 // 256 random bits
#define MAX_BYTES 4096
#define SECRET "--secret-file or " SECRET_VARIABLE

_Static_assert(crypto_auth_KEYBYTES == HANDSHAKE_BYTES && crypto_auth_BYTES == HANDSHAKE_BYTES,
               "libsodium's crypto_auth");

bool secret_find(Key256 *secret)
{
    const char *path = getenv(SECRET_VARIABLE);
    if (path == NULL || path[0] == '\0')
        return false;
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
    memcpy(secret->bytes, hash, sizeof secret->bytes);
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

Key256 handshake_key(const Key256 *secret, HandshakeService service)
{
    const char *purpose = service == HANDSHAKE_STORE     ? "ddp.c store"
                          : service == HANDSHAKE_BACKEND ? "ddp.c backend"
                                                         : "ddp.c endpoint";
    Key256 key;
    crypto_auth(key.bytes, (const uint8_t *)purpose, strlen(purpose), secret->bytes);
    return key;
}

/* Both sides call it with the same Hello and nonce, so no field can be forgotten on one side. */
void handshake_prove(uint8_t proof[HANDSHAKE_BYTES], const Key256 *key, HandshakeRole role,
                     const HandshakeHello *hello, const uint8_t nonce[HANDSHAKE_BYTES])
{
    uint8_t whole[1 + sizeof *hello + HANDSHAKE_BYTES] = { (uint8_t)role };
    memcpy(whole + 1, hello, sizeof *hello);
    memcpy(whole + 1 + sizeof *hello, nonce, HANDSHAKE_BYTES);
    crypto_auth(proof, whole, sizeof whole, key->bytes);
}
