/* The simulated GPUs, errors, the lock, and the random numbers that order work. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stand_in.h"

static pthread_mutex_t lock;
static int depth; // how often its owner has taken the lock
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pid_t owner; // the process that opened the devices
static uint64_t random_state;
static int gpus[MAX_GPUS], num_gpus; // those that CUDA_VISIBLE_DEVICES names
static size_t gpu_bytes; // memory of each GPU
static int driver; // CUDA version of the driver
static int l2_mib; // size of the L2 cache
static _Thread_local int current;
static _Thread_local cudaError_t last_error;
StandInCounts stand_in_count;

void stand_in_fail(const char *format, ...)
{
    char line[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fprintf(stderr, "cuda stand-in: %s\n", line);
    abort();
}

static long number_from(const char *name, long otherwise)
{
    const char *text = getenv(name);
    return text != NULL && *text != '\0' ? strtol(text, NULL, 10) : otherwise;
}

static void open_once(void)
{
    pthread_mutexattr_t recursive;
    pthread_mutexattr_init(&recursive);
    pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &recursive);
    owner = getpid();
    random_state = 0x9E3779B97F4A7C15ull * (uint64_t)(number_from("CUDA_STAND_IN_SEED", 0) + 1);

    driver = (int)number_from("CUDA_STAND_IN_DRIVER", CUDART_VERSION);
    l2_mib = (int)number_from("CUDA_STAND_IN_L2_MIB", 48);
    gpu_bytes = (size_t)number_from("CUDA_STAND_IN_MIB", 16 << 10) << 20;

    const long present = number_from("CUDA_STAND_IN_DEVICES", 1);
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    for (long i = 0; i < present && visible == NULL && num_gpus < MAX_GPUS; i++)
        gpus[num_gpus++] = (int)i;
    for (const char *entry = visible; entry != NULL && num_gpus < MAX_GPUS;) {
        char *end;
        const long index = strtol(entry, &end, 10);
        if (end == entry || index < 0 || index >= present)
            break; // like CUDA, ignores the rest
        gpus[num_gpus++] = (int)index;
        entry = *end == ',' ? end + 1 : NULL;
    }
}

/* Appends the number of launches, if any, to CUDA_STAND_IN_LAUNCHES=FILE. */
static __attribute__((destructor)) void note_launches(void)
{
    const char *name = getenv("CUDA_STAND_IN_LAUNCHES");
    FILE *file =
        name != NULL && stand_in_count.launches > 0 && owner == getpid() ? fopen(name, "a") : NULL;
    if (file != NULL) {
        fprintf(file, "%ld\n", stand_in_count.launches);
        fclose(file);
    }
}

bool stand_in_lock(void)
{
    pthread_once(&once, open_once);
    pthread_mutex_lock(&lock);
    depth++;
    return true;
}

void stand_in_unlock(const bool *locked)
{
    (void)locked;
    depth--;
    pthread_mutex_unlock(&lock);
}

void stand_in_rest(void)
{
    const int own = depth;
    const struct timespec nap = { .tv_nsec = 50000 };
    depth = 0;
    for (int i = 0; i < own; i++)
        pthread_mutex_unlock(&lock);
    nanosleep(&nap, NULL);
    for (int i = 0; i < own; i++)
        pthread_mutex_lock(&lock);
    depth = own;
}

cudaError_t stand_in_error(cudaError_t error)
{
    if (error != cudaSuccess)
        last_error = error;
    return error;
}

cudaError_t stand_in_find(void)
{
    if (owner != getpid()) // the driver does not survive a fork
        return stand_in_error(cudaErrorInitializationError);
    if (driver < CUDART_VERSION)
        return stand_in_error(cudaErrorInsufficientDriver);
    return num_gpus > 0 ? cudaSuccess : stand_in_error(cudaErrorNoDevice);
}

cudaError_t stand_in_open(void)
{
    const cudaError_t error = stand_in_find();
    if (error == cudaSuccess)
        stand_in_count.contexts |= 1u << current;
    return error;
}

int stand_in_device(void)
{
    return current;
}

int stand_in_gpu(int device)
{
    return device >= 0 && device < num_gpus ? gpus[device] : -1;
}

size_t stand_in_gpu_bytes(void)
{
    return gpu_bytes;
}

unsigned stand_in_random(unsigned below)
{
    random_state ^= random_state << 13; // xorshift64
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (unsigned)((random_state >> 32) * below >> 32);
}

StandInCounts stand_in_counts(void)
{
    LOCKED;
    return stand_in_count;
}

static const struct {
    cudaError_t error;
    const char *name, *text;
} errors[] = {
    { cudaSuccess, "cudaSuccess", "no error" },
    { cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument" },
    { cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory" },
    { cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error" },
    { cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
      "CUDA driver version is insufficient for CUDA runtime version" },
    { cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected" },
    { cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal" },
    { cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
      "peer access is not supported between these two devices" },
    { cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
      "part or all of the requested memory range is already mapped" },
    { cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle" },
    { cudaErrorNotReady, "cudaErrorNotReady", "device not ready" },
    { cudaErrorNoKernelImageForDevice, "cudaErrorNoKernelImageForDevice",
      "no kernel image is available for execution on the device" },
    { cudaErrorUnsupportedPtxVersion, "cudaErrorUnsupportedPtxVersion",
      "the provided PTX was compiled with an unsupported toolchain." },
    { cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
      "operation not permitted when stream is capturing" },
    { cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated",
      "operation failed due to a previous error during capture" },
    { cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined",
      "capturing stream has unjoined work" },
    { cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation",
      "dependency created on uncaptured work in another stream" },
    { cudaErrorCapturedEvent, "cudaErrorCapturedEvent",
      "operation not permitted on an event last recorded in a capturing stream" },
};
enum { NUM_ERRORS = sizeof errors / sizeof errors[0] };

const char *cudaGetErrorName(cudaError_t error)
{
    for (int i = 0; i < NUM_ERRORS; i++)
        if (errors[i].error == error)
            return errors[i].name;
    return "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error)
{
    for (int i = 0; i < NUM_ERRORS; i++)
        if (errors[i].error == error)
            return errors[i].text;
    return "unrecognized error code";
}

cudaError_t cudaPeekAtLastError(void)
{
    return last_error;
}

cudaError_t cudaGetLastError(void)
{
    const cudaError_t error = last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaRuntimeGetVersion(int *version)
{
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    LOCKED;
    *version = driver;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
    LOCKED;
    *count = num_gpus;
    return stand_in_find();
}

cudaError_t cudaGetDevice(int *device)
{
    LOCKED;
    *device = current;
    return stand_in_find();
}

cudaError_t cudaSetDevice(int device)
{
    LOCKED;
    if (stand_in_find() != cudaSuccess)
        return cudaPeekAtLastError();
    if (device < 0 || device >= num_gpus)
        return stand_in_error(cudaErrorInvalidDevice);
    current = device;
    return stand_in_open();
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    LOCKED;
    if (stand_in_find() != cudaSuccess)
        return cudaPeekAtLastError();
    if (device < 0 || device >= num_gpus)
        return stand_in_error(cudaErrorInvalidDevice);
    *properties = (struct cudaDeviceProp){ .name = "CUDA stand-in",
                                           .totalGlobalMem = gpu_bytes,
                                           .major = 9,
                                           .multiProcessorCount = 4,
                                           .pciBusID = gpus[device] };
    char host[sizeof properties->uuid.bytes + 1] = ""; // differs between machines
    gethostname(host, sizeof host - 1);
    memcpy(properties->uuid.bytes, host, sizeof properties->uuid.bytes);
    properties->uuid.bytes[15] = (char)gpus[device];
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    struct cudaDeviceProp properties;
    const cudaError_t error = cudaGetDeviceProperties(&properties, device);
    *value = attribute == cudaDevAttrMultiProcessorCount      ? properties.multiProcessorCount
             : attribute == cudaDevAttrL2CacheSize            ? l2_mib << 20
             : attribute == cudaDevAttrComputeCapabilityMajor ? properties.major
                                                              : properties.minor;
    return error;
}
