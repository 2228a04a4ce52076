/*
 * event_file.h - TensorBoard's event files: curves that a browser draws while the run goes on.
 *
 * A file is a sequence of records (TensorFlow's TFRecord: a length, its checksum, the bytes, their
 * checksum), each record a protocol buffer of type Event (tensorflow/core/util/event.proto). We
 * write the file's version, scalars at a step, texts, and settings, as the page's HParams has them
 * (tensorboard/plugins/hparams/plugin_data.proto).
 */
#ifndef EXTRAS_WATCH_EVENT_FILE_H
#define EXTRAS_WATCH_EVENT_FILE_H

#include <stdint.h>
#include <stdio.h>

typedef struct {
    FILE *file; // NULL after an error
    char path[4096];
} EventFile;

/* Starts a new file in the folder, which must exist: events.out.tfevents.SECONDS.HOST.PID.NUMBER.
 * Removes from our earlier files in the folder whatever they have from first_step on, since it is
 * trained again (a fresh start: 1). A page of TensorBoard that has read it drops it, too, by a
 * SessionLog START; its Python reader ignores the first that it meets, so every file has one. Dies
 * if the folder cannot be written. Local. */
void event_file_open(EventFile *events, const char *dir, uint64_t first_step);

/* Adds the point (step, value) to the curve `tag`, e.g. "train/loss". Local; never waits for a
 * device. Warns at the first failure (disk full) and ends the file: training is worth more. */
void event_file_scalar(EventFile *events, const char *tag, uint64_t step, double value);

/* Adds a text in Markdown, and the settings of the run, which are texts by name: a text that is a
 * number is written as one. */
struct json_t;
enum { EVENT_FILE_MAX_TEXT = 12000 };
void event_file_text(EventFile *events, const char *tag, uint64_t step, const char *text);
void event_file_settings(EventFile *events, uint64_t step, const struct json_t *settings);

/* Makes what was written so far visible to readers; TensorBoard looks every few seconds. */
void event_file_flush(EventFile *events);
void event_file_close(EventFile *events);

#endif
