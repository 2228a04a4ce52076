/* machine - prints this machine's GPUs, driver and runtime, one a line; status 1 without a GPU. */
#include <cuda_runtime_api.h>
#include <stdio.h>

int main(void)
{
    int count = 0, driver = 0, runtime = 0;
    const cudaError_t error = cudaGetDeviceCount(&count);
    cudaDriverGetVersion(&driver); // 0 if there is none
    cudaRuntimeGetVersion(&runtime);
    if (error == cudaErrorInsufficientDriver && driver > 0) {
        printf(
            "the driver is for CUDA %d.%d, older than this toolkit's %d.%d: install toolkit %d.x "
            "and say where with CUDA_HOME=DIR, or install a newer driver\n",
            driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, driver / 1000);
        return 1;
    }
    if (error != cudaSuccess || count == 0) {
        printf("there is no GPU to be used here: %s (see nvidia-smi)\n",
               driver == 0 ? "no driver is installed" : cudaGetErrorString(error));
        return 1;
    }
    printf("driver for CUDA %d.%d, runtime %d.%d\n", driver / 1000, driver % 1000 / 10,
           runtime / 1000, runtime % 1000 / 10);
    for (int i = 0; i < count; i++) {
        struct cudaDeviceProp properties;
        if (cudaGetDeviceProperties(&properties, i) == cudaSuccess)
            printf("GPU %d: %s, sm_%d%d, %.0f GB\n", i, properties.name, properties.major,
                   properties.minor, 1e-9 * (double)properties.totalGlobalMem);
    }
    return 0;
}
