/*
 * journal.h - DDP_JOURNAL=FOLDER: what this rank did, one line of text for each call, in
 * FOLDER/rankR.txt. The README of this folder lists the lines.
 *
 * A journal has no times: two equal runs differ in the process ids only. make check-lab judges a
 * program by its journals. Without the variable there is no file, and these functions do nothing.
 * For the training thread only. Local.
 */
#ifndef EXTRAS_WATCH_JOURNAL_H
#define EXTRAS_WATCH_JOURNAL_H

#include "common/nn/model.h"

bool journal_enabled(void);

/* Opens this rank's file, if none is open. */
void journal_open(int rank);
bool journal_is_open(void);

/* Adds a line. */
void journal_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Notes that training is about to begin, with these weights. Opens the file, if none is open. */
void journal_model(const Model *model, int rank);
/* Returns " data=grads+1198592" if data is within an array of that model; otherwise "". */
const char *journal_data(const float *data, char text[40]);
void journal_batch(const Batch *batch, bool is_training);
void journal_dropout(const char *layer, const DropoutKey *key);
void journal_step(const Model *model, int epoch);

#endif
