/* The curves for TensorBoard: the steps of the points, and the meaning of their values. */
#include "tests/helpers/child.h"
#include "tests/helpers/folder.h"

#include <glob.h>
#include <math.h>

#include "extras/watch/curves.h"

/* Reads a curve's values from the file, where they follow its name, a key and four bytes. */
static int points_of(const char *name, float value[8])
{
    char pattern[64], bytes[8192];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/events.*", folder);
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    FILE *file = fopen(found.gl_pathv[0], "rb");
    const char *end = bytes + fread(bytes, 1, sizeof bytes, file), *at = bytes;
    fclose(file);
    globfree(&found);
    int count = 0;
    for (; (at = memmem(at, (size_t)(end - at), name, strlen(name))) != NULL; count++) {
        at += strlen(name);
        memcpy(&value[count], at + 1, sizeof(float));
    }
    return count;
}

static void test_points(void **state)
{
    (void)state;
    enum { BATCH = 32 };
    Args args;
    args_defaults(&args, "linear");
    args.device = DEVICE_CPU;
    args.threads = 1;
    args.log_interval = 2;
    args.metrics_dir = folder;
    Device device;
    Model model;
    Curves curves;
    Rng rng;
    rng_seed(&rng, 0);
    device_init(&device, &args, 0);
    model_init(&model, &args, 1, &rng, &device);
    curves_init(&curves, &args, &model, 0, 1);
    for (model.step = 1; model.step <= 4; model.step++) {
        model.grads[0] = 3 * (float)model.step;
        model.grads[20] = 4 * (float)model.step;
        span_seconds[SPAN_FORWARD] += 0.5 * (double)model.step;
        if (model.step == 3) // evaluation has taken all the time since the last point
            span_seconds[SPAN_EVALUATION] += 1000;
        curves_step(&curves, &model);
    }
    curves_test(&curves, 4, 0.25, 0.75);
    curves_free(&curves);

    float norm[8], speed[8], forward[8], accuracy[8];
    assert_int_equal(points_of("train/gradient_norm", norm), 3); // after steps 1, 2 and 4
    assert_true(norm[0] == 5 && norm[1] == 10 && norm[2] == 20);
    assert_int_equal(points_of("speed/samples_per_second", speed), 2);
    assert_int_equal(points_of("time/forward", forward), 2);
    for (int i = 0; i < 2; i++) { // percent of these samples' time
        const double seconds = BATCH / (double)speed[i];
        assert_true(fabs(forward[i] - 100 * 0.5 * (i + 1) / seconds) <= 1e-5 * (double)forward[i]);
    }
    assert_int_equal(points_of("test/accuracy", accuracy), 1);
    assert_true(accuracy[0] == 0.75f);
    model_free(&model);
    device_free(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_points),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
