/* Port: where it is remembered, across processes, in which upload session of a registry an interrupted push stands. A note
 * is short and holds neither credentials nor content; losing one costs nothing but time, so nothing here fails.
 * Adapters: files in a directory (push_notes_in_directory), and whatever else a user of repository_remote.h has. */
#pragma once

#include "base/ctx.h"

/* Called from several threads at once. `name` is 64 hex digits; a note has at most PUSH_NOTE_MAX_BYTES. */
typedef struct {
  char *(*load) (gpointer data, const char *name); /* NULL: there is none; the caller frees */
  void (*save) (Ctx *ctx, gpointer data, const char *name,
                const char *note); /* in place of the one before; NULL: none */
  gpointer data;
} PushNotes;

#define PUSH_NOTE_MAX_BYTES 4096

/* A small JSON file <dir>/<name>.json for each. `dir` is borrowed, and made when it is missing. */
PushNotes push_notes_in_directory (const char *dir);

/* What pushes of the same content to the same place have in common; NULL when `key` is. Caller frees. */
char *push_note_name (const char *host, const char *repository, const char *key);
/* The session's path ("/v2/..."), or NULL. `self` and `name` may be NULL everywhere. Caller frees. */
char *push_note_load (const PushNotes *self, const char *name);
/* Remembers the path of the URL `location`; one with a query is not kept, it may be secret. */
void push_note_save (Ctx *ctx, const PushNotes *self, const char *name, const char *location);
void push_note_remove (Ctx *ctx, const PushNotes *self, const char *name);
