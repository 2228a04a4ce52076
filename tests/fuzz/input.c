#include "tests/fuzz/input.h"

uint8_t input_byte(Input *input)
{
    if (input->size == 0)
        return 0;
    input->size--;
    return *input->data++;
}

Input input_part(Input *input)
{
    const uint8_t low = input_byte(input), high = input_byte(input);
    const size_t wanted = low | (size_t)(high % 4) << 8;
    const Input part = { input->data, wanted < input->size ? wanted : input->size, high >= 128 };
    input->data += part.size;
    input->size -= part.size;
    return part;
}

char *input_line(Input *input, char *line, size_t bytes)
{
    if (input->size == 0)
        return NULL;
    size_t length = 0;
    for (uint8_t byte; input->size > 0 && (byte = input_byte(input)) != '\n';)
        if (length < bytes - 1)
            line[length++] = (char)byte;
    line[length] = '\0';
    return line;
}
