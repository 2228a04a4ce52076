/*
 * Every option with invalid and extreme values. The tests iterate over the programs' own table, so
 * a new option is tested automatically.
 *
 * The meaning of each value is listed here once. Whether an option accepts it follows from the kind
 * and the range in its row, independently of the parser.
 */
#include <ctype.h>

#include "common/base/comfort.h"
#include "common/base/log.h"
#include "launcher/elastic_group.h"
#include "tests/common/base/args_child.h"

/* Every option of this build, with its first step. */
#define FOR_EACH_OPTION(option) \
    for (const Option *option = args_options; option->name != NULL; option++) \
        if (option_is_listed(option, ANY_STEP))

static Step first_step(const Option *option)
{
    return (Step)(option->steps[0] - '0');
}

typedef enum { WORD, REAL, WHOLE, OFF } Meaning;

static const struct {
    const char *text;
    Meaning meaning;
    double value; // HUGE_VAL is beyond any range
} values[] = {
    { "", WORD, 0 },
    { "abc", WORD, 0 },
    { "nan", WORD, 0 },
    { "inf", WORD, 0 },
    { "-inf", WORD, 0 },
    { "infinity", WORD, 0 },
    { "0", WHOLE, 0 },
    { "00", WHOLE, 0 },
    { "1", WHOLE, 1 },
    { "007", WHOLE, 7 },
    { "-0", REAL, 0 },
    { "-1", REAL, -1 },
    { "+1", REAL, 1 },
    { "1.0", REAL, 1 },
    { "1e0", REAL, 1 },
    { "1e999", WORD, 0 },
    { "-1e999", WORD, 0 },
    { "1e-999", WORD, 0 },
    { "1e", WORD, 0 },
    { "e1", WORD, 0 },
    { ".", WORD, 0 },
    { ".5", REAL, 0.5 },
    { "5.", REAL, 5 },
    { "0x10", WORD, 0 },
    { "0x1p3", WORD, 0 },
    { "1,5", WORD, 0 },
    { "1_000", WORD, 0 },
    { "12abc", WORD, 0 },
    { "1 ", WORD, 0 },
    { " 1", WORD, 0 },
    { "1\n", WORD, 0 },
    { "--", WORD, 0 },
    { "-", WORD, 0 },
    { "*", WORD, 0 },
    { "%s%n", WORD, 0 },
    { "\xff\xfe", WORD, 0 },
    { "\xef\xbc\x91", WORD, 0 }, // fullwidth digit 1
    { "2147483647", WHOLE, 2147483647.0 },
    { "2147483648", WHOLE, 2147483648.0 },
    { "4294967297", WHOLE, 4294967297.0 },
    { "18446744073709551615", WHOLE, 18446744073709551615.0 },
    { "18446744073709551616", WORD, 0 }, // does not fit in 64 bits
    { "99999999999999999999", WORD, 0 },
    { "none", OFF, 0 }, // the last three are words of extras/comfort
    { "False", OFF, 0 },
    { "~", OFF, 0 },
};
#define NUM_VALUES (LENGTH(values) - (has_extras ? 0 : 3))

/* The ranges of all numbers, and which options extras add, once more. */
static void test_ranges(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double low, high;
    } ranges[] = {
        { "dataset-size", 1, INT_MAX },
        { "num-samples", 0, INT_MAX },
        { "epochs", 0, INT_MAX },
        { "batch-size", 1, 1e6 },
        { "global-batch-size", 1, INT_MAX },
        { "lr", 0, 1000 },
        { "warmup-steps", 0, INT_MAX },
        { "clip-norm", 0, 1e6 },
        { "momentum", 0, 1 },
        { "weight-decay", 0, 1000 },
        { "log-interval", 1, INT_MAX },
        { "save-every", 0, INT_MAX },
        { "threads", 1, 1024 },
        { "nproc", 1, 1024 },
        { "local-rank", 0, INT_MAX },
        { "bucket-cap-mb", 0.001, 1e6 },
        { "timeout", 0.001, 1e6 },
        { "save-every-steps", 0, INT_MAX },
        { "keep", 1, INT_MAX },
        { "check-sync", 0, INT_MAX },
    };
    static const char of_extras[] = " scratch-dir trace profile show-topology conv cuda-graph "
                                    "all-reduce nccl-register simulate-network config ";
    for (const Option *option = args_options; option->name != NULL; option++) {
        char word[64];
        snprintf(word, sizeof word, " %s ", option->name);
        assert_int_equal(option->of_extra, strstr(of_extras, word) != NULL);
        if (option->kind != OPTION_INT && option->kind != OPTION_REAL)
            continue;
        size_t i = 0;
        while (strcmp(ranges[i].name, option->name) != 0)
            assert_true(++i < LENGTH(ranges));
        assert_true(option->low == ranges[i].low && option->high == ranges[i].high);
    }
}

/* Returns true in one of five calls: each option meets some of the values, each value some of the
 * options, where all of them have met on the command line. */
static bool in_turn(void)
{
    static int turn;
    return turn++ % 5 == 0;
}

/* Returns true if an option accepts values[i], none of which is a word of a choice. */
static bool takes(const Option *option, size_t i)
{
    const double value = values[i].value;
    const bool in_range = value >= option->low && value <= option->high;
    if (values[i].meaning == OFF) // according to --help
        return strcmp(option->preset, "none") == 0 || strstr(option->value, "off") != NULL ||
               strcmp(option->preset, "off") == 0 || strcmp(option->name, "resume") == 0 ||
               (option->preset[0] == '0' && strstr(option->help, "; 0: ") != NULL);
    switch (option->kind) {
    case OPTION_INT:
        return values[i].meaning == WHOLE && in_range;
    case OPTION_UINT64:
        return values[i].meaning == WHOLE;
    case OPTION_REAL:
        return values[i].meaning <= WHOLE && values[i].meaning != WORD && in_range;
    case OPTION_STRING:
    case OPTION_OPTIONAL:
        return values[i].text[0] != '\0' && strcmp(option->name, "inject") != 0;
    default:
        return false;
    }
}

/* Arguments for args_parse in a child process; the words may contain spaces. */
typedef struct {
    Step step;
    const char *word[5];
} Words;

static void parse_words(const void *context)
{
    const Words *words = context;
    char *argv[7] = { "train" };
    int argc = 1;
    while (argc < 6 && words->word[argc - 1] != NULL) {
        argv[argc] = strdup(words->word[argc - 1]);
        argc++;
    }
    Args args;
    args_parse(&args, words->step, argc, argv);
    faults_check(&args);
    dump(stdout, &args);
}

static void check_answer(int status, bool taken, const char *place, const char *text)
{
    if (taken && (status != 0 || err[0] != '\0'))
        fail_msg("%s \"%s\": status %d, saying %s", place, text, status, err);
    if (taken)
        return;
    const char *end = strchr(err, '\n');
    if (status != 2 || strstr(err, place) == NULL || end == NULL || end[1] != '\0')
        fail_msg("%s \"%s\": status %d, saying %s", place, text, status, err);
}

/* Returns the spelling --an-option, or --an_option with underscores. */
static const char *spelt(const Option *option, bool underscores)
{
    static char name[64];
    snprintf(name, sizeof name, "--%s", option->name);
    for (char *c = name + 2; underscores && *c != '\0'; c++)
        *c = *c == '-' ? '_' : *c;
    return name;
}

static void test_command_line(void **state)
{
    (void)state;
    FOR_EACH_OPTION(option)
    {
        if (option->kind == OPTION_ACTION)
            continue;
        for (size_t i = 0; i < NUM_VALUES; i++) {
            const char *text = values[i].text;
            char joined[128], first[OUTPUT_BYTES];
            snprintf(joined, sizeof joined, "%s=%s", spelt(option, true), text);
            int status = child_run(parse_words, &(Words){ first_step(option), { joined } });
            check_answer(status, takes(option, i), spelt(option, false), text);
            strcpy(first, out);
            if (strncmp(text, "--", 2) == 0 || !in_turn())
                continue; // as a separate word -- begins an option and is no value
            status = child_run(parse_words,
                               &(Words){ first_step(option), { spelt(option, i % 2), text } });
            check_answer(status, takes(option, i), spelt(option, false), text);
            assert_string_equal(out, first);
        }
    }
}

/* The end of the line or another option in place of the value is refused. */
static void test_missing_value(void **state)
{
    (void)state;
    FOR_EACH_OPTION(option)
    {
        if (option->kind == OPTION_ACTION && option->value[0] == '\0') // --help, --version
            continue;
        for (int underscores = 0; underscores < 2; underscores++) {
            Words words = { first_step(option), { spelt(option, underscores) } };
            check_answer(child_run(parse_words, &words), false, "needs a value", option->name);
            words.word[1] = "--seed";
            words.word[2] = "1";
            check_answer(child_run(parse_words, &words), false, "needs a value", option->name);
        }
    }
}

/* The last one counts, however it is spelt, even if the first one's value is invalid. */
static void test_given_twice(void **state)
{
    (void)state;
    FOR_EACH_OPTION(option)
    {
        if (option->kind == OPTION_ACTION)
            continue;
        char joined[128], once[OUTPUT_BYTES];
        snprintf(joined, sizeof joined, "--%s=%s", option->name, option->preset);
        Words words = { first_step(option), { joined } };
        assert_int_equal(child_run(parse_words, &words), 0);
        strcpy(once, out);
        words = (Words){ first_step(option), { spelt(option, true), "nonsense", joined } };
        assert_int_equal(child_run(parse_words, &words), 0);
        assert_string_equal(out, once);
    }
}

static void test_positionals(void **state)
{
    (void)state;
    static const char *const names[] = { "epochs", "save-every" };
    for (size_t position = 0; position < 2; position++)
        for (size_t i = 0; i < NUM_VALUES; i++) {
            const char *text = values[i].text;
            const Option *option =
                option_find(args_options, STEP_SINGLE, names[position], strlen(names[position]));
            Words words = { STEP_SINGLE, { position == 0 ? text : "3", text } };
            words.word[1] = position == 0 ? NULL : text;
            const int status = child_run(parse_words, &words);
            const bool is_end = strcmp(text, "--") == 0; // "--" ends the options and is not a value
            const char *place =
                isdigit((unsigned char)text[0]) ? spelt(option, false) : "has no place here";
            check_answer(status, is_end || takes(option, i), place, text);
        }
}

static char config[] = "/tmp/test_options.XXXXXX";

/* Writes the value as a quoted string, in which YAML has no special words. */
static void write_config(const Option *option, const char *text)
{
    FILE *file = fopen(config, "w");
    assert_non_null(file);
    fprintf(file, "# first\n%s: \"", option->name);
    for (; *text != '\0'; text++)
        fprintf(file, *text == '\n' ? "\\n" : "%c", *text);
    fprintf(file, "\"\n");
    fclose(file);
}

static void test_config_file(void **state)
{
    (void)state;
    if (!option_is_listed(args_option("config"), ANY_STEP))
        return; // only extras/comfort reads the file
    close(mkstemp(config));
    char place[128];
    FOR_EACH_OPTION(option)
    {
        if (option->kind == OPTION_ACTION)
            continue;
        for (size_t i = 0; i < NUM_VALUES; i++) {
            if (!in_turn())
                continue;
            write_config(option, values[i].text);
            const bool is_text = values[i].text[0] != '\xff'; // otherwise it is not YAML
            snprintf(place, sizeof place, is_text ? "%s:2: %s" : "%s:2: not YAML", config,
                     option->name);
            const Words words = { first_step(option), { "--config", config } };
            check_answer(child_run(parse_words, &words), takes(option, i) && is_text, place,
                         values[i].text);
        }
    }
    unlink(config);
}

/* Returns true for launcher flags that take a number, or numbers and a few words. */
static bool takes_number(const Option *flag)
{
    static const char *const names[] = { "nproc-per-node", "nnodes", "redirects", "tee",
                                         "local-ranks-filter" };
    for (size_t i = 0; i < LENGTH(names); i++)
        if (strcmp(flag->name, names[i]) == 0)
            return true;
    return flag->kind == OPTION_INT || flag->kind == OPTION_REAL;
}

static void parse_flag(const void *context)
{
    Flags flags;
    char *argv[] = { "ddprun", *(char *const *)context, "true", NULL };
    flags_parse(&flags, &more_flags, 3, argv);
    logs_free(logs_init(&flags)); // because logs_init checks some of the flags
}

/* A value is accepted, or refused in a line that names the flag; non-numbers are never accepted. */
static void test_launcher(void **state)
{
    (void)state;
    for (const Option *flag = flag_options; flag->name != NULL; flag++)
        for (size_t i = 0; i < NUM_VALUES && strcmp(flag->name, "help") != 0; i++) {
            char joined[128], place[64];
            const char *context = joined;
            snprintf(joined, sizeof joined, "--%s=%s", flag->name, values[i].text);
            snprintf(place, sizeof place, "--%s", flag->name);
            const int status = child_run(parse_flag, &context);
            const bool is_number =
                values[i].meaning != WORD || isspace((unsigned char)values[i].text[0]);
            check_answer(status, status == 0 && (is_number || !takes_number(flag)), place,
                         values[i].text);
        }
}

static void print_version(const void *rank)
{
    if (rank != NULL)
        log_set_rank(*(const int *)rank, 2);
    option_text(args_option("version"), NULL, NULL);
    _exit(99);
}

static void test_version(void **state)
{
    (void)state;
    char version[32] = "", line[64];
    FILE *file = fopen("VERSION", "r");
    assert_int_equal(fscanf(file, "%31s", version), 1);
    fclose(file);
    snprintf(line, sizeof line, "%s (ddp.c) %s\n", program_invocation_short_name, version);
    assert_int_equal(child_run(print_version, NULL), 0);
    assert_string_equal(out, line);
    assert_int_equal(child_run(print_version, &(int){ 1 }), 0);
    assert_string_equal(out, "");
}

static void print_option(const void *option)
{
    option_print(option, 12);
}

static const Option a_flag = {
    .name = "f", .value = "", .preset = "", .kind = OPTION_FLAG, .help = "a flag"
};

/* A default is shown even if it has only one digit. */
static void test_print(void **state)
{
    (void)state;
    static const struct {
        const char *preset, *line;
    } cases[] = { { "", "  --n N        so many\n" },
                  { "0", "  --n N        so many [0]\n" },
                  { "auto", "  --n N        so many [auto]\n" } };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        const Option option = {
            .name = "n", .value = "N", .preset = cases[i].preset, .help = "so many"
        };
        assert_int_equal(child_run(print_option, &option), 0);
        assert_string_equal(out, cases[i].line);
    }
}

static void give_flag_a_value(const void *context)
{
    (void)context;
    option_text(&a_flag, "on", NULL);
}

static void test_flag(void **state)
{
    (void)state;
    bool is_set = false;
    const char *text = option_text(&a_flag, NULL, NULL);
    assert_string_equal(text, "on");
    option_set(&a_flag, &is_set, text, NULL);
    assert_true(is_set);
    option_set(&a_flag, &is_set, "", NULL);
    assert_false(is_set);
    assert_dies_saying(give_flag_a_value, NULL, 2, "--f takes no value");
}

int main(void)
{
    unsetenv("LOCAL_RANK");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),        cmocka_unit_test(test_command_line),
        cmocka_unit_test(test_missing_value), cmocka_unit_test(test_given_twice),
        cmocka_unit_test(test_positionals),   cmocka_unit_test(test_config_file),
        cmocka_unit_test(test_launcher),      cmocka_unit_test(test_version),
        cmocka_unit_test(test_print),         cmocka_unit_test(test_flag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
