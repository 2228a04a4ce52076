/*
 * Usage: try RUNG RANKS SEED, or try serve RANK RANKS DESCRIPTOR
 * The harness of lab-snapshot: runs that are killed, whose files are damaged, whose disk is full or
 * loses its power. The next start must resume from the newest snapshot that was complete.
 */
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "teach/lab/snapshot/phases.h"

#define FOREIGN "notes.txt" // a file that is not a snapshot

static bool is_sample; // tries fewer cases, because rank 0 alone writes with any number of ranks

static noreturn void wrong(const char *name, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static noreturn void wrong(const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%s: ", name);
    vprintf(format, arguments);
    va_end(arguments);
    exit(EXIT_FAILURE);
}

/* ---- folders ---- */

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *place)
{
    (void)info, (void)type, (void)place;
    return remove(path);
}

static void remove_base(void)
{
    nftw(base, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void path_in(const char *folder, const char *name, char path[PATH_MAX])
{
    CHECK(snprintf(path, PATH_MAX, "%s/%s/%s", base, folder, name) < PATH_MAX, "path too long");
}

static size_t read_file(const char *folder, const char *name, char *data, size_t most)
{
    char path[PATH_MAX];
    path_in(folder, name, path);
    FILE *file = fopen(path, "r");
    const size_t count = file == NULL ? 0 : fread(data, 1, most, file);
    if (file != NULL)
        fclose(file);
    return count;
}

static void write_file(const char *folder, const char *name, const char *data, size_t count)
{
    char path[PATH_MAX];
    path_in(folder, name, path);
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fwrite(data, 1, count, file) == count && fclose(file) == 0, "%s: %s",
          path, strerror(errno));
}

/* Copies the files, and returns their number. */
static int copy_folder(const char *from, const char *to)
{
    static char data[1 << 20];
    char path[PATH_MAX];
    int count = 0;
    path_in(to, "", path);
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    mkdir(path, 0777);
    path_in(from, "", path);
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        if (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)
            continue;
        write_file(to, entry->d_name, data, read_file(from, entry->d_name, data, sizeof data));
        count++;
    }
    if (dir != NULL)
        closedir(dir);
    return count;
}

static uint64_t resume_from(const char *stage, const char *folder)
{
    shared->resumed = 0;
    const bool damaged = strcmp(stage, "next") == 0;
    play_all(
        stage,
        (Phase){ .folder = folder, .resumes = true, .otherwise = damaged ? "damaged" : stage });
    return shared->resumed;
}

/* ---- rungs ---- */

static void try_state(void)
{
    static const char *const optimizers[] = { "sgd", "adam" };
    for (int i = 0; i < 4; i++) {
        const int every = i < 2 ? 3 : 4, steps = (i < 2 ? 11 : 22) + (int)(seed % 3);
        char folder[32], path[PATH_MAX];
        snprintf(folder, sizeof folder, "run%d", i);
        begin(optimizers[i % 2], every, 2);
        if (resume_from("collective", folder) != 0)
            wrong("params", "a run without a snapshot does not begin at step 0");
        play_all("params", (Phase){ .folder = folder, .steps = steps });
        for (int rank = 1; rank < num_ranks; rank++) {
            folder_of(rank, folder, path);
            if (rmdir(path) != 0)
                wrong("writers", "rank %d writes into its own folder", rank);
        }
        const uint64_t s = resume_from("params", folder);
        if (s != (uint64_t)(steps / every * every))
            wrong(s == 0 ? "params" : "newest",
                  "every %d steps, killed after step %d: it resumes after step %d", every, steps,
                  (int)s);
        play_all("params", (Phase){ .folder = folder, .steps = 5, .resumes = true });
        if (resume_from("params", folder) != (s + 5) / (uint64_t)every * (uint64_t)every)
            wrong("again", "a run that has resumed takes no snapshots that can be resumed from");
    }
}

/* Watches a run, and resumes from all that a crash could have left. */
static void try_images(const char *folder, Phase phase)
{
    char name[32];

    char path[PATH_MAX];
    path_in("images", "", path);
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    mkdir(path, 0777);
    memset(&shared->disk, 0, sizeof shared->disk);
    phase.folder = folder;
    phase.watches = true;
    play_all("half_read", phase);
    DiskLog *log = &shared->disk;
    if (log->elsewhere[0] != '\0')
        wrong("elsewhere", "%s is renamed into the folder", log->elsewhere);
    const int jump = num_ranks == 1 ? 1 : log->num_images / (is_sample ? 3 : 6) + 1;
    for (int i = phase.stops ? log->num_images - 1 : 0; i < log->num_images; i += jump) {
        const DiskImage *image = &log->image[i];
        snprintf(name, sizeof name, "images/%d", i);
        const uint64_t s = resume_from(phase.delays ? "torn" : image->kind, name);
        const char *what = phase.power ? "the power fails" : "killed";
        if (s < image->complete)
            wrong(image->removed && strcmp(image->kind, "half_read") == 0 ? "removed" : image->kind,
                  "%s %s, in step %d or later: it resumes after step %d", what, image->moment,
                  (int)image->complete, (int)s);
        if (phase.power || phase.delays || i % 3 != 0)
            continue;
        const uint64_t every = (uint64_t)setting.every;
        play_all("leftover", (Phase){ .folder = name, .steps = setting.every, .resumes = true });
        if (resume_from("leftover", name) != (s + every) / every * every)
            wrong("leftover", "killed %s: the next start takes no snapshot", image->moment);
    }
}

static void try_kills(void)
{
    begin("adam", 3, 2);
    try_images("kill2", (Phase){ .steps = 10 });
    begin("sgd", 1, 1);
    try_images("kill1", (Phase){ .steps = 3 });
}

static void remove_files_of(const char *folder, uint64_t step)
{
    for (int i = 0; i < 8 && shared->newest[step][i][0] != '\0'; i++) {
        char path[PATH_MAX];
        path_in(folder, shared->newest[step][i], path);
        unlink(path);
    }
}

static void try_keep(void)
{
    char name[PATH_MAX], data[64];
    begin("adam", 3, 3);
    mkdir((path_in("keep", "", name), name), 0777);
    write_file("keep", FOREIGN, "keep me", 7);
    write_file("keep", "epoch_3.safetensors", "keep me", 7);
    play_all("others", (Phase){ .folder = "keep", .steps = 31 });
    if (read_file("keep", FOREIGN, data, sizeof data) != 7 ||
        read_file("keep", "epoch_3.safetensors", data, sizeof data) != 7)
        wrong("others", "a file that is no snapshot is removed or changed");
    const int count = copy_folder("keep", "chain");
    if (count > 2 + 5)
        wrong("keep", "with --keep 3 there are %d files after ten snapshots", count - 2);
    for (uint64_t s = 30; s >= 24; s -= 3) {
        const uint64_t resumed = resume_from("next", "chain");
        if (resumed != s)
            wrong(s == 30 ? "newest" : "keep",
                  "of the snapshots up to step %d it takes that of step %d (--keep 3)", (int)s,
                  (int)resumed);
        remove_files_of("chain", s);
    }
}

/* Resumes where names have one digit more, and the oldest files look like the newest. */
static void try_newest(void)
{
    begin("adam", 3, 4);
    memset(shared->newest, 0, sizeof shared->newest);
    play_all("newest", (Phase){ .folder = "newest", .steps = 13 });
    for (uint64_t s = 3; s <= 12; s += 3)
        for (int i = 0; i < 8 && shared->newest[s][i][0] != '\0'; i++) {
            char path[PATH_MAX];
            path_in("newest", shared->newest[s][i], path);
            const struct timespec time = { .tv_sec = 2000000000 - (time_t)s * 1000 };
            utimensat(AT_FDCWD, path, (struct timespec[]){ time, time }, 0);
        }
    const uint64_t s = resume_from("newest", "newest");
    if (s != 12)
        wrong("newest", "of the snapshots after steps 3, 6, 9 and 12 it takes that of step %d",
              (int)s);
}

/* Damages the newest snapshot in one way after the other. */
static void try_damage(void)
{
    static char data[1 << 16], bad[1 << 16];
    begin("adam", 3, 2);
    memset(shared->newest, 0, sizeof shared->newest);
    play_all("next", (Phase){ .folder = "whole", .steps = 10 });
    for (int i = 0; i < 8 && shared->newest[9][i][0] != '\0'; i++) {
        const char *name = shared->newest[9][i];
        const size_t count = read_file("whole", name, data, sizeof data);
        const int num_ways = num_ranks == 1 ? 32 : is_sample ? 4 : 8;
        for (int way = 0; way < num_ways; way++) {
            size_t size = count;
            const size_t at = lab_draw(seed, (uint64_t)way, count, 7) % (count > 0 ? count : 1);
            memcpy(bad, data, count);
            if (way % 4 == 3)
                size = way == 3 ? 0 : at;
            else if (way % 4 == 2)
                memset(bad + at, 0, count - at < 16 ? count - at : 16);
            else
                bad[at] = (char)(bad[at] ^ 1 << (way % 8));
            copy_folder("whole", "damaged");
            write_file("damaged", name, bad, size);
            const uint64_t s = resume_from("next", "damaged");
            if (s != 6 && s != 9)
                wrong("next", "the newest snapshot is damaged: it resumes after step %d, not 6",
                      (int)s);
        }
    }
}

/* Tries snapshots of other runs in the folder, further than this run's. */
static void try_other(void)
{
    const RunSetting others[] = { { "adam", setting.seed + 1, 5, 9, ROWS, BATCH },
                                  { "adamw", setting.seed, 5, 9, ROWS, BATCH },
                                  { "adam", setting.seed, 5, 9, ROWS + 64, BATCH },
                                  { "adam", setting.seed, 5, 9, ROWS, BATCH + 2 } };
    static const char *const what[] = { "seed", "optimizer", "data set", "global batch" };
    for (int i = 0; i < (is_sample ? 1 : 4); i++) {
        char folder[32];
        snprintf(folder, sizeof folder, "other%d", i);
        begin("adam", 3, 1);
        const RunSetting mine = setting;
        setting = others[i];
        make_due();
        play_all("other_run", (Phase){ .folder = folder, .steps = 27 }); // 5, 10, 15, 20, 25
        setting = mine;
        begin("adam", 3, 1);
        uint64_t s = resume_from("other_run", folder);
        if (s != 0)
            wrong("other_run", "a run with another %s: it resumes from it", what[i]);
        play_all("other_run", (Phase){ .folder = folder, .steps = 9 });
        s = resume_from("other_run", folder);
        if (s != 9)
            wrong("other_run", "beside a run with another %s: it resumes after step %d, not 9",
                  what[i], (int)s);
        if (copy_folder(folder, "count") < 6)
            wrong("others", "snapshots of a run with another %s are removed", what[i]);
    }
}

/* Tries what no start may resume from: weights that are not finite; anything with --resume none. */
static void try_refused(void)
{
    begin("sgd", 3, 2);
    play_all("finite", (Phase){ .folder = "finite", .steps = 7, .nan_from = 5, .stops = true });
    const uint64_t s = resume_from("finite", "finite");
    if (s != 3)
        wrong("finite",
              "from step 5 on the weights are not finite: it resumes after step %d, not 3", (int)s);
    play_all("none", (Phase){ .folder = "finite", .resumes = true, .none = true });
    if (shared->resumed != 0)
        wrong("none", "with --resume none it resumes after step %d", (int)shared->resumed);
}

static void try_full(void)
{
    static char data[1 << 16];
    begin("adam", 3, 1);
    memset(shared->newest, 0, sizeof shared->newest);
    play_all("short_write", (Phase){ .folder = "whole", .steps = 7 });
    const int size = (int)read_file("whole", shared->newest[6][0], data, sizeof data);
    const int room[] = { size / 2, size - 1, 0 };
    for (int i = 0; i < (is_sample ? 1 : 3); i++) {
        char folder[32];
        snprintf(folder, sizeof folder, "full%d", i);
        play_all("short_write",
                 (Phase){ .folder = folder, .steps = 17, .full_from = 7, .full_bytes = room[i] });
        const uint64_t s = resume_from("short_write", folder);
        if (s != 6)
            wrong("short_write",
                  "the disk is full from step 7 on, after %d bytes of a file: it resumes after "
                  "step %d, not 6",
                  room[i], (int)s);
        play_all("leftover", (Phase){ .folder = folder, .steps = 4, .resumes = true });
        if (resume_from("leftover", folder) != 9)
            wrong("leftover", "there is room again: it takes no snapshot");
    }
}

static void try_power(void)
{
    begin("adam", 3, 2);
    try_images("power2", (Phase){ .steps = 10, .power = true });
    begin("sgd", 1, 1);
    try_images("power1", (Phase){ .steps = 3, .power = true });
    try_full();
    begin("adam", 3, 2);
    play_all("stop", (Phase){ .folder = "stop", .steps = 8, .stops = true });
    const uint64_t s = resume_from("stop", "stop");
    if (s != 8)
        wrong("stop", "stopped after step 8: it resumes after step %d", (int)s);
    begin("adam", 3, 9); // a thread may write while the training goes on
    try_images("torn", (Phase){ .steps = 10, .delays = true });
}

int main(int argc, char **argv)
{
    if (argc == 5)
        lab_serve(argv, answer_run);
    CHECK(argc == 4, "Usage: try RUNG RANKS SEED");
    rung = atoi(argv[1]);
    num_ranks = atoi(argv[2]);
    is_sample = num_ranks > 2;
    seed = strtoull(argv[3], NULL, 10);
    shared = lab_shared(sizeof *shared);
    snprintf(base, sizeof base, "%s/lab_snapshot_XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    CHECK(mkdtemp(base) != NULL, "%s: %s", base, strerror(errno));
    atexit(remove_base);
    setting.seed = seed % 100000;
    if (rung == 1)
        try_state();
    if (rung == 2)
        try_kills();
    if (rung == 3) {
        try_newest();
        try_keep();
        try_damage();
        try_other();
        try_refused();
    }
    if (rung == 4)
        try_power();
    return EXIT_SUCCESS;
}
