/*
 * The instruction of tensor cores, mma.sync, for matrices of fp16 or bf16 and sums in float: all 32
 * threads of a warp hold pieces of D = A B + C, and compute it together. Its text is parsed as it
 * stands in the source, so a register in the wrong place gives wrong numbers, as on a GPU. And
 * ldmatrix, which fetches such pieces of matrices of 8 x 8 from shared memory: lane i of the warp
 * names row i % 8 of matrix i / 8, and gets numbers two and two + 1 of row line of each matrix.
 *
 * PTX's layout: with line = lane / 4 and two = lane % 4 * 2, register i of a thread has
 *
 *     A, 16 rows          (row line + i % 2 * 8, columns two and two + 1, plus i / 2 * 8)
 *     B, 8 columns        (rows two and two + 1, plus i * 8, column line)
 *     C and D, 16 x 8     (row line + i / 2 * 8, column two + i % 2)
 */
#include <stdio.h>
#include <string.h>

#include "include/cuda_bf16.h"
#include "include/cuda_fp16.h"
#include "stand_in.h"

enum { LANES = 32, ROWS = 16, COLUMNS = 8, MAX_DEPTH = 16, MAX_REGISTERS = 4 };
enum { D, A, B, C, OPERANDS }; // in the order of the instruction's text

typedef struct {
    int depth; // the product's depth
    bool bf16;
    int count[OPERANDS], number[OPERANDS][MAX_REGISTERS]; // number of registers, and their numbers
} Mma;

/* Parses "{%4, %5}". Returns the rest of the text, or NULL on a mismatch. */
static const char *parse_registers(const char *text, int count, int *number)
{
    for (int i = 0; i < count; i++) {
        int length = 0;
        sscanf(text, i == 0 ? " { %%%d%n" : " , %%%d%n", &number[i], &length);
        if (length == 0)
            return NULL;
        text += length;
    }
    int length = 0;
    sscanf(text, " }%n", &length);
    return length > 0 ? text + length : NULL;
}

static bool parse(const char *text, Mma *mma)
{
    char type[2][5];
    int length = 0;
    sscanf(text, "mma.sync.aligned.m16n8k%d.row.col.f32.%4[bf16].%4[bf16].f32%n", &mma->depth,
           type[0], type[1], &length);
    if (length == 0 || (mma->depth != 8 && mma->depth != 16) || strcmp(type[0], type[1]) != 0)
        return false;
    mma->bf16 = strcmp(type[0], "bf16") == 0;
    mma->count[D] = mma->count[C] = 4;
    mma->count[A] = mma->depth / 4;
    mma->count[B] = mma->depth / 8;
    text += length;
    for (int i = 0; i < OPERANDS; i++) {
        if (i > 0 && *text++ != ',')
            return false;
        text = parse_registers(text, mma->count[i], mma->number[i]);
        if (text == NULL)
            return false;
    }
    return strcmp(text, ";") == 0 && (mma->bf16 || strcmp(type[0], "f16") == 0);
}

/* Returns true if the sums are floats, those of D are written, and the factors have 32 bits. */
static bool fits(const Mma *mma, const StandInPtx *instruction)
{
    for (int i = 0; i < OPERANDS; i++)
        for (int j = 0; j < mma->count[i]; j++) {
            const int number = mma->number[i][j];
            if (number < 0 || number >= instruction->num_operands)
                return false;
            const char *constraint = instruction->operands[number].constraint;
            const bool written = constraint[0] == '=' || constraint[0] == '+';
            const char *read = constraint[0] == '+' ? constraint + 1 : constraint;
            if (i == D ? !written || constraint[1] != 'f' : strcmp(read, i == C ? "f" : "r") != 0)
                return false;
        }
    return true;
}

static void *register_of(const StandInPtx *lane, const Mma *mma, int operand, int i)
{
    return lane->operands[mma->number[operand][i]].value;
}

/* Unpacks the two numbers in a register. */
static void unpack(const Mma *mma, const void *from, float two[2])
{
    for (int i = 0; i < 2; i++) {
        __nv_bfloat16 bf16;
        __half fp16;
        memcpy(&bf16, (const char *)from + 2 * i, 2);
        memcpy(&fp16, (const char *)from + 2 * i, 2);
        two[i] = mma->bf16 ? __bfloat162float(bf16) : __half2float(fp16);
    }
}

static void execute(const Mma *mma, const StandInPtx lanes[LANES])
{
    float a[ROWS][MAX_DEPTH], b[COLUMNS][MAX_DEPTH];
    for (int lane = 0; lane < LANES; lane++) {
        const int line = lane / 4, two = lane % 4 * 2;
        for (int i = 0; i < mma->count[A]; i++)
            unpack(mma, register_of(&lanes[lane], mma, A, i),
                   &a[line + i % 2 * 8][two + i / 2 * 8]);
        for (int i = 0; i < mma->count[B]; i++)
            unpack(mma, register_of(&lanes[lane], mma, B, i), &b[line][two + i * 8]);
    }
    for (int lane = 0; lane < LANES; lane++) {
        float sums[MAX_REGISTERS];
        for (int i = 0; i < mma->count[C]; i++) {
            const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
            sums[i] = *(const float *)register_of(&lanes[lane], mma, C, i);
            for (int k = 0; k < mma->depth; k++)
                sums[i] += a[row][k] * b[column][k];
        }
        for (int i = 0; i < mma->count[D]; i++)
            *(float *)register_of(&lanes[lane], mma, D, i) = sums[i];
    }
}

typedef struct {
    int count, number[MAX_REGISTERS], address; // matrices; their registers and the address's
} Load;

static bool parse_load(const char *text, Load *load)
{
    int length = 0, end = 0;
    sscanf(text, "ldmatrix.sync.aligned.m8n8.x%d.shared.b16%n", &load->count, &length);
    if (length == 0 || (load->count != 1 && load->count != 2 && load->count != 4))
        return false;
    text = parse_registers(text + length, load->count, load->number);
    if (text != NULL)
        sscanf(text, " , [ %%%d ] ;%n", &load->address, &end);
    return end > 0 && text[end] == '\0';
}

static bool load_fits(const Load *load, const StandInPtx *instruction)
{
    for (int i = 0; i <= load->count; i++) {
        const int number = i < load->count ? load->number[i] : load->address;
        if (number < 0 || number >= instruction->num_operands ||
            strcmp(instruction->operands[number].constraint, i < load->count ? "=r" : "r") != 0)
            return false;
    }
    return true;
}

static void execute_load(const StandInLaunch *launch, const Load *load,
                         const StandInPtx lanes[LANES])
{
    const char *rows[LANES];
    for (int i = 0; i < 8 * load->count; i++) {
        const unsigned at = *(const unsigned *)lanes[i].operands[load->address].value;
        if (at % 16 != 0 || at + 16 > (size_t)(launch->shared_end - launch->shared_begin))
            stand_in_fail("%s: ldmatrix: lane %d names no 16 aligned bytes of shared memory",
                          launch->name, i);
        rows[i] = launch->shared_begin + at;
    }
    unsigned pieces[LANES][MAX_REGISTERS];
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < load->count; i++)
            memcpy(&pieces[lane][i], rows[8 * i + lane / 4] + lane % 4 * 4, 4);
    for (int lane = 0; lane < LANES; lane++)
        for (int i = 0; i < load->count; i++)
            *(unsigned *)lanes[lane].operands[load->number[i]].value = pieces[lane][i];
}

void stand_in_execute(const StandInLaunch *launch, const StandInPtx lanes[LANES])
{
    Mma mma;
    Load load;
    const bool is_load = parse_load(lanes[0].text, &load);
    if (!is_load && !parse(lanes[0].text, &mma))
        stand_in_fail("%s: no instruction that the stand-in knows: %s", launch->name,
                      lanes[0].text);
    if (!(is_load ? load_fits(&load, &lanes[0]) : fits(&mma, &lanes[0])))
        stand_in_fail("%s: operands of another number or type than this wants: %s", launch->name,
                      lanes[0].text);
    if (is_load)
        execute_load(launch, &load, lanes);
    else
        execute(&mma, lanes);
}
