/* Files of sets that are MNIST by another name: Fashion-MNIST, KMNIST, QMNIST and EMNIST's digits,
 * as their makers name them, in the folders where torchvision keeps them. All files must come from
 * one folder and one set: images would train with the labels of another, too. */
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/data/dataset.h"

typedef struct {
    const char *train, *test; // what stands before "-images-idx3-ubyte"
    const char *also; // another word for test, or NULL
    const char *labels; // what stands behind that
    int classes;
} Naming;

static const Naming namings[] = {
    { "train", "t10k", "test", "labels-idx1-ubyte", 10 },
    { "qmnist-train", "qmnist-test", NULL, "labels-idx2-int", 10 },
    { "emnist-digits-train", "emnist-digits-test", NULL, "labels-idx1-ubyte", 10 },
    { "emnist-mnist-train", "emnist-mnist-test", NULL, "labels-idx1-ubyte", 10 },
    { "emnist-letters-train", "emnist-letters-test", NULL, "labels-idx1-ubyte", 26 },
    { "emnist-balanced-train", "emnist-balanced-test", NULL, "labels-idx1-ubyte", 47 },
    { "emnist-bymerge-train", "emnist-bymerge-test", NULL, "labels-idx1-ubyte", 47 },
    { "emnist-byclass-train", "emnist-byclass-test", NULL, "labels-idx1-ubyte", 62 },
};

static const char *const places[] = {
    "",           "/raw", "/gzip", "/MNIST/raw", "/FashionMNIST/raw", "/KMNIST/raw", "/QMNIST/raw",
    "/EMNIST/raw"
};

enum { MNIST_PLACE = 3, NAME_BYTES = 128 };

/* Tries all spellings of a name, and NAME/NAME, as some archives are unpacked. */
static bool find_in(const char *folder, const char *name, char path[PATH_MAX], char *problem)
{
    for (int spelling = 0; spelling < 8; spelling++) {
        char file[256];
        snprintf(file, sizeof file, "%s%s", name, spelling & 1 ? ".gz" : "");
        char *idx = strstr(file, "-idx");
        if (idx != NULL && spelling & 2)
            *idx = '.'; // train-images.idx3-ubyte, as some mirrors write
        const int length = spelling & 4 ? snprintf(path, PATH_MAX, "%s/%s/%s", folder, file, file)
                                        : snprintf(path, PATH_MAX, "%s/%s", folder, file);
        CHECK(length < PATH_MAX, "the path is too long: %s/%s", folder, name);
        if (idx_is_usable(path, problem))
            return true;
    }
    return false;
}

/* Finds file i of mnist_files as the set names it, and writes that name. */
static bool find_as(const Naming *naming, int i, const char *folder, char name[NAME_BYTES],
                    char path[PATH_MAX], char *problem)
{
    char also[NAME_BYTES];
    const char *kind = i % 2 == 0 ? "images-idx3-ubyte" : naming->labels;
    snprintf(name, NAME_BYTES, "%s-%s", i < 2 ? naming->train : naming->test, kind);
    snprintf(also, NAME_BYTES, "%s-%s", naming->also != NULL ? naming->also : "", kind);
    return find_in(folder, name, path, problem) ||
           (i >= 2 && naming->also != NULL && find_in(folder, also, path, problem));
}

/* Ends the program if the folder has other files of the set. */
static void check_alone(const Naming *naming, const char *folder, const char *missing,
                        const char *problem)
{
    char name[NAME_BYTES], path[PATH_MAX], unused[IDX_PROBLEM_BYTES] = "";
    for (int i = 0; i < MNIST_FILES; i++)
        if (find_as(naming, i, folder, name, path, unused)) {
            CHECK(problem[0] == '\0', "%s: copy it anew, or choose another --data-dir", problem);
            usage_error("%s/%s is missing, plain and as .gz, but %s is there: run "
                        "data/get_mnist.sh, or name another folder with --data-dir",
                        folder, missing, strrchr(path, '/') + 1);
        }
}

/* Ends the program if the folder has such images in a form that a script converts. */
static void explain_form(const char *dir)
{
    static const char *const forms[] = { "*.csv", "*.parquet", "*.npz" };
    for (int i = 0; i < (int)(sizeof forms / sizeof *forms); i++) {
        char pattern[PATH_MAX];
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s/%s", dir, forms[i]);
        if (glob(pattern, 0, NULL, &found) == 0)
            usage_error("%s has none of MNIST's files, but %s: \"python3 data/to_idx.py %s DIR\" "
                        "converts it, then use --data-dir DIR",
                        dir, strrchr(found.gl_pathv[0], '/') + 1, found.gl_pathv[0]);
    }
}

bool idx_find_other(const char *dir, const char *name, char *path, char *problem)
{
    char folder[PATH_MAX], theirs[NAME_BYTES];
    int file = 0;
    while (file < MNIST_FILES && strcmp(name, mnist_files[file]) != 0)
        file++;
    for (int place = 0; place < (int)(sizeof places / sizeof *places); place++) {
        CHECK(snprintf(folder, PATH_MAX, "%s%s", dir, places[place]) < PATH_MAX,
              "the path is too long: %s", dir);
        if (file == MNIST_FILES && find_in(folder, name, path, problem))
            return true; // no file of MNIST
        const Naming *end = namings + sizeof namings / sizeof *namings;
        for (const Naming *naming = namings; naming < end && access(folder, F_OK) == 0; naming++) {
            if (file < MNIST_FILES && find_as(naming, file, folder, theirs, path, problem)) {
                if (naming->classes > 10)
                    usage_error("%s is of a set of %d classes, and the model knows 10: name a "
                                "folder with emnist-digits or emnist-mnist with --data-dir",
                                path, naming->classes);
                if (file == 0 && (naming > namings || place > MNIST_PLACE) && log_prints_for_job())
                    log_info("--dataset mnist: reads %s, and the files beside it", path);
                return true;
            }
            check_alone(naming, folder, file < MNIST_FILES ? theirs : name, problem);
        }
    }
    if (file < MNIST_FILES)
        explain_form(dir);
    return false;
}
